//! The cells of the comparison with other transports (`scripts/rivals`) for this stack alone, so that settings can be tried without a testbed.
//! The links, the messages and the settings are those of `rivals/grid.py`, `rivals/src/traffic.rs` and `rivals/src/ours.rs`.

use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, CoupledControl, MultipathMode, Reliability, SendOptions, StreamId, Timestamp};

use super::timely::{DELIVERY, Traffic, delivery};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric, ours};
use crate::results::Results;
use crate::stage::{Awaited, Demand, Measures, Messages, Record, Scenario, Stage, TcpFlows};
use crate::traffic::{Class, Regular, merged};
use crate::trial::{Knob, Trial};

/// The file and the TCP flow begin this long before the first message.
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(3_000);
const OTHERS_BEGIN: Timestamp = Timestamp::from_millis(1_000);
/// In this time a TCP flow fills a queue of a second.
const TO_FILL: Duration = Duration::from_secs(10);
/// The longest time that the last messages may take.
const DRAIN: Duration = Duration::from_secs(5);
/// The length of a message of the file.
const PART: usize = 16 << 10;

const PARAMETERS: &[Parameter] = &[
    ours("game", "60 messages a second of 100 bytes, deadline 100 ms"),
    ours("telephony", "50 messages a second of 160 bytes, deadline 150 ms"),
    ours(
        "video",
        "30 frames a second of 4 to 12 KiB, one of 40 KiB every 2 s, deadline 200 ms: 2.1 Mbit/s",
    ),
    ours(
        "control",
        "10 messages a second of 64 bytes, reliable and ordered, deadline 500 ms",
    ),
    ours(
        "base",
        "10 Mbit/s, RTT 80 ms, 1 % random loss in both directions, queue of one bandwidth-delay product; all other links differ in one factor",
    ),
    ours("defaults", "reliable, ordered: RACK-TLP and CUBIC"),
    ours(
        "lifetime",
        "the same, but unordered and abandoned after the deadline; control messages stay reliable and ordered",
    ),
    ours(
        "best",
        "the settings that are compared with the rivals: Config::low_latency(), the same lifetimes, three early copies of each message, one of \
         each chunk of a video frame; with two paths, the second one is for failover",
    ),
    ours(
        "deadline",
        "the default settings, and the deadline of each message (SendOptions::deadline); control messages stay reliable and ordered",
    ),
    ours(
        "no-copies, no-hopeless, no-priorities, no-bbr",
        "best without early copies; without discard_hopeless; without priorities, interleaving and low_priority_delay; with CUBIC",
    ),
    ours(
        "file",
        "messages of 16 KiB, as fast as they are accepted, on a less urgent stream of the same association",
    ),
    ours("tcp", "one greedy TCP flow (CUBIC, Linux's settings)"),
];

const KNOBS: &[Knob] = &[Knob {
    name: "seconds",
    unit: "s",
    about: "time in which messages are submitted",
    usual: "15",
    range: (1.0, 100_000.0),
}];

const METRICS: &[Metric] = &[
    DELIVERY[0],
    DELIVERY[1],
    DELIVERY[2],
    DELIVERY[3],
    metric("chunks", "", "DATA chunks sent for each message"),
    metric("timeouts", "", "T3-rtx expirations"),
    metric("tcp", "Mbit/s", "goodput of the TCP flow"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "rivals",
        question: "The cells of the comparison with TCP, QUIC, KCP, ENet, SRT and RIST for this stack alone: how many messages are \
                   delivered within their deadline, and what does a TCP flow keep?",
        source: "no paper; the bounds of the claims are the project's own goals",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 2,
            Extent::Short => 5,
            Extent::Full => 10,
        },
        cells: &cells,
        claims: &claims,
        figures: &|| Vec::new(),
        timelines: &Vec::new,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settings {
    Defaults,
    Lifetime,
    Best,
    Deadline,
    /// `Best` without one of its parts.
    WithoutCopies,
    WithoutHopeless,
    WithoutPriorities,
    WithoutBbr,
}

impl Settings {
    const ALL: [Self; 8] = [
        Self::Defaults,
        Self::Lifetime,
        Self::Best,
        Self::Deadline,
        Self::WithoutCopies,
        Self::WithoutHopeless,
        Self::WithoutPriorities,
        Self::WithoutBbr,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Defaults => "defaults",
            Self::Lifetime => "lifetime",
            Self::Best => "best",
            Self::Deadline => "deadline",
            Self::WithoutCopies => "no-copies",
            Self::WithoutHopeless => "no-hopeless",
            Self::WithoutPriorities => "no-priorities",
            Self::WithoutBbr => "no-bbr",
        }
    }

    fn config(self, paths: usize) -> Config {
        let mut config = match self {
            Self::Defaults | Self::Lifetime | Self::Deadline => Config::default(),
            _ => Config::low_latency(),
        };
        match self {
            Self::WithoutHopeless => config.partial_reliability.discard_hopeless = false,
            Self::WithoutPriorities => {
                config.scheduler = Config::default().scheduler;
                config.low_priority_delay = None;
                config.interleaving.offer = false;
            }
            Self::WithoutBbr => config.congestion_control = Config::default().congestion_control,
            _ => {}
        }
        if paths > 1 {
            if matches!(self, Self::Defaults | Self::Lifetime | Self::Deadline) {
                config.multipath.mode = MultipathMode::Eca;
            }
            if matches!(self, Self::Defaults | Self::Lifetime) {
                config.multipath.congestion = CoupledControl::Uncoupled;
            }
        }
        config
    }

    fn options(self, traffic: Traffic) -> SendOptions {
        let mut options = SendOptions::default();
        if self == Self::Deadline {
            return match traffic {
                Traffic::Control => options,
                _ => options.deadline(traffic.deadline()),
            };
        }
        if self != Self::Defaults && traffic != Traffic::Control {
            let lifetime = Reliability::Lifetime(traffic.deadline());
            options = options.unordered(true).reliability(lifetime);
        }
        match (self, traffic) {
            (Self::Defaults | Self::Lifetime | Self::WithoutCopies, _) => options,
            (_, Traffic::Video) => options.early_copies(1),
            _ => options.early_copies(3),
        }
    }
}

/// A link of the grid: its name, the paths, the rate of the first path in Mbit/s, and whether its messages share the first path with a TCP flow
/// that begins 10 s earlier.
#[derive(Clone)]
struct Link {
    name: &'static str,
    paths: Vec<String>,
    rate: u32,
    filled: bool,
}

/// The changes that make a link of the grid out of the base link.
#[derive(Clone, Copy)]
struct Factors {
    rate: u32,
    rtt: u32,
    queue_ms: Option<u32>,
}

const BASE: Factors = Factors {
    rate: 10,
    rtt: 80,
    queue_ms: None,
};

impl Factors {
    fn path(self, loss: &str) -> String {
        let Self { rate, rtt, queue_ms } = self;
        let queue = f64::from(rate * queue_ms.unwrap_or(rtt)) / 8.0;
        let delay = f64::from(rtt) / 2.0;
        format!("rate={rate}mbit,delay={delay}ms,queue={queue}kb,loss={loss}")
    }
}

/// A share of lost packets in percent, lost in bursts of four packets on average.
fn bursts(percent: f64) -> String {
    let ends = 0.25;
    format!("burst:{:.6}/{ends}", ends * percent / (100.0 - percent))
}

fn links() -> Vec<Link> {
    let link = |name, factors: Factors, loss: &str| Link {
        name,
        paths: vec![factors.path(loss)],
        rate: factors.rate,
        filled: false,
    };
    let queue_ms = Some(1_000);
    // The association begins about 2 s later on the testbed.
    let outages = "outage:4000ms-4500ms/7300ms-7800ms/11900ms-12400ms/15200ms-15700ms";
    vec![
        link("base", BASE, "1%"),
        link("loss-0", BASE, "0%"),
        link("loss-3", BASE, "3%"),
        link("loss-5", BASE, "5%"),
        link("loss-10", BASE, "10%"),
        link("queue-1s", Factors { queue_ms, ..BASE }, "1%"),
        link("burst-1", BASE, &bursts(1.0)),
        link("burst-3", BASE, &bursts(3.0)),
        link("burst-5", BASE, &bursts(5.0)),
        link("burst-10", BASE, &bursts(10.0)),
        link("rate-2", Factors { rate: 2, ..BASE }, "1%"),
        link("rate-50", Factors { rate: 50, ..BASE }, "1%"),
        link("rtt-20", Factors { rtt: 20, ..BASE }, "1%"),
        link("rtt-200", Factors { rtt: 200, ..BASE }, "1%"),
        link("mobile", BASE, outages),
        Link {
            name: "two-paths",
            paths: vec![
                BASE.path("1%"),
                "rate=4mbit,delay=60ms,queue=60kb,loss=2%".to_owned(),
            ],
            rate: 10,
            filled: false,
        },
        hard(
            "weak",
            "rate=1.5mbit,delay=30ms,queue=11.25kb,loss=1%",
            "rate=1.2mbit,delay=45ms,queue=13.5kb,loss=2%",
        ),
        // As above, the association begins about 2 s later on the testbed.
        hard(
            "outages",
            &format!("rate=5mbit,delay=30ms,queue=37.5kb,loss={outages},corrupt=1%"),
            "rate=5mbit,delay=40ms,queue=50kb,loss=outage:5600ms-6100ms/9600ms-10100ms/13500ms-14000ms/17000ms-17500ms,corrupt=1%",
        ),
        hard(
            "bursts",
            &format!("rate=10mbit,delay=40ms,queue=100kb,loss={}", bursts(5.0)),
            &format!("rate=10mbit,delay=50ms,queue=125kb,loss={}", bursts(5.0)),
        ),
        hard(
            "unequal",
            "rate=10mbit,delay=20ms,queue=50kb,loss=20%",
            "rate=2mbit,delay=100ms,queue=50kb",
        ),
        Link {
            filled: true,
            ..hard(
                "filled",
                "rate=10mbit,delay=20ms,queue=1250kb",
                "rate=3mbit,delay=30ms,queue=22.5kb",
            )
        },
    ]
}

/// Two paths, none of which is enough.
fn hard(name: &'static str, first: &str, second: &str) -> Link {
    Link {
        name,
        paths: vec![first.to_owned(), second.to_owned()],
        rate: 0,
        filled: false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nobody,
    File,
    Tcp,
}

impl Beside {
    const ALL: [Self; 3] = [Self::Nobody, Self::File, Self::Tcp];

    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "alone",
            Self::File => "file",
            Self::Tcp => "tcp",
        }
    }
}

/// The links on which the messages also share the link.
const SHARED: [&str; 3] = ["base", "loss-5", "queue-1s"];

fn cells(extent: Extent) -> Vec<Cell> {
    let mut cells = Vec::new();
    for traffic in Traffic::ALL {
        for link in links() {
            // At an RTT of 200 ms, no game message can be in time. The quick cells are the base link's.
            let has_point = (traffic, link.name) != (Traffic::Game, "rtt-200");
            if !has_point || (extent == Extent::Quick && link.name != "base") {
                continue;
            }
            for beside in Beside::ALL {
                if beside == Beside::Nobody || SHARED.contains(&link.name) {
                    let of = |settings| cell(traffic, &link, beside, settings);
                    cells.extend(Settings::ALL.map(of));
                }
            }
        }
    }
    cells
}

fn cell(traffic: Traffic, link: &Link, beside: Beside, settings: Settings) -> Cell {
    let coordinates = vec![
        ("traffic", traffic.name().to_owned()),
        ("link", link.name.to_owned()),
        ("beside", beside.name().to_owned()),
        ("sender", settings.name().to_owned()),
    ];
    let link = link.clone();
    let scenario = move |trial: &Trial<'_>| scenario(traffic, &link, beside, settings, trial);
    Cell::staged(
        coordinates,
        Stage::new(scenario, move |record| numbers(traffic, record)).usual(false),
    )
}

fn scenario(
    traffic: Traffic,
    link: &Link,
    beside: Beside,
    settings: Settings,
    trial: &Trial<'_>,
) -> Scenario {
    let both_directions = |text: &String| {
        let link: LinkConfig = text.parse().expect("the links of the grid can be read");
        (link.clone(), link)
    };
    let begin = if link.filled {
        OTHERS_BEGIN + TO_FILL
    } else {
        MESSAGES_BEGIN
    };
    let end = begin + Duration::from_secs_f64(trial.knob_or("seconds", 15.0));
    let mut classes = vec![Class::from(settings.options(traffic))];
    let mut messages = traffic.schedule(trial.seed, begin);
    if beside == Beside::File {
        // Faster than the link.
        let file = Regular::at_rate(
            trial.seed + 1,
            OTHERS_BEGIN,
            f64::from(link.rate) * 1.25e6,
            PART,
            1,
        );
        messages = Box::new(merged(messages, file));
        classes.push(Class {
            stream: StreamId(1),
            priority: 1,
            ..Class::from(SendOptions::default())
        });
    }
    Scenario {
        config: settings.config(link.paths.len()),
        paths: link.paths.iter().map(both_directions).collect(),
        messages: Some(Messages {
            connect: Timestamp::ZERO,
            classes,
            demand: Demand::Scheduled(messages),
            awaited: if beside == Beside::File {
                Awaited::LastOf(0)
            } else {
                Awaited::All
            },
        }),
        tcp: (beside == Beside::Tcp || link.filled).then(|| TcpFlows::linux(true, vec![OTHERS_BEGIN])),
        counts: (begin, end),
        most_drain: DRAIN,
        measures: Measures::default(),
    }
}

fn numbers(traffic: Traffic, record: &Record) -> Vec<f64> {
    // Messages that were refused because the send buffer was full are not submitted, and count as late.
    let messages = f64::from(traffic.rate()) * record.seconds();
    let [in_time, delivered, median, late] = delivery(traffic, record, messages);
    let sender = &record.last.sender;
    let chunks = (sender.data_chunks_sent + sender.early_copies) as f64;
    let has_tcp = !record.at_end.tcp_bytes.is_empty();
    vec![
        in_time,
        delivered,
        median,
        late,
        chunks / messages,
        sender.timeouts as f64,
        if has_tcp { record.tcp_goodput() } else { f64::NAN },
    ]
}

fn claims() -> Vec<Claim> {
    let in_time = |says, traffic: &'static str, beside: &'static str, bound| {
        Claim::new(says, "", Bound::AtLeast(bound), move |results: &Results| {
            let at = [
                ("traffic", traffic),
                ("link", "base"),
                ("beside", beside),
                ("sender", "best"),
            ];
            results.sample(&at, "in_time")
        })
    };
    vec![
        in_time("game, base: at least 99.9 % in time", "game", "alone", 99.9).must(),
        in_time(
            "game beside a file, base: at least 99.5 % in time",
            "game",
            "file",
            99.5,
        ),
        in_time(
            "telephony, base: at least 99.9 % in time",
            "telephony",
            "alone",
            99.9,
        ),
        in_time("video, base: at least 99 % in time", "video", "alone", 99.0),
        in_time("control, base: at least 99.9 % in time", "control", "alone", 99.9),
    ]
}
