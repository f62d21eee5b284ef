//! The gain of stream priorities, in virtual time: a chat next to a file on a slow link with a long queue, with one run for each way
//! to schedule the two streams (Heinz, *Priorities in SCTP Multistreaming*).

use std::time::Duration;

use anabranch::{Bytes, Config, LinkConfig, SchedulerKind, SendOptions, StreamId};
use anabranch_netsim::{Application, HostApi, Network};
use anabranch_proto::{AssociationId, Event, Timestamp};
use serde_json::{Value, json};

use super::network::{Established, establish};
use crate::delays::{Delays, Summary};
use crate::table::{Group, Table};
use crate::units;

/// A slow link with a queue of several seconds, as slow links often have.
const LINK: &str = "rate=256kbit,delay=50ms,queue=50p";
const CHAT: StreamId = StreamId(0);
const FILE: StreamId = StreamId(1);
/// The interval and number of chat messages, which take two minutes.
const INTERVAL: Duration = Duration::from_millis(500);
const MESSAGES: u32 = 240;
const CHAT_LEN: usize = 50;
/// Bytes of the file's messages, and the minimum of the file's bytes that wait in the send buffer.
const FILE_LEN: usize = 32 << 10;
const FILE_AHEAD: usize = 64 << 10;
const BOUND: Duration = Duration::from_millis(100);
static CONTENT: [u8; FILE_LEN] = [0; FILE_LEN];

/// The results of one variant.
#[derive(Debug)]
struct Outcome {
    name: String,
    chat: Delays,
    arrived: u32,
    /// Bytes of the file.
    file: u64,
}

/// The results of all ways.
#[derive(Debug)]
pub(super) struct Urgent {
    outcomes: Vec<Outcome>,
}

/// The receiver. The payload protocol identifier of a chat message is its number, which gives its time of sending.
#[derive(Debug)]
struct Sink {
    begun: Timestamp,
    chat: Delays,
    arrived: u32,
    file: u64,
}

impl Application for Sink {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        let Some(association) = api.association(id).filter(|_| event == Event::Readable) else {
            return;
        };
        while let Some(part) = association.recv(now) {
            if part.stream == FILE {
                self.file += part.payload.len() as u64;
            } else {
                self.arrived += 1;
                let sent = self.begun + INTERVAL * part.ppid.0;
                self.chat.push(now.saturating_duration_since(sent));
            }
        }
    }
}

fn ways() -> Vec<(String, Config)> {
    let with = |scheduler, interleaving, bound| {
        let mut config = Config::default();
        config.scheduler = scheduler;
        config.low_priority_delay = bound;
        // The link has no MTU, but a large packet would take seconds.
        config.path_mtu = 1500;
        config.path_mtu_limit = 1500;
        config.interleaving.offer = interleaving;
        config
    };
    let priority = SchedulerKind::Priority;
    vec![
        (
            "off".to_owned(),
            with(SchedulerKind::FirstComeFirstServed, false, None),
        ),
        ("on".to_owned(), with(priority, false, None)),
        ("on, interleaved".to_owned(), with(priority, true, None)),
        (
            format!("on, interleaved, bound of {}", units::duration(BOUND)),
            with(priority, true, Some(BOUND)),
        ),
    ]
}

/// Runs every way.
///
/// # Errors
/// The settings are out of range.
pub(super) fn compare(seed: u64) -> Result<Urgent, String> {
    let outcomes = ways().into_iter().map(|(name, config)| run(name, &config, seed));
    let outcomes = outcomes.collect::<Result<_, _>>()?;
    Ok(Urgent { outcomes })
}

fn run(name: String, config: &Config, seed: u64) -> Result<Outcome, String> {
    let link: LinkConfig = LINK.parse().map_err(|error| format!("{error}"))?;
    let Established {
        mut network,
        sender,
        receiver,
        id,
        ..
    } = establish(config, &[link], seed)?;
    let begun = network.now();
    let sink = Sink {
        begun,
        chat: Delays::default(),
        arrived: 0,
        file: 0,
    };
    network.host_mut(receiver).run(sink, None);
    let options = SendOptions::default();
    if let Some(association) = network.host_mut(sender).association_mut(id)
        && config.scheduler == SchedulerKind::Priority
    {
        let set = association.set_stream_priority(FILE, 1);
        set.map_err(|error| error.to_string())?;
    }
    for number in 0..MESSAGES {
        network.run_until(begun + INTERVAL * number);
        let now = network.now();
        if let Some(association) = network.host_mut(sender).association_mut(id) {
            let mut options = options;
            options.ppid.0 = number;
            // A message that is not accepted counts as not delivered.
            let _ = association.send(now, CHAT, Bytes::from_static(&CONTENT[..CHAT_LEN]), options);
            while association.stream_stats(FILE).queued_bytes < FILE_AHEAD
                && association
                    .send(now, FILE, Bytes::from_static(&CONTENT), SendOptions::default())
                    .is_ok()
            {}
        }
    }
    // The file counts up to here; the last chat messages are still outstanding.
    let file = |network: &mut Network| {
        network
            .host_mut(receiver)
            .application_mut::<Sink>()
            .map_or(0, |sink| sink.file)
    };
    let file = file(&mut network);
    network.run_for(Duration::from_secs(30));
    let sink = network.host_mut(receiver).application_mut::<Sink>();
    let (chat, arrived) = sink
        .map(|sink| (std::mem::take(&mut sink.chat), sink.arrived))
        .unwrap_or_default();
    Ok(Outcome {
        name,
        chat,
        arrived,
        file,
    })
}

impl Outcome {
    fn delays(&self) -> Vec<String> {
        match self.chat.summary() {
            Some(delays) => [delays.median, delays.p99, delays.max]
                .map(units::duration)
                .to_vec(),
            None => vec![String::new(); 3],
        }
    }
}

impl Urgent {
    /// The table, with an explanation.
    pub(super) fn text(&self) -> String {
        let group = |title: &str, columns: &[&str]| Group {
            title: title.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
        };
        let groups = vec![
            group("chat: delay", &["median", "p99", "max"]),
            group("file", &["arrived"]),
        ];
        let mut table = Table::new("priorities are", groups);
        for outcome in &self.outcomes {
            let mut row = vec![outcome.name.clone()];
            row.extend(outcome.delays());
            row.push(units::size(outcome.file));
            table.row(row);
        }
        format!(
            "the gain of priorities for a chat next to a file\nover {LINK} (in each direction), in virtual time:\n\
             a chat message of {CHAT_LEN} B every {}, and the file in messages of {}\nat full speed\n\n{}\n\n\
             off: first come, first served; bound: --low-priority-delay (docs/SCHEDULING.md)",
            units::duration(INTERVAL),
            units::size(FILE_LEN as u64),
            table.render()
        )
    }

    /// For `--json`.
    pub(super) fn to_json(&self) -> Value {
        let ways = self.outcomes.iter().map(|outcome| {
            json!({
                "priorities_are": outcome.name, "chat_delay": outcome.chat.summary().map(Summary::to_json),
                "chat_delivered": outcome.arrived, "file_bytes": outcome.file,
            })
        });
        json!({ "event": "priorities", "link": LINK, "ways": ways.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each step reduces the delay, and none slows the file much. Only the last step reduces the queue in the network.
    #[test]
    fn each_step_shows() {
        let urgent = compare(1).unwrap();
        println!("{}", urgent.text());
        let [off, on, interleaved, bound] = &urgent.outcomes[..] else {
            panic!("{urgent:?}");
        };
        for outcome in &urgent.outcomes {
            assert_eq!(outcome.arrived, MESSAGES);
            assert!(outcome.file as f64 > 0.97 * off.file as f64, "{}", urgent.text());
        }
        let p99 = |outcome: &Outcome| outcome.chat.summary().unwrap().p99;
        let median = |outcome: &Outcome| outcome.chat.summary().unwrap().median;
        assert!(median(on) < median(off), "{}", urgent.text());
        assert!(median(interleaved) < median(on), "{}", urgent.text());
        assert!(p99(bound) < p99(interleaved) / 3, "{}", urgent.text());
    }
}
