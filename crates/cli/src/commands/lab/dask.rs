//! `lab run --dask`: the Python package `anabranch` talks to the cluster, because Dask is a Python library.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use super::RunArgs;
use crate::failure::Failure;

/// The variable that names the Python interpreter, if it is not `python3`.
const PYTHON: &str = "ANABRANCH_PYTHON";

/// Runs the experiments with the same arguments in Python.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let python = env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    check(&python)?;
    let mut command = Command::new(&python);
    command
        .args(["-m", "anabranch.lab", "run"])
        .args(arguments(args)?);
    let status = command
        .status()
        .map_err(|error| missing(&python, &error.to_string()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(130) | None => Err(Failure::interrupted(
            "the sweep on the cluster was interrupted".to_owned(),
        )),
        Some(_) => Err(Failure::new("--dask: the sweep failed; the message is above")),
    }
}

/// Checks that the Python has the package and Dask.
fn check(python: &OsString) -> Result<(), Failure> {
    let imports = Command::new(python)
        .args(["-c", "import anabranch.lab, distributed"])
        .output();
    match imports {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(missing(python, said.lines().last().unwrap_or("no message")))
        }
        Err(error) => Err(missing(python, &error.to_string())),
    }
}

fn missing(python: &OsString, problem: &str) -> Failure {
    let python = python.to_string_lossy();
    Failure::new(format!(
        "--dask needs the Python package anabranch with Dask: {python}: {problem}; install it by pip install 'anabranch[dask]', or name \
         another Python in {PYTHON}"
    ))
}

fn arguments(args: &RunArgs) -> Result<Vec<OsString>, Failure> {
    // An unknown name is an error before Python starts.
    args.chosen.experiments()?;
    let mut all = names(args);
    let mut add = |flag: &str, value: OsString| all.extend([flag.into(), value]);
    if let Some(address) = &args.dask {
        add("--dask", address.into());
    }
    if let Some(seeds) = args.effort.seeds {
        add("--seeds", seeds.to_string().into());
    }
    if let Some(directory) = &args.effort.results {
        add("--results", directory.into());
    }
    if let Some(file) = &args.csv {
        add("--csv", file.into());
    }
    for (axis, place) in &args.choice.only {
        add("--only", format!("{axis}={place}").into());
    }
    for (name, value) in &args.choice.set {
        if value.contains(',') {
            return Err(Failure::new(format!(
                "--set {name}={value}: with --dask a setting has one value"
            )));
        }
        add("--set", format!("{name}={value}").into());
    }
    all.extend(args.effort.quick.then(|| "--quick".into()));
    all.extend(args.effort.short.then(|| "--short".into()));
    Ok(all)
}

/// The names or files of the chosen experiments.
fn names(args: &RunArgs) -> Vec<OsString> {
    let named = args.chosen.names.iter().map(OsString::from);
    match args.chosen.all {
        true => anabranch_lab::experiments::all()
            .iter()
            .map(|experiment| experiment.name.into())
            .collect(),
        false => named.collect(),
    }
}
