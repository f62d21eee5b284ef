//! The files with the numbers of an experiment's runs, for later commands and for other programs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

use anabranch_lab::{Conditions, Experiment, Known, SOURCES};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::output::{hex, note};

/// The files of an experiment.
#[derive(Debug)]
pub(super) struct Kept {
    /// The CSV file, which later commands read.
    pub(super) path: PathBuf,
}

impl Kept {
    /// The files for these settings: changed settings give other numbers, and are part of the file name.
    pub(super) fn new(directory: &Path, experiment: &Experiment, conditions: &Conditions) -> Self {
        let settings = conditions.knobs.iter();
        let name = settings.fold(experiment.name.to_owned(), |name, (knob, value)| {
            format!("{name}-{knob}={value}")
        });
        Self {
            path: directory.join(format!("{name}.csv")),
        }
    }

    /// The kept results of this build of the program.
    pub(super) fn read(&self, experiment: &Experiment, conditions: &Conditions) -> Result<Known, Failure> {
        let csv = match fs::read_to_string(&self.path) {
            Ok(csv) => csv,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Known::default()),
            Err(error) => return Err(failure("cannot read", &self.path, &error.to_string())),
        };
        let known = Known::from_csv(experiment, conditions, &csv).map_err(|error| {
            let problem = format!("{error}; move the file away to start from the beginning");
            failure("cannot continue from", &self.path, &problem)
        })?;
        let others = csv.lines().count().saturating_sub(1 + known.len());
        if others > 0 {
            note(format!(
                "{}: {others} runs of another build or extent are not used, and will be overwritten",
                self.path.display()
            ));
        }
        Ok(known)
    }

    /// Writes the rows to the CSV file and to a JSON file in the same directory.
    pub(super) fn write(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        known: &Known,
    ) -> Result<(), Failure> {
        write_whole(&self.path, &known.to_csv(experiment, conditions))?;
        // `with_extension` is wrong here, because settings in the file name can contain dots.
        let stem = self.path.to_string_lossy();
        let json = PathBuf::from(format!("{}.json", stem.trim_end_matches(".csv")));
        write_whole(&json, &known.to_json(experiment, conditions))
    }
}

/// Replaces a file atomically: if the program is killed while it writes, the old file remains. A link that has
/// the name of the unfinished file, or such a file of a run that was killed, is removed and never written to.
fn write_whole(path: &Path, content: &str) -> Result<(), Failure> {
    let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let create = || {
        let _ = fs::remove_file(&unfinished);
        fs::File::create_new(&unfinished)
    };
    directory
        .and_then(|()| create()?.write_all(content.as_bytes()))
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(|error| failure("cannot write", path, &error.to_string()))
}

fn failure(what: &str, path: &Path, problem: &str) -> Failure {
    Failure::new(format!("--results: {what} {}: {problem}", path.display()))
}

/// The version with a hash of the program, because another build may give other numbers; and the digest of the sources, which tells later
/// whether the numbers are older than the code.
pub(super) fn version() -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let make = || {
        let program = env::current_exe().and_then(fs::read);
        let build = program.map_or_else(
            |_| "unknown".to_owned(),
            |program| hex(&Sha256::digest(program)[..4]),
        );
        format!("{}+{build}.{SOURCES}", env!("CARGO_PKG_VERSION"))
    };
    VERSION.get_or_init(make).clone()
}
