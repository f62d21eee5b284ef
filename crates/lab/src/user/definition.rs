//! The content of a user's file, validated.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, Reliability};
use serde::Deserialize;
use toml::de::{DeTable, Deserializer};

use super::file::{self, Bytes, File, Spanned, TcpCongestion, Time, Whole};
use super::place::{FileError, Places};
use super::source::{Pace, read_trace};
use crate::experiments::plain_config;
use crate::figure::{PERCENTILES, percentile_metric};
use crate::near::did_you_mean;

/// The most cells of an experiment.
const MOST_CELLS: usize = 10_000;

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
    pub(super) tcp: Option<Tcp>,
    pub(super) variants: Vec<Variant>,
    pub(super) sweeps: Vec<Sweep>,
    /// The metrics that are shown; `None` for all.
    pub(super) metrics: Option<Vec<String>>,
}

/// Messages with the same settings.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) name: String,
    /// The length of a message in bytes; unused with a trace.
    pub(super) bytes: usize,
    pub(super) pace: Pace,
    /// Whether the receiver of the other flows sends it.
    pub(super) reverse: bool,
    pub(super) priority: u16,
    pub(super) unordered: bool,
    pub(super) reliability: Reliability,
    /// The time within which a message is useful.
    pub(super) deadline: Option<Duration>,
}

/// Greedy TCP flows in the direction of the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tcp {
    pub(super) flows: u64,
    pub(super) is_cubic: bool,
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
    /// The name of the axis: the key, with the path if two sweeps have the same key.
    pub(super) axis: String,
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

impl Definition {
    /// Reads and validates a file. Files of traces are relative to `directory`.
    pub(super) fn read(text: &str, directory: &Path) -> Result<Self, FileError> {
        let document = DeTable::parse(text).map_err(|error| Places::not_toml(text, &error))?;
        let places = Places::new(text, document.get_ref());
        let file = File::deserialize(Deserializer::from(document));
        let file = file.map_err(|error| places.not_known(&error))?;
        let checked = Checked {
            places: &places,
            directory,
        };
        checked.definition(file)
    }

    /// The number of combinations of the sweeps' values.
    fn combinations(&self) -> usize {
        let lengths = self.sweeps.iter().map(|sweep| sweep.values.len());
        lengths.fold(1, usize::saturating_mul)
    }

    /// Whether a metric is one of the percentiles for the figures of delays. They are shown only if the file names them.
    pub(super) fn is_percentile(&self, metric: &str) -> bool {
        let mut names = self.traffic.iter().map(|flow| delay_of(&flow.name));
        names.any(|name| {
            PERCENTILES
                .iter()
                .any(|percent| percentile_metric(&name, *percent) == metric)
        })
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
            metrics.extend(PERCENTILES.map(|percent| {
                let about = format!("{name}: {percent} % quantile of the delay of the delivered messages");
                (percentile_metric(&delay_of(name), percent), "s", about)
            }));
        }
        let mut add = |name: &str, unit, about: &str| metrics.push((name.to_owned(), unit, about.to_owned()));
        add("timeouts", "", "T3-rtx expirations");
        add("retransmissions", "", "chunks retransmitted");
        if self.tcp.is_some() {
            add("tcp_goodput", "Mbit/s", "goodput of all TCP flows together");
        }
        metrics
    }
}

/// The beginning of the names of a flow's percentiles.
pub(super) fn delay_of(flow: &str) -> String {
    format!("{flow}_delay")
}

/// The facts that the checks need besides the values.
struct Checked<'a> {
    places: &'a Places<'a>,
    directory: &'a Path,
}

impl Checked<'_> {
    fn wrong<T>(&self, place: Range<usize>, problem: &str) -> Result<T, FileError> {
        Err(self.places.wrong(Some(place), problem))
    }

    fn definition(&self, file: File) -> Result<Definition, FileError> {
        self.count("paths", &file.paths, 8)?;
        self.count("traffic", &file.traffic, 16)?;
        self.count("variants", &file.variants, 16)?;
        let paths: Vec<(String, String)> = file
            .paths
            .iter()
            .map(|path| {
                let path = path.get_ref();
                let back = path.back.as_ref().unwrap_or(&path.there);
                (path.there.0.clone(), back.0.clone())
            })
            .collect();
        let tcp = match &file.tcp {
            Some(tcp) if paths.len() > 1 => {
                return self.wrong(tcp.span(), "TCP flows share one path: give one [[paths]] table");
            }
            tcp => tcp.as_ref().map(|tcp| Tcp {
                flows: tcp.get_ref().flows.0,
                is_cubic: tcp.get_ref().congestion == TcpCongestion::Cubic,
            }),
        };
        let definition = Definition {
            name: file.name.0,
            question: file.question,
            seeds: file.seeds.map_or(10, |seeds| seeds.0),
            seconds: file.seconds.map_or(60, |seconds| seconds.0),
            traffic: self.traffic(&file.traffic)?,
            tcp,
            variants: self.each(&file.variants, Self::variant)?,
            sweeps: self.sweeps(&file.sweep.0, paths.len())?,
            paths,
            metrics: None,
        };
        let cells = definition
            .combinations()
            .saturating_mul(definition.variants.len());
        if cells > MOST_CELLS {
            let problem = format!("sweep: {cells} cells are more than {MOST_CELLS}; give fewer values");
            return Err(self.places.wrong(None, &problem));
        }
        self.with_metrics(definition, file.metrics)
    }

    fn count<T>(&self, key: &str, tables: &[T], most: usize) -> Result<(), FileError> {
        if (1..=most).contains(&tables.len()) {
            return Ok(());
        }
        let problem = format!(
            "{key} must occur 1 to {most} times, as [[{key}]]; it occurs {} times",
            tables.len()
        );
        Err(self.places.wrong(None, &problem))
    }

    fn each<T, U>(
        &self,
        tables: &[Spanned<T>],
        check: impl Fn(&Self, &T, Range<usize>) -> Result<U, FileError>,
    ) -> Result<Vec<U>, FileError> {
        let checked = tables
            .iter()
            .map(|table| check(self, table.get_ref(), table.span()));
        checked.collect()
    }

    fn with_metrics(
        &self,
        definition: Definition,
        metrics: Option<Vec<Spanned<String>>>,
    ) -> Result<Definition, FileError> {
        let all: Vec<String> = definition.all_metrics().into_iter().map(|one| one.0).collect();
        for metric in metrics.iter().flatten() {
            let name = metric.get_ref();
            if !all.contains(name) {
                let near = did_you_mean(name, all.iter().map(String::as_str));
                let usual = all.iter().filter(|one| !definition.is_percentile(one));
                let usual: Vec<&str> = usual.map(String::as_str).collect();
                let problem = format!(
                    "there is no metric {name:?}; {near}there are: {}",
                    usual.join(", ")
                );
                return self.wrong(metric.span(), &problem);
            }
        }
        let metrics = metrics.map(|metrics| metrics.into_iter().map(Spanned::into_inner).collect());
        Ok(Definition {
            metrics,
            ..definition
        })
    }

    fn traffic(&self, tables: &[Spanned<file::Flow>]) -> Result<Vec<Flow>, FileError> {
        let mut flows: Vec<Flow> = Vec::new();
        for table in tables {
            let next = self.flow(table.get_ref(), table.span())?;
            let is_file = |flow: &Flow| matches!(flow.pace, Pace::Backlog(_));
            if flows.iter().any(|flow| flow.name == next.name) {
                return self.wrong(
                    table.span(),
                    &format!("the name {:?} is already in use", next.name),
                );
            }
            let same_side = |flow: &&Flow| flow.reverse == next.reverse && is_file(flow);
            if is_file(&next) && flows.iter().any(|flow| same_side(&flow)) {
                return self.wrong(table.span(), "each host sends at most one flow with `backlog`");
            }
            flows.push(next);
        }
        let mut forward = flows.iter().filter(|flow| !flow.reverse);
        if !forward.any(|flow| !matches!(flow.pace, Pace::Backlog(_))) {
            let problem = "traffic must have a flow with `every`, `poisson` or `trace` and without `reverse`";
            return Err(self.places.wrong(None, problem));
        }
        Ok(flows)
    }

    fn flow(&self, flow: &file::Flow, place: Range<usize>) -> Result<Flow, FileError> {
        let file::Flow {
            every,
            poisson,
            trace,
            backlog,
            ..
        } = flow;
        let pace = match (every, poisson, trace, backlog) {
            (Some(every), None, None, None) => Pace::Every(every.get_ref().0),
            (None, Some(mean), None, None) => Pace::Poisson(mean.get_ref().0),
            (None, None, Some(trace), None) => {
                let messages = read_trace(&self.directory.join(trace.get_ref()));
                match messages {
                    Ok(messages) => Pace::Trace(messages.into()),
                    Err(problem) => return self.wrong(trace.span(), &problem),
                }
            }
            (None, None, None, Some(bytes)) => Pace::Backlog(bytes.get_ref().0 as usize),
            _ => {
                let problem = "give exactly one of the keys `every`, `poisson`, `trace` and `backlog`";
                return self.wrong(place, problem);
            }
        };
        let bytes = match (&flow.bytes, &pace) {
            (Some(bytes), Pace::Trace(_)) => {
                return self.wrong(
                    bytes.span(),
                    "a trace has the bytes of each message: leave out `bytes`",
                );
            }
            (None, Pace::Trace(_)) => 1,
            (Some(bytes), _) => bytes.get_ref().0 as usize,
            (None, _) => return self.wrong(place, "missing key `bytes`"),
        };
        let reliability = match (flow.lifetime, &flow.retransmissions) {
            (None, None) => Reliability::Reliable,
            (Some(Time(lifetime)), None) => Reliability::Lifetime(lifetime),
            (None, Some(most)) => Reliability::Retransmissions(most.get_ref().0 as u32),
            (Some(_), Some(most)) => {
                return self.wrong(most.span(), "cannot be combined with `lifetime`");
            }
        };
        Ok(Flow {
            name: flow.name.0.replace('-', "_"),
            bytes,
            pace,
            reverse: flow.reverse,
            priority: flow.priority.map_or(0, |Whole(priority)| priority as u16),
            unordered: flow.unordered,
            reliability,
            deadline: flow.deadline.map(|Time(deadline)| deadline),
        })
    }

    fn variant(&self, variant: &file::Variant, place: Range<usize>) -> Result<Variant, FileError> {
        let mut config = plain_config();
        config.buffers.send = 64 << 20;
        config.nr_sack.offer = variant.nr_sack;
        config.interleaving.offer = variant.interleaving;
        config.partial_reliability.offer = variant.expiry;
        config.partial_reliability.early_discard = variant.early_discard;
        let distance = variant.selective_forward_tsn;
        config.partial_reliability.selective_forward_tsn = distance.map(|Whole(distance)| distance as u32);
        config.multipath.mode = variant.multipath.0;
        config.scheduler = variant.scheduler.into();
        config.low_priority_delay = variant.low_priority_delay.map(|Time(delay)| delay);
        if let Some(Time(least)) = variant.rto_min {
            config.rto.min = least;
            config.rto.initial = config.rto.initial.max(least);
        }
        if let Some(Bytes(bytes)) = variant.receive_buffer {
            config.buffers.receive = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
        match config.validate() {
            Err(error) => self.wrong(place, &format!("{:?}: {error}", variant.name)),
            Ok(()) => Ok(Variant {
                name: variant.name.clone(),
                config,
                expiry: variant.expiry,
            }),
        }
    }

    fn sweeps(&self, tables: &[Spanned<file::Sweep>], paths: usize) -> Result<Vec<Sweep>, FileError> {
        let mut sweeps: Vec<Sweep> = Vec::new();
        for table in tables {
            let mut next = self.sweep(table.get_ref(), paths)?;
            let others = tables
                .iter()
                .filter(|other| *other.get_ref().link.get_ref() == next.key);
            if others.count() > 1 {
                let path = next.path.map_or("all".to_owned(), |path| (path + 1).to_string());
                next.axis = format!("{}_{path}", next.key);
            }
            if sweeps.iter().any(|sweep| sweep.axis == next.axis) {
                let problem = format!("two sweeps of {:?} need different paths", next.key);
                return self.wrong(table.get_ref().link.span(), &problem);
            }
            sweeps.push(next);
        }
        Ok(sweeps)
    }

    fn sweep(&self, sweep: &file::Sweep, paths: usize) -> Result<Sweep, FileError> {
        let key = sweep.link.get_ref();
        if let Some(path) = &sweep.path
            && path.get_ref().0 as usize > paths
        {
            return self.wrong(path.span(), &format!("there are only {paths} paths"));
        }
        if sweep.values.get_ref().is_empty() {
            return self.wrong(sweep.values.span(), "give at least one value");
        }
        for value in sweep.values.get_ref() {
            let (text, place) = (value.get_ref(), value.span());
            // With a comma, the value would contain a second setting.
            if text.contains(',') {
                return self.wrong(
                    place,
                    &format!("{text:?} for {key:?}: give one setting at a time"),
                );
            }
            let link: Result<LinkConfig, _> = format!("{key}={text}").parse();
            if let Err(error) = link {
                return self.wrong(place, &format!("{text:?} for {key:?}: {error}"));
            }
        }
        Ok(Sweep {
            axis: key.clone(),
            key: key.clone(),
            path: sweep.path.as_ref().map(|path| path.get_ref().0 as usize - 1),
            values: sweep
                .values
                .get_ref()
                .iter()
                .map(|value| value.get_ref().clone())
                .collect(),
        })
    }
}
