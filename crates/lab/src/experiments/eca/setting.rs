//! The cells: protocol, receive buffer, number of missing reports, loss, and the variant.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{
    AckRouting, Config, CoupledControl, MultipathMode, PathScheduler, RecoveryRules, RetransmissionPolicy,
    Timestamp,
};

use crate::experiments::plain_config;
use crate::stage::LinkChange;
use crate::trial::Trial;

/// Rate in kbit/s and one-way delay in milliseconds of each path.
pub(super) const PATHS: [(u64, u64); 3] = [(2000, 50), (1600, 80), (800, 160)];

/// A cell of the experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) protocol: Protocol,
    pub(super) buffer: Buffer,
    pub(super) reports: Reports,
    /// The loss of path 3 in percent. With 0, no path has losses.
    pub(super) loss: u32,
    pub(super) variant: Variant,
}

impl Setting {
    /// Whether a short run is not enough. Gap ack blocks accumulate slowly. With small windows and many losses, timeouts leave few chunks
    /// to fast retransmission.
    pub(super) fn is_slow(self) -> bool {
        let is_thin = self.buffer == Buffer::Small && self.reports == Reports::Three && self.loss == 15;
        is_thin || self.variant == Variant::NoForwardPsn
    }
}

/// The kind of acknowledgement, and the choice of paths for retransmissions.
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

/// The receive buffer. The paper has 65,536 bytes for each of the three paths: *maintained commonly* with CMT ([`Buffer::Pooled`]), kept
/// apart with ECA-SCTP ([`Buffer::Split`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// 65,536 bytes for all paths: a third of the paper's.
    Small,
    /// 65,536 bytes for each path, pooled: any path may use all 196,608 bytes.
    Pooled,
    /// 65,536 bytes for each path, which other paths cannot use.
    Split,
}

impl Buffer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "64",
            Self::Pooled => "192",
            Self::Split => "64-each",
        }
    }
}

/// The number of later packets of the same path that must be acknowledged before a chunk counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reports {
    /// One report, even after spurious retransmissions.
    One,
    Three,
    Four,
    /// Three reports, or one once 1.25 smoothed RTTs have passed.
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

/// The difference from [`Variant::Plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Plain,
    /// Acknowledgements are lost at the same rate as data.
    LostAcks,
    /// Both hosts send, and both directions lose.
    BothWays,
    /// This percentage of the data packets arrives 30 ms late.
    Late(u32),
    /// No loss, and queues that hold more than the receive window.
    NoLoss,
    /// The stack's default choice of paths for new data and retransmissions, with coupled or uncoupled windows.
    Default(CoupledControl),
    /// Retransmissions go to the path on which the chunk was lost.
    SamePath,
    /// The receiver acknowledges every packet at once whose TSN is out of order.
    EveryPacket,
    /// Both protocols retransmit on the path with the smallest RTT, and acknowledge every packet at once.
    Equal,
    /// NR-SACKs instead of SACKs.
    NrSack,
    /// Acknowledgements return by these paths.
    Acks(AckRouting),
    /// Path 2 is as bad as path 3, in both directions; acknowledgements return by these paths.
    Bad(AckRouting),
    /// The losses of paths 2 and 3 change every 10 s between 3 % and the setting's loss, in opposite phase. Simulated only.
    Varying,
    /// Without FORWARD-PSN, gaps on a path stay open at the receiver.
    NoForwardPsn,
    /// The round-trip time is measured only from acknowledgements that return on the path of the data.
    OwnSamples,
    /// The protocol has the other protocol's policy of retransmissions: ECA the path with the largest ssthresh, CMT the path with the
    /// smallest RTT.
    Exchanged,
    /// CMT's policies for both: retransmissions on the path with the largest ssthresh, acknowledgements on the path of the last arrival.
    /// Only the names of the acknowledged data differ: TSNs or transmissions.
    Names,
    /// A chunk that was retransmitted is not declared lost again by missing reports; it waits for T3-rtx.
    LostOnce,
    /// Messages of 1,440 bytes. Their chunks leave space in a packet with either protocol, so a window of n packets lets n + 1 chunks
    /// leave. With the usual messages it does so with CMT, whose chunks are 4 bytes shorter, and lets n chunks leave with ECA.
    Short,
    /// Messages of 1,452 bytes with CMT. Their chunks have 1,468 bytes and fill a packet, as in the paper and as ECA's chunks do with the
    /// usual messages.
    Full,
}

impl Variant {
    /// The variants with losses that both protocols have, except [`Variant::Plain`].
    pub(super) const OF_BOTH: [Self; 14] = [
        Self::Short,
        Self::Exchanged,
        Self::LostOnce,
        Self::Varying,
        Self::Equal,
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
    /// The variants that only CMT has.
    pub(super) const OF_CMT: [Self; 2] = [Self::EveryPacket, Self::Full];
    /// The variants that only ECA-SCTP has.
    pub(super) const OF_ECA: [Self; 8] = [
        Self::Names,
        Self::EveryPacket,
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
            Self::Equal => "equal",
            Self::NrSack => "nr-sack",
            Self::Acks(AckRouting::EveryPath) => "acks-everywhere",
            Self::Acks(_) => "acks-last-arrival",
            Self::Bad(AckRouting::EveryPath) => "bad-everywhere",
            Self::Bad(AckRouting::LastArrival) => "bad-last-arrival",
            Self::Bad(_) => "bad",
            Self::Varying => "varying",
            Self::NoForwardPsn => "no-forward-psn",
            Self::OwnSamples => "own-samples",
            Self::Exchanged => "exchanged",
            Self::Names => "names",
            Self::LostOnce => "lost-once",
            Self::Short => "short",
            Self::Full => "full",
        }
    }
}

pub(super) fn config(setting: Setting) -> Config {
    let Setting { reports, variant, .. } = setting;
    let amended = reports == Reports::Amended;
    let mut config = plain_config();
    config.rto.initial = Duration::from_secs(3);
    config.initial_window = Some(2);
    config.nr_sack.offer = variant == Variant::NrSack;
    config.recovery = RecoveryRules::RFC9260
        .missing_reports(match reports {
            Reports::One => 1,
            Reports::Three | Reports::Amended => 3,
            Reports::Four => 4,
        })
        .initial_ssthresh(65_536);
    config.buffers.receive = match setting.buffer {
        Buffer::Small => 65_536,
        Buffer::Pooled | Buffer::Split => 3 * 65_536,
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
    multipath.time_rule = amended;
    multipath.backs_off = amended;
    multipath.eca.time_rule = amended;
    multipath.eca.forward_psn = variant != Variant::NoForwardPsn;
    // The paper's. By default the best path reports its own gaps.
    multipath.eca.ack_routing = AckRouting::Ranked;
    multipath.eca.sample_any_ack = variant != Variant::OwnSamples;
    match variant {
        Variant::Equal => {
            multipath.retransmission = RetransmissionPolicy::SmallestRtt;
            multipath.delayed_acks = false;
            config.sack.frequency = 1;
        }
        Variant::Exchanged => {
            multipath.retransmission = match setting.protocol {
                Protocol::Cmt => RetransmissionPolicy::SmallestRtt,
                Protocol::Eca => RetransmissionPolicy::LargestSsthresh,
            };
        }
        Variant::Names => {
            multipath.retransmission = RetransmissionPolicy::LargestSsthresh;
            multipath.eca.ack_routing = AckRouting::LastArrival;
        }
        Variant::LostOnce => multipath.fast_again = false,
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

/// The time between two changes of the losses, with [`Variant::Varying`].
const PHASE: Duration = Duration::from_secs(10);
/// The lower of the two losses, with [`Variant::Varying`].
const CALM: f64 = 0.03;

/// The changes of the links in a run that ends at `end`; none unless the losses vary.
pub(super) fn changes(setting: Setting, trial: &Trial<'_>, end: Timestamp) -> Vec<LinkChange> {
    if setting.variant != Variant::Varying {
        return Vec::new();
    }
    let rough = f64::from(setting.loss) / 100.0;
    let links = links(setting, trial);
    let phases = (0..).map(|phase: u32| (phase, Timestamp::ZERO + phase * PHASE));
    phases
        .take_while(|(_, at)| *at < end)
        .flat_map(|(phase, at)| {
            let losses = if phase % 2 == 0 {
                [CALM, rough]
            } else {
                [rough, CALM]
            };
            let changed = |path: usize, loss: f64| LinkChange {
                at,
                path,
                link: links[path].0.clone().with_loss(LossModel::bernoulli(loss)),
            };
            [changed(1, losses[0]), changed(2, losses[1])]
        })
        .collect()
}

/// The links of data and those of acknowledgements.
pub(super) fn links(setting: Setting, trial: &Trial<'_>) -> Vec<(LinkConfig, LinkConfig)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Knobs;

    #[test]
    fn varying_losses_alternate_between_two_paths() {
        let setting = |variant| Setting {
            protocol: Protocol::Eca,
            buffer: Buffer::Small,
            reports: Reports::Three,
            loss: 15,
            variant,
        };
        let knobs = Knobs::default();
        let trial = Trial::new(1, &knobs);
        let end = Timestamp::from_millis(25_000);
        let changes = changes(setting(Variant::Varying), &trial, end);
        let seen: Vec<(u64, usize, LossModel)> = changes
            .into_iter()
            .map(|change| (change.at.as_secs_f64() as u64, change.path, change.link.loss))
            .collect();
        let [calm, rough] = [CALM, 0.15].map(LossModel::bernoulli);
        let expected = [
            (0, 1, calm.clone()),
            (0, 2, rough.clone()),
            (10, 1, rough.clone()),
            (10, 2, calm.clone()),
            (20, 1, calm),
            (20, 2, rough),
        ];
        assert_eq!(seen, expected);
        assert!(super::changes(setting(Variant::Plain), &trial, end).is_empty());
    }
}
