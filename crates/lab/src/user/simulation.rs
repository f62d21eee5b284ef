//! One run of a user's experiment.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, TcpSink};
use anabranch_proto::{SchedulerKind, SendOptions, StreamId, Timestamp};

use super::definition::{Change, Changed, Definition, Flow, Tcp, Variant, with_setting, with_settings};
use super::source::{Pace, Schedule, schedule};
use crate::experiment::Extent;
use crate::experiments::outcome::{Outcome, goodput_of};
use crate::experiments::pair::{PEER, PEER_BESIDE_TCP, Pair, begin};
use crate::figure::PERCENTILES;
use crate::stage::TcpFlows;
use crate::traffic::{Class, Sink, Source, Submission, merged};
use crate::trial::Trial;

/// The association is established before this time.
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(5_000);
/// Messages that take longer than this after the last submission count as lost.
const DRAIN: Duration = Duration::from_secs(5);
/// The longest run of the quick setting.
const QUICK_SECONDS: u64 = 20;

/// The interval in which messages are submitted.
fn span(definition: &Definition, extent: Extent) -> (Timestamp, Timestamp) {
    let seconds = match extent {
        Extent::Quick | Extent::Short => definition.seconds.min(QUICK_SECONDS),
        Extent::Full => definition.seconds,
    };
    (MESSAGES_BEGIN, MESSAGES_BEGIN + Duration::from_secs(seconds))
}

/// Runs one variant with one value of each sweep. Returns the definition's metrics, in their order.
pub(super) fn simulate(
    definition: &Definition,
    variant: usize,
    swept: &[String],
    extent: Extent,
    trial: &Trial<'_>,
) -> Vec<f64> {
    let span = span(definition, extent);
    let mut pair = pair(definition, &definition.variants[variant], swept, span.1, trial);
    pair.network.run_until(span.0);
    let tcp_before = tcp_bytes(&pair);
    for change in &definition.changes {
        let at = span.0 + change.at;
        if at > span.1 {
            break;
        }
        pair.network.run_until(at);
        apply(change, &mut pair);
    }
    pair.network.run_until(span.1);
    let tcp_bytes = tcp_bytes(&pair) - tcp_before;
    pair.network.run_until(span.1 + DRAIN);
    let mut numbers = Vec::new();
    for (class, flow) in definition.traffic.iter().enumerate() {
        let (submitted, sink) = ends(&pair, flow);
        let outcome = Outcome::of_messages(submitted, sink, class, span);
        numbers.extend(
            flow.deadline
                .map(|deadline| outcome.within(deadline.as_secs_f64())),
        );
        numbers.extend([
            outcome.delivered(),
            outcome.mean_delay(),
            outcome.delay_of(0.95),
            goodput_of(submitted, sink, class, span),
        ]);
        numbers.extend(PERCENTILES.map(|percent| outcome.delay_of(f64::from(percent) / 100.0)));
    }
    let counters = pair.counters();
    let retransmissions = counters.retransmissions_fast + counters.retransmissions_timeout;
    numbers.extend([counters.timeouts as f64, retransmissions as f64]);
    if definition.tcp.is_some() {
        let seconds = span.1.saturating_duration_since(span.0).as_secs_f64();
        numbers.push(tcp_bytes as f64 * 8e-6 / seconds);
    }
    numbers
}

/// Changes settings of links. The others keep their values.
fn apply(change: &Change, pair: &mut Pair) {
    let (there, back) = match change.of {
        Changed::Path(path) => (pair.data_links[path], pair.return_links[path]),
        Changed::Bottleneck(shared) => pair.shared_links[shared],
    };
    for (link, settings) in [(there, &change.there), (back, &change.back)] {
        let Some(settings) = settings else { continue };
        let now = pair.network.link_config(link).to_string();
        let changed = with_settings(&now, settings);
        let changed = changed.parse().expect("the file was checked");
        pair.network.set_link_config(link, changed);
    }
}

/// The submitted messages of a flow's host, and the deliveries on the other host.
fn ends<'a>(pair: &'a Pair, flow: &Flow) -> (&'a [Submission], &'a Sink) {
    let (source, sink) = match flow.reverse {
        false => (pair.source(), pair.sink()),
        true => pair.answer(),
    };
    (source.submitted(), sink)
}

fn tcp_bytes(pair: &Pair) -> u64 {
    let sinks = pair
        .tcp
        .iter()
        .map(|flow| pair.network.node::<TcpSink>(flow.right));
    sinks.map(|sink| sink.stats().bytes).sum()
}

fn pair(
    definition: &Definition,
    variant: &Variant,
    swept: &[String],
    end: Timestamp,
    trial: &Trial<'_>,
) -> Pair {
    let peer = match definition.tcp {
        Some(Tcp { through: None, .. }) => PEER_BESIDE_TCP,
        Some(_) | None => PEER,
    };
    let classes = classes(definition, variant);
    let submitted = |reverse: bool| -> (Schedule, Option<(usize, usize, usize)>) {
        let mut schedule_of_all: Schedule = Box::new(std::iter::empty());
        let mut file = None;
        let flows = definition.traffic.iter().enumerate();
        for (class, flow) in flows.filter(|(_, flow)| flow.reverse == reverse) {
            match (schedule(flow, class, trial.seed, MESSAGES_BEGIN), &flow.pace) {
                (Some(messages), _) => schedule_of_all = Box::new(merged(schedule_of_all, messages)),
                (None, Pace::Backlog(bytes)) => file = Some((class, flow.bytes, *bytes)),
                (None, _) => {}
            }
        }
        (schedule_of_all, file)
    };
    let source = |reverse: bool| {
        let (schedule, file) = submitted(reverse);
        let source = match reverse {
            false => Source::scheduled(peer, classes.clone(), schedule),
            true => Source::answering(classes.clone(), schedule),
        };
        let source = source.until(end);
        match file {
            Some((class, len, bytes)) => source.beside_file(class, len, bytes),
            None => source,
        }
    };
    let has_answer = definition.traffic.iter().any(|flow| flow.reverse);
    let answer = has_answer.then(|| (source(true), MESSAGES_BEGIN));
    let tcp = definition.tcp.map(|tcp| tcp_flows(tcp, trial.seed));
    let sources = (source(false), answer);
    let links = links(definition, swept);
    if definition.bottlenecks.is_empty() {
        return Pair::of_user(trial, &variant.config, links, tcp.as_ref(), sources);
    }
    let through = definition.paths.iter().map(|path| path.through);
    let paths = links.into_iter().zip(through).collect();
    let shared = definition.bottlenecks.iter();
    let shared = shared.map(|shared| (parsed(&shared.links.there), parsed(&shared.links.back)));
    let place = definition.tcp.and_then(|tcp| tcp.through);
    Pair::at_bottlenecks(
        trial,
        &variant.config,
        (paths, shared.collect()),
        place.zip(tcp.as_ref()),
        sources,
    )
}

fn parsed(link: &str) -> LinkConfig {
    link.parse().expect("the file was checked")
}

fn tcp_flows(tcp: Tcp, seed: u64) -> TcpFlows {
    let starts = (0..tcp.flows).map(|flow| begin(seed, &format!("tcp {flow}")));
    TcpFlows::linux(tcp.is_cubic, starts.collect())
}

/// Each flow has its own stream, in their order, on both hosts.
fn classes(definition: &Definition, variant: &Variant) -> Vec<Class> {
    let by_priority = variant.config.scheduler == SchedulerKind::Priority;
    let class = |(stream, flow): (usize, &Flow)| Class {
        stream: StreamId(stream as u16),
        priority: if by_priority { flow.priority } else { 0 },
        options: SendOptions::default()
            .unordered(flow.unordered)
            .early_copies(if variant.early_copies {
                flow.early_copies
            } else {
                0
            })
            .reliability(match variant.expiry {
                true => flow.reliability,
                false => Default::default(),
            }),
    };
    definition.traffic.iter().enumerate().map(class).collect()
}

/// The links of each path, with one value of each sweep.
fn links(definition: &Definition, swept: &[String]) -> Vec<(LinkConfig, LinkConfig)> {
    let paths = definition.paths.iter().enumerate();
    let links = paths.map(|(number, path)| {
        let sweeps = definition.sweeps.iter().zip(swept);
        let of_path = sweeps.filter(|(sweep, _)| sweep.path.is_none_or(|path| path == number));
        let there = of_path.fold(path.links.there.clone(), |link, (sweep, value)| {
            with_setting(&link, &sweep.key, &definition.value(sweep, value))
        });
        (parsed(&there), parsed(&path.links.back))
    });
    links.collect()
}
