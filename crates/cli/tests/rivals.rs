//! `scripts/rivals` measures a cell with two rivals, keeps it, and writes the page. The measured numbers have no bounds here. If this
//! machine cannot have a testbed, the test says so and passes.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

mod common;

use common::{directory, run, text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Why the test cannot run here.
fn impossible() -> Option<String> {
    if Command::new("python3").arg("--version").output().is_err() {
        return Some("there is no python3".to_owned());
    }
    let output = run(&["bed", "run", "--link", "", "--", "true"]);
    (!output.status.success()).then(|| text(&output.stderr))
}

/// Builds the rivals that need no library of the distribution: TCP and Anabranch. The folder stays, so that only the first build is slow.
fn build() -> PathBuf {
    let target = root().join("target/rivals");
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--locked",
            "--quiet",
            "--no-default-features",
            "--manifest-path",
        ])
        .arg(root().join("rivals/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .unwrap();
    assert!(status.success());
    target.join("debug/rival")
}

fn script(rival: &Path, args: &[&str]) -> Output {
    let output = Command::new("python3")
        .arg(root().join("scripts/rivals"))
        .args(args)
        .env("ANABRANCH", env!("CARGO_BIN_EXE_anabranch"))
        .env("RIVAL", rival)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// Game messages by TCP and by Anabranch, each beside a TCP flow.
#[test]
fn a_cell_with_two_rivals_is_measured_and_written_to_the_page() {
    if let Some(reason) = impossible() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
        return;
    }
    let rival = build();
    let folder = directory("rivals");
    let results = folder.join("kept.jsonl");
    let common = ["--commit", "test", "--results", results.to_str().unwrap()];
    let cell = [
        "--runs",
        "1",
        "--seconds",
        "3",
        "--only",
        "traffic=game",
        "--only",
        "link=base",
        "--only",
        "beside=tcp",
        "--only",
        "rival=tcp-cubic,anabranch",
    ];
    let args = [&common[..], &cell].concat();
    script(&rival, &args);
    let said = text(&script(&rival, &args).stdout);
    assert!(said.contains("2 of 2 cells are kept"), "{said}");
    assert!(
        said.contains("game beside a TCP flow") && said.contains("| anabranch |"),
        "{said}"
    );

    let kept = fs::read_to_string(&results).unwrap();
    let records: Vec<Value> = kept
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = records.iter().map(|record| &record["cell"]["rival"]).collect();
    assert_eq!(names, ["tcp-cubic", "anabranch"]);
    for record in &records {
        let run = &record["runs"][0];
        assert_eq!(
            (&run["sent"], &run["failed"]),
            (&180.into(), &Value::Null),
            "{record}"
        );
        let [share, delivered, tcp] =
            ["in_time", "delivered", "tcp_mbit"].map(|name| run[name].as_f64().unwrap());
        assert!(
            (0.0..=100.0).contains(&share) && delivered > 0.0 && tcp > 0.0,
            "{record}"
        );
        // No message is faster than the link.
        assert!(run["median_ms"].as_f64().unwrap() > 40.0, "{record}");
        assert!(!record["version"].as_str().unwrap().is_empty(), "{record}");
    }

    let page = [&common[..], &["--page", folder.to_str().unwrap()]].concat();
    script(&rival, &page);
    let page = fs::read_to_string(folder.join("IN-TIME.md")).unwrap();
    assert!(
        page.contains("### Game beside a TCP flow") && page.contains("PROVISIONAL"),
        "{page}"
    );
    let picture = fs::read_to_string(folder.join("in-time-base.svg")).unwrap();
    assert!(picture.contains("tcp-cubic") && picture.trim_end().ends_with("</svg>"));
}

#[test]
fn help_teaches() {
    let Ok(output) = Command::new("python3")
        .arg(root().join("scripts/rivals"))
        .arg("--help")
        .output()
    else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no python3");
        return;
    };
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("scripts/rivals --quick"),
        "{said}"
    );
}
