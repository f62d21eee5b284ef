//! The queue in front of a link: accepts or refuses packets.
//!
//! A packet is in the queue until its last bit has left, so the packet in transmission counts. An unmanaged queue serves packets in order
//! at a known rate: the departure time of a packet is known when it comes. The queue therefore keeps a list of departure times and needs no
//! event for them. With a managed queue, only the packet in transmission is here; the packets that wait are in [`crate::aqm`].

use core::fmt;
use std::collections::VecDeque;
use std::str::FromStr;

use anabranch_proto::Timestamp;

use crate::units::{self, Problem};

/// How much a link's queue holds, and by which rule it refuses packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum QueueLimit {
    /// No packet is refused.
    #[default]
    Unlimited,
    /// Drop-tail: a packet is refused if it would bring the queue above this number of bytes.
    Bytes(u64),
    /// Drop-tail: a packet is refused if the queue already holds this number of packets.
    Packets(u64),
    /// The rule of the emulator dummynet: a packet is refused only if the queue *already* holds more than this number of bytes. The length
    /// of the arriving packet does not matter, so small and large packets are lost with equal probability.
    Dummynet(u64),
}

/// Prefix of a limit by dummynet's rule, as text.
const DUMMYNET: &str = "dummynet:";

impl QueueLimit {
    /// Whether a queue with `bytes` and `packets` accepts a packet of `len` bytes.
    pub(crate) fn admits(self, bytes: u64, packets: u64, len: u64) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Bytes(limit) => bytes + len <= limit,
            Self::Packets(limit) => packets < limit,
            Self::Dummynet(limit) => bytes <= limit,
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Bytes(bytes) => units::write_with_unit(f, bytes, units::SIZE),
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Dummynet(bytes) => {
                f.write_str(DUMMYNET)?;
                units::write_with_unit(f, bytes, units::SIZE)
            }
        }
    }
}

impl FromStr for QueueLimit {
    type Err = Problem;

    /// Reads `64kib`, `73kb`, `1500b`, `50p`, `dummynet:73kb` or `unlimited`.
    fn from_str(text: &str) -> Result<Self, Problem> {
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(Self::Unlimited);
        }
        let lower = text.to_ascii_lowercase();
        if let Some(bytes) = lower.strip_prefix(DUMMYNET) {
            return units::size(bytes).map(Self::Dummynet);
        }
        match units::packets(text) {
            Ok(packets) => Ok(Self::Packets(packets)),
            Err(_) => units::size(text).map(Self::Bytes),
        }
    }
}

/// Queue length above which a link marks packets CE. Only the current length counts (RFC 8257 §3.1 has such a threshold).
///
/// A packet is marked if the queue already holds more than the threshold when the packet comes; the packet in transmission counts. This
/// rule does not mark Not-ECT packets and drops none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkThreshold {
    /// Bytes in the queue.
    Bytes(u64),
    /// Packets in the queue.
    Packets(u64),
}

impl MarkThreshold {
    /// Whether a packet that comes now has to be marked.
    pub(crate) fn is_exceeded(self, bytes: u64, packets: u64) -> bool {
        match self {
            Self::Bytes(threshold) => bytes > threshold,
            Self::Packets(threshold) => packets > threshold,
        }
    }
}

impl fmt::Display for MarkThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes) => units::write_with_unit(f, bytes, units::SIZE),
            Self::Packets(packets) => write!(f, "{packets}p"),
        }
    }
}

impl FromStr for MarkThreshold {
    type Err = Problem;

    /// Reads `30kb` or `20p`.
    fn from_str(text: &str) -> Result<Self, Problem> {
        match units::packets(text) {
            Ok(packets) => Ok(Self::Packets(packets)),
            Err(_) => units::size(text).map(Self::Bytes),
        }
    }
}

/// The packets that a queue holds, with their departure times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    departures: VecDeque<(Timestamp, u64)>,
    bytes: u64,
}

impl Queue {
    /// Removes packets that have left by `now`.
    pub(crate) fn settle(&mut self, now: Timestamp) {
        while let Some(&(departure, len)) = self.departures.front() {
            if departure > now {
                break;
            }
            self.departures.pop_front();
            self.bytes -= len;
        }
    }

    /// Adds a packet that will have left at `departure`.
    pub(crate) fn push(&mut self, departure: Timestamp, len: u64) {
        self.departures.push_back((departure, len));
        self.bytes += len;
    }

    /// Bytes in the queue.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets in the queue.
    pub(crate) fn packets(&self) -> u64 {
        self.departures.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_packets_bound_the_queue() {
        let mut queue = Queue::default();
        queue.push(Timestamp(10), 600);
        queue.push(Timestamp(20), 400);
        let admits = |limit: QueueLimit, len| limit.admits(queue.bytes(), queue.packets(), len);
        assert!(admits(QueueLimit::Bytes(1500), 500));
        assert!(!admits(QueueLimit::Bytes(1500), 501));
        assert!(admits(QueueLimit::Packets(3), 9000));
        assert!(!admits(QueueLimit::Packets(2), 1));
        assert!(admits(QueueLimit::Unlimited, u64::MAX / 2));
        queue.settle(Timestamp(10));
        assert_eq!((queue.packets(), queue.bytes()), (1, 400));
        queue.settle(Timestamp(99));
        assert_eq!((queue.packets(), queue.bytes()), (0, 0));
    }

    #[test]
    fn dummynet_asks_only_whether_the_limit_is_exceeded_already() {
        let mut queue = Queue::default();
        let limit = QueueLimit::Dummynet(1000);
        let admits = |queue: &Queue, len| limit.admits(queue.bytes(), queue.packets(), len);
        queue.push(Timestamp(10), 1000);
        assert!(admits(&queue, 1500), "the limit is reached, not exceeded");
        queue.push(Timestamp(20), 1500);
        assert!(!admits(&queue, 1));
        queue.settle(Timestamp(10));
        assert!(!admits(&queue, 1));
        queue.settle(Timestamp(20));
        assert!(admits(&queue, 1));
    }

    #[test]
    fn limits_are_written_and_read_back() {
        for text in [
            "unlimited",
            "64kib",
            "73kb",
            "1499b",
            "50p",
            "1mib",
            "dummynet:73kb",
        ] {
            assert_eq!(text.parse::<QueueLimit>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "64",
            "p",
            "1.5p",
            "-1b",
            "64kbit",
            "dummynet:",
            "dummynet:50p",
        ] {
            assert!(wrong.parse::<QueueLimit>().is_err(), "{wrong}");
        }
    }
}
