//! A file transfer at a dumbbell in the style of the slides' “Simulation setup”: its time, and the utilisation of the retransmission queue
//! over this time, with random losses or with TCP flows at the same bottleneck.

mod claims;
mod figures;

use std::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{Config, Counters, SendOptions, Timestamp};

use super::super::pair::{PEER_BESIDE_TCP, Pair, begin};
use super::{MESSAGE, UNLIMITED};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric, ours};
use crate::stage::TcpFlows;
use crate::traffic::Source;
use crate::trial::{Knob, Trial};

/// The TCP flows begin within the first 3 s. The transfer begins within a second from here on, when their windows have been reduced at
/// least once.
const WARM_UP: Duration = Duration::from_secs(10);
/// A transfer that takes longer than this has no numbers.
const LIMIT: Duration = Duration::from_secs(2_000);
/// The place on the axis `losses` for TCP flows, without random losses.
const TCP: &str = "tcp";
/// The RTTs in ms.
const RTTS: [&str; 3] = ["28", "98", "200"];

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "topology",
        value: "dumbbell: all flows share one bottleneck, and each host has its own access link",
        from_paper: true,
    },
    Parameter {
        name: "traffic",
        value: "one association transfers a file in unordered messages that fill a packet each",
        from_paper: true,
    },
    ours(
        "rtt",
        "28, 98 or 200 ms without queueing, equal for all flows; three of the nine RTTs of the TCP Evaluation Suite's access \
         link, where different flows have different RTTs",
    ),
    ours(
        "bottleneck",
        "10 Mbit/s, drop-tail of 83 packets, which are 100 ms; the suite has 100 Mbit/s",
    ),
    ours("access links", "1 Gbit/s, 10 µs, no losses"),
    ours(
        "losses",
        "random, in percent, of data packets only; or tcp: no random losses, but four greedy TCP flows (Reno with SACK, Linux's \
         settings) in the direction of the file, in place of the suite's application traffic",
    ),
    ours("file", "8 MiB, or 2 MiB with --quick or --short"),
    ours(
        "time",
        "from the first packet of the association's setup to the delivery of the last message; the transfer begins 10 to 11 s \
         after the start of the simulation",
    ),
    ours(
        "buffers",
        "send buffer in KiB, as the axis `buffer` says (4096: unlimited); receive buffer 8 MiB",
    ),
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "queue",
        unit: "packets",
        about: "maximum length of the bottleneck's queue",
        usual: "83",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "flows",
        unit: "",
        about: "number of TCP flows in the cells with losses=tcp",
        usual: "4",
        range: (1.0, 100.0),
    },
    Knob {
        name: "file",
        unit: "KiB",
        about: "size of the file, rounded up to whole messages",
        usual: "8192, or 2048 with --quick or --short",
        range: (1.0, 1_048_576.0),
    },
];

const METRICS: &[Metric] = &[
    metric("time", "s", "time of the file transfer"),
    metric(
        "goodput",
        "Mbit/s",
        "size of the file divided by the time of its transfer",
    ),
    metric(
        "utilisation",
        "",
        "RtxQ_Util: share of the kept bytes that are not acknowledged, mean over the time of the transfer",
    ),
    metric(
        "utilisation_recovery",
        "",
        "the same share, mean over the time in loss recovery",
    ),
    metric(
        "blocked",
        "",
        "share of the time in which the congestion window had space but the send buffer was full",
    ),
    metric(
        "lost",
        "%",
        "share of the packets of all flows that the bottleneck lost during the transfer",
    ),
    metric("timeouts", "", "T3-rtx expirations"),
    metric("retransmissions", "", "chunks retransmitted"),
];

/// The experiment.
pub(in super::super) fn experiment() -> Experiment {
    Experiment {
        name: "file-transfer",
        question: "A file is transferred and packets are lost, at random or because of TCP flows at the bottleneck: what share of its \
                   retransmission queue does the sender need, and how long does the transfer take, with SACKs and with NR-SACKs?",
        source: "Natarajan, Stewart, Iyengar, Ekiz, Yilmaz, Amer: NR-SACKs for SCTP, slides “Simulation setup” and \
                 “Retransmission queue utilization”; Andrew and others: TCP Evaluation Suite",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick | Extent::Short => 6,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims::claims,
        figures: &figures::figures,
        timelines: &Vec::new,
    }
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Random losses in percent, or [`TCP`].
    losses: &'static str,
    /// The RTT in ms, without queueing.
    rtt: &'static str,
    /// The sender's buffer in KiB.
    buffer: u32,
    nr_sack: bool,
}

fn cells(extent: Extent) -> Vec<Cell> {
    let places = match extent {
        Extent::Quick => quick_places(),
        Extent::Short | Extent::Full => full_places(),
    };
    let mut cells = Vec::new();
    for (losses, rtt, buffer) in places {
        for nr_sack in [false, true] {
            let setting = Setting {
                losses,
                rtt,
                buffer,
                nr_sack,
            };
            let coordinates = vec![
                ("losses", losses.to_owned()),
                ("rtt", rtt.to_owned()),
                ("buffer", buffer.to_string()),
                ("ack", if nr_sack { "nr-sack" } else { "sack" }.to_owned()),
            ];
            cells.push(Cell::new(coordinates, move |trial| {
                transfer(setting, extent, trial)
            }));
        }
    }
    cells
}

type Place = (&'static str, &'static str, u32);

/// The cells that the claims need.
fn quick_places() -> Vec<Place> {
    vec![
        ("0", "98", 64),
        ("1", "98", UNLIMITED),
        (TCP, "28", 64),
        (TCP, "98", 64),
        (TCP, "98", UNLIMITED),
        (TCP, "200", 64),
    ]
}

fn full_places() -> Vec<Place> {
    let mut places = Vec::new();
    for losses in ["0", "0.1", "1", "5", TCP] {
        for rtt in RTTS {
            places.extend([32, 64, UNLIMITED].map(|buffer| (losses, rtt, buffer)));
        }
    }
    places
}

/// The numbers of a run.
fn transfer(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let usual = match extent {
        Extent::Quick | Extent::Short => 2048.0,
        Extent::Full => 8192.0,
    };
    let file = trial.knob_or("file", usual) as usize * 1024;
    let messages = file.div_ceil(MESSAGE);
    let start = begin(trial.seed, "start") + WARM_UP;
    let mut pair = network(setting, messages, start, trial);
    pair.network.run_until(start);
    pair.sender_mut().measure_queue(start);
    let before = *pair.network.link_stats(pair.data_links[0]);
    if !pair.run_until_delivered(messages, start + LIMIT) {
        return vec![f64::NAN; METRICS.len()];
    }
    let end = pair.network.now();
    let after = *pair.network.link_stats(pair.data_links[0]);
    let queue = pair.sender_mut().queue(end).copied().unwrap_or_default();
    let counters: Counters = pair.counters();
    let seconds = end.saturating_duration_since(start).as_secs_f64();
    vec![
        seconds,
        (messages * MESSAGE * 8) as f64 / 1e6 / seconds,
        queue.utilisation(),
        queue.utilisation_in_recovery(),
        queue.blocked(),
        100.0 * (after.lost() - before.lost()) as f64 / (after.offered - before.offered) as f64,
        counters.timeouts as f64,
        (counters.retransmissions_fast + counters.retransmissions_timeout) as f64,
    ]
}

fn network(setting: Setting, messages: usize, start: Timestamp, trial: &Trial<'_>) -> Pair {
    let millis: u64 = setting.rtt.parse().expect("the axis has numbers");
    let link = LinkConfig::default()
        .with_rate(10_000_000)
        .with_delay(Duration::from_millis(millis) / 2)
        .with_queue(QueueLimit::Packets(trial.knob_or("queue", 83.0) as u64));
    let (percent, flows) = match setting.losses {
        TCP => (0.0, trial.knob_or("flows", 4.0) as u32),
        percent => (percent.parse::<f64>().expect("the axis has numbers"), 0),
    };
    let tcp_start = |flow| {
        Timestamp(Generator::of_process(trial.seed, &format!("start of tcp {flow}")).below(3_000_000_000))
    };
    let options = SendOptions::default().unordered(true);
    Pair::at_dumbbell(
        trial,
        &config(setting),
        (
            link.clone().with_loss(LossModel::bernoulli(percent / 100.0)),
            link,
        ),
        &TcpFlows::linux(false, (0..flows).map(tcp_start).collect()),
        (
            Source::greedy(PEER_BESIDE_TCP, options, MESSAGE).at_most(messages),
            start,
        ),
    )
}

fn config(setting: Setting) -> Config {
    let mut config = super::super::plain_config();
    config.buffers.send = setting.buffer as usize * 1024;
    config.buffers.receive = 8 << 20;
    config.nr_sack.offer = setting.nr_sack;
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Knobs;

    fn run(setting: Setting, messages: usize) -> (Pair, Timestamp) {
        let knobs = Knobs::default();
        let trial = Trial::new(1, &knobs);
        let start = Timestamp::from_millis(10_500);
        let mut pair = network(setting, messages, start, &trial);
        pair.network.run_until(start);
        pair.sender_mut().measure_queue(start);
        assert!(pair.run_until_delivered(messages, start + LIMIT));
        (pair, start)
    }

    const SETTING: Setting = Setting {
        losses: "0",
        rtt: "98",
        buffer: 64,
        nr_sack: false,
    };

    /// The clock stops with the last message, and the whole file arrived.
    #[test]
    fn a_transfer_ends_with_its_last_message() {
        let (pair, start) = run(SETTING, 100);
        let deliveries = pair.sink().deliveries();
        assert_eq!((deliveries.len(), pair.source().submitted().len()), (100, 100));
        assert_eq!(deliveries.last().map(|(at, _)| *at), Some(pair.network.now()));
        // The setup takes two round trips, the data at least one half of a round trip.
        assert!(pair.network.now() > start + Duration::from_millis(245));
    }

    /// With SACKs, the queue keeps unnecessary data over the transfer only if data arrives out of order; with NR-SACKs it never does.
    #[test]
    fn only_losses_and_sacks_waste_the_queue() {
        let utilisation = |losses, nr_sack| {
            let setting = Setting {
                losses,
                nr_sack,
                ..SETTING
            };
            let (mut pair, _) = run(setting, 500);
            let end = pair.network.now();
            pair.sender_mut().queue(end).map(|queue| queue.utilisation())
        };
        assert_eq!(utilisation("0", false), Some(1.0));
        assert!(utilisation("5", false) < Some(0.95));
        assert_eq!(utilisation("5", true), Some(1.0));
    }

    /// TCP flows take their part of the bottleneck.
    #[test]
    fn tcp_flows_delay_a_transfer() {
        let time = |losses| {
            let (pair, start) = run(Setting { losses, ..SETTING }, 500);
            pair.network.now().saturating_duration_since(start)
        };
        let (alone, beside) = (time("0"), time(TCP));
        assert!(beside > alone * 3 / 2, "{alone:?} {beside:?}");
    }
}
