//! Partial reliability as a user requests it: two programs, real sockets on loopback, a lossy link.

use serde_json::Value;

mod common;

use common::{directory, event, listen, records, refuses, run, text};

/// `--seed` decides which packets are lost. With this seed, some of the packets are lost.
const LOSSY: [&str; 2] = ["--link", "delay=2ms,loss=5%"];
/// Messages of a file; each message fills a packet.
const MESSAGES: u64 = 500;

/// Sends a file in messages of 1 KiB through a lossy link; returns the final records of both sides.
fn send(name: &str, listener: &[&str], more: &[&str]) -> (Value, Value) {
    let directory = directory(&format!("partial-{name}"));
    let file = directory.join("source");
    std::fs::write(&file, vec![7; MESSAGES as usize * 1024]).unwrap();
    // The listener must not print the messages: nobody reads its output before it ends.
    let store = directory.join("store");
    let listener = listen(&[&["--once", "--output", store.to_str().unwrap()], listener].concat());
    let mut args = vec![
        "send",
        "127.0.0.1",
        file.to_str().unwrap(),
        "--json",
        "--udp-port",
    ];
    args.extend([&listener.udp_port, "--message-size", "1kib"]);
    args.extend(LOSSY);
    args.extend(more);
    let sent = run(&args);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let (success, said) = listener.rest();
    assert!(success, "{said:?}");
    std::fs::remove_dir_all(&directory).unwrap();
    let sent = records(&text(&sent.stdout));
    (
        event(&sent, "summary").clone(),
        event(&said, "association").clone(),
    )
}

fn counter(record: &Value, name: &str) -> u64 {
    let counter = &record["partial_reliability"][name];
    counter
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {record}"))
}

fn repeats(record: &Value) -> u64 {
    counter(record, "retransmissions_fast") + counter(record, "retransmissions_timeout")
}

#[test]
fn what_is_sent_once_is_abandoned_where_it_is_lost() {
    let (sent, received) = send("once", &[], &["--max-retransmissions", "0"]);
    let (abandoned, arrived) = (
        counter(&sent, "abandoned_sent"),
        received["messages"].as_u64().unwrap(),
    );
    assert_eq!(sent["messages"], MESSAGES);
    assert!(
        arrived < MESSAGES && arrived + abandoned >= MESSAGES,
        "{arrived}, {abandoned}"
    );
    assert_eq!(sent["complete"], false);
    assert_eq!((repeats(&sent), counter(&sent, "abandoned_unsent")), (0, 0));
    assert!(counter(&sent, "forward_tsns_sent") > 0 && counter(&received, "forward_tsns_received") > 0);
    assert!(counter(&sent, "freed_early_bytes") > 0);
    assert_eq!(counter(&sent, "early_discards"), 0);
    assert_eq!(counter(&sent, "selective_notices_sent"), 0);
}

#[test]
fn extensions_are_on_where_they_are_asked_for() {
    let flags = [
        "--max-retransmissions",
        "0",
        "--early-discard",
        "--selective-forward-tsn=2",
    ];
    let (sent, received) = send("extensions", &[], &flags);
    assert!(counter(&sent, "early_discards") > 0);
    assert!(counter(&sent, "selective_notices_sent") > 0);
    assert!(counter(&received, "selective_notices_received") > 0);

    let (sent, received) = send(
        "refused",
        &["--nr-sack", "off", "--no-partial-reliability"],
        &flags,
    );
    assert_eq!(received["messages"], MESSAGES);
    assert_eq!(sent["complete"], true);
    assert!(repeats(&sent) > 0);
    for name in [
        "forward_tsns_sent",
        "selective_notices_sent",
        "freed_early_bytes",
        "abandoned_sent",
    ] {
        assert_eq!(counter(&sent, name), 0, "{name}");
    }
}

#[test]
fn nr_sack_can_be_off() {
    let (sent, received) = send("sack", &[], &["--nr-sack", "off", "--max-retransmissions", "1"]);
    assert_eq!(counter(&sent, "freed_early_bytes"), 0);
    assert!(repeats(&sent) > 0, "each may be retransmitted once");
    let arrived = received["messages"].as_u64().unwrap();
    assert!(arrived + counter(&sent, "abandoned_sent") >= MESSAGES);
}

#[test]
fn ping_counts_what_stays_away() {
    let listener = listen(&["--echo"]);
    let mut args = vec!["ping", "127.0.0.1", "--json", "--udp-port", &listener.udp_port];
    args.extend([
        "--count",
        "400",
        "--interval",
        "1ms",
        "--size",
        "1kib",
        "--max-retransmissions",
        "0",
    ]);
    args.extend(LOSSY);
    let pinged = run(&args);
    assert!(pinged.status.success(), "{}", text(&pinged.stderr));
    let said = records(&text(&pinged.stdout));
    let summary = event(&said, "summary");
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!((number("sent"), number("different")), (400, 0));
    assert_eq!(number("equal") + number("missing"), 400);
    assert!(
        number("missing") > 0 && number("missing") <= counter(summary, "abandoned_sent"),
        "{summary}"
    );
}

#[test]
fn perf_verifies_what_was_not_abandoned_both_ways() {
    let server = common::ready(common::anabranch(&[
        "perf",
        "server",
        "--bind",
        "127.0.0.1",
        "--udp-port",
        "0",
        "--json",
        "--one-off",
        "--interval",
        "0",
    ]));
    let mut args = vec![
        "perf",
        "client",
        "127.0.0.1",
        "--json",
        "--bidir",
        "--bytes",
        "500kb",
        "--size",
        "1000",
    ];
    args.extend([
        "--max-retransmissions",
        "0",
        "--interval",
        "0",
        "--udp-port",
        &server.udp_port,
    ]);
    args.extend(LOSSY);
    let client = run(&args);
    assert!(client.status.success(), "{}", text(&client.stderr));
    let said = records(&text(&client.stdout));
    let summary = event(&said, "summary");
    assert_eq!(summary["plan"]["reliability"]["retransmissions"], 0);
    for direction in ["forward", "reverse"] {
        let flow = &summary[direction];
        let missing = flow["receiver"]["missing"].as_u64().unwrap();
        assert_eq!(flow["intact"], true, "{flow}");
        assert!(
            missing > 0 && missing <= counter(&flow["sender"], "abandoned_sent"),
            "{flow}"
        );
        assert!(counter(&flow["sender"], "forward_tsns_sent") > 0, "{flow}");
    }
    let (success, served) = server.rest();
    assert!(success);
    assert_eq!(event(&served, "result")["forward"], summary["forward"]);
}

#[test]
fn the_demo_compares_the_same_way_every_time() {
    let compare = |more: &[&str]| {
        let args = [&["demo", "--compare-only", "--json"], more].concat();
        let output = run(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let said = compare(&[]);
    assert_eq!(said, compare(&["--seed", "1"]));
    assert_ne!(said, compare(&["--seed", "2"]));
    let said = records(&said);
    let ways = event(&said, "comparison")["ways"].as_array().unwrap().clone();
    assert_eq!(ways.len(), 5);
    for way in &ways {
        assert_eq!(way["orders"]["sent"], way["orders"]["delivered"], "{way}");
        assert_eq!(counter(way, "forward_tsns_sent") > 0, way != &ways[0], "{way}");
    }
    let several = event(&said, "several-paths")["ways"].as_array().unwrap();
    let over = |name: &str| {
        let way = several
            .iter()
            .find(|way| way["over"].as_str() == Some(name))
            .unwrap();
        way["bits_per_second"].as_f64().unwrap()
    };
    assert!(
        over("all three at once: cmt") > 1.3 * over("path 1 alone"),
        "{several:?}"
    );
    let pulled = event(&said, "two-networks");
    assert!(pulled["longest_pause_ms"].as_f64().unwrap() < 500.0, "{pulled}");
    let said = records(&compare(&["--lifetime", "50ms"]));
    let ways = event(&said, "comparison")["ways"].as_array().unwrap().len();
    assert_eq!(ways, 3, "reliable, and the one asked for twice");
}

#[test]
fn people_read_abandoned_messages_in_eighty_columns() {
    let said = text(&run(&["demo", "--compare-only"]).stdout);
    for part in [
        "everything reliable",
        "abandoned after 100 ms",
        "sent once *",
        "resent",
    ] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    let wide: Vec<_> = said.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?} do not fit a terminal of 80 columns");
}

#[test]
fn help_teaches_and_errors_name_the_flags() {
    for command in [
        &["send"][..],
        &["listen"],
        &["ping"],
        &["perf", "client"],
        &["demo"],
    ] {
        let help = text(&run(&[command, &["--help"]].concat()).stdout);
        for flag in [
            "--lifetime",
            "--max-retransmissions",
            "--pr-priority",
            "--early-discard",
            "--selective-forward-tsn",
            "--nr-sack",
            "--no-partial-reliability",
        ] {
            assert!(help.contains(flag), "{command:?}: {flag} is missing in {help}");
        }
    }
    let wrong: [(&[&str], &str); 6] = [
        (
            &["ping", "::1", "--lifetime", "1s", "--pr-priority", "1"],
            "--pr-priority",
        ),
        (&["ping", "::1", "--lifetime", "0s"], "--max-retransmissions 0"),
        (
            &["send", "::1", "--max-retransmissions", "-1"],
            "--max-retransmissions",
        ),
        (
            &["send", "::1", "--selective-forward-tsn=0"],
            "1 to 10000 packets",
        ),
        (&["send", "::1", "--nr-sack", "perhaps"], "--nr-sack"),
        (&["listen", "--udp-port", "0", "--lifetime", "1s"], "--echo"),
    ];
    refuses(&wrong);
}
