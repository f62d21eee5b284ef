//! The content of a user's file, validated.

use std::ops::Range;
use std::path::PathBuf;
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
    pub(super) paths: Vec<Path>,
    pub(super) bottlenecks: Vec<Bottleneck>,
    /// In order of time.
    pub(super) changes: Vec<Change>,
    pub(super) traffic: Vec<Flow>,
    pub(super) tcp: Option<Tcp>,
    pub(super) variants: Vec<Variant>,
    pub(super) sweeps: Vec<Sweep>,
    /// The metrics that are shown; `None` for all.
    pub(super) metrics: Option<Vec<String>>,
    /// Where the file is.
    pub(super) directory: PathBuf,
}

/// A path's own links, and the links that it shares.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) links: Links,
    /// The number of its bottleneck.
    pub(super) through: Option<usize>,
}

/// Links that several paths share.
#[derive(Clone, Debug)]
pub(super) struct Bottleneck {
    pub(super) name: String,
    pub(super) links: Links,
}

/// The link that data takes, and the link that acknowledgements take, as texts.
#[derive(Clone, Debug)]
pub(super) struct Links {
    pub(super) there: String,
    pub(super) back: String,
}

/// New settings of links, from a time on.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// After the first message could be submitted.
    pub(super) at: Duration,
    pub(super) of: Changed,
    /// The settings that change, of the link that data takes and of the other one.
    pub(super) there: Option<String>,
    pub(super) back: Option<String>,
}

/// The links that a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Path(usize),
    Bottleneck(usize),
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
    pub(super) early_copies: u8,
}

/// Greedy TCP flows in the direction of the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tcp {
    pub(super) flows: u64,
    pub(super) is_cubic: bool,
    /// The number of their bottleneck; `None` for the one path.
    pub(super) through: Option<usize>,
}

/// A configuration that the experiment compares.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) config: Config,
    /// Whether lifetimes and retransmission limits apply.
    pub(super) expiry: bool,
    /// Whether the flows' early copies are sent.
    pub(super) early_copies: bool,
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

/// The link with one setting replaced. A rate and a trace replace each other.
pub(super) fn with_setting(link: &str, key: &str, value: &str) -> String {
    let is_rate = |key: &str| ["rate", "trace"].iter().any(|one| key.eq_ignore_ascii_case(one));
    let others = link.split(',').filter(|item| {
        let name = item.split('=').next().unwrap_or_default().trim();
        !(name.eq_ignore_ascii_case(key) || is_rate(name) && is_rate(key))
    });
    others
        .chain([format!("{key}={value}").as_str()])
        .collect::<Vec<_>>()
        .join(",")
}

/// The link with these settings, `key=value` pairs separated by commas, replaced.
pub(super) fn with_settings(link: &str, settings: &str) -> String {
    let pairs = settings.split(',').filter_map(|item| item.split_once('='));
    pairs.fold(link.to_owned(), |link, (key, value)| {
        with_setting(&link, key.trim(), value.trim())
    })
}

/// A setting of a link whose file is relative to the directory.
fn in_directory(item: &str, directory: &std::path::Path) -> String {
    match item.split_once('=') {
        Some((key, file)) if key.trim().eq_ignore_ascii_case("trace") => {
            format!("{key}={}", directory.join(file.trim()).display())
        }
        _ => item.to_owned(),
    }
}

impl Definition {
    /// Reads and validates a file. Files of traces are relative to `directory`.
    pub(super) fn read(text: &str, directory: &std::path::Path) -> Result<Self, FileError> {
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

    /// A sweep's value, with the place of its file if it is one.
    pub(super) fn value(&self, sweep: &Sweep, value: &str) -> String {
        let item = in_directory(&format!("{}={value}", sweep.key), &self.directory);
        item[sweep.key.len() + 1..].to_owned()
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
    directory: &'a std::path::Path,
}

impl Checked<'_> {
    fn wrong<T>(&self, place: Range<usize>, problem: &str) -> Result<T, FileError> {
        Err(self.places.wrong(Some(place), problem))
    }

    fn definition(&self, file: File) -> Result<Definition, FileError> {
        self.count("paths", &file.paths, 8)?;
        self.count("traffic", &file.traffic, 16)?;
        self.count("variants", &file.variants, 16)?;
        if file.bottlenecks.len() > 8 {
            return Err(self.places.wrong(None, "[[bottlenecks]] may occur 8 times"));
        }
        let bottlenecks = self.each(&file.bottlenecks, |this, shared, _| {
            Ok(Bottleneck {
                name: shared.name.0.clone(),
                links: this.links(&shared.there, shared.back.as_ref())?,
            })
        })?;
        let through = |name: &Option<Spanned<String>>| {
            let name = name.as_ref();
            name.map(|name| self.bottleneck(&bottlenecks, name)).transpose()
        };
        let paths = self.each(&file.paths, |this, path, _| {
            Ok(Path {
                links: this.links(&path.there, path.back.as_ref())?,
                through: through(&path.through)?,
            })
        })?;
        let tcp = match &file.tcp {
            None => None,
            Some(tcp) => {
                let of = tcp.get_ref();
                let through = through(&of.through)?;
                if through.is_none() && paths.len() > 1 {
                    let problem = "TCP flows share one link: give one [[paths]] table, or the name of one of the [[bottlenecks]] as \
                                   `through`";
                    return self.wrong(tcp.span(), problem);
                }
                if through.is_none() && paths.iter().any(|path| path.through.is_some()) {
                    return self.wrong(
                        tcp.span(),
                        "give the name of one of the [[bottlenecks]] as `through`",
                    );
                }
                Some(Tcp {
                    flows: of.flows.0,
                    is_cubic: of.congestion == TcpCongestion::Cubic,
                    through,
                })
            }
        };
        let mut changes = self.each(&file.changes, |this, change, place| {
            this.change(change, place, &paths, &bottlenecks)
        })?;
        changes.sort_by_key(|change| change.at);
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
            bottlenecks,
            changes,
            metrics: None,
            directory: self.directory.to_owned(),
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

    /// A link as it is written, with the place of its trace.
    fn link(&self, link: &Spanned<String>) -> Result<String, FileError> {
        let items = link
            .get_ref()
            .split(',')
            .map(|item| in_directory(item, self.directory));
        let text = items.collect::<Vec<_>>().join(",");
        match text.parse::<LinkConfig>() {
            Ok(_) => Ok(text),
            Err(error) => self.wrong(link.span(), &format!("not a link: {error}")),
        }
    }

    fn links(&self, there: &Spanned<String>, back: Option<&Spanned<String>>) -> Result<Links, FileError> {
        Ok(Links {
            there: self.link(there)?,
            back: self.link(back.unwrap_or(there))?,
        })
    }

    fn bottleneck(&self, all: &[Bottleneck], name: &Spanned<String>) -> Result<usize, FileError> {
        let place = all.iter().position(|one| one.name == *name.get_ref());
        match place {
            Some(place) => Ok(place),
            None => {
                let near = did_you_mean(name.get_ref(), all.iter().map(|one| one.name.as_str()));
                let problem = format!(
                    "there is no bottleneck {:?} in [[bottlenecks]]; {near}",
                    name.get_ref()
                );
                self.wrong(name.span(), problem.trim_end_matches("; "))
            }
        }
    }

    fn change(
        &self,
        change: &file::Change,
        place: Range<usize>,
        paths: &[Path],
        bottlenecks: &[Bottleneck],
    ) -> Result<Change, FileError> {
        let of = match (&change.path, &change.bottleneck) {
            (Some(path), None) if path.get_ref().0 as usize > paths.len() => {
                let problem = format!("there are only {} paths", paths.len());
                return self.wrong(path.span(), &problem);
            }
            (Some(path), None) => Changed::Path(path.get_ref().0 as usize - 1),
            (None, Some(name)) => Changed::Bottleneck(self.bottleneck(bottlenecks, name)?),
            (None, None) if paths.len() == 1 => Changed::Path(0),
            _ => return self.wrong(place, "give either `path` or `bottleneck`"),
        };
        if change.there.is_none() && change.back.is_none() {
            return self.wrong(place, "give the settings that change, as `there`, `back` or both");
        }
        let settings = |link: &Option<Spanned<String>>| link.as_ref().map(|link| self.link(link)).transpose();
        Ok(Change {
            at: change.at.0,
            of,
            there: settings(&change.there)?,
            back: settings(&change.back)?,
        })
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
            early_copies: flow.early_copies.map_or(0, |Whole(copies)| copies as u8),
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
        config.partial_reliability.extended_forward_tsn = variant.extended_forward_tsn;
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
        if let Some(Bytes(bytes)) = variant.send_buffer {
            config.buffers.send = bytes as usize;
        }
        config.recovery = variant.recovery.into();
        config.congestion_control = variant.congestion.into();
        config.multipath.congestion = variant.coupling.into();
        if variant.early_copies && matches!(variant.recovery, file::Recovery::Rfc9260) {
            let problem = "early copies need recovery = \"rack\"";
            return self.wrong(place, &format!("{:?}: {problem}", variant.name));
        }
        match config.validate() {
            Err(error) => self.wrong(place, &format!("{:?}: {error}", variant.name)),
            Ok(()) => Ok(Variant {
                name: variant.name.clone(),
                config,
                expiry: variant.expiry,
                early_copies: variant.early_copies,
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
            let link: Result<LinkConfig, _> = in_directory(&format!("{key}={text}"), self.directory).parse();
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
