//! [`RateTrace`]: when a link of variable rate carries data.

use core::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use anabranch_proto::Timestamp;

use crate::units::Problem;

const NANOS_PER_MILLI: u64 = 1_000_000;
/// The most lines of a trace.
const MOST_LINES: usize = 10_000_000;
/// The most bytes of a file that are read, enough for as many lines.
const MOST_BYTES: u64 = 128 << 20;

/// The recorded rate of a link, as the emulator mahimahi reads it: one line for each opportunity to carry [`RateTrace::BYTES`] bytes, with
/// its time as a whole number of milliseconds, in order of time. Equal times are several opportunities. The trace begins again at its last
/// time.
///
/// An opportunity carries the packets that wait at its time. The rest of it is lost. A longer packet takes several opportunities, and
/// leaves with the last one.
#[derive(Clone, Debug)]
pub struct RateTrace {
    /// The file.
    name: Arc<str>,
    /// The times of one round, at least one. The last is above 0.
    millis: Arc<[u64]>,
}

/// Traces are equal if they have the same opportunities.
impl PartialEq for RateTrace {
    fn eq(&self, other: &Self) -> bool {
        self.millis == other.millis
    }
}

impl Eq for RateTrace {}

/// The name of the file.
impl fmt::Display for RateTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl RateTrace {
    /// Bytes of an opportunity: mahimahi's packets with the largest payload of Ethernet, and without its headers.
    pub const BYTES: u64 = 1500;

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a trace: [`Problem::File`] names the line.
    pub fn read(name: &str) -> Result<Self, Problem> {
        let mut text = String::new();
        let file = File::open(name).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
        file.map_err(|error| Problem::File(format!("cannot read it: {error}")))?;
        Self::parse(name, &text)
    }

    /// The trace with this text. `name` is shown where the link's settings are written.
    ///
    /// # Errors
    /// As [`RateTrace::read`].
    pub fn parse(name: &str, text: &str) -> Result<Self, Problem> {
        let wrong = |line: usize, problem: &str| Problem::File(format!("line {}: {problem}", line + 1));
        let mut millis: Vec<u64> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if number == MOST_LINES {
                return Err(wrong(number, "a trace has at most 10,000,000 lines"));
            }
            let at = line.trim().parse::<u32>();
            let at = at.map_err(|_| wrong(number, "give a whole number of milliseconds below 2^32"))?;
            if millis.last().is_some_and(|last| *last > at.into()) {
                return Err(wrong(number, "the time is before that of the line above"));
            }
            millis.push(at.into());
        }
        match millis.last() {
            None => Err(Problem::File("it has no lines".to_owned())),
            Some(0) => Err(Problem::File("its last time must be above 0".to_owned())),
            Some(_) => Ok(Self {
                name: name.into(),
                millis: millis.into(),
            }),
        }
    }

    /// The mean rate of a round in bits per second.
    #[must_use]
    pub fn mean_rate(&self) -> u64 {
        self.millis.len() as u64 * Self::BYTES * 8 * 1000 / self.period()
    }

    /// The length of a round in milliseconds.
    fn period(&self) -> u64 {
        self.millis[self.millis.len() - 1]
    }
}

/// The next opportunity of a trace that a link has not used up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opportunity {
    round: u64,
    place: usize,
    /// Bytes of it that packets took.
    taken: u64,
}

impl Opportunity {
    /// A packet of `len` bytes is next, from `now` on; returns when it will have left.
    pub(crate) fn carry(&mut self, trace: &RateTrace, now: Timestamp, len: u64) -> Timestamp {
        if self.time(trace) < now {
            self.skip_to(trace, now);
        }
        let mut rest = len;
        loop {
            let room = RateTrace::BYTES - self.taken;
            if rest <= room {
                self.taken += rest;
                return self.time(trace);
            }
            rest -= room;
            self.taken = 0;
            self.place += 1;
            if self.place == trace.millis.len() {
                (self.round, self.place) = (self.round + 1, 0);
            }
        }
    }

    fn time(self, trace: &RateTrace) -> Timestamp {
        let millis = self.round * trace.period() + trace.millis[self.place];
        Timestamp(millis.saturating_mul(NANOS_PER_MILLI))
    }

    /// The first opportunity that is not before `now`.
    fn skip_to(&mut self, trace: &RateTrace, now: Timestamp) {
        let (millis, period) = (now.0.div_ceil(NANOS_PER_MILLI), trace.period());
        // The end of a round is in it: the opportunities at the last time.
        let round = millis.saturating_sub(1) / period;
        let place = trace.millis.partition_point(|at| *at < millis - round * period);
        *self = Self {
            round,
            place,
            taken: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> RateTrace {
        RateTrace::parse("t", text).expect("a trace")
    }

    fn carried(trace: &RateTrace, packets: &[(u64, u64)]) -> Vec<u64> {
        let mut next = Opportunity::default();
        let carry = |(at, len): &(u64, u64)| {
            let left = next.carry(trace, Timestamp::from_millis(*at), *len);
            left.0 / NANOS_PER_MILLI
        };
        packets.iter().map(carry).collect()
    }

    #[test]
    fn an_opportunity_carries_1500_bytes_that_wait() {
        let trace = trace("3\n10\n10\n20\n");
        assert_eq!(carried(&trace, &[(0, 1000), (0, 500), (0, 1)]), [3, 3, 10]);
        assert_eq!(
            carried(&trace, &[(0, 1000), (4, 500)]),
            [3, 10],
            "the rest is lost"
        );
        assert_eq!(carried(&trace, &[(0, 3200)]), [10], "the third of them");
        assert_eq!(
            carried(&trace, &[(0, 1500), (3, 1500), (3, 1500), (3, 1500)]),
            [3, 10, 10, 20]
        );
        assert_eq!(carried(&trace, &[(3, 1), (10, 1)]), [3, 10], "at its time too");
    }

    #[test]
    fn the_trace_begins_again_at_its_last_time() {
        let trace = trace("0\n5\n10");
        assert_eq!(carried(&trace, &[(0, 1500); 7]), [0, 5, 10, 10, 15, 20, 20]);
        assert_eq!(
            carried(&trace, &[(10, 1500), (10, 1500), (10, 1500)]),
            [10, 10, 15]
        );
        assert_eq!(
            carried(&trace, &[(1_000_001, 9)]),
            [1_000_005],
            "after many rounds"
        );
        assert_eq!(trace.mean_rate(), 3 * 1500 * 8 * 100);
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| RateTrace::parse("t", text).unwrap_err().to_string();
        assert!(error("").contains("no lines"));
        assert!(error("0\n0").contains("above 0"));
        assert!(error("5\n4").contains("line 2: the time is before"));
        assert!(error("5\nsix").contains("line 2: give a whole number"));
        assert!(
            RateTrace::read("/nowhere/up")
                .unwrap_err()
                .to_string()
                .contains("cannot read")
        );
    }
}
