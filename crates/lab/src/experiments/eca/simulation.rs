//! One run: three unequal paths, bulk data, and how its losses were repaired.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_netsim::{Application, HostApi, LinkConfig, LossModel, Node, QueueLimit};
use anabranch_proto::{
    AckRouting, AssociationId, Config, CoupledControl, Event, MultipathMode, PathScheduler, RecoveryRules,
    RetransmissionPolicy, SendOptions, Timestamp,
};

use super::repairs::Repairs;
use crate::experiment::Extent;
use crate::experiments::pair::{PEER, Pair};
use crate::experiments::plain_config;
use crate::packet_log::What;
use crate::statistics::{Summary, mean};
use crate::traffic::{Sink, Source};
use crate::trial::Trial;

/// Bytes of user data in a chunk of ECA-SCTP that fills a packet of 1,500 bytes: 1,468 with its header.
const MESSAGE: usize = 1448;
/// Until here nothing counts: the association is made within the first second.
const BEGIN: Timestamp = Timestamp::from_millis(1_000);
/// Between looks at the congestion windows.
const LOOK: Duration = Duration::from_millis(100);
/// Of each path: rate in kbit/s, delay in milliseconds each way.
const PATHS: [(u64, u64); 3] = [(2000, 50), (1600, 80), (800, 160)];

/// A cell of the experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) protocol: Protocol,
    pub(super) buffer: Buffer,
    pub(super) reports: Reports,
    /// Of path 3, in percent; 0 is no loss on any path.
    pub(super) loss: u32,
    pub(super) variant: Variant,
}

impl Setting {
    /// Whether a short run tells little: gap blocks gather slowly, and where windows are small and losses many, timeouts leave few
    /// chunks to fast retransmission.
    fn is_slow(self) -> bool {
        let is_thin = self.buffer == Buffer::Small && self.reports == Reports::Three && self.loss == 15;
        is_thin || self.variant == Variant::NoForwardPsn
    }
}

/// How chunks are acknowledged, and where repeats go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Cmt,
    Eca,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cmt => "cmt",
            Self::Eca => "eca",
        }
    }
}

/// The receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// 65,536 bytes for all paths.
    Small,
    /// 196,608 bytes for all paths.
    Large,
    /// 196,608 bytes, of which each path has a third.
    Split,
}

impl Buffer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "64",
            Self::Large => "192",
            Self::Split => "64-each",
        }
    }
}

/// What makes a loss: later packets of the same path that are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reports {
    /// One, whatever proves needless.
    One,
    Three,
    Four,
    /// Three, or one once 1.25 smoothed round trips have passed.
    Amended,
}

impl Reports {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Three => "3",
            Self::Four => "4",
            Self::Amended => "amended",
        }
    }
}

/// What is changed, of all that is the same elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Plain,
    /// Acknowledgements are lost as data is.
    LostAcks,
    /// Both hosts send, and both directions lose.
    BothWays,
    /// So many percent of the packets with data come 30 ms late.
    Late(u32),
    /// No loss, and queues that hold more than the receive window.
    NoLoss,
    /// The stack's own choice of paths, for new data and repeats; windows coupled or not.
    Default(CoupledControl),
    /// Repeats go where the chunk was lost.
    SamePath,
    /// Every packet that is out of order by its TSN is acknowledged at once.
    EveryPacket,
    /// Acknowledgements that tell what cannot be taken back.
    NrSack,
    /// Acknowledgements by these paths.
    Acks(AckRouting),
    /// Path 2 as bad as path 3, both ways; acknowledgements by these paths.
    Bad(AckRouting),
    /// The receiver waits for what is not worth waiting for.
    NoForwardPsn,
    /// Only an acknowledgement that returns by the path of the data tells its round-trip time.
    OwnSamples,
}

impl Variant {
    /// Those with losses that either protocol has, but [`Variant::Plain`].
    pub(super) const OF_BOTH: [Self; 9] = [
        Self::LostAcks,
        Self::BothWays,
        Self::Late(2),
        Self::Late(10),
        Self::Default(CoupledControl::Lia),
        Self::Default(CoupledControl::Uncoupled),
        Self::SamePath,
        Self::NrSack,
        Self::Bad(AckRouting::Measured),
    ];
    /// Those that only ECA-SCTP has.
    pub(super) const OF_ECA: [Self; 6] = [
        Self::Acks(AckRouting::LastArrival),
        Self::Acks(AckRouting::EveryPath),
        Self::Bad(AckRouting::LastArrival),
        Self::Bad(AckRouting::EveryPath),
        Self::NoForwardPsn,
        Self::OwnSamples,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::LostAcks => "lost-acks",
            Self::BothWays => "both-ways",
            Self::Late(2) => "late-2",
            Self::Late(_) => "late-10",
            Self::NoLoss => "no-loss",
            Self::Default(CoupledControl::Uncoupled) => "default-uncoupled",
            Self::Default(_) => "default",
            Self::SamePath => "same-path",
            Self::EveryPacket => "every-packet",
            Self::NrSack => "nr-sack",
            Self::Acks(AckRouting::EveryPath) => "acks-everywhere",
            Self::Acks(_) => "acks-last-arrival",
            Self::Bad(AckRouting::EveryPath) => "bad-everywhere",
            Self::Bad(AckRouting::LastArrival) => "bad-last-arrival",
            Self::Bad(_) => "bad",
            Self::NoForwardPsn => "no-forward-psn",
            Self::OwnSamples => "own-samples",
        }
    }
}

fn config(setting: Setting) -> Config {
    let Setting { reports, variant, .. } = setting;
    let amended = reports == Reports::Amended;
    let mut config = plain_config();
    config.rto.initial = Duration::from_secs(3);
    config.initial_window = Some(2);
    config.nr_sack.offer = variant == Variant::NrSack;
    config.recovery = RecoveryRules {
        missing_reports: match reports {
            Reports::One => 1,
            Reports::Three | Reports::Amended => 3,
            Reports::Four => 4,
        },
        time_rule: amended,
        backs_off: amended,
        initial_ssthresh: 65_536,
        ..RecoveryRules::RFC9260
    };
    config.buffers.receive = match setting.buffer {
        Buffer::Small => 65_536,
        Buffer::Large | Buffer::Split => 3 * 65_536,
    };
    let multipath = &mut config.multipath;
    (multipath.mode, multipath.retransmission) = match setting.protocol {
        Protocol::Cmt => (MultipathMode::Cmt, RetransmissionPolicy::LargestSsthresh),
        Protocol::Eca => (MultipathMode::Eca, RetransmissionPolicy::SmallestRtt),
    };
    multipath.split_receive_buffer = setting.buffer == Buffer::Split;
    multipath.delayed_acks = variant != Variant::EveryPacket;
    multipath.congestion = CoupledControl::Uncoupled;
    multipath.scheduler = PathScheduler::RoundRobin;
    multipath.eca.time_rule = amended;
    multipath.eca.forward_psn = variant != Variant::NoForwardPsn;
    multipath.eca.sample_any_ack = variant != Variant::OwnSamples;
    match variant {
        Variant::SamePath => multipath.retransmission = RetransmissionPolicy::SamePath,
        Variant::Acks(routing) | Variant::Bad(routing) => multipath.eca.ack_routing = routing,
        Variant::Default(congestion) => {
            multipath.congestion = congestion;
            multipath.scheduler = PathScheduler::EarliestDeliveryFirst;
            multipath.retransmission = RetransmissionPolicy::EarliestDelivery;
        }
        _ => {}
    }
    config
}

/// The links of data and those of acknowledgements.
fn links(setting: Setting, trial: &Trial<'_>) -> Vec<(LinkConfig, LinkConfig)> {
    let third = f64::from(setting.loss) / 100.0;
    let losses = match setting.variant {
        Variant::NoLoss => [0.0; 3],
        Variant::Bad(_) => [0.001, third, third],
        _ => [0.001, 0.01, third],
    };
    let packets = if setting.variant == Variant::NoLoss {
        200
    } else {
        trial.knob_or("queue", 50.0) as u64
    };
    let both = matches!(
        setting.variant,
        Variant::LostAcks | Variant::BothWays | Variant::Bad(_)
    );
    let paths = PATHS.into_iter().zip(losses);
    paths
        .map(|((kbits, millis), loss)| {
            let back = LinkConfig::default()
                .with_rate(kbits * 1000)
                .with_delay(Duration::from_millis(millis))
                .with_queue(QueueLimit::Packets(packets));
            let mut there = back.clone().with_loss(LossModel::bernoulli(loss));
            if let Variant::Late(percent) = setting.variant {
                there = there.with_reorder(f64::from(percent) / 100.0, Duration::from_millis(30));
            }
            let back = if both { there.clone() } else { back };
            (there, back)
        })
        .collect()
}

/// Sends and receives.
struct BothWays {
    source: Source,
    sink: Sink,
}

impl BothWays {
    fn new(source: Source) -> Self {
        Self {
            source,
            sink: Sink::default(),
        }
    }
}

impl Application for BothWays {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        self.sink.on_event(api, id, event.clone());
        self.source.on_event(api, id, event);
    }

    fn on_timer(&mut self, api: &mut HostApi<'_>) {
        self.source.on_timer(api);
    }
}

/// The congestion windows over time, in packets.
#[derive(Default)]
struct Windows {
    of_path: [Vec<f64>; 3],
    sum: Vec<f64>,
}

impl Windows {
    fn look(&mut self, pair: &Pair) {
        let host = pair.sender().host();
        let id = host.association_ids().next();
        let Some(association) = id.and_then(|id| host.association(id)) else {
            return;
        };
        let mut sum = 0.0;
        for path in association.stats().paths {
            let window = path.cwnd as f64 / 1468.0;
            self.of_path[place_of(path.remote.ip())].push(window);
            sum += window;
        }
        self.sum.push(sum);
    }
}

/// Which path has this address at its end, from 0: [`Pair`] numbers them in the second octet.
fn place_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(address) => usize::from(address.octets()[1]),
        IpAddr::V6(_) => 0,
    }
}

/// The deviation as a share of the mean.
fn variation(readings: &[f64]) -> f64 {
    let summary = Summary::of(readings);
    summary.deviation / summary.mean
}

/// Runs a cell.
pub(super) fn simulate(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let seconds = match extent {
        Extent::Quick | Extent::Short if !setting.is_slow() => 30.0,
        _ => 100.0,
    };
    let seconds = trial.knob_or("seconds", seconds);
    let mut windows = Windows::default();
    let pair = run(setting, seconds, trial, |pair| windows.look(pair));
    numbers(&pair, &windows, seconds)
}

/// Sends for so many seconds, from [`BEGIN`] on, and lets `look` look every now and then.
fn run(setting: Setting, seconds: f64, trial: &Trial<'_>, mut look: impl FnMut(&Pair)) -> Pair {
    let source = || Source::greedy(PEER, SendOptions::default(), MESSAGE);
    let mut pair = Pair::over(trial, &config(setting), links(setting, trial), source());
    if setting.variant == Variant::BothWays {
        let begins = pair.sender().host().poll_timeout();
        pair.sender_mut().host_mut().run(BothWays::new(source()), begins);
        pair.receiver_mut().host_mut().run(BothWays::new(source()), None);
    }
    pair.sender_mut().keep_log();
    pair.receiver_mut().keep_log();
    pair.network.run_until(BEGIN);
    let end = BEGIN + Duration::from_secs_f64(seconds);
    while pair.network.now() < end {
        look(&pair);
        pair.network.run_for(LOOK);
    }
    pair
}

fn numbers(pair: &Pair, windows: &Windows, seconds: f64) -> Vec<f64> {
    let (sender, receiver) = (pair.sender(), pair.receiver());
    let repairs = Repairs::between(sender.log(), receiver.log(), BEGIN);
    let host = receiver.host();
    let sink = host.application::<Sink>();
    let sink = sink.or_else(|| host.application::<BothWays>().map(|both| &both.sink));
    let deliveries: Vec<Timestamp> = sink
        .into_iter()
        .flat_map(Sink::deliveries)
        .map(|(at, _)| *at)
        .filter(|at| *at >= BEGIN)
        .collect();
    let times: Vec<f64> = repairs.fast.iter().map(|(time, _)| *time).collect();
    let lost_on = |place: usize| {
        let fast = repairs.fast.iter().filter(|(_, path)| place_of(*path) == place);
        mean(&fast.map(|(time, _)| *time).collect::<Vec<f64>>())
    };
    let acks: Vec<f64> = receiver
        .log()
        .iter()
        .filter(|seen| seen.at >= BEGIN)
        .filter_map(|seen| match seen.what {
            What::Acknowledged { gap_blocks } => Some(gap_blocks as f64),
            _ => None,
        })
        .collect();
    let timeouts = sender.log().iter().filter(|seen| {
        let What::TimedOut { .. } = seen.what else {
            return false;
        };
        seen.at >= BEGIN
    });
    let mut numbers = vec![
        mean(&times),
        times.len() as f64,
        repairs.by_timeout as f64,
        timeouts.count() as f64,
        (deliveries.len() * MESSAGE * 8) as f64 / 1e6 / seconds,
        longest_pause(&deliveries, pair.network.now()),
        repairs.repeats as f64,
        repairs.spurious as f64,
        mean(&acks),
        acks.len() as f64 / seconds,
        mean(&windows.sum),
        variation(&windows.sum),
    ];
    numbers.extend(windows.of_path.iter().map(|readings| variation(readings)));
    numbers.extend((0..PATHS.len()).map(lost_on));
    numbers
}

/// The longest time without a delivery, in seconds.
fn longest_pause(deliveries: &[Timestamp], end: Timestamp) -> f64 {
    let from = std::iter::once(&BEGIN).chain(deliveries);
    let to = deliveries.iter().chain(std::iter::once(&end));
    let pauses = from.zip(to).map(|(from, to)| to.saturating_duration_since(*from));
    pauses.max().unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Knobs;

    /// What is seen from outside is what the sender says it did.
    #[test]
    fn repeats_are_seen_as_they_are_counted() {
        for protocol in [Protocol::Cmt, Protocol::Eca] {
            let setting = Setting {
                protocol,
                buffer: Buffer::Small,
                reports: Reports::Three,
                loss: 15,
                variant: Variant::Plain,
            };
            let pair = run(setting, 20.0, &Trial::new(1, &Knobs::default()), |_| {});
            let counters = pair.counters();
            let log = pair.sender().log();
            let repairs = Repairs::between(log, pair.receiver().log(), Timestamp::ZERO);
            let (fast, timeout) = (counters.retransmissions_fast, counters.retransmissions_timeout);
            assert_eq!(repairs.repeats as u64, fast + timeout, "{protocol:?}");
            assert!(repairs.fast.len() > 10, "{protocol:?}");
            let lost_on = |place| {
                repairs
                    .fast
                    .iter()
                    .filter(move |(_, path)| place_of(*path) == place)
            };
            assert!(
                lost_on(2).count() > lost_on(0).count(),
                "{protocol:?}: path 3 is the worst"
            );
            assert!(repairs.fast.len() as u64 <= fast && repairs.by_timeout as u64 <= timeout);
            let timeouts = log
                .iter()
                .filter(|seen| matches!(seen.what, What::TimedOut { .. }));
            assert_eq!(timeouts.count() as u64, counters.timeouts, "{protocol:?}");
        }
    }
}
