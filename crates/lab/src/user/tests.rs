//! Valid files run, and the errors of invalid files name key and line.

use super::*;
use crate::trial::{Knobs, Trial};

const EXAMPLES: [&str; 2] = [
    include_str!("../../../../examples/lab/voice-uplink.toml"),
    include_str!("../../../../examples/lab/two-paths.toml"),
];

#[test]
fn the_examples_run() {
    for text in EXAMPLES {
        let experiment = experiment_from_toml(text).unwrap();
        let cells = (experiment.cells)(Extent::Quick);
        assert!(cells.len() >= 2, "{}", experiment.name);
        let names: Vec<&str> = experiment.metrics.iter().map(|metric| metric.name).collect();
        let coordinates: Vec<_> = cells.iter().map(Cell::coordinates).collect();
        for figure in (experiment.figures)() {
            assert_eq!(figure.fault(&coordinates, &names), None, "{}", experiment.name);
        }
        let numbers = cells[0].run(&Trial::new(1, &Knobs::default())).unwrap();
        assert_eq!(numbers.len(), names.len());
        let delivered = names
            .iter()
            .position(|name| name.ends_with("_delivered"))
            .unwrap();
        assert!(numbers[delivered] > 0.5, "{}: {numbers:?}", experiment.name);
    }
}

/// The sweep and the variants' settings reach the runs.
#[test]
fn variants_and_the_sweep_differ() {
    let experiment = experiment_from_toml(EXAMPLES[0]).unwrap();
    let cells = (experiment.cells)(Extent::Quick);
    let run = |variant: &str, loss: &str, metric: &str| {
        let cell = cells
            .iter()
            .find(|cell| cell.lies_at(&[("variant", variant), ("loss", loss)]));
        let numbers = cell.unwrap().run(&Trial::new(1, &Knobs::default())).unwrap();
        let place = experiment.metrics.iter().position(|known| known.name == metric);
        numbers[place.unwrap()]
    };
    assert!(run("plain", "0%", "upload_goodput") > 1.1 * run("plain", "3%", "upload_goodput"));
    assert!(run("urgent", "3%", "voice_in_time") > run("plain", "3%", "voice_in_time") + 0.5);
}

const GOOD: &str = "name = \"mine\"\n[[paths]]\nthere = \"rate=1mbit\"\n[[traffic]]\nname = \"voice\"\nbytes = 160\nevery = \"20ms\"\n\
                    [[variants]]\nname = \"plain\"\n";

#[test]
fn errors_name_key_and_line() {
    assert!(experiment_from_toml(GOOD).is_ok());
    let told = |from: &str, to: &str| {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        experiment_from_toml(&text).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("name = \"mine\"\n", "", "line 1: name is missing"),
        (
            "mine",
            "My own",
            "line 1: name cannot be \"My own\": give lower-case",
        ),
        ("rate=1mbit", "rate=fast", "line 3: paths.there is not a link: "),
        ("there =", "their =", "line 2: paths.there is missing"),
        (
            "bytes = 160",
            "bytes = 0",
            "line 6: traffic.bytes must be a whole number from 1 to 65536",
        ),
        (
            "every = \"20ms\"",
            "every = \"soon\"",
            "line 7: traffic.every cannot be \"soon\": give a time",
        ),
        ("every = \"20ms\"", "", "line 4: traffic.every is missing"),
        (
            "every = \"20ms\"",
            "backlog = \"64kib\"",
            "line 4: traffic must have messages with `every`",
        ),
        (
            "every =",
            "colour = 1\nevery =",
            "line 7: traffic.colour is unknown; known keys: name, bytes, every",
        ),
        (
            "[[variants]]\nname = \"plain\"\n",
            "",
            "line 1: variants must occur 1 to 16 times",
        ),
        (
            "\"plain\"",
            "\"plain\"\nexpiry = 1",
            "line 10: variants.expiry must be true or false",
        ),
        (
            "\"plain\"",
            "\"plain\"\nlow_priority_delay = \"9ms\"",
            "line 9: variants.name \"plain\": low_priority_delay needs",
        ),
        (
            "[[paths]]",
            "metrics = [\"noise\"]\n[[paths]]",
            "line 2: metrics cannot have \"noise\"; there are: voice_delivered",
        ),
        (
            "[[paths]]",
            "[sweep]\nlink = \"loss\"\nvalues = [\"lots\"]\n[[paths]]",
            "line 4: sweep.values cannot have \"lots\"",
        ),
        (
            "[[paths]]",
            "[sweep]\nlink = \"loss\"\nvalues = []\n[[paths]]",
            "line 4: sweep.values must be texts",
        ),
        (
            "[[paths]]",
            "[paths]",
            "line 2: paths must be a list of tables: [[paths]]",
        ),
        ("bytes = 160", "bytes = = 160", "line 6: "),
    ] {
        let told = told(from, to);
        assert!(told.starts_with(expected), "{told}\n{expected}");
    }
}
