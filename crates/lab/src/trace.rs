//! Traces of single runs as CSV: every message, and the sender's state over time. Only simulated runs have traces.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io};

use anabranch_proto::{AssociationStats, Timestamp};

use crate::experiment::{Cell, Experiment};
use crate::trial::Trial;
use crate::user::kept;

/// The most rows of a file with messages, not counting the first line.
const MOST_ROWS: usize = 100_000;
/// The most rows of a file with the sender's state, not counting the first line.
const MOST_SAMPLES: usize = 20_000;
/// The shortest time between two samples of the sender's state.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// A message of a run. Times are those of the simulation; `None` for an event that did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// The number of the message's class, from 0.
    pub class: usize,
    /// The length of the user data in bytes.
    pub bytes: usize,
    /// When the application submitted the message.
    pub submitted: Timestamp,
    /// When its first packet was first sent.
    pub sent: Option<Timestamp>,
    /// When its first packet first arrived.
    pub arrived: Option<Timestamp>,
    /// When the message was delivered to the application.
    pub delivered: Option<Timestamp>,
}

/// The sender's state over time, sampled every 100 ms. If it has too many rows, every second sample is dropped and the interval doubles.
#[derive(Clone, Debug)]
pub struct Series {
    interval: Duration,
    next: Timestamp,
    samples: Vec<(Timestamp, AssociationStats)>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            interval: SAMPLE_INTERVAL,
            next: Timestamp::ZERO,
            samples: Vec::new(),
        }
    }
}

impl Series {
    /// Whether a sample is due.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, now: Timestamp, stats: AssociationStats) {
        let paths = stats.paths.len().max(1);
        if (self.samples.len() + 1) * paths > MOST_SAMPLES {
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.interval *= 2;
        }
        self.samples.push((now, stats));
        self.next = now + self.interval;
    }

    /// The samples in the order of time.
    #[must_use]
    pub fn samples(&self) -> &[(Timestamp, AssociationStats)] {
        &self.samples
    }

    /// A row for each sample and path.
    fn to_csv(&self) -> String {
        let mut csv =
            "time_s,path,cwnd_bytes,ssthresh_bytes,flight_bytes,srtt_s,rto_s,timeouts,fast_recoveries,\
                       queued_bytes,outstanding_bytes,peer_rwnd_bytes\n"
                .to_owned();
        for (at, stats) in &self.samples {
            for (path, state) in stats.paths.iter().enumerate() {
                let srtt = state
                    .srtt
                    .map_or_else(String::new, |srtt| srtt.as_secs_f64().to_string());
                let _ = writeln!(
                    csv,
                    "{},{},{},{},{},{srtt},{},{},{},{},{},{}",
                    at.as_secs_f64(),
                    path + 1,
                    state.cwnd,
                    state.ssthresh,
                    state.flight_size,
                    state.rto.as_secs_f64(),
                    state.timeouts,
                    state.fast_recoveries,
                    stats.queued_bytes,
                    stats.outstanding_bytes,
                    stats.peer_rwnd,
                );
            }
        }
        csv
    }
}

/// The trace of one network of a run.
#[derive(Clone, Debug, Default)]
pub struct RunTrace {
    /// The messages in the order of their submission.
    pub messages: Vec<MessageRow>,
    /// The sender's state.
    pub series: Series,
}

/// Points that an experiment computes from a run in its own way.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnPoints {
    /// The name of the file: lower case with hyphens.
    pub name: &'static str,
    /// The names of the two columns, with units.
    pub columns: [&'static str; 2],
    /// The points.
    pub points: Vec<(f64, f64)>,
}

impl OwnPoints {
    fn to_csv(&self) -> String {
        let mut csv = format!("{},{}\n", self.columns[0], self.columns[1]);
        for (x, y) in &self.points {
            let _ = writeln!(csv, "{x},{y}");
        }
        csv
    }
}

/// Everything that a run traced.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The networks of the run: one for most experiments.
    pub networks: Vec<RunTrace>,
    /// Points of the experiment's own.
    pub points: Vec<OwnPoints>,
}

impl Trace {
    /// The messages of the run's first network.
    #[must_use]
    pub fn messages(&self) -> &[MessageRow] {
        self.networks.first().map_or(&[], |network| &network.messages)
    }

    /// The samples of the sender's state in the run's first network.
    #[must_use]
    pub fn samples(&self) -> &[(Timestamp, AssociationStats)] {
        self.networks
            .first()
            .map_or(&[], |network| network.series.samples())
    }

    /// The points with this name; none if the run did not compute them.
    #[must_use]
    pub fn own_points(&self, name: &str) -> Vec<(f64, f64)> {
        let found = self.points.iter().find(|points| points.name == name);
        found.map(|found| found.points.clone()).unwrap_or_default()
    }
}

impl RunTrace {
    /// A row for each message. Of more than [`MOST_ROWS`] messages, every second, third, … message has a row.
    fn messages_to_csv(&self) -> String {
        let mut csv =
            "message,class,bytes,submitted_s,first_sent_s,arrived_s,delivered_s,delay_s\n".to_owned();
        let step = self.messages.len().div_ceil(MOST_ROWS).max(1);
        let seconds = |at: Option<Timestamp>| at.map_or_else(String::new, |at| at.as_secs_f64().to_string());
        for (number, row) in self.messages.iter().enumerate().step_by(step) {
            let delay = row
                .delivered
                .map(|at| at.saturating_duration_since(row.submitted));
            let delay = delay.map_or_else(String::new, |delay| delay.as_secs_f64().to_string());
            let _ = writeln!(
                csv,
                "{number},{},{},{},{},{},{},{delay}",
                row.class,
                row.bytes,
                row.submitted.as_secs_f64(),
                seconds(row.sent),
                seconds(row.arrived),
                seconds(row.delivered),
            );
        }
        csv
    }
}

/// Where a run and its networks leave their traces. Clones are the same destination.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracing(Arc<Mutex<Trace>>);

impl Tracing {
    pub(crate) fn add(&self, network: RunTrace) {
        self.trace().networks.push(network);
    }

    pub(crate) fn add_points(&self, points: OwnPoints) {
        self.trace().points.push(points);
    }

    pub(crate) fn take(&self) -> Trace {
        std::mem::take(&mut *self.trace())
    }

    fn trace(&self) -> MutexGuard<'_, Trace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory of the traces of a command's runs.
#[derive(Debug)]
pub struct TraceDirectory {
    path: PathBuf,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    runs: usize,
    error: Option<io::Error>,
}

impl TraceDirectory {
    /// A directory that exists.
    #[must_use]
    pub fn new(path: &Path) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            written: Mutex::default(),
        })
    }

    /// The number of runs that left a trace. A run without an association leaves none.
    ///
    /// # Errors
    /// The first error of a write.
    pub fn finish(&self) -> io::Result<usize> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.error.take().map_or(Ok(written.runs), Err)
    }

    /// Writes the two files of each network of a run, and a file for each of the experiment's own points.
    fn write(&self, run: &str, trace: &Trace) {
        let write = |(number, trace): (usize, &RunTrace)| {
            let network = match number {
                0 => String::new(),
                number => format!("-network-{}", number + 1),
            };
            let file = |kind: &str| self.path.join(format!("{run}{network}-{kind}.csv"));
            fs::write(file("messages"), trace.messages_to_csv())?;
            fs::write(file("series"), trace.series.to_csv())
        };
        let write_points = |own: &OwnPoints| {
            let file = self.path.join(format!("{run}-{}.csv", own.name));
            fs::write(file, own.to_csv())
        };
        let done: io::Result<()> = trace.networks.iter().enumerate().try_for_each(write);
        let done = done.and_then(|()| trace.points.iter().try_for_each(write_points));
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(()) => written.runs += usize::from(!trace.networks.is_empty()),
            Err(error) => written.error = written.error.take().or(Some(error)),
        }
    }
}

/// The experiment with traces: every simulated run leaves the files `EXPERIMENT[-SETTING=VALUE…]-AXIS=PLACE…-seed-N-messages.csv` and
/// `…-series.csv` in the directory, and `…-NAME.csv` for points of the experiment's own. The numbers of the runs are the same as without traces.
#[must_use]
pub fn traced(experiment: &Experiment, directory: &Arc<TraceDirectory>) -> Experiment {
    let (name, of_cells, directory) = (experiment.name, experiment.cells, Arc::clone(directory));
    let with_trace = move |place: usize, cell: Cell| {
        let directory = Arc::clone(&directory);
        let coordinates = cell.coordinates().to_vec();
        let about = coordinates.iter().map(|(axis, place)| format!("-{axis}={place}"));
        let about: String = about.collect();
        Cell::interruptible(coordinates, move |trial: &Trial<'_>| {
            let tracing = Tracing::default();
            let numbers = cell.run(&trial.traced(&tracing))?;
            let settings = trial.settings().to_string();
            let settings = match settings.as_str() {
                "" => String::new(),
                settings => format!("-{settings}"),
            };
            let run = format!("{name}{settings}{about}");
            // Two places may differ only in characters that file names cannot have: the cell's number tells them apart.
            let run = format!("{}-cell-{}-seed-{}", as_file_name(&run), place + 1, trial.seed);
            directory.write(&run, &tracing.take());
            Some(numbers)
        })
    };
    Experiment {
        cells: kept(Box::new(move |extent| {
            let cells = of_cells(extent).into_iter().enumerate();
            cells.map(|(place, cell)| with_trace(place, cell)).collect()
        })),
        ..*experiment
    }
}

/// Letters, digits, `.`, `=`, `_` and `-`; all other characters become `-`.
fn as_file_name(text: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '=' | '_' | '-');
    text.chars()
        .map(|c| if kept(c) { c } else { '-' })
        .take(150)
        .collect()
}

#[cfg(test)]
mod tests {
    use anabranch_proto::SendOptions;

    use super::*;
    use crate::experiments::pair::{PEER, Pair};
    use crate::experiments::plain_config;
    use crate::traffic::Source;
    use crate::trial::Knobs;

    #[test]
    fn a_file_has_no_more_rows_than_allowed() {
        let row = MessageRow {
            class: 0,
            bytes: 1,
            submitted: Timestamp::ZERO,
            sent: None,
            arrived: None,
            delivered: Some(Timestamp::from_millis(1500)),
        };
        let trace = RunTrace {
            messages: vec![row; 2 * MOST_ROWS + 1],
            series: Series::default(),
        };
        let csv = trace.messages_to_csv();
        assert!((MOST_ROWS / 2..=MOST_ROWS).contains(&(csv.lines().count() - 1)));
        assert_eq!(csv.lines().nth(2), Some("3,0,1,0,,,1.5,1.5"));
    }

    #[test]
    fn a_series_that_is_too_long_drops_every_second_sample() {
        let knobs = Knobs::default();
        let source = Source::greedy(PEER, SendOptions::default(), 1000);
        let link = "rate=1mbit,delay=10ms".parse().unwrap();
        let mut pair = Pair::new(&Trial::new(1, &knobs), &plain_config(), link, source);
        pair.network.run_until(Timestamp::from_millis(3000));
        let stats = pair.association().unwrap().stats();
        let mut series = Series::default();
        let mut now = Timestamp::ZERO;
        for _ in 0..=MOST_SAMPLES {
            series.add(now, stats.clone());
            assert!(!series.is_due(now + SAMPLE_INTERVAL / 2));
            now += SAMPLE_INTERVAL;
        }
        assert_eq!(series.samples.len(), MOST_SAMPLES / 2 + 1);
        assert_eq!(series.interval, 2 * SAMPLE_INTERVAL);
        let csv = series.to_csv();
        let columns = |line: usize| csv.lines().nth(line).unwrap_or_default().split(',').count();
        assert_eq!(
            (columns(0), columns(1)),
            (12, 12),
            "{}",
            csv.lines().nth(1).unwrap()
        );
    }

    #[test]
    fn file_names_have_no_strange_characters() {
        assert_eq!(as_file_name("a-b=1 %/ü.c"), "a-b=1----.c");
    }
}
