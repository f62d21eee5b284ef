//! The messages: their times, sizes and deadlines, and the header by which a receiver knows them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use clap::ValueEnum;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{Job, clock, record};

/// The kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Traffic {
    /// 60 messages a second of 100 bytes, deadline 100 ms
    Game,
    /// 50 messages a second of 160 bytes, deadline 150 ms
    Telephony,
    /// 30 frames a second of 4 to 12 KiB, one of 40 KiB every 2 s, deadline 200 ms: 2.1 Mbit/s
    Video,
    /// 10 messages a second of 64 bytes, deadline 500 ms
    Control,
    /// No messages: only the file
    None,
}

impl Traffic {
    /// Messages a second.
    fn rate(self) -> u64 {
        match self {
            Self::Game => 60,
            Self::Telephony => 50,
            Self::Video => 30,
            Self::Control => 10,
            Self::None => 0,
        }
    }

    /// The time in which a message is useful.
    pub(crate) fn deadline(self) -> Duration {
        Duration::from_millis(match self {
            Self::Game => 100,
            Self::Telephony => 150,
            Self::Video | Self::None => 200,
            Self::Control => 500,
        })
    }

    /// Whether the application needs the messages in order and all of them, even late ones.
    pub(crate) fn is_reliable(self) -> bool {
        self == Self::Control
    }

    /// The length of a message; numbers begin with 0.
    fn length(self, number: u64, random: u64) -> usize {
        match self {
            Self::Game => 100,
            Self::Telephony => 160,
            Self::Control => 64,
            _ if number % 60 == 30 => 40 << 10,
            _ => (4 << 10) + (random % (8 << 10)) as usize,
        }
    }
}

/// Length of the header: length u32, kind u8, 0, fragment u16, fragments u16, 0 u16, 0 u32, number u64, time u64.
pub(crate) const HEADER: usize = 32;
/// Length of a write of the file.
pub(crate) const PART: usize = 16 << 10;
/// The longest message.
pub(crate) const LONGEST: usize = 64 << 10;

const MESSAGE: u8 = 0;
const FILE: u8 = 1;

/// The fields of a header.
pub(crate) struct Header {
    pub(crate) length: usize,
    pub(crate) is_file: bool,
    pub(crate) fragments: u16,
    pub(crate) number: u64,
    /// The time at which the message was made.
    pub(crate) made: u64,
}

impl Header {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let part = |from: usize, to: usize| bytes.get(from..to);
        (bytes.len() >= HEADER).then_some(())?;
        Some(Self {
            length: u32::from_le_bytes(part(0, 4)?.try_into().ok()?) as usize,
            is_file: bytes[4] == FILE,
            fragments: u16::from_le_bytes(part(8, 10)?.try_into().ok()?),
            number: u64::from_le_bytes(part(16, 24)?.try_into().ok()?),
            made: u64::from_le_bytes(part(24, 32)?.try_into().ok()?),
        })
    }
}

fn message(kind: u8, length: usize, number: u64, made: u64) -> Vec<u8> {
    let mut bytes = vec![0x5a; length.max(HEADER)];
    bytes[..HEADER].fill(0);
    bytes[0..4].copy_from_slice(&(length as u32).to_le_bytes());
    bytes[4] = kind;
    bytes[8..10].copy_from_slice(&1u16.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    bytes[24..32].copy_from_slice(&made.to_le_bytes());
    bytes
}

/// A write of the file.
pub(crate) fn file_part() -> Vec<u8> {
    message(FILE, PART, 0, 0)
}

/// The fragments of a message for a stack with a maximum datagram length; each fragment has the header.
pub(crate) fn fragments(message: &[u8], longest: usize) -> Vec<Vec<u8>> {
    if message.len() <= longest {
        return vec![message.to_vec()];
    }
    let (header, body) = message.split_at(HEADER);
    let parts = body.chunks(longest - HEADER);
    let count = parts.len() as u16;
    let fragment = |(number, part): (usize, &[u8])| {
        let mut bytes = [header, part].concat();
        bytes[6..8].copy_from_slice(&(number as u16).to_le_bytes());
        bytes[8..10].copy_from_slice(&count.to_le_bytes());
        bytes
    };
    parts.enumerate().map(fragment).collect()
}

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Counts a message that the stack has taken from the program.
pub(crate) fn taken() {
    TAKEN.fetch_add(1, Relaxed);
}

/// Starts a thread that makes the messages at their times, whether or not the stack takes them. The thread ends the program 1.5 s after the
/// last message.
pub(crate) fn generate(job: &Job) -> UnboundedReceiver<Vec<u8>> {
    let (sender, receiver) = unbounded_channel();
    let job = job.clone();
    std::thread::spawn(move || {
        let made = make(&job, &sender);
        std::thread::sleep(Duration::from_millis(1500));
        record::end_sender(&job, made, TAKEN.load(Relaxed));
    });
    receiver
}

/// Makes the messages; returns their number.
fn make(job: &Job, sender: &UnboundedSender<Vec<u8>>) -> u64 {
    let start = clock::now() + (job.lead * 1e9) as u64;
    let count = (job.traffic.rate() as f64 * job.seconds) as u64;
    let mut random = job.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for number in 0..count {
        clock::sleep_until(start + number * 1_000_000_000 / job.traffic.rate());
        // xorshift64: the sizes depend on the seed alone.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let length = job.traffic.length(number, random);
        let _ = sender.send(message(MESSAGE, length, number + 1, clock::now()));
    }
    clock::sleep_until(start + (job.seconds * 1e9) as u64);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_carry_the_whole_message() {
        let whole = message(MESSAGE, 5000, 7, 9);
        let parts = fragments(&whole, 1316);
        assert!(parts.len() == 4 && parts.iter().all(|part| part.len() <= 1316));
        let body: Vec<u8> = parts.iter().flat_map(|part| part[HEADER..].to_vec()).collect();
        assert_eq!(body, whole[HEADER..]);
        let header = Header::read(&parts[3]).unwrap();
        assert_eq!(
            (header.fragments, header.number, header.made, header.length),
            (4, 7, 9, 5000)
        );
    }

    #[test]
    fn the_video_has_two_megabits_a_second() {
        let random = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let bytes: usize = (0..1800)
            .map(|number| Traffic::Video.length(number, random(number)))
            .sum();
        assert!((15e6..16.5e6).contains(&(bytes as f64)), "{bytes}");
    }
}
