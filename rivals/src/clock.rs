//! The clock of all programs, and the processor time of this one.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds: the same clock in all processes and network namespaces of the machine.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Sleeps until a time of [`now`].
pub(crate) fn sleep_until(due: u64) {
    std::thread::sleep(Duration::from_nanos(due.saturating_sub(now())));
}

/// The process of a helper, whose processor time counts as well.
static CHILD: AtomicU32 = AtomicU32::new(0);

/// Counts the processor time of a child.
pub(crate) fn count_child(process: u32) {
    CHILD.store(process, Relaxed);
}

/// Processor time of this process and its helper in seconds, set-up included.
pub(crate) fn processor_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("every Linux tells this");
    let own: f64 = [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum();
    own + child_seconds(CHILD.load(Relaxed)).unwrap_or(0.0)
}

/// Processor time of a process that runs, from `/proc/PROCESS/stat`: fields 14 and 15 are ticks, of which Linux has 100 a second.
fn child_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / 100.0)
}
