//! A greedy flow with greedy TCP flows as cross traffic at one bottleneck: does each flow get its fair share? On the bed, the kernel's TCP
//! sends the TCP flows.

use std::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, QueueLimit};
use anabranch_proto::{Config, LowerLayer, SendOptions, Timestamp};

use super::pair::begin;
use super::recovery::Sender;
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric, ours};
use crate::results::Results;
use crate::stage::{Awaited, Demand, Measures, Messages, Record, Scenario, Stage, TcpFlows};
use crate::traffic::Class;
use crate::trial::{Knob, Trial};
use crate::user::word;

/// User data of a packet of 1,500 bytes: the packet less the IPv4 header, SCTP's common header and the I-DATA chunk header. A TCP segment has
/// as many.
const PAYLOAD: usize = 1448;

const PARAMETERS: &[Parameter] = &[
    ours(
        "bottleneck",
        "10 Mbit/s, 20 ms each way, drop-tail, no random loss",
    ),
    ours(
        "queue",
        "bdp: 33 packets, the bandwidth-delay product; 100p: 100 packets",
    ),
    ours("defaults", "RACK-TLP and CUBIC"),
    ours("rfc9260", "missing reports and RFC 9260's congestion control"),
    ours("bbr", "RACK-TLP and BBR"),
    ours("bbr-random-loss", "RACK-TLP and BBR with tolerate_random_loss"),
    ours(
        "messages",
        "unordered, each fills a packet of 1,500 bytes; the send buffer is never empty",
    ),
    ours(
        "tcp",
        "one or four greedy flows with Linux's settings, which start within the first 3 s",
    ),
    ours(
        "fair share",
        "the goodput of all flows together, divided by their number",
    ),
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "warm_up",
        unit: "s",
        about: "time before the measurement",
        usual: "10",
        range: (0.0, 10_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "measured time",
        usual: "120, or 40 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric("share", "", "goodput of the message flow, in fair shares"),
    metric("least", "", "goodput of the slowest TCP flow, in fair shares"),
    metric("most", "", "goodput of the fastest TCP flow, in fair shares"),
    metric("jain", "", "Jain's fairness index of all flows"),
    metric("goodput", "Mbit/s", "goodput of all flows together"),
    metric("queue", "kB", "bytes in the bottleneck's queue, mean over time"),
    metric("loss", "%", "packets dropped by the queue"),
    metric("timeouts", "", "T3-rtx expirations"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "beside-tcp",
        question: "A greedy flow shares a bottleneck with one or four greedy TCP flows: does each flow get its fair share?",
        source: "no paper; the bounds of the claims are the project's own goals",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick | Extent::Short => 3,
            Extent::Full => 10,
        },
        cells: &cells,
        claims: &claims,
        figures: &|| Vec::new(),
        timelines: &Vec::new,
    }
}

/// The senders, by their names on the axis `sender`.
const SENDERS: [(&str, Sender); 4] = [
    ("defaults", Sender::Cubic),
    ("bbr", Sender::Bbr),
    ("rfc9260", Sender::Rfc9260),
    ("bbr-random-loss", Sender::BbrRandomLoss),
];
const TCPS: [&str; 2] = ["cubic", "reno"];
const FLOWS: [(&str, u32); 2] = [("1", 1), ("4", 4)];
const QUEUES: [(&str, u64); 2] = [("bdp", 33), ("100p", 100)];

fn cells(extent: Extent) -> Vec<Cell> {
    let senders = match extent {
        Extent::Quick => &SENDERS[..2],
        Extent::Short | Extent::Full => &SENDERS,
    };
    let mut cells = Vec::new();
    for (name, sender) in senders.iter().copied() {
        for tcp in TCPS {
            for (flows, count) in FLOWS {
                for (queue, packets) in QUEUES {
                    let coordinates = vec![
                        ("sender", name.to_owned()),
                        ("tcp", tcp.to_owned()),
                        ("flows", flows.to_owned()),
                        ("queue_limit", queue.to_owned()),
                    ];
                    let scenario =
                        move |trial: &Trial<'_>| scenario(sender, (tcp, count), packets, extent, trial);
                    cells.push(Cell::staged(
                        coordinates,
                        Stage::new(scenario, numbers).usual(true),
                    ));
                }
            }
        }
    }
    cells
}

fn scenario(
    sender: Sender,
    (tcp, flows): (&str, u32),
    packets: u64,
    extent: Extent,
    trial: &Trial<'_>,
) -> Scenario {
    let bottleneck = LinkConfig::default()
        .with_rate(10_000_000)
        .with_delay(Duration::from_millis(20))
        .with_queue(QueueLimit::Packets(packets));
    let usual = match extent {
        Extent::Quick | Extent::Short => 40.0,
        Extent::Full => 120.0,
    };
    let seconds = |knob, usual| Duration::from_secs_f64(trial.knob_or(knob, usual));
    let counted = Timestamp::ZERO + seconds("warm_up", 10.0);
    let start = |flow| {
        Timestamp(Generator::of_process(trial.seed, &format!("start of tcp {flow}")).below(3_000_000_000))
    };
    let options = SendOptions::default().unordered(true);
    Scenario {
        config: sender.of({
            let mut config = Config::default();
            config.lower_layer = LowerLayer::Ip;
            // TCP uses the MTU of its device.
            config.path_mtu = 1500;
            config.path_mtu_limit = 1500;
            config
        }),
        paths: vec![(bottleneck.clone(), bottleneck)],
        messages: Some(Messages {
            connect: begin(trial.seed, "start"),
            classes: vec![Class::from(options)],
            demand: Demand::Greedy(PAYLOAD),
            awaited: Awaited::Nothing,
        }),
        tcp: Some(TcpFlows::linux(tcp == "cubic", (0..flows).map(start).collect())),
        counts: (counted, counted + seconds("seconds", usual)),
        most_drain: Duration::ZERO,
        measures: Measures::default(),
    }
}

fn numbers(record: &Record) -> Vec<f64> {
    let (from, to) = record.counts;
    let delivered = record.deliveries.iter().filter(|(at, _)| (from..to).contains(at));
    let mbit = |bytes: u64| bytes as f64 * 8e-6 / record.seconds();
    let ours = mbit((delivered.count() * PAYLOAD) as u64);
    let (before, after) = (&record.at_begin, &record.at_end);
    let tcp = before.tcp_bytes.iter().zip(&after.tcp_bytes);
    let tcp: Vec<f64> = tcp.map(|(before, after)| mbit(after - before)).collect();
    let rates = || tcp.iter().copied().chain([ours]);
    let sum: f64 = rates().sum();
    let squares: f64 = rates().map(|rate| rate * rate).sum();
    let count = rates().count() as f64;
    let shares = || tcp.iter().map(|rate| rate * count / sum);
    let (link_before, link_after) = (&before.links[0], &after.links[0]);
    let byte_seconds = (link_after.queue_byte_nanos - link_before.queue_byte_nanos) as f64 / 1e9;
    let lost = (link_after.lost() - link_before.lost()) as f64;
    vec![
        ours * count / sum,
        shares().fold(f64::INFINITY, f64::min),
        shares().fold(0.0, f64::max),
        sum * sum / (count * squares),
        sum,
        byte_seconds / record.seconds() / 1e3,
        100.0 * lost / (link_after.offered - link_before.offered) as f64,
        (after.sender.timeouts - before.sender.timeouts) as f64,
    ]
}

const BBR_TAKES_MORE: &str = "BBR's share of the link decreases little as the number of other flows grows, because BBR keeps up to \
                              two of its bandwidth-delay products in flight in any case: 49 to 70 % with one TCP flow, 36 to 47 % \
                              with four";

/// The claims for four TCP flows.
fn claims() -> Vec<Claim> {
    let claim = |sender: &'static str, tcp: &'static str, queue: &'static str| {
        let sample = move |metric| {
            move |results: &Results| {
                let at = [
                    ("sender", sender),
                    ("tcp", tcp),
                    ("flows", "4"),
                    ("queue_limit", queue),
                ];
                results.sample(&at, metric)
            }
        };
        let says = |what| word(format!("{sender}, four {tcp} flows, queue {queue}: {what}"));
        let share = says("the sender gets 0.5 to 2 fair shares");
        let least = says("no TCP flow gets less than 0.5 fair shares");
        [
            Claim::new(share, "", Bound::Within(0.5, 2.0), sample("share")),
            Claim::new(least, "", Bound::AtLeast(0.5), sample("least")),
        ]
    };
    let mut claims = Vec::new();
    for queue in ["bdp", "100p"] {
        for tcp in TCPS {
            claims.extend(claim("defaults", tcp, queue).map(|claim| match queue {
                "bdp" => claim.must(),
                _ => claim,
            }));
            let [share, least] = claim("bbr", tcp, queue);
            claims.extend([share.fails_because(BBR_TAKES_MORE), least]);
        }
    }
    claims
}
