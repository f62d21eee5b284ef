//! The gain of partial reliability, in virtual time: position messages, which are of little use when they are late, and orders, which
//! must arrive, share one link. There is one run for each way to send the positions. The same seed gives the same table.

use std::time::Duration;

use anabranch::{Bytes, Config, Counters, LinkConfig, Ppid, Reliability, SendOptions, StreamId};
use anabranch_netsim::{Application, HostApi, Network, NodeId};
use anabranch_proto::{AssociationId, Event, Timestamp};
use serde_json::{Value, json};

use super::network::{Established, establish};
use crate::delays::{Delays, Summary};
use crate::reliability;
use crate::table::{Group, Table};
use crate::units;

/// The interval of messages; every tenth message is an order.
const INTERVAL: Duration = Duration::from_millis(10);
const ORDER_EVERY: u32 = 10;
/// Messages of each run, which are sent in 60 s.
const MESSAGES: u32 = 6000;
/// Bytes of each message.
const LEN: usize = 200;
static CONTENT: [u8; LEN] = [0; LEN];
/// Time limit at the end for data that is still outstanding.
const PATIENCE: Duration = Duration::from_secs(60);
/// The default lifetime of a position.
const LIFETIME: Duration = Duration::from_millis(100);

/// The kind of a message; each kind has its own ordered stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Position,
    Order,
}

impl Kind {
    fn of(number: u32) -> Self {
        if number.is_multiple_of(ORDER_EVERY) {
            Self::Order
        } else {
            Self::Position
        }
    }
}

/// One way to send positions.
#[derive(Clone, Debug)]
struct Way {
    name: String,
    config: Config,
    reliability: Reliability,
}

/// The results of one kind of messages.
#[derive(Clone, Debug, Default)]
struct Fate {
    sent: u64,
    delivered: u64,
    delays: Delays,
}

/// The results of one variant.
#[derive(Debug)]
struct Outcome {
    name: String,
    positions: Fate,
    orders: Fate,
    counters: Counters,
}

/// The results of all ways over one link.
#[derive(Debug)]
pub(super) struct Comparison {
    link: LinkConfig,
    seed: u64,
    outcomes: Vec<Outcome>,
}

/// The receiver. The payload protocol identifier of a message is its number, which gives its time of sending.
#[derive(Debug)]
struct Sink {
    begun: Timestamp,
    fates: [Fate; 2],
}

impl Application for Sink {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        if event != Event::Readable {
            return;
        }
        let now = api.now();
        let Some(association) = api.association(id) else {
            return;
        };
        while let Some(part) = association.recv(now) {
            let number = part.ppid.0;
            let fate = &mut self.fates[Kind::of(number) as usize];
            fate.delivered += 1;
            let sent = self.begun + INTERVAL * number;
            fate.delays.push(now.saturating_duration_since(sent));
        }
    }
}

/// The ways to compare: all messages reliable, and partial reliability without and with the extensions that reduce its delay.
fn ways(base: &Config, chosen: Reliability) -> Vec<Way> {
    let mut plain = base.clone().without_extensions();
    let reliable = Way {
        name: "everything reliable".to_owned(),
        config: plain.clone(),
        reliability: Reliability::Reliable,
    };
    plain.partial_reliability.offer = true;
    let mut fast = base.clone();
    fast.partial_reliability.offer = true;
    fast.partial_reliability.early_discard = true;
    fast.partial_reliability.selective_forward_tsn.get_or_insert(1);
    fast.nr_sack.offer = true;
    let partial = match chosen {
        Reliability::Reliable => vec![Reliability::Lifetime(LIFETIME), Reliability::Retransmissions(0)],
        chosen => vec![chosen],
    };
    let mut ways = vec![reliable];
    for reliability in partial {
        let name = reliability::describe(reliability).unwrap_or_default();
        let settings = [(name.clone(), &plain), (format!("{name} *"), &fast)];
        ways.extend(settings.map(|(name, config)| Way {
            name,
            config: config.clone(),
            reliability,
        }));
    }
    ways
}

/// Runs every way over the link.
///
/// # Errors
/// No association can be set up over the link, or the settings are out of range.
pub(super) fn compare(
    base: &Config,
    chosen: Reliability,
    link: &LinkConfig,
    seed: u64,
) -> Result<Comparison, String> {
    let outcomes = ways(base, chosen).into_iter().map(|way| run(way, link, seed));
    Ok(Comparison {
        link: link.clone(),
        seed,
        outcomes: outcomes.collect::<Result<_, _>>()?,
    })
}

fn run(way: Way, link: &LinkConfig, seed: u64) -> Result<Outcome, String> {
    let Established {
        mut network,
        sender,
        receiver,
        id,
        ..
    } = establish(&way.config, std::slice::from_ref(link), seed)?;
    let begun = network.now();
    let fates: [Fate; 2] = Default::default();
    network.host_mut(receiver).run(Sink { begun, fates }, None);
    let mut sent = [0; 2];
    for number in 0..MESSAGES {
        network.run_until(begun + INTERVAL * number);
        let kind = Kind::of(number);
        sent[kind as usize] += 1;
        submit(&mut network, (sender, id), number, kind, way.reliability);
    }
    let counters = |network: &Network| {
        let association = network.host(sender).association(id);
        association.map_or_else(Counters::default, |association| association.stats().counters)
    };
    network.run_for(PATIENCE);
    let sink = network.host_mut(receiver).application_mut::<Sink>();
    let fates = sink
        .map(|sink| std::mem::take(&mut sink.fates))
        .unwrap_or_default();
    let [positions, orders] =
        [(fates[0].clone(), sent[0]), (fates[1].clone(), sent[1])].map(|(fate, sent)| Fate { sent, ..fate });
    Ok(Outcome {
        name: way.name,
        positions,
        orders,
        counters: counters(&network),
    })
}

/// Gives a message to the association. If the send buffer is full, the message is dropped.
fn submit(
    network: &mut Network,
    (sender, id): (NodeId, AssociationId),
    number: u32,
    kind: Kind,
    reliability: Reliability,
) {
    let now = network.now();
    let options = SendOptions::default().ppid(Ppid(number)).reliability(match kind {
        Kind::Position => reliability,
        Kind::Order => Reliability::Reliable,
    });
    let content = Bytes::from_static(&CONTENT);
    if let Some(association) = network.host_mut(sender).association_mut(id) {
        // A message that is not accepted counts as not delivered.
        let _ = association.send(now, StreamId(kind as u16), content, options);
    }
}

impl Fate {
    fn share(&self) -> f64 {
        self.delivered as f64 * 100.0 / self.sent.max(1) as f64
    }

    fn to_json(&self) -> Value {
        json!({
            "sent": self.sent, "delivered": self.delivered, "delay": self.delays.summary().map(Summary::to_json),
        })
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![format!("{:.2} %", self.share())];
        cells.extend(match self.delays.summary() {
            Some(delays) => [delays.median, delays.p99, delays.max].map(units::duration),
            None => [const { String::new() }; 3],
        });
        cells
    }
}

impl Outcome {
    fn retransmissions(&self) -> u64 {
        self.counters.retransmissions_fast + self.counters.retransmissions_timeout
    }
}

impl Comparison {
    /// The table, with an explanation.
    pub(super) fn text(&self) -> String {
        let group = |title: &str, columns: &[&str]| Group {
            title: title.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
        };
        let groups = vec![
            group("positions: delay", &["arrived", "median", "p99", "max"]),
            // All orders arrive, or the command fails.
            group("orders", &["max"]),
            group("chunks", &["resent"]),
        ];
        let mut table = Table::new("positions are", groups);
        for outcome in &self.outcomes {
            let mut row = vec![outcome.name.clone()];
            row.extend(outcome.positions.cells());
            row.extend(outcome.orders.cells().pop());
            row.push(outcome.retransmissions().to_string());
            table.row(row);
        }
        format!(
            "the gain of partial reliability over {}\n(in each direction), in virtual time, seed {}:\n\
             {} small messages in a minute on two ordered streams;\nevery tenth is an order, which is always reliable\n\n{}\n\n\
             *: with NR-SACK, --early-discard and --selective-forward-tsn",
            self.link,
            self.seed,
            MESSAGES,
            table.render()
        )
    }

    /// For `--json`.
    pub(super) fn to_json(&self) -> Value {
        let outcomes = self.outcomes.iter().map(|outcome| {
            json!({
                "positions_are": outcome.name, "positions": outcome.positions.to_json(),
                "orders": outcome.orders.to_json(),
                "partial_reliability": reliability::to_json(&outcome.counters),
            })
        });
        json!({
            "event": "comparison", "link": self.link.to_string(), "seed": self.seed,
            "ways": outcomes.collect::<Vec<_>>(),
        })
    }

    /// A failed check: an order was lost.
    pub(super) fn trouble(&self) -> Option<String> {
        let lossy = |outcome: &&Outcome| outcome.orders.delivered != outcome.orders.sent;
        let outcome = self.outcomes.iter().find(lossy)?;
        Some(format!(
            "{}: {} of {} orders arrived: --link is too slow for {} of messages",
            outcome.name,
            outcome.orders.delivered,
            outcome.orders.sent,
            units::rate(LEN as u64, INTERVAL)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(seed: u64) -> Comparison {
        let link = "rate=2mbit,delay=40ms,loss=1%,queue=64kib".parse().unwrap();
        compare(&Config::default(), Reliability::Reliable, &link, seed).unwrap()
    }

    #[test]
    fn a_seed_fixes_the_table_and_extensions_show() {
        let first = comparison(1);
        assert_eq!(first.to_json(), comparison(1).to_json());
        assert_ne!(first.to_json(), comparison(2).to_json());
        assert_eq!(first.trouble(), None, "{}", first.text());
        let [reliable, lifetime, lifetime_fast, once, once_fast] = &first.outcomes[..] else {
            panic!("{}", first.text());
        };
        assert_eq!(reliable.positions.delivered, reliable.positions.sent);
        assert_eq!(reliable.counters.forward_tsns_sent, 0);
        let p99 = |outcome: &Outcome| outcome.positions.delays.summary().unwrap().p99;
        for outcome in [lifetime, lifetime_fast, once, once_fast] {
            assert!(outcome.positions.share() > 97.0, "{}", first.text());
            assert!(outcome.counters.forward_tsns_sent > 0, "{}", first.text());
        }
        assert!(p99(once) < p99(reliable), "{}", first.text());
        assert!(p99(once_fast) < p99(once), "{}", first.text());
        assert!(once_fast.counters.early_discards > 0 && once_fast.counters.selective_notices_sent > 0);
    }

    #[test]
    fn a_link_that_carries_nothing_is_an_error() {
        let link = "loss=100%".parse().unwrap();
        let error = compare(&Config::default(), Reliability::Reliable, &link, 1).unwrap_err();
        assert!(error.contains("--link"), "{error}");
    }
}
