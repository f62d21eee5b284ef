//! `anabranch bed` as a user runs it: nothing remains afterwards. If this machine cannot have a testbed, each test says so and
//! passes.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

mod common;

use common::{Running, anabranch, directory, event, records, refuses, run, text};

const LIMIT: Duration = Duration::from_secs(60);

/// Whether this machine can have a testbed. If not, writes the reason directly to standard error, because the test harness would
/// capture it.
fn possible() -> bool {
    let output = run(&["bed", "run", "--link", "", "--", "true"]);
    let said = text(&output.stderr);
    if output.status.success() {
        return true;
    }
    let refused = ["iproute2", "it takes root", "it takes /dev/net/tun"];
    assert!(refused.iter().any(|part| said.contains(part)), "{said}");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {said}");
    false
}

/// A testbed of `bed up`.
struct Up {
    program: Running,
    record: Value,
}

impl Up {
    fn new(links: &[&str]) -> Self {
        let mut args = vec!["bed", "up", "--json"];
        args.extend(links.iter().flat_map(|link| ["--link", link]));
        let mut child = anabranch(&args).spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let record: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(record["event"], "up");
        // The rest of the output fits the pipe, as long as the pipe is open.
        std::thread::spawn(move || lines.lines().count());
        Self {
            program: Running(child),
            record,
        }
    }

    fn said(&self, key: &str) -> &str {
        self.record[key].as_str().unwrap()
    }

    fn namespaces(&self) -> [PathBuf; 2] {
        ["left_netns", "right_netns"].map(|key| Path::new("/run/netns").join(self.said(key)))
    }

    /// Starts a long command as a user would; returns its process.
    fn command(&self) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.said("left_netns"), "sleep", "1000"]);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // `ip` enters the namespace and then becomes the command.
        let path = format!("/proc/{}/comm", child.id());
        wait_until(|| fs::read_to_string(&path).is_ok_and(|name| name == "sleep\n"));
        Running(child)
    }
}

fn wait_until(so: impl Fn() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(mut program: Running) -> ExitStatus {
    let mut status = None;
    let since = Instant::now();
    while status.is_none() {
        assert!(since.elapsed() < LIMIT, "it does not end");
        status = program.0.try_wait().unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    status.unwrap()
}

fn gone(namespaces: &[PathBuf; 2]) -> bool {
    namespaces.iter().all(|path| !path.exists())
}

#[test]
fn a_command_meets_the_network_that_was_asked_for() {
    if !possible() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_anabranch");
    let server = format!("exec {program} listen --echo --bind 10.77.1.1");
    let args = [
        "bed",
        "run",
        "--json",
        "--link",
        "rate=20mbit,delay=15ms",
        "--back",
        "delay=25ms",
        "--left",
        &server,
    ];
    let ping = [
        "--",
        program,
        "ping",
        "10.77.1.1",
        "--json",
        "--count",
        "4",
        "--interval",
        "10ms",
    ];
    let output = run(&[&args[..], &ping].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said: Vec<Value> = text(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let pinged = event(&said, "summary");
    assert_eq!(pinged["equal"], 4);
    assert!(pinged["delay"]["min_ms"].as_f64().unwrap() >= 40.0, "{pinged}");
    let bed = event(&said, "bed");
    let (there, back) = (&bed["paths"][0]["leftward"], &bed["paths"][0]["rightward"]);
    for way in [there, back] {
        assert!(way["delivered"].as_u64().unwrap() >= 4, "{bed}");
        assert_eq!(way["lost"], 0, "{bed}");
    }
    assert!(
        there["queue_max_bytes"].as_u64().unwrap() > 0,
        "a rate has a queue: {bed}"
    );
    assert_eq!(
        back["queue_max_bytes"], 0,
        "a link without a rate has no queue: {bed}"
    );
}

#[test]
fn the_status_is_the_commands_and_what_goes_wrong_is_told() {
    if !possible() {
        return;
    }
    let bed = |args: &[&str]| run(&[&["bed", "run", "--link", "delay=1ms"], args].concat());
    let ended = bed(&["--", "sh", "-c", "echo $ANABRANCH_BED_LEFT6; exit 7"]);
    assert_eq!(ended.status.code(), Some(7));
    assert!(
        text(&ended.stderr).contains("sh ended: exit status: 7"),
        "{}",
        text(&ended.stderr)
    );
    assert!(
        ["fd77:0:0:1::1\n", "\n"].contains(&text(&ended.stdout).as_str()),
        "{}",
        text(&ended.stdout)
    );
    let killed = bed(&["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(128 + 9));
    let left = bed(&["--left", "exit 3", "--head-start", "60s", "--", "true"]);
    assert_eq!(left.status.code(), Some(3));
    let missing = bed(&["--", "no-such-program"]);
    assert!(text(&missing.stderr).contains("there is no command no-such-program"));
    assert_eq!(missing.status.code(), Some(127));
    let directory = bed(&["--", "/"]);
    assert!(text(&directory.stderr).contains("/ cannot be executed"));
    assert_eq!(directory.status.code(), Some(126));
}

#[test]
fn nothing_is_left_behind() {
    if !possible() {
        return;
    }
    // The command ends while another process still runs.
    let output = run(&[
        "bed",
        "run",
        "--link",
        "",
        "--left",
        "sleep 1000",
        "--",
        "sh",
        "-c",
        "echo $$ $ANABRANCH_BED_LEFT_NETNS $ANABRANCH_BED_RIGHT_NETNS; sleep 1000 & echo $!",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let said: Vec<&str> = said.split_ascii_whitespace().collect();
    for namespace in &said[1..3] {
        assert!(!Path::new("/run/netns").join(namespace).exists(), "{said:?}");
    }
    // The parent of this process has ended, so that init waits for it, which may be slow.
    let state = fs::read_to_string(format!("/proc/{}/stat", said[3])).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    // Ctrl-C, and `bed down` from another shell.
    for down in [false, true] {
        let up = Up::new(&["delay=1ms", "delay=2ms"]);
        let (namespaces, command) = (up.namespaces(), up.command());
        assert!(namespaces.iter().all(|path| path.exists()));
        if down {
            let output = run(&["bed", "down", up.said("bed"), "--json"]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(event(&records(&text(&output.stdout)), "down")["ended"], 1);
            assert!(gone(&namespaces));
        } else {
            up.program.interrupt();
        }
        assert!(end(up.program).success());
        assert!(!end(command).success(), "the bed ended it");
        assert!(gone(&namespaces));
    }
    // A killed testbed: the next start removes its remains. A testbed that runs meanwhile stays.
    let (mut up, other) = (Up::new(&["delay=1ms"]), Up::new(&["delay=1ms"]));
    let (namespaces, command) = (up.namespaces(), up.command());
    up.program.0.kill().unwrap();
    up.program.0.wait().unwrap();
    let next = run(&["bed", "run", "--link", "", "--", "true"]);
    assert!(next.status.success(), "{}", text(&next.stderr));
    // The testbed of another test may remove the remains at the same time, and finish later.
    wait_until(|| gone(&namespaces));
    assert!(!end(command).success());
    assert!(other.namespaces().iter().all(|path| path.exists()));
    let status = run(&["bed", "status", "--json"]);
    let known = records(&text(&status.stdout));
    let known: Vec<_> = known.iter().map(|record| &record["bed"]).collect();
    assert!(
        known.contains(&&other.record["bed"]) && !known.contains(&&up.record["bed"]),
        "{known:?}"
    );
    let namespaces = other.namespaces();
    other.program.interrupt();
    assert!(end(other.program).success());
    assert!(gone(&namespaces));
}

#[test]
fn counters_are_shown_now_and_then_and_by_another_process() {
    if !possible() {
        return;
    }
    let up = Up::new(&["delay=1ms"]);
    let mut ping = Command::new("ip");
    ping.args([
        "netns",
        "exec",
        up.said("right_netns"),
        env!("CARGO_BIN_EXE_anabranch"),
    ]);
    // Nothing listens there: the packets are an INIT and the kernel's ICMP answer.
    ping.args(["ping", up.said("left"), "--count", "1", "--log", "off"]);
    let mut ping = Running(ping.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until(|| {
        let status = run(&["bed", "status", "--json"]);
        let known = records(&text(&status.stdout));
        let ours = known.iter().find(|record| record["bed"] == up.record["bed"]);
        ours.is_some_and(|bed| bed["paths"][0]["leftward"]["delivered"].as_u64() > Some(0))
    });
    let _ = ping.0.kill();
    up.program.interrupt();
    assert!(end(up.program).success());
    let file = directory("bed").join("go");
    let wait = format!("while ! [ -e {0} ]; do sleep 0.01; done", file.display());
    let mut watched = anabranch(&[
        "bed", "run", "--link", "", "--every", "20ms", "--", "sh", "-c", &wait,
    ])
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(watched.stderr.take().unwrap()).lines();
    // Shown twice before the end.
    for _ in 0..2 {
        assert!(lines.any(|line| line.unwrap().contains("late (p99)")));
    }
    fs::write(&file, "").unwrap();
    assert!(lines.any(|line| line.unwrap().contains(" after ")), "the summary");
    assert!(end(Running(watched)).success());
}

#[test]
fn what_makes_no_bed_is_said() {
    refuses(&[
        (&["bed", "run", "--link", "delay=1ms"], "COMMAND"),
        (&["bed", "run", "--", "true"], "--link"),
        (
            &["bed", "run", "--link", "rate=lots", "--", "true"],
            "rate cannot be \"lots\"",
        ),
        (
            &[
                "bed", "run", "--link", "", "--back", "", "--back", "", "--", "true",
            ],
            "--reverse-link is given 2 times",
        ),
        (
            &["bed", "run", "--link", "", "--mtu", "576", "--", "true"],
            "1280",
        ),
        (
            &["bed", "run", "--link", "", "--head-start", "1s", "--", "true"],
            "--left",
        ),
        (
            &["bed", "run", "--link", "", "--pcap", "x", "--", "true"],
            "--pcap",
        ),
        (&["bed", "down", "mine"], "names no bed"),
        (&["bed", "down", "1-2-3"], "no testbed 1-2-3 runs"),
    ]);
}

/// The output of `lab` with the chat on the link of 128 kbit/s, on a testbed; `None` if this machine cannot have one. A run takes a
/// second.
fn chat_on_bed(command: &str, only: &[&str]) -> Option<Output> {
    let args = ["lab", command, "stream-priority", "--bed", "--json"];
    let short = ["--set", "chat_interval=0.05", "--set", "delay=5"];
    let chat = ["--only", "link=128", "--only", "traffic=steady"];
    let output = run(&[&args[..], &short, &chat, only].concat());
    let said = text(&output.stderr);
    if said.contains("--bed: there is no program `iperf3`") || !possible() {
        assert!(!output.status.success(), "{said}");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {said}");
        return None;
    }
    Some(output)
}

/// Both halves of a cell of the lab. The checks do not depend on the speed of the machine.
#[test]
fn an_experiment_is_run_in_the_simulator_and_on_the_bed() {
    let only = ["--seeds", "1", "--only", "scheduler=priority"];
    let Some(output) = chat_on_bed("run", &only) else {
        return;
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(&text(&output.stdout));
    let results = event(&records, "results");
    let cells = results["cells"].as_array().unwrap();
    let halves: Vec<&str> = cells
        .iter()
        .map(|cell| cell["at"]["half"].as_str().unwrap())
        .collect();
    assert_eq!(halves, ["simulated", "bed"], "{results}");
    for cell in cells {
        let delay = cell["metrics"]["delay"]["mean"].as_f64().unwrap();
        assert!(delay > 0.005, "{cell}");
    }
    let compared = results["side_by_side"].as_array().unwrap();
    assert!(compared.iter().any(|pair| pair["metric"] == "delay"), "{results}");
    let tcp = results["parameters"]["TCP on the bed"].as_str().unwrap();
    assert!(tcp.starts_with("Linux "), "{tcp}");
}

/// Each claim has a verdict for each half. Whether it holds on the bed depends on the machine; with these settings, the simulated half
/// fails anyway.
#[test]
fn claims_are_judged_by_real_packets() {
    let Some(output) = chat_on_bed("check", &["--seeds", "2"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let records = records(&text(&output.stdout));
    let judged = event(&records, "claims");
    let claims = judged["claims"].as_array().unwrap();
    let of = |half: &str| -> Vec<_> {
        let of_half = claims.iter().filter(|claim| claim["half"] == half);
        of_half
            .map(|claim| (claim["claim"].as_str().unwrap(), claim))
            .collect()
    };
    let (simulated, bed) = (of("simulated"), of("bed"));
    assert_eq!(simulated.len() + bed.len(), claims.len());
    let (mut measured, mut impossible) = (0, 0);
    for ((says, here), (also, there)) in simulated.iter().zip(&bed) {
        assert_eq!(says, also);
        // No link of the bed changes its rate during a run.
        let is_possible = !says.contains("in turn");
        assert_eq!(
            here["mean"].is_number() && is_possible,
            there["mean"].is_number(),
            "{here} {there}"
        );
        let verdict_without_number = if is_possible { "not run" } else { "not judged" };
        assert_eq!(
            there["mean"].is_null(),
            there["verdict"] == verdict_without_number,
            "{there}"
        );
        measured += usize::from(there["mean"].is_number());
        impossible += usize::from(!is_possible);
    }
    assert_eq!(
        measured, 3,
        "the claims about the link of 128 kbit/s with steady bulk data"
    );
    let not_run = bed.len() - measured - impossible;
    assert_eq!(judged["tally_on_bed"]["not_run"], not_run, "{judged}");
}

#[test]
fn an_experiment_without_real_packets_is_refused() {
    if possible() {
        let output = run(&["lab", "check", "time-sensitive", "--bed"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("--bed: there is no program `iperf3`")
                || said.contains("time-sensitive has no cells that can run with real packets"),
            "{said}"
        );
    }
}

/// The processes that a process started as hosts.
fn hosts_of(lab: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_host = |id: &u32| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{id}/{name}")).unwrap_or_default();
        // After the name, the state and the parent's number.
        let stat = read("stat");
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        parent == Some(lab.to_string().as_str()) && read("cmdline").ends_with("lab\0host\0")
    };
    ids.filter(is_host).collect()
}

fn has_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

/// Sender and receiver are processes, and both are gone after Ctrl-C, after `kill -9` of the lab, and after the end of one of them.
#[test]
fn no_host_of_an_experiment_outlives_the_lab() {
    if chat_on_bed("run", &["--seeds", "1", "--only", "scheduler=priority"]).is_none() {
        return;
    }
    let args = [
        "lab",
        "run",
        "stream-priority",
        "--bed",
        "--json",
        "--seeds",
        "1",
        "--set",
        "chat_interval=60",
        "--only",
        "link=128",
        "--only",
        "traffic=steady",
        "--only",
        "scheduler=priority",
    ];
    for way in ["Ctrl-C", "kill", "host"] {
        let mut lab = Running(anabranch(&args).spawn().unwrap());
        let id = lab.0.id();
        wait_until(|| hosts_of(id).len() == 2);
        let hosts = hosts_of(id);
        match way {
            "Ctrl-C" => lab.interrupt(),
            "kill" => lab.0.kill().unwrap(),
            _ => {
                let killed = Command::new("kill").args(["-9", &hosts[0].to_string()]).status();
                assert!(killed.unwrap().success());
            }
        }
        let status = end(lab);
        assert!(!status.success(), "{way}: {status}");
        wait_until(|| hosts.iter().all(|host| has_ended(*host)));
    }
}
