//! The gain of several paths, in virtual time: the three paths of Kim, Seo and Song (*ECA-SCTP*), each alone and all together.

use std::time::Duration;

use anabranch::{Bytes, Config, CoupledControl, LinkConfig, MultipathMode, SendOptions, StreamId};
use anabranch_netsim::{Application, HostApi, Network};
use anabranch_proto::{Association, AssociationId, Event, PathStats, Timestamp};
use serde_json::{Value, json};

use super::network::{Established, establish};
use crate::delays::millis;
use crate::table::{Group, Table};
use crate::units;

/// The paper's rates, delays and losses.
const LINKS: [&str; 3] = [
    "rate=2mbit,delay=50ms,loss=0.1%,queue=50p",
    "rate=1600kbit,delay=80ms,loss=1%,queue=50p",
    "rate=800kbit,delay=160ms,loss=3%,queue=50p",
];
/// The duration of each run; the cut is in the middle.
const TIME: Duration = Duration::from_secs(120);
const CUT: Duration = Duration::from_secs(20);
const MESSAGE_LEN: usize = 1000;
static MESSAGE: [u8; MESSAGE_LEN] = [0; MESSAGE_LEN];

/// One way to carry the data.
#[derive(Clone, Debug)]
struct Way {
    name: String,
    mode: MultipathMode,
    paths: Vec<usize>,
    /// Whether the first path is cut for a while.
    cut: bool,
}

/// The result of a transfer.
#[derive(Debug)]
struct Outcome {
    name: String,
    bytes: u64,
    /// Bytes sent on each path, retransmissions included.
    by_path: Vec<u64>,
    retransmissions: u64,
    pause: Duration,
}

/// The results of all ways.
#[derive(Debug)]
pub(super) struct Together {
    outcomes: Vec<Outcome>,
}

/// A sender that always has data.
#[derive(Debug)]
pub(super) struct Source;

/// A receiver that counts bytes, and measures the longest time without a message.
#[derive(Debug)]
pub(super) struct Counter {
    bytes: u64,
    last: Timestamp,
    pause: Duration,
}

impl Counter {
    pub(super) fn new(begun: Timestamp) -> Self {
        Self {
            bytes: 0,
            last: begun,
            pause: Duration::ZERO,
        }
    }

    /// Counts a part of a message.
    pub(super) fn count(&mut self, bytes: usize, now: Timestamp) {
        self.bytes += bytes as u64;
        let before = std::mem::replace(&mut self.last, now);
        self.pause = self.pause.max(now.saturating_duration_since(before));
    }

    pub(super) fn pause(&self) -> Duration {
        self.pause
    }
}

pub(super) fn feed(association: &mut Association, now: Timestamp) {
    let message = Bytes::from_static(&MESSAGE);
    while association
        .send(now, StreamId(0), message.clone(), SendOptions::default())
        .is_ok()
    {}
}

impl Application for Source {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        if let (Event::Writable(_), Some(association)) = (event, api.association(id)) {
            feed(association, now);
        }
    }
}

impl Application for Counter {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        let Some(association) = api.association(id).filter(|_| event == Event::Readable) else {
            return;
        };
        while let Some(part) = association.recv(now) {
            self.count(part.payload.len(), now);
        }
    }
}

fn ways() -> Vec<Way> {
    let way = |name: &str, mode, paths: &[usize], cut| Way {
        name: name.to_owned(),
        mode,
        paths: paths.to_vec(),
        cut,
    };
    let alone = (0..LINKS.len()).map(|path| {
        way(
            &format!("path {} alone", path + 1),
            MultipathMode::Off,
            &[path],
            false,
        )
    });
    let all: Vec<usize> = (0..LINKS.len()).collect();
    let mut ways: Vec<Way> = alone.collect();
    ways.extend([
        way("all three, one at a time", MultipathMode::Off, &all, false),
        way("all three at once: cmt", MultipathMode::Cmt, &all, false),
        way("all three at once: eca", MultipathMode::Eca, &all, false),
        way("cmt, path 1 cut for 20 s", MultipathMode::Cmt, &all, true),
    ]);
    ways
}

/// Runs every way.
///
/// # Errors
/// The settings are out of range.
pub(super) fn compare(seed: u64) -> Result<Together, String> {
    let outcomes = ways().into_iter().map(|way| run(way, seed));
    Ok(Together {
        outcomes: outcomes.collect::<Result<_, _>>()?,
    })
}

fn run(way: Way, seed: u64) -> Result<Outcome, String> {
    let link = |path: &usize| LINKS[*path].parse().map_err(|error| format!("{error}"));
    let links: Vec<LinkConfig> = way.paths.iter().map(link).collect::<Result<_, _>>()?;
    let mut config = Config::default();
    config.multipath.mode = way.mode;
    // These paths share no bottleneck.
    config.multipath.congestion = CoupledControl::Uncoupled;
    let mut pair = establish(&config, &links, seed)?;
    let network = &mut pair.network;
    let begun = network.now();
    network.host_mut(pair.sender).run(Source, None);
    network.host_mut(pair.receiver).run(Counter::new(begun), None);
    if let Some(association) = network.host_mut(pair.sender).association_mut(pair.id) {
        feed(association, begun);
    }
    let cut = |network: &mut Network, down| {
        for link in [pair.links[0].0, pair.links[0].1] {
            network.cut(link, way.cut && down);
        }
    };
    network.run_until(begun + (TIME - CUT) / 2);
    cut(network, true);
    network.run_for(CUT);
    cut(network, false);
    network.run_until(begun + TIME);
    outcome(way, &pair)
}

fn outcome(way: Way, pair: &Established) -> Result<Outcome, String> {
    let counter = pair.network.host(pair.receiver).application::<Counter>();
    let counter = counter.ok_or("the receiver has no counter: this is a bug")?;
    let association = pair.network.host(pair.sender).association(pair.id);
    let stats = association.ok_or("the association failed")?.stats();
    let sent = |path: &PathStats| path.data_bytes_sent;
    let mut by_path = vec![0; LINKS.len()];
    for (path, bytes) in way.paths.iter().zip(stats.paths.iter().map(sent)) {
        by_path[*path] = bytes;
    }
    Ok(Outcome {
        name: way.name,
        bytes: counter.bytes,
        by_path,
        retransmissions: stats.counters.retransmissions_fast + stats.counters.retransmissions_timeout,
        pause: counter.pause,
    })
}

impl Together {
    /// The table, with an explanation.
    pub(super) fn text(&self) -> String {
        let group = |title: &str, columns: &[&str]| Group {
            title: title.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
        };
        let groups = vec![
            group("", &["goodput"]),
            group("longest", &["pause"]),
            group("kbit/s by path", &["1", "2", "3"]),
            group("chunks", &["resent"]),
        ];
        let mut table = Table::new("over", groups);
        for outcome in &self.outcomes {
            let mut row = vec![
                outcome.name.clone(),
                units::rate(outcome.bytes, TIME),
                units::duration(outcome.pause),
            ];
            row.extend(outcome.by_path.iter().map(|bytes| {
                format!(
                    "{:.0}",
                    units::bits_per_second(*bytes, TIME).unwrap_or_default() / 1e3
                )
            }));
            row.push(outcome.retransmissions.to_string());
            table.row(row);
        }
        format!(
            "the gain of several paths, for {} of virtual time:\n  1: {}\n  2: {}\n  3: {}\n\n{}\n\n\
             cmt, eca: --multipath (docs/MULTIPATH.md); congestion windows are not coupled;\npause: time in which the \
             receiver gets no message",
            units::duration(TIME),
            LINKS[0],
            LINKS[1],
            LINKS[2],
            table.render()
        )
    }

    /// For `--json`.
    pub(super) fn to_json(&self) -> Value {
        let ways = self.outcomes.iter().map(|outcome| {
            json!({
                "over": outcome.name, "bytes": outcome.bytes, "seconds": TIME.as_secs_f64(),
                "bits_per_second": units::bits_per_second(outcome.bytes, TIME), "bytes_by_path": outcome.by_path,
                "retransmissions": outcome.retransmissions, "longest_pause_ms": millis(outcome.pause),
            })
        });
        json!({ "event": "several-paths", "links": LINKS, "ways": ways.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_add_up_and_a_cut_is_survived() {
        let together = compare(1).unwrap();
        let told = together.text();
        println!("{told}");
        assert_eq!(
            together.to_json(),
            compare(1).unwrap().to_json(),
            "a seed fixes the table"
        );
        let [one, two, three, in_turn, cmt, eca, cut] = &together.outcomes[..] else {
            panic!("{told}");
        };
        let sum = (one.bytes + two.bytes + three.bytes) as f64;
        for all in [cmt, eca] {
            let every = all.by_path.iter().all(|bytes| *bytes > 0);
            assert!(all.bytes as f64 > 0.9 * sum && every, "{told}");
        }
        assert_ne!(cmt.by_path, eca.by_path, "{told}");
        assert!(
            in_turn.bytes < cmt.bytes && in_turn.by_path[1] < in_turn.by_path[0] / 4,
            "{told}"
        );
        // The best path is cut for a sixth of the time. The transfer loses at most its share, and the pause is short.
        assert!(
            cut.bytes > cmt.bytes - one.bytes / 4 && cut.pause < Duration::from_secs(3),
            "{told}"
        );
    }
}
