//! What a cell is, apart from where it is run: hosts' settings, paths, messages and the TCP beside them, as a value. The
//! simulator runs it in virtual time (`simulated`), and whoever implements [`RealNetwork`] on real packets; a cell's numbers are
//! taken from the [`Record`] that either leaves, by the same code.

mod beside;
mod comparison;
mod simulated;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_netsim::{LinkConfig, LinkStats, TcpConfig};
use anabranch_proto::{Config, Counters, PathStats, Timestamp};

use crate::traffic::{Class, FirstTimes, Submission};
use crate::trial::Trial;

pub use crate::packet_log::{PacketLog, Seen, What};
pub use beside::{BED, HALF, RealNetwork, RealRun, SIMULATED, beside};
pub use comparison::{SideBySide, business, side_by_side};
pub(crate) use simulated::simulated;

/// A run to be made, with all that the seed decides already in it, but for the links' luck.
pub struct Scenario {
    /// Of the association, on both hosts. Local addresses are those of the network that it is run on.
    pub config: Config,
    /// For each path the link that data takes, and the one back.
    pub paths: Vec<(LinkConfig, LinkConfig)>,
    /// The association and its messages; `None`: there is only TCP.
    pub messages: Option<Messages>,
    /// Beside them, over the first path.
    pub tcp: Option<TcpFlows>,
    /// From when to when it counts. No message is submitted afterwards.
    pub counts: (Timestamp, Timestamp),
    /// How long after that the last messages may take.
    pub most_drain: Duration,
    /// What is measured beyond deliveries and counters.
    pub measures: Measures,
}

/// What is measured beyond deliveries and counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// The use of the sender's retransmission queue, where that can be.
    pub queue: bool,
    /// Every packet of the association at both hosts, and the congestion windows over time. Messages are to be of one chunk each.
    pub packets: bool,
}

/// What is sent over the association.
pub struct Messages {
    /// When it is set up.
    pub connect: Timestamp,
    /// How messages are sent.
    pub classes: Vec<Class>,
    /// Which, and when.
    pub demand: Demand,
    /// After the time that counts, what the run goes on for.
    pub awaited: Awaited,
}

/// Which messages there are.
pub enum Demand {
    /// Each at its time, in order of time.
    Scheduled(Box<dyn Iterator<Item = Submission> + Send>),
    /// Messages of so many bytes, of class 0, as fast as the send buffer takes them.
    Greedy(usize),
    /// The same, and the receiver sends likewise.
    GreedyBothWays(usize),
}

/// What a run waits for when no message is submitted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Nothing.
    Nothing,
    /// That everything is acknowledged or given up.
    All,
    /// That the last message of this class is delivered.
    LastOf(usize),
}

/// Greedy TCP flows the way that data takes.
#[derive(Clone, Debug)]
pub struct TcpFlows {
    /// What they are.
    pub config: TcpConfig,
    /// What they are in the simulator where it stands beside real packets: Linux's settings. On these the kernel decides itself, but
    /// for whether there is SACK, and whether CUBIC.
    pub real: TcpConfig,
    /// When each begins.
    pub starts: Vec<Timestamp>,
    /// In the simulator, between each host and the bottleneck.
    pub access: LinkConfig,
}

impl TcpFlows {
    /// Flows with Linux's settings, with CUBIC or else Reno, which begin at these times.
    pub(crate) fn linux(cubic: bool, starts: Vec<Timestamp>) -> Self {
        let linux = TcpConfig::linux();
        let config = TcpConfig {
            // Linux's grows as it is used.
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

/// What the network's counters said at a time.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Of the links that data takes, path by path.
    pub links: Vec<LinkStats>,
    /// Bytes that each TCP flow had delivered by then.
    pub tcp_bytes: Vec<u64>,
    /// The sender's counters; all 0 before there is an association.
    pub sender: Counters,
}

/// Of what a sender keeps, the share that may have to be sent again, and what a small send buffer costs.
#[derive(Clone, Copy, Debug)]
pub struct QueueUse {
    /// The share that was not acknowledged, on average over time.
    pub whole: f64,
    /// The same while losses were repaired; not a number if there were none.
    pub recovering: f64,
    /// The share of the time in which a path had room, and the send buffer had none.
    pub blocked: f64,
}

/// Between looks at the congestion windows.
pub const WINDOW_LOOK: Duration = Duration::from_millis(100);

/// What passed by both hosts, from the first packet on.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// By the sender.
    pub sender: Vec<Seen>,
    /// By the receiver.
    pub receiver: Vec<Seen>,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// From when to when it counted.
    pub counts: (Timestamp, Timestamp),
    /// The messages that were submitted and taken; a message's place is its number.
    pub submitted: Vec<Submission>,
    /// Messages that found the send buffer full.
    pub refused: u64,
    /// When each message first left the sender; nothing where nobody looked.
    pub sent: FirstTimes,
    /// When each message was delivered.
    pub delivered: FirstTimes,
    /// All deliveries in order: when, and which message.
    pub deliveries: Vec<(Timestamp, u32)>,
    /// When the time that counts began.
    pub at_begin: Reading,
    /// When it ended.
    pub at_end: Reading,
    /// When the run was over.
    pub last: Reading,
    /// Packets that the receiver's association had received when the run was over.
    pub packets_received: u64,
    /// The use of the sender's retransmission queue while it counted, if it was measured.
    pub queue: Option<QueueUse>,
    /// What passed by the hosts, if packets were measured.
    pub logs: Option<Logs>,
    /// The congestion window of each path in bytes, once in [`WINDOW_LOOK`] while it counted, if packets were measured.
    pub windows: Vec<Vec<usize>>,
    /// A hash of all that the sender sent, and when; nothing where nobody looked.
    pub digest: Option<u64>,
}

/// The congestion windows of paths in bytes, in the order of the addresses that they go to, once all are known.
#[must_use]
pub fn windows(paths: &[PathStats], destinations: &[IpAddr]) -> Option<Vec<usize>> {
    let to = |address: &IpAddr| paths.iter().find(|path| path.remote.ip() == *address);
    let windows = destinations.iter().map(|address| Some(to(address)?.cwnd));
    windows.collect()
}

impl Record {
    /// How long it counted, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let (from, to) = self.counts;
        to.saturating_duration_since(from).as_secs_f64()
    }

    /// The numbers of a class's messages that were submitted while it counted.
    pub fn counted(&self, class: usize) -> impl Iterator<Item = usize> + '_ {
        let (from, to) = self.counts;
        let messages = self.submitted.iter().enumerate();
        messages
            .filter(move |(_, message)| message.class == class && (from..to).contains(&message.at))
            .map(|(number, _)| number)
    }

    /// What a TCP flow delivered while it counted, on average over the flows, in Mbit/s.
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

/// A cell that can be run anywhere: what it is, and what its numbers are.
#[derive(Clone)]
pub struct Stage {
    staging: Staging,
    numbers: Numbers,
    is_usual: bool,
    has_real: bool,
    agreement: &'static [(&'static str, f64)],
}

impl Stage {
    /// A cell. `staging` is given the seed and what the user set; `numbers` answers the experiment's metrics in their order, with
    /// those that the record does not tell as no number (NaN).
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
        }
    }

    /// The same, which is run on real packets also if nobody says which cells are to be.
    #[must_use]
    pub fn usual(mut self, is_usual: bool) -> Self {
        self.is_usual = is_usual;
        self
    }

    /// The same, which has no counterpart on real packets: it is shown beside those that have one.
    #[must_use]
    pub fn simulated_only(mut self) -> Self {
        self.has_real = false;
        self
    }

    /// The same; in these metrics, its numbers on real packets and in the simulator are to differ by no more than these shares.
    #[must_use]
    pub fn agreeing(mut self, agreement: &'static [(&'static str, f64)]) -> Self {
        self.agreement = agreement;
        self
    }

    /// A run of it.
    #[must_use]
    pub fn scenario(&self, trial: &Trial<'_>) -> Scenario {
        (self.staging)(trial)
    }

    /// The numbers of a run.
    #[must_use]
    pub fn numbers(&self, record: &Record) -> Vec<f64> {
        (self.numbers)(record)
    }

    /// Runs it in the simulator.
    pub(crate) fn simulate(&self, trial: &Trial<'_>) -> Vec<f64> {
        self.numbers(&simulated(self.scenario(trial), trial))
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("is_usual", &self.is_usual)
            .finish_non_exhaustive()
    }
}
