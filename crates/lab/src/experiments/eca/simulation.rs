//! One run: three unequal paths, bulk data, and how its losses were repaired.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_netsim::{Application, HostApi, LinkConfig, LossModel, Node, QueueLimit};
use anabranch_proto::{
    AssociationId, Config, CoupledControl, Event, MultipathMode, PathScheduler, RecoveryRules,
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

/// How chunks are acknowledged, and where repeats go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Cmt,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cmt => "cmt",
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
    One,
    Three,
    Four,
}

impl Reports {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Three => "3",
            Self::Four => "4",
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
}

impl Variant {
    /// All that lose packets, but [`Variant::Plain`].
    pub(super) const WITH_LOSS: [Self; 9] = [
        Self::LostAcks,
        Self::BothWays,
        Self::Late(2),
        Self::Late(10),
        Self::Default(CoupledControl::Lia),
        Self::Default(CoupledControl::Uncoupled),
        Self::SamePath,
        Self::EveryPacket,
        Self::NrSack,
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
        }
    }
}

fn config(setting: Setting) -> Config {
    let mut config = plain_config();
    config.rto.initial = Duration::from_secs(3);
    config.initial_window = Some(2);
    config.nr_sack.offer = setting.variant == Variant::NrSack;
    config.recovery = RecoveryRules {
        missing_reports: match setting.reports {
            Reports::One => 1,
            Reports::Three => 3,
            Reports::Four => 4,
        },
        initial_ssthresh: 65_536,
        ..RecoveryRules::RFC9260
    };
    config.buffers.receive = match setting.buffer {
        Buffer::Small => 65_536,
        Buffer::Large | Buffer::Split => 3 * 65_536,
    };
    let multipath = &mut config.multipath;
    multipath.mode = MultipathMode::Cmt;
    multipath.split_receive_buffer = setting.buffer == Buffer::Split;
    multipath.delayed_acks = setting.variant != Variant::EveryPacket;
    multipath.congestion = CoupledControl::Uncoupled;
    multipath.scheduler = PathScheduler::RoundRobin;
    multipath.retransmission = match setting.protocol {
        Protocol::Cmt => RetransmissionPolicy::LargestSsthresh,
    };
    match setting.variant {
        Variant::SamePath => multipath.retransmission = RetransmissionPolicy::SamePath,
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
fn links(setting: Setting) -> Vec<(LinkConfig, LinkConfig)> {
    let losses = match setting.variant {
        Variant::NoLoss => [0.0; 3],
        _ => [0.001, 0.01, f64::from(setting.loss) / 100.0],
    };
    let packets = if setting.variant == Variant::NoLoss {
        200
    } else {
        50
    };
    let both = matches!(setting.variant, Variant::LostAcks | Variant::BothWays);
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

/// Which path has this address at its end, from 0.
fn place_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(address) => usize::from(address.octets()[2]),
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
        Extent::Quick | Extent::Short => 40.0,
        Extent::Full => 100.0,
    };
    let seconds = trial.knob_or("seconds", seconds);
    let source = || Source::greedy(PEER, SendOptions::default(), MESSAGE);
    let mut pair = Pair::over(trial, &config(setting), links(setting), source());
    if setting.variant == Variant::BothWays {
        let begins = pair.sender().host().poll_timeout();
        pair.sender_mut().host_mut().run(BothWays::new(source()), begins);
        pair.receiver_mut().host_mut().run(BothWays::new(source()), None);
    }
    pair.sender_mut().keep_log();
    pair.receiver_mut().keep_log();
    pair.network.run_until(BEGIN);
    let end = BEGIN + Duration::from_secs_f64(seconds);
    let mut windows = Windows::default();
    while pair.network.now() < end {
        windows.look(&pair);
        pair.network.run_for(LOOK);
    }
    numbers(&pair, &windows, end)
}

fn numbers(pair: &Pair, windows: &Windows, end: Timestamp) -> Vec<f64> {
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
    let seconds = end.saturating_duration_since(BEGIN).as_secs_f64();
    let mut numbers = vec![
        mean(&times),
        times.len() as f64,
        repairs.by_timeout as f64,
        timeouts.count() as f64,
        (deliveries.len() * MESSAGE * 8) as f64 / 1e6 / seconds,
        longest_pause(&deliveries, end),
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
