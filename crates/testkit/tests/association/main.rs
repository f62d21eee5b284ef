//! The life of an association: its set-up and its end, its addresses before they are confirmed, and packets that others send.

mod amplification;
mod attacks;
mod collisions;
mod confirmations;
mod consequences;
mod endings;
mod ends;
mod error_causes;
mod failed_calls;
mod fallback;
mod hostile_endings;
mod icmp;
mod limits;
mod out_of_the_blue;
mod setup;
mod shutdown;
mod silence;
mod stalled;
mod takeover;
mod vanished;
mod zero_checksum;

use anabranch_testkit::{Script, quiet};

/// An endpoint without an association.
fn nobody() -> Script {
    Script::new(quiet(), 1)
}

/// An endpoint with an association, after set-up and its events.
fn established() -> Script {
    let mut script = nobody();
    script.set_up();
    script.events();
    script
}
