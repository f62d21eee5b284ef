//! `anabranch lab`, run as a user runs it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .arg("lab")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every claim of every experiment that the quick setting can judge. A claim that must hold does; another may fail only
/// if its reason is known: the status says so.
#[test]
fn what_the_papers_claim_holds() {
    let output = lab(&["check", "--all", "--quick", "--json"]);
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{error}\n{out}");
    let experiments: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(experiments.len(), 5, "{out}");
    for experiment in &experiments {
        let claims = experiment["claims"].as_array().expect("claims");
        let must = claims.iter().filter(|claim| claim["must"] == true);
        let unheld: Vec<_> = must.clone().filter(|claim| claim["verdict"] != "holds").collect();
        assert!(must.count() >= 3, "{experiment}");
        assert!(unheld.is_empty(), "{unheld:?}");
        let absent: Vec<_> = claims
            .iter()
            .filter(|claim| claim["verdict"] == "not run")
            .collect();
        assert!(
            absent.is_empty(),
            "the quick setting judges every claim: {absent:?}"
        );
    }
}

#[test]
fn equal_seeds_give_equal_files_on_any_number_of_jobs() {
    let file = |jobs: &str| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{jobs}.csv"));
        let arguments = [
            "run",
            "time-sensitive",
            "--quick",
            "--seeds",
            "2",
            "--only",
            "loss=0.1",
        ];
        let output = lab(&[
            &arguments[..],
            &["--jobs", jobs, "--csv", path.to_str().expect("UTF-8")],
        ]
        .concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let csv = fs::read_to_string(&path).expect("the file is written");
        let _ = fs::remove_file(path);
        csv
    };
    let one = file("1");
    assert_eq!(one, file("3"));
    assert_eq!(
        one.lines().count(),
        1 + 6 * 2,
        "a row for each run of six variants"
    );
}

#[test]
fn mistakes_are_named_with_what_there_is() {
    let error = |arguments: &[&str]| {
        let output = lab(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        text(&output.stderr)
    };
    assert!(error(&["run", "nonsense"]).contains(
        "there are: eca, nr-sack-forward-tsn, retransmission-queue, stream-priority, time-sensitive"
    ));
    assert!(error(&["run", "time-sensitive", "--only", "colour=red"]).contains("it has: loss, variant"));
    let places = error(&["run", "time-sensitive", "--quick", "--only", "loss=7"]);
    assert!(places.contains("it has: 0, 0.05"), "{places}");
    assert!(error(&["check"]).contains("NAME"));
}

#[test]
fn a_report_is_one_page_with_its_pictures() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lab-report");
    let (page, pictures) = (directory.with_extension("html"), directory.join("pictures"));
    let output = lab(&[
        "report",
        "time-sensitive",
        "--quick",
        "--seeds",
        "2",
        "--output",
        page.to_str().expect("UTF-8"),
        "--svg",
        pictures.to_str().expect("UTF-8"),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let html = fs::read_to_string(&page).expect("the page is written");
    let files = fs::read_dir(&pictures).expect("the pictures are written").count();
    assert!(files >= 4 && html.matches("<svg").count() == files, "{files}");
    for part in [
        "Basto, Freitas",
        "class=\"verdict",
        "The paper: ",
        "prefers-color-scheme",
        "0.18 s",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(
        !html.contains("http://")
            || html.matches("http://").count() == html.matches("http://www.w3.org").count()
    );
    let _ = fs::remove_file(page);
    let _ = fs::remove_dir_all(directory);
}

/// What is kept is not run again; what another program made, or what is no such file, is not taken for it.
#[test]
fn what_is_kept_is_gone_on_from() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lab-kept");
    let _ = fs::remove_dir_all(&directory);
    let file = directory.join("time-sensitive.csv");
    let run = |seeds: &str| {
        let fixed = [
            "run",
            "time-sensitive",
            "--quick",
            "--only",
            "loss=0",
            "--results",
        ];
        lab(&[
            &fixed[..],
            &[directory.to_str().expect("UTF-8"), "--seeds", seeds],
        ]
        .concat())
    };
    let kept = || fs::read_to_string(&file).expect("the numbers are kept");
    assert!(run("1").status.success());
    let one = kept();
    assert_eq!(one.lines().count(), 1 + 5);
    assert!(run("2").status.success());
    let two = kept();
    assert_eq!(two.lines().count(), 1 + 5 * 2);
    assert!(one.lines().all(|row| two.contains(row)), "{two}");
    let output = run("2");
    let said = text(&output.stderr);
    assert!(
        kept() == two && said.contains("10 of 10") && !said.contains("5 of 10"),
        "nothing is left to do: {said}"
    );

    fs::write(&file, two.replace("+", "+0")).expect("the file is there");
    let output = run("1");
    assert!(
        text(&output.stderr).contains("10 runs of another build"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(kept(), one);
    fs::write(&file, "a,b\n").expect("the file is there");
    let output = run("1");
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("--results") && said.contains("move the file away"),
        "{said}"
    );
    let _ = fs::remove_dir_all(directory);
}
