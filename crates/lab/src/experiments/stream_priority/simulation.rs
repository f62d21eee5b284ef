//! One run: two hosts, a link with a low rate, two streams, and the delays of their messages.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, QueueLimit};
use anabranch_proto::{Config, SchedulerKind, StreamId, Timestamp};

use crate::experiments::pair::begin;
use crate::experiments::plain_config;
use crate::stage::{Awaited, Demand, Measures, Messages, Record, Scenario};
use crate::statistics::{Summary, mean, slope};
use crate::traffic::{Class, Regular, merged};
use crate::trial::Trial;

/// Bytes of user data in a chunk that fills a packet of 1,500 bytes.
const BULK_MESSAGE: usize = 1452;
/// The rate of a steady stream in bit/s.
const STEADY: f64 = 64e3;
/// The association is established before this time.
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(5_000);
/// The longest time that the last messages may take.
const MOST_DRAIN: Duration = Duration::from_secs(1200);

/// Stream 0, and the class of its messages.
const FIRST: usize = 0;
/// Stream 1, and the class of its messages.
const SECOND: usize = 1;

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// The link's rate in kbit/s.
    pub(super) link: u32,
    pub(super) traffic: Traffic,
    /// By priority; otherwise first come, first served.
    pub(super) priority: bool,
    pub(super) window: Window,
    /// The longest time that less urgent data may wait in the network's queues, in milliseconds.
    pub(super) bound: Option<u64>,
}

/// The traffic of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Chat, and bulk data at a steady rate.
    Steady,
    /// Chat, and bulk data at several times the link's rate.
    Greedy,
    /// On the urgent stream alone, more than the link of 56 kbit/s can carry.
    Urgent,
    /// Two streams with equal priority. One has twice as much data as the other, and each has more than half of the link's rate.
    Equals,
}

impl Traffic {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Greedy => "greedy",
            Self::Urgent => "urgent",
            Self::Equals => "equals",
        }
    }

    fn has_chat(self) -> bool {
        matches!(self, Self::Steady | Self::Greedy)
    }

    /// The measured time, from and to; no message is submitted after its end.
    fn counts(self, trial: &Trial<'_>) -> (Timestamp, Timestamp) {
        let (from, to) = if self.has_chat() {
            let interval = chat_interval(trial);
            (5 * interval, 20 * interval)
        } else {
            (Duration::from_secs(60), Duration::from_secs(180))
        };
        (MESSAGES_BEGIN + from, MESSAGES_BEGIN + to)
    }
}

/// The receive window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// 65,536 bytes: the link's queue can hold nearly all of it.
    Thesis,
    /// Four packets: little more than the link's bandwidth-delay product.
    Narrow,
}

impl Window {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Thesis => "64kib",
            Self::Narrow => "4p",
        }
    }
}

fn config(setting: Setting) -> Config {
    let mut config = plain_config();
    config.rto.initial = Duration::from_secs(3);
    config.buffers.send = 256 << 20;
    config.buffers.receive = match setting.window {
        Window::Thesis => 65_536,
        Window::Narrow => 4 * BULK_MESSAGE as u32,
    };
    if setting.priority {
        config.scheduler = SchedulerKind::Priority;
    }
    config.low_priority_delay = setting.bound.map(Duration::from_millis);
    config
}

fn chat_interval(trial: &Trial<'_>) -> Duration {
    Duration::from_secs_f64(trial.knob_or("chat_interval", 30.0))
}

fn messages(setting: Setting, trial: &Trial<'_>) -> Messages {
    let seed = trial.seed;
    let at_rate = |rate, class| Regular::at_rate(seed, MESSAGES_BEGIN, rate, BULK_MESSAGE, class);
    let (first, second) = match setting.traffic {
        Traffic::Steady | Traffic::Greedy => {
            let chat_bytes = trial.knob_or("chat_bytes", 30.0) as usize;
            let chat = Regular::new(seed, MESSAGES_BEGIN, chat_interval(trial), chat_bytes, FIRST);
            let greedy = setting.traffic == Traffic::Greedy;
            let rate = if greedy {
                f64::from(setting.link) * 4e3
            } else {
                STEADY
            };
            (chat, at_rate(rate, SECOND))
        }
        Traffic::Urgent => (at_rate(STEADY, FIRST), at_rate(STEADY, SECOND)),
        Traffic::Equals => (at_rate(96e3, FIRST), at_rate(48e3, SECOND)),
    };
    let mut classes = vec![Class::default(); 2];
    classes[SECOND].stream = StreamId(1);
    if setting.priority && setting.traffic != Traffic::Equals {
        classes[SECOND].priority = 1;
    }
    Messages {
        connect: begin(seed, "start"),
        classes,
        demand: Demand::Scheduled(Box::new(merged(first, second))),
        // Less urgent messages may still wait.
        awaited: Awaited::LastOf(FIRST),
    }
}

fn link(setting: Setting, trial: &Trial<'_>) -> LinkConfig {
    LinkConfig::default()
        .with_rate(u64::from(setting.link) * 1000)
        .with_delay(Duration::from_secs_f64(trial.knob_or("delay", 250.0) / 1e3))
        .with_queue(QueueLimit::Packets(trial.knob_or("queue", 50.0) as u64))
}

/// The scenario of a cell.
pub(super) fn scenario(setting: Setting, trial: &Trial<'_>) -> Scenario {
    let link = link(setting, trial);
    Scenario {
        config: config(setting),
        paths: vec![(link.clone(), link)],
        messages: Some(messages(setting, trial)),
        tcp: None,
        counts: setting.traffic.counts(trial),
        most_drain: MOST_DRAIN,
        measures: Measures::default(),
    }
}

/// The goodput of each stream in the measured time, in kbit/s.
fn goodput(record: &Record) -> [f64; 2] {
    let (from, to) = record.counts;
    let mut bits = [0.0; 2];
    for (at, number) in &record.deliveries {
        if (from..to).contains(at) {
            let message = record.submitted[*number as usize];
            bits[message.class] += message.len as f64 * 8.0;
        }
    }
    bits.map(|bits| bits / record.seconds() / 1000.0)
}

/// The numbers of a run.
pub(super) fn numbers(record: &Record) -> Vec<f64> {
    let (mut times, mut delays, mut queue, mut network) = (vec![], vec![], vec![], vec![]);
    for number in record.counted(FIRST) {
        let at = record.submitted[number].at;
        let sent = record.sent.of(number);
        let delivered = record.delivered.of(number);
        times.push(at.as_secs_f64());
        delays.push(seconds(Some(at), delivered));
        queue.push(seconds(Some(at), sent));
        network.push(seconds(sent, delivered));
    }
    let [first, second] = goodput(record);
    vec![
        mean(&delays),
        mean(&queue),
        mean(&network),
        Summary::of(&delays).max,
        delays.last().copied().unwrap_or(f64::NAN),
        slope(&times, &delays),
        first,
        second,
        record.last.links[0].lost_queue as f64,
        record.last.sender.timeouts as f64,
    ]
}

/// The time between two events. If one of them did not occur, the result is NaN, and no claim about it can hold.
fn seconds(from: Option<Timestamp>, to: Option<Timestamp>) -> f64 {
    from.zip(to).map_or(f64::NAN, |(from, to)| {
        to.saturating_duration_since(from).as_secs_f64()
    })
}
