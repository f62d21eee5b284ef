//! Warns if kept results are older than the code that this program was built from.

use std::fs;
use std::path::Path;

use anabranch_lab::{Experiment, SOURCES};
use serde_json::Value;

use crate::output::note;

/// Where the repository keeps the results of the full setting, as seen from its root.
const KEPT: &str = "results/lab";

/// Notes which of these experiments have results in [`KEPT`], below the working directory, that other code made.
pub(super) fn warn(experiments: &[Experiment]) {
    let Ok(machine) = fs::read_to_string(Path::new(KEPT).join("machine.json")) else {
        return;
    };
    let names = experiments.iter().map(|experiment| experiment.name);
    let old = older(&machine, names);
    if !old.is_empty() {
        note(format!(
            "{KEPT}: results of other code than this program's: {}; scripts/long/lab --changed makes again what changed",
            old.join(", ")
        ));
    }
}

/// The experiments among `names` that `machine` lists, and whose results have another digest of the sources than this program, or none.
fn older<'a>(machine: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let Ok(machine) = serde_json::from_str::<Value>(machine) else {
        return Vec::new();
    };
    let is_kept = |name: &&str| machine["seconds"].get(*name).is_some();
    let is_same = |name: &&str| machine["sources"][*name] == SOURCES;
    names.filter(|name| is_kept(name) && !is_same(name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_of_other_sources_are_old() {
        let old =
            |machine: Value| older(&machine.to_string(), ["eca", "tcp", "recovery"].into_iter()).join(" ");
        let seconds = json!({"eca": 1, "tcp": 2});
        assert_eq!(old(json!({"seconds": seconds})), "eca tcp", "without digests");
        let sources = json!({"eca": SOURCES, "tcp": "0123456789abcdef"});
        assert_eq!(old(json!({"seconds": seconds, "sources": sources})), "tcp");
        let sources = json!({"eca": SOURCES, "tcp": SOURCES});
        assert_eq!(old(json!({"seconds": seconds, "sources": sources})), "");
        assert!(older("", ["eca"].into_iter()).is_empty(), "no results");
    }
}
