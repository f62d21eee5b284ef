//! `anabranch lab`: the papers' experiments, run in virtual time by the code that runs on real networks, and what they
//! claim, judged.

mod kept;
mod measure;
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

use anabranch_lab::{
    Experiment, Extent, Finding, Judgement, experiment_from_toml, experiments, report as page,
};
use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::Observe;
use measure::Measuring;
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
    /// List the experiments: what each asks, and whose it is
    List(ListArgs),
    /// Run experiments and show their numbers
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
  anabranch lab run time-sensitive --quick --set rtt=50 --set distance=4
  anabranch lab run stream-priority --only link=56 --pcap packets.pcapng
  anabranch lab run --all --quick
  anabranch lab run examples/lab/voice-uplink.toml
  anabranch lab run nr-sack-forward-tsn --bed --short --seeds 5

Numbers are means over the seeds, with half the width of their 95 % interval. Equal seeds give equal numbers, whatever
the number of jobs. With --pcap one run is made, and nothing else: the first of the cells that are left, with seed 1.")]
struct RunArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    effort: Effort,
    /// Only the cells at this place of an axis; may be given more than once
    #[arg(long, value_name = "AXIS=PLACE", value_parser = axis_and_place)]
    only: Vec<(String, String)>,
    /// Change a setting of the experiment, which `lab list` names; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<(String, String)>,
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
    /// The experiments, or files in TOML with experiments of one's own
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
    /// How many runs at a time; left out, as many as there are processors, and on the bed three times as many
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<NonZeroUsize>,
    /// Run each cell on real packets too, beside the kernel's TCP, and set both halves side by side (Linux, root); without --only
    /// the cells that the experiment names for it
    #[arg(long)]
    bed: bool,
    /// Keep the numbers of every run in this directory, as EXPERIMENT.csv and EXPERIMENT.json, and go on from what is there;
    /// with Ctrl-C what is done is kept
    #[arg(long, value_name = "DIRECTORY")]
    results: Option<PathBuf>,
}

impl Effort {
    fn seeds_of(&self, experiment: &Experiment) -> u64 {
        self.seeds.unwrap_or_else(|| (experiment.seeds)(self.extent()))
    }

    fn extent(&self) -> Extent {
        match (self.quick, self.short) {
            (true, _) => Extent::Quick,
            (false, true) => Extent::Short,
            (false, false) => Extent::Full,
        }
    }
}

/// Names and what they are to be. (Options say the type in full, by which clap knows that they may come more than once.)
type Pairs = Vec<(String, String)>;

fn axis_and_place(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| "give an axis and a place on it, like loss=0.1".to_owned())
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| "give a setting and its value, like rtt=50".to_owned())
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
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: LabArgs, interrupt: Interrupt) -> Result<(), Failure> {
    if args.observe().pcap.is_some() && !matches!(args.command, LabCommand::Run(_)) {
        return Err(Failure::new(
            "--pcap: packets are written by `lab run`, of one run",
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
        LabCommand::Run(args) => {
            let real = Real::new(&args.effort, &stop)?;
            real.explaining(show(&args, &real, &stop))
        }
        LabCommand::Check(args) => {
            let real = Real::new(&args.effort, &stop)?;
            real.explaining(check(&args, &real, &stop))
        }
        LabCommand::Report(args) => {
            let real = Real::new(&args.effort, &stop)?;
            real.explaining(report(&args, &real, &stop))
        }
    });
    work.await
        .map_err(|error| Failure::new(format!("the experiment ended early: {error}")))?
}

/// The experiment of this name, or that of a file whose name ends in .toml.
fn experiment(name: &str) -> Result<Experiment, Failure> {
    if name.ends_with(".toml") {
        let text =
            fs::read_to_string(name).map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
        return experiment_from_toml(&text).map_err(|error| Failure::new(format!("{name}: {error}")));
    }
    experiments::named(name).ok_or_else(|| {
        let names: Vec<&str> = experiments::all()
            .iter()
            .map(|experiment| experiment.name)
            .collect();
        Failure::new(format!(
            "there is no experiment {name:?}; there are: {}; or give a file that ends in .toml",
            names.join(", ")
        ))
    })
}

fn show(args: &RunArgs, real: &Real, stop: &AtomicBool) -> Result<(), Failure> {
    let chosen = real.beside(args.chosen.experiments()?, !args.only.is_empty())?;
    if args.csv.is_some() && chosen.len() > 1 {
        let why = "each experiment has columns of its own; --results DIRECTORY keeps a file for each";
        return Err(Failure::new(format!("--csv takes one experiment: {why}")));
    }
    let pairs = (&args.only, &args.set);
    let measuring = Measuring::new(&chosen, &args.effort, pairs, args.observe.json, stop)?;
    let output = args.observe.output();
    if let Some(path) = &args.observe.pcap {
        let place = measuring.capture(path)?;
        tell::capture(output, path, &place);
        return Ok(());
    }
    for measured in measuring.results() {
        if measured.is_err()
            && let Some((experiment, results)) = measuring.so_far()
        {
            tell::results(output, &experiment, &results);
        }
        let (experiment, results) = measured?;
        tell::results(output, &experiment, &results);
        if let Some(path) = &args.csv {
            write("--csv", path, &results.to_csv())?;
        }
    }
    Ok(())
}

fn check(args: &CheckArgs, real: &Real, stop: &AtomicBool) -> Result<(), Failure> {
    let chosen = real.beside(args.chosen.experiments()?, false)?;
    let none = Pairs::new();
    let measuring = Measuring::new(&chosen, &args.effort, (&none, &none), args.observe.json, stop)?;
    let mut out_of_order = Vec::new();
    for measured in measuring.results() {
        let (experiment, results) = measured?;
        let claims = (experiment.claims)();
        let judgements: Vec<_> = claims.iter().map(|claim| claim.judge(&results)).collect();
        tell::judgements(args.observe.output(), &experiment, &results, &judgements);
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

fn report(args: &ReportArgs, real: &Real, stop: &AtomicBool) -> Result<(), Failure> {
    let chosen = real.beside(args.chosen.experiments()?, false)?;
    let none = Pairs::new();
    let measuring = Measuring::new(&chosen, &args.effort, (&none, &none), args.observe.json, stop)?;
    let mut ran = Vec::new();
    for measured in measuring.results() {
        let (experiment, results) = measured?;
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
    let pictures = match &args.svg {
        Some(directory) => write_pictures(directory, &findings)?,
        None => Vec::new(),
    };
    tell::report(args.observe.output(), &args.output, &pictures);
    Ok(())
}

/// Each picture in a file of its own.
fn write_pictures(directory: &Path, findings: &[Finding<'_>]) -> Result<Vec<PathBuf>, Failure> {
    fs::create_dir_all(directory)
        .map_err(|error| Failure::new(format!("--svg: cannot make {}: {error}", directory.display())))?;
    let mut pictures = Vec::new();
    for finding in findings {
        for figure in (finding.experiment.figures)() {
            if let Some(plot) = figure.plot(finding.results) {
                let path = directory.join(format!("{}-{}.svg", finding.experiment.name, figure.name));
                write("--svg", &path, &plot.to_file())?;
                pictures.push(path);
            }
        }
    }
    Ok(pictures)
}

fn write(flag: &str, path: &Path, content: &str) -> Result<(), Failure> {
    fs::write(path, content)
        .map_err(|error| Failure::new(format!("{flag}: cannot write {}: {error}", path.display())))
}
