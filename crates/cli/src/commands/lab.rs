//! `anabranch lab`: runs the experiments of the papers in virtual time, with the code that runs on real networks, and judges
//! the papers' claims.

mod age;
mod check;
mod dask;
mod kept;
mod measure;
mod outputs;
mod progress;
#[cfg(target_os = "linux")]
mod real;
#[cfg(not(target_os = "linux"))]
#[path = "lab/unreal.rs"]
mod real;
mod tell;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_lab::run::Seeds;
use anabranch_lab::stage::BedCells;
use anabranch_lab::{
    Experiment, Extent, Finding, Judgement, Knobs, Picture, TraceDirectory, did_you_mean,
    experiment_from_toml, experiments, pictures, report as page, traced,
};
use clap::{Args, Subcommand, ValueHint};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Observe, all_first, first, no_files};
use crate::output::note;
use measure::Measuring;
use outputs::{check_directory, check_file};
use real::Real;

/// Arguments of `lab`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch lab list
  anabranch lab run time-sensitive --quick
  anabranch lab check --all --quick
  anabranch lab report --all --quick")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum LabCommand {
    /// List the experiments with their questions, sources and settings
    List(ListArgs),
    /// Run experiments and print their numbers
    Run(RunArgs),
    /// Run experiments and judge the papers' claims
    Check(CheckArgs),
    /// Run experiments and write an HTML page that compares the papers' results with these results
    Report(ReportArgs),
    /// Be a host of the testbed: the lab starts this command and gives its orders on standard input
    #[command(hide = true)]
    Host(HostArgs),
}

/// Arguments of `lab list`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_args(|arg| all_first(&["json", "log"], no_files(arg))),
    after_help = "\
Example:
  anabranch lab list"
)]
struct ListArgs {
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `lab run`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_args(|arg| all_first(&["only", "set"], arg)),
    after_help = "\
Examples:
  anabranch lab run time-sensitive
  anabranch lab run time-sensitive --only loss=0.1 --seeds 30 --csv results.csv
  anabranch lab run nr-sack-forward-tsn --results numbers
  anabranch lab run time-sensitive --quick --set rtt=50,100 --set distance=4
  anabranch lab run time-sensitive --only loss=0.05 --only loss=0.1
  anabranch lab run stream-priority --only link=56 --pcap packets.pcapng
  anabranch lab run stream-priority --quick --seeds 1 --trace traces
  anabranch lab run --all --quick
  anabranch lab run examples/lab/voice-uplink.toml
  anabranch lab run nr-sack-forward-tsn --bed --short --seeds 5
  anabranch lab run --all --dask tcp://192.0.2.1:8786 --results numbers

A cell is one combination of an experiment's parameters. Numbers are means over the seeds, with
half the width of their 95 % confidence interval. The same seeds give the same numbers for any
number of jobs. With --pcap, only one run is made: the first cell that --only leaves, with seed 1."
)]
struct RunArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    effort: Effort,
    #[command(flatten)]
    choice: Choice,
    /// Write a CSV file with one row per run; for one experiment, with all values of --set
    #[arg(long, help_heading = RUNS, value_name = "FILE", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,
    /// Write every message and the sender's state over time of each simulated run to this directory, as CSV; at most 1000
    /// runs
    #[arg(long, help_heading = RUNS, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, conflicts_with_all = ["results", "pcap"])]
    trace: Option<PathBuf>,
    /// Make the runs on the Dask cluster with this scheduler, for example tcp://192.0.2.1:8786. Needs the Python package
    /// anabranch[dask] here and on all workers
    #[arg(long, help_heading = RUNS, value_name = "ADDRESS", value_hint = ValueHint::Other, conflicts_with_all = ["bed", "jobs", "json", "pcap", "trace", "seed_from"])]
    dask: Option<String>,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `lab check`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_args(|arg| all_first(&["all", "jobs"], no_files(arg))),
    after_help = "\
Examples:
  anabranch lab check time-sensitive --quick
  anabranch lab check --all
  anabranch lab check stream-priority --bed --seeds 3 --only link=56

A claim holds if the whole 95 % confidence interval over the seeds lies within its bound, fails if
the whole interval lies outside, and is open otherwise. The exit status is 0 only if every claim
that must hold does, and no other claim fails without a known reason.

With --bed, each claim is judged twice: by simulated numbers and by real packets. The exit status
is 3 if only claims on real packets fail. Such a failure does not count if the machine was too busy."
)]
struct CheckArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    effort: Effort,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `lab report`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_args(no_files),
    mut_arg("all", first),
    after_help = "\
Examples:
  anabranch lab report --all --quick
  anabranch lab report time-sensitive --output page.html --svg pictures

The page is one file with pictures, tables and verdicts; it loads nothing from the network."
)]
struct ReportArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    effort: Effort,
    /// HTML file to write
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, default_value = "anabranch-lab.html")]
    output: PathBuf,
    /// Also write each picture to this directory, as EXPERIMENT-FIGURE.svg
    #[arg(long, help_heading = RUNS, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `lab host`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_args(no_files),
    after_help = "\
Example:
  anabranch lab host < orders"
)]
struct HostArgs {
    #[command(flatten)]
    observe: Observe,
}

const RUNS: &str = "Runs and files";

/// The experiments to run.
#[derive(Clone, Debug, Args)]
struct Chosen {
    /// Experiments from `lab list`, or TOML files with new experiments
    #[arg(value_name = "NAME", value_hint = ValueHint::FilePath, required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// Run all experiments
    #[arg(long, help_heading = RUNS)]
    all: bool,
}

impl Chosen {
    fn experiments(&self) -> Result<Vec<Experiment>, Failure> {
        if self.all {
            return Ok(experiments::all());
        }
        self.names.iter().map(|name| experiment(name)).collect()
    }
}

/// The number and length of runs.
#[derive(Clone, Debug, Args)]
struct Effort {
    /// Run fewer cells, with shorter runs and fewer seeds
    #[arg(long)]
    quick: bool,
    /// Run all cells, with shorter runs and fewer seeds
    #[arg(long, help_heading = RUNS, conflicts_with = "quick")]
    short: bool,
    /// Number of seeds for each cell, 1 to 10000 [default: chosen by the experiment]
    #[arg(long, help_heading = RUNS, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// The first seed; the others follow it. Fresh seeds test what was found with others
    #[arg(long, help_heading = RUNS, value_name = "SEED", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seed_from: u64,
    /// Number of concurrent runs [default: the number of processors; on the testbed three times as many]
    #[arg(long, help_heading = RUNS, value_name = "NUMBER")]
    jobs: Option<NonZeroUsize>,
    /// Also run each cell with real packets on the testbed, with the kernel's TCP as cross traffic (Linux, root). Without
    /// --only, `run` and `report` run the subset of cells that the experiment marks for the testbed, and `check` runs the
    /// cells that the claims need
    #[arg(long, help_heading = RUNS)]
    bed: bool,
    /// Keep the numbers of every run in this directory, as EXPERIMENT.csv and EXPERIMENT.json. Runs whose numbers are already
    /// there are skipped
    #[arg(long, help_heading = RUNS, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    results: Option<PathBuf>,
}

impl Effort {
    fn seeds_of(&self, experiment: &Experiment) -> Seeds {
        Seeds {
            first: self.seed_from,
            count: self.seeds.unwrap_or_else(|| (experiment.seeds)(self.extent())),
        }
    }

    /// Checks, before the first run, that results can be kept.
    fn check_outputs(&self) -> Result<(), Failure> {
        let results = self.results.as_deref();
        results.map_or(Ok(()), |directory| check_directory("--results", directory))
    }

    fn extent(&self) -> Extent {
        match (self.quick, self.short) {
            (true, _) => Extent::Quick,
            (false, true) => Extent::Short,
            (false, false) => Extent::Full,
        }
    }
}

/// The cells and settings that the user chose.
#[derive(Clone, Debug, Default, Args)]
struct Choice {
    /// Run only the cells with this value of a parameter; may be given more than once. Several values of one parameter
    /// select the cells with any of them
    #[arg(long, help_heading = RUNS, value_name = "AXIS=VALUE", value_parser = axis_and_place)]
    only: Vec<(String, String)>,
    /// Change a setting of the experiment (see `lab list`); may be given more than once. With several values, run the
    /// experiment with each of them
    #[arg(long, help_heading = RUNS, value_name = "NAME=VALUE[,VALUE...]", value_parser = name_and_value)]
    set: Vec<(String, String)>,
}

fn axis_and_place(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| "give AXIS=VALUE, for example loss=0.1".to_owned())
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| "give NAME=VALUE, for example rtt=50".to_owned())
}

fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

impl LabArgs {
    pub(crate) fn observe(&self) -> &Observe {
        match &self.command {
            LabCommand::List(args) => &args.observe,
            LabCommand::Run(args) => &args.observe,
            LabCommand::Check(args) => &args.observe,
            LabCommand::Report(args) => &args.observe,
            LabCommand::Host(args) => &args.observe,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: LabArgs, interrupt: Interrupt) -> Result<(), Failure> {
    args.observe().refuse_qlog()?;
    if args.observe().pcap.is_some() && !matches!(args.command, LabCommand::Run(_)) {
        return Err(Failure::new(
            "--pcap: only `lab run` writes a capture, of one run",
        ));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    tokio::spawn(async move {
        interrupt.wait().await;
        asked.store(true, Ordering::Relaxed);
    });
    let work = tokio::task::spawn_blocking(move || match args.command {
        LabCommand::List(args) => {
            tell::list(args.observe.output(), &experiments::all());
            Ok(())
        }
        LabCommand::Run(args) if args.dask.is_some() => dask::run(&args),
        LabCommand::Run(args) => {
            let real = Real::new(&args.effort, &stop)?;
            real.explaining(show(&args, &real, &stop))
        }
        LabCommand::Check(args) => {
            let real = Real::new(&args.effort, &stop)?;
            real.explaining(check::check(&args, &real, &stop))
        }
        LabCommand::Report(args) => {
            let real = Real::new(&args.effort, &stop)?;
            real.explaining(report(&args, &real, &stop))
        }
        LabCommand::Host(_) => real::host(),
    });
    work.await
        .map_err(|error| Failure::new(format!("the experiment ended early: {error}")))?
}

/// The experiment with this name, or in this file if the name ends in .toml.
fn experiment(name: &str) -> Result<Experiment, Failure> {
    if name.ends_with(".toml") {
        let text = fs::read_to_string(name).map_err(|error| {
            Failure::new(format!(
                "NAME {name}: cannot read the file: {error}; check its name and permissions"
            ))
        })?;
        let directory = Path::new(name).parent().unwrap_or(Path::new(""));
        return experiment_from_toml(&text, directory)
            .map_err(|error| Failure::new(format!("{name}: {error}")));
    }
    experiments::named(name).ok_or_else(|| {
        let names: Vec<&str> = experiments::all()
            .iter()
            .map(|experiment| experiment.name)
            .collect();
        Failure::new(format!(
            "there is no experiment {name:?}; {}there are: {}; or give a file that ends in .toml",
            did_you_mean(name, names.iter().copied()),
            names.join(", ")
        ))
    })
}

fn show(args: &RunArgs, real: &Real, stop: &AtomicBool) -> Result<(), Failure> {
    let on_bed = match args.choice.only.is_empty() {
        true => BedCells::Usual,
        false => BedCells::All,
    };
    let mut chosen = real.beside(args.chosen.experiments()?, on_bed)?;
    let traces = args.trace.as_deref().map(TraceDirectory::new);
    if let Some(traces) = &traces {
        chosen
            .iter_mut()
            .for_each(|experiment| *experiment = traced(experiment, traces));
    }
    if args.csv.is_some() && chosen.len() > 1 {
        let why = "experiments differ in their columns; use --results DIRECTORY for one file per experiment";
        return Err(Failure::new(format!("--csv takes one experiment: {why}")));
    }
    let measuring = Measuring::new(&chosen, &args.effort, &args.choice, args.observe.json, stop)?;
    let output = args.observe.output();
    args.effort.check_outputs()?;
    for (flag, path) in [("--csv", &args.csv), ("--pcap", &args.observe.pcap)] {
        if let Some(path) = path {
            check_file(flag, path)?;
        }
    }
    if let Some(directory) = &args.trace {
        measuring.check_traces()?;
        check_directory("--trace", directory)?;
    }
    if let Some(path) = &args.observe.pcap {
        let place = measuring.capture(path)?;
        tell::capture(output, path, &place, args.effort.seed_from);
        return Ok(());
    }
    let mut csv = String::new();
    for measured in measuring.results() {
        if measured.is_err()
            && let Some((experiment, results)) = measuring.so_far()
        {
            tell::results(output, &experiment, &results);
        }
        let (experiment, results) = measured?;
        tell::results(output, &experiment, &results);
        if let Some(path) = &args.csv {
            let rows = results.to_csv();
            let header = rows.find('\n').map_or(0, |end| end + 1);
            // Each part has the same columns: one header is enough.
            csv.push_str(if csv.is_empty() { &rows } else { &rows[header..] });
            write("--csv", path, &csv)?;
        }
    }
    if let (Some(traces), Some(directory)) = (traces, &args.trace) {
        let runs = traces.finish().map_err(|error| {
            Failure::new(format!(
                "--trace: cannot write to {}: {error}",
                directory.display()
            ))
        })?;
        note(format!("traces of {runs} runs are in {}", directory.display()));
    }
    Ok(())
}

fn report(args: &ReportArgs, real: &Real, stop: &AtomicBool) -> Result<(), Failure> {
    let chosen = real.beside(args.chosen.experiments()?, BedCells::Usual)?;
    let none = Choice::default();
    let measuring = Measuring::new(&chosen, &args.effort, &none, args.observe.json, stop)?;
    args.effort.check_outputs()?;
    check_file("--output", &args.output)?;
    if let Some(directory) = &args.svg {
        check_directory("--svg", directory)?;
    }
    let mut ran = Vec::new();
    for measured in measuring.results() {
        let (experiment, results) = measured?;
        ran.push((experiment, results, (experiment.claims)()));
    }
    let judged: Vec<Vec<Judgement<'_>>> = ran
        .iter()
        .map(|(_, results, claims)| claims.iter().map(|claim| claim.judge(results)).collect())
        .collect();
    // A report has the usual settings, so its timelines have them too.
    let timelines: Vec<Vec<Picture>> = ran
        .iter()
        .map(|(experiment, ..)| pictures(experiment, &Knobs::default()))
        .collect();
    let findings = ran.iter().zip(&judged).zip(&timelines);
    let findings: Vec<Finding<'_>> = findings
        .map(|(((experiment, results, _), judgements), timelines)| Finding {
            experiment,
            results,
            judgements,
            timelines,
        })
        .collect();
    write("--output", &args.output, &page(&findings))?;
    let pictures = match &args.svg {
        Some(directory) => write_pictures(directory, &findings)?,
        None => Vec::new(),
    };
    tell::report(args.observe.output(), &args.output, &pictures);
    Ok(())
}

/// Writes each picture to its own file.
fn write_pictures(directory: &Path, findings: &[Finding<'_>]) -> Result<Vec<PathBuf>, Failure> {
    fs::create_dir_all(directory).map_err(|error| {
        Failure::new(format!(
            "--svg: cannot create {}: {error}; give a directory that you may write to",
            directory.display()
        ))
    })?;
    let mut pictures = Vec::new();
    for finding in findings {
        let figures = (finding.experiment.figures)().into_iter();
        let drawn = figures.filter_map(|figure| Some((figure.name, figure.plot(finding.results)?)));
        let timelines = finding.timelines.iter();
        let timelines = timelines.map(|picture| (picture.name, picture.plot.clone()));
        for (name, plot) in drawn.chain(timelines) {
            let path = directory.join(format!("{}-{name}.svg", finding.experiment.name));
            write("--svg", &path, &plot.to_file())?;
            pictures.push(path);
        }
    }
    Ok(pictures)
}

fn write(flag: &str, path: &Path, content: &str) -> Result<(), Failure> {
    fs::write(path, content).map_err(|error| {
        Failure::new(format!(
            "{flag}: cannot write {}: {error}; give a file in an existing directory that you may write to",
            path.display()
        ))
    })
}
