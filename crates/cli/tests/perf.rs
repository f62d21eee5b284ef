//! `anabranch perf` as a user runs it: two programs, real sockets on loopback, and ports that the system chooses.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Output};
use std::time::Instant;

use serde_json::Value;

mod common;

use anabranch::SendOptions;
use anabranch::blocking::Endpoint;
use common::{Running, anabranch, event, records, refuses, text};

fn start(args: &[&str]) -> Running {
    Running(anabranch(args).spawn().expect("the command starts"))
}

fn lines(running: &mut Running) -> BufReader<ChildStdout> {
    BufReader::new(running.0.stdout.take().unwrap())
}

fn next_record(lines: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// A program that listens on a free port of 127.0.0.1.
struct Server {
    program: Running,
    lines: BufReader<ChildStdout>,
    udp_port: String,
}

impl Server {
    fn start(command: &[&str], more: &[&str]) -> Self {
        let mut args = command.to_vec();
        args.extend(["--bind", "127.0.0.1", "--udp-port", "0", "--json"]);
        args.extend(more);
        let mut program = start(&args);
        let mut lines = lines(&mut program);
        let ready = next_record(&mut lines);
        assert_eq!(ready["event"], "listening");
        let udp_port = ready["udp_port"].to_string();
        Self {
            program,
            lines,
            udp_port,
        }
    }

    /// The output until the program ends.
    fn rest(mut self) -> (Output, Vec<Value>) {
        let mut said = String::new();
        self.lines.read_to_string(&mut said).unwrap();
        (self.program.output(), records(&said))
    }

    fn client<'a>(&'a self, more: &[&'a str]) -> Running {
        let mut args = vec![
            "perf",
            "client",
            "127.0.0.1",
            "--json",
            "--udp-port",
            &self.udp_port,
        ];
        args.extend(more);
        start(&args)
    }
}

fn perf_server(more: &[&str]) -> Server {
    Server::start(&["perf", "server"], more)
}

/// Runs a client and its server to their ends; returns the output of both.
fn measure(more: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let server = perf_server(&["--one-off", "--interval", "0.1"]);
    let client = server.client(more).output();
    assert!(client.status.success(), "{}", text(&client.stderr));
    let (served, said) = server.rest();
    assert!(served.status.success(), "{}", text(&served.stderr));
    (records(&text(&client.stdout)), said)
}

/// Checks that both sides of a direction report every message; returns the number of messages.
fn intact(flow: &Value) -> u64 {
    assert_eq!(flow["intact"], true, "{flow}");
    let (sender, receiver) = (&flow["sender"], &flow["receiver"]);
    assert_eq!(sender["acknowledged"], true);
    assert_eq!(sender["messages"], receiver["messages"], "{flow}");
    assert_eq!(sender["bytes"], receiver["bytes"], "{flow}");
    for none in ["missing", "doubled", "extra", "cut"] {
        assert_eq!(receiver[none], 0, "{flow}");
    }
    let delay = &receiver["delay"];
    let percentiles =
        ["min_ms", "median_ms", "p90_ms", "p99_ms", "max_ms"].map(|name| delay[name].as_f64().unwrap());
    assert!(percentiles.is_sorted() && percentiles[4] > 0.0, "{delay}");
    assert!(receiver["bits_per_second"].as_f64().unwrap() > 0.0);
    sender["messages"].as_u64().unwrap()
}

#[test]
fn bytes_go_forward() {
    let (said, served) = measure(&[
        "--bytes",
        "1mb",
        "--size",
        "1000",
        "--streams",
        "3",
        "--interval",
        "0",
    ]);
    let summary = event(&said, "summary");
    assert_eq!(intact(&summary["forward"]), 1000);
    assert_eq!(summary["forward"]["receiver"]["bytes"], 1_000_000);
    assert_eq!(
        summary["forward"]["receiver"]["late"], 0,
        "each stream is in order"
    );
    assert_eq!(summary["reverse"], Value::Null);
    assert_eq!(summary["stopped"], false);
    assert!(
        !said.iter().any(|record| record["event"] == "interval"),
        "--interval 0 prints none"
    );
    // Both sides report the same results.
    assert_eq!(event(&served, "result")["forward"], summary["forward"]);
    assert_eq!(event(&served, "client")["plan"]["streams"], 3);
    let totals = event(&served, "summary");
    assert_eq!(
        (&totals["clients"], &totals["failed"], &totals["faulty"]),
        (&1.into(), &0.into(), &0.into())
    );
}

#[test]
fn intervals_add_up_in_reverse() {
    let (said, _) = measure(&["--time", "0.5", "--reverse", "--interval", "0.1"]);
    let summary = event(&said, "summary");
    let messages = intact(&summary["reverse"]);
    assert_eq!(summary["forward"], Value::Null);
    let intervals: Vec<_> = said
        .iter()
        .filter(|record| record["event"] == "interval")
        .collect();
    assert!(!intervals.is_empty());
    let sum: u64 = intervals
        .iter()
        .map(|interval| interval["reverse"]["messages"].as_u64().unwrap())
        .sum();
    // The messages of the last milliseconds may not be in any interval.
    assert!(sum > 0 && sum <= messages, "{sum} of {messages}");
    for pair in intervals.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"]);
    }
    assert_eq!(intervals[0]["reverse"]["side"], "receiver");
}

#[test]
fn each_interval_tells_windows_and_losses() {
    for flags in [
        &["--congestion", "cubic", "--recovery", "rack"][..],
        &["--congestion", "rfc9260", "--recovery", "rfc9260"],
    ] {
        let link = ["--link", "rate=20mbit,delay=2ms,loss=3%"];
        let (said, _) = measure(&[&["--bytes", "1mib", "--interval", "0.05"][..], &link, flags].concat());
        let sender = &event(&said, "summary")["forward"]["sender"];
        let intervals = said.iter().filter(|record| record["event"] == "interval");
        let intervals: Vec<&Value> = intervals.map(|interval| &interval["forward"]).collect();
        assert!(!intervals.is_empty());
        let mut sums = [0; 2];
        for interval in intervals {
            assert_eq!(interval["side"], "sender");
            let [path] = &interval["paths"].as_array().unwrap()[..] else {
                panic!("one path: {interval}");
            };
            assert!(
                path["remote"].as_str().unwrap().starts_with("127.0.0.1:"),
                "{path}"
            );
            assert!(path["cwnd_bytes"].as_u64() > Some(0), "{path}");
            assert!(path["srtt_ms"].as_f64() > Some(2.0), "{path}");
            let paced = path["pacing_bits_per_second"].as_u64() > Some(0);
            assert_eq!(paced, flags.contains(&"cubic"), "{path}");
            for of_the_path in ["cwnd_bytes", "srtt_ms", "lost"] {
                assert_eq!(path[of_the_path], interval[of_the_path], "{interval}");
            }
            assert_eq!(path["bytes"], interval["bytes_by_path"][0], "{interval}");
            for (sum, name) in sums.iter_mut().zip(["lost", "retransmissions"]) {
                *sum += path[name].as_u64().unwrap();
            }
        }
        let [lost, retransmitted] =
            ["lost", "retransmissions"].map(|name| sender["paths"][0][name].as_u64().unwrap());
        assert!(
            lost > 0 && retransmitted > 0,
            "about 20 packets are lost: {sender}"
        );
        // The losses of the last milliseconds may not be in any interval.
        assert!(sums[0] > 0 && sums[0] <= lost, "{sums:?}: {sender}");
        assert!(sums[1] > 0 && sums[1] <= retransmitted, "{sums:?}: {sender}");
    }
}

/// The link marks a packet if five packets are in its queue.
#[test]
fn marks_are_told() {
    let link = ["--link", "rate=20mbit,delay=5ms,queue=200p,ecn-mark=5p"];
    let run = |flags: &[&str]| {
        let server = perf_server(&[&["--one-off"][..], flags].concat());
        let more = [&["--bytes", "1mib", "--interval", "0.1"][..], &link, flags].concat();
        let client = server.client(&more).output();
        assert!(client.status.success(), "{}", text(&client.stderr));
        let said = records(&text(&client.stdout));
        let sender = event(&said, "summary")["forward"]["sender"]["paths"][0].clone();
        let intervals = said.iter().filter(|record| record["event"] == "interval");
        let marked = intervals.map(|interval| interval["forward"]["marked"].as_u64().unwrap());
        (sender["marked"].as_u64().unwrap(), marked.sum::<u64>())
    };
    let (marked, of_intervals) = run(&["--ecn"]);
    assert!(marked > 0 && of_intervals <= marked, "{of_intervals} of {marked}");
    assert_eq!(run(&[]), (0, 0));
}

#[test]
fn both_directions_at_once_unordered_and_large() {
    let (said, served) = measure(&[
        "--time",
        "0.3",
        "--bidir",
        "--unordered",
        "--size",
        "300kib",
        "--streams",
        "2",
    ]);
    let summary = event(&said, "summary");
    assert!(intact(&summary["forward"]) > 0);
    assert!(intact(&summary["reverse"]) > 0);
    let result = event(&served, "result");
    assert_eq!(result["forward"], summary["forward"]);
    assert_eq!(result["reverse"], summary["reverse"]);
}

#[test]
fn nothing_is_lost_on_a_link_that_loses() {
    let (said, _) = measure(&[
        "--bytes",
        "2mib",
        "--streams",
        "4",
        "--bidir",
        "--link",
        "delay=2ms,loss=1%",
    ]);
    let summary = event(&said, "summary");
    assert_eq!(intact(&summary["forward"]), 2048);
    assert_eq!(intact(&summary["reverse"]), 2048);
    let repeats = &summary["forward"]["sender"]["retransmissions"];
    let repeats = repeats["fast"].as_u64().unwrap() + repeats["timeout"].as_u64().unwrap();
    assert!(repeats > 0, "about 20 packets of the forward way are lost");
    let median = summary["reverse"]["receiver"]["delay"]["median_ms"].as_f64();
    let error = summary["clocks"]["uncertainty_ms"].as_f64();
    assert!(
        median.unwrap() + error.unwrap() > 2.0,
        "the link's delay: {summary}"
    );
}

#[test]
fn the_rate_is_a_limit() {
    // 2 Mbit/s for 0.8 s are 200 messages of 1,000 bytes.
    let (said, _) = measure(&["--time", "0.8", "--rate", "2mbit", "--size", "1000", "--bidir"]);
    let summary = event(&said, "summary");
    for direction in ["forward", "reverse"] {
        let messages = intact(&summary[direction]);
        // More messages are an error of the program; fewer messages may be due to a slow machine.
        assert!((1..=210).contains(&messages), "{direction}: {messages}");
    }
}

#[test]
fn a_server_serves_many_at_once() {
    let server = perf_server(&["--interval", "0"]);
    let clients = [0, 1, 2].map(|_| server.client(&["--bytes", "500kb", "--interval", "0"]));
    for client in clients {
        let client = client.output();
        assert!(client.status.success(), "{}", text(&client.stderr));
        assert_eq!(
            intact(&event(&records(&text(&client.stdout)), "summary")["forward"]),
            489
        );
    }
    let Server {
        program, mut lines, ..
    } = server;
    let mut results = 0;
    let mut numbers = Vec::new();
    while results < 3 {
        let record = next_record(&mut lines);
        if record["event"] == "result" {
            results += 1;
            numbers.push(record["client"].as_u64().unwrap());
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    drop(program);
}

#[test]
#[cfg(unix)]
fn an_interrupted_client_and_its_server_tell_what_they_measured() {
    let server = perf_server(&["--one-off", "--interval", "0"]);
    let mut client = server.client(&["--time", "60", "--bidir", "--rate", "5mbit", "--interval", "0.1"]);
    let mut lines = lines(&mut client);
    assert_eq!(next_record(&mut lines)["event"], "connected");
    assert_eq!(next_record(&mut lines)["event"], "start");
    let mut carried = [false; 2];
    while carried != [true; 2] {
        let interval = next_record(&mut lines);
        assert_eq!(interval["event"], "interval");
        for (seen, way) in carried.iter_mut().zip(["forward", "reverse"]) {
            *seen |= interval[way]["messages"].as_u64().unwrap() > 0;
        }
    }
    client.interrupt();
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    let ended = client.output();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let said = records(&said);
    let summary = event(&said, "summary");
    assert_eq!(summary["stopped"], true);
    assert!(intact(&summary["forward"]) > 0);
    assert!(intact(&summary["reverse"]) > 0);
    let (served, told) = server.rest();
    assert!(served.status.success(), "{}", text(&served.stderr));
    let result = event(&told, "result");
    assert_eq!(result["stopped"], true);
    assert_eq!(result["forward"], summary["forward"]);
}

#[test]
#[cfg(unix)]
fn an_interrupted_server_ends_its_clients_with_their_results() {
    let server = perf_server(&["--interval", "0"]);
    let mut client = server.client(&["--time", "60", "--rate", "5mbit", "--interval", "0.1"]);
    let mut lines = lines(&mut client);
    assert_eq!(next_record(&mut lines)["event"], "connected");
    assert_eq!(next_record(&mut lines)["event"], "start");
    assert_eq!(next_record(&mut lines)["event"], "interval");
    server.program.interrupt();
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    let ended = client.output();
    assert!(
        text(&ended.stderr).contains("the server was stopped"),
        "{}",
        text(&ended.stderr)
    );
    assert!(!ended.status.success(), "the run was cut short");
    let said = records(&said);
    assert!(intact(&event(&said, "summary")["forward"]) > 0);
    let (served, told) = server.rest();
    assert!(served.status.success(), "{}", text(&served.stderr));
    assert!(intact(&event(&told, "result")["forward"]) > 0);
    assert_eq!(event(&told, "summary")["failed"], 0);
}

#[test]
fn people_read_a_table() {
    let server = perf_server(&["--one-off"]);
    let client = start(&[
        "perf",
        "client",
        "127.0.0.1",
        "--udp-port",
        &server.udp_port,
        "--time",
        "0.3",
        "--interval",
        "100ms",
    ]);
    let client = client.output();
    let said = text(&client.stdout);
    assert!(client.status.success(), "{}", text(&client.stderr));
    for part in [
        "for 300 ms",
        "  0.00 to ",
        "goodput",
        "delay, p99",
        " acknowledged, cwnd ",
        ", RTT ",
        "retransmitted by fast retransmit",
        "may be off by",
        "forward: every message arrived once, and in order",
    ] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}

#[test]
fn help_teaches_both_sides() {
    let help = |side: &str| text(&start(&["perf", side, "--help"]).output().stdout);
    let flags = [
        "--udp-port",
        "--port",
        "--transport",
        "--link",
        "--pcap",
        "--log",
        "--json",
        "--interval",
        "--congestion",
        "--recovery",
        "--coupling",
        "Examples:",
    ];
    let of_client = [
        "--time",
        "--bytes",
        "--size",
        "--streams",
        "--unordered",
        "--reverse",
        "--bidir",
        "--rate",
    ];
    let (client, server) = (help("client"), help("server"));
    for flag in flags {
        assert!(
            client.contains(flag) && server.contains(flag),
            "{flag} is missing"
        );
    }
    for flag in of_client {
        assert!(client.contains(flag), "{flag} is missing in {client}");
    }
    assert!(server.contains("--one-off"), "{server}");
}

#[test]
fn errors_name_what_is_wrong() {
    let wrong: [(&[&str], &str); 9] = [
        (&["--size", "15"], "--size"),
        (&["--size", "17mib"], "16mib"),
        (&["--rate", "fast"], "10mbit"),
        (&["--streams", "65535"], "--streams"),
        (&["--time", "0"], "--time"),
        (&["--time", "1", "--bytes", "1mb"], "--bytes"),
        (&["--reverse", "--bidir"], "--bidir"),
        (&["--interval", "1ms"], "--interval"),
        (
            &["--udp-port", "9", "--timeout", "300ms"],
            "check that `anabranch perf server` runs there",
        ),
    ];
    for (more, part) in wrong {
        let mut args = vec!["perf", "client", "127.0.0.1"];
        args.extend(more);
        let output = start(&args).output();
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(
            said.contains("error: ") && said.contains(part),
            "{args:?}: {said}"
        );
    }
    let output = start(&["perf", "client", "no.such.host.invalid"]).output();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("no.such.host.invalid"));
}

#[test]
fn what_is_no_server_of_this_is_told() {
    let echo = Server::start(&["listen"], &["--echo"]);
    let client = echo.client(&["--time", "1"]).output();
    assert!(!client.status.success());
    let said = text(&client.stderr);
    assert!(
        said.contains("echo server") && said.contains("anabranch perf server"),
        "{said}"
    );
    let silent = Server::start(&["listen"], &[]);
    let client = silent.client(&["--time", "1", "--timeout", "5s"]).output();
    assert!(!client.status.success());
    let said = text(&client.stderr);
    assert!(
        said.contains("does not answer the request of `anabranch perf`"),
        "{said}"
    );
    let closed = perf_server(&[]);
    let client = closed.client(&["--port", "8"]).output();
    assert!(!client.status.success());
    assert!(
        text(&client.stderr).contains("--port"),
        "{}",
        text(&client.stderr)
    );
}

#[test]
fn a_client_that_is_none_does_not_harm_the_server() {
    let server = perf_server(&[]);
    let pinged = start(&[
        "ping",
        "127.0.0.1",
        "--udp-port",
        &server.udp_port,
        "--count",
        "1",
    ]);
    assert!(!pinged.output().status.success());
    let client = server.client(&["--bytes", "10kb"]).output();
    assert!(client.status.success(), "{}", text(&client.stderr));
}

/// A megabyte in the send buffer takes longer on this link than the time that an interrupted client waits.
#[test]
#[cfg(unix)]
fn a_client_that_stops_tells_what_both_sides_know() {
    let server = perf_server(&["--one-off", "--interval", "0"]);
    let begun = Instant::now();
    let mut client = server.client(&["--time", "60", "--link", "rate=500kbit", "--interval", "0.5"]);
    let mut lines = lines(&mut client);
    for expected in ["connected", "start", "interval", "interval", "interval"] {
        assert_eq!(next_record(&mut lines)["event"], expected);
    }
    client.interrupt();
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    let ended = client.output();
    let took = begun.elapsed();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(
        text(&ended.stderr).contains("the results did not arrive"),
        "{}",
        text(&ended.stderr)
    );
    let summary = records(&said);
    let forward = &event(&summary, "summary")["forward"];
    assert_eq!(forward["intact"], false);
    // The acknowledged data at 500 kbit/s, without the data in the send buffer.
    let most = 62_500 * took.as_secs() + 100_000;
    for side in ["sender", "receiver"] {
        let bytes = forward[side]["bytes"].as_u64().unwrap();
        assert!((1..most).contains(&bytes), "{side}, {took:?}: {forward}");
    }
    let (served, told) = server.rest();
    assert!(!served.status.success());
    assert!(event(&told, "result")["problem"].is_string());
}

/// Sends all data at once, half of it on stream 1 and half on stream 2; returns the medians of the delays of both streams.
fn two_streams(schedule: &[&str]) -> [f64; 2] {
    let mut args = vec![
        "--bytes",
        "600kb",
        "--size",
        "2000",
        "--streams",
        "2",
        "--link",
        "rate=8mbit,delay=2ms",
    ];
    args.extend(schedule);
    let (said, _) = measure(&args);
    let forward = &event(&said, "summary")["forward"];
    assert_eq!(intact(forward), 300);
    let delays = &forward["receiver"]["delay_by_stream"];
    assert_eq!(delays.as_array().map(Vec::len), Some(2), "{forward}");
    [0, 1].map(|stream| delays[stream]["median_ms"].as_f64().unwrap())
}

/// All messages fit the send buffer, so that the scheduler decides the order of the streams, and not the order of the calls.
#[test]
fn the_scheduler_decides_which_stream_waits() {
    let [first, second] = two_streams(&["--scheduler", "priority", "--priority", "2=1"]);
    assert!(first < second, "{first} {second}");
    let [first, second] = two_streams(&["--priority", "1=1", "--no-interleaving"]);
    assert!(first > second, "{first} {second}");
    let [first, second] = two_streams(&["--scheduler", "wfq", "--weight", "1=9"]);
    assert!(first < second, "{first} {second}");
    let [first, second] = two_streams(&["--weight", "2=9", "--no-interleaving"]);
    assert!(first > second, "{first} {second}");
    let bound = ["--priority", "2=1", "--low-priority-delay", "50ms"];
    let [first, second] = two_streams(&bound);
    assert!(first < second, "{first} {second}");
}

#[test]
fn every_scheduler_delivers_everything() {
    for name in ["fcfs", "rr", "rr-packet", "fair"] {
        let [first, second] = two_streams(&["--scheduler", name]);
        // The streams have the same amount of data: neither waits for the end of the other.
        assert!(
            first < 2.0 * second && second < 2.0 * first,
            "{name}: {first} {second}"
        );
    }
}

#[test]
fn a_schedule_that_makes_no_sense_is_refused() {
    common::refuses(&[
        (
            &["perf", "client", "127.0.0.1", "--scheduler", "best"],
            "--scheduler",
        ),
        (
            &[
                "perf",
                "client",
                "127.0.0.1",
                "--scheduler",
                "rr",
                "--priority",
                "1=1",
            ],
            "--scheduler priority",
        ),
        (&["perf", "client", "127.0.0.1", "--weight", "1"], "3=1"),
        (
            &[
                "perf",
                "client",
                "127.0.0.1",
                "--weight",
                "1=2",
                "--priority",
                "1=1",
            ],
            "--priority",
        ),
        (
            &["perf", "client", "127.0.0.1", "--low-priority-delay", "0ms"],
            "--low-priority-delay",
        ),
    ]);
    let server = perf_server(&[]);
    let output = server.client(&["--priority", "999=1", "--streams", "2"]).output();
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("--priority 999=1"),
        "{said}"
    );
}

/// The server is killed during a run: its operating system answers packets by ICMP messages, and the client ends at once with
/// the results so far. (Without ICMP, the client waits for the failure of the association: see `perf/session.rs`.)
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_is_killed_is_noticed() {
    for more in [&[][..], &["--reverse"], &["--rate", "1mbit"]] {
        let mut server = perf_server(&[]);
        // Far longer than the time limit of this test.
        let mut args = vec!["--time", "3600", "--interval", "0.1"];
        args.extend(more);
        let mut client = server.client(&args);
        let mut lines = lines(&mut client);
        while next_record(&mut lines)["event"] != "interval" {}
        server.program.0.kill().unwrap();
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        let output = client.output();
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        let error = text(&output.stderr);
        assert!(
            error.contains("the measurement ended early") && error.contains("port unreachable"),
            "{more:?}: {error}"
        );
        let said = records(&said);
        let summary = event(&said, "summary");
        assert!(
            summary.to_string().contains("\"messages\""),
            "{more:?}: {summary}"
        );
    }
}

/// A closed port is reported as such, at once: `--timeout` is far longer than the time limit of the test.
#[cfg(target_os = "linux")]
#[test]
fn a_closed_port_is_told() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    for (command, server) in [
        (&["perf", "client"][..], "anabranch perf server"),
        (&["ping"], "anabranch listen"),
    ] {
        let mut args = command.to_vec();
        args.extend(["127.0.0.1", "--udp-port", &port, "--timeout", "3600s"]);
        let output = start(&args).output();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("the UDP port is closed") && said.contains(&port) && said.contains(server),
            "{said}"
        );
    }
}

/// A client may not ask for so much that messages on all its streams would fill the memory: the server says so.
#[test]
fn a_plan_that_takes_too_much_memory_is_refused() {
    let server = perf_server(&["--one-off"]);
    let endpoint = Endpoint::bind("127.0.0.1:0").expect("a socket");
    let udp_port: u16 = server.udp_port.parse().expect("a port");
    let association = endpoint.connect(("127.0.0.1", udp_port)).expect("a server");
    let plan = serde_json::json!({
        "size": 16 << 20, "streams": 65_534, "unordered": false, "forward": false, "reverse": true, "seconds": 60.0,
        "rate": null, "reliability": null,
    });
    let start =
        serde_json::json!({ "say": "start", "plan": plan, "clocks": { "ahead": 0, "round_trip": 1000 } });
    let mut message = b"ABPF\x03".to_vec();
    message.extend(start.to_string().bytes());
    let options = SendOptions::default().ppid(0x7066_6374);
    association.send_with(0, message, options).expect("it is sent");
    let answer = association.recv().expect("an answer").expect("a message");
    let answer = answer.payload.into_bytes();
    assert!(answer.starts_with(b"ABPF\x03"));
    let answer: Value = serde_json::from_slice(&answer[5..]).expect("JSON");
    assert_eq!(answer["say"], "refused");
    let why = answer["why"].as_str().expect("a reason");
    assert!(why.contains("are too much"), "{why}");
    association.shutdown().expect("a graceful shutdown");
    endpoint.close();
    drop(server);
}

/// The client refuses such a plan before it connects.
#[test]
fn sizes_and_streams_have_a_limit_together() {
    refuses(&[(
        &["perf", "client", "127.0.0.1", "--size", "16mib", "--streams", "5"],
        "size and number of streams multiplied",
    )]);
}
