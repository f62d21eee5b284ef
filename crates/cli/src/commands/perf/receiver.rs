//! One direction at its receiver: every message is checked and timed.

use std::time::{Duration, Instant};

use anabranch::Message;

use super::clock::Clock;
use super::plan::Plan;
use super::sender::Stamp;
use super::sequence::{MAX_AHEAD, Sequence, Verdict};
use super::tally::Received;
use crate::delays::{Delays, Summary};

/// The report shows the delay of each stream only if there are at most this many streams.
const MOST_TOLD: usize = 16;
const TOO_FAR: &str = "too many messages arrived after a missing message";

/// The messages received so far.
#[derive(Debug)]
pub(super) struct Arrivals {
    plan: Plan,
    clock: Clock,
    streams: Vec<Sequence>,
    /// Numbers above a gap that the streams store.
    stored: usize,
    /// When the first message was sent, by the compared clocks, and when the last message arrived.
    first: Option<Instant>,
    last: Option<Instant>,
    messages: u64,
    bytes: u64,
    doubled: u64,
    late: u64,
    cut: u64,
    in_time: u64,
    /// Messages on streams that are not in the plan.
    strange: u64,
    delays: Delays,
    /// The delays of each stream, if there are 2 to `MOST_TOLD` streams.
    by_stream: Vec<Delays>,
    /// The messages since the last interval was reported.
    recent: Recent,
}

/// The messages received in an interval.
#[derive(Debug, Default)]
pub(super) struct Recent {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    delays: Delays,
}

impl Recent {
    pub(super) fn delay(&self) -> Option<Summary> {
        self.delays.summary()
    }
}

impl Arrivals {
    pub(super) fn new(plan: &Plan, clock: Clock) -> Self {
        Self {
            plan: *plan,
            clock,
            streams: vec![Sequence::new(plan.is_partial(), plan.streams); plan.streams.into()],
            stored: 0,
            first: None,
            last: None,
            messages: 0,
            bytes: 0,
            doubled: 0,
            late: 0,
            cut: 0,
            in_time: 0,
            strange: 0,
            delays: Delays::default(),
            by_stream: match usize::from(plan.streams) {
                count @ 2..=MOST_TOLD => vec![Delays::one_of(count); count],
                _ => Vec::new(),
            },
            recent: Recent::default(),
        }
    }

    /// Checks and counts a message that arrived at `now`.
    pub(super) fn take(&mut self, message: &Message, now: Instant) -> Result<(), String> {
        let bytes = message.payload.len() as u64;
        self.messages += 1;
        self.bytes += bytes;
        self.recent.messages += 1;
        self.recent.bytes += bytes;
        self.last = Some(now);
        if bytes != self.plan.size || message.unordered != self.plan.unordered {
            self.cut += 1;
        }
        let Some(stamp) = Stamp::read(message.payload.pieces()) else {
            return Ok(());
        };
        let delay = self.clock.since_peer(stamp.made, now);
        self.first
            .get_or_insert_with(|| now.checked_sub(delay).unwrap_or(now));
        let is_late = self.plan.deadline.is_some_and(|deadline| delay > deadline);
        self.in_time += u64::from(!is_late);
        self.delays.push(delay);
        self.recent.delays.push(delay);
        let stream = usize::from(message.stream.0).checked_sub(1);
        if let Some(delays) = stream.and_then(|index| self.by_stream.get_mut(index)) {
            delays.push(delay);
        }
        let Some(sequence) = stream.and_then(|index| self.streams.get_mut(index)) else {
            self.strange += 1;
            return Ok(());
        };
        let before = sequence.stored();
        let verdict = sequence.take(stamp.number);
        self.stored = self.stored - before + sequence.stored();
        if self.stored > MAX_AHEAD + usize::from(self.plan.streams) {
            return Err(TOO_FAR.to_owned());
        }
        match verdict {
            Verdict::New => {}
            Verdict::Late => self.late += 1,
            Verdict::Doubled => self.doubled += 1,
            Verdict::TooFar => return Err(TOO_FAR.to_owned()),
        }
        Ok(())
    }

    /// The messages received since the last call.
    pub(super) fn recent(&mut self) -> Recent {
        std::mem::take(&mut self.recent)
    }

    /// The messages received so far, without the delays, whose percentiles take processor time.
    pub(super) fn so_far(&self) -> Received {
        let took = match (self.first, self.last) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        };
        Received {
            messages: self.messages,
            bytes: self.bytes,
            took,
            doubled: self.doubled,
            late: self.late,
            extra: self.strange,
            cut: self.cut,
            in_time: self.plan.deadline.map(|_| self.in_time),
            ..Received::default()
        }
    }

    /// The results for this number of sent messages; `None` if the number is unknown.
    pub(super) fn received(&self, sent: Option<u64>) -> Received {
        let mut received = self.so_far();
        received.delay = self.delays.summary();
        received.by_stream = self.by_stream.iter().map(Delays::summary).collect();
        if let Some(sent) = sent {
            for (index, sequence) in (0..self.plan.streams).zip(&self.streams) {
                let (missing, extra) = sequence.compare(self.plan.share(sent, index));
                received.missing += missing;
                received.extra += extra;
            }
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use anabranch::{Bytes, Payload, Reliability};

    use super::super::plan::Until;
    use super::*;

    fn message(stream: u16, number: u64, size: usize) -> Message {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.resize(size, 0);
        Message::new(stream, Payload::from(vec![Bytes::from(bytes)]))
    }

    fn arrivals() -> Arrivals {
        let plan = Plan {
            size: 20,
            streams: 2,
            unordered: false,
            forward: true,
            reverse: false,
            until: Until::Bytes(1),
            rate: None,
            reliability: Reliability::Reliable,
            early_copies: 0,
            deadline: None,
        };
        Arrivals::new(&plan, Clock::start())
    }

    #[test]
    fn what_is_whole_is_found_whole() {
        let mut arrivals = arrivals();
        for (stream, number) in [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)] {
            arrivals
                .take(&message(stream, number, 20), Instant::now())
                .unwrap();
        }
        let received = arrivals.received(Some(5));
        assert_eq!((received.messages, received.bytes), (5, 100));
        assert_eq!(received.problem(&arrivals.plan, None), None);
        assert!(received.by_stream.len() == 2 && received.by_stream.iter().all(Option::is_some));
        assert_eq!(arrivals.recent().messages, 5);
        assert_eq!(arrivals.recent().messages, 0);
    }

    #[test]
    fn gaps_on_many_streams_are_bounded() {
        let mut arrivals = arrivals();
        arrivals.plan.streams = u16::MAX - 1;
        let mut arrivals = Arrivals::new(&arrivals.plan, Clock::start());
        let mut taken = 0;
        let refused = (1..).find_map(|number| {
            (1..u16::MAX).find_map(|stream| {
                taken += 1;
                arrivals.take(&message(stream, number, 20), Instant::now()).err()
            })
        });
        assert!(refused.is_some_and(|why| why.contains("missing message")));
        assert!(taken <= 2 * MAX_AHEAD, "{taken}");
    }

    #[test]
    fn every_fault_is_found() {
        let mut arrivals = arrivals();
        for (stream, number, size) in [
            (1, 0, 20),
            (1, 0, 20),
            (2, 1, 20),
            (2, 0, 20),
            (1, 1, 19),
            (9, 0, 20),
        ] {
            arrivals
                .take(&message(stream, number, size), Instant::now())
                .unwrap();
        }
        let received = arrivals.received(Some(7));
        let counts = [
            received.missing,
            received.doubled,
            received.late,
            received.cut,
            received.extra,
        ];
        assert_eq!(counts, [3, 1, 1, 1, 1]);
        assert_eq!(arrivals.received(Some(2)).extra, 3);
        assert_eq!(arrivals.received(None).missing, 0);
    }
}
