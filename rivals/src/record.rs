//! The messages that a receiver has got, and the lines of JSON that sender and receiver print at the end.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::traffic::Header;
use crate::{Job, Outcome, clock, helper};

/// The first part of the file is not counted: it is slow start.
const WARM_UP: u64 = 2_000_000_000;
/// No program runs longer than this, whatever happens.
const LONGEST_RUN: Duration = Duration::from_secs(180);

/// A whole message that has arrived.
#[derive(Clone, Copy, Debug)]
struct Delivered {
    number: u64,
    made: u64,
    arrived: u64,
    length: usize,
}

#[derive(Default)]
struct Record {
    delivered: Vec<Delivered>,
    /// The number of fragments that have arrived.
    fragments: HashMap<u64, u16>,
    duplicates: u64,
    /// Messages that arrived after a message with a higher number.
    out_of_order: u64,
    newest: u64,
    /// When the first byte of the file arrived, and the last byte.
    file_begin: Option<u64>,
    file_end: u64,
    /// Bytes after the warm-up.
    file: u64,
}

static RECORD: LazyLock<Mutex<Record>> = LazyLock::new(Mutex::default);

/// Records a whole message, a fragment of a message, or a part of the file.
pub(crate) fn arrived(bytes: &[u8]) {
    let now = clock::now();
    let Some(header) = Header::read(bytes) else {
        return;
    };
    let mut record = RECORD.lock().expect("no holder panics");
    if header.is_file {
        record.file_bytes(now, bytes.len());
    } else {
        record.message(now, &header);
    }
}

/// Records bytes of a file that comes without headers.
#[cfg(feature = "srt")]
pub(crate) fn file_bytes(count: usize) {
    RECORD
        .lock()
        .expect("no holder panics")
        .file_bytes(clock::now(), count);
}

impl Record {
    fn message(&mut self, now: u64, header: &Header) {
        let fragments = self.fragments.entry(header.number).or_default();
        *fragments += 1;
        if *fragments > header.fragments {
            self.duplicates += 1;
        } else if *fragments == header.fragments {
            let (number, made, length) = (header.number, header.made, header.length);
            self.delivered.push(Delivered {
                number,
                made,
                arrived: now,
                length,
            });
            self.out_of_order += u64::from(header.number < self.newest);
            self.newest = self.newest.max(header.number);
        }
    }

    fn file_bytes(&mut self, now: u64, count: usize) {
        let begin = *self.file_begin.get_or_insert(now);
        if now >= begin + WARM_UP {
            self.file += count as u64;
            self.file_end = now;
        }
    }

    /// Delay and length of each delivered message, the shortest delay first. An application that needs the messages in order can use a
    /// message when all earlier messages have arrived that arrive at all.
    fn delays(&mut self, in_order: bool) -> Vec<(u64, usize)> {
        self.delivered.sort_unstable_by_key(|message| message.number);
        let mut usable = 0;
        let delay = |message: &Delivered| {
            usable = if in_order {
                usable.max(message.arrived)
            } else {
                message.arrived
            };
            (usable.saturating_sub(message.made), message.length)
        };
        let mut delays: Vec<_> = self.delivered.iter().map(delay).collect();
        delays.sort_unstable();
        delays
    }

    /// The line of the receiver.
    fn told(&mut self, job: &Job) -> Value {
        let deadline = job.traffic.deadline().as_nanos() as u64;
        let delays = self.delays(job.traffic.is_reliable());
        let in_time = delays.partition_point(|(delay, _)| *delay <= deadline);
        let quantile = |share: f64| {
            let last = delays.len().checked_sub(1)?;
            let index = (delays.len() as f64 * share).ceil() as usize;
            let (delay, _) = delays[index.saturating_sub(1).min(last)];
            Some(delay as f64 / 1e6)
        };
        let useful: usize = delays[..in_time].iter().map(|(_, length)| length).sum();
        let seconds = self
            .file_begin
            .map(|begin| self.file_end.saturating_sub(begin + WARM_UP) as f64 / 1e9);
        let goodput = seconds.map(|seconds| {
            if seconds > 0.0 {
                self.file as f64 * 8e-6 / seconds
            } else {
                0.0
            }
        });
        json!({
            "role": "receiver", "rival": job.rival, "label": job.label, "delivered": self.delivered.len(), "in_time": in_time,
            "useful_bytes": useful, "median_ms": quantile(0.5), "p99_ms": quantile(0.99), "max_ms": quantile(1.0),
            "duplicates": self.duplicates, "out_of_order": self.out_of_order, "file_mbit": goodput,
            "cpu_s": clock::processor_seconds(),
        })
    }
}

/// Makes the receiver print its line when it is asked to end (SIGTERM, as `anabranch bed` does).
pub(crate) fn tell_at_the_end(job: &Job) -> Outcome<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let job = job.clone();
    std::thread::spawn(move || {
        signals.forever().next();
        let line = RECORD.lock().expect("no holder panics").told(&job);
        end(&line);
    });
    Ok(())
}

/// Prints the sender's line and ends the program.
pub(crate) fn end_sender(job: &Job, sent: u64, taken: u64) {
    end(&json!({
        "role": "sender", "rival": job.rival, "label": job.label, "sent": sent, "taken": taken,
        "cpu_s": clock::processor_seconds(),
    }));
}

fn end(line: &Value) {
    println!("{line}");
    helper::end();
    // Without the clean-up of the C libraries, whose threads still run.
    signal_hook::low_level::exit(0);
}

/// Ends the program after three minutes, so that no process is left behind.
pub(crate) fn watch() {
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST_RUN);
        eprintln!("rival: it ran for {} s, which no job does", LONGEST_RUN.as_secs());
        signal_hook::low_level::exit(3);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(fragments: u16, number: u64) -> Header {
        Header {
            length: 100,
            is_file: false,
            fragments,
            number,
            made: 1_000_000,
        }
    }

    #[test]
    fn a_message_counts_once_and_when_it_is_whole() {
        let mut record = Record::default();
        record.message(2_000_000, &header(2, 1));
        assert!(record.delivered.is_empty());
        record.message(3_000_000, &header(2, 1));
        record.message(4_000_000, &header(2, 1));
        assert_eq!(
            (&record.delays(false)[..], record.duplicates),
            (&[(2_000_000, 100)][..], 1)
        );
        record.message(4_000_000, &header(1, 3));
        record.message(5_000_000, &header(1, 2));
        assert_eq!((record.delivered.len(), record.out_of_order), (3, 1));
        let delays = |delays: Vec<(u64, usize)>| delays.iter().map(|(delay, _)| *delay).collect::<Vec<_>>();
        assert_eq!(delays(record.delays(false)), [2_000_000, 3_000_000, 4_000_000]);
        // Message 3 is usable when message 2 is there.
        assert_eq!(delays(record.delays(true)), [2_000_000, 4_000_000, 4_000_000]);
    }

    #[test]
    fn the_file_counts_after_its_slow_start() {
        let mut record = Record::default();
        record.file_bytes(5, 1000);
        record.file_bytes(5 + WARM_UP / 2, 1000);
        assert_eq!(record.file, 0);
        record.file_bytes(5 + WARM_UP, 1000);
        record.file_bytes(5 + WARM_UP * 2, 1000);
        assert_eq!((record.file, record.file_end), (2000, 5 + WARM_UP * 2));
    }
}
