//! The times and lengths of a flow's messages.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anabranch_netsim::{Generator, units};
use anabranch_proto::Timestamp;

use super::definition::Flow;
use crate::traffic::{Regular, Submission};

/// The most messages of a trace.
const MOST_MESSAGES: usize = 1_000_000;
/// The longest message in bytes.
const MOST_BYTES: usize = 65_536;
/// No message of a trace is this late.
const LATEST: Duration = Duration::from_secs(1_000_000);

/// When a flow's messages are submitted.
#[derive(Clone, Debug)]
pub(super) enum Pace {
    /// At a regular interval.
    Every(Duration),
    /// As a Poisson process with this mean time between messages.
    Poisson(Duration),
    /// At these times after the first message could be submitted, with these lengths in bytes, once.
    Trace(Arc<[(Duration, usize)]>),
    /// As a file: while fewer bytes wait to be sent.
    Backlog(usize),
}

/// Messages in order of time.
pub(super) type Schedule = Box<dyn Iterator<Item = Submission> + Send>;

/// The messages of a flow from `begin` on; `None` for a file.
pub(super) fn schedule(flow: &Flow, class: usize, seed: u64, begin: Timestamp) -> Option<Schedule> {
    let len = flow.bytes;
    match &flow.pace {
        Pace::Every(interval) => Some(Box::new(Regular::new(seed, begin, *interval, len, class))),
        Pace::Poisson(mean) => {
            // A generator for each flow: other flows do not change the times of this one.
            let mut arrivals = Generator::of_process(seed, &format!("arrivals of class {class}"));
            let (mean, mut at) = (*mean, begin);
            let next = move || {
                at += mean.mul_f64(arrivals.exponential());
                Some(Submission { at, len, class })
            };
            Some(Box::new(std::iter::from_fn(next)))
        }
        Pace::Trace(messages) => {
            let messages = Arc::clone(messages);
            let message = move |place: usize| {
                let (after, len) = messages.get(place).copied()?;
                let at = begin + after;
                Some(Submission { at, len, class })
            };
            Some(Box::new((0..).map_while(message)))
        }
        Pace::Backlog(_) => None,
    }
}

/// The messages of a trace: a CSV file with a line `SECONDS,BYTES` for each message, in order of time, and optionally a first line with
/// the columns' names. Times and lengths may also have units, like `20ms,1kib`.
pub(super) fn read_trace(path: &Path) -> Result<Vec<(Duration, usize)>, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let mut messages: Vec<(Duration, usize)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |problem: &str| format!("{name}: line {}: {problem}", number + 1);
        let is_heading = number == 0 && line.starts_with(|c: char| c.is_ascii_alphabetic());
        if is_heading || line.trim().is_empty() {
            continue;
        }
        let message = message(line).ok_or_else(|| {
            wrong(&format!(
                "give SECONDS,BYTES, with 1 to {MOST_BYTES} bytes, like 0.02,160"
            ))
        })?;
        if messages.last().is_some_and(|last| last.0 > message.0) {
            return Err(wrong("the time is before that of the line above"));
        }
        if messages.len() == MOST_MESSAGES {
            return Err(wrong(&format!("a trace has at most {MOST_MESSAGES} messages")));
        }
        messages.push(message);
    }
    match messages.is_empty() {
        true => Err(format!("{name} has no messages")),
        false => Ok(messages),
    }
}

fn message(line: &str) -> Option<(Duration, usize)> {
    let (seconds, bytes) = line.split_once(',')?;
    // Programs write numbers like 1e-3, which people do not.
    let number = seconds.trim().parse().ok();
    let at = match number.map(Duration::try_from_secs_f64) {
        Some(at) => at.ok()?,
        None => units::parse_duration(seconds).ok()?,
    };
    let bytes = usize::try_from(units::parse_size(bytes).ok()?).ok()?;
    ((1..=MOST_BYTES).contains(&bytes) && at < LATEST).then_some((at, bytes))
}
