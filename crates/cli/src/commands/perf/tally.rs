//! The results of each side of a direction, as JSON for the peer and for the user.

use std::time::Duration;

use anabranch::{Association, Counters};
use serde_json::{Value, json};

use super::plan::Plan;
use crate::by_path::PathTally;
use crate::delays::{Summary, millis};
use crate::units;

/// The results of a sender.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Sent {
    /// Messages given to the association, and their bytes; after an early end, only acknowledged messages.
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Time until all messages were acknowledged.
    pub(super) took: Duration,
    /// Whether all messages were acknowledged.
    pub(super) acknowledged: bool,
    /// Retransmitted chunks: after T3-rtx expired, after missing reports, and spuriously.
    pub(super) timeout: u64,
    pub(super) fast: u64,
    pub(super) spurious: u64,
    /// Bytes of early copies, with chunk headers.
    pub(super) redundancy: u64,
    /// Abandoned messages.
    pub(super) abandoned: Abandoned,
    /// The smoothed RTT, and the congestion window in bytes, of the primary path at the end.
    pub(super) srtt: Option<Duration>,
    pub(super) cwnd: u64,
    /// The counters of each path.
    pub(super) paths: Vec<PathTally>,
    /// Processor time of the whole program.
    pub(super) cpu: Option<Duration>,
}

/// The messages that a sender abandoned, and the chunks that announced this to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Abandoned {
    /// Messages that were abandoned after at least one chunk was sent, and messages abandoned before.
    pub(super) sent: u64,
    pub(super) unsent: u64,
    /// Chunks abandoned at the first missing report.
    pub(super) early: u64,
    /// FORWARD-TSNs and selective notices sent.
    pub(super) forward_tsns: u64,
    pub(super) notices: u64,
    /// Bytes freed before they were cumulatively acknowledged.
    pub(super) freed_early: u64,
}

/// The results of a receiver.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Received {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Time from the send call of the first message, by the compared clocks, to the arrival of the last message.
    pub(super) took: Duration,
    /// Messages that did not arrive, arrived twice, arrived after a later message of their stream, were not sent, or have another
    /// length.
    pub(super) missing: u64,
    pub(super) doubled: u64,
    pub(super) late: u64,
    pub(super) extra: u64,
    pub(super) cut: u64,
    /// Missing messages that arrived after FORWARD-TSN had skipped them, and were dropped.
    pub(super) overtaken: u64,
    /// Messages that arrived within the deadline of the plan, if it has one.
    pub(super) in_time: Option<u64>,
    /// The delays from `send` to receipt.
    pub(super) delay: Option<Summary>,
    /// The delays of each stream from 1 on, if there are few streams.
    pub(super) by_stream: Vec<Option<Summary>>,
    /// Time since this side began the run.
    pub(super) elapsed: Duration,
    /// Processor time of the whole program in this time.
    pub(super) cpu: Option<Duration>,
}

impl Sent {
    /// Reads the association's counters.
    pub(super) fn read(association: &Association, messages: u64, size: u64, took: Duration) -> Self {
        let stats = association.stats();
        let path = stats
            .paths
            .iter()
            .find(|path| path.primary)
            .or(stats.paths.first());
        Self {
            messages,
            bytes: messages.saturating_mul(size),
            took,
            acknowledged: false,
            timeout: stats.counters.retransmissions_timeout,
            fast: stats.counters.retransmissions_fast,
            spurious: stats.counters.retransmissions_spurious,
            redundancy: stats.counters.redundancy_bytes,
            abandoned: Abandoned::of(&stats.counters),
            srtt: path.and_then(|path| path.srtt),
            cwnd: path.map_or(0, |path| path.cwnd as u64),
            paths: stats.paths.iter().map(PathTally::of).collect(),
            cpu: None,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "messages": self.messages, "bytes": self.bytes, "seconds": self.took.as_secs_f64(),
            "bits_per_second": units::bits_per_second(self.bytes, self.took),
            "messages_per_second": per_second(self.messages, self.took),
            "acknowledged": self.acknowledged,
            "retransmissions": { "timeout": self.timeout, "fast": self.fast, "spurious": self.spurious },
            "redundancy_bytes": self.redundancy,
            "partial_reliability": self.abandoned.to_json(),
            "srtt_ms": self.srtt.map(millis), "cwnd_bytes": self.cwnd,
            "paths": self.paths.iter().map(PathTally::to_json).collect::<Vec<_>>(),
            "cpu_seconds": self.cpu.map(|cpu| cpu.as_secs_f64()),
        })
    }

    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let retransmissions = &value["retransmissions"];
        Some(Self {
            messages: value["messages"].as_u64()?,
            bytes: value["bytes"].as_u64()?,
            took: seconds(&value["seconds"])?,
            acknowledged: value["acknowledged"].as_bool()?,
            timeout: retransmissions["timeout"].as_u64()?,
            fast: retransmissions["fast"].as_u64()?,
            spurious: retransmissions["spurious"].as_u64()?,
            // Older peers do not say.
            redundancy: value["redundancy_bytes"].as_u64().unwrap_or(0),
            abandoned: Abandoned::from_json(&value["partial_reliability"])?,
            srtt: value["srtt_ms"]
                .as_f64()
                .and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok()),
            cwnd: value["cwnd_bytes"].as_u64()?,
            paths: value["paths"]
                .as_array()?
                .iter()
                .map(PathTally::from_json)
                .collect::<Option<_>>()?,
            cpu: seconds(&value["cpu_seconds"]),
        })
    }
}

impl Abandoned {
    fn of(counters: &Counters) -> Self {
        Self {
            sent: counters.abandoned_sent,
            unsent: counters.abandoned_unsent,
            early: counters.early_discards,
            forward_tsns: counters.forward_tsns_sent,
            notices: counters.selective_notices_sent,
            freed_early: counters.freed_early_bytes,
        }
    }

    fn messages(self) -> u64 {
        self.sent + self.unsent
    }

    fn to_json(self) -> Value {
        json!({
            "abandoned_sent": self.sent, "abandoned_unsent": self.unsent, "early_discards": self.early,
            "forward_tsns_sent": self.forward_tsns, "selective_notices_sent": self.notices,
            "freed_early_bytes": self.freed_early,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        Some(Self {
            sent: number("abandoned_sent")?,
            unsent: number("abandoned_unsent")?,
            early: number("early_discards")?,
            forward_tsns: number("forward_tsns_sent")?,
            notices: number("selective_notices_sent")?,
            freed_early: number("freed_early_bytes")?,
        })
    }
}

impl Received {
    /// Missing messages that the sender did not abandon. With `abandoned` = `None` the number of abandoned messages is
    /// unknown.
    fn lost(&self, plan: &Plan, abandoned: Option<Abandoned>) -> u64 {
        match abandoned {
            _ if !plan.is_partial() => self.missing,
            Some(abandoned) => self
                .missing
                .saturating_sub(abandoned.messages().saturating_add(self.overtaken)),
            None => 0,
        }
    }

    /// The faults of the delivery, if any.
    pub(super) fn problem(&self, plan: &Plan, abandoned: Option<Abandoned>) -> Option<String> {
        let late = if plan.unordered { 0 } else { self.late };
        let problems: Vec<String> = [
            (self.lost(plan, abandoned), "missing"),
            (self.doubled, "duplicated"),
            (late, "out of order"),
            (self.extra, "received but not sent"),
            (self.cut, "of the wrong length"),
        ]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", units::counted(*count, "message")))
        .collect();
        (!problems.is_empty()).then(|| problems.join(", "))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "messages": self.messages, "bytes": self.bytes, "seconds": self.took.as_secs_f64(),
            "bits_per_second": units::bits_per_second(self.bytes, self.took),
            "messages_per_second": per_second(self.messages, self.took),
            "missing": self.missing, "doubled": self.doubled, "late": self.late, "extra": self.extra,
            "cut": self.cut, "overtaken": self.overtaken, "in_time": self.in_time,
            // The standard terms; the names above are kept for programs that read them.
            "duplicated": self.doubled, "out_of_order": self.late, "unexpected": self.extra, "truncated": self.cut,
            "dropped_late": self.overtaken, "delay": self.delay.map(Summary::to_json),
            "delay_by_stream": self.by_stream.iter().map(|delay| delay.map(Summary::to_json)).collect::<Vec<_>>(),
            "elapsed_seconds": self.elapsed.as_secs_f64(),
            "cpu_seconds": self.cpu.map(|cpu| cpu.as_secs_f64()),
        })
    }

    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        Some(Self {
            messages: number("messages")?,
            bytes: number("bytes")?,
            took: seconds(&value["seconds"])?,
            missing: number("missing")?,
            doubled: number("doubled")?,
            late: number("late")?,
            extra: number("extra")?,
            cut: number("cut")?,
            overtaken: number("overtaken")?,
            in_time: number("in_time"),
            delay: Summary::from_json(&value["delay"]),
            by_stream: value["delay_by_stream"]
                .as_array()?
                .iter()
                .map(Summary::from_json)
                .collect(),
            elapsed: seconds(&value["elapsed_seconds"])?,
            cpu: seconds(&value["cpu_seconds"]),
        })
    }
}

fn seconds(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()?).ok()
}

/// `None` if no time passed.
pub(super) fn per_second(count: u64, took: Duration) -> Option<f64> {
    (!took.is_zero()).then(|| count as f64 / took.as_secs_f64())
}

/// Processor time of all threads of this program so far; `None` if the system does not report it.
#[cfg(unix)]
pub(crate) fn cpu_time() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()
}

/// Processor time of all threads of this program so far; `None` if the system does not report it.
#[cfg(not(unix))]
pub(crate) fn cpu_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use anabranch::Reliability;

    use super::super::plan::tests::plan;
    use super::*;
    use crate::by_path::tests::tally;

    #[test]
    fn faults_are_named() {
        let fine = Received {
            late: 3,
            ..Received::default()
        };
        let ordered = plan();
        let unordered = Plan {
            unordered: true,
            ..ordered
        };
        assert_eq!(fine.problem(&unordered, None), None);
        assert_eq!(
            fine.problem(&ordered, None).as_deref(),
            Some("3 messages out of order")
        );
        let bad = Received {
            missing: 1,
            doubled: 2,
            ..Received::default()
        };
        assert_eq!(
            bad.problem(&unordered, None).as_deref(),
            Some("1 message missing, 2 messages duplicated")
        );
    }

    #[test]
    fn abandoned_messages_may_be_missing_and_no_more() {
        let plan = Plan {
            reliability: Reliability::Retransmissions(0),
            ..plan()
        };
        let received = Received {
            missing: 5,
            overtaken: 1,
            ..Received::default()
        };
        let abandoned = |sent, unsent| {
            Some(Abandoned {
                sent,
                unsent,
                ..Abandoned::default()
            })
        };
        assert_eq!(received.problem(&plan, None), None);
        assert_eq!(received.problem(&plan, abandoned(3, 1)), None);
        let problem = received.problem(&plan, abandoned(1, 1));
        assert_eq!(problem.as_deref(), Some("2 messages missing"));
    }

    #[test]
    fn written_results_are_read() {
        let delay = json!({"min_ms": 1.0, "median_ms": 2.0, "p90_ms": 3.0, "p99_ms": 4.0, "max_ms": 5.5});
        let received = Received {
            messages: 7,
            bytes: 1 << 40,
            took: Duration::from_millis(1250),
            cut: 1,
            overtaken: 2,
            in_time: Some(3),
            delay: Summary::from_json(&delay),
            by_stream: vec![None, Summary::from_json(&delay)],
            elapsed: Duration::from_millis(1500),
            cpu: Some(Duration::from_millis(500)),
            ..Received::default()
        };
        assert!(received.delay.is_some());
        assert_eq!(Received::from_json(&received.to_json()), Some(received));
        let sent = Sent {
            messages: 7,
            took: Duration::from_secs(2),
            acknowledged: true,
            fast: 4,
            redundancy: 8,
            abandoned: Abandoned {
                sent: 1,
                unsent: 2,
                early: 3,
                forward_tsns: 4,
                notices: 5,
                freed_early: 6,
            },
            srtt: Some(Duration::from_micros(1500)),
            cwnd: 4380,
            paths: vec![tally(None, 7), tally(Some("10.0.0.1"), 9)],
            ..Sent::default()
        };
        assert_eq!(Sent::from_json(&sent.to_json()), Some(sent));
        assert_eq!(Sent::from_json(&json!({})), None);
    }

    #[test]
    #[cfg(unix)]
    fn work_takes_processor_time() {
        let before = cpu_time().unwrap();
        let mut sum = 0_u64;
        while cpu_time().unwrap() < before + Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
        }
        assert!(cpu_time().unwrap() > before);
    }
}
