//! The scripts of `scripts/long` measure a small cell and keep its results; a second call skips the cell. The measured numbers have no
//! bounds here.

#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

mod common;

use common::{directory, text};

/// Runs a script; `None`, with a message, if there is no Python.
fn script(name: &str, args: &[&str]) -> Option<Output> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/long");
    let mut command = Command::new("python3");
    let command = command.arg(folder.join(name)).args(args);
    let output = command.env("ANABRANCH", env!("CARGO_BIN_EXE_anabranch")).output();
    if output.is_err() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no python3");
    }
    output.ok()
}

/// Measures the quick cell twice. Returns the kept records, and the output of the second call.
fn kept(name: &str, args: &[&str]) -> Option<(Vec<Value>, String)> {
    let file = directory(&format!("long-{name}")).join("kept.jsonl");
    let file_name = file.to_str().unwrap();
    let common = ["--quick", "--commit", "test", "--results", file_name];
    let mut said = String::new();
    for _ in 0..2 {
        let output = script(name, &[&common, args].concat())?;
        said = text(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    }
    let lines = fs::read_to_string(&file).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    Some((records.collect(), said))
}

/// The program of the swarm, if it was built in the same directory as this test.
fn swarm() -> Option<PathBuf> {
    let this = std::env::current_exe().unwrap();
    let is_swarm = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("swarm-") && !name.contains('.')
    };
    let built = fs::read_dir(this.parent().unwrap()).unwrap();
    let built = built.map(|entry| entry.unwrap().path()).filter(is_swarm);
    built.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap())
}

#[test]
fn ping_keeps_percentiles() {
    let Some((records, said)) = kept("ping", &[]) else {
        return;
    };
    let [record] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(
        (&record["commit"], &record["cell"]["seed"]),
        (&"test".into(), &1.into())
    );
    let [p50, p90, p99] = ["p50_ms", "p90_ms", "p99_ms"].map(|part| record[part].as_f64().unwrap());
    assert!(p50 > 0.0 && p50 <= p90 && p90 <= p99, "{record}");
    assert!(said.contains("1 of 1 cells are kept"), "{said}");
    assert!(said.contains("| 3 % | defaults | 1 | 100 |"), "{said}");
}

#[test]
fn swarm_keeps_its_blocks() {
    let Some(program) = swarm() else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: the swarm is not built");
        return;
    };
    let Some((records, said)) = kept("swarm", &["--program", program.to_str().unwrap()]) else {
        return;
    };
    let [record] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(
        (&record["cell"]["to"], &record["failed"]),
        (&20.into(), &Value::Array(Vec::new()))
    );
    assert!(!record["reached"].as_object().unwrap().is_empty(), "{record}");
    assert!(
        said.contains("1 of 1 cells are kept") && said.contains("20 seeds, 0 failed"),
        "{said}"
    );
}

/// These scripts need root and several minutes. The test makes their tables from records that are written by hand.
#[test]
fn tables_are_made_of_what_is_kept() {
    let metrics = |value: f64| -> Value {
        let names = [
            "in_time", "delay_99", "timeouts", "tcp", "share", "least", "most", "jain", "goodput", "not_held",
        ];
        names
            .iter()
            .map(|name| ((*name).to_owned(), vec![value; 3].into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let cells = [
        (
            "rivals",
            serde_json::json!({ "traffic": "video", "loss": "3", "beside": "nobody", "sender": "low-latency" }),
        ),
        (
            "shares",
            serde_json::json!({ "sender": "bbr", "tcp": "reno", "flows": 4, "queue_limit": "bdp" }),
        ),
    ];
    for (name, mut cell) in cells {
        (cell["seeds"], cell["seconds"]) = (3.into(), 30.into());
        let mut bed = metrics(99.5);
        bed["not_held"] = vec![0.0; 3].into();
        let record = serde_json::json!({ "commit": "abc", "cell": cell, "when": "2026-11-22T20:00:00", "others": 0.01,
            "simulated": metrics(99.9), "bed": bed });
        let file = directory(&format!("long-{name}")).join("kept.jsonl");
        // An interruption truncated the last line.
        fs::write(&file, format!("{record}\n{{\"commit\": \"a")).unwrap();
        let Some(output) = script(name, &["--show", "--results", file.to_str().unwrap()]) else {
            return;
        };
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(
            said.contains("commit abc, 1 cells") && !said.contains("PROVISIONAL"),
            "{said}"
        );
        assert!(said.contains("99.50 (99.50 to 99.50) | 99.90"), "{said}");
        assert!(
            said.contains(if name == "rivals" {
                "| 99 | met |"
            } else {
                "| missed |"
            }),
            "{said}"
        );
    }
}

#[test]
fn findings_of_fuzzing_are_told() {
    let file = directory("long-fuzz").join("kept.jsonl");
    let record = |finding: bool| {
        serde_json::json!({ "commit": "abc", "cell": { "target": "pair", "seconds": 600 }, "when": "2026-11-22T20:00:00",
            "others": 0.5, "tried": 9000, "edges": 7061, "finding": finding })
    };
    for finding in [false, true] {
        fs::write(&file, format!("{}\n", record(finding))).unwrap();
        let Some(output) = script("fuzz", &["--show", "--results", file.to_str().unwrap()]) else {
            return;
        };
        let word = if finding { "yes" } else { "no" };
        let said = text(&output.stdout);
        assert!(
            said.contains(&format!("| pair | 600 | 9000 | 7061 | {word} |")),
            "{said}"
        );
        assert_eq!(output.status.success(), !finding);
    }
}

#[test]
fn help_teaches() {
    for name in ["ping", "shares", "rivals", "ablation", "swarm", "lab", "fuzz"] {
        let Some(output) = script(name, &["--help"]) else {
            return;
        };
        let said = text(&output.stdout);
        assert!(output.status.success() && said.contains("examples:"), "{said}");
        assert!(said.contains(&format!("scripts/long/{name} --quick")), "{said}");
    }
}

/// The laboratory's script keeps every run, the report and the machine. A second call takes the kept numbers and makes no run again: a
/// number that was changed by hand in between stays.
#[test]
fn the_laboratory_is_kept_whole() {
    let folder = directory("long-lab");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (results, work) = (path("results"), path("work"));
    let args = [
        "--quick",
        "--only",
        "stream-drift",
        "--results",
        &results,
        "--work",
        &work,
    ];
    let call = || {
        let output = script("lab", &args)?;
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
        assert!(
            said.contains("stream-drift: 1 of 1 seeds") && said.contains("| stream-drift | 15 |"),
            "{said}"
        );
        Some(())
    };
    if call().is_none() {
        return;
    }
    let machine: Value =
        serde_json::from_str(&fs::read_to_string(path("results/machine.json")).unwrap()).unwrap();
    assert!(machine["machine"]["processors"].as_u64() >= Some(1), "{machine}");
    let digest = machine["sources"]["stream-drift"].as_str().expect("a digest");
    assert!(
        digest.len() == 16 && digest.chars().all(|digit| digit.is_ascii_hexdigit()),
        "{machine}"
    );
    let page = fs::read_to_string(path("results/report.html")).unwrap();
    assert!(page.contains("stream-drift") && page.contains("<svg"));
    for kept in ["stream-drift.csv.gz", "stream-drift.json.gz"] {
        let kept = fs::metadata(path(&format!("results/{kept}"))).unwrap();
        assert!(kept.len() > 100, "{kept:?}");
    }
    let runs = path("work/runs/stream-drift.csv");
    let csv = fs::read_to_string(&runs).unwrap();
    let column = csv
        .lines()
        .next()
        .unwrap()
        .split(',')
        .position(|name| name.starts_with("drift"));
    let row = csv.lines().nth(1).unwrap();
    let mut cells: Vec<&str> = row.split(',').collect();
    cells[column.expect("a column of the drift")] = "12345";
    fs::write(&runs, csv.replace(row, &cells.join(","))).unwrap();
    call();
    let again = fs::read_to_string(&runs).unwrap();
    assert!(again.contains(",12345,"), "{again}");
    assert_eq!(again.lines().count(), 1 + 15);
}
