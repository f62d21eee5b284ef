//! Every command that the README shows, run.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of all `sh` blocks of a document.
fn commands(document: &str) -> Vec<&str> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in document.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside => commands.push(command),
            _ => {}
        }
    }
    commands
}

/// Runs the command that cargo would build and run, as it is built for the tests.
fn run_anabranch(arguments: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(arguments.split_whitespace())
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("the command starts");
    assert!(
        output.status.success(),
        "anabranch {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!output.stdout.is_empty(), "anabranch {arguments} says something");
}

#[test]
fn every_command_of_the_readme_works() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let commands = commands(&readme);
    assert!(commands.len() >= 3, "{commands:?}");
    for command in commands {
        if let Some(arguments) = command.strip_prefix("cargo run --release --bin anabranch -- ") {
            run_anabranch(arguments);
        } else if command == "./scripts/test" {
            // It runs this test: what is left to see is that what lands is judged by it and nothing else.
            let ci = std::fs::read_to_string(root().join(".ci/run")).expect(".ci/run");
            assert!(ci.contains("scripts/test"), "{ci}");
        } else {
            panic!("the README shows a command that no test runs: {command}");
        }
    }
}

/// The numbers in the README's text about the demo and the examples.
#[test]
fn the_readme_counts_the_examples() {
    let examples = std::fs::read_dir(root().join("crates/anabranch/examples")).expect("examples");
    assert_eq!(examples.count(), 6, "the README says that there are six");
}
