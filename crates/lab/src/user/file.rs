//! The keys of a user's file, as `serde` reads them. `definition` checks what several keys decide together.

use std::fmt;
use std::time::Duration;

use anabranch_netsim::units;
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{CoupledControl, MultipathMode, RecoveryRules, SchedulerKind};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
pub(super) use toml::Spanned;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Name,
    #[serde(default)]
    pub(super) question: String,
    pub(super) seeds: Option<Whole<1, 10_000>>,
    pub(super) seconds: Option<Whole<1, 100_000>>,
    pub(super) metrics: Option<Vec<Spanned<String>>>,
    pub(super) paths: Vec<Spanned<Path>>,
    #[serde(default)]
    pub(super) bottlenecks: Vec<Spanned<Bottleneck>>,
    #[serde(default)]
    pub(super) changes: Vec<Spanned<Change>>,
    pub(super) traffic: Vec<Spanned<Flow>>,
    pub(super) tcp: Option<Spanned<Tcp>>,
    pub(super) variants: Vec<Spanned<Variant>>,
    #[serde(default)]
    pub(super) sweep: Sweeps,
}

/// `[[paths]]`: the link of data and that of acknowledgements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Path {
    pub(super) there: Spanned<String>,
    pub(super) back: Option<Spanned<String>>,
    pub(super) through: Option<Spanned<String>>,
}

/// `[[bottlenecks]]`: links that several paths share.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bottleneck {
    pub(super) name: Name,
    pub(super) there: Spanned<String>,
    pub(super) back: Option<Spanned<String>>,
}

/// `[[changes]]`: settings of links that change while messages are sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    pub(super) at: Time,
    pub(super) path: Option<Spanned<Whole<1, 8>>>,
    pub(super) bottleneck: Option<Spanned<String>>,
    pub(super) there: Option<Spanned<String>>,
    pub(super) back: Option<Spanned<String>>,
}

/// `[[traffic]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    pub(super) name: Name,
    pub(super) bytes: Option<Spanned<Whole<1, 65_536>>>,
    pub(super) every: Option<Spanned<Time>>,
    pub(super) poisson: Option<Spanned<Time>>,
    pub(super) trace: Option<Spanned<String>>,
    pub(super) backlog: Option<Spanned<Bytes>>,
    #[serde(default)]
    pub(super) reverse: bool,
    pub(super) priority: Option<Whole<0, 65_535>>,
    #[serde(default)]
    pub(super) unordered: bool,
    pub(super) lifetime: Option<Time>,
    pub(super) retransmissions: Option<Spanned<Whole<0, 1000>>>,
    pub(super) deadline: Option<Time>,
    pub(super) early_copies: Option<Whole<1, 8>>,
}

/// `[tcp]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tcp {
    pub(super) flows: Whole<1, 64>,
    #[serde(default)]
    pub(super) congestion: TcpCongestion,
    pub(super) through: Option<Spanned<String>>,
}

/// The congestion control algorithm of the TCP cross traffic.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum TcpCongestion {
    #[default]
    Cubic,
    Reno,
}

/// `[[variants]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    pub(super) name: String,
    #[serde(default)]
    pub(super) multipath: Multipath,
    #[serde(default)]
    pub(super) nr_sack: bool,
    #[serde(default)]
    pub(super) interleaving: bool,
    #[serde(default)]
    pub(super) expiry: bool,
    #[serde(default)]
    pub(super) early_discard: bool,
    pub(super) selective_forward_tsn: Option<Whole<1, 10_000>>,
    #[serde(default)]
    pub(super) extended_forward_tsn: bool,
    #[serde(default)]
    pub(super) scheduler: Scheduler,
    pub(super) low_priority_delay: Option<Time>,
    pub(super) rto_min: Option<Time>,
    pub(super) receive_buffer: Option<Bytes>,
    pub(super) send_buffer: Option<Bytes>,
    #[serde(default)]
    pub(super) recovery: Recovery,
    #[serde(default)]
    pub(super) congestion: Congestion,
    #[serde(default)]
    pub(super) coupling: Coupling,
    #[serde(default)]
    pub(super) early_copies: bool,
}

/// How losses are detected.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Recovery {
    #[default]
    Rfc9260,
    Rack,
}

impl From<Recovery> for RecoveryRules {
    fn from(recovery: Recovery) -> Self {
        match recovery {
            Recovery::Rfc9260 => Self::RFC9260,
            Recovery::Rack => Self::RACK,
        }
    }
}

/// The congestion control algorithm.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Congestion {
    #[default]
    Rfc9260,
    Cubic,
    Bbr,
    BbrTolerant,
}

impl From<Congestion> for CongestionControl {
    fn from(congestion: Congestion) -> Self {
        let bbr = |tolerate_random_loss| Self::Bbr(BbrConfig { tolerate_random_loss });
        match congestion {
            Congestion::Rfc9260 => Self::Rfc9260,
            Congestion::Cubic => Self::Cubic,
            Congestion::Bbr => bbr(false),
            Congestion::BbrTolerant => bbr(true),
        }
    }
}

/// How the windows of several paths depend on each other.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Coupling {
    #[default]
    Grouped,
    Lia,
    Pooled,
    None,
}

impl From<Coupling> for CoupledControl {
    fn from(coupling: Coupling) -> Self {
        match coupling {
            Coupling::Grouped => Self::Grouped,
            Coupling::Lia => Self::Lia,
            Coupling::Pooled => Self::ResourcePooling,
            Coupling::None => Self::Uncoupled,
        }
    }
}

/// The scheduler of the streams.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Scheduler {
    #[default]
    Fcfs,
    Rr,
    RrPacket,
    Priority,
    Fair,
}

impl From<Scheduler> for SchedulerKind {
    fn from(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::Fcfs => Self::FirstComeFirstServed,
            Scheduler::Rr => Self::RoundRobin,
            Scheduler::RrPacket => Self::RoundRobinPerPacket,
            Scheduler::Priority => Self::Priority,
            Scheduler::Fair => Self::FairBandwidth,
        }
    }
}

/// One `[sweep]` table, or several `[[sweep]]` tables.
#[derive(Debug, Default)]
pub(super) struct Sweeps(pub(super) Vec<Spanned<Sweep>>);

/// A setting of the links of data that varies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) link: Spanned<String>,
    pub(super) path: Option<Spanned<Whole<1, 8>>>,
    pub(super) values: Spanned<Vec<Spanned<String>>>,
}

impl<'de> Deserialize<'de> for Sweeps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrSeveral;
        impl<'de> Visitor<'de> for OneOrSeveral {
            type Value = Sweeps;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table [sweep], or tables [[sweep]]")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sweeps, A::Error> {
                let sweep = Sweep::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Sweeps(vec![Spanned::new(0..0, sweep)]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Sweeps, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Sweeps)
            }
        }
        deserializer.deserialize_any(OneOrSeveral)
    }
}

/// A whole number within a range, ends included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole<const LEAST: u64, const MOST: u64>(pub(super) u64);

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Whole<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InRange<const LEAST: u64, const MOST: u64>;
        impl<const LEAST: u64, const MOST: u64> Visitor<'_> for InRange<LEAST, MOST> {
            type Value = Whole<LEAST, MOST>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {LEAST} to {MOST}")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                let whole = u64::try_from(number).ok();
                let whole = whole.filter(|whole| (LEAST..=MOST).contains(whole));
                whole
                    .map(Whole)
                    .ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
            }
        }
        deserializer.deserialize_i64(InRange)
    }
}

/// A value that is written as a text.
trait Written: Sized {
    /// The description for error texts.
    const EXPECTED: &'static str;
    /// The value of a text.
    fn read(text: &str) -> Option<Self>;
}

/// Reads a text, or also a flag if `T` has a meaning for it.
struct TextOf<T>(fn(bool) -> Option<T>);

impl<T: Written> Visitor<'_> for TextOf<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::read(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        (self.0)(flag).ok_or_else(|| E::invalid_type(Unexpected::Bool(flag), &self))
    }
}

/// Lower-case letters, digits, - and _.
#[derive(Clone, Debug)]
pub(super) struct Name(pub(super) String);

impl Written for Name {
    const EXPECTED: &'static str = "lower-case letters, digits, - and _, a letter first";
    fn read(text: &str) -> Option<Self> {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let is_name = text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_part);
        is_name.then(|| Self(text.to_owned()))
    }
}

/// A time above 0, like `20ms`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl Written for Time {
    const EXPECTED: &'static str = "a time above 0, like \"20ms\", \"1.5s\" or \"1m30s\"";
    fn read(text: &str) -> Option<Self> {
        let time = units::parse_duration(text).ok();
        time.filter(|time| !time.is_zero()).map(Self)
    }
}

/// A number of bytes above 0, like `64kib`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes(pub(super) u64);

impl Written for Bytes {
    const EXPECTED: &'static str = "a number of bytes above 0, like \"1400b\" or \"64kib\"";
    fn read(text: &str) -> Option<Self> {
        let bytes = units::parse_size(text).ok();
        bytes.filter(|bytes| *bytes > 0).map(Self)
    }
}

/// How data is sent over several paths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Multipath(pub(super) MultipathMode);

impl Written for Multipath {
    const EXPECTED: &'static str = "true, false, \"cmt\" or \"eca\"";
    fn read(text: &str) -> Option<Self> {
        match text {
            "cmt" => Some(Self(MultipathMode::Cmt)),
            "eca" => Some(Self(MultipathMode::Eca)),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextOf(|_| None))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextOf(|_| None))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextOf(|_| None))
    }
}

impl<'de> Deserialize<'de> for Multipath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let of_flag = |flag| {
            Some(Self(if flag {
                MultipathMode::Cmt
            } else {
                MultipathMode::Off
            }))
        };
        deserializer.deserialize_any(TextOf(of_flag))
    }
}
