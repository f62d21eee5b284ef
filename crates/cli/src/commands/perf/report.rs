//! The report of a run: a line for each interval, and a table at the end.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::clock::Comparison;
use super::plan::{Direction, Plan};
use super::session::{Flow, Outcome};
use super::tally::{Received, Sent, per_second};
use crate::by_path::{self, PathInterval};
use crate::delays::{Summary, millis};
use crate::output::Output;
use crate::table::{Group, Table};
use crate::units;

/// The form of a side's report of a run.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    pub(super) output: Output,
    /// The time between two lines; `None` for no lines between begin and end.
    pub(super) interval: Option<Duration>,
    /// At a server, the number of the client.
    pub(super) client: Option<u64>,
}

/// The report of an interval between two times since the start.
#[derive(Debug)]
pub(super) struct Interval {
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) seen: Vec<(Direction, Seen)>,
}

/// A direction as this side, its sender or receiver, sees it.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// As its sender: bytes acknowledged, chunks retransmitted, and the present state of the primary path.
    Sent {
        bytes: u64,
        size: u64,
        timeout: u64,
        fast: u64,
        srtt: Option<Duration>,
        cwnd: u64,
        paths: Vec<PathInterval>,
    },
    /// As its receiver.
    Received {
        messages: u64,
        bytes: u64,
        delay: Option<Summary>,
    },
}

impl Seen {
    /// A line; with several paths also a line for each path that carried data.
    fn text(&self, took: Duration) -> String {
        match self {
            Self::Sent {
                bytes,
                size,
                timeout,
                fast,
                paths,
                ..
            } => {
                let condition = match &paths[..] {
                    [only] => format!(", {}", only.condition()),
                    _ => String::new(),
                };
                let first = format!(
                    "{:>12}, {:>9} acknowledged{condition}, {}",
                    units::rate(*bytes, took),
                    messages_per_second(bytes / size, took),
                    by_path::losses(lost(paths), timeout + fast, marked(paths)),
                );
                let mut lines = vec![first];
                lines.extend(by_path::interval_lines(paths));
                lines.join("\n")
            }
            Self::Received {
                messages,
                bytes,
                delay,
            } => {
                let delay = delay.map_or(String::new(), |delay| {
                    let [median, p99, max] = [delay.median, delay.p99, delay.max].map(units::duration);
                    format!(", delay median {median}, p99 {p99}, max {max}")
                });
                format!(
                    "{:>12}, {:>9} received{delay}",
                    units::rate(*bytes, took),
                    messages_per_second(*messages, took)
                )
            }
        }
    }

    fn to_json(&self, took: Duration) -> Value {
        match self {
            Self::Sent {
                bytes,
                size,
                timeout,
                fast,
                srtt,
                cwnd,
                paths,
            } => json!({
                "side": "sender", "bytes": bytes, "messages": bytes / size,
                "bits_per_second": units::bits_per_second(*bytes, took),
                "messages_per_second": per_second(bytes / size, took),
                "retransmissions": { "timeout": timeout, "fast": fast }, "lost": lost(paths), "marked": marked(paths),
                "srtt_ms": srtt.map(millis), "cwnd_bytes": cwnd,
                "bytes_by_path": paths.iter().map(|path| path.bytes).collect::<Vec<_>>(),
                "paths": paths.iter().map(PathInterval::to_json).collect::<Vec<_>>(),
            }),
            Self::Received {
                messages,
                bytes,
                delay,
            } => json!({
                "side": "receiver", "bytes": bytes, "messages": messages,
                "bits_per_second": units::bits_per_second(*bytes, took),
                "messages_per_second": per_second(*messages, took),
                "delay": delay.map(Summary::to_json),
            }),
        }
    }
}

/// Packets marked on all paths.
fn marked(paths: &[PathInterval]) -> u64 {
    paths.iter().map(|path| path.marked).sum()
}

/// Chunks found lost on all paths.
fn lost(paths: &[PathInterval]) -> u64 {
    paths.iter().map(|path| path.lost).sum()
}

fn messages_per_second(messages: u64, took: Duration) -> String {
    per_second(messages, took).map_or("-".to_owned(), |rate| format!("{rate:.0}/s"))
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    format!("{:.2} %", part as f64 * 100.0 / whole as f64)
}

impl Voice {
    fn label(&self) -> String {
        self.client
            .map_or(String::new(), |client| format!("client {client}: "))
    }

    /// Prints a result of this run; the record contains the client's number.
    pub(super) fn fact(&self, text: &str, mut record: Value) {
        if let (Some(client), Some(record)) = (self.client, record.as_object_mut()) {
            record.insert("client".to_owned(), client.into());
        }
        self.output.fact(format!("{}{text}", self.label()), &record);
    }

    /// Prints an interval: the lines of each direction, or one record.
    pub(super) fn interval(&self, interval: &Interval) {
        let took = interval.to.saturating_sub(interval.from);
        let span = format!(
            "{:>6.2} to {:>6.2} s",
            interval.from.as_secs_f64(),
            interval.to.as_secs_f64()
        );
        let mut record = Map::new();
        record.insert("event".to_owned(), "interval".into());
        record.insert("from".to_owned(), interval.from.as_secs_f64().into());
        record.insert("to".to_owned(), interval.to.as_secs_f64().into());
        let mut lines = Vec::new();
        for (direction, seen) in &interval.seen {
            record.insert(direction.name().to_owned(), seen.to_json(took));
            lines.push(format!("{span} {} {}", direction.name(), seen.text(took)));
        }
        let text = lines.join("\n").replace('\n', &format!("\n{}", self.label()));
        self.fact(&text, record.into());
    }

    /// Prints the results.
    pub(super) fn results(&self, event: &str, plan: &Plan, clocks: Comparison, outcome: &Outcome) {
        let mut text = table(plan, outcome).render();
        for (direction, flow) in outcome.flows() {
            let paths = flow.sent.as_ref().map_or(&[][..], |sent| &sent.paths);
            if let Some(paths) = by_path::table(&format!("{}, path by path", direction.name()), paths) {
                text.push_str(&format!("\n\n{paths}\n"));
            }
        }
        if outcome
            .flows()
            .any(|(_, flow)| flow.received.as_ref().is_some_and(|r| r.delay.is_some()))
        {
            text.push_str(&format!(
                "\ndelays are from send to receipt and use both clocks: each delay may be off by {} in either direction",
                units::duration(clocks.uncertainty())
            ));
        }
        for (direction, flow) in outcome.flows() {
            let well = if plan.is_partial() {
                "every message that was not abandoned arrived once, and in order"
            } else {
                "every message arrived once, and in order"
            };
            let verdict = flow.problem(plan).unwrap_or_else(|| well.to_owned());
            let verdict = if plan.unordered {
                verdict.replace("once, and in order", "once")
            } else {
                verdict
            };
            text.push_str(&format!("\n{}: {verdict}", direction.name()));
        }
        let flow = |flow: &Option<Flow>| flow.as_ref().map(|flow| flow.to_json(plan));
        let record = json!({
            "event": event, "plan": plan.to_json(), "forward": flow(&outcome.forward),
            "reverse": flow(&outcome.reverse), "stopped": outcome.stopped, "problem": outcome.trouble,
            "clocks": {
                "round_trip_ms": millis(clocks.round_trip), "uncertainty_ms": millis(clocks.uncertainty()),
            },
        });
        let text = if self.client.is_some() {
            format!("results\n{text}")
        } else {
            text
        };
        self.fact(&text, record);
    }
}

impl Flow {
    /// The reason why a correct delivery is not certain, if there is one.
    pub(super) fn problem(&self, plan: &Plan) -> Option<String> {
        let (Some(sent), Some(received)) = (&self.sent, &self.received) else {
            return Some("it is unknown whether every message arrived".to_owned());
        };
        received
            .problem(plan, Some(sent.abandoned))
            .or_else(|| (!sent.acknowledged).then(|| "not all messages were acknowledged".to_owned()))
    }

    /// Faults that the receiver found and that an early end of the run does not explain.
    pub(super) fn fault(&self, plan: &Plan) -> Option<String> {
        let abandoned = self.sent.as_ref().map(|sent| sent.abandoned);
        self.received.as_ref()?.problem(plan, abandoned)
    }

    fn to_json(&self, plan: &Plan) -> Value {
        json!({
            "sender": self.sent.as_ref().map(Sent::to_json),
            "receiver": self.received.as_ref().map(Received::to_json),
            "intact": self.problem(plan).is_none(),
        })
    }
}

impl Outcome {
    /// The directions of this run.
    pub(super) fn flows(&self) -> impl Iterator<Item = (Direction, &Flow)> {
        let all = [&self.forward, &self.reverse];
        Direction::BOTH
            .into_iter()
            .zip(all)
            .filter_map(|(direction, flow)| Some((direction, flow.as_ref()?)))
    }

    /// The first fault of any direction.
    pub(super) fn fault(&self, plan: &Plan) -> Option<String> {
        self.flows().find_map(|(direction, flow)| {
            flow.fault(plan)
                .map(|fault| format!("{}: {fault}", direction.name()))
        })
    }
}

fn table(plan: &Plan, outcome: &Outcome) -> Table {
    let title = |direction| match direction {
        Direction::Forward => "forward, to the server",
        Direction::Reverse => "reverse, from the server",
    };
    let groups = outcome.flows().map(|(direction, _)| Group {
        title: title(direction).to_owned(),
        columns: vec!["sender".to_owned(), "receiver".to_owned()],
    });
    let mut table = Table::new("", groups.collect());
    let mut row = |name: &str, sent: &dyn Fn(&Sent) -> String, received: &dyn Fn(&Received) -> String| {
        let mut cells = vec![name.to_owned()];
        for (_, flow) in outcome.flows() {
            cells.push(flow.sent.as_ref().map_or("?".to_owned(), sent));
            cells.push(flow.received.as_ref().map_or("?".to_owned(), received));
        }
        table.row(cells);
    };
    let delay = |received: &Received, pick: fn(Summary) -> Duration| {
        received
            .delay
            .map_or(String::new(), |delay| units::duration(pick(delay)))
    };
    let cpu = |cpu: Option<Duration>, took: Duration| match cpu {
        Some(cpu) if !took.is_zero() => format!("{:.0} %", cpu.as_secs_f64() * 100.0 / took.as_secs_f64()),
        _ => "?".to_owned(),
    };
    row("messages", &|s| s.messages.to_string(), &|r| {
        r.messages.to_string()
    });
    row("data", &|s| units::size(s.bytes), &|r| units::size(r.bytes));
    row("time", &|s| units::duration(s.took), &|r| units::duration(r.took));
    row("goodput", &|s| units::rate(s.bytes, s.took), &|r| {
        units::rate(r.bytes, r.took)
    });
    row("messages/s", &|s| messages_per_second(s.messages, s.took), &|r| {
        messages_per_second(r.messages, r.took)
    });
    let none = |_: &Sent| String::new();
    row("delay, median", &none, &|r| delay(r, |d| d.median));
    row("delay, p90", &none, &|r| delay(r, |d| d.p90));
    row("delay, p99", &none, &|r| delay(r, |d| d.p99));
    row("delay, max", &none, &|r| delay(r, |d| d.max));
    let told = |flow: &Flow| {
        flow.received
            .as_ref()
            .map_or(0, |received| received.by_stream.len())
    };
    for index in 0..outcome.flows().map(|(_, flow)| told(flow)).max().unwrap_or(0) {
        row(&format!("delay of stream {}, median", index + 1), &none, &|r| {
            let delay = r.by_stream.get(index).copied().flatten();
            delay.map_or(String::new(), |delay| units::duration(delay.median))
        });
    }
    if plan.deadline.is_some() {
        row("in time", &none, &|r| {
            share(r.in_time.unwrap_or(0), r.messages + r.missing)
        });
        row("sent more than once", &|s| units::size(s.redundancy), &|_| {
            String::new()
        });
    }
    let none = |_: &Received| String::new();
    if plan.is_partial() {
        row("arrived", &|_| String::new(), &|r| {
            share(r.messages, r.messages + r.missing)
        });
        row(
            "abandoned before sending",
            &|s| s.abandoned.unsent.to_string(),
            &none,
        );
        row(
            "abandoned after sending",
            &|s| s.abandoned.sent.to_string(),
            &none,
        );
        row(
            "abandoned at first missing report",
            &|s| s.abandoned.early.to_string(),
            &none,
        );
        row("FORWARD-TSNs", &|s| s.abandoned.forward_tsns.to_string(), &none);
        row("selective notices", &|s| s.abandoned.notices.to_string(), &none);
        row("arrived too late", &|_| String::new(), &|r| {
            r.overtaken.to_string()
        });
        row("freed early", &|s| units::size(s.abandoned.freed_early), &none);
    }
    row("retransmitted after a timeout", &|s| s.timeout.to_string(), &none);
    row("retransmitted by fast retransmit", &|s| s.fast.to_string(), &none);
    row("spurious retransmissions", &|s| s.spurious.to_string(), &none);
    let marked = |sent: &Sent| sent.paths.iter().map(|path| path.marked).sum::<u64>();
    if outcome
        .flows()
        .any(|(_, flow)| flow.sent.as_ref().is_some_and(|sent| marked(sent) > 0))
    {
        row("packets marked by queues", &|s| marked(s).to_string(), &none);
    }
    row(
        "smoothed RTT",
        &|s| s.srtt.map_or("?".to_owned(), units::duration),
        &none,
    );
    row("congestion window", &|s| units::size(s.cwnd), &none);
    row("processor", &|s| cpu(s.cpu, s.took), &|r| cpu(r.cpu, r.elapsed));
    table
}

#[cfg(test)]
mod tests {
    use anabranch::Reliability;

    use super::super::plan::Until;
    use super::*;

    const PLAN: Plan = Plan {
        size: 100,
        streams: 1,
        unordered: false,
        forward: true,
        reverse: false,
        until: Until::Bytes(100),
        rate: None,
        reliability: Reliability::Reliable,
        early_copies: 0,
        deadline: None,
    };

    fn outcome(sent: Option<Sent>, received: Option<Received>) -> Outcome {
        Outcome {
            forward: Some(Flow { sent, received }),
            reverse: None,
            trouble: None,
            stopped: false,
        }
    }

    #[test]
    fn a_flow_is_intact_only_if_both_sides_report_it() {
        let sent = Sent {
            acknowledged: true,
            ..Sent::default()
        };
        let whole = outcome(Some(sent.clone()), Some(Received::default()));
        let flow = whole.forward.as_ref().unwrap();
        assert_eq!((flow.problem(&PLAN), whole.fault(&PLAN)), (None, None));
        assert_eq!(flow.to_json(&PLAN)["intact"], true);
        let one_sided = outcome(Some(sent.clone()), None);
        assert!(one_sided.forward.as_ref().unwrap().problem(&PLAN).is_some());
        assert_eq!(one_sided.fault(&PLAN), None);
        let late = Received {
            late: 1,
            ..Received::default()
        };
        let late = outcome(Some(sent), Some(late));
        assert_eq!(
            late.fault(&PLAN).as_deref(),
            Some("forward: 1 message out of order")
        );
    }

    #[test]
    fn a_table_has_a_column_for_each_side() {
        let sent = Sent {
            messages: 10,
            bytes: 1_250_000,
            took: Duration::from_secs(1),
            ..Sent::default()
        };
        let text = table(&PLAN, &outcome(Some(sent), None)).render();
        let goodput = text.lines().find(|line| line.starts_with("goodput")).unwrap();
        assert!(
            goodput.contains("10.00 Mbit/s") && goodput.ends_with('?'),
            "{text}"
        );
    }
}
