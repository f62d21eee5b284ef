//! One run: two hosts, a link with a low rate, two streams, and the delays of their messages.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, QueueLimit};
use anabranch_proto::{Config, Reliability, SchedulerKind, StreamId, Timestamp};

use crate::experiments::pair::begin;
use crate::experiments::plain_config;
use crate::stage::{Awaited, Demand, LinkChange, Measures, Messages, Record, Scenario};
use crate::statistics::{Summary, mean, slope};
use crate::traffic::{Class, Regular, merged};
use crate::trial::Trial;

/// Bytes of user data in a chunk that fills a packet of 1,500 bytes.
const BULK_MESSAGE: usize = 1452;
/// The rate of a steady stream in bit/s.
const STEADY: f64 = 64e3;
/// The rate of the urgent stream under buffer pressure, in bit/s.
const URGENT: f64 = 16e3;
/// The higher rate of a link that fluctuates, in kbit/s: the thesis' second link.
pub(super) const WIDE: u32 = 128;
/// The time between two changes of a link that fluctuates, in intervals of the chat.
const PHASE: u32 = 4;
/// The measured chat messages, counted from 0: the thesis discards 5 and takes the next 15.
pub(super) const CHAT: std::ops::Range<usize> = 5..20;
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
    /// Chat and steady bulk data while the link changes between [`WIDE`] and its rate.
    Fluctuating,
    /// An urgent stream of [`URGENT`] and greedy bulk data in messages of equal length, with a small send buffer.
    Pressure {
        /// The length of the send buffer.
        kib: u32,
        /// Whether each stream has a share of the send buffer, which is the stack's default. Otherwise the streams use one buffer, and all
        /// wait when it is full.
        shares: bool,
        /// Whether the sender may drop bulk data to accept a message of the urgent stream.
        may_drop: bool,
    },
}

impl Traffic {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Greedy => "greedy",
            Self::Urgent => "urgent",
            Self::Equals => "equals",
            Self::Fluctuating => "fluctuating",
            Self::Pressure {
                kib,
                shares,
                may_drop,
            } => match (kib, shares, may_drop) {
                (32, true, false) => "pressure-32kib",
                (32, true, true) => "pressure-32kib-drop",
                (32, false, false) => "pressure-32kib-one",
                (32, false, true) => "pressure-32kib-one-drop",
                (_, true, false) => "pressure-96kib",
                (_, true, true) => "pressure-96kib-drop",
                (_, false, false) => "pressure-96kib-one",
                (_, false, true) => "pressure-96kib-one-drop",
            },
        }
    }

    fn has_chat(self) -> bool {
        matches!(self, Self::Steady | Self::Greedy | Self::Fluctuating)
    }

    /// The measured time, from and to; no message is submitted after its end.
    fn counts(self, trial: &Trial<'_>) -> (Timestamp, Timestamp) {
        let (from, to) = if self.has_chat() {
            let interval = chat_interval(trial);
            (CHAT.start as u32 * interval, CHAT.end as u32 * interval)
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
    config.buffers.send = match setting.traffic {
        Traffic::Pressure { kib, .. } => (kib as usize) << 10,
        _ => 256 << 20,
    };
    // `Config::rfc9260` has one buffer for all streams, the thesis one for each stream.
    config.buffers.stream_shares = matches!(setting.traffic, Traffic::Pressure { shares: true, .. });
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

/// The rate of greedy bulk data in bit/s: more than the link can carry.
fn greedy(setting: Setting) -> f64 {
    f64::from(setting.link) * 4e3
}

fn messages(setting: Setting, trial: &Trial<'_>) -> Messages {
    let seed = trial.seed;
    let at_rate = |rate, class| Regular::at_rate(seed, MESSAGES_BEGIN, rate, BULK_MESSAGE, class);
    let (first, second) = match setting.traffic {
        Traffic::Steady | Traffic::Greedy | Traffic::Fluctuating => {
            let chat_bytes = trial.knob_or("chat_bytes", 30.0) as usize;
            let chat = Regular::new(seed, MESSAGES_BEGIN, chat_interval(trial), chat_bytes, FIRST);
            let rate = match setting.traffic {
                Traffic::Greedy => greedy(setting),
                _ => STEADY,
            };
            (chat, at_rate(rate, SECOND))
        }
        Traffic::Urgent => (at_rate(STEADY, FIRST), at_rate(STEADY, SECOND)),
        Traffic::Pressure { .. } => (at_rate(URGENT, FIRST), at_rate(greedy(setting), SECOND)),
        Traffic::Equals => (at_rate(96e3, FIRST), at_rate(48e3, SECOND)),
    };
    let mut classes = vec![Class::default(); 2];
    classes[SECOND].stream = StreamId(1);
    if setting.priority && setting.traffic != Traffic::Equals {
        classes[SECOND].priority = 1;
    }
    if let Traffic::Pressure { may_drop: true, .. } = setting.traffic {
        classes[SECOND].options.reliability = Reliability::Priority(1);
    }
    Messages {
        connect: begin(seed, "start"),
        classes,
        demand: Demand::Scheduled(Box::new(merged(first, second))),
        awaited: match setting.traffic {
            // A message that is not delivered at the end was dropped.
            Traffic::Pressure { .. } => Awaited::All,
            // Less urgent messages may still wait.
            _ => Awaited::LastOf(FIRST),
        },
    }
}

fn link(setting: Setting, trial: &Trial<'_>) -> LinkConfig {
    LinkConfig::default()
        .with_rate(u64::from(setting.link) * 1000)
        .with_delay(Duration::from_secs_f64(trial.knob_or("delay", 250.0) / 1e3))
        .with_queue(QueueLimit::Packets(trial.knob_or("queue", 50.0) as u64))
}

/// The changes of a link that fluctuates, which begins with [`WIDE`].
pub(super) fn changes(setting: Setting, trial: &Trial<'_>) -> Vec<LinkChange> {
    let phases = (CHAT.end as u32).div_ceil(PHASE);
    let rates = [WIDE, setting.link].into_iter().cycle();
    (0..phases)
        .zip(rates)
        .map(|(phase, rate)| {
            let at = MESSAGES_BEGIN + phase * PHASE * chat_interval(trial);
            let changed = Setting {
                link: rate,
                ..setting
            };
            LinkChange {
                at,
                path: 0,
                link: link(changed, trial),
            }
        })
        .collect()
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

/// The messages of a class that were offered in the measured time, if this class has `rate` bit/s. They come at a regular interval, and the
/// first one is accepted because the send buffer is still empty. So its time gives the times of all messages.
fn offered(record: &Record, class: usize, rate: f64) -> f64 {
    let mut messages = record.submitted.iter();
    let Some(first) = messages.find(|message| message.class == class) else {
        return f64::NAN;
    };
    let interval = BULK_MESSAGE as f64 * 8.0 / rate;
    let before = |end: Timestamp| (seconds(Some(first.at), Some(end)) / interval).ceil();
    before(record.counts.1) - before(record.counts.0)
}

/// The shares of a class's offered messages that were refused, and that were accepted but not delivered, in percent.
fn losses(record: &Record, class: usize, rate: f64) -> [f64; 2] {
    let offered = offered(record, class, rate);
    let accepted = record.counted(class).count() as f64;
    let is_delivered = |number: &usize| record.delivered.of(*number).is_some();
    let delivered = record.counted(class).filter(is_delivered).count() as f64;
    [offered - accepted, accepted - delivered].map(|messages| 100.0 * messages / offered)
}

/// The numbers of a run.
pub(super) fn numbers(setting: Setting, record: &Record) -> Vec<f64> {
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
    let mut numbers = vec![
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
    ];
    let [[refused, abandoned], [bulk_refused, bulk_abandoned]] = match setting.traffic {
        Traffic::Pressure { .. } => [
            losses(record, FIRST, URGENT),
            losses(record, SECOND, greedy(setting)),
        ],
        _ => [[f64::NAN; 2]; 2],
    };
    numbers.extend([refused, bulk_refused, abandoned, bulk_abandoned]);
    // One metric for each chat message; other traffic has no chat.
    let chat = |message| delays.get(message).filter(|_| setting.traffic.has_chat());
    numbers.extend((0..CHAT.len()).map(|message| chat(message).copied().unwrap_or(f64::NAN)));
    numbers
}

/// The time between two events. If one of them did not occur, the result is NaN, and no claim about it can hold.
fn seconds(from: Option<Timestamp>, to: Option<Timestamp>) -> f64 {
    from.zip(to).map_or(f64::NAN, |(from, to)| {
        to.saturating_duration_since(from).as_secs_f64()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::simulated;
    use crate::traffic::Submission;
    use crate::trial::Knobs;

    const STEADY_56: Setting = Setting {
        link: 56,
        traffic: Traffic::Steady,
        priority: true,
        window: Window::Thesis,
        bound: None,
    };

    #[test]
    fn a_link_that_fluctuates_changes_every_four_chat_intervals() {
        let setting = Setting {
            traffic: Traffic::Fluctuating,
            ..STEADY_56
        };
        let knobs = Knobs::default();
        let changes = changes(setting, &Trial::new(1, &knobs));
        let seen: Vec<(f64, Option<u64>)> = changes
            .iter()
            .map(|change| (change.at.as_secs_f64(), change.link.rate))
            .collect();
        let (wide, narrow) = (Some(128_000), Some(56_000));
        assert_eq!(
            seen,
            [
                (5.0, wide),
                (125.0, narrow),
                (245.0, wide),
                (365.0, narrow),
                (485.0, wide)
            ]
        );
        assert!(
            changes
                .iter()
                .all(|change| change.link.delay == Duration::from_millis(250))
        );
    }

    /// Every message that was offered is refused, dropped or delivered.
    #[test]
    fn the_shares_of_messages_under_pressure_are_complete() {
        let knobs = Knobs::default();
        let run = |may_drop| {
            let setting = Setting {
                traffic: Traffic::Pressure {
                    kib: 96,
                    shares: false,
                    may_drop,
                },
                ..STEADY_56
            };
            let trial = Trial::new(1, &knobs);
            let record = simulated(scenario(setting, &trial), &trial);
            let all: Vec<Submission> = match messages(setting, &trial).demand {
                Demand::Scheduled(schedule) => {
                    schedule.take_while(|next| next.at < record.counts.1).collect()
                }
                _ => Vec::new(),
            };
            for (class, rate) in [(FIRST, URGENT), (SECOND, greedy(setting))] {
                let counts = |message: &&Submission| message.class == class && message.at >= record.counts.0;
                let count = all.iter().filter(counts).count();
                assert_eq!(offered(&record, class, rate), count as f64);
            }
            let accepted = all.len() as u64 - record.refused;
            assert_eq!(accepted, record.submitted.len() as u64);
            losses(&record, SECOND, greedy(setting))
        };
        let ([refused, abandoned], [refused_too, dropped]) = (run(false), run(true));
        assert!(refused > 50.0 && refused_too > 50.0, "{refused} {refused_too}");
        assert!(abandoned == 0.0 && dropped > 0.0, "{abandoned} {dropped}");
    }

    /// With shares, bulk data that fills the send buffer refuses no message of the urgent stream.
    #[test]
    fn a_share_of_the_send_buffer_keeps_the_urgent_stream() {
        let knobs = Knobs::default();
        let refused = |shares| {
            let setting = Setting {
                traffic: Traffic::Pressure {
                    kib: 96,
                    shares,
                    may_drop: false,
                },
                ..STEADY_56
            };
            let trial = Trial::new(1, &knobs);
            let [refused, _] = losses(&simulated(scenario(setting, &trial), &trial), FIRST, URGENT);
            refused
        };
        assert_eq!(refused(true), 0.0);
        assert!(refused(false) > 50.0);
    }

    /// Only a chat has numbers for each message, and they are those of the other metrics.
    #[test]
    fn a_chat_has_a_delay_for_each_message() {
        let knobs = Knobs::default();
        let numbers = |traffic| {
            let setting = Setting { traffic, ..STEADY_56 };
            let trial = Trial::new(1, &knobs);
            numbers(setting, &simulated(scenario(setting, &trial), &trial))
        };
        let steady = numbers(Traffic::Steady);
        let series = &steady[steady.len() - CHAT.len()..];
        assert!((mean(series) - steady[0]).abs() < 1e-9);
        assert_eq!(series.last(), Some(&steady[4]));
        let equals = numbers(Traffic::Equals);
        let series = &equals[equals.len() - CHAT.len()..];
        assert!(series.iter().all(|delay| delay.is_nan()));
    }
}
