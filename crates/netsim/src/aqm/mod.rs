//! Active queue management (RFC 7567): queues that drop or mark packets before they are full.
//!
//! A queue here is told the time with each packet that comes and each that leaves, and has no clock.

use core::fmt;
use core::time::Duration;
use std::str::FromStr;

use anabranch_proto::Timestamp;

use crate::link::{LinkPacket, LinkStats};
use crate::units;

mod codel;
mod fifo;
mod fq_codel;

use codel::CoDel;
pub(crate) use fifo::{Fifo, Waiting};
use fq_codel::FqCoDel;

/// How a link manages its queue. [`QueueLimit`](crate::QueueLimit) bounds the queue whichever it is.
///
/// CoDel and FQ-CoDel mark an ECN-capable packet CE where they would drop it (RFC 8289 §3.1). They never mark because the queue is
/// full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Aqm {
    /// First in, first out; only a full queue drops packets, and those are the ones that come.
    #[default]
    None,
    /// CoDel (RFC 8289): one queue, first in, first out. A full one drops the packets that come.
    CoDel(CoDelConfig),
    /// FQ-CoDel (RFC 8290): a queue for each flow, served in turns, with CoDel in each. If all together are full, the longest
    /// loses packets from its head.
    FqCoDel(FqCoDelConfig),
}

/// CoDel's settings (RFC 8289 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelConfig {
    /// The standing delay in the queue that is tolerated; 5 ms by default. A link slower than 2.4 Mbit/s takes longer for a
    /// packet of 1,500 bytes, and should have a larger target.
    pub target: Duration,
    /// For how long the delay has to be above the target before the first drop, of the order of the longest round trip; 100 ms
    /// by default, and more than 0.
    pub interval: Duration,
}

impl Default for CoDelConfig {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        }
    }
}

/// FQ-CoDel's settings (RFC 8290 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelConfig {
    /// Of the CoDel in each queue.
    pub codel: CoDelConfig,
    /// Bytes that a queue may send in its turn; 1,514 by default, at least 1.
    pub quantum: u32,
    /// Queues, to which flows are assigned by a hash of their 5-tuples; 1,024 by default, from 1 to 65,536.
    pub flows: u32,
}

impl Default for FqCoDelConfig {
    fn default() -> Self {
        Self {
            codel: CoDelConfig::default(),
            quantum: 1514,
            flows: 1024,
        }
    }
}

/// The most queues that FQ-CoDel may have.
const MOST_FLOWS: u32 = 1 << 16;
const NONE: &str = "none";
const CODEL: &str = "codel";
const FQ_CODEL: &str = "fq-codel";

impl fmt::Display for Aqm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |f: &mut fmt::Formatter<'_>, config: &CoDelConfig| {
            f.write_str(":")?;
            units::write_with_unit(f, units::nanos(config.target), units::TIME)?;
            f.write_str("/")?;
            units::write_with_unit(f, units::nanos(config.interval), units::TIME)
        };
        match self {
            Self::None => f.write_str(NONE),
            Self::CoDel(config) => {
                f.write_str(CODEL)?;
                match *config == CoDelConfig::default() {
                    true => Ok(()),
                    false => times(f, config),
                }
            }
            Self::FqCoDel(config) => {
                f.write_str(FQ_CODEL)?;
                if *config == FqCoDelConfig::default() {
                    return Ok(());
                }
                times(f, &config.codel)?;
                write!(f, "/{}/{}", config.quantum, config.flows)
            }
        }
    }
}

impl FromStr for Aqm {
    type Err = ();

    /// Reads `none`, `codel`, `codel:5ms/100ms`, `fq-codel`, `fq-codel:5ms/100ms` or `fq-codel:5ms/100ms/1514/1024`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.to_ascii_lowercase();
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, settings.split('/').collect()),
            None => (text.as_str(), Vec::new()),
        };
        let mut codel = CoDelConfig::default();
        let mut fq = FqCoDelConfig::default();
        if let [target, interval, ..] = settings[..] {
            codel.target = units::duration(target).ok_or(())?;
            let interval = units::duration(interval).filter(|interval| !interval.is_zero());
            codel.interval = interval.ok_or(())?;
            fq.codel = codel;
        }
        if let [_, _, quantum, flows] = settings[..] {
            let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
            fq.quantum = number(quantum).ok_or(())?;
            fq.flows = number(flows).filter(|flows| *flows <= MOST_FLOWS).ok_or(())?;
        }
        match (name, settings.len()) {
            (NONE, 0) => Ok(Self::None),
            (CODEL, 0 | 2) => Ok(Self::CoDel(codel)),
            (FQ_CODEL, 0 | 2 | 4) => Ok(Self::FqCoDel(fq)),
            _ => Err(()),
        }
    }
}

/// When a packet is taken from a queue, and of what link.
pub(crate) struct Service<'a> {
    pub(crate) now: Timestamp,
    /// The link's MTU in bytes: a queue that holds no more is never managed (RFC 8289 §5.4).
    pub(crate) mtu: u64,
    pub(crate) stats: &'a mut LinkStats,
}

impl Service<'_> {
    /// A packet leaves the queue, whether it is sent or dropped.
    fn note_wait<P>(&mut self, waiting: &Waiting<P>) {
        let wait = self.now.saturating_duration_since(waiting.since);
        self.stats.queue_byte_nanos += u128::from(waiting.len) * wait.as_nanos();
    }
}

/// The packets that wait for a link whose queue is managed. Without management none wait here: see [`crate::queue`].
#[derive(Clone, Debug)]
pub(crate) enum Discipline<P> {
    None,
    CoDel(CoDelConfig, CoDel, Fifo<P>),
    FqCoDel(Box<FqCoDel<P>>),
}

impl<P: LinkPacket> Discipline<P> {
    /// An empty queue. The perturbation decides which flows share a queue.
    pub(crate) fn new(aqm: Aqm, perturbation: u64) -> Self {
        match aqm {
            Aqm::None => Self::None,
            Aqm::CoDel(config) => Self::CoDel(config, CoDel::default(), Fifo::default()),
            Aqm::FqCoDel(config) => Self::FqCoDel(Box::new(FqCoDel::new(config, perturbation))),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::CoDel(_, _, fifo) => fifo.bytes(),
            Self::FqCoDel(queues) => queues.bytes(),
        }
    }

    pub(crate) fn packets(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::CoDel(_, _, fifo) => fifo.packets(),
            Self::FqCoDel(queues) => queues.packets(),
        }
    }

    /// Whether a full queue makes room by dropping packets that it holds.
    pub(crate) fn makes_room(&self) -> bool {
        matches!(self, Self::FqCoDel(_))
    }

    pub(crate) fn enqueue(&mut self, waiting: Waiting<P>) {
        match self {
            Self::None => debug_assert!(false, "nothing waits in an unmanaged queue"),
            Self::CoDel(_, _, fifo) => fifo.push(waiting),
            Self::FqCoDel(queues) => queues.enqueue(waiting),
        }
    }

    /// The next packet to send. Called whenever the link is free, also if nothing waits: an empty queue forgets.
    pub(crate) fn dequeue(&mut self, service: &mut Service<'_>) -> Option<Waiting<P>> {
        match self {
            Self::None => None,
            Self::CoDel(config, codel, fifo) => codel.dequeue(config, fifo, service),
            Self::FqCoDel(queues) => queues.dequeue(service),
        }
    }

    /// Drops packets because the queue is full; whether that of this index was among them.
    pub(crate) fn drop_from_longest(&mut self, index: u64, service: &mut Service<'_>) -> bool {
        match self {
            Self::FqCoDel(queues) => queues.drop_from_longest(index, service),
            _ => false,
        }
    }

    /// Takes out all packets, for a queue of another kind: each flow's in their order.
    pub(crate) fn take_all(&mut self) -> Vec<Waiting<P>> {
        let mut all = match self {
            Self::None => Vec::new(),
            Self::CoDel(_, _, fifo) => fifo.take_all(),
            Self::FqCoDel(queues) => queues.take_all(),
        };
        all.sort_by_key(|waiting| waiting.index);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disciplines_are_written_and_read_back() {
        for text in [
            "none",
            "codel",
            "codel:15ms/300ms",
            "fq-codel",
            "fq-codel:5ms/100ms/300/16",
            "fq-codel:10ms/200ms/1514/1024",
        ] {
            assert_eq!(text.parse::<Aqm>().unwrap().to_string(), text);
        }
        let short: Aqm = "FQ-CoDel:10ms/200ms".parse().unwrap();
        assert_eq!(short.to_string(), "fq-codel:10ms/200ms/1514/1024");
        for wrong in [
            "",
            "red",
            "none:5ms/100ms",
            "codel:5ms",
            "codel:5ms/0ms",
            "codel:5ms/100ms/1514/1024",
            "fq-codel:5ms/100ms/1514",
            "fq-codel:5ms/100ms/0/1024",
            "fq-codel:5ms/100ms/1514/0",
            "fq-codel:5ms/100ms/1514/65537",
        ] {
            assert!(wrong.parse::<Aqm>().is_err(), "{wrong}");
        }
    }
}
