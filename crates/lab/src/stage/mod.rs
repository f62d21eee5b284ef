//! A cell as a value, independent of where it is run: the settings of the hosts, paths, messages and TCP cross traffic. The simulator runs
//! the cell in virtual time (`simulated`), and an implementation of [`RealNetwork`] runs it on real packets. Both leave a [`Record`], and
//! the same code takes the cell's numbers from it.

mod beside;
mod comparison;
mod halves;
mod simulated;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_netsim::{LinkConfig, LinkStats, TcpConfig};
use anabranch_proto::{Config, Counters, PathStats, Timestamp};

use crate::trace::OwnPoints;
use crate::traffic::{Class, FirstTimes, Submission};
use crate::trial::Trial;

pub use crate::packet_log::{PacketLog, Seen, What};
pub(crate) use beside::NOT_HELD;
pub use beside::{
    BED, CellName, HALF, HostTimes, Origin, Quantiles, RealNetwork, RealRun, SIMULATED, beside,
};
pub use comparison::{SideBySide, business, side_by_side};
pub use halves::BedCells;
pub(crate) use simulated::{LinkChange, simulated, simulated_with};

/// A run to be made. The scenario already contains everything that the seed decides, except the random events on the links.
pub struct Scenario {
    /// The association's settings on both hosts, without local addresses: the network that runs the scenario sets these.
    pub config: Config,
    /// For each path the link of data, and the link of acknowledgements.
    pub paths: Vec<(LinkConfig, LinkConfig)>,
    /// The association and its messages; `None` if there is only TCP.
    pub messages: Option<Messages>,
    /// The TCP cross traffic, over the first path.
    pub tcp: Option<TcpFlows>,
    /// The measured time, from and to. No message is submitted after its end.
    pub counts: (Timestamp, Timestamp),
    /// The longest time that the last messages may take after the measured time.
    pub most_drain: Duration,
    /// Measurements besides deliveries and counters.
    pub measures: Measures,
}

/// Measurements besides deliveries and counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// The utilisation of the sender's retransmission queue, if the network can measure it.
    pub queue: bool,
    /// Every packet of the association at both hosts, and the congestion windows over time. Each message must fit into one chunk.
    pub packets: bool,
    /// A hash of all packets that the sender sent, in the simulator.
    pub digest: bool,
}

/// The messages that are sent over the association.
pub struct Messages {
    /// The time at which the sender connects.
    pub connect: Timestamp,
    /// How messages are sent, by class.
    pub classes: Vec<Class>,
    /// The messages and their times.
    pub demand: Demand,
    /// The messages that the run waits for after the measured time.
    pub awaited: Awaited,
}

/// Which messages are sent.
pub enum Demand {
    /// Each message at its time, in order of time.
    Scheduled(Box<dyn Iterator<Item = Submission> + Send>),
    /// Messages of class 0 with this many bytes, as fast as the send buffer accepts them.
    Greedy(usize),
    /// The same in both directions: the receiver sends as well.
    GreedyBothWays(usize),
}

/// The condition that ends a run after the last submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// No condition.
    Nothing,
    /// All messages are acknowledged or abandoned.
    All,
    /// The last message of this class is delivered.
    LastOf(usize),
}

/// Greedy TCP flows in the direction of the data.
#[derive(Clone, Debug)]
pub struct TcpFlows {
    /// The settings.
    pub config: TcpConfig,
    /// The settings in the simulator when the experiment also runs on real packets: those of Linux. On real packets the kernel uses its own
    /// settings, except that SACK and CUBIC are chosen here.
    pub real: TcpConfig,
    /// The start time of each flow.
    pub starts: Vec<Timestamp>,
    /// The link between each host and the bottleneck, in the simulator.
    pub access: LinkConfig,
}

impl TcpFlows {
    /// Flows with Linux's settings and CUBIC or Reno, which begin at these times.
    pub(crate) fn linux(cubic: bool, starts: Vec<Timestamp>) -> Self {
        let linux = TcpConfig::linux();
        let config = TcpConfig {
            // Linux enlarges the receive buffer during the transfer, up to this limit.
            receive_window: 6 << 20,
            ..if cubic { linux.with_cubic() } else { linux }
        };
        Self {
            config: config.clone(),
            real: config,
            starts,
            access: LinkConfig::default()
                .with_rate(1_000_000_000)
                .with_delay(Duration::from_micros(10)),
        }
    }
}

/// The network's counters at one time.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The counters of the links of data, path by path.
    pub links: Vec<LinkStats>,
    /// Bytes that each TCP flow had delivered by then.
    pub tcp_bytes: Vec<u64>,
    /// The sender's counters; all 0 before there is an association.
    pub sender: Counters,
}

/// The utilisation of a sender's retransmission queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueUse {
    /// The share of the kept bytes that was not acknowledged, on average over time.
    pub whole: f64,
    /// The same share during loss recovery; NaN if there was none.
    pub recovering: f64,
    /// The share of the time in which a path's congestion window had space but the send buffer was full.
    pub blocked: f64,
}

/// The time between two readings of the congestion windows.
pub const WINDOW_LOOK: Duration = Duration::from_millis(100);

/// The events at both hosts, from the first packet on.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// The events at the sender.
    pub sender: Vec<Seen>,
    /// The events at the receiver.
    pub receiver: Vec<Seen>,
}

/// The record of a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The measured time, from and to.
    pub counts: (Timestamp, Timestamp),
    /// The messages that the association accepted; a message's place is its number.
    pub submitted: Vec<Submission>,
    /// Messages that were refused because the send buffer was full.
    pub refused: u64,
    /// The time at which each message first left the sender; empty if this was not measured.
    pub sent: FirstTimes,
    /// The time at which each message was delivered. On real packets: when the kernel received the packet that let the endpoint deliver the
    /// message.
    pub delivered: FirstTimes,
    /// All deliveries in order: the time and the message.
    pub deliveries: Vec<(Timestamp, u32)>,
    /// The counters at the beginning of the measured time.
    pub at_begin: Reading,
    /// The counters at the end of the measured time.
    pub at_end: Reading,
    /// The counters at the end of the run.
    pub last: Reading,
    /// The packets that the receiver's association had received at the end of the run.
    pub packets_received: u64,
    /// The utilisation of the sender's retransmission queue in the measured time, if it was measured.
    pub queue: Option<QueueUse>,
    /// The events at the hosts, if packets were measured.
    pub logs: Option<Logs>,
    /// The congestion window of each path in bytes, once in each [`WINDOW_LOOK`] of the measured time, if packets were measured.
    pub windows: Vec<Vec<usize>>,
    /// A hash of all packets that the sender sent and their times, if it was measured.
    pub digest: Option<u64>,
}

/// The congestion windows of paths in bytes, in the order of the destination addresses; `None` until all are known.
#[must_use]
pub fn windows(paths: &[PathStats], destinations: &[IpAddr]) -> Option<Vec<usize>> {
    let to = |address: &IpAddr| paths.iter().find(|path| path.remote.ip() == *address);
    let windows = destinations.iter().map(|address| Some(to(address)?.cwnd));
    windows.collect()
}

impl Record {
    /// The length of the measured time in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let (from, to) = self.counts;
        to.saturating_duration_since(from).as_secs_f64()
    }

    /// The numbers of a class's messages that were submitted in the measured time.
    pub fn counted(&self, class: usize) -> impl Iterator<Item = usize> + '_ {
        let (from, to) = self.counts;
        let messages = self.submitted.iter().enumerate();
        messages
            .filter(move |(_, message)| message.class == class && (from..to).contains(&message.at))
            .map(|(number, _)| number)
    }

    /// The mean goodput of the TCP flows in the measured time, in Mbit/s.
    #[must_use]
    pub fn tcp_goodput(&self) -> f64 {
        let sum = |reading: &Reading| reading.tcp_bytes.iter().sum::<u64>() as f64;
        let bits = (sum(&self.at_end) - sum(&self.at_begin)) * 8.0 / self.at_end.tcp_bytes.len() as f64;
        bits / self.seconds() / 1e6
    }
}

/// Makes a run's scenario.
type Staging = Arc<dyn Fn(&Trial<'_>) -> Scenario + Send + Sync>;
/// Takes a run's numbers.
type Numbers = Arc<dyn Fn(&Record) -> Vec<f64> + Send + Sync>;

/// A cell that can be run in the simulator and on real packets: its scenario, and how its numbers are taken.
#[derive(Clone)]
pub struct Stage {
    staging: Staging,
    numbers: Numbers,
    is_usual: bool,
    has_real: bool,
    agreement: &'static [(&'static str, f64)],
    points: Option<fn(&Record) -> OwnPoints>,
}

impl Stage {
    /// A cell. `staging` gets the seed and the user's settings. `numbers` returns the experiment's metrics in their order, with NaN for
    /// metrics that the record does not have.
    pub fn new(
        staging: impl Fn(&Trial<'_>) -> Scenario + Send + Sync + 'static,
        numbers: impl Fn(&Record) -> Vec<f64> + Send + Sync + 'static,
    ) -> Self {
        Self {
            staging: Arc::new(staging),
            numbers: Arc::new(numbers),
            is_usual: false,
            has_real: true,
            agreement: &[],
            points: None,
        }
    }

    /// The trace of a simulated run gets these points too.
    #[must_use]
    pub fn with_points(mut self, points: fn(&Record) -> OwnPoints) -> Self {
        self.points = Some(points);
        self
    }

    /// Whether the cell runs on real packets by default, that is, if the user does not choose the cells.
    #[must_use]
    pub fn usual(mut self, is_usual: bool) -> Self {
        self.is_usual = is_usual;
        self
    }

    /// The cell has no counterpart on real packets: its simulated numbers are shown next to the other cells.
    #[must_use]
    pub fn simulated_only(mut self) -> Self {
        self.has_real = false;
        self
    }

    /// In these metrics, the numbers on real packets and in the simulator must not differ by more than these shares.
    #[must_use]
    pub fn agreeing(mut self, agreement: &'static [(&'static str, f64)]) -> Self {
        self.agreement = agreement;
        self
    }

    /// The scenario of a run.
    #[must_use]
    pub fn scenario(&self, trial: &Trial<'_>) -> Scenario {
        (self.staging)(trial)
    }

    /// The numbers of a run.
    #[must_use]
    pub fn numbers(&self, record: &Record) -> Vec<f64> {
        (self.numbers)(record)
    }

    /// Runs the cell in the simulator.
    pub(crate) fn simulate(&self, trial: &Trial<'_>) -> Vec<f64> {
        let record = simulated(self.scenario(trial), trial);
        if let Some(points) = self.points {
            trial.trace_points(|| points(&record));
        }
        self.numbers(&record)
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("is_usual", &self.is_usual)
            .finish_non_exhaustive()
    }
}
