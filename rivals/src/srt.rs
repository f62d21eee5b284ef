//! SRT by libsrt: live mode for the messages, file mode for the file on the next port.
//!
//! Live mode holds each packet until its time stamp plus the latency. The time stamps are compared with the clock when the connection is
//! set up, so the network's delay comes on top of the latency.

use crate::foreign::{SRT, Settings};
use crate::record::{arrived, file_bytes};
use crate::traffic::{PART, fragments, generate, taken};
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new(
        "srt",
        "srt",
        "live mode, latency = deadline - RTT/2 - 10 ms, at least 20 ms; the program fragments",
    ),
    Rival::new(
        "srt-documented",
        "srt",
        "live mode, latency = 4 RTT, at least 120 ms, as the documentation recommends",
    )
    .second(),
];

/// The longest message of the live mode.
const LONGEST: usize = 1316;

fn settings(job: &Job, is_file: bool) -> Settings {
    let documented = (4 * job.rtt).max(120);
    let fitting = job.fitting_latency().as_millis() as u64;
    let milliseconds = if job.rival == "srt" { fitting } else { documented };
    Settings {
        milliseconds,
        is_file,
    }
}

pub(crate) fn run(side: Side, job: &Job) -> Outcome<()> {
    let (file_addr, of_file) = (job.addr_of_file(), settings(job, true));
    if side == Side::Receiver {
        std::thread::spawn(move || {
            SRT.accept(file_addr, of_file)?
                .receive_all(|bytes| file_bytes(bytes.len()))
        });
        return SRT.accept(job.addr, settings(job, false))?.receive_all(arrived);
    }
    let connection = SRT.connect(job.addr, settings(job, false))?;
    if job.file {
        let file = SRT.connect(file_addr, of_file)?;
        std::thread::spawn(move || while file.send(&[0x5a; PART]).is_ok() {});
    }
    let mut messages = generate(job);
    while let Some(message) = messages.blocking_recv() {
        for fragment in fragments(&message, LONGEST) {
            connection.send(&fragment)?;
        }
        taken();
    }
    Ok(())
}
