//! The command as a user runs it: the built program, real sockets on loopback, and ports that the system chooses.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

mod common;

use common::{LISTEN, Running, anabranch, directory, event, listen, ready, records, refuses, run, text};

/// Sends a file to a listener that stores it, and compares both files.
fn transfer(name: &str, more: &[&str]) {
    let directory = directory(name);
    let content: Vec<u8> = (0..8_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let source = directory.join("source");
    fs::write(&source, &content).unwrap();
    let store = directory.join("store");
    let listener = listen(&["--once", "--output", store.to_str().unwrap()]);
    let port = listener.udp_port.clone();
    let mut args = vec![
        "send",
        "127.0.0.1",
        source.to_str().unwrap(),
        "--json",
        "--udp-port",
        &port,
    ];
    args.extend(more);
    let sent = run(&args);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let (success, said) = listener.rest();
    assert!(success, "{said:?}");
    let sent = records(&text(&sent.stdout));
    let (sent, received) = (event(&sent, "summary"), event(&said, "association"));
    assert_eq!(sent["sha256"], received["sha256"]);
    assert_eq!(received["bytes"], 8 << 20);
    assert_eq!(sent["complete"], true);
    assert!(
        sent["peak_resident_bytes"]
            .as_u64()
            .is_none_or(|bytes| bytes < 64 << 20),
        "{sent}"
    );
    assert_eq!(fs::read(received["file"].as_str().unwrap()).unwrap(), content);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_file_arrives_equal() {
    transfer("plain", &[]);
}

#[test]
fn a_file_arrives_equal_through_a_lossy_link() {
    transfer("lossy", &["--link", "loss=1%"]);
}

#[test]
fn a_file_arrives_equal_as_one_message() {
    transfer("whole", &["--message-size", "whole"]);
}

#[test]
fn echoes_are_compared_by_ping() {
    let listener = listen(&["--echo"]);
    for more in [["--size", "1"], ["--size", "300kib"], ["--stream", "999"]] {
        let mut args = vec![
            "ping",
            "127.0.0.1",
            "--json",
            "--count",
            "4",
            "--interval",
            "10ms",
        ];
        args.extend(["--udp-port", &listener.udp_port]);
        args.extend(more);
        let pinged = run(&args);
        assert!(pinged.status.success(), "{}", text(&pinged.stderr));
        let said = records(&text(&pinged.stdout));
        let summary = event(&said, "summary");
        assert_eq!(
            (&summary["sent"], &summary["equal"]),
            (&4.into(), &4.into()),
            "{summary}"
        );
        assert!(summary["delay"]["median_ms"].as_f64().unwrap() > 0.0);
    }
}

/// Each algorithm transfers all data over a link that loses packets. (Simulations in virtual time measure the speed.)
#[test]
fn losses_are_repaired_with_every_algorithm() {
    let listener = listen(&["--echo"]);
    for more in [
        &["--recovery", "rack"][..],
        &["--recovery", "rfc9260", "--congestion", "rfc9260"],
        &["--recovery", "rack", "--congestion", "cubic"],
        &["--recovery", "rack", "--congestion", "bbr"],
        &["--recovery", "rack", "--congestion", "bbr-random-loss"],
    ] {
        let link = ["--link", "rate=10mbit,delay=20ms,loss=12%"];
        let counts = ["--count", "100", "--interval", "5ms", "--wait", "60s"];
        let port = ["--json", "--udp-port", &listener.udp_port];
        let pinged = run(&[&["ping", "127.0.0.1"][..], &port, &counts, &link, more].concat());
        assert!(pinged.status.success(), "{more:?}: {}", text(&pinged.stderr));
        let said = records(&text(&pinged.stdout));
        let summary = event(&said, "summary");
        assert_eq!(summary["equal"], 100, "{more:?}: {summary}");
        let counters = &summary["partial_reliability"];
        let again = ["retransmissions_fast", "retransmissions_timeout"];
        let again: u64 = again.iter().map(|name| counters[name].as_u64().unwrap()).sum();
        assert!(again > 0, "{more:?}: about twelve messages are lost: {summary}");
    }
}

#[test]
fn lines_are_messages_and_printed() {
    let listener = listen(&["--once"]);
    let mut sender = anabranch(&[
        "send",
        "127.0.0.1",
        "--stream",
        "3",
        "--ppid",
        "46",
        "--udp-port",
        &listener.udp_port,
    ]);
    let mut child = sender.stdin(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"hello\n\nlast, without a line feed")
        .unwrap();
    let sent = Running(child).output();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let said = text(&sent.stdout);
    assert!(
        said.contains("sent 3 messages") && said.contains("all acknowledged"),
        "{said}"
    );
    let (success, said) = listener.rest();
    assert!(success);
    let messages: Vec<_> = said
        .iter()
        .filter(|record| record["event"] == "message")
        .collect();
    let texts: Vec<_> = messages
        .iter()
        .map(|message| message["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["hello", "", "last, without a line feed"]);
    assert!(
        messages
            .iter()
            .all(|message| message["stream"] == 3 && message["ppid"] == 46)
    );
}

#[test]
fn the_demo_delivers_everything() {
    let capture = directory("demo").join("demo.pcapng");
    let link = "rate=2mbit,delay=10ms,loss=1%,queue=64kib";
    let args = [
        "demo",
        "--json",
        "--size",
        "200kib",
        "--seconds",
        "20",
        "--link",
        link,
        "--pcap",
    ];
    let mut args = args.to_vec();
    args.push(capture.to_str().unwrap());
    let output = run(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = records(&text(&output.stdout));
    let run = &event(&said, "demo")["runs"][0];
    assert_eq!(run["file"]["equal"], true);
    assert_eq!(run["file"]["bytes"], 200 << 10);
    assert_eq!(run["negotiated"]["reconfiguration"], true);
    let count = |value: &Value| value.as_u64().unwrap();
    for stream in run["streams"].as_array().unwrap() {
        let [sent, delivered] = ["sent", "delivered"].map(|name| count(&stream[name]));
        assert!(sent > 0, "{stream}");
        if stream["stream"] == "telemetry" {
            // A busy machine may delay readings beyond their deadline. Each one is delivered or abandoned.
            let abandoned =
                ["abandoned_sent", "abandoned_unsent"].map(|name| count(&run["partial_reliability"][name]));
            assert!(delivered <= sent, "{stream}");
            assert!(delivered + abandoned.iter().sum::<u64>() >= sent, "{run}");
        } else {
            assert_eq!(sent, delivered, "{stream}");
        }
        assert!(count(&stream["in_time"]) <= delivered, "{stream}");
        assert!(
            stream["delay"]["median_ms"].as_f64().unwrap() >= 10.0,
            "the link's delay: {stream}"
        );
    }
    assert!(fs::metadata(&capture).unwrap().len() > 200 << 10);
    let networks = event(&said, "two-networks");
    let [sent, in_time] = ["deadline_sent", "deadline_in_time"].map(|name| count(&networks[name]));
    assert!(
        in_time <= sent && in_time as f64 > 0.95 * sent as f64,
        "{networks}"
    );
    assert!(
        said.iter().all(|record| record["event"] != "comparison"),
        "--compare has the rest"
    );
}

/// The text has the same numbers as `--json`, fits 80 columns, and has no colours where there is no terminal.
#[test]
fn the_demo_fits_a_terminal() {
    let output = run(&["demo", "--size", "20kib", "--link", "rate=2mbit,delay=10ms"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout) + &text(&output.stderr);
    for part in [
        "telemetry, reliable",
        "of the readings",
        "Wi-Fi is pulled",
        "virtual time",
    ] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    for line in said.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
}

#[test]
#[cfg(unix)]
fn an_interrupted_demo_says_what_it_did() {
    let mut demo = Running(
        anabranch(&["demo", "--size", "1gib", "--seconds", "60"])
            .spawn()
            .unwrap(),
    );
    let mut progress = BufReader::new(demo.0.stderr.take().unwrap());
    let mut line = String::new();
    progress.read_line(&mut line).unwrap();
    assert!(line.contains("connecting over a link with rate=2mbit"), "{line}");
    // The first line of progress shows that the messages are being sent.
    line.clear();
    progress.read_line(&mut line).unwrap();
    assert!(line.contains("in time"), "{line}");
    demo.interrupt();
    let output = demo.output();
    let mut rest = String::new();
    progress.read_to_string(&mut rest).unwrap();
    assert!(output.status.success(), "{rest}");
    let said = text(&output.stdout);
    assert!(said.contains("the received file is equal"), "{said}");
    assert!(!said.contains("Wi-Fi"), "no simulation after Ctrl-C: {said}");
}

#[test]
fn help_teaches() {
    let help = text(&run(&["--help"]).stdout);
    for part in [
        "demo",
        "listen",
        "send",
        "ping",
        "With --tls or --dtls, messages are encrypted",
        "anabranch listen --echo",
    ] {
        assert!(help.contains(part), "{part} is missing in {help}");
    }
    for command in ["demo", "listen", "send", "ping"] {
        let help = text(&run(&[command, "--help"]).stdout);
        for part in ["Examples:", "--pcap", "--log", "--json", "--link"] {
            assert!(help.contains(part), "{command}: {part} is missing in {help}");
        }
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let wrong: [(&[&str], &str); 8] = [
        (&["ping", "127.0.0.1", "--speed"], "--speed"),
        (&["ping", "127.0.0.1", "--link", "loss=lots"], "--link"),
        (&["ping", "127.0.0.1", "--interval", "5"], "--interval"),
        (&["ping", "127.0.0.1:9899"], "--udp-port 9899"),
        (&["ping", "no.such.host.invalid"], "no.such.host.invalid"),
        (
            &["ping", "127.0.0.1", "--udp-port", "9", "--timeout", "300ms"],
            "UDP port 9",
        ),
        (&["send", "127.0.0.1", "no-such-file"], "no-such-file"),
        (
            &["listen", "--udp-port", "0", "--pcap", "no-such-directory/x"],
            "no-such-directory/x",
        ),
    ];
    refuses(&wrong);
}

/// An option for a file that a command does not write is an error, not ignored.
#[test]
fn commands_that_write_no_file_refuse_to() {
    for (command, instead) in [
        (&["bench", "--mib", "1"] as &[&str], "give --pcap to perf"),
        (&["bench", "--mib", "1", "--udp"], "give --pcap to perf"),
        (&["web", "--listen", "127.0.0.1:0"], "give --pcap to demo"),
        (&["demo", "--compare-only"], "cannot be used with"),
    ] {
        refuses(&[(&[command, &["--pcap", "file"]].concat(), instead)]);
        let instead = if command[0] == "demo" {
            instead
        } else {
            "give --qlog to demo"
        };
        refuses(&[(&[command, &["--qlog", "file"]].concat(), instead)]);
    }
}

#[test]
fn a_port_in_use_is_told() {
    let listener = listen(&[]);
    let output = run(&["listen", "--bind", "127.0.0.1", "--udp-port", &listener.udp_port]);
    let said = text(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains(&listener.udp_port) && said.contains("--udp-port"),
        "{said}"
    );
}

#[test]
#[cfg(unix)]
fn an_interrupted_listener_says_what_it_did() {
    let listener = listen(&["--echo"]);
    let pinged = run(&[
        "ping",
        "127.0.0.1",
        "--count",
        "1",
        "--udp-port",
        &listener.udp_port,
    ]);
    assert!(pinged.status.success(), "{}", text(&pinged.stderr));
    listener.program.interrupt();
    let (success, said) = listener.rest();
    assert!(success);
    assert_eq!(event(&said, "summary")["messages"], 1);
}

/// The listener may write at most 1 MiB, as on a full disk: both sides report the error.
#[test]
#[cfg(unix)]
fn a_full_disk_is_told_to_both_sides() {
    let directory = directory("full-disk");
    let file = directory.join("large");
    fs::write(&file, vec![7; 8 << 20]).unwrap();
    let output = directory.join("received");
    fs::create_dir(&output).unwrap();
    // A limit of the shell, whose signal is ignored: writing then fails as on a full disk.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_anabranch"))
        .args(LISTEN)
        .args(["--output", output.to_str().unwrap()])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let listener = ready(command);
    let sent = run(&[
        "send",
        "127.0.0.1",
        file.to_str().unwrap(),
        "--udp-port",
        &listener.udp_port,
    ]);
    assert!(!sent.status.success(), "{}", text(&sent.stdout));
    let said = text(&sent.stderr);
    assert!(
        said.contains("was not sent to its end") && said.contains("the receiver cannot go on"),
        "{said}"
    );
    listener.program.interrupt();
    let (_, said) = listener.rest();
    let told = said
        .iter()
        .any(|record| record.to_string().contains("cannot be written"));
    assert!(told, "{said:?}");
}
