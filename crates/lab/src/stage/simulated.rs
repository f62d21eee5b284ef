//! Runs a scenario in virtual time.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, TcpSink};
use anabranch_proto::Timestamp;

use super::{Awaited, Logs, QueueUse, Reading, Record, Scenario, WINDOW_LOOK};
use crate::experiments::pair::Pair;
use crate::trial::Trial;

/// How often the run checks whether the last messages have arrived.
const LOOK: Duration = Duration::from_secs(1);

/// New settings for a path's link of data during a run.
#[derive(Clone, Debug)]
pub(crate) struct LinkChange {
    pub(crate) at: Timestamp,
    /// The number of the path, from 0.
    pub(crate) path: usize,
    pub(crate) link: LinkConfig,
}

/// Runs the scenario.
pub(crate) fn simulated(scenario: Scenario, trial: &Trial<'_>) -> Record {
    simulated_with(scenario, Vec::new(), trial)
}

/// Runs the scenario on links that change, in the order of the changes' times.
pub(crate) fn simulated_with(scenario: Scenario, changes: Vec<LinkChange>, trial: &Trial<'_>) -> Record {
    let mut changes = changes.into_iter().peekable();
    let mut run_until = |pair: &mut Pair, until: Timestamp| {
        while let Some(change) = changes.next_if(|change| change.at <= until) {
            pair.network.run_until(change.at);
            let link = pair.data_links[change.path];
            pair.network.set_link_config(link, change.link);
        }
        pair.network.run_until(until);
    };
    let (counts, most_drain, measures) = (scenario.counts, scenario.most_drain, scenario.measures);
    let awaited = scenario
        .messages
        .as_ref()
        .map_or(Awaited::Nothing, |messages| messages.awaited);
    let mut pair = Pair::staged(trial, scenario);
    let measure = |pair: &mut Pair, at| {
        if measures.queue {
            pair.sender_mut().measure_queue(at);
        }
    };
    measure(&mut pair, Timestamp::ZERO);
    run_until(&mut pair, counts.0);
    let at_begin = reading(&pair);
    measure(&mut pair, counts.0);
    let mut windows = Vec::new();
    while measures.packets && pair.network.now() < counts.1 {
        windows.extend(pair.windows());
        let next = pair.network.now() + WINDOW_LOOK;
        run_until(&mut pair, next.min(counts.1));
    }
    run_until(&mut pair, counts.1);
    let at_end = reading(&pair);
    let queue = pair.sender_mut().queue(counts.1).map(|queue| QueueUse {
        whole: queue.utilisation(),
        recovering: queue.utilisation_in_recovery(),
        blocked: queue.blocked(),
    });
    while !is_over(&pair, awaited) && pair.network.now() < counts.1 + most_drain {
        let next = pair.network.now() + LOOK;
        run_until(&mut pair, next);
    }
    let (sender, receiver) = (pair.sender(), pair.receiver().host());
    let association = receiver.association_ids().next();
    let association = association.and_then(|id| receiver.association(id));
    Record {
        counts,
        submitted: pair.source().submitted().to_vec(),
        refused: pair.source().refused(),
        sent: sender.sent().clone(),
        delivered: pair.sink().delivered().clone(),
        deliveries: pair.sink().deliveries().to_vec(),
        at_begin,
        at_end,
        last: reading(&pair),
        packets_received: association.map_or(0, |association| association.counters().packets_received),
        queue,
        logs: measures.packets.then(|| Logs {
            sender: sender.log().to_vec(),
            receiver: pair.receiver().log().to_vec(),
        }),
        windows,
        digest: sender.digest(),
    }
}

fn reading(pair: &Pair) -> Reading {
    let links = pair.data_links.iter();
    let sinks = pair
        .tcp
        .iter()
        .map(|flow| pair.network.node::<TcpSink>(flow.right));
    Reading {
        links: links.map(|link| *pair.network.link_stats(*link)).collect(),
        tcp_bytes: sinks.map(|sink| sink.stats().bytes).collect(),
        sender: pair.counters(),
    }
}

fn is_over(pair: &Pair, awaited: Awaited) -> bool {
    match awaited {
        Awaited::Nothing => true,
        Awaited::All => pair.association().is_none_or(|association| {
            let stats = association.stats();
            stats.queued_bytes + stats.outstanding_bytes == 0
        }),
        Awaited::LastOf(class) => {
            let last = pair
                .source()
                .submitted()
                .iter()
                .rposition(|message| message.class == class);
            last.is_none_or(|last| pair.sink().delivered().of(last).is_some())
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_netsim::LinkConfig;
    use anabranch_proto::SendOptions;

    use super::*;
    use crate::experiments::plain_config;
    use crate::stage::{Demand, Measures, Messages};
    use crate::traffic::{Class, Regular};
    use crate::trial::Knobs;

    fn scenario(link: &str, awaited: Awaited) -> Scenario {
        let second = Duration::from_secs(1);
        let messages = Regular::new(1, Timestamp::ZERO + second, second / 10, 1000, 0);
        Scenario {
            config: plain_config(),
            paths: vec![(link.parse().unwrap(), LinkConfig::default())],
            messages: Some(Messages {
                connect: Timestamp::ZERO,
                classes: vec![Class::from(SendOptions::default())],
                demand: Demand::Scheduled(Box::new(messages)),
                awaited,
            }),
            tcp: None,
            counts: (Timestamp::ZERO + second, Timestamp::ZERO + 5 * second),
            most_drain: Duration::from_secs(60),
            measures: Measures::default(),
        }
    }

    /// The awaited message arrives although this takes longer than the measured time.
    #[test]
    fn a_run_continues_until_the_awaited_messages_arrive() {
        let record = |awaited| {
            let scenario = scenario("rate=20kbit,delay=10ms", awaited);
            simulated(scenario, &Trial::new(1, &Knobs::default()))
        };
        let [nothing, all, last] = [Awaited::Nothing, Awaited::All, Awaited::LastOf(0)].map(record);
        for record in [&nothing, &all, &last] {
            assert_eq!(record.submitted.len(), 40);
            assert_eq!(record.counted(0).count(), 40);
        }
        assert!(nothing.deliveries.len() < 20, "{}", nothing.deliveries.len());
        assert_eq!((all.deliveries.len(), last.deliveries.len()), (40, 40));
        assert!(all.at_end.links[0].delivered < all.last.links[0].delivered);
    }

    /// The link carries the data only after the change.
    #[test]
    fn a_link_changes_at_its_time() {
        let change = Timestamp::from_millis(1_500);
        let delivered = |changes| {
            let scenario = scenario("rate=20kbit,delay=10ms", Awaited::Nothing);
            let knobs = Knobs::default();
            let record = simulated_with(scenario, changes, &Trial::new(1, &knobs));
            let at = |from, to| {
                record
                    .deliveries
                    .iter()
                    .filter(move |(at, _)| (from..to).contains(at))
            };
            let end = record.counts.1;
            (at(Timestamp::ZERO, change).count(), at(change, end).count())
        };
        let (slow, fast) = (
            delivered(vec![]),
            delivered(vec![LinkChange {
                at: change,
                path: 0,
                link: "rate=1mbit".parse().unwrap(),
            }]),
        );
        assert_eq!(slow.0, fast.0, "nothing is different before the change");
        assert!(fast.1 > 3 * slow.1, "{slow:?} {fast:?}");
    }
}
