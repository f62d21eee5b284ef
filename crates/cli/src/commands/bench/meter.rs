//! The time and memory of a run.

use std::fs;
use std::time::{Duration, Instant};

use crate::commands::perf;
use crate::output;

/// A measurement that begins when the meter is created.
#[derive(Debug)]
pub(super) struct Meter {
    begun: Instant,
    cpu: Duration,
    wanted: Option<Duration>,
}

/// A run and its cost.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) wall: Duration,
    /// Processor time of all threads; zero if the system does not report it.
    pub(super) cpu: Duration,
    /// The processor time, plus the time that threads waited for a processor; `None` if the system does not report it (not
    /// Linux).
    wanted: Option<Duration>,
    /// The peak resident memory, in bytes.
    pub(super) resident: Option<u64>,
    /// Bytes of the largest packet, without the headers of UDP and IP.
    pub(super) packet: u16,
    /// Packets to the receiver, and packets back to the sender.
    pub(super) packets: u64,
    pub(super) answers: u64,
}

impl Meter {
    pub(super) fn start() -> Self {
        Self {
            begun: Instant::now(),
            cpu: cpu_time(),
            wanted: wanted_time(),
        }
    }

    pub(super) fn report(&self, messages: u64, bytes: u64, packet: u16, packets: [u64; 2]) -> Report {
        let [packets, answers] = packets;
        Report {
            messages,
            bytes,
            wall: self.begun.elapsed(),
            cpu: cpu_time().saturating_sub(self.cpu),
            wanted: wanted_time()
                .zip(self.wanted)
                .map(|(after, before)| after.saturating_sub(before)),
            resident: output::peak_resident(),
            packet,
            packets,
            answers,
        }
    }
}

impl Report {
    pub(super) fn megabits(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.wall.as_secs_f64()
    }

    pub(super) fn messages_per_second(&self) -> f64 {
        self.messages as f64 / self.wall.as_secs_f64()
    }

    /// The average number of busy processors.
    pub(super) fn processors(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }

    /// The average number of processors that the run would have used on an otherwise idle machine.
    pub(super) fn processors_wanted(&self) -> Option<f64> {
        self.wanted
            .map(|wanted| wanted.as_secs_f64() / self.wall.as_secs_f64())
    }

    pub(super) fn cpu_per_message_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.messages.max(1) as f64
    }
}

/// Processor time of all threads; zero if the system does not report it.
pub(super) fn cpu_time() -> Duration {
    perf::cpu_time().unwrap_or_default()
}

/// The time that the present threads used a processor or waited for one.
fn wanted_time() -> Option<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task").ok()?.flatten() {
        // The file of a thread that has just ended does not exist any more.
        let times = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let times = times
            .split(' ')
            .take(2)
            .filter_map(|time| time.parse::<u64>().ok());
        nanos += times.sum::<u64>();
    }
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}
