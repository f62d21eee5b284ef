//! The file that keeps the numbers of an experiment's runs from one command to the next.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, io};

use anabranch_lab::{Experiment, Extent, Known};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::output::{hex, note};

/// Where the numbers of an experiment are.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) path: PathBuf,
}

impl Kept {
    pub(super) fn new(directory: &Path, experiment: &Experiment) -> Self {
        Self {
            path: directory.join(format!("{}.csv", experiment.name)),
        }
    }

    /// What this very program found before.
    pub(super) fn read(
        &self,
        experiment: &Experiment,
        extent: Extent,
        version: &str,
    ) -> Result<Known, Failure> {
        let csv = match fs::read_to_string(&self.path) {
            Ok(csv) => csv,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Known::default()),
            Err(error) => return Err(self.failure("cannot read", &error.to_string())),
        };
        let known = Known::from_csv(experiment, extent, version, &csv).map_err(|error| {
            let problem = format!("{error}; move the file away to begin anew");
            self.failure("cannot go on from", &problem)
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

    pub(super) fn write(&self, csv: &str) -> Result<(), Failure> {
        let directory = self.path.parent().map_or(Ok(()), fs::create_dir_all);
        // Whole or not at all: an end in the middle of writing leaves the old file.
        let unfinished = self.path.with_extension("csv.new");
        directory
            .and_then(|()| fs::write(&unfinished, csv))
            .and_then(|()| fs::rename(&unfinished, &self.path))
            .map_err(|error| self.failure("cannot write", &error.to_string()))
    }

    fn failure(&self, what: &str, problem: &str) -> Failure {
        Failure::new(format!("--results: {what} {}: {problem}", self.path.display()))
    }
}

/// The version, and with it a hash of the program: numbers of another build may be others.
pub(super) fn version() -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let make = || {
        let program = env::current_exe().and_then(fs::read);
        let build = program.map_or_else(
            |_| "unknown".to_owned(),
            |program| hex(&Sha256::digest(program)[..4]),
        );
        format!("{}+{build}", env!("CARGO_PKG_VERSION"))
    };
    VERSION.get_or_init(make).clone()
}
