//! A link's settings, as a value and as text: `rate=1gbit,delay=5ms,loss=0.1%,queue=64kib`.

use core::fmt;
use core::time::Duration;
use std::str::FromStr;

use crate::aqm::Aqm;
use crate::loss::LossModel;
use crate::queue::{MarkThreshold, QueueLimit};
use crate::random::Probability;
use crate::rate_trace::RateTrace;
use crate::units::{self, Problem};

/// The smallest MTU that IPv4 requires of every link (RFC 791).
const SMALLEST_MTU: u16 = 576;

/// The settings of one direction of a link. The default has no impairment: unlimited rate and queue, no delay, no loss, and Ethernet's MTU.
///
/// As text, `key=value` pairs separated by commas. A key that is left out has its default:
///
/// | key | value |
/// | --- | --- |
/// | `rate` | `2mbit`, `1Gbit/s`, `9600bit`, `unlimited` |
/// | `trace` | a file in mahimahi's format, in place of `rate`: [when the link carries data](RateTrace) |
/// | `delay`, `jitter` | `40ms`, `1.5s`, `200us`, `0` |
/// | `mtu` | `1500b`: a larger packet is lost unless IP may fragment it |
/// | `queue` | `64kib`, `73kb`, `50p` (packets), `dummynet:73kb` ([dummynet's rule](QueueLimit::Dummynet)), `unlimited` |
/// | `aqm` | `codel`, `codel:5ms/100ms` (target/interval), `fq-codel`, `fq-codel:5ms/100ms/1514/1024` (and quantum/queues), `none`: [how the queue is managed](Aqm) |
/// | `ecn-mark` | `20p`, `30kb`: an ECN-capable packet is [marked CE](MarkThreshold) if the queue already holds more than this; `none` |
/// | `loss` | `0.1%` (or `0.001`), `burst:P/R` or `burst:P/R/GOOD/BAD`, `script:3/17`, `outage:2s-3s`, `none` |
/// | `ect-loss` | `100%`: probability that an ECN-capable packet is lost, as with middleboxes that drop such packets |
/// | `reorder` | `1%:20ms`: probability that a packet is late and is overtaken, and its extra delay |
/// | `duplicate`, `corrupt` | `0.1%` |
///
/// Durations, sizes and rates have the grammar of [`units`]. A probability is a percentage or a number below 1. The bare number `1` is
/// refused, because it could mean 1 % or 100 %.
///
/// [`Display`](fmt::Display) writes the same form, and parsing its output gives the same value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Bits per second, at least 1. `None`, the default, is infinitely fast, and then the queue never fills.
    pub rate: Option<u64>,
    /// A variable rate, in place of `rate`; none by default.
    pub trace: Option<RateTrace>,
    /// Propagation delay, from the last bit sent to the last bit received; 0 by default.
    pub delay: Duration,
    /// Variation of the delay: uniformly distributed from `delay - jitter` to `delay + jitter`, never below 0; 0 by default. Jitter does
    /// not reorder: a packet never arrives before the packet sent before it.
    pub jitter: Duration,
    /// Bytes of the largest IP packet, from 576 to 65,535; 1,500 by default.
    pub mtu: u16,
    /// Limit of the queue in front of the link; unlimited by default.
    pub queue: QueueLimit,
    /// Active queue management; none by default.
    pub aqm: Aqm,
    /// Queue length above which ECN-capable packets are marked CE; `None`, the default, disables this rule.
    pub ecn_mark: Option<MarkThreshold>,
    /// Losses other than those of the queue; none by default.
    pub loss: LossModel,
    /// Probability that an ECN-capable packet is lost, in addition to `loss`, as with middleboxes that drop such packets; 0 by default.
    pub ect_loss: Probability,
    /// Packets that arrive late and are overtaken; none by default.
    pub reorder: Reorder,
    /// Probability that a packet arrives twice, the copy right after the original; 0 by default.
    pub duplicate: Probability,
    /// Probability that some bits of a packet are flipped; 0 by default.
    pub corrupt: Probability,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
            trace: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            mtu: 1500,
            queue: QueueLimit::default(),
            aqm: Aqm::default(),
            ecn_mark: None,
            loss: LossModel::default(),
            ect_loss: Probability::default(),
            reorder: Reorder::default(),
            duplicate: Probability::default(),
            corrupt: Probability::default(),
        }
    }
}

/// Reordering: packets that arrive later than their place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reorder {
    /// Probability that a packet is late; 0 by default.
    pub probability: Probability,
    /// Additional delay of a late packet.
    pub extra_delay: Duration,
}

impl LinkConfig {
    /// The keys of the text form.
    pub const KEYS: [&str; 13] = [
        "rate",
        "trace",
        "delay",
        "jitter",
        "mtu",
        "queue",
        "aqm",
        "ecn-mark",
        "loss",
        "ect-loss",
        "reorder",
        "duplicate",
        "corrupt",
    ];

    /// Whether the rate is limited, so that packets wait for each other.
    pub(crate) fn has_rate(&self) -> bool {
        self.rate.is_some() || self.trace.is_some()
    }

    /// Sets the rate in bits per second, in place of a trace.
    ///
    /// # Panics
    /// If the rate is 0. For a link that carries nothing, use [`crate::Link::set_down`].
    #[must_use]
    pub fn with_rate(mut self, rate: u64) -> Self {
        assert!(rate > 0, "a link's rate is at least 1 bit/s");
        (self.rate, self.trace) = (Some(rate), None);
        self
    }

    /// Sets a variable rate, in place of a constant one.
    #[must_use]
    pub fn with_trace(mut self, trace: RateTrace) -> Self {
        (self.rate, self.trace) = (None, Some(trace));
        self
    }

    /// Sets the propagation delay.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the variation of the delay to either side.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the length of the largest IP packet in bytes.
    ///
    /// # Panics
    /// If it is below 576, the smallest MTU that IPv4 allows (RFC 791).
    #[must_use]
    pub fn with_mtu(mut self, mtu: u16) -> Self {
        assert!(
            mtu >= SMALLEST_MTU,
            "a link's MTU is at least {SMALLEST_MTU} bytes"
        );
        self.mtu = mtu;
        self
    }

    /// Sets the queue's limit.
    #[must_use]
    pub fn with_queue(mut self, queue: QueueLimit) -> Self {
        self.queue = queue;
        self
    }

    /// Sets the active queue management.
    #[must_use]
    pub fn with_aqm(mut self, aqm: Aqm) -> Self {
        self.aqm = aqm;
        self
    }

    /// Sets the queue length above which ECN-capable packets are marked CE.
    #[must_use]
    pub fn with_ecn_mark(mut self, threshold: MarkThreshold) -> Self {
        self.ecn_mark = Some(threshold);
        self
    }

    /// Sets the loss model.
    #[must_use]
    pub fn with_loss(mut self, loss: impl Into<LossModel>) -> Self {
        self.loss = loss.into();
        self
    }

    /// Sets the probability that an ECN-capable packet is lost.
    #[must_use]
    pub fn with_ect_loss(mut self, probability: impl Into<Probability>) -> Self {
        self.ect_loss = probability.into();
        self
    }

    /// Sets the probability that a packet is late, and its additional delay.
    #[must_use]
    pub fn with_reorder(mut self, probability: impl Into<Probability>, extra_delay: Duration) -> Self {
        self.reorder = Reorder {
            probability: probability.into(),
            extra_delay,
        };
        self
    }

    /// Sets the probability that a packet arrives twice.
    #[must_use]
    pub fn with_duplicate(mut self, probability: impl Into<Probability>) -> Self {
        self.duplicate = probability.into();
        self
    }

    /// Sets the probability that a packet is damaged.
    #[must_use]
    pub fn with_corrupt(mut self, probability: impl Into<Probability>) -> Self {
        self.corrupt = probability.into();
        self
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        match key {
            "rate" if value.eq_ignore_ascii_case("unlimited") => self.rate = None,
            "rate" => self.rate = Some(units::rate(value)?),
            "trace" => self.trace = Some(RateTrace::read(value)?),
            "delay" => self.delay = units::duration(value)?,
            "jitter" => self.jitter = units::duration(value)?,
            "mtu" => {
                let mtu = units::parse_size(value).map_err(|error| error.problem)?;
                let mtu = u16::try_from(mtu).ok().filter(|mtu| *mtu >= SMALLEST_MTU);
                self.mtu = mtu.ok_or(Problem::Form)?;
            }
            "queue" => self.queue = value.parse()?,
            "aqm" => self.aqm = value.parse()?,
            "ecn-mark" if value.eq_ignore_ascii_case("none") => self.ecn_mark = None,
            "ecn-mark" => self.ecn_mark = Some(value.parse()?),
            "loss" => self.loss = value.parse()?,
            "ect-loss" => self.ect_loss = value.parse()?,
            "reorder" => {
                let (probability, extra_delay) = value.split_once(':').ok_or(Problem::Form)?;
                self.reorder = Reorder {
                    probability: probability.parse()?,
                    extra_delay: units::duration(extra_delay)?,
                };
            }
            "duplicate" => self.duplicate = value.parse()?,
            _ => self.corrupt = value.parse()?,
        }
        Ok(())
    }
}

/// The values that a key accepts, for error messages.
fn allowed(key: &str) -> &'static str {
    match key {
        "rate" => "a rate of at least 1 bit/s like 2mbit, 1gbit, 500kbit or 9600bit, or unlimited",
        "trace" => {
            "a file with the time of each opportunity to carry 1,500 bytes, as a whole number of milliseconds on a line of its own"
        }
        "delay" | "jitter" => "a duration like 40ms, 1.5s or 200us",
        "mtu" => "a number of bytes from 576 to 65535",
        "queue" => {
            "a size like 64kib, 73kb or 1500b, a number of packets like 50p, a size by dummynet's rule like dummynet:73kb, or unlimited"
        }
        "aqm" => {
            "codel, codel:TARGET/INTERVAL like codel:5ms/100ms, fq-codel, fq-codel:TARGET/INTERVAL, fq-codel:TARGET/INTERVAL/QUANTUM/QUEUES like fq-codel:5ms/100ms/1514/1024, or none"
        }
        "ecn-mark" => "a number of packets like 20p, a size like 30kb, or none",
        "loss" => {
            "a share like 0.1%, burst:P/R, burst:P/R/GOOD/BAD, script:3/17 (ascending), outage:2s-3s/5s-6s, or none"
        }
        "reorder" => "a share and a delay like 1%:20ms",
        _ => "a share like 0.1%",
    }
}

/// The fault of a value, if there is more to say than the values that its key accepts.
fn because(problem: &Problem) -> String {
    match problem {
        Problem::Form => String::new(),
        problem => format!(": {problem}"),
    }
}

/// Why a text is not a valid link configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkConfigError {
    /// An item is not of the form `key=value`.
    #[error("link: {0:?} is not of the form key=value")]
    NoValue(String),
    /// The key is unknown.
    #[error("link: there is no key {0:?}; there are {list}", list = LinkConfig::KEYS.join(", "))]
    UnknownKey(String),
    /// The key occurs twice.
    #[error("link: {0} is given twice")]
    Twice(&'static str),
    /// Two keys exclude each other.
    #[error("link: {0} and {1} cannot be combined")]
    Together(&'static str, &'static str),
    /// The key's value cannot be parsed or is out of range.
    #[error("link: {key} cannot be {value:?}{}; it takes {allowed}", because(problem))]
    Value {
        /// The key.
        key: &'static str,
        /// The given value.
        value: String,
        /// The fault of the value.
        problem: Problem,
        /// The values that the key accepts.
        allowed: &'static str,
    },
}

impl FromStr for LinkConfig {
    type Err = LinkConfigError;

    fn from_str(text: &str) -> Result<Self, LinkConfigError> {
        let mut config = Self::default();
        let mut seen = [false; Self::KEYS.len()];
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = item
                .split_once('=')
                .ok_or_else(|| LinkConfigError::NoValue(item.to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            let place = Self::KEYS
                .iter()
                .position(|known| known.eq_ignore_ascii_case(key));
            let place = place.ok_or_else(|| LinkConfigError::UnknownKey(key.to_owned()))?;
            let key = Self::KEYS[place];
            if core::mem::replace(&mut seen[place], true) {
                return Err(LinkConfigError::Twice(key));
            }
            config.set(key, value).map_err(|problem| LinkConfigError::Value {
                key,
                value: value.to_owned(),
                problem,
                allowed: allowed(key),
            })?;
        }
        if config.rate.is_some() && config.trace.is_some() {
            return Err(LinkConfigError::Together("rate", "trace"));
        }
        Ok(config)
    }
}

impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        match (&self.trace, self.rate) {
            (Some(trace), _) => write!(f, "trace={trace}")?,
            (None, Some(rate)) => {
                f.write_str("rate=")?;
                units::write_with_unit(f, rate, units::RATE)?;
            }
            (None, None) => f.write_str("rate=unlimited")?,
        }
        f.write_str(",delay=")?;
        units::write_with_unit(f, units::nanos(self.delay), units::TIME)?;
        if self.jitter != default.jitter {
            f.write_str(",jitter=")?;
            units::write_with_unit(f, units::nanos(self.jitter), units::TIME)?;
        }
        if self.mtu != default.mtu {
            write!(f, ",mtu={}", self.mtu)?;
        }
        if self.queue != default.queue {
            write!(f, ",queue={}", self.queue)?;
        }
        if self.aqm != default.aqm {
            write!(f, ",aqm={}", self.aqm)?;
        }
        if let Some(threshold) = self.ecn_mark {
            write!(f, ",ecn-mark={threshold}")?;
        }
        if self.loss != default.loss {
            write!(f, ",loss={}", self.loss)?;
        }
        if self.ect_loss != default.ect_loss {
            write!(f, ",ect-loss={}", self.ect_loss)?;
        }
        if self.reorder != default.reorder {
            write!(f, ",reorder={}:", self.reorder.probability)?;
            units::write_with_unit(f, units::nanos(self.reorder.extra_delay), units::TIME)?;
        }
        if self.duplicate != default.duplicate {
            write!(f, ",duplicate={}", self.duplicate)?;
        }
        if self.corrupt != default.corrupt {
            write!(f, ",corrupt={}", self.corrupt)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::CoDelConfig;

    #[test]
    fn every_setting_is_written_and_read_back() {
        let config = LinkConfig::default()
            .with_rate(1_500_000)
            .with_delay(Duration::from_micros(40_500))
            .with_jitter(Duration::from_millis(3))
            .with_mtu(1400)
            .with_queue(QueueLimit::Bytes(73_000))
            .with_aqm(Aqm::CoDel(CoDelConfig {
                target: Duration::from_millis(15),
                ..CoDelConfig::default()
            }))
            .with_ecn_mark(MarkThreshold::Packets(20))
            .with_loss(LossModel::bursts(0.01, 0.2))
            .with_ect_loss(0.5)
            .with_reorder(0.01, Duration::from_millis(20))
            .with_duplicate(0.001)
            .with_corrupt(0.002);
        let text = config.to_string();
        assert_eq!(
            text,
            "rate=1500kbit,delay=40500us,jitter=3ms,mtu=1400,queue=73kb,aqm=codel:15ms/100ms,ecn-mark=20p,\
             loss=burst:1%/20%/0%/100%,ect-loss=50%,reorder=1%:20ms,duplicate=0.1%,corrupt=0.2%"
        );
        assert_eq!(text.parse(), Ok(config));
        let by_bytes: LinkConfig = "ecn-mark=30kb".parse().unwrap();
        assert_eq!(by_bytes.ecn_mark, Some(MarkThreshold::Bytes(30_000)));
        assert_eq!("ecn-mark=none".parse(), Ok(LinkConfig::default()));
        let plain = LinkConfig::default();
        assert_eq!(plain.to_string().parse(), Ok(plain));
    }

    #[test]
    fn the_form_of_the_command_line_is_read() {
        let config: LinkConfig = "rate=1gbit, delay=5ms,loss=0.1%,queue=64kib".parse().unwrap();
        assert_eq!(config.rate, Some(1_000_000_000));
        assert_eq!(config.delay, Duration::from_millis(5));
        assert_eq!(config.loss, LossModel::bernoulli(0.001));
        assert_eq!(config.queue, QueueLimit::Bytes(65_536));
        assert_eq!("".parse(), Ok(LinkConfig::default()));
    }

    #[test]
    fn a_trace_takes_the_place_of_a_rate() {
        let file = std::env::temp_dir().join(format!("rate-trace-{}", std::process::id()));
        std::fs::write(&file, "1\n2\n").unwrap();
        let text = format!("trace={},delay=5ms", file.display());
        let config: LinkConfig = text.parse().unwrap();
        assert_eq!(config.to_string(), text);
        assert_eq!(config.trace.as_ref().unwrap().mean_rate(), 12_000_000);
        assert_eq!(config.clone().with_rate(8).trace, None);
        let both = format!("rate=1mbit,{text}").parse::<LinkConfig>();
        assert_eq!(both, Err(LinkConfigError::Together("rate", "trace")));
        std::fs::remove_file(&file).unwrap();
        let gone = text.parse::<LinkConfig>().unwrap_err().to_string();
        assert!(gone.contains("cannot read it"), "{gone}");
    }

    #[test]
    fn errors_name_the_key_and_what_it_takes() {
        let error = |text: &str| text.parse::<LinkConfig>().unwrap_err().to_string();
        assert!(error("speed=1gbit").contains("\"speed\"; there are rate, trace, delay"));
        assert!(error("rate").contains("key=value"));
        assert!(error("delay=1ms,delay=2ms").contains("delay is given twice"));
        for key in LinkConfig::KEYS {
            let message = error(&format!("{key}=nonsense"));
            assert!(message.contains(key) && message.contains("it takes"), "{message}");
        }
        assert!(error("rate=0bit").contains("at least 1 bit/s"));
        assert!(error("rate=10MB").contains("counts bytes"));
        for one in [
            "loss=1",
            "ect-loss=1.0",
            "corrupt=1",
            "reorder=1:2ms",
            "loss=burst:1/20%",
        ] {
            let error = error(one);
            assert!(error.contains(": 1 % or 0.01? Write 1% or 0.01 for"), "{error}");
            assert!(error.contains("100% for all"), "{error}");
        }
        assert_eq!("loss=1%".parse::<LinkConfig>(), "loss=0.01".parse());
    }
}
