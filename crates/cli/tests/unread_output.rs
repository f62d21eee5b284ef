//! A server whose output nobody reads, or whose reader has gone.

use std::io::{BufRead, Read, Write};
use std::process::Stdio;

mod common;

use common::{Listener, Running, anabranch, event, listen, records, run, text};

/// More than a pipe (64 KiB) and the listener's queue (1 MiB) hold.
const MANY: usize = 9000;

/// Sends this number of lines in one association, and returns when all are acknowledged.
fn send_lines(listener: &Listener, count: usize) {
    let line = format!("{}\n", "x".repeat(100));
    let mut sender = anabranch(&["send", "127.0.0.1", "--json", "--udp-port", &listener.udp_port]);
    let mut child = sender.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(line.repeat(count).as_bytes()).unwrap();
    drop(input);
    let sent = Running(child).output();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let said = records(&text(&sent.stdout));
    assert_eq!(event(&said, "summary")["messages"], count);
}

/// The first client's lines fill the queue; the later clients transfer all the same.
#[test]
#[cfg(unix)]
fn a_listener_that_nobody_reads_serves_all_associations() {
    let mut listener = listen(&[]);
    send_lines(&listener, MANY);
    for _ in 0..3 {
        send_lines(&listener, MANY / 3);
    }
    // Each message and the end of each association is printed, or counted as dropped.
    let (mut printed, mut dropped, mut ended) = (0, 0, 0);
    while printed + dropped < 2 * MANY as u64 + 4 {
        let mut line = String::new();
        listener.lines.read_line(&mut line).unwrap();
        let record = &records(&line)[0];
        match record["event"].as_str().unwrap() {
            "message" => printed += 1,
            "association" => {
                printed += 1;
                ended += 1;
                assert_eq!(record["orderly"], true, "{record}");
            }
            "dropped" => dropped += record["lines"].as_u64().unwrap(),
            other => panic!("{other}"),
        }
    }
    // If nobody read for long enough, the rest was dropped; otherwise the senders waited.
    assert!(printed > 4000 && ended <= 4, "{printed} {dropped}");
    listener.program.interrupt();
    let (success, said) = listener.rest();
    assert!(success);
    let summary = event(&said, "summary");
    assert_eq!(summary["messages"], 2 * MANY);
    assert_eq!(
        (&summary["associations"], &summary["failed"]),
        (&4.into(), &0.into())
    );
}

#[test]
#[cfg(unix)]
fn a_listener_that_nobody_reads_ends() {
    let listener = listen(&[]);
    send_lines(&listener, MANY);
    let Listener {
        program, mut lines, ..
    } = listener;
    program.interrupt();
    // Nobody reads until it has ended.
    let ended = program.output();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    assert!(said.ends_with('\n'), "no line is cut off");
    records(&said);
    let told = text(&ended.stderr);
    assert!(
        told.contains("not printed, because nobody read the output"),
        "{told}"
    );
}

#[test]
#[cfg(unix)]
fn a_listener_continues_without_a_reader() {
    let listener = listen(&["--echo"]);
    let Listener {
        program,
        mut lines,
        udp_port,
        ..
    } = listener;
    let port = ["--udp-port", &udp_port, "--json"];
    let ping = || {
        run(&[
            &["ping", "127.0.0.1", "--count", "2", "--interval", "1ms"][..],
            &port,
        ]
        .concat())
    };
    assert!(ping().status.success());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    drop(lines);
    for _ in 0..3 {
        assert!(ping().status.success());
    }
    program.interrupt();
    let ended = program.output();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
}
