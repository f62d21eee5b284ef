//! Waking in time: a thread that hands packets over asks the system to put it before others, as far as it is allowed.

use std::num::NonZeroU64;
use std::process::{Command, Stdio};

use rustix::process::nice;
use rustix::thread::{gettid, set_current_timer_slack};

/// Before those who take turns with everybody.
const NICENESS: i32 = -10;

/// Asks, for this thread, for all the precision that timers have, and for a turn as soon as there is something to do. Each is
/// refused to who lacks the right, and then what it does comes a little later on a busy machine: no reason to fail. A bed's own
/// threads have it; who measures on a bed, and is not to measure what else the machine does, asks too.
pub fn raise_priority() {
    // Else a sleep may last 50 us longer, so that several end at once.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let _ = nice(NICENESS);
    // The lowest of the real-time priorities. The kernel keeps a twentieth of the processor for all others.
    let _ = Command::new("chrt")
        .args(["--rr", "--pid", "1", &gettid().as_raw_nonzero().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
