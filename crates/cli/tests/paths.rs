//! Several paths as a user requests them: two programs on loopback addresses, of which Linux has many.
#![cfg(target_os = "linux")]

use serde_json::Value;

mod common;

use common::{Listener, anabranch, event, ready, records, refuses, run, text};

/// Three different links.
const LINKS: [&str; 3] = [
    "rate=8mbit,delay=5ms,loss=0.1%,queue=64kib",
    "rate=6400kbit,delay=8ms,loss=1%,queue=64kib",
    "rate=3200kbit,delay=16ms,loss=3%,queue=64kib",
];

fn ours(path: usize) -> String {
    format!("127.84.0.{}", path + 1)
}

fn theirs(server: u8, path: usize) -> String {
    format!("127.84.{server}.{}", path + 1)
}

/// A server on the first `count` of its addresses.
fn serve(command: &[&str], server: u8, count: usize) -> Listener {
    let paths: Vec<String> = (0..count).map(|path| theirs(server, path)).collect();
    let mut args = command.to_vec();
    for path in &paths {
        args.extend(["--path", path]);
    }
    args.extend(["--udp-port", "0", "--json"]);
    ready(anabranch(&args))
}

/// The last record of a client that succeeds.
fn summary(args: &[&str]) -> Value {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    event(&records(&text(&output.stdout)), "summary").clone()
}

fn measure(server: u8, mode: &[&str]) -> Value {
    let listener = serve(&["perf", "server", "--one-off"], server, 3);
    let host = theirs(server, 0);
    let mut paths = vec![ours(0)];
    paths.extend((1..3).map(|path| format!("{},{}", ours(path), theirs(server, path))));
    let mut args = vec![
        "perf",
        "client",
        &host,
        "--udp-port",
        &listener.udp_port,
        "--json",
    ];
    args.extend(["--bytes", "2mib", "--size", "8kib", "--interval", "0.2"]);
    for (path, link) in paths.iter().zip(LINKS) {
        args.extend(["--path", path, "--link", link]);
    }
    args.extend(mode);
    let summary = summary(&args);
    let (ended, told) = listener.rest();
    assert!(ended);
    assert_eq!(
        event(&told, "result")["forward"],
        summary["forward"],
        "both sides tell the same"
    );
    let forward = summary["forward"].clone();
    assert_eq!(forward["intact"], true, "{forward}");
    assert_eq!(forward["receiver"]["bytes"], 2 << 20);
    let paths = forward["sender"]["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 3);
    for (index, path) in paths.iter().enumerate() {
        assert_eq!(path["local"], ours(index), "{path}");
        let remote = path["remote"].as_str().unwrap();
        assert!(
            remote.starts_with(&format!("{}:", theirs(server, index))),
            "{path}"
        );
    }
    forward["sender"].clone()
}

fn of_paths(sender: &Value, what: &str) -> Vec<u64> {
    let paths = sender["paths"].as_array().unwrap().iter();
    paths.map(|path| path[what].as_u64().unwrap()).collect()
}

#[test]
fn data_goes_by_all_paths_at_once() {
    for (server, mode) in [
        &["--multipath", "cmt", "--coupling", "uncoupled"][..],
        &["--multipath", "eca", "--coupling", "uncoupled"],
        &[
            "--multipath",
            "cmt",
            "--path-scheduler",
            "round-robin",
            "--coupling",
            "resource-pooling",
            "--recovery",
            "rfc9260",
        ],
        &[
            "--multipath",
            "eca",
            "--ack-routing",
            "every-path",
            "--retransmission",
            "same-path",
            "--recovery",
            "rfc9260",
        ],
    ]
    .iter()
    .enumerate()
    {
        let sender = measure(server as u8 + 1, mode);
        assert!(
            of_paths(&sender, "bytes").iter().all(|bytes| *bytes > 0),
            "{sender}"
        );
        let repeats = &sender["retransmissions"];
        let repeats = repeats["fast"].as_u64().unwrap() + repeats["timeout"].as_u64().unwrap();
        assert_eq!(
            of_paths(&sender, "retransmissions").iter().sum::<u64>(),
            repeats,
            "{sender}"
        );
        // A tail loss probe may retransmit a chunk that is not lost.
        let lost = of_paths(&sender, "lost").iter().sum::<u64>();
        assert!(lost >= repeats || !mode.contains(&"rfc9260"), "{sender}");
        assert!(
            sender["paths"]
                .as_array()
                .unwrap()
                .iter()
                .all(|path| path["srtt_ms"].as_f64() > Some(5.0))
        );
    }
}

/// How little data the other paths carry is checked in virtual time (`demo`): here, a busy machine can look like a failed path.
#[test]
fn without_multipath_the_first_path_is_the_primary_one() {
    let sender = measure(8, &[]);
    assert!(of_paths(&sender, "bytes")[0] > 0, "{sender}");
    let primary = sender["paths"].as_array().unwrap().iter();
    let primary: Vec<_> = primary.map(|path| path["primary"].as_bool().unwrap()).collect();
    assert_eq!(primary, [true, false, false]);
}

#[test]
fn acknowledgements_go_path_by_path_where_both_offer_it() {
    let listener = serve(&["perf", "server", "--one-off", "--multipath", "cmt"], 7, 2);
    let host = theirs(7, 0);
    let client = |port: &str| {
        run(&[
            "perf",
            "client",
            &host,
            "--udp-port",
            port,
            "--json",
            "--bytes",
            "100kb",
            "--path",
            &ours(0),
            "--path",
            &ours(1),
            "--multipath",
            "eca",
        ])
    };
    let refused = client(&listener.udp_port);
    assert!(refused.status.success(), "{}", text(&refused.stderr));
    assert!(
        text(&refused.stderr).contains("note: the peer does not offer ECA-SCTP"),
        "{}",
        text(&refused.stderr)
    );
    // A listener with several paths offers ECA-SCTP by default.
    let listener = serve(&["perf", "server", "--one-off", "--coupling", "uncoupled"], 7, 2);
    let negotiated = client(&listener.udp_port);
    assert!(
        negotiated.status.success() && !text(&negotiated.stderr).contains("does not offer"),
        "{}",
        text(&negotiated.stderr)
    );
}

#[test]
fn people_read_a_line_for_each_path() {
    let listener = serve(&["perf", "server", "--one-off"], 4, 2);
    let (host, second) = (theirs(4, 0), ours(1));
    let output = run(&[
        "perf",
        "client",
        &host,
        "--udp-port",
        &listener.udp_port,
        "--time",
        "0.5",
        "--interval",
        "0.1",
        "--path",
        &ours(0),
        "--path",
        &second,
        "--multipath",
        "cmt",
        "--link",
        "rate=10mbit,delay=5ms",
    ]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        " to 127.84.4.1: ",
        " % of the data, cwnd ",
        "forward, path by path",
        "share",
        &format!("{second} to {}", theirs(4, 1)),
        "active",
    ] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}

#[test]
fn a_file_and_echoes_go_by_several_paths() {
    let file = common::directory("paths").join("file");
    std::fs::write(&file, vec![7; 300_000]).unwrap();
    let both = [ours(0), ours(1)];
    let listener = serve(&["listen", "--echo", "--multipath", "cmt"], 5, 2);
    let (host, port) = (theirs(5, 0), listener.udp_port.clone());
    let common = [
        "--udp-port",
        &port,
        "--json",
        "--path",
        &both[0],
        "--path",
        &both[1],
        "--multipath",
        "cmt",
        "--coupling",
        "uncoupled",
        "--congestion",
        "cubic",
        "--recovery",
        "rack",
    ];
    let sent = summary(&[&["send", &host, file.to_str().unwrap()][..], &common].concat());
    assert_eq!(sent["complete"], true, "{sent}");
    assert!(of_paths(&sent, "bytes").iter().sum::<u64>() >= 300_000, "{sent}");
    let pinged = summary(&[&["ping", &host, "--count", "3", "--interval", "1ms"][..], &common].concat());
    assert_eq!(pinged["equal"], 3, "{pinged}");
}

#[test]
fn a_server_with_one_address_has_several_paths() {
    let listener = serve(&["perf", "server", "--one-off"], 10, 1);
    let host = theirs(10, 0);
    let both = [ours(0), ours(1)];
    let summary = summary(&[
        "perf",
        "client",
        &host,
        "--udp-port",
        &listener.udp_port,
        "--json",
        "--bytes",
        "4mib",
        "--multipath",
        "cmt",
        "--path",
        &both[0],
        "--link",
        LINKS[0],
        "--path",
        &both[1],
        "--link",
        LINKS[1],
    ]);
    assert_eq!(summary["forward"]["intact"], true, "{summary}");
    let sender = &summary["forward"]["sender"];
    assert!(
        of_paths(sender, "bytes").iter().all(|bytes| *bytes > 0) && of_paths(sender, "bytes").len() == 2,
        "{sender}"
    );
}

#[test]
fn an_interface_is_a_path_by_its_name() {
    let listener = ready(anabranch(&[
        "listen",
        "--json",
        "--udp-port",
        "0",
        "--path",
        "lo",
    ]));
    let file = common::directory("interface").join("file");
    std::fs::write(&file, vec![7; 30_000]).unwrap();
    let second = ours(1);
    let both = ["--path", "lo", "--path", &second, "--multipath", "cmt"];
    for (more, paths) in [
        (&both[..2], 1),
        (&both, 2),
        (&["--path", &second, "--watch-interfaces"], 1),
        (&["--path", "lo", "--path", "usb9", "--watch-interfaces"], 1),
    ] {
        let mut args = vec!["send", "127.0.0.1", file.to_str().unwrap(), "--json"];
        args.extend(["--udp-port", &listener.udp_port]);
        let output = run(&[&args, more].concat());
        let said = text(&output.stderr);
        assert!(output.status.success(), "{more:?}: {said}");
        let sent = event(&records(&text(&output.stdout)), "summary").clone();
        assert_eq!(sent["complete"], true, "{sent}");
        // The interface may have an IPv6 address too.
        let v4 = |path: &&Value| {
            path["local"]
                .as_str()
                .is_some_and(|local| local.starts_with("127."))
        };
        assert_eq!(
            sent["paths"].as_array().unwrap().iter().filter(v4).count(),
            paths,
            "{sent}"
        );
        let awaited =
            said.contains("--path usb9 has no path at the end: the interface is down, or has no address");
        assert_eq!(awaited, more.contains(&"usb9"), "{said}");
    }
}

#[test]
fn one_path_may_be_ipv4_and_another_ipv6() {
    let ipv4 = theirs(9, 0);
    let listener = ready(anabranch(&[
        "perf",
        "server",
        "--one-off",
        "--json",
        "--udp-port",
        "0",
        "--path",
        &ipv4,
        "--path",
        "::1",
    ]));
    let summary = summary(&[
        "perf",
        "client",
        &ipv4,
        "--udp-port",
        &listener.udp_port,
        "--json",
        "--bytes",
        "500kb",
        "--bidir",
        "--multipath",
        "eca",
        "--path",
        &ours(0),
        "--path",
        "::1",
        "--link",
        "rate=8mbit,delay=2ms",
    ]);
    for direction in ["forward", "reverse"] {
        assert_eq!(summary[direction]["intact"], true, "{summary}");
        let paths = summary[direction]["sender"]["paths"].as_array().unwrap();
        let second = paths.iter().find(|path| path["local"] == "::1").unwrap();
        assert!(
            second["remote"].as_str().unwrap().starts_with("[::1]:"),
            "{second}"
        );
    }
}

/// pion discards an INIT that lists addresses.
#[test]
fn a_peer_that_does_not_answer_may_know_one_path_only() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let (one, two) = (ours(0), ours(1));
    for (paths, is_told) in [
        (&["--path", &one, "--path", &two][..], true),
        (&["--path", &one], false),
    ] {
        let ping = ["ping", "127.0.0.1", "--udp-port", &port, "--timeout", "200ms"];
        let said = text(&run(&[&ping, paths].concat()).stderr);
        assert!(said.contains("did not answer within"), "{said}");
        assert_eq!(said.contains("try one --path"), is_told, "{said}");
    }
}

#[test]
fn mistakes_are_explained() {
    let listener = serve(&["listen"], 6, 1);
    let host = theirs(6, 0);
    let ping = |more: &[&'static str]| {
        let args = [
            &[
                "ping",
                &host,
                "--udp-port",
                &listener.udp_port,
                "--count",
                "1",
                "--wait",
                "200ms",
            ][..],
            more,
        ]
        .concat();
        let output = run(&args);
        let said = text(&output.stderr);
        (output.status.success(), said)
    };
    for (more, parts) in [
        (
            &["--path", "203.0.113.9"][..],
            &["--path 203.0.113.9", "no interface of this machine"][..],
        ),
        (
            &["--path", "127.84.0.1", "--multipath", "cmt"],
            &["--path once for each"],
        ),
        (
            &["--multipath", "cmt"],
            &["--multipath cmt", "127.84.6.1", "start the peer with --path"],
        ),
        (
            &["--path", "127.84.0.1", "--path", "127.84.0.2,127.84.6.2"],
            &[
                "--path 127.84.0.2,127.84.6.2",
                "did not announce this address",
                "127.84.6.1",
            ],
        ),
        (
            &["--path", "127.84.0.1,127.84.9.9"],
            &["HOST 127.84.6.1", "without REMOTE"],
        ),
        (&["--path", "::1"], &["HOST 127.84.6.1", "IPv4"]),
        (
            &[
                "--path",
                "127.84.0.1,127.84.6.1",
                "--path",
                "127.84.0.1,127.84.6.1",
            ],
            &["is given twice", "another pair of addresses"],
        ),
        (&["--coupling", "lia"], &["--coupling", "--multipath cmt"]),
        (
            &["--multipath", "cmt", "--coupling", "lia", "--congestion", "cubic"],
            &[
                "--coupling lia",
                "--congestion rfc9260",
                "--congestion cubic use --coupling grouped",
            ],
        ),
        (
            &["--multipath", "cmt", "--ack-routing", "ranked"],
            &["--ack-routing", "--multipath eca"],
        ),
        (
            &[
                "--path",
                "127.84.0.1",
                "--link",
                "delay=1ms",
                "--link",
                "delay=2ms",
            ],
            &["--link is given 2 times"],
        ),
    ] {
        let (succeeded, said) = ping(more);
        assert!(!succeeded && said.contains("error: "), "{more:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{more:?}: {part} is missing in {said}");
        }
    }
    let (succeeded, said) = ping(&["--path", "127.84.0.1", "--path", "::1"]);
    assert!(!succeeded, "a listener without --echo answers nothing");
    assert!(said.contains("note: --path ::1 is not used"), "{said}");
    assert!(said.contains("warning: --path ::1 carried nothing"), "{said}");
    refuses(&[
        (
            &["ping", "127.0.0.1", "--path", "10.0.0.1,::1"],
            "must both be IPv4 or both IPv6",
        ),
        (
            &["ping", "127.0.0.1", "--path", "here"],
            "--path here: this machine has no network interface of this name, only lo",
        ),
        (
            &["ping", "127.0.0.1", "--path", "10.0.0"],
            "LOCAL must be an IP address, the name of an interface, or auto",
        ),
        (
            &["ping", "127.0.0.1", "--path", "here", "--watch-interfaces"],
            "the interfaces are down or have no address",
        ),
        (
            &["ping", "127.0.0.1", "--path", "lo,127.0.0.1"],
            "leave it out after an interface",
        ),
        (
            &["ping", "127.0.0.1", "--path", "10.0.0.1:9899"],
            "without a port",
        ),
        (
            &["ping", "127.0.0.1", "--path", "10.0.0.1,0.0.0.0"],
            "REMOTE must be the address of one interface",
        ),
        (&["ping", "127.0.0.1", "--multipath", "all"], "--multipath"),
        (
            &["ping", "127.0.0.1", "--multipath", "cmt", "--congestion", "lia"],
            "use --coupling lia",
        ),
        (
            &[
                "listen",
                "--path",
                "127.0.0.1",
                "--path",
                "127.0.0.2",
                "--congestion",
                "bbr",
                "--coupling",
                "lia",
            ],
            "--coupling grouped",
        ),
        (
            &["listen", "--path", "127.0.0.1,127.0.0.2"],
            "takes LOCAL only: give --path 127.0.0.1",
        ),
        (
            &["listen", "--path", "127.0.0.1", "--bind", "127.0.0.1"],
            "--bind",
        ),
        (
            &["listen", "--bind", "203.0.113.9"],
            "--bind 203.0.113.9: no interface of this machine",
        ),
    ]);
}
