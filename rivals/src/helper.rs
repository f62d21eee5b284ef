//! The process of a rival that is not part of this program: its processor time, and its end.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The process, or 0.
static HELPER: AtomicI32 = AtomicI32::new(0);

/// Names the process.
#[cfg(feature = "pion")]
pub(crate) fn set(process: u32) {
    HELPER.store(process as i32, Relaxed);
}

/// Its processor time, from `/proc/PROCESS/stat`: fields 14 and 15 are ticks, of which Linux has 100 a second.
pub(crate) fn seconds() -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", HELPER.load(Relaxed))).ok()?;
    // The second field is a name in parentheses, which may contain blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / 100.0)
}

/// Ends the process before this one ends.
pub(crate) fn end() {
    #[cfg(feature = "pion")]
    {
        use nix::sys::{signal, wait};

        let process = nix::unistd::Pid::from_raw(HELPER.swap(0, Relaxed));
        if process.as_raw() > 0 {
            let _ = signal::kill(process, signal::Signal::SIGKILL);
            let _ = wait::waitpid(process, None);
        }
    }
}
