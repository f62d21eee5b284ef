//! One run: three unequal paths, bulk data, and how its losses were repaired.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_netsim::{Application, HostApi, Node};
use anabranch_proto::{AssociationId, Event, SendOptions, Timestamp};

use super::repairs::Repairs;
use super::setting::{PATHS, Setting, Variant, config, links};
use crate::experiment::Extent;
use crate::experiments::pair::{PEER, Pair};
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

/// Which path has this address at its end, from 0: [`Pair`] numbers them in the second octet.
fn place_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(address) => usize::from(address.octets()[1]),
        IpAddr::V6(_) => 0,
    }
}

/// What a packet takes at least to this address.
fn delay(address: IpAddr) -> Duration {
    let (_, millis) = PATHS[place_of(address)];
    Duration::from_millis(millis)
}

/// The deviation as a share of the mean.
fn variation(readings: &[f64]) -> f64 {
    let summary = Summary::of(readings);
    summary.deviation / summary.mean
}

/// Runs a cell.
pub(super) fn simulate(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let seconds = match extent {
        Extent::Quick | Extent::Short if !setting.is_slow() => 30.0,
        _ => 100.0,
    };
    let seconds = trial.knob_or("seconds", seconds);
    let mut windows = Windows::default();
    let pair = run(setting, seconds, trial, |pair| windows.look(pair));
    numbers(&pair, &windows, seconds)
}

/// Sends for so many seconds, from [`BEGIN`] on, and lets `look` look every now and then.
fn run(setting: Setting, seconds: f64, trial: &Trial<'_>, mut look: impl FnMut(&Pair)) -> Pair {
    let source = || Source::greedy(PEER, SendOptions::default(), MESSAGE);
    let mut pair = Pair::over(trial, &config(setting), links(setting, trial), source());
    if setting.variant == Variant::BothWays {
        let begins = pair.sender().host().poll_timeout();
        pair.sender_mut().host_mut().run(BothWays::new(source()), begins);
        pair.receiver_mut().host_mut().run(BothWays::new(source()), None);
    }
    pair.sender_mut().keep_log();
    pair.receiver_mut().keep_log();
    pair.network.run_until(BEGIN);
    let end = BEGIN + Duration::from_secs_f64(seconds);
    while pair.network.now() < end {
        look(&pair);
        pair.network.run_for(LOOK);
    }
    pair
}

fn numbers(pair: &Pair, windows: &Windows, seconds: f64) -> Vec<f64> {
    let (sender, receiver) = (pair.sender(), pair.receiver());
    let repairs = Repairs::between(sender.log(), receiver.log(), BEGIN, delay);
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
    let mut numbers = vec![
        mean(&times),
        times.len() as f64,
        repairs.by_timeout as f64,
        timeouts.count() as f64,
        (deliveries.len() * MESSAGE * 8) as f64 / 1e6 / seconds,
        longest_pause(&deliveries, pair.network.now()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::eca::setting::{Buffer, Protocol, Reports};
    use crate::trial::Knobs;

    /// What is seen from outside is what the sender says it did.
    #[test]
    fn repeats_are_seen_as_they_are_counted() {
        for protocol in [Protocol::Cmt, Protocol::Eca] {
            let setting = Setting {
                protocol,
                buffer: Buffer::Small,
                reports: Reports::Three,
                loss: 15,
                variant: Variant::Plain,
            };
            let pair = run(setting, 20.0, &Trial::new(1, &Knobs::default()), |_| {});
            let host = pair.sender().host();
            let association = host.association_ids().next().and_then(|id| host.association(id));
            let extensions = association.map(|association| association.stats().extensions);
            assert_eq!(
                extensions.map(|agreed| agreed.eca),
                Some(protocol == Protocol::Eca)
            );
            let counters = pair.counters();
            let log = pair.sender().log();
            let repairs = Repairs::between(log, pair.receiver().log(), Timestamp::ZERO, delay);
            let (fast, timeout) = (counters.retransmissions_fast, counters.retransmissions_timeout);
            assert_eq!(repairs.repeats as u64, fast + timeout, "{protocol:?}");
            assert!(repairs.fast.len() > 10, "{protocol:?}");
            let lost_on = |place| {
                repairs
                    .fast
                    .iter()
                    .filter(move |(_, path)| place_of(*path) == place)
            };
            assert!(
                lost_on(2).count() > lost_on(0).count(),
                "{protocol:?}: path 3 is the worst"
            );
            assert!(repairs.fast.len() as u64 <= fast && repairs.by_timeout as u64 <= timeout);
            let timeouts = log
                .iter()
                .filter(|seen| matches!(seen.what, What::TimedOut { .. }));
            assert_eq!(timeouts.count() as u64, counters.timeouts, "{protocol:?}");
        }
    }
}
