//! `anabranch lab`: the papers' experiments, run in virtual time by the code that runs on real networks, and what they
//! claim, judged.

mod kept;
mod progress;
mod tell;

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anabranch_lab::run::{Plan, run as run_experiment};
use anabranch_lab::{Experiment, Extent, Finding, Judgement, Known, Results, experiments, report as page};
use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::Observe;
use kept::{Kept, version};
use progress::Progress;

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
    /// List the experiments: what each asks, and whose it is
    List(ListArgs),
    /// Run an experiment and show its numbers
    Run(RunArgs),
    /// Run experiments and judge what the papers claim
    Check(CheckArgs),
    /// Run experiments and write a page with what was asked, what the papers found and what is found here
    Report(ReportArgs),
}

/// Arguments of `lab list`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  anabranch lab list")]
struct ListArgs {
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `lab run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch lab run time-sensitive
  anabranch lab run time-sensitive --only loss=0.1 --seeds 30 --csv results.csv
  anabranch lab run nr-sack-forward-tsn --results numbers

Numbers are means over the seeds, with half the width of their 95 % interval. Equal seeds give equal numbers, whatever
the number of jobs.")]
struct RunArgs {
    /// The experiment
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    effort: Effort,
    /// Only the cells at this place of an axis; may be given more than once
    #[arg(long, value_name = "AXIS=PLACE", value_parser = axis_and_place)]
    only: Vec<(String, String)>,
    /// Write a row for each run to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `lab check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch lab check time-sensitive --quick
  anabranch lab check --all

A claim holds if the whole 95 % interval over seeds lies within its bound, fails if all of it lies outside, and is open
between. The status is 0 only if every claim that must hold does, and every other either holds, is open, or has a known
reason not to.")]
struct CheckArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    effort: Effort,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `lab report`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch lab report --all --quick
  anabranch lab report time-sensitive --output page.html --svg pictures

The page needs no network and nothing beside it: pictures, tables and verdicts are in it.")]
struct ReportArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    effort: Effort,
    /// Where the page goes
    #[arg(long, value_name = "FILE", default_value = "anabranch-lab.html")]
    output: PathBuf,
    /// Also write each picture to a file of its own in this directory, as EXPERIMENT-FIGURE.svg
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    observe: Observe,
}

/// Which experiments.
#[derive(Clone, Debug, Args)]
struct Chosen {
    /// The experiments
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// All experiments
    #[arg(long)]
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

/// How much is run.
#[derive(Clone, Debug, Args)]
struct Effort {
    /// Fewer cells, shorter runs and fewer seeds
    #[arg(long)]
    quick: bool,
    /// All cells, but shorter runs and fewer seeds
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// How many seeds for each cell; left out, the experiment decides
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// How many runs at a time; left out, as many as there are processors
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<NonZeroUsize>,
    /// Keep the numbers of every run in this directory, as EXPERIMENT.csv, and go on from what is there; with Ctrl-C what is
    /// done is kept
    #[arg(long, value_name = "DIRECTORY")]
    results: Option<PathBuf>,
}

impl Effort {
    fn extent(&self) -> Extent {
        match (self.quick, self.short) {
            (true, _) => Extent::Quick,
            (false, true) => Extent::Short,
            (false, false) => Extent::Full,
        }
    }
}

fn axis_and_place(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    pair.map(|(axis, place)| (axis.to_owned(), place.to_owned()))
        .ok_or_else(|| "give an axis and a place on it, like loss=0.1".to_owned())
}

impl LabArgs {
    pub(crate) fn observe(&self) -> &Observe {
        match &self.command {
            LabCommand::List(args) => &args.observe,
            LabCommand::Run(args) => &args.observe,
            LabCommand::Check(args) => &args.observe,
            LabCommand::Report(args) => &args.observe,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: LabArgs, interrupt: Interrupt) -> Result<(), Failure> {
    if args.observe().pcap.is_some() {
        return Err(Failure::new("--pcap: the lab writes no packets"));
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
        LabCommand::Run(args) => show(&args, &stop),
        LabCommand::Check(args) => check(&args, &stop),
        LabCommand::Report(args) => report(&args, &stop),
    });
    work.await
        .map_err(|error| Failure::new(format!("the experiment ended early: {error}")))?
}

fn experiment(name: &str) -> Result<Experiment, Failure> {
    experiments::named(name).ok_or_else(|| {
        let names: Vec<&str> = experiments::all()
            .iter()
            .map(|experiment| experiment.name)
            .collect();
        Failure::new(format!(
            "there is no experiment {name:?}; there are: {}",
            names.join(", ")
        ))
    })
}

/// Runs an experiment's cells at the places of `only`.
fn measure(
    experiment: &Experiment,
    effort: &Effort,
    only: &[(&str, &str)],
    silent: bool,
    stop: &AtomicBool,
) -> Result<Results, Failure> {
    let version = version();
    let kept = effort
        .results
        .as_deref()
        .map(|directory| Kept::new(directory, experiment));
    let mut known = match &kept {
        Some(kept) => kept.read(experiment, effort.extent(), &version)?,
        None => Known::default(),
    };
    let progress = Progress::new(experiment.name, silent);
    let processors = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let plan = Plan {
        extent: effort.extent(),
        seeds: effort.seeds.unwrap_or((experiment.seeds)(effort.extent())),
        jobs: effort.jobs.unwrap_or_else(processors).get(),
        only,
        version: &version,
    };
    let show = |done, total| progress.show(done, total);
    let results = run_experiment(experiment, &plan, &mut known, stop, show);
    progress.finish();
    let mut rest = String::from("; with --results DIRECTORY it could go on from there");
    if let Some(kept) = &kept {
        kept.write(&known.to_csv(experiment, effort.extent(), &version))?;
        rest = format!(
            "; {} runs are in {}: the same command goes on from there",
            known.len(),
            kept.path.display()
        );
    }
    results
        .ok_or_else(|| Failure::interrupted(format!("interrupted before {} was done{rest}", experiment.name)))
}

/// Names an axis or a place that the experiment does not have.
fn check_places(experiment: &Experiment, extent: Extent, only: &[(&str, &str)]) -> Result<(), Failure> {
    let cells = (experiment.cells)(extent);
    let coordinates = || cells.iter().flat_map(|cell| cell.coordinates());
    for (axis, place) in only {
        let places: BTreeSet<&str> = coordinates()
            .filter(|(name, _)| name == axis)
            .map(|(_, place)| place.as_str())
            .collect();
        if places.is_empty() {
            let axes: BTreeSet<&str> = coordinates().map(|(name, _)| *name).collect();
            let axes: Vec<&str> = axes.into_iter().collect();
            return Err(Failure::new(format!(
                "--only: {} has no axis {axis:?}; it has: {}",
                experiment.name,
                axes.join(", ")
            )));
        }
        if !places.contains(place) {
            let places: Vec<&str> = places.into_iter().collect();
            return Err(Failure::new(format!(
                "--only: {axis} has no place {place:?}; it has: {}",
                places.join(", ")
            )));
        }
    }
    Ok(())
}

fn show(args: &RunArgs, stop: &AtomicBool) -> Result<(), Failure> {
    let experiment = experiment(&args.name)?;
    let only: Vec<(&str, &str)> = args
        .only
        .iter()
        .map(|(axis, place)| (axis.as_str(), place.as_str()))
        .collect();
    check_places(&experiment, args.effort.extent(), &only)?;
    let output = args.observe.output();
    let results = measure(&experiment, &args.effort, &only, args.observe.json, stop)?;
    tell::results(output, &experiment, &results);
    if let Some(path) = &args.csv {
        write("--csv", path, &results.to_csv())?;
    }
    Ok(())
}

fn check(args: &CheckArgs, stop: &AtomicBool) -> Result<(), Failure> {
    let mut out_of_order = Vec::new();
    for experiment in &args.chosen.experiments()? {
        let results = measure(experiment, &args.effort, &[], args.observe.json, stop)?;
        let claims = (experiment.claims)();
        let judgements: Vec<_> = claims.iter().map(|claim| claim.judge(&results)).collect();
        tell::judgements(args.observe.output(), experiment, &results, &judgements);
        out_of_order.extend(
            judgements
                .iter()
                .filter(|judgement| !judgement.is_in_order())
                .map(|judgement| format!("{}: {}", experiment.name, judgement.claim.says)),
        );
    }
    if out_of_order.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "not as it should be:\n  {}",
            out_of_order.join("\n  ")
        )))
    }
}

fn report(args: &ReportArgs, stop: &AtomicBool) -> Result<(), Failure> {
    let chosen = args.chosen.experiments()?;
    let mut ran = Vec::new();
    for experiment in &chosen {
        let results = measure(experiment, &args.effort, &[], args.observe.json, stop)?;
        ran.push((experiment, results, (experiment.claims)()));
    }
    let judged: Vec<Vec<Judgement<'_>>> = ran
        .iter()
        .map(|(_, results, claims)| claims.iter().map(|claim| claim.judge(results)).collect())
        .collect();
    let findings = ran.iter().zip(&judged);
    let findings: Vec<Finding<'_>> = findings
        .map(|((experiment, results, _), judgements)| Finding {
            experiment,
            results,
            judgements,
        })
        .collect();
    write("--output", &args.output, &page(&findings))?;
    let mut pictures = Vec::new();
    if let Some(directory) = &args.svg {
        fs::create_dir_all(directory)
            .map_err(|error| Failure::new(format!("--svg: cannot make {}: {error}", directory.display())))?;
        for finding in &findings {
            for figure in (finding.experiment.figures)() {
                if let Some(plot) = figure.plot(finding.results) {
                    let path = directory.join(format!("{}-{}.svg", finding.experiment.name, figure.name));
                    write("--svg", &path, &plot.to_file())?;
                    pictures.push(path);
                }
            }
        }
    }
    tell::report(args.observe.output(), &args.output, &pictures);
    Ok(())
}

fn write(flag: &str, path: &Path, content: &str) -> Result<(), Failure> {
    fs::write(path, content)
        .map_err(|error| Failure::new(format!("{flag}: cannot write {}: {error}", path.display())))
}
