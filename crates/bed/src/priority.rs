//! Timely wake-ups: raises the priority of threads that deliver packets, as far as the system allows.

use std::num::NonZeroU64;
use std::process::{Command, Stdio};

use rustix::process::nice;
use rustix::thread::{gettid, set_current_timer_slack};

/// Above the default priority of other processes.
const NICENESS: i32 = -10;

/// Asks the system to give this thread the finest timer resolution and a priority above other processes. The system refuses each request
/// without the right to make it; on a busy machine the thread then runs a little later, so a refusal is not an error. A bed's own threads
/// have this priority. A program that measures on a bed should call this too, so that other load on the machine does not change the
/// results.
pub fn raise_priority() {
    // Otherwise a sleep may last 50 us longer, so that the kernel can end several sleeps at once.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let _ = nice(NICENESS);
    // The lowest real-time priority. The kernel keeps a twentieth of the processor for all other processes.
    let _ = Command::new("chrt")
        .args(["--rr", "--pid", "1", &gettid().as_raw_nonzero().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
