//! The flight of a path: what was sent there and is neither acknowledged nor lost, in the order in which it left. The only
//! place that counts bytes in flight, knows the earliest outstanding chunk and keeps the order of sending.
//!
//! Each time that a chunk is sent, a retransmission too, is a *sending*. It takes the next number of its path
//! (draft-tuexen-tsvwg-sctp-multipath §3.1 keeps such an order for each path). Where acknowledgements name sendings (ECA-SCTP),
//! the number is the PSN; elsewhere no packet has it.

use std::collections::{BTreeSet, VecDeque};

use crate::seq::ExtendedTsn;
use crate::time::Timestamp;

/// The number of a sending on its path, from 0.
pub(crate) type SendNo = u64;

/// How many sendings may wait for the receiver's cumulative PSN: gap ack blocks reach no further.
const MOST_NAMED: u64 = 65_535;

/// What is known of a sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// In flight.
    Open,
    /// In flight, though an acknowledgement has named it: the receiver reneged on its chunk.
    Reneged,
    /// It arrived, as far as can be told.
    Arrived,
    /// Lost, or of no interest any more because another sending brought its chunk, or because its message was abandoned.
    Closed,
}

/// One transmission of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) tsn: ExtendedTsn,
    pub(crate) sent_at: Timestamp,
    /// The first sending of its packet.
    pub(crate) packet: SendNo,
    pub(crate) fate: Fate,
    retransmission: bool,
}

impl Sending {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.fate, Fate::Open | Fate::Reneged)
    }

    /// Whether its chunk was sent before.
    pub(crate) fn is_retransmission(&self) -> bool {
        self.retransmission
    }

    /// Whether it is known to have arrived.
    pub(crate) fn has_arrived(&self) -> bool {
        matches!(self.fate, Fate::Arrived | Fate::Reneged)
    }
}

/// What the acknowledgement at hand did to a flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlightProgress {
    /// Bytes in flight before it.
    pub(crate) bytes_before: usize,
    /// The lowest sending that it acknowledged, or [`NONE`], and the highest.
    lowest: SendNo,
    highest: SendNo,
    /// Whether the chunk with the lowest TSN in flight was among them.
    pub(crate) lowest_acknowledged: bool,
    /// Whether the earliest original transmission or the earliest retransmission was: the *pseudo cumulative acks* of the
    /// multipath draft, §3.2, moved.
    pub(crate) in_order: bool,
    /// The lowest TSN in flight before it, or [`NONE`].
    lowest_tsn: ExtendedTsn,
    earliest: SendNo,
}

/// No sending, and no TSN, has this number.
const NONE: u64 = u64::MAX;

impl FlightProgress {
    /// The lowest and the highest sending that the acknowledgement acknowledged.
    pub(crate) fn acknowledged(&self) -> Option<(SendNo, SendNo)> {
        (self.lowest != NONE).then_some((self.lowest, self.highest))
    }
}

/// The sendings of one path.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    sendings: VecDeque<Sending>,
    /// The number of the first of them.
    base: SendNo,
    /// The earliest that is open, or the next number.
    earliest: SendNo,
    /// The same of original transmissions, and of retransmissions, once [`Flight::settle`] was called.
    earliest_of: [SendNo; 2],
    /// The first sending of the packet that is being filled.
    packet: SendNo,
    /// Bytes in flight when it was begun.
    bytes_before_packet: usize,
    /// TSNs of the retransmissions that are open: they are not sent in the order of TSNs.
    retransmissions: BTreeSet<ExtendedTsn>,
    /// Bytes of the chunks in flight, chunk headers and padding included.
    bytes: usize,
    /// Bytes of user data in flight.
    payload: usize,
    /// Acknowledgements name sendings: those that are not in flight any more are kept until the receiver has passed them.
    named: bool,
    progress: FlightProgress,
}

/// Reading.
impl Flight {
    /// Bytes in flight: whole DATA chunks with header and padding, as congestion windows count (RFC 9260 §1.6).
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

    /// The number of the next sending.
    pub(crate) fn next(&self) -> SendNo {
        self.base + self.sendings.len() as SendNo
    }

    /// The first sending that is kept.
    pub(crate) fn base(&self) -> SendNo {
        self.base
    }

    pub(crate) fn get(&self, no: SendNo) -> Option<&Sending> {
        self.sendings.get(no.checked_sub(self.base)? as usize)
    }

    fn get_mut(&mut self, no: SendNo) -> Option<&mut Sending> {
        self.sendings.get_mut(no.checked_sub(self.base)? as usize)
    }

    /// The earliest sending in flight, or the next: everything before it is settled.
    pub(crate) fn earliest(&self) -> SendNo {
        self.earliest
    }

    /// Sendings from `from` on, in order.
    pub(crate) fn range(&self, from: SendNo) -> impl Iterator<Item = (SendNo, &Sending)> {
        let from = from.max(self.base);
        let skipped = ((from - self.base) as usize).min(self.sendings.len());
        (from..).zip(self.sendings.range(skipped..))
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

    /// The TSN of the newest sending, if it is in flight: if not, something later than all that is in flight has arrived.
    pub(crate) fn newest(&self) -> Option<ExtendedTsn> {
        let newest = self.sendings.back().filter(|sending| sending.is_open());
        newest.map(|sending| sending.tsn)
    }

    /// The chunk whose retransmission tells most of those in flight.
    pub(crate) fn to_probe(&self) -> Option<ExtendedTsn> {
        self.newest().or_else(|| self.lowest_tsn())
    }

    /// Whether another sending could be named: there are numbers for only so many at a time.
    pub(crate) fn has_numbers(&self) -> bool {
        !self.named || self.next() - self.base < MOST_NAMED
    }

    /// What the acknowledgement at hand has done so far.
    pub(crate) fn progress(&self) -> &FlightProgress {
        &self.progress
    }

    /// Whether the acknowledgement at hand made another sending the earliest.
    pub(crate) fn earliest_moved(&self) -> bool {
        self.progress.lowest != NONE && self.earliest != self.progress.earliest
    }
}

/// Sending.
impl Flight {
    /// A packet begins: what is sent from now on is in it.
    pub(crate) fn begin_packet(&mut self) {
        self.packet = self.next();
        self.bytes_before_packet = self.bytes;
    }

    /// The first sending of the packet that is being filled.
    pub(crate) fn packet(&self) -> SendNo {
        self.packet
    }

    /// Bytes of the chunks in the packet that is being filled.
    pub(crate) fn bytes_of_packet(&self) -> usize {
        self.bytes - self.bytes_before_packet
    }

    /// A chunk is sent, `wire` bytes long in its packet with `payload` bytes of user data.
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
        });
        if retransmission {
            self.retransmissions.insert(tsn);
        }
        self.bytes += wire;
        self.payload += payload;
        no
    }
}

/// Leaving the flight.
impl Flight {
    /// An acknowledgement begins.
    pub(crate) fn begin(&mut self) {
        // What else was sent since the last one does not move the earliest.
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

    /// The sending `no`, in flight, is acknowledged.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, no: SendNo, wire: usize, payload: usize) {
        let progress = &mut self.progress;
        progress.lowest = progress.lowest.min(no);
        progress.highest = progress.highest.max(no);
        if no == self.base && self.retransmissions.is_empty() && !self.named {
            // As most are: the earliest, and so with the lowest TSN. The next may be closed; it is settled later.
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

    /// The same of any other than the earliest.
    fn acknowledge_later(&mut self, no: SendNo, wire: usize, payload: usize) {
        if let Some(sending) = self.close(no, Fate::Arrived, wire, payload) {
            let progress = &mut self.progress;
            progress.lowest_acknowledged |= progress.lowest_tsn == sending.tsn;
            progress.in_order |= self.earliest_of[usize::from(sending.retransmission)] == no;
        }
    }

    /// The sending `no`, in flight, is so no more; answers it as it was.
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

    /// Nothing is in flight any more.
    pub(crate) fn clear(&mut self) {
        self.earliest = self.next();
        if self.named {
            for sending in self.sendings.iter_mut().filter(|sending| sending.is_open()) {
                sending.fate = match sending.fate {
                    Fate::Reneged => Fate::Arrived,
                    _ => Fate::Closed,
                };
            }
        } else {
            self.base = self.earliest;
            self.sendings.clear();
        }
        self.earliest_of = [self.earliest; 2];
        self.retransmissions.clear();
        self.bytes = 0;
        self.payload = 0;
    }

    /// Finds the earliest in flight, and forgets what lies before it unless it may still be named.
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
    }

    /// Forgets the sendings before `end`, none of which is in flight.
    fn release(&mut self, end: SendNo) {
        self.sendings.drain(..(end - self.base) as usize);
        self.base = end;
    }
}

/// Where acknowledgements name sendings.
impl Flight {
    /// Acknowledgements name sendings from now on, which are numbered anew. Nothing is in flight.
    pub(crate) fn name(&mut self) {
        *self = Self {
            named: true,
            ..Self::default()
        };
    }

    pub(crate) fn is_named(&self) -> bool {
        self.named
    }

    /// An acknowledgement names the sending `no`. Answers its chunk if that is news.
    pub(crate) fn on_named(&mut self, no: SendNo) -> Option<ExtendedTsn> {
        let sending = self.get_mut(no)?;
        let news = !sending.has_arrived();
        sending.fate = match sending.fate {
            Fate::Open | Fate::Reneged => Fate::Reneged,
            Fate::Arrived | Fate::Closed => Fate::Arrived,
        };
        news.then_some(sending.tsn)
    }

    /// The receiver waits for no sending before `end`: those that are not in flight are forgotten.
    pub(crate) fn on_passed(&mut self, end: SendNo) {
        self.release(end.min(self.earliest).max(self.base));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks 0 to `count`, sent once.
    fn flight(count: u64) -> Flight {
        let mut flight = Flight::default();
        for tsn in 0..count {
            assert_eq!(flight.push(tsn, false, Timestamp::ZERO, 100, 80), tsn);
        }
        flight
    }

    /// An acknowledgement of these sendings.
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
