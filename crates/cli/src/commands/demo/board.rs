//! Sent and delivered messages of each stream. Sender and receiver write to it; the progress line and the table read it.

use std::time::{Duration, Instant};

use anabranch::{Bytes, StreamId};
use sha2::{Digest, Sha256};

use super::traffic;
use crate::delays::Delays;
use crate::output::hex;

/// Bytes of the header of each message: its number, and its time of sending in nanoseconds since the start.
pub(super) const HEADER: usize = 16;

/// The traffic of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Chat,
    /// Readings with a deadline, or with the reliability that the options ask for.
    Telemetry,
    /// The same readings, reliable and ordered.
    Reliable,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::File, Self::Chat, Self::Telemetry, Self::Reliable];
    /// The streams of readings, which are compared.
    pub(super) const READINGS: [Self; 2] = [Self::Telemetry, Self::Reliable];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Chat => "chat",
            Self::Telemetry => "telemetry",
            Self::Reliable => "telemetry, reliable",
        }
    }

    /// The stream of this traffic.
    pub(super) fn stream(self) -> StreamId {
        StreamId(self as u16)
    }

    fn of(stream: StreamId) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.stream() == stream)
    }
}

/// One stream's messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) sent: u64,
    pub(super) delivered: u64,
    /// Delivered messages that were not older than [`traffic::DEADLINE`].
    pub(super) in_time: u64,
    /// Delivered messages that differ from the sent messages.
    pub(super) damaged: u64,
    /// Delivered bytes without headers.
    pub(super) bytes: u64,
    pub(super) delays: Delays,
    /// The delay of the last delivered message.
    pub(super) latest: Duration,
}

impl Stream {
    /// The share of the sent messages that arrived in time, in percent. Messages that are still outstanding count as late.
    pub(super) fn share(&self) -> f64 {
        self.in_time as f64 * 100.0 / self.sent.max(1) as f64
    }

    /// The same while readings are sent: those that may still arrive in time do not count as late.
    pub(super) fn settled_share(&self) -> f64 {
        let open = (traffic::DEADLINE.as_millis() / traffic::TELEMETRY_INTERVAL.as_millis()) as u64;
        let settled = self.sent.saturating_sub(open).max(self.in_time).max(1);
        self.in_time as f64 * 100.0 / settled as f64
    }
}

/// All streams of a run.
#[derive(Clone, Debug)]
pub(super) struct Board {
    begun: Instant,
    seed: u64,
    streams: [Stream; 4],
    file_length: u64,
    /// The sender has read the whole file.
    pub(super) file_read: bool,
    pub(super) digest_sent: Sha256,
    digest_received: Sha256,
}

impl Board {
    pub(super) fn new(begun: Instant, file_length: u64, seed: u64) -> Self {
        Self {
            begun,
            seed,
            streams: Default::default(),
            file_length,
            file_read: false,
            digest_sent: Sha256::new(),
            digest_received: Sha256::new(),
        }
    }

    /// The seed of the telemetry's content.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn stream(&self, kind: Kind) -> &Stream {
        &self.streams[kind as usize]
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = (Kind, &Stream)> {
        Kind::ALL.into_iter().zip(&self.streams)
    }

    /// Bytes of the file.
    pub(super) fn file_length(&self) -> u64 {
        self.file_length
    }

    /// Delivered bytes of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.stream(Kind::File).bytes
    }

    /// Whether the whole file was delivered.
    pub(super) fn file_through(&self) -> bool {
        let file = self.stream(Kind::File);
        self.file_read && file.delivered == file.sent
    }

    /// The checksums of the sent and of the delivered part of the file.
    pub(super) fn checksums(&self) -> (String, String) {
        (
            hex(&self.digest_sent.clone().finalize()),
            hex(&self.digest_received.clone().finalize()),
        )
    }

    /// Counts a message that is about to be sent, and adds the header.
    pub(super) fn stamp(&mut self, kind: Kind, payload: &[u8]) -> Bytes {
        let stream = &mut self.streams[kind as usize];
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend_from_slice(&stream.sent.to_be_bytes());
        let now = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        message.extend_from_slice(&now.to_be_bytes());
        message.extend_from_slice(payload);
        stream.sent += 1;
        message.into()
    }

    /// Subtracts a message that the association did not accept.
    pub(super) fn unsent(&mut self, kind: Kind) {
        self.streams[kind as usize].sent -= 1;
    }

    /// Checks and counts a delivered message.
    pub(super) fn deliver(&mut self, stream: StreamId, message: &[u8]) {
        let Some(kind) = Kind::of(stream) else { return };
        let now = self.begun.elapsed();
        let counted = &mut self.streams[kind as usize];
        let Some((header, payload)) = message.split_at_checked(HEADER) else {
            counted.damaged += 1;
            return;
        };
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0_u64, |word, &byte| word << 8 | u64::from(byte))
        };
        let (number, sent) = (word(&header[..8]), word(&header[8..]));
        counted.latest = now.saturating_sub(Duration::from_nanos(sent));
        counted.delays.push(counted.latest);
        counted.in_time += u64::from(counted.latest <= traffic::DEADLINE);
        let expected = match kind {
            Kind::File => {
                self.digest_received.update(payload);
                // The messages are ordered; the checksum compares the content.
                number == counted.delivered
            }
            Kind::Chat => number == counted.delivered && payload == traffic::chat(number).as_bytes(),
            Kind::Telemetry | Kind::Reliable => payload == traffic::telemetry(self.seed, number),
        };
        counted.damaged += u64::from(!expected);
        counted.delivered += 1;
        counted.bytes += payload.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_messages_are_counted() {
        let mut board = Board::new(Instant::now(), 4, 1);
        let message = board.stamp(Kind::Chat, traffic::chat(0).as_bytes());
        board.deliver(Kind::Chat.stream(), &message);
        assert_eq!(
            (
                board.stream(Kind::Chat).delivered,
                board.stream(Kind::Chat).damaged
            ),
            (1, 0)
        );
        let mut message = board.stamp(Kind::Telemetry, &traffic::telemetry(1, 0)).to_vec();
        message[HEADER] ^= 1;
        board.deliver(Kind::Telemetry.stream(), &message);
        assert_eq!(board.stream(Kind::Telemetry).damaged, 1);
        board.digest_sent.update(b"data");
        let message = board.stamp(Kind::File, b"data");
        assert!(!board.file_through());
        board.file_read = true;
        board.deliver(Kind::File.stream(), &message);
        assert!(board.file_through());
        let (sent, received) = board.checksums();
        assert_eq!(sent, received);
        board.deliver(Kind::File.stream(), &message);
        assert_eq!(board.stream(Kind::File).damaged, 1);
        assert_ne!(board.checksums().0, board.checksums().1);
    }
}
