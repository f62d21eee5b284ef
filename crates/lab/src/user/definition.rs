//! The content of a user's file, validated.

use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, MultipathMode, Reliability, SchedulerKind};

use super::section::{FileError, Section, line_of};
use crate::experiments::plain_config;

/// An experiment as the file describes it.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) question: String,
    pub(super) seeds: u64,
    /// How long messages are sent, in seconds.
    pub(super) seconds: u64,
    /// For each path the link of data, and the link of acknowledgements.
    pub(super) paths: Vec<(String, String)>,
    pub(super) traffic: Vec<Flow>,
    pub(super) variants: Vec<Variant>,
    pub(super) sweep: Option<Sweep>,
    /// The metrics that are shown; `None` for all.
    pub(super) metrics: Option<Vec<String>>,
}

/// Messages with the same settings.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) name: String,
    pub(super) bytes: usize,
    /// The time between messages, or, for a file, the number of bytes that are kept waiting.
    pub(super) every: Result<Duration, usize>,
    pub(super) priority: u16,
    pub(super) unordered: bool,
    pub(super) reliability: Reliability,
    /// The time within which a message is useful.
    pub(super) deadline: Option<Duration>,
}

/// A configuration that the experiment compares.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) config: Config,
    /// Whether lifetimes and retransmission limits apply.
    pub(super) expiry: bool,
}

/// A setting of the data links that varies.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    pub(super) key: String,
    /// The path, counted from 0; `None` for all.
    pub(super) path: Option<usize>,
    pub(super) values: Vec<String>,
}

/// The link with one setting replaced.
pub(super) fn with_setting(link: &str, key: &str, value: &str) -> String {
    let others = link.split(',').filter(|item| {
        let name = item.split('=').next().unwrap_or_default();
        !name.trim().eq_ignore_ascii_case(key)
    });
    others
        .chain([format!("{key}={value}").as_str()])
        .collect::<Vec<_>>()
        .join(",")
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| is_part(c) || c == '-' || c == '_')
}

const NAME: &str = "lower-case letters, digits, - and _";

impl Definition {
    /// Reads and validates a file.
    pub(super) fn read(text: &str) -> Result<Self, FileError> {
        let document = toml_edit::Document::parse(text).map_err(|error| FileError {
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            problem: error.message().trim_end().to_owned(),
        })?;
        let mut file = Section::new(text, String::new(), 0, document.as_table());
        let name = file.parsed("name", NAME, |name| is_name(name).then(|| name.to_owned()))?;
        let name = name.ok_or_else(|| file.wrong("name", "is missing"))?;
        let question = file.text("question")?.unwrap_or_default().to_owned();
        let seeds = file.whole("seeds", (1, 10_000))?.unwrap_or(10);
        let seconds = file.whole("seconds", (1, 100_000))?.unwrap_or(60);
        let paths: Vec<(String, String)> = file
            .sections("paths", (1, 8))?
            .into_iter()
            .map(path)
            .collect::<Result<_, _>>()?;
        let mut traffic: Vec<Flow> = Vec::new();
        for mut section in file.sections("traffic", (1, 16))? {
            let next = flow(&mut section)?;
            if traffic.iter().any(|flow| flow.name == next.name) {
                return Err(section.wrong("name", "is already in use"));
            }
            if next.every.is_err() && traffic.iter().any(|flow| flow.every.is_err()) {
                return Err(section.wrong("backlog", "is already in use: an experiment has at most one file"));
            }
            section.end()?;
            traffic.push(next);
        }
        if traffic.iter().all(|flow| flow.every.is_err()) {
            return Err(file.wrong("traffic", "must have messages with `every` besides the file"));
        }
        let variants: Vec<Variant> = file
            .sections("variants", (1, 16))?
            .into_iter()
            .map(variant)
            .collect::<Result<_, _>>()?;
        let sweep = match file.section("sweep")? {
            Some(section) => Some(sweep(section, &paths)?),
            None => None,
        };
        let metrics = file.texts("metrics")?;
        let metrics = metrics.map(|metrics| metrics.into_iter().map(str::to_owned).collect());
        let definition = Self {
            name,
            question,
            seeds,
            seconds,
            paths,
            traffic,
            variants,
            sweep,
            metrics,
        };
        definition.check_metrics(&file)?;
        file.end()?;
        Ok(definition)
    }

    fn check_metrics(&self, file: &Section<'_>) -> Result<(), FileError> {
        let all: Vec<String> = self.all_metrics().into_iter().map(|(name, _, _)| name).collect();
        let unknown = self.metrics.iter().flatten().find(|metric| !all.contains(metric));
        match unknown {
            None => Ok(()),
            Some(metric) => {
                let problem = format!("cannot have {metric:?}; there are: {}", all.join(", "));
                Err(file.wrong("metrics", &problem))
            }
        }
    }

    /// The name, unit and meaning of all metrics, in the order in which a run returns them.
    pub(super) fn all_metrics(&self) -> Vec<(String, &'static str, String)> {
        let mut metrics = Vec::new();
        for Flow { name, deadline, .. } in &self.traffic {
            if let Some(deadline) = deadline {
                let about = format!("share of {name} delivered within {} ms", deadline.as_millis());
                metrics.push((format!("{name}_in_time"), "", about));
            }
            let about = [
                ("delivered", "", "share delivered"),
                (
                    "delay",
                    "s",
                    "submission to delivery, mean of the delivered messages",
                ),
                (
                    "delay_95",
                    "s",
                    "submission to delivery, 95 % quantile of the delivered messages",
                ),
                ("goodput", "Mbit/s", "user data delivered"),
            ];
            metrics.extend(
                about.map(|(metric, unit, about)| {
                    (format!("{name}_{metric}"), unit, format!("{name}: {about}"))
                }),
            );
        }
        metrics.push(("timeouts".to_owned(), "", "T3-rtx expirations".to_owned()));
        metrics.push((
            "retransmissions".to_owned(),
            "",
            "chunks retransmitted".to_owned(),
        ));
        metrics
    }
}

fn path(mut section: Section<'_>) -> Result<(String, String), FileError> {
    let there = section.required("there")?;
    let back = section.text("back")?.unwrap_or(there);
    for (key, link) in [("there", there), ("back", back)] {
        let parsed: Result<LinkConfig, _> = link.parse();
        parsed.map_err(|error| section.wrong(key, &format!("is not a link: {error}")))?;
    }
    section.end()?;
    Ok((there.to_owned(), back.to_owned()))
}

fn flow(section: &mut Section<'_>) -> Result<Flow, FileError> {
    let name = section.parsed("name", NAME, |name| is_name(name).then(|| name.replace('-', "_")))?;
    let name = name.ok_or_else(|| section.wrong("name", "is missing"))?;
    let bytes = section.whole("bytes", (1, 65_536))?;
    let bytes = bytes.ok_or_else(|| section.wrong("bytes", "is missing"))? as usize;
    let every = match (section.time("every")?, section.bytes("backlog")?) {
        (Some(every), None) => Ok(every),
        (None, Some(backlog)) => Err(backlog as usize),
        (Some(_), Some(_)) => return Err(section.wrong("backlog", "cannot be combined with `every`")),
        (None, None) => return Err(section.wrong("every", "is missing, or `backlog` for a file")),
    };
    let lifetime = section.time("lifetime")?;
    let repeats = section.whole("retransmissions", (0, 1000))?;
    let reliability = match (lifetime, repeats) {
        (None, None) => Reliability::Reliable,
        (Some(lifetime), None) => Reliability::Lifetime(lifetime),
        (None, Some(repeats)) => Reliability::Retransmissions(repeats as u32),
        (Some(_), Some(_)) => {
            return Err(section.wrong("retransmissions", "cannot be combined with `lifetime`"));
        }
    };
    Ok(Flow {
        name,
        bytes,
        every,
        priority: section.whole("priority", (0, 65_535))?.unwrap_or(0) as u16,
        unordered: section.flag("unordered")?,
        reliability,
        deadline: section.time("deadline")?,
    })
}

fn variant(mut section: Section<'_>) -> Result<Variant, FileError> {
    let name = section.required("name")?.to_owned();
    let mut config = plain_config();
    config.buffers.send = 64 << 20;
    config.nr_sack.offer = section.flag("nr_sack")?;
    config.interleaving.offer = section.flag("interleaving")?;
    let expiry = section.flag("expiry")?;
    config.partial_reliability.offer = expiry;
    config.partial_reliability.early_discard = section.flag("early_discard")?;
    let distance = section.whole("selective_forward_tsn", (1, 1000))?;
    config.partial_reliability.selective_forward_tsn = distance.map(|distance| distance as u32);
    if section.flag("multipath")? {
        config.multipath.mode = MultipathMode::Cmt;
    }
    let schedulers = "fcfs, rr, rr-packet, priority or fair";
    let scheduler = section.parsed("scheduler", schedulers, |text| match text {
        "fcfs" => Some(SchedulerKind::FirstComeFirstServed),
        "rr" => Some(SchedulerKind::RoundRobin),
        "rr-packet" => Some(SchedulerKind::RoundRobinPerPacket),
        "priority" => Some(SchedulerKind::Priority),
        "fair" => Some(SchedulerKind::FairBandwidth),
        _ => None,
    })?;
    config.scheduler = scheduler.unwrap_or_default();
    config.low_priority_delay = section.time("low_priority_delay")?;
    if let Some(least) = section.time("rto_min")? {
        config.rto.min = least;
        config.rto.initial = config.rto.initial.max(least);
    }
    if let Some(bytes) = section.bytes("receive_buffer")? {
        config.buffers.receive = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
    config
        .validate()
        .map_err(|error| section.wrong("name", &format!("{name:?}: {error}")))?;
    section.end()?;
    Ok(Variant { name, config, expiry })
}

fn sweep(mut section: Section<'_>, paths: &[(String, String)]) -> Result<Sweep, FileError> {
    let key = section.required("link")?.to_owned();
    let path = section
        .whole("path", (1, paths.len() as u64))?
        .map(|path| path as usize - 1);
    let values = section
        .texts("values")?
        .ok_or_else(|| section.wrong("values", "is missing"))?;
    for value in &values {
        let link: Result<LinkConfig, _> = format!("{key}={value}").parse();
        // With a comma, the value would contain a second setting.
        if let Err(problem) =
            link.map_err(|error| error.to_string())
                .and_then(|_| match value.contains(',') {
                    true => Err("one setting at a time".to_owned()),
                    false => Ok(()),
                })
        {
            return Err(section.wrong("values", &format!("cannot have {value:?} for {key:?}: {problem}")));
        }
    }
    section.end()?;
    Ok(Sweep {
        key,
        path,
        values: values.into_iter().map(str::to_owned).collect(),
    })
}
