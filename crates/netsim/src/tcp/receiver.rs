//! The TCP receiver: delayed acknowledgements (RFC 5681 §4.2) and SACK blocks (RFC 2018).

use anabranch_proto::Timestamp;

use super::config::TcpConfig;
use super::segment::{SackBlocks, Segment, SynOptions};
use super::timer::Timer;
use super::timestamp_value;

/// Number of segments after which an acknowledgement is sent at the latest.
const ACK_EVERY: u32 = 2;

/// A receiver's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TcpSinkStats {
    /// Bytes of data received in order.
    pub bytes: u64,
    /// Segments with data.
    pub segments: u64,
    /// Segments without new data.
    pub duplicates: u64,
    /// Segments that arrived before a segment with a lower sequence number.
    pub out_of_order: u64,
    /// Segments sent, all of which are acknowledgements.
    pub acks_sent: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    config: TcpConfig,
    /// The next expected sequence number; 0 before the SYN.
    next: u64,
    /// Data received out of order, as ranges of first sequence number and the one after the last. The ranges are disjoint, the most
    /// recently changed first, as in SACK blocks.
    beyond: Vec<(u64, u64)>,
    /// Segments received since the last acknowledgement.
    unacknowledged: u32,
    /// Whether to send an acknowledgement now.
    ack_due: bool,
    syn_due: bool,
    sack_permitted: bool,
    /// The timestamp to echo (RFC 7323 §4.3), if the connection uses timestamps.
    recent: Option<u32>,
    last_ack: u64,
    timer: Timer,
    stats: TcpSinkStats,
}

impl Receiver {
    pub(super) fn new(config: TcpConfig) -> Self {
        Self {
            config,
            next: 0,
            beyond: Vec::new(),
            unacknowledged: 0,
            ack_due: false,
            syn_due: false,
            sack_permitted: false,
            recent: None,
            last_ack: 0,
            timer: Timer::default(),
            stats: TcpSinkStats::default(),
        }
    }

    pub(super) fn stats(&self) -> TcpSinkStats {
        self.stats
    }

    pub(super) fn handle_segment(&mut self, now: Timestamp, segment: &Segment) {
        if let Some(options) = segment.syn {
            self.sack_permitted = options.sack_permitted;
            self.recent = segment.timestamps.map(|(value, _)| value);
            self.next = self.next.max(1);
            self.syn_due = true;
            return;
        }
        if self.next == 0 || segment.len == 0 {
            return;
        }
        if let (Some(recent), Some((value, _))) = (&mut self.recent, segment.timestamps)
            && segment.sequence <= self.last_ack
        {
            *recent = value.max(*recent);
        }
        self.stats.segments += 1;
        let end = segment.sequence + u64::from(segment.len);
        let had_holes = !self.beyond.is_empty();
        let in_order = segment.sequence <= self.next && end > self.next;
        if in_order {
            self.take_in_order(end);
        } else if end <= self.next {
            self.stats.duplicates += 1;
        } else {
            self.keep(segment.sequence, end);
        }
        self.unacknowledged += 1;
        match self.config.delayed_ack {
            Some(delay) if in_order && !had_holes && self.unacknowledged < ACK_EVERY => {
                self.timer.set(now + delay);
            }
            _ => self.ack_due = true,
        }
    }

    fn take_in_order(&mut self, end: u64) {
        let before = self.next;
        self.next = end;
        while let Some(place) = self.beyond.iter().position(|&(first, _)| first <= self.next) {
            self.next = self.next.max(self.beyond.remove(place).1);
        }
        self.stats.bytes += self.next - before;
    }

    /// Stores data received after a hole, merged with the ranges that it touches.
    fn keep(&mut self, mut first: u64, mut after: u64) {
        self.stats.out_of_order += 1;
        let known = |range: &(u64, u64)| range.0 <= first && after <= range.1;
        if self.beyond.iter().any(known) {
            self.stats.duplicates += 1;
        }
        self.beyond.retain(|range| {
            let apart = range.1 < first || after < range.0;
            if !apart {
                first = first.min(range.0);
                after = after.max(range.1);
            }
            apart
        });
        self.beyond.insert(0, (first, after));
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.timer.fire(now) {
            self.ack_due = true;
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.timer.wake()
    }

    pub(super) fn poll_transmit(&mut self, now: Timestamp) -> Option<Segment> {
        let syn = core::mem::take(&mut self.syn_due).then_some(SynOptions {
            mss: self.config.mss,
            sack_permitted: self.sack_permitted,
        });
        if !core::mem::take(&mut self.ack_due) && syn.is_none() {
            return None;
        }
        self.timer.stop();
        self.unacknowledged = 0;
        self.last_ack = self.next;
        self.stats.acks_sent += 1;
        let timestamps = self.recent.map(|recent| (timestamp_value(now), recent));
        let blocks = if self.sack_permitted {
            self.beyond.as_slice()
        } else {
            &[]
        };
        let room = SackBlocks::MOST - usize::from(timestamps.is_some());
        Some(Segment {
            sequence: u64::from(syn.is_none()),
            acknowledgement: Some(self.next),
            syn,
            window: self.config.receive_window,
            window_shift: self.config.window_shift(),
            timestamps,
            sack: SackBlocks::new(blocks.iter().copied(), room),
            ..Segment::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn open(sack: bool, timestamps: Option<(u32, u32)>) -> Receiver {
        let mut receiver = Receiver::new(TcpConfig::default());
        let options = SynOptions {
            mss: 1000,
            sack_permitted: sack,
        };
        let syn = Segment {
            syn: Some(options),
            timestamps,
            ..Segment::default()
        };
        receiver.handle_segment(Timestamp::ZERO, &syn);
        let answer = receiver.poll_transmit(Timestamp::ZERO).unwrap();
        assert_eq!((answer.acknowledgement, answer.syn.is_some()), (Some(1), true));
        receiver
    }

    /// Receives a segment of 1,000 bytes; returns the acknowledgement that is sent at once, if any.
    fn take(receiver: &mut Receiver, now: u64, number: u64) -> Option<Segment> {
        let segment = Segment {
            sequence: 1 + number * 1000,
            acknowledgement: Some(1),
            len: 1000,
            timestamps: receiver.recent.map(|_| (now as u32, 0)),
            ..Segment::default()
        };
        receiver.handle_segment(Timestamp(now * MS), &segment);
        let answer = receiver.poll_transmit(Timestamp(now * MS));
        assert_eq!(receiver.poll_transmit(Timestamp(now * MS)), None);
        answer
    }

    fn acknowledged(answer: Option<Segment>) -> Option<u64> {
        Some((answer?.acknowledgement? - 1) / 1000)
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_a_single_one_after_the_delay() {
        let mut receiver = open(false, None);
        assert_eq!(take(&mut receiver, 0, 0), None);
        assert_eq!(acknowledged(take(&mut receiver, 1, 1)), Some(2));
        assert_eq!(take(&mut receiver, 300, 2), None);
        // The timer was first set for 200 ms: it wakes then, but is not due yet.
        while let Some(wake) = receiver.poll_timeout() {
            receiver.handle_timeout(wake);
            if let answer @ Some(_) = receiver.poll_transmit(wake) {
                assert_eq!((wake, acknowledged(answer)), (Timestamp(500 * MS), Some(3)));
                return;
            }
        }
        panic!("no acknowledgement");
    }

    #[test]
    fn holes_are_told_at_once_and_so_is_their_end() {
        let mut receiver = open(true, None);
        assert_eq!(take(&mut receiver, 0, 0), None);
        let answer = take(&mut receiver, 1, 2).unwrap();
        assert_eq!(acknowledged(Some(answer)), Some(1));
        assert_eq!(answer.sack.as_slice(), [(2001, 3001)]);
        // The block of the latest segment comes first.
        let answer = take(&mut receiver, 1, 4).unwrap();
        assert_eq!(answer.sack.as_slice(), [(4001, 5001), (2001, 3001)]);
        let answer = take(&mut receiver, 1, 3).unwrap();
        assert_eq!(answer.sack.as_slice(), [(2001, 5001)]);
        let answer = take(&mut receiver, 2, 1);
        assert_eq!(acknowledged(answer), Some(5), "at once, though it is in order");
        assert_eq!(
            acknowledged(take(&mut receiver, 3, 2)),
            Some(5),
            "a duplicate too"
        );
        let stats = receiver.stats();
        assert_eq!((stats.bytes, stats.segments), (5000, 6));
        assert_eq!((stats.out_of_order, stats.duplicates), (3, 1));
    }

    #[test]
    fn there_is_room_for_four_blocks_or_three_with_timestamps_and_none_if_not_permitted() {
        for (sack, timestamps, blocks) in [(true, None, 4), (true, Some((1, 0)), 3), (false, None, 0)] {
            let mut receiver = open(sack, timestamps);
            let last = [1, 3, 5, 7, 9].map(|number| take(&mut receiver, 0, number))[4];
            assert_eq!(last.unwrap().sack.as_slice().len(), blocks);
        }
    }

    #[test]
    fn the_first_unacknowledged_segments_timestamp_is_echoed() {
        let mut receiver = open(false, Some((7, 0)));
        assert_eq!(take(&mut receiver, 20, 0), None);
        assert_eq!(take(&mut receiver, 30, 1).unwrap().timestamps, Some((30, 20)));
    }
}
