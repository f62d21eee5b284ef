//! A link's settings, as a value and as text: `rate=1gbit,delay=5ms,loss=0.1%,queue=64kib`.

use core::fmt;
use core::time::Duration;
use std::str::FromStr;

use crate::aqm::Aqm;
use crate::loss::LossModel;
use crate::queue::{MarkThreshold, QueueLimit};
use crate::random::Probability;
use crate::units;

/// What every link must carry (RFC 791).
const SMALLEST_MTU: u16 = 576;

/// What a link does to packets in one direction. The default changes nothing: no limit but Ethernet's MTU, no delay, no
/// loss.
///
/// As text, `key=value` pairs separated by commas; what is left out has its default:
///
/// | key | value |
/// | --- | --- |
/// | `rate` | `2mbit`, `1gbit`, `9600bit`, `unlimited` |
/// | `delay`, `jitter` | `40ms`, `1.5s`, `200us` |
/// | `mtu` | `1500b`: larger packets are lost unless IP may cut them up |
/// | `queue` | `64kib`, `73kb`, `50p` (packets), `dummynet:73kb` ([dummynet's rule](QueueLimit::Dummynet)), `unlimited` |
/// | `aqm` | `codel`, `codel:5ms/100ms` (target/interval), `fq-codel`, `fq-codel:5ms/100ms/1514/1024` (and quantum/queues), `none`: [how the queue is managed](Aqm) |
/// | `ecn-mark` | `20p`, `30kb`: an ECN-capable packet that finds more in the queue is [marked CE](MarkThreshold); `none` |
/// | `loss` | `0.1%`, `burst:P/R` or `burst:P/R/GOOD/BAD`, `script:3/17`, `outage:2s-3s`, `none` |
/// | `ect-loss` | `100%`: the share of ECN-capable packets that are lost, as some middleboxes drop them |
/// | `reorder` | `1%:20ms`: this share comes so much later, and is overtaken |
/// | `duplicate`, `corrupt` | `0.1%` |
///
/// [`Display`](fmt::Display) writes the same form, and what it writes reads back as the same value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Bits per second, at least 1; `None` is infinitely fast, and then the queue never fills.
    pub rate: Option<u64>,
    /// Propagation delay: from the last bit sent to the last bit received.
    pub delay: Duration,
    /// How much the delay varies: uniformly from `delay - jitter` to `delay + jitter`, never below 0. It changes
    /// no order: a packet comes no earlier than the one before it.
    pub jitter: Duration,
    /// Bytes of the largest IP packet, at least 576; 1,500 by default.
    pub mtu: u16,
    /// The queue in front of the link.
    pub queue: QueueLimit,
    /// How the queue is managed; by default it is not.
    pub aqm: Aqm,
    /// From which length of the queue on ECN-capable packets are marked CE; `None`, the default, marks none by this rule.
    pub ecn_mark: Option<MarkThreshold>,
    /// Losses other than those of the queue.
    pub loss: LossModel,
    /// The share of ECN-capable packets that are lost besides, as some middleboxes drop them.
    pub ect_loss: Probability,
    /// Packets that come late, and are overtaken.
    pub reorder: Reorder,
    /// The share of packets that come twice, one right after the other.
    pub duplicate: Probability,
    /// The share of packets in which some bits come wrong.
    pub corrupt: Probability,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
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

/// Packets that come later than their place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reorder {
    /// The share of packets that are late.
    pub probability: Probability,
    /// How much later they come than they would have.
    pub extra_delay: Duration,
}

impl LinkConfig {
    /// The keys of the text form.
    pub const KEYS: [&str; 12] = [
        "rate",
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

    /// Sets the rate in bits per second.
    ///
    /// # Panics
    /// If the rate is 0: for a link that carries nothing, see [`crate::Link::set_down`].
    #[must_use]
    pub fn with_rate(mut self, rate: u64) -> Self {
        assert!(rate > 0, "a link's rate is at least 1 bit/s");
        self.rate = Some(rate);
        self
    }

    /// Sets the propagation delay.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets how much the delay varies to either side.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the largest IP packet in bytes.
    ///
    /// # Panics
    /// If it is below 576, which IPv4 wants of every link (RFC 791).
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

    /// Sets how the queue is managed.
    #[must_use]
    pub fn with_aqm(mut self, aqm: Aqm) -> Self {
        self.aqm = aqm;
        self
    }

    /// Sets from which length of the queue on ECN-capable packets are marked CE.
    #[must_use]
    pub fn with_ecn_mark(mut self, threshold: MarkThreshold) -> Self {
        self.ecn_mark = Some(threshold);
        self
    }

    /// Sets how packets are lost.
    #[must_use]
    pub fn with_loss(mut self, loss: impl Into<LossModel>) -> Self {
        self.loss = loss.into();
        self
    }

    /// Sets the share of ECN-capable packets that are lost.
    #[must_use]
    pub fn with_ect_loss(mut self, probability: impl Into<Probability>) -> Self {
        self.ect_loss = probability.into();
        self
    }

    /// Sets the share of packets that come late, and by how much.
    #[must_use]
    pub fn with_reorder(mut self, probability: impl Into<Probability>, extra_delay: Duration) -> Self {
        self.reorder = Reorder {
            probability: probability.into(),
            extra_delay,
        };
        self
    }

    /// Sets the share of packets that come twice.
    #[must_use]
    pub fn with_duplicate(mut self, probability: impl Into<Probability>) -> Self {
        self.duplicate = probability.into();
        self
    }

    /// Sets the share of packets that come damaged.
    #[must_use]
    pub fn with_corrupt(mut self, probability: impl Into<Probability>) -> Self {
        self.corrupt = probability.into();
        self
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "rate" if value.eq_ignore_ascii_case("unlimited") => self.rate = None,
            "rate" => self.rate = Some(units::with_unit(value, units::RATE).filter(|&rate| rate > 0)?),
            "delay" => self.delay = units::duration(value)?,
            "jitter" => self.jitter = units::duration(value)?,
            "mtu" => {
                let mtu = units::with_unit(value, units::SIZE).or_else(|| value.parse().ok())?;
                self.mtu = u16::try_from(mtu).ok().filter(|mtu| *mtu >= SMALLEST_MTU)?;
            }
            "queue" => self.queue = value.parse().ok()?,
            "aqm" => self.aqm = value.parse().ok()?,
            "ecn-mark" if value.eq_ignore_ascii_case("none") => self.ecn_mark = None,
            "ecn-mark" => self.ecn_mark = Some(value.parse().ok()?),
            "loss" => self.loss = value.parse().ok()?,
            "ect-loss" => self.ect_loss = value.parse().ok()?,
            "reorder" => {
                let (probability, extra_delay) = value.split_once(':')?;
                self.reorder = Reorder {
                    probability: probability.parse().ok()?,
                    extra_delay: units::duration(extra_delay)?,
                };
            }
            "duplicate" => self.duplicate = value.parse().ok()?,
            _ => self.corrupt = value.parse().ok()?,
        }
        Some(())
    }
}

/// What values a key takes, for messages.
fn allowed(key: &str) -> &'static str {
    match key {
        "rate" => "a rate of at least 1 bit/s like 2mbit, 1gbit, 500kbit or 9600bit, or unlimited",
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

/// Why a text is no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkConfigError {
    /// An item is not of the form `key=value`.
    #[error("link: {0:?} is not of the form key=value")]
    NoValue(String),
    /// There is no such key.
    #[error("link: there is no key {0:?}; there are {list}", list = LinkConfig::KEYS.join(", "))]
    UnknownKey(String),
    /// A key is there twice.
    #[error("link: {0} is given twice")]
    Twice(&'static str),
    /// A key's value cannot be read or is out of its range.
    #[error("link: {key} cannot be {value:?}; it takes {allowed}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
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
            config.set(key, value).ok_or_else(|| LinkConfigError::Value {
                key,
                value: value.to_owned(),
                allowed: allowed(key),
            })?;
        }
        Ok(config)
    }
}

impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        f.write_str("rate=")?;
        match self.rate {
            Some(rate) => units::write_with_unit(f, rate, units::RATE)?,
            None => f.write_str("unlimited")?,
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
    fn errors_name_the_key_and_what_it_takes() {
        let error = |text: &str| text.parse::<LinkConfig>().unwrap_err().to_string();
        assert!(error("speed=1gbit").contains("\"speed\"; there are rate, delay"));
        assert!(error("rate").contains("key=value"));
        assert!(error("delay=1ms,delay=2ms").contains("delay is given twice"));
        for key in LinkConfig::KEYS {
            let message = error(&format!("{key}=nonsense"));
            assert!(message.contains(key) && message.contains("it takes"), "{message}");
        }
        assert!(error("rate=0bit").contains("at least 1 bit/s"));
    }
}
