//! One run of a user's experiment.

use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{SchedulerKind, SendOptions, StreamId, Timestamp};

use super::definition::{Definition, Variant, with_setting};
use crate::experiment::Extent;
use crate::experiments::outcome::{Outcome, goodput};
use crate::experiments::pair::{PEER, Pair};
use crate::traffic::{Class, Regular, Source, Submission, merged};
use crate::trial::Trial;

/// The association is established before this time.
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(5_000);
/// Messages that take longer than this after the last submission count as lost.
const DRAIN: Duration = Duration::from_secs(5);
/// The longest run of the quick setting.
const QUICK_SECONDS: u64 = 20;

type Schedule = Box<dyn Iterator<Item = Submission> + Send>;

/// Runs one variant. Returns the definition's metrics, in their order.
pub(super) fn simulate(
    definition: &Definition,
    variant: usize,
    swept: Option<&str>,
    extent: Extent,
    trial: &Trial<'_>,
) -> Vec<f64> {
    let seconds = match extent {
        Extent::Quick | Extent::Short => definition.seconds.min(QUICK_SECONDS),
        Extent::Full => definition.seconds,
    };
    let end = MESSAGES_BEGIN + Duration::from_secs(seconds);
    let variant = &definition.variants[variant];
    let source = source(definition, variant, trial.seed).until(end);
    let mut pair = Pair::over(trial, &variant.config, links(definition, swept), source);
    pair.network.run_until(end + DRAIN);
    let span = (MESSAGES_BEGIN, end);
    let mut numbers = Vec::new();
    for (class, flow) in definition.traffic.iter().enumerate() {
        let outcome = Outcome::of(&pair, class, span);
        numbers.extend(
            flow.deadline
                .map(|deadline| outcome.within(deadline.as_secs_f64())),
        );
        numbers.extend([
            outcome.delivered(),
            outcome.mean_delay(),
            outcome.delay_of(0.95),
            goodput(&pair, class, span),
        ]);
    }
    let counters = pair.counters();
    let repeats = counters.retransmissions_fast + counters.retransmissions_timeout;
    numbers.extend([counters.timeouts as f64, repeats as f64]);
    numbers
}

/// Each flow on its own stream, in their order.
fn source(definition: &Definition, variant: &Variant, seed: u64) -> Source {
    let by_priority = variant.config.scheduler == SchedulerKind::Priority;
    let class = |(stream, flow): (usize, &super::definition::Flow)| Class {
        stream: StreamId(stream as u16),
        priority: if by_priority { flow.priority } else { 0 },
        options: SendOptions {
            unordered: flow.unordered,
            reliability: if variant.expiry {
                flow.reliability
            } else {
                Default::default()
            },
            ..SendOptions::default()
        },
    };
    let classes: Vec<Class> = definition.traffic.iter().enumerate().map(class).collect();
    let mut schedule: Schedule = Box::new(std::iter::empty());
    let mut file = None;
    for (class, flow) in definition.traffic.iter().enumerate() {
        match flow.every {
            Ok(every) => {
                let messages = Regular::new(seed, MESSAGES_BEGIN, every, flow.bytes, class);
                schedule = Box::new(merged(schedule, messages));
            }
            Err(backlog) => file = Some((class, flow.bytes, backlog)),
        }
    }
    let source = Source::scheduled(PEER, classes, schedule);
    match file {
        Some((class, bytes, backlog)) => source.beside_file(class, bytes, backlog),
        None => source,
    }
}

fn links(definition: &Definition, swept: Option<&str>) -> Vec<(LinkConfig, LinkConfig)> {
    let parsed = |link: &str| link.parse().expect("the file was checked");
    let paths = definition.paths.iter().enumerate();
    let links = paths.map(|(number, (there, back))| {
        let sweep = definition.sweep.as_ref().zip(swept);
        let sweep = sweep.filter(|(sweep, _)| sweep.path.is_none_or(|path| path == number));
        let there = match sweep {
            Some((sweep, value)) => with_setting(there, &sweep.key, value),
            None => there.clone(),
        };
        (parsed(&there), parsed(back))
    });
    links.collect()
}
