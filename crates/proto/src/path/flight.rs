//! The flight of a path: the chunks sent there that are neither acknowledged nor lost, in the order of transmission. Only this module
//! counts bytes in flight (flightsize, RFC 9260 §1.3), knows the earliest outstanding TSN (§6.3.2 R3) and keeps the order of
//! transmission.
//!
//! A *transmission* is one sending of a chunk, a retransmission included. Transmissions of a path are numbered in order
//! (draft-tuexen-tsvwg-sctp-multipath §3.1 keeps such an order for each path). If acknowledgements name transmissions (ECA-SCTP), the
//! number is the path sequence number (PSN); otherwise no packet carries it.

use std::collections::{BTreeSet, VecDeque};

use crate::seq::ExtendedTsn;
use crate::time::Timestamp;

/// The number of a transmission on its path, from 0.
pub(crate) type SendNo = u64;

/// The most transmissions between the receiver's cumulative PSN and the newest one: the range of gap ack blocks.
const MOST_NAMED: u64 = 65_535;

/// The known fate of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// In flight.
    Open,
    /// In flight again: an acknowledgement named it before, and the receiver reneged on its chunk.
    Reneged,
    /// Arrived, as far as is known.
    Arrived,
    /// Lost; or obsolete, because another transmission brought its chunk or its message was abandoned.
    Closed,
    /// A copy, whose arrival is unknown (ECA-SCTP): sent beside another transmission of its chunk, or obsolete since a copy brought it.
    Copy,
}

/// One transmission of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) tsn: ExtendedTsn,
    pub(crate) sent_at: Timestamp,
    /// The first transmission of its packet.
    pub(crate) packet: SendNo,
    pub(crate) fate: Fate,
    retransmission: bool,
    copy: bool,
}

impl Sending {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.fate, Fate::Open | Fate::Reneged)
    }

    /// Whether its chunk was sent before.
    pub(crate) fn is_retransmission(&self) -> bool {
        self.retransmission
    }

    /// Whether it is or was a copy: another transmission of its chunk may have arrived too, without being spurious.
    pub(crate) fn is_copy(&self) -> bool {
        self.copy
    }

    /// Whether this transmission is known to have arrived.
    pub(crate) fn has_arrived(&self) -> bool {
        matches!(self.fate, Fate::Arrived | Fate::Reneged)
    }
}

/// The changes to a flight by the acknowledgement being handled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlightProgress {
    /// Bytes in flight before the acknowledgement.
    pub(crate) bytes_before: usize,
    /// The lowest and the highest transmission that it acknowledged, or [`NONE`].
    lowest: SendNo,
    highest: SendNo,
    /// Whether the chunk with the lowest TSN in flight was among them.
    pub(crate) lowest_acknowledged: bool,
    /// Whether the earliest original transmission or the earliest retransmission was among them: then a *pseudo cumulative ack* of the
    /// multipath draft, §3.2, moved.
    pub(crate) in_order: bool,
    /// The lowest TSN in flight before the acknowledgement, or [`NONE`].
    lowest_tsn: ExtendedTsn,
    earliest: SendNo,
}

/// A number that no transmission and no TSN has.
const NONE: u64 = u64::MAX;

impl FlightProgress {
    /// The lowest and the highest transmission that the acknowledgement acknowledged.
    pub(crate) fn acknowledged(&self) -> Option<(SendNo, SendNo)> {
        (self.lowest != NONE).then_some((self.lowest, self.highest))
    }
}

/// The transmissions of one path.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    sendings: VecDeque<Sending>,
    /// The number of the first transmission kept.
    base: SendNo,
    /// The earliest transmission in flight, or the next number.
    earliest: SendNo,
    /// The same for original transmissions and for retransmissions, after [`Flight::settle`].
    earliest_of: [SendNo; 2],
    /// The first transmission of the packet that is being filled.
    packet: SendNo,
    /// Bytes in flight when that packet was begun.
    bytes_before_packet: usize,
    /// TSNs of the retransmissions in flight: they are not sent in the order of TSNs.
    retransmissions: BTreeSet<ExtendedTsn>,
    /// The numbers of the retransmissions, in order; those before the earliest one in flight may be forgotten.
    retransmitted: VecDeque<SendNo>,
    /// Bytes of the chunks in flight, chunk headers and padding included.
    bytes: usize,
    /// Bytes of user data in flight.
    payload: usize,
    /// Acknowledgements name transmissions: a transmission is kept until the receiver's cumulative PSN has passed it.
    named: bool,
    progress: FlightProgress,
}

/// Reading.
impl Flight {
    /// Bytes in flight: whole DATA chunks with header and padding, as congestion windows count (RFC 9260 §1.3).
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of user data in flight, as the peer's receive window counts.
    pub(crate) fn payload(&self) -> usize {
        self.payload
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The number of the next transmission.
    pub(crate) fn next(&self) -> SendNo {
        self.base + self.sendings.len() as SendNo
    }

    /// The first transmission kept.
    pub(crate) fn base(&self) -> SendNo {
        self.base
    }

    pub(crate) fn get(&self, no: SendNo) -> Option<&Sending> {
        self.sendings.get(no.checked_sub(self.base)? as usize)
    }

    fn get_mut(&mut self, no: SendNo) -> Option<&mut Sending> {
        self.sendings.get_mut(no.checked_sub(self.base)? as usize)
    }

    /// The earliest transmission in flight, or the next number: all earlier ones are acknowledged or lost.
    pub(crate) fn earliest(&self) -> SendNo {
        self.earliest
    }

    /// The transmissions from `from` on, in order.
    pub(crate) fn range(&self, from: SendNo) -> impl Iterator<Item = (SendNo, &Sending)> {
        let from = from.max(self.base);
        let skipped = ((from - self.base) as usize).min(self.sendings.len());
        (from..).zip(self.sendings.range(skipped..))
    }

    /// The retransmissions from `from` on, in order.
    pub(crate) fn retransmissions(&self, from: SendNo) -> impl Iterator<Item = (SendNo, &Sending)> {
        let skipped = self.retransmitted.partition_point(|no| *no < from);
        let later = self.retransmitted.range(skipped..);
        later.filter_map(|no| Some((*no, self.get(*no)?)))
    }

    /// Whether the acknowledgement being handled acknowledges a transmission later than `no`.
    pub(crate) fn is_overtaken(&self, no: SendNo) -> bool {
        let newly = self.progress.acknowledged();
        newly.is_some_and(|(_, highest)| no < highest)
    }

    /// The retransmissions in flight that left before a transmission which is being acknowledged.
    pub(crate) fn overtaken_retransmissions(&self) -> Vec<ExtendedTsn> {
        if self.progress.acknowledged().is_none() {
            return Vec::new();
        }
        let open = self
            .retransmissions(self.earliest)
            .filter(|(_, sending)| sending.is_open());
        open.take_while(|(no, _)| self.is_overtaken(*no))
            .map(|(_, sending)| sending.tsn)
            .collect()
    }

    /// Whether anything in flight can measure the round-trip time: a chunk that was not sent before (Karn's algorithm).
    pub(crate) fn measures(&self) -> bool {
        let mut open = self.range(self.earliest());
        open.any(|(_, sending)| sending.is_open() && !sending.retransmission)
    }

    /// The lowest TSN in flight: the "earliest outstanding TSN" of RFC 9260 §6.3.2 R3. Valid after [`Flight::settle`].
    pub(crate) fn lowest_tsn(&self) -> Option<ExtendedTsn> {
        let [original, _] = self.earliest_of;
        let original = self.get(original).map(|sending| sending.tsn);
        let retransmitted = self.retransmissions.first().copied();
        match (original, retransmitted) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// The TSN of the newest transmission, if it is in flight. Otherwise a later transmission than all those in flight has arrived.
    pub(crate) fn newest(&self) -> Option<ExtendedTsn> {
        let mut newest = self.sendings.back();
        if newest.is_some_and(|sending| sending.fate == Fate::Copy) {
            newest = self.sendings.iter().rev().find(|one| one.fate != Fate::Copy);
        }
        newest.filter(|one| one.is_open()).map(|one| one.tsn)
    }

    /// The chunks in flight, from the newest transmission to the oldest.
    pub(crate) fn newest_first(&self) -> impl DoubleEndedIterator<Item = ExtendedTsn> {
        let skipped = (self.earliest - self.base) as usize;
        let open = self.sendings.range(skipped..).rev().filter(|one| one.is_open());
        open.map(|sending| sending.tsn)
    }

    /// The chunk to retransmit as a tail loss probe (RFC 8985 §7.3).
    pub(crate) fn to_probe(&self) -> Option<ExtendedTsn> {
        self.newest().or_else(|| self.lowest_tsn())
    }

    /// Whether another transmission can have a number: gap ack blocks must reach it.
    pub(crate) fn has_numbers(&self) -> bool {
        !self.named || self.next() - self.base < MOST_NAMED
    }

    /// The changes by this acknowledgement so far.
    pub(crate) fn progress(&self) -> &FlightProgress {
        &self.progress
    }

    /// Whether this acknowledgement made another transmission the earliest.
    pub(crate) fn earliest_moved(&self) -> bool {
        self.progress.lowest != NONE && self.earliest != self.progress.earliest
    }
}

/// Sending.
impl Flight {
    /// Begins a packet: later transmissions belong to it.
    pub(crate) fn begin_packet(&mut self) {
        self.packet = self.next();
        self.bytes_before_packet = self.bytes;
    }

    /// The first transmission of the packet that is being filled.
    pub(crate) fn packet(&self) -> SendNo {
        self.packet
    }

    /// Bytes of the chunks in the packet that is being filled.
    pub(crate) fn bytes_of_packet(&self) -> usize {
        self.bytes - self.bytes_before_packet
    }

    /// Adds the transmission of a chunk of `wire` bytes in its packet, with `payload` bytes of user data.
    pub(crate) fn push(
        &mut self,
        tsn: ExtendedTsn,
        retransmission: bool,
        now: Timestamp,
        wire: usize,
        payload: usize,
    ) -> SendNo {
        let no = self.next();
        self.sendings.push_back(Sending {
            tsn,
            sent_at: now,
            packet: self.packet,
            fate: Fate::Open,
            retransmission,
            copy: false,
        });
        if retransmission {
            self.retransmissions.insert(tsn);
            self.retransmitted.push_back(no);
        }
        self.bytes += wire;
        self.payload += payload;
        no
    }
}

/// Leaving the flight.
impl Flight {
    /// Called before an acknowledgement is handled.
    pub(crate) fn begin(&mut self) {
        // Retransmissions sent since the last acknowledgement do not move the earliest.
        if !self.retransmissions.is_empty() {
            self.settle();
        }
        self.progress = FlightProgress {
            bytes_before: self.bytes,
            lowest: NONE,
            highest: 0,
            lowest_acknowledged: false,
            in_order: false,
            lowest_tsn: self.lowest_tsn().unwrap_or(NONE),
            earliest: self.earliest,
        };
    }

    /// The transmission `no`, in flight, is acknowledged.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, no: SendNo, wire: usize, payload: usize) {
        let progress = &mut self.progress;
        progress.lowest = progress.lowest.min(no);
        progress.highest = progress.highest.max(no);
        if no == self.base && self.retransmissions.is_empty() && !self.named {
            // The common case: the earliest transmission, with the lowest TSN. The next one may be closed; `settle` skips it later.
            self.sendings.pop_front();
            self.base += 1;
            self.bytes -= wire;
            self.payload -= payload;
            progress.lowest_acknowledged = true;
            progress.in_order = true;
        } else {
            self.acknowledge_later(no, wire, payload);
        }
    }

    /// The same for a transmission that is not the earliest.
    fn acknowledge_later(&mut self, no: SendNo, wire: usize, payload: usize) {
        if let Some(sending) = self.close(no, Fate::Arrived, wire, payload) {
            let progress = &mut self.progress;
            progress.lowest_acknowledged |= progress.lowest_tsn == sending.tsn;
            progress.in_order |= self.earliest_of[usize::from(sending.retransmission)] == no;
        }
    }

    /// Removes the transmission `no` from the flight; returns it as it was.
    pub(crate) fn close(&mut self, no: SendNo, fate: Fate, wire: usize, payload: usize) -> Option<Sending> {
        let sending = self.get_mut(no)?;
        let was = *sending;
        sending.fate = match was.fate {
            Fate::Reneged => Fate::Arrived,
            _ => fate,
        };
        if was.retransmission {
            self.retransmissions.remove(&was.tsn);
        }
        self.bytes -= wire;
        self.payload -= payload;
        Some(was)
    }

    /// Removes everything from the flight.
    pub(crate) fn clear(&mut self) {
        self.earliest = self.next();
        if self.named {
            for sending in &mut self.sendings {
                sending.fate = match sending.fate {
                    Fate::Reneged | Fate::Arrived => Fate::Arrived,
                    Fate::Open | Fate::Closed | Fate::Copy => Fate::Closed,
                };
            }
        } else {
            self.base = self.earliest;
            self.sendings.clear();
        }
        self.earliest_of = [self.earliest; 2];
        self.retransmissions.clear();
        self.retransmitted.clear();
        self.bytes = 0;
        self.payload = 0;
    }

    /// Finds the earliest transmission in flight, and forgets those before unless they may still be named.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.named {
            while self.get(self.earliest).is_some_and(|sending| !sending.is_open()) {
                self.earliest += 1;
            }
        } else {
            while self.sendings.front().is_some_and(|first| !first.is_open()) {
                self.sendings.pop_front();
                self.base += 1;
            }
            self.earliest = self.base;
        }
        if self.retransmissions.is_empty() {
            self.earliest_of = [self.earliest, self.next()];
            self.retransmitted.clear();
        } else {
            self.find_earliest_of();
        }
    }

    #[cold]
    fn find_earliest_of(&mut self) {
        for retransmission in [false, true] {
            let mut no = self.earliest_of[usize::from(retransmission)].max(self.earliest);
            let is_it = |sending: &Sending| sending.is_open() && sending.retransmission == retransmission;
            while self.get(no).is_some_and(|sending| !is_it(sending)) {
                no += 1;
            }
            self.earliest_of[usize::from(retransmission)] = no;
        }
        let [_, earliest] = self.earliest_of;
        while self.retransmitted.front().is_some_and(|no| *no < earliest) {
            self.retransmitted.pop_front();
        }
    }

    /// Forgets the transmissions before `end`, none of which is in flight.
    fn release(&mut self, end: SendNo) {
        self.sendings.drain(..(end - self.base) as usize);
        self.base = end;
    }
}

/// ECA-SCTP: acknowledgements name transmissions.
impl Flight {
    /// Acknowledgements name transmissions from now on, which are numbered from 0 again. Nothing is in flight.
    pub(crate) fn name(&mut self) {
        *self = Self {
            named: true,
            ..Self::default()
        };
    }

    pub(crate) fn is_named(&self) -> bool {
        self.named
    }

    /// An acknowledgement names the transmission `no`. Returns its chunk if it was not named before.
    pub(crate) fn on_named(&mut self, no: SendNo) -> Option<ExtendedTsn> {
        let sending = self.get_mut(no)?;
        let news = !sending.has_arrived();
        sending.fate = match sending.fate {
            Fate::Open | Fate::Reneged => Fate::Reneged,
            Fate::Arrived | Fate::Closed | Fate::Copy => Fate::Arrived,
        };
        news.then_some(sending.tsn)
    }

    /// Adds the transmission of a copy of a chunk: it has a number, and does not count as a transmission in flight.
    pub(crate) fn push_copy(&mut self, tsn: ExtendedTsn, now: Timestamp) -> SendNo {
        let no = self.next();
        self.sendings.push_back(Sending {
            tsn,
            sent_at: now,
            packet: no,
            fate: Fate::Copy,
            retransmission: false,
            copy: true,
        });
        no
    }

    /// A copy brought the chunk of the transmission `no`, in flight, which is a copy of it from now on.
    pub(crate) fn become_copy(&mut self, no: SendNo, wire: usize, payload: usize) {
        self.close(no, Fate::Copy, wire, payload);
        if let Some(sending) = self.get_mut(no) {
            sending.copy = true;
        }
    }

    /// The copy `no` is lost, as far as is known: FORWARD-PSN may cover it.
    pub(crate) fn on_copy_lost(&mut self, no: SendNo) {
        if let Some(sending) = self.get_mut(no)
            && sending.fate == Fate::Copy
        {
            sending.fate = Fate::Closed;
        }
    }

    /// The receiver's cumulative PSN passed the transmissions before `end`: those not in flight are forgotten.
    pub(crate) fn on_passed(&mut self, end: SendNo) {
        self.release(end.min(self.earliest).max(self.base));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks 0 to `count`, each sent once.
    fn flight(count: u64) -> Flight {
        let mut flight = Flight::default();
        for tsn in 0..count {
            assert_eq!(flight.push(tsn, false, Timestamp::ZERO, 100, 80), tsn);
        }
        flight
    }

    /// An acknowledgement of these transmissions.
    fn ack(flight: &mut Flight, sendings: &[SendNo]) -> FlightProgress {
        flight.begin();
        sendings.iter().for_each(|no| flight.acknowledge(*no, 100, 80));
        flight.settle();
        *flight.progress()
    }

    #[test]
    fn original_transmissions_and_retransmissions_advance_apart() {
        let mut flight = flight(2);
        flight.push(9, true, Timestamp::ZERO, 100, 80);
        flight.push(2, false, Timestamp::ZERO, 100, 80);
        assert!(!ack(&mut flight, &[1]).in_order);
        assert!(ack(&mut flight, &[2]).in_order, "the earliest retransmission");
        assert!(!flight.earliest_moved());
        assert!(ack(&mut flight, &[0]).in_order);
        assert!(flight.earliest_moved());
        assert_eq!((flight.earliest(), flight.lowest_tsn()), (3, Some(2)));
    }

    #[test]
    fn the_lowest_tsn_need_not_be_the_earliest() {
        let mut flight = flight(4);
        flight.close(0, Fate::Closed, 100, 80);
        flight.close(1, Fate::Closed, 100, 80);
        flight.settle();
        assert_eq!((flight.earliest(), flight.lowest_tsn()), (2, Some(2)));
        let again = flight.push(0, true, Timestamp::ZERO, 100, 80);
        flight.push(1, true, Timestamp::ZERO, 100, 80);
        assert_eq!((flight.earliest(), flight.lowest_tsn()), (2, Some(0)));
        assert!(!ack(&mut flight, &[2]).lowest_acknowledged);
        assert!(ack(&mut flight, &[again]).lowest_acknowledged);
        assert_eq!((flight.bytes(), flight.payload()), (200, 160));
    }

    #[test]
    fn nothing_is_in_flight_after_a_timeout() {
        let mut flight = flight(3);
        ack(&mut flight, &[1]);
        flight.clear();
        assert_eq!((flight.bytes(), flight.lowest_tsn()), (0, None));
        assert_eq!(flight.push(0, true, Timestamp::ZERO, 100, 80), 3);
        assert!(ack(&mut flight, &[3]).in_order);
    }

    #[test]
    fn a_named_sending_is_kept_until_the_receiver_has_passed_it() {
        let mut flight = Flight::default();
        flight.name();
        for tsn in 0..3 {
            flight.push(tsn, false, Timestamp::ZERO, 100, 80);
        }
        flight.close(0, Fate::Closed, 100, 80);
        flight.settle();
        assert_eq!(flight.on_named(0), Some(0), "late, not lost");
        assert_eq!(flight.on_named(0), None);
        flight.on_passed(2);
        assert_eq!(
            (flight.base(), flight.earliest()),
            (1, 1),
            "what is in flight stays"
        );
    }
}
