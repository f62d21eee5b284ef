//! `anabranch lab`, run as a user runs it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .arg("lab")
        .args(arguments)
        .output()
        .expect("the command starts")
}

/// An empty directory for one test.
fn fresh(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("the directory can be made");
    directory
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks pages in a browser, if one is installed.
fn check_in_browser(pages: &[&Path]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/report-check");
    let judged = Command::new(script).args(pages).output().expect("bash is there");
    let said = text(&judged.stdout);
    assert!(judged.status.success(), "{said}{}", text(&judged.stderr));
    assert!(
        said.matches("is as it must be").count() == pages.len() || said.contains("skipped, no Chromium"),
        "{said}"
    );
}

/// Every claim of every experiment that the quick setting can judge. A claim that must hold does hold. Another claim may fail
/// only for a known reason. The exit status shows both. The report of these numbers has every experiment, and a browser draws it.
#[test]
fn what_the_papers_claim_holds() {
    let directory = fresh("lab-claims");
    let results = utf8(&directory);
    let output = lab(&["check", "--all", "--quick", "--json", "--results", results]);
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{error}\n{out}");
    let mut experiments: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let summary = experiments.pop().expect("a summary");
    let listed = text(&lab(&["list", "--json"]).stdout).lines().count();
    assert_eq!(experiments.len(), listed, "{out}");
    let counted = |name| {
        experiments
            .iter()
            .filter_map(|one| one["tally"][name].as_u64())
            .sum::<u64>()
    };
    assert_eq!(summary["tally"]["hold"], counted("hold"), "the sum of all");
    assert!(counted("by_construction") > 0 && counted("open") > 0, "{summary}");
    for experiment in &experiments {
        let claims = experiment["claims"].as_array().expect("claims");
        let must = claims.iter().filter(|claim| claim["must"] == true);
        let unheld: Vec<_> = must.clone().filter(|claim| claim["verdict"] != "holds").collect();
        assert!(must.count() >= 1, "{experiment}");
        assert!(unheld.is_empty(), "{unheld:?}");
        let absent: Vec<_> = claims
            .iter()
            .filter(|claim| claim["verdict"] == "not run" && !takes_long(claim))
            .collect();
        assert!(
            absent.is_empty(),
            "the quick setting judges every claim: {absent:?}"
        );
    }
    let page = directory.join("page.html");
    let output = lab(&[
        "report",
        "--all",
        "--quick",
        "--results",
        results,
        "--output",
        utf8(&page),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let html = fs::read_to_string(&page).expect("the page is written");
    for experiment in &experiments {
        let name = experiment["experiment"].as_str().expect("a name");
        assert!(html.contains(&format!("id=\"{name}\"")), "{name}");
    }
    check_in_browser(&[&page]);
    let kept = fresh("lab-first-seed");
    let arguments = [
        "run",
        "--all",
        "--quick",
        "--seeds",
        "1",
        "--jobs",
        "3",
        "--results",
        utf8(&kept),
    ];
    let output = lab(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (among, alone) = (first_seed(&directory), first_seed(&kept));
    assert_eq!(among.len(), 2 * listed, "CSV and JSON of each experiment");
    for ((name, ours), (other, theirs)) in among.iter().zip(&alone) {
        assert!(name == other && ours == theirs, "{name:?} and {other:?} differ");
        let heads = usize::from(name.ends_with(".csv"));
        assert!(ours.len() > heads, "{name:?}: {ours:?}");
    }
    assert_eq!(among.len(), alone.len());
    for directory in [directory, kept] {
        let _ = fs::remove_dir_all(directory);
    }
}

/// The rows of the first seed in the results that a run kept, and the heads of the tables, file by file.
fn first_seed(directory: &Path) -> BTreeMap<String, Vec<String>> {
    let is_of_it = |line: &&str| {
        let seed = line.split(',').nth(4);
        line.contains("\"seed\":1,") || matches!(seed, Some("1" | "seed"))
    };
    let files = fs::read_dir(directory).expect("the directory is there");
    let files = files.map(|file| file.expect("a file").path());
    let files = files.filter(|file| {
        file.extension()
            .is_some_and(|kind| kind == "csv" || kind == "json")
    });
    files
        .map(|file| {
            let content = fs::read_to_string(&file).expect("UTF-8");
            let lines = content.lines().filter(is_of_it);
            let lines = lines.map(|line| line.trim_end_matches(',').to_owned());
            (
                file.file_name().expect("a name").to_string_lossy().into_owned(),
                lines.collect(),
            )
        })
        .collect()
}

/// The results of the full setting in the repository: each experiment has a row in CSV for each object in JSON, as many as the page of
/// these results needs, and a browser draws the page.
#[test]
fn the_kept_results_of_the_full_setting_are_whole() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/lab");
    let rows = |file: PathBuf| {
        let output = Command::new("gzip")
            .arg("-dc")
            .arg(&file)
            .output()
            .expect("gzip is there");
        assert!(output.status.success(), "{file:?}: {}", text(&output.stderr));
        text(&output.stdout).lines().count()
    };
    let machine = fs::read_to_string(kept.join("machine.json")).expect("the machine is kept");
    let machine: Value = serde_json::from_str(&machine).expect("JSON");
    let page = kept.join("report.html");
    let html = fs::read_to_string(&page).expect("the page is kept");
    let experiments = machine["seconds"]
        .as_object()
        .expect("a duration for each experiment");
    assert!(experiments.len() >= 17, "{machine}");
    for name in experiments.keys() {
        // A CSV file has a line of names; the array in JSON has a line for each bracket.
        let csv = rows(kept.join(format!("{name}.csv.gz"))) - 1;
        let json = rows(kept.join(format!("{name}.json.gz"))) - 2;
        assert!(csv == json && csv > 10, "{name}: {csv}, {json}");
        assert!(html.contains(&format!("id=\"{name}\"")), "{name}");
    }
    check_in_browser(&[&page]);
}

/// Whether a claim needs cells that the quick setting omits, because they take long.
fn takes_long(claim: &Value) -> bool {
    let says = claim["claim"].as_str().expect("words");
    let long_transfers = ["1 Gbit/s, 100 ms", "100 MB over 250 Mbit/s"];
    // The runs of the paper's figure 7: fixed sizes need the same time, and the quick setting has those.
    let figure_7 = says.contains("normal sizes");
    // Ablations of the sender's rules and of the network, and the cells that take longest, above all those with few losses: only the full
    // setting judges them.
    let ablations = [
        "(rules F)",
        "(rules G)",
        "(rules H)",
        "(rules L)",
        "716 B, 80 % load",
        "5 % loss, four missing reports reduce the window: goodput",
        "1 % loss: selective forward TSN leaves a smaller deviation of the time between deliveries",
        "2 % loss: selective forward TSN leaves a smaller deviation of the time between deliveries",
    ];
    figure_7
        || long_transfers.into_iter().any(|cell| says.starts_with(cell))
        || ablations.into_iter().any(|cell| says.contains(cell))
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
    assert!(places.contains("it has: 0, 0.01"), "{places}");
    assert!(error(&["check"]).contains("NAME"));
    let knobs = error(&["run", "time-sensitive", "--set", "colour=3"]);
    assert!(
        knobs.contains("time-sensitive has no setting \"colour\"; it has: rtt, rto_min"),
        "{knobs}"
    );
    let range = error(&["run", "time-sensitive", "--set", "rtt=0"]);
    assert!(
        range.contains("rtt cannot be \"0\": give a number from 1 to 10000 ms"),
        "{range}"
    );
    assert!(error(&["run", "--all", "--csv", "file"]).contains("--csv takes one experiment"));
    assert!(error(&["check", "--all", "--pcap", "file"]).contains("`lab run`"));
    assert!(error(&["run", "--all", "--pcap", "file"]).contains("give one experiment"));
}

/// The runs of these commands would take hours: each mistake is found before the first run.
#[test]
fn mistakes_in_names_and_paths_are_found_before_the_runs() {
    let directory = fresh("lab-mistakes");
    let (file, inside) = (directory.join("file"), directory.join("file/inside"));
    fs::write(&file, "mine").expect("it can be written");
    let missing = directory.join("missing/page.html");
    let error = |arguments: &[&str], expected: &str| {
        let output = lab(&[arguments, &["--seeds", "10000"]].concat());
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    };
    let run = |more: &[&str], expected: &str| error(&[&["run", "time-sensitive"], more].concat(), expected);
    error(&["run", "time-sensitiv"], "did you mean \"time-sensitive\"?");
    run(&["--set", "rt=5"], "no setting \"rt\"; did you mean \"rtt\"?");
    run(&["--set", "rtt=50,fast"], "rtt cannot be \"fast\"");
    run(&["--only", "los=0"], "no axis \"los\"; did you mean \"loss\"?");
    run(&["--only", "variant=standart"], "did you mean \"standard\"?");
    let no_cell = [
        "run",
        "eca",
        "--quick",
        "--only",
        "reports=4",
        "--only",
        "protocol=eca",
    ];
    error(
        &no_cell,
        "no cell at all these places; the nearest cells are: protocol=eca, ",
    );
    run(&["--csv", utf8(&directory)], "--csv: cannot write");
    run(&["--csv", utf8(&missing)], "give a file in an existing directory");
    run(&["--results", utf8(&file)], "it is a file; give a directory");
    run(
        &["--results", utf8(&inside)],
        "--results: cannot write to the directory",
    );
    run(&["--pcap", utf8(&directory)], "--pcap: cannot write");
    let report = |more: &[&str], expected| error(&[&["report", "time-sensitive"], more].concat(), expected);
    report(&["--output", utf8(&missing)], "--output: cannot write");
    report(&["--svg", utf8(&file)], "--svg: cannot write to the directory");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "mine");
    let _ = fs::remove_dir_all(directory);
}

/// Two places on one axis and two values of a setting: each combination is run.
#[test]
fn only_given_twice_means_or_and_set_takes_lists() {
    let directory = fresh("lab-lists");
    let csv = directory.join("all.csv");
    let output = lab(&[
        "run",
        "time-sensitive",
        "--quick",
        "--seeds",
        "1",
        "--csv",
        utf8(&csv),
        "--results",
        utf8(&directory),
        "--only",
        "loss=0",
        "--only",
        "loss=0.05",
        "--only",
        "variant=standard",
        "--set",
        "rtt=50,100",
        "--set",
        "seconds=1",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = fs::read_to_string(&csv).expect("the numbers are written");
    assert_eq!(rows.lines().count(), 1 + 2 * 2, "{rows}");
    for rtt in ["50", "100"] {
        let kept = directory.join(format!("time-sensitive-rtt={rtt}-seconds=1.csv"));
        let kept = fs::read_to_string(kept).expect("each combination has its own file");
        assert_eq!(kept.lines().count(), 1 + 2, "{kept}");
        let header = kept.lines().next().unwrap_or_default();
        let place = header.split(',').position(|column| column == "set_rtt_ms");
        let place = place.expect("each setting has a column with its unit");
        let row = kept.lines().nth(1).unwrap_or_default();
        assert_eq!(row.split(',').nth(place), Some(rtt), "{header}\n{row}");
        assert!(kept.lines().skip(1).all(|row| rows.contains(row)), "{rows}");
    }
    let _ = fs::remove_dir_all(directory);
}

/// A trace has every message and the sender's state over time, and does not change the numbers.
#[test]
fn a_trace_has_the_messages_and_the_state_of_each_run() {
    let directory = fresh("lab-trace");
    let (traces, plain, with_trace) = (
        directory.join("traces"),
        directory.join("plain.csv"),
        directory.join("traced.csv"),
    );
    let run = |more: &[&str]| {
        let arguments = [
            "run",
            "stream-priority",
            "--quick",
            "--only",
            "link=56",
            "--seeds",
            "2",
        ];
        let output = lab(&[&arguments[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    run(&["--csv", utf8(&plain)]);
    let said = run(&["--csv", utf8(&with_trace), "--trace", utf8(&traces)]);
    let read = |path: &Path| fs::read_to_string(path).expect("the file is written");
    assert_eq!(read(&plain), read(&with_trace));
    let runs = read(&plain).lines().count() - 1;
    assert!(said.contains(&format!("traces of {runs} runs are in ")), "{said}");
    let files: Vec<PathBuf> = fs::read_dir(&traces)
        .expect("the directory is made")
        .map(|file| file.expect("a file").path())
        .collect();
    assert_eq!(files.len(), 2 * runs);
    for file in files {
        let csv = read(&file);
        let columns = match utf8(&file).ends_with("-messages.csv") {
            true => "message,class,bytes,submitted_s,first_sent_s,arrived_s,delivered_s,delay_s",
            false => "time_s,path,cwnd_bytes,ssthresh_bytes,flight_bytes,srtt_s,rto_s,",
        };
        assert!(csv.starts_with(columns), "{}: {csv}", file.display());
        assert!(csv.lines().count() > 50, "{}", file.display());
    }
    let output = lab(&[
        "run",
        "stream-priority",
        "--seeds",
        "10000",
        "--trace",
        utf8(&traces),
    ]);
    assert!(text(&output.stderr).contains("are more than 1000; choose cells by --only"));
    let _ = fs::remove_dir_all(directory);
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
    check_in_browser(&[&page]);
    assert!(
        !html.contains("http://")
            || html.matches("http://").count() == html.matches("http://www.w3.org").count()
    );
    let _ = fs::remove_file(page);
    let _ = fs::remove_dir_all(directory);
}

/// Runs with kept results are skipped. Results of another build, and files of another format, are not used.
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
    assert_eq!(one.lines().count(), 1 + 2);
    assert!(run("2").status.success());
    let two = kept();
    assert_eq!(two.lines().count(), 1 + 2 * 2);
    assert!(one.lines().all(|row| two.contains(row)), "{two}");
    let output = run("2");
    let said = text(&output.stderr);
    assert!(
        kept() == two && said.contains("4 of 4") && !said.contains("2 of 4"),
        "nothing is left to do: {said}"
    );

    fs::write(&file, two.replace("+", "+0")).expect("the file is there");
    let output = run("1");
    assert!(
        text(&output.stderr).contains("4 runs of another build"),
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

/// Several experiments by name: each gives a table and two files. The JSON file has the rows of the CSV file, and the settings.
#[test]
fn several_experiments_leave_files_for_other_programs() {
    let directory = fresh("lab-several");
    let arguments = [
        "run",
        "time-sensitive",
        "stream-priority",
        "--quick",
        "--seeds",
        "1",
        "--results",
    ];
    let output = lab(&[&arguments[..], &[utf8(&directory)]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(
        said.contains("time-sensitive: ") && said.contains("stream-priority: "),
        "{said}"
    );
    for name in ["time-sensitive", "stream-priority"] {
        let csv = fs::read_to_string(directory.join(format!("{name}.csv"))).expect("CSV");
        let json = fs::read_to_string(directory.join(format!("{name}.json"))).expect("JSON");
        let rows: Vec<Value> = serde_json::from_str(&json).expect("an array of rows");
        assert_eq!(rows.len(), csv.lines().count() - 1);
        for row in &rows {
            assert!(
                row["experiment"] == name && row["extent"] == "quick" && row["seed"] == 1,
                "{row}"
            );
            assert!(
                row["version"]
                    .as_str()
                    .is_some_and(|version| csv.contains(version))
            );
        }
    }
    let set = [
        "run",
        "time-sensitive",
        "--quick",
        "--seeds",
        "1",
        "--only",
        "loss=0",
        "--set",
        "seconds=2.5",
    ];
    let output = lab(&[&set[..], &["--results", utf8(&directory)]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let csv =
        fs::read_to_string(directory.join("time-sensitive-seconds=2.5.csv")).expect("a file of its own");
    assert!(
        csv.lines()
            .skip(1)
            .all(|row| row.contains(",quick,seconds=2.5,1,")),
        "{csv}"
    );
    let _ = fs::remove_dir_all(directory);
}

/// Ctrl-C during far too many runs: the finished runs are kept, and the same command continues from there.
#[cfg(unix)]
#[test]
fn what_is_done_before_ctrl_c_is_kept_and_gone_on_from() {
    let directory = fresh("lab-interrupted");
    let rows = || -> Vec<String> {
        let file = directory.join("time-sensitive-seconds=1.csv");
        let csv = fs::read_to_string(file).expect("the numbers are kept");
        csv.lines().skip(1).map(str::to_owned).collect()
    };
    // Interrupts the command when a line reports a finished run. Returns this line.
    let interrupted = || {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .args([
                "lab",
                "run",
                "time-sensitive",
                "--quick",
                "--only",
                "loss=0.1",
                "--only",
                "variant=standard",
            ])
            .args(["--set", "seconds=1", "--seeds", "10000", "--jobs", "1"])
            .args(["--results", utf8(&directory)])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut said = BufReader::new(lab.stderr.take().expect("it was piped")).lines();
        let told = said.find_map(|line| line.ok().filter(|line| line.contains(" left")));
        let id = lab.id().to_string();
        let killed = Command::new("kill")
            .args(["-INT", &id])
            .status()
            .expect("kill starts");
        assert!(killed.success());
        let last = said.last().and_then(Result::ok).unwrap_or_default();
        let status = lab.wait().expect("it ends");
        assert_eq!(status.code(), Some(130), "{last}");
        told.expect("it tells how far it is")
    };
    let told = interrupted();
    assert!(told.contains("1 of 10000 runs, about "), "{told}");
    let first = rows();
    assert!(!first.is_empty());
    let told = interrupted();
    assert!(
        told.contains(&format!("{} of 10000 runs, about ", first.len() + 1)),
        "{told}"
    );
    let second = rows();
    assert!(second.len() > first.len() && first.iter().all(|row| second.contains(row)));
    let _ = fs::remove_dir_all(directory);
}

/// tshark can decode every packet in a capture of each experiment completely.
#[test]
fn tshark_finds_nothing_malformed_in_a_capture_of_any_experiment() {
    let directory = fresh("lab-captures");
    let listed = text(&lab(&["list", "--json"]).stdout);
    assert!(listed.lines().count() >= 4, "{listed}");
    for line in listed.lines() {
        let experiment: Value = serde_json::from_str(line).expect("JSON");
        let name = experiment["name"].as_str().expect("a name");
        if name == "tcp" || name == "tcp-cubic" {
            // This experiment has no SCTP packets.
            continue;
        }
        let file = directory.join(format!("{name}.pcapng"));
        let mut arguments = vec!["run", name, "--quick", "--pcap", utf8(&file)];
        let settings = experiment["settings"].as_array().expect("settings");
        if settings.iter().any(|knob| knob["name"] == "seconds") {
            arguments.extend(["--set", "seconds=5"]);
        }
        for only in most_extensions(name) {
            arguments.extend(["--only", only]);
        }
        let output = lab(&arguments);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let dissected = Command::new("tshark")
            .args(["-n", "-r", utf8(&file), "-o", "sctp.reassembly:FALSE"])
            .args(["-T", "fields", "-e", "frame.protocols", "-e", "_ws.malformed"])
            .output()
            .expect("tshark is there: scripts/setup installs it");
        assert!(dissected.status.success(), "{name}: {}", text(&dissected.stderr));
        let frames = text(&dissected.stdout);
        let of_sctp = frames.lines().filter(|line| line.contains(":sctp")).count();
        assert!(of_sctp > 50, "{name}: {of_sctp} packets of SCTP");
        let malformed: Vec<&str> = frames
            .lines()
            .filter(|line| line.contains("malformed") || !line.ends_with('\t'))
            .collect();
        assert!(malformed.is_empty(), "{name}: {malformed:?}");
    }
    let _ = fs::remove_dir_all(directory);
}

/// The cells of an experiment that use the most extensions of SCTP.
fn most_extensions(name: &str) -> &'static [&'static str] {
    match name {
        "eca" => &["protocol=eca"],
        "everything" => &["variant=everything", "loss=5"],
        "nr-sack-late-binding" => &["variant=nr-sack"],
        "notice-distance" => &["loss=bursts", "distance=1"],
        "stream-drift" => &["service=once", "loss=3"],
        "recovery" => &["scenario=echo", "loss=5", "sender=cubic"],
        "priority-deadlines" => &["service=both", "load=150"],
        "nr-sack-forward-tsn" => &["variant=nr-sack"],
        "retransmission-queue" => &["paths=three", "ack=nr-sack"],
        "time-sensitive" => &["variant=both and nr-sack", "loss=0.1"],
        _ => &[],
    }
}

/// An experiment in a user's file is run, checked and reported like the papers' experiments. Errors in the file name the line.
#[test]
fn a_file_is_an_experiment() {
    let directory = fresh("lab-file");
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/lab/voice-uplink.toml"
    );
    let page = directory.join("page.html");
    let arguments = ["report", example, "--quick", "--seeds", "2", "--output"];
    let output = lab(&[&arguments[..], &[utf8(&page), "--results", utf8(&directory)]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let html = fs::read_to_string(&page).expect("the page is written");
    assert!(html.matches("<svg").count() == 3 + 2 && html.contains("urgent and expiring"));
    let csv = fs::read_to_string(directory.join("voice-uplink.csv")).expect("the numbers are kept");
    assert_eq!(csv.lines().count(), 1 + 4 * 3 * 2);

    let file = directory.join("wrong.toml");
    let wrong = fs::read_to_string(example)
        .expect("the example is there")
        .replace("160", "\"many\"");
    fs::write(&file, &wrong).expect("it can be written");
    let line = 1 + wrong
        .lines()
        .position(|line| line.contains("many"))
        .expect("it is there");
    let told = text(&lab(&["run", utf8(&file)]).stderr);
    let expected = format!(
        "wrong.toml: line {line}: traffic.bytes: invalid type: string \"many\", expected a whole number"
    );
    assert!(told.contains(&expected), "{told}");
    assert!(text(&lab(&["run", "none.toml"]).stderr).contains("NAME none.toml: cannot read"));
    let _ = fs::remove_dir_all(directory);
}
