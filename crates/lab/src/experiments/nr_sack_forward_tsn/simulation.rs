//! One run: the bottleneck, the TCP flows, the messages, and their delays.

use std::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, QueueLimit, TcpConfig};
use anabranch_proto::{
    Config, DiscardReduction, RecoveryRules, Reliability, SendOptions, T3Restart, Timestamp,
};

use crate::experiment::Extent;
use crate::experiments::plain_config;
use crate::stage::{Awaited, Demand, Measures, Messages, Record, Scenario, TcpFlows};
use crate::statistics::mean;
use crate::traffic::{Class, IMPORTANT, NORMAL, Poisson, Sizes};
use crate::trial::Trial;

/// The fair share of a flow in bit/s; the load is a percentage of this rate.
const FAIR_SHARE: f64 = 2e6;
/// Bytes of messages in a run.
const VOLUME: f64 = 14e6;
/// The association is established so early that the loss of one or two INITs delays no message.
const SET_UP: Timestamp = Timestamp::from_millis(4_000);
pub(super) const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(15_000);
/// Bytes of a full TCP segment without its headers: the paper equates 73 kB with dummynet's 50 packets.
const SLOT: u64 = 1_460;
/// The longest time that the last messages may take.
const MOST_DRAIN: Duration = Duration::from_secs(30);

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) rules: Rules,
    pub(super) variant: Variant,
    /// The mean length of messages.
    pub(super) bytes: u32,
    /// Whether lengths are normally distributed, with a deviation of 20 %.
    pub(super) normal_sizes: bool,
    /// The load in percent of the fair share.
    pub(super) load: u32,
    /// Important messages in percent.
    pub(super) important: u32,
}

impl Setting {
    /// Whether a claim about this cell lies close to its bound: longer runs have narrower intervals.
    fn is_close(self) -> bool {
        let at_bounds = [(72, 1), (716, 50)].contains(&(self.bytes, self.important));
        at_bounds && self.rules == Rules::A && self.load == 30 && !self.normal_sizes
    }
}

/// The chunks that FORWARD-TSN may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// NR-SACK is negotiated, but FORWARD-TSN stops in front of received chunks.
    Existing,
    /// FORWARD-TSN passes chunks that were reported as non-renegable.
    NrSack,
    /// As `Existing`, with extended FORWARD-TSN.
    Extended,
    /// SACK only, as in the paper's existing variant.
    PlainSack,
    /// SACK, and no partial reliability: every message is retransmitted until it arrives. The share of important messages decides only
    /// which messages' delays are measured.
    Sctp,
}

impl Variant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Existing => "existing",
            Self::NrSack => "nr-sack",
            Self::Extended => "extended",
            Self::PlainSack => "plain-sack",
            Self::Sctp => "sctp",
        }
    }

    /// The reliability of a class with this lifetime.
    pub(super) fn reliability(self, lifetime: Duration) -> Reliability {
        match self {
            Self::Sctp => Reliability::Reliable,
            Self::Existing | Self::NrSack | Self::Extended | Self::PlainSack => {
                Reliability::Lifetime(lifetime)
            }
        }
    }

    fn apply(self, config: &mut Config) {
        config.nr_sack.offer = matches!(self, Self::Existing | Self::NrSack | Self::Extended);
        config.nr_sack.forward_past_nonrenegable = self == Self::NrSack;
        config.partial_reliability.extended_forward_tsn = self == Self::Extended;
        config.partial_reliability.offer = self != Self::Sctp;
    }
}

/// Properties of the sender and the emulator that the paper leaves open and that change the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// T3-rtx restarts when the cumulative TSN ack point moves; ssthresh is at least 2 packets.
    A,
    /// A, with T3-rtx restarting only when the point passes a chunk in flight.
    B,
    /// B, with expired chunks dropped at the first missing report and without a window reduction, as FreeBSD does.
    C,
    /// A, with expired chunks dropped as in C.
    D,
    /// B, with an ssthresh of at least 4 packets and without a burst limit.
    E,
    /// A, with Nagle's algorithm.
    F,
    /// A, with a queue that accepts every packet that fits, instead of dummynet's rule.
    G,
    /// A, with expired messages discarded before they are sent.
    H,
    /// B, with expired messages discarded before they are sent.
    I,
    /// A, with 8 TCP flows.
    J,
    /// A, with TCP flows whose windows grow by acknowledgements, not by acknowledged bytes.
    L,
    /// A, with host links that are ten times as fast as the bottleneck instead of a hundred times.
    M,
    /// A, with a queue that is counted in packets: 50, as many full packets as 73 kB hold.
    N,
    /// A, with 73 kB read as dummynet reads them: 74,752 bytes.
    O,
    /// C, with the queue of O.
    P,
    /// The stack's defaults.
    Default,
}

impl Rules {
    pub(super) const ALL: [Self; 16] = [
        Self::A,
        Self::B,
        Self::C,
        Self::D,
        Self::E,
        Self::F,
        Self::G,
        Self::H,
        Self::I,
        Self::J,
        Self::L,
        Self::M,
        Self::N,
        Self::O,
        Self::P,
        Self::Default,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
            Self::G => "G",
            Self::H => "H",
            Self::I => "I",
            Self::J => "J",
            Self::L => "L",
            Self::M => "M",
            Self::N => "N",
            Self::O => "O",
            Self::P => "P",
            Self::Default => "default",
        }
    }

    fn queue(self, trial: &Trial<'_>) -> QueueLimit {
        let usual = match self {
            Self::O | Self::P => 73.0 * 1024.0,
            _ => 73_000.0,
        };
        let bytes = trial.knob_or("queue", usual) as u64;
        match self {
            Self::G => QueueLimit::Bytes(bytes),
            Self::N => QueueLimit::Packets(bytes / SLOT),
            _ => QueueLimit::Dummynet(bytes),
        }
    }

    fn tcp_flows(self) -> u32 {
        if self == Self::J { 8 } else { 4 }
    }

    fn tcp(self, usual: TcpConfig) -> TcpConfig {
        TcpConfig {
            byte_counting: self != Self::L,
            ..usual
        }
    }

    /// The link between a host and the bottleneck. It is so fast that bursts reach the bottleneck as bursts.
    fn access_link(self, trial: &Trial<'_>) -> LinkConfig {
        let rate = if self == Self::M {
            100_000_000
        } else {
            1_000_000_000
        };
        let half = Duration::from_secs_f64(trial.knob_or("host_jitter", 0.0) / 2e3);
        LinkConfig::default()
            .with_rate(rate)
            .with_delay(Duration::from_micros(10) + half)
            .with_jitter(half)
    }

    fn apply(self, config: &mut Config) {
        if self == Self::Default {
            return;
        }
        let freebsd_drop = matches!(self, Self::C | Self::D | Self::P);
        config.partial_reliability.discard_unsent = matches!(self, Self::H | Self::I);
        config.partial_reliability.early_discard = freebsd_drop;
        config.recovery = RecoveryRules::RFC9260
            .ssthresh_floor(if self == Self::E { 4 } else { 2 })
            .t3_restart(match self {
                Self::B | Self::C | Self::E | Self::I | Self::P => T3Restart::CumulativeInFlight,
                _ => T3Restart::CumulativeMoved,
            })
            // Early discard is off unless FreeBSD is copied.
            .early_discard_reduces(DiscardReduction::Never);
        config.no_delay = self != Self::F;
        if self == Self::E {
            config.max_burst = 1000;
        }
    }
}

fn config(setting: Setting) -> Config {
    let mut config = plain_config();
    config.rto.initial = Duration::from_secs(3);
    config.buffers.send = 256 << 20;
    setting.variant.apply(&mut config);
    setting.rules.apply(&mut config);
    config
}

/// The end of the messages.
fn messages_end(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Timestamp {
    if let Some(seconds) = trial.knob("seconds") {
        return MESSAGES_BEGIN + Duration::from_secs_f64(seconds);
    }
    let rate = FAIR_SHARE * f64::from(setting.load) / 100.0;
    let duration = match extent {
        Extent::Quick if setting.is_close() => Duration::from_secs(120),
        Extent::Quick | Extent::Short => Duration::from_secs(60),
        Extent::Full => Duration::from_secs_f64(VOLUME * 8.0 / rate),
    };
    MESSAGES_BEGIN + duration
}

fn messages(setting: Setting, trial: &Trial<'_>) -> Messages {
    let bytes = f64::from(setting.bytes);
    let bits_per_second = FAIR_SHARE * f64::from(setting.load) / 100.0;
    let interval = Duration::from_secs_f64(bytes * 8.0 / bits_per_second);
    let sizes = if setting.normal_sizes {
        Sizes::Normal(bytes, bytes * 0.2)
    } else {
        Sizes::Fixed(setting.bytes as usize)
    };
    let share = f64::from(setting.important) / 100.0;
    let schedule = Poisson::new(trial.seed, MESSAGES_BEGIN, interval, sizes, share.into());
    let class = |knob: &str, usual: f64| {
        SendOptions::default().unordered(true).reliability(
            setting
                .variant
                .reliability(Duration::from_secs_f64(trial.knob_or(knob, usual) / 1e3)),
        )
    };
    let mut classes = vec![Class::default(); 2];
    classes[IMPORTANT] = class("important_lifetime", 5000.0).into();
    classes[NORMAL] = class("normal_lifetime", 100.0).into();
    Messages {
        connect: SET_UP,
        classes,
        demand: Demand::Scheduled(Box::new(schedule)),
        awaited: Awaited::All,
    }
}

fn tcp_flows(setting: Setting, trial: &Trial<'_>) -> TcpFlows {
    let start =
        |flow| Generator::of_process(trial.seed, &format!("start of tcp {flow}")).below(3_000_000_000);
    TcpFlows {
        config: setting.rules.tcp(TcpConfig::default()),
        real: setting.rules.tcp(TcpConfig::linux()),
        starts: (0..setting.rules.tcp_flows())
            .map(|flow| Timestamp(start(flow)))
            .collect(),
        access: setting.rules.access_link(trial),
    }
}

/// The scenario of a cell.
pub(super) fn scenario(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Scenario {
    let bottleneck = LinkConfig::default()
        .with_rate((trial.knob_or("rate", 10.0) * 1e6) as u64)
        .with_delay(Duration::from_secs_f64(trial.knob_or("delay", 40.0) / 1e3))
        .with_queue(setting.rules.queue(trial));
    Scenario {
        config: config(setting),
        paths: vec![(bottleneck.clone(), bottleneck)],
        messages: Some(messages(setting, trial)),
        tcp: Some(tcp_flows(setting, trial)),
        counts: (MESSAGES_BEGIN, messages_end(setting, extent, trial)),
        most_drain: MOST_DRAIN,
        measures: Measures {
            digest: true,
            ..Measures::default()
        },
    }
}

/// The delivery of the messages of one class.
#[derive(Default)]
struct Outcome {
    delays: Vec<f64>,
    queue_times: Vec<f64>,
    submitted: usize,
}

impl Outcome {
    fn of(record: &Record, class: usize) -> Self {
        let mut outcome = Self::default();
        let messages = record.submitted.iter().enumerate();
        for (number, message) in messages.filter(|(_, message)| message.class == class) {
            outcome.submitted += 1;
            let since = |time: Timestamp| time.saturating_duration_since(message.at).as_secs_f64();
            if let Some(delivered) = record.delivered.of(number) {
                outcome.delays.push(since(delivered));
                outcome.queue_times.extend(record.sent.of(number).map(since));
            }
        }
        outcome
    }

    /// The share of the messages that was delivered; NaN if none was submitted.
    fn delivered(&self) -> f64 {
        self.delays.len() as f64 / self.submitted as f64
    }
}

/// The numbers of a run.
pub(super) fn numbers(record: &Record) -> Vec<f64> {
    assert_eq!(record.refused, 0, "the send buffer never fills");
    let [important, normal] = [IMPORTANT, NORMAL].map(|class| Outcome::of(record, class));
    let counters = &record.last.sender;
    vec![
        mean(&important.delays),
        mean(&normal.delays),
        mean(&important.queue_times),
        important.delivered(),
        normal.delivered(),
        counters.timeouts as f64,
        counters.fast_recoveries as f64,
        counters.forward_tsns_sent as f64,
        1.0 - record.packets_received as f64 / counters.packets_sent as f64,
        record.tcp_goodput(),
        // The highest bits of the hash, as many as a number holds exactly.
        record.digest.map_or(f64::NAN, |digest| (digest >> 11) as f64),
    ]
}
