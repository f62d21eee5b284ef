//! The clock of all programs, and the processor time of this one.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

use crate::helper;

/// `CLOCK_MONOTONIC` in nanoseconds: the same clock in all processes and network namespaces of the machine.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Sleeps until a time of [`now`].
pub(crate) fn sleep_until(due: u64) {
    std::thread::sleep(Duration::from_nanos(due.saturating_sub(now())));
}

/// Processor time of this process and its helper in seconds, set-up included.
pub(crate) fn processor_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("every Linux tells this");
    let own: f64 = [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum();
    own + helper::seconds().unwrap_or(0.0)
}
