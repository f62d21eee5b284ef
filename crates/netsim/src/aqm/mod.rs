//! Active queue management (RFC 7567): queues that drop or mark packets before they are full.
//!
//! These queues have no clock: the caller passes the time with each packet that arrives and each that leaves.

use core::fmt;
use core::time::Duration;
use std::str::FromStr;

use anabranch_proto::Timestamp;

use crate::link::{LinkPacket, LinkStats};
use crate::units::{self, Problem};

mod codel;
mod fifo;
mod fq_codel;

use codel::CoDel;
pub(crate) use fifo::{Fifo, Waiting};
use fq_codel::FqCoDel;

/// How a link manages its queue. With every variant, [`QueueLimit`](crate::QueueLimit) bounds the queue.
///
/// CoDel and FQ-CoDel mark an ECN-capable packet CE where they would drop it (RFC 8289 §3.1). If the queue is full, they drop packets and
/// never mark them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Aqm {
    /// First in, first out. Only a full queue drops packets, and it drops the arriving ones.
    #[default]
    None,
    /// CoDel (RFC 8289): one queue, first in, first out. A full queue drops the arriving packets.
    CoDel(CoDelConfig),
    /// FQ-CoDel (RFC 8290): one queue for each flow, served in rounds, with CoDel in each queue. If the queues together reach the limit,
    /// the longest queue drops packets from its head.
    FqCoDel(FqCoDelConfig),
}

/// CoDel's settings (RFC 8289 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelConfig {
    /// Tolerated standing queue delay; 5 ms by default. A link slower than 2.4 Mbit/s needs more than 5 ms to send a packet of 1,500 bytes,
    /// and should have a larger target.
    pub target: Duration,
    /// How long the delay must be above the target before the first drop. It should be about the longest round-trip time of the flows. 100
    /// ms by default; more than 0.
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
    /// CoDel's settings in each queue.
    pub codel: CoDelConfig,
    /// Bytes that a queue may send in each round; 1,514 by default, at least 1.
    pub quantum: u32,
    /// Number of queues. A hash of a flow's 5-tuple selects its queue. 1,024 by default, from 1 to 65,536.
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

/// The largest number of queues that FQ-CoDel may have.
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
    type Err = Problem;

    /// Reads `none`, `codel`, `codel:5ms/100ms`, `fq-codel`, `fq-codel:5ms/100ms` or `fq-codel:5ms/100ms/1514/1024`.
    fn from_str(text: &str) -> Result<Self, Problem> {
        let text = text.to_ascii_lowercase();
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, settings.split('/').collect()),
            None => (text.as_str(), Vec::new()),
        };
        let mut codel = CoDelConfig::default();
        let mut fq = FqCoDelConfig::default();
        if let [target, interval, ..] = settings[..] {
            codel.target = units::duration(target)?;
            codel.interval = match units::duration(interval)? {
                Duration::ZERO => return Err(Problem::Zero),
                interval => interval,
            };
            fq.codel = codel;
        }
        if let [_, _, quantum, flows] = settings[..] {
            let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
            fq.quantum = number(quantum).ok_or(Problem::Form)?;
            let flows = number(flows).filter(|flows| *flows <= MOST_FLOWS);
            fq.flows = flows.ok_or(Problem::Form)?;
        }
        match (name, settings.len()) {
            (NONE, 0) => Ok(Self::None),
            (CODEL, 0 | 2) => Ok(Self::CoDel(codel)),
            (FQ_CODEL, 0 | 2 | 4) => Ok(Self::FqCoDel(fq)),
            _ => Err(Problem::Form),
        }
    }
}

/// The link and the time at which it takes a packet from its queue.
pub(crate) struct Service<'a> {
    pub(crate) now: Timestamp,
    /// The link's MTU in bytes. A queue with no more bytes than this is never managed (RFC 8289 §5.4).
    pub(crate) mtu: u64,
    pub(crate) stats: &'a mut LinkStats,
}

impl Service<'_> {
    /// Counts a packet's time in the queue when it leaves, whether it is sent or dropped.
    fn note_wait<P>(&mut self, waiting: &Waiting<P>) {
        let wait = self.now.saturating_duration_since(waiting.since);
        self.stats.queue_byte_nanos += u128::from(waiting.len) * wait.as_nanos();
    }
}

/// The packets that wait for a link with a managed queue. Without management this queue stays empty: see [`crate::queue`].
#[derive(Clone, Debug)]
pub(crate) enum Discipline<P> {
    None,
    CoDel(CoDelConfig, CoDel, Fifo<P>),
    FqCoDel(Box<FqCoDel<P>>),
}

impl<P: LinkPacket> Discipline<P> {
    /// An empty queue. The perturbation changes which flows share a queue.
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

    /// Whether a full queue accepts a packet and drops packets that it already holds.
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

    /// The next packet to send. The link calls this whenever it is free, even if no packet waits, because an empty queue resets CoDel's
    /// state.
    pub(crate) fn dequeue(&mut self, service: &mut Service<'_>) -> Option<Waiting<P>> {
        match self {
            Self::None => None,
            Self::CoDel(config, codel, fifo) => codel.dequeue(config, fifo, service),
            Self::FqCoDel(queues) => queues.dequeue(service),
        }
    }

    /// Drops packets because the queue is full; returns whether the packet with this index was among them.
    pub(crate) fn drop_from_longest(&mut self, index: u64, service: &mut Service<'_>) -> bool {
        match self {
            Self::FqCoDel(queues) => queues.drop_from_longest(index, service),
            _ => false,
        }
    }

    /// Removes all packets, to move them to a queue of another kind. The packets of each flow stay in order.
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
