//! RIST by librist, main profile. It has no mode for files.

use crate::foreign::{RIST, Settings};
use crate::record::arrived;
use crate::traffic::{fragments, generate, taken};
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[Rival::new(
    "rist",
    "rist",
    "main profile, buffer = deadline - RTT/2 - 10 ms, at least 20 ms; the program fragments",
)
.without_file()];

/// Seven packets of MPEG-TS, as in SRT.
const LONGEST: usize = 1316;

pub(crate) fn run(side: Side, job: &Job) -> Outcome<()> {
    let settings = Settings {
        milliseconds: job.fitting_latency().as_millis() as u64,
        is_file: false,
    };
    if side == Side::Receiver {
        return RIST.accept(job.addr, settings)?.receive_all(arrived);
    }
    let connection = RIST.connect(job.addr, settings)?;
    let mut messages = generate(job);
    while let Some(message) = messages.blocking_recv() {
        for fragment in fragments(&message, LONGEST) {
            connection.send(&fragment)?;
        }
        taken();
    }
    Ok(())
}
