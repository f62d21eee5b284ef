//! Schedulers in which streams send in turn (RFC 8260 §3.2 to §3.6). They differ in what a turn is, and in the ring in which a stream
//! waits for its next turn.
//!
//! | scheduler | key of the ring |
//! | --- | --- |
//! | round robin, round robin per packet | one ring |
//! | priority | the stream's priority, then the deadline of its first message |
//! | fair bandwidth, weighted fair queueing | the stream's virtual time |
//!
//! A stream's *virtual time* is the number of bytes that it has sent, divided by its weight (start-time fair queueing: Goyal, Vin and
//! Cheng, SIGCOMM 1996). The stream with the lowest virtual time sends next. A stream that had no data begins at the virtual time of the
//! other streams, so that it gains no credit while it is idle. Keys are virtual times rounded down to about one packet at the stream's
//! weight. Streams of equal weight then share two or three rings however many they are, and later turns compensate for the rounding.

use anabranch_wire::StreamId;

use super::accepted::Accepted;
use super::rings::{Key, Rings};
use super::settings::Settings;
use crate::config::SchedulerKind;
use crate::paged::Paged;

/// Fractional bits of a virtual time, which is in bytes at weight 1: a byte still counts at the largest weight.
const FRACTION: u32 = 16;
/// Bits of about one packet: 1,024 bytes.
const PACKET: u32 = 10;

#[derive(Debug, Default)]
struct Account {
    virtual_time: Key,
    /// Its first message waits for its next part: until then the stream is in no ring.
    parked: bool,
}

#[derive(Debug)]
pub(super) struct Turns {
    kind: SchedulerKind,
    rings: Rings,
    accounts: Paged<Account>,
    /// The virtual time of the stream that is sending.
    now: Key,
    /// The highest virtual time of any stream.
    latest: Key,
    /// The stream of the packet that is being filled (round robin per packet).
    packet_of: Option<StreamId>,
}

impl Turns {
    pub(super) fn new(kind: SchedulerKind) -> Self {
        Self {
            kind,
            rings: Rings::default(),
            accounts: Paged::default(),
            now: 0,
            latest: 0,
            packet_of: None,
        }
    }

    /// The key of the ring for a stream's next turn.
    fn key(&mut self, stream: StreamId, settings: &Settings) -> Key {
        let weight = match self.kind {
            SchedulerKind::FirstComeFirstServed
            | SchedulerKind::RoundRobin
            | SchedulerKind::RoundRobinPerPacket => return 0,
            SchedulerKind::Priority => {
                let due = settings.due(stream).0;
                return Key::from(settings.priority(stream)) << u64::BITS | Key::from(due);
            }
            SchedulerKind::FairBandwidth => 1,
            SchedulerKind::WeightedFairQueueing => settings.weight(stream),
        };
        let account = self.accounts.touch(stream);
        account.virtual_time = account.virtual_time.max(self.now);
        let grain = (FRACTION + PACKET) - u32::from(weight).ilog2();
        account.virtual_time >> grain << grain
    }

    fn charge(&mut self, stream: StreamId, bytes: usize, settings: &Settings) {
        let weight = match self.kind {
            SchedulerKind::FairBandwidth => 1,
            SchedulerKind::WeightedFairQueueing => settings.weight(stream),
            _ => return,
        };
        let served = self.rings.key(stream).unwrap_or(0);
        self.now = self.now.max(served);
        let account = self.accounts.touch(stream);
        account.virtual_time += Key::from(((bytes as u64) << FRACTION) / u64::from(weight));
        self.latest = self.latest.max(account.virtual_time);
    }

    /// The stream has data.
    pub(super) fn enter(&mut self, stream: StreamId, settings: &Settings) {
        if self.rings.key(stream).is_none() {
            let key = self.key(stream, settings);
            self.rings.push_back(stream, key);
        }
    }

    /// The stream has no data.
    fn leave(&mut self, stream: StreamId) {
        self.rings.remove(stream);
        if self.rings.is_empty() {
            self.now = self.latest;
        }
    }

    pub(super) fn front(&self) -> Option<StreamId> {
        match self.packet_of {
            Some(stream) => self.rings.key(stream).map(|_| stream),
            None => self.rings.front(),
        }
    }

    pub(super) fn accept(&mut self, stream: StreamId, accepted: Accepted, settings: &Settings) {
        self.charge(stream, accepted.bytes, settings);
        let turn_is_over = if self.kind == SchedulerKind::RoundRobinPerPacket {
            self.packet_of = Some(stream);
            false
        } else {
            accepted.ended || accepted.interleaves
        };
        if !accepted.more {
            self.leave(stream);
        } else if turn_is_over {
            self.go_to_the_end(stream, settings);
        }
    }

    /// Moves the stream to the end of its ring.
    fn go_to_the_end(&mut self, stream: StreamId, settings: &Settings) {
        let Some(from) = self.rings.key(stream) else {
            return;
        };
        let to = self.key(stream, settings);
        // A stream that is alone in its ring follows itself.
        if to != from || !self.rings.is_alone(stream) {
            self.rings.remove(stream);
            self.rings.push_back(stream, to);
        }
    }

    pub(super) fn on_packet(&mut self, settings: &Settings) {
        if let Some(stream) = self.packet_of.take() {
            self.go_to_the_end(stream, settings);
        }
    }

    pub(super) fn park(&mut self, stream: StreamId) {
        self.leave(stream);
        self.accounts.touch(stream).parked = true;
    }

    pub(super) fn unpark(&mut self, stream: StreamId, settings: &Settings) {
        if let Some(account) = self.accounts.at_mut(stream)
            && core::mem::take(&mut account.parked)
        {
            self.enter(stream, settings);
        }
    }

    pub(super) fn on_abandoned(&mut self, stream: StreamId, left: usize, settings: &Settings) {
        if left == 0 {
            self.leave(stream);
            if let Some(account) = self.accounts.at_mut(stream) {
                account.parked = false;
            }
        } else {
            self.unpark(stream, settings);
        }
    }

    /// The stream's priority, weight or deadline was changed.
    pub(super) fn on_change(&mut self, stream: StreamId, settings: &Settings) {
        self.go_to_the_end(stream, settings);
    }
}
