//! The parameters of a measurement: the client sends them to the server.

use std::time::Duration;

use anabranch::{Reliability, SendOptions};
use serde_json::{Value, json};

use crate::reliability::{self, MOST_COPIES};
use crate::units;

/// The smallest message, in bytes: it has room for its number and time.
pub(super) const MIN_SIZE: u64 = 16;
/// The largest message, in bytes: the receiver joins it in memory.
pub(super) const MAX_SIZE: u64 = 16 << 20;
/// Limit of message reassembly, in bytes: several messages may be incomplete at the same time.
pub(super) const MAX_JOINED: usize = MAX_OPEN as usize;
/// Limit of one message on each stream, in bytes: the receiver may hold a part of each, and the client chooses both numbers.
const MAX_OPEN: u64 = 4 * MAX_SIZE;
/// The longest run.
pub(super) const MAX_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Limit of data streams: stream 0 is for control messages.
pub(super) const MAX_STREAMS: u16 = 65_534;

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the client to the server.
    Forward,
    /// From the server to the client.
    Reverse,
}

/// The side of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// When a sender ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// After this time.
    Time(Duration),
    /// After this many bytes, rounded up to whole messages.
    Bytes(u64),
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Bytes of each message.
    pub(super) size: u64,
    /// Streams of data, numbered from 1; messages take them in turn.
    pub(super) streams: u16,
    pub(super) unordered: bool,
    pub(super) forward: bool,
    pub(super) reverse: bool,
    pub(super) until: Until,
    /// Limit of the rate of each direction, in bits per second of message data.
    pub(super) rate: Option<u64>,
    /// The reliability policy of each message.
    pub(super) reliability: Reliability,
    /// Early copies of each message.
    pub(super) early_copies: u8,
    /// The time after which a message is of no use.
    pub(super) deadline: Option<Duration>,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// The name of the direction in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

impl Role {
    /// The direction in which this side sends.
    pub(super) fn outbound(self) -> Direction {
        match self {
            Self::Client => Direction::Forward,
            Self::Server => Direction::Reverse,
        }
    }

    /// The direction in which this side receives.
    pub(super) fn inbound(self) -> Direction {
        match self {
            Self::Client => Direction::Reverse,
            Self::Server => Direction::Forward,
        }
    }
}

impl Plan {
    /// Whether data is sent in this direction.
    pub(super) fn has(&self, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.forward,
            Direction::Reverse => self.reverse,
        }
    }

    /// The number of messages after which a sender ends.
    pub(super) fn messages(&self) -> u64 {
        match self.until {
            Until::Time(_) => u64::MAX,
            Until::Bytes(bytes) => bytes.div_ceil(self.size),
        }
    }

    /// The number of messages, of `messages` in all, on the data stream with this index.
    pub(super) fn share(&self, messages: u64, index: u16) -> u64 {
        let streams = u64::from(self.streams);
        messages / streams + u64::from(u64::from(index) < messages % streams)
    }

    /// Refuses a plan that takes too much memory.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.size * u64::from(self.streams) > MAX_OPEN {
            return Err(format!(
                "messages of {} on {} are too much: size and number of streams multiplied may be {} at most",
                units::size(self.size),
                units::counted(self.streams.into(), "stream"),
                units::size(MAX_OPEN)
            ));
        }
        Ok(())
    }

    /// Whether messages may be abandoned.
    pub(super) fn is_partial(&self) -> bool {
        self.reliability != Reliability::Reliable || self.deadline.is_some()
    }

    /// The options of each message.
    pub(super) fn options(&self) -> SendOptions {
        let options = SendOptions::default().unordered(self.unordered);
        match self.deadline {
            Some(deadline) => options.deadline(deadline),
            None => options
                .reliability(self.reliability)
                .early_copies(self.early_copies),
        }
    }

    /// A description for the user.
    pub(super) fn describe(&self) -> String {
        let directions = match (self.forward, self.reverse) {
            (true, true) => "both directions at once",
            (false, _) => "from the server to the client",
            (true, false) => "from the client to the server",
        };
        let until = match self.until {
            Until::Time(time) => format!("for {}", units::duration(time)),
            Until::Bytes(bytes) => format!("{} in each direction", units::size(bytes)),
        };
        let rate = self.rate.map_or(String::new(), |rate| {
            format!(", at most {}", units::rate(rate, Duration::from_secs(8)))
        });
        let fate = match self.deadline {
            Some(deadline) => Some(format!("of use for {}", units::duration(deadline))),
            None => reliability::describe(self.reliability),
        };
        let fate = fate.map_or(String::new(), |fate| format!(", {fate}"));
        format!(
            "{directions}, messages of {} on {}, {}{fate}{rate}, {until}",
            units::size(self.size),
            units::counted(self.streams.into(), "stream"),
            if self.unordered { "unordered" } else { "ordered" },
        )
    }

    /// The plan as JSON, for the peer and for `--json`.
    pub(super) fn to_json(self) -> Value {
        let (seconds, bytes) = match self.until {
            Until::Time(time) => (Some(time.as_secs_f64()), None),
            Until::Bytes(bytes) => (None, Some(bytes)),
        };
        json!({
            "size": self.size, "streams": self.streams, "unordered": self.unordered, "forward": self.forward,
            "reverse": self.reverse, "seconds": seconds, "bytes": bytes, "rate": self.rate,
            "reliability": reliability_to_json(self.reliability), "early_copies": self.early_copies,
            "deadline_seconds": self.deadline.map(|deadline| deadline.as_secs_f64()),
        })
    }

    /// Reads what [`Plan::to_json`] writes, and checks every range.
    pub(super) fn from_json(value: &Value) -> Result<Self, String> {
        let flag = |name: &str| {
            value[name]
                .as_bool()
                .ok_or_else(|| format!("the plan has no {name}"))
        };
        let size = value["size"].as_u64().unwrap_or(0);
        if !(MIN_SIZE..=MAX_SIZE).contains(&size) {
            return Err(format!("this server does not support messages of {size} bytes"));
        }
        let streams = value["streams"].as_u64().and_then(|n| u16::try_from(n).ok());
        let streams = streams
            .filter(|n| (1..=MAX_STREAMS).contains(n))
            .ok_or("this server does not support the number of streams")?;
        let time = value["seconds"]
            .as_f64()
            .and_then(|s| Duration::try_from_secs_f64(s).ok());
        let until = match (time, value["bytes"].as_u64()) {
            (Some(time), None) if time <= MAX_TIME => Until::Time(time),
            (None, Some(bytes)) if bytes > 0 => Until::Bytes(bytes),
            _ => return Err("the plan has no valid length (time or bytes)".to_owned()),
        };
        let (forward, reverse) = (flag("forward")?, flag("reverse")?);
        if !forward && !reverse {
            return Err("the plan has no direction".to_owned());
        }
        let plan = Self {
            size,
            streams,
            unordered: flag("unordered")?,
            forward,
            reverse,
            until,
            rate: value["rate"].as_u64(),
            reliability: reliability_from_json(&value["reliability"])
                .ok_or("this server does not support the reliability policy")?,
            // Older clients do not say.
            early_copies: value["early_copies"]
                .as_u64()
                .unwrap_or(0)
                .min(MOST_COPIES.into()) as u8,
            deadline: value["deadline_seconds"]
                .as_f64()
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        };
        plan.check()?;
        Ok(plan)
    }
}

fn reliability_to_json(reliability: Reliability) -> Value {
    match reliability {
        Reliability::Reliable => Value::Null,
        Reliability::Lifetime(lifetime) => json!({ "lifetime_seconds": lifetime.as_secs_f64() }),
        Reliability::Retransmissions(count) => json!({ "retransmissions": count }),
        Reliability::Priority(priority) => json!({ "priority": priority }),
    }
}

/// Reads what [`reliability_to_json`] writes; `None` if it is something else.
fn reliability_from_json(value: &Value) -> Option<Reliability> {
    if value.is_null() {
        return Some(Reliability::Reliable);
    }
    let number = |name: &str| value[name].as_u64().and_then(|number| u32::try_from(number).ok());
    let lifetime = value["lifetime_seconds"].as_f64();
    let lifetime = lifetime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    lifetime
        .map(Reliability::Lifetime)
        .or_else(|| number("retransmissions").map(Reliability::Retransmissions))
        .or_else(|| number("priority").map(Reliability::Priority))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn plan() -> Plan {
        Plan {
            size: 1000,
            streams: 3,
            unordered: false,
            forward: true,
            reverse: false,
            until: Until::Bytes(9_001),
            rate: Some(10_000_000),
            reliability: Reliability::Reliable,
            early_copies: 0,
            deadline: None,
        }
    }

    #[test]
    fn streams_carry_messages_in_turn() {
        let plan = plan();
        assert_eq!(plan.messages(), 10);
        assert_eq!([0, 1, 2].map(|index| plan.share(10, index)), [4, 3, 3]);
        assert!(
            plan.describe().contains("at most 10.00 Mbit/s"),
            "{}",
            plan.describe()
        );
    }

    #[test]
    fn a_written_plan_is_read_and_a_bad_plan_is_refused() {
        let plans = [
            plan(),
            Plan {
                until: Until::Time(Duration::from_millis(1500)),
                reverse: true,
                rate: None,
                reliability: Reliability::Lifetime(Duration::from_millis(100)),
                ..plan()
            },
            Plan {
                reliability: Reliability::Retransmissions(0),
                early_copies: 3,
                ..plan()
            },
            Plan {
                reliability: Reliability::Priority(7),
                ..plan()
            },
            Plan {
                deadline: Some(Duration::from_millis(100)),
                ..plan()
            },
        ];
        for plan in plans {
            assert_eq!(Plan::from_json(&plan.to_json()), Ok(plan));
        }
        let wrong = [
            ("size", json!(15)),
            ("size", json!(1_u64 << 40)),
            ("streams", json!(0)),
            ("streams", json!(65_535)),
            ("size", json!((64 << 20) / 3 + 1)),
            ("bytes", json!(0)),
            ("bytes", Value::Null),
            ("seconds", json!(1e12)),
            ("forward", json!(false)),
            ("unordered", json!("yes")),
            ("reliability", json!({ "retransmissions": 1_u64 << 40 })),
            ("reliability", json!("none")),
        ];
        for (name, value) in wrong {
            let mut record = plan().to_json();
            record[name] = value;
            assert!(Plan::from_json(&record).is_err(), "{record}");
        }
    }
}
