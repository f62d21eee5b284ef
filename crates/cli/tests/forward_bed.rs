//! `anabranch forward` with real programs on a testbed with two lossy paths. It judges counts.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

mod common;

use common::{directory, event, records, run, text};

/// Two modems. The first one is pulled during the second transfer, and plugged in again.
const LINKS: [&str; 4] = [
    "--link",
    "rate=8mbit,delay=20ms,loss=2%,queue=64kb",
    "--link",
    "rate=4mbit,delay=30ms,loss=1%,queue=64kb",
];
const DATAGRAMS: u64 = 300;
/// The lines of a file of about 3 MB.
const FILE_LINES: u32 = 250_000;

/// Sends numbered datagrams, a thousand a second, and counts those that come back.
const SENDER: &str = "
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('127.0.0.1', 5004))
count, sent, seen = int(sys.argv[1]), 0, set()
while len(seen) < count:
    wait = 30
    if sent < count:
        s.send(sent.to_bytes(4, 'big') * 50)
        sent, wait = sent + 1, 0.001
    if select.select([s], [], [], wait)[0]:
        seen.add(s.recv(1000))
    elif wait == 30:
        break
print('{\"event\": \"echoes\", \"count\": %d}' % len(seen))
";

const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 9000))
while True:
    data, source = s.recvfrom(1000)
    s.sendto(data, source)
";

/// Whether this machine can have a testbed, and has the programs.
fn possible() -> bool {
    let bed = run(&["bed", "run", "--link", "", "--", "true"]);
    let missing = ["curl", "python3"]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_err());
    let reason = match missing {
        Some(program) => format!("there is no {program}"),
        None if !bed.status.success() => text(&bed.stderr),
        None => return true,
    };
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
    false
}

#[test]
fn real_programs_use_two_lossy_paths_and_lose_nothing() {
    if !possible() {
        return;
    }
    let folder = directory("forward-bed");
    let write = |name: &str, content: String| {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let program = env!("CARGO_BIN_EXE_anabranch");
    let (sender, echo) = (
        write("sender.py", SENDER.to_owned()),
        write("echo.py", ECHO.to_owned()),
    );
    let key = |name: &str| {
        let key = folder.join(name).to_str().unwrap().to_owned();
        assert!(run(&["keygen", &key]).status.success());
        key
    };
    let (own, client_key) = (key("server.key"), key("client.key"));
    let file: String = (0..FILE_LINES).map(|line| format!("line {line}\n")).collect();
    write("file", file.clone());
    let (here, there) = (folder.join("client.json"), folder.join("server.json"));
    let left = write(
        "left.sh",
        format!(
            "python3 {echo} &\ncd {folder}\npython3 -m http.server --bind 127.0.0.1 8000 2>/dev/null >&2 &\n\
             exec {program} forward server --bind 0.0.0.0 --allow-to 127.0.0.1:9000/udp,127.0.0.1:8000/tcp --key {own} --allow {client_key}.pub \
             --json --interval 0.1 >{there}\n",
            folder = folder.display(),
            there = there.display()
        ),
    );
    let right = write(
        "right.sh",
        format!(
            "{program} forward client 10.77.1.1 --udp 5004=127.0.0.1:9000,deadline=30s --tcp 5080=127.0.0.1:8000 \
             --path path1 --path path2 --json --interval 0.1 --key {client_key} --peer {own}.pub >{here} &\n\
             client=$!\n\
             until test \"$(tail -n 1 {here} | grep -o '\"state\":\"active\"' | wc -l)\" = 2; do sleep 0.1; done\n\
             python3 {sender} {DATAGRAMS}\n\
             curl --silent --fail --retry 50 --retry-delay 1 --retry-all-errors --output {folder}/copy http://127.0.0.1:5080/file\n\
             (sleep 0.3; ip link set path1 down; sleep 0.7; ip link set path1 up) &\n\
             curl --silent --fail --output {folder}/second http://127.0.0.1:5080/file\n\
             sleep 0.3\n\
             kill -INT $client\n\
             wait $client\n",
            here = here.display(),
            folder = folder.display()
        ),
    );
    let left = format!("sh {left}");
    let args = [
        &["bed", "run"],
        &LINKS[..],
        &["--left", &left, "--", "sh", &right],
    ]
    .concat();
    let output = run(&args);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    let echoes = said
        .lines()
        .find(|line| line.contains("\"echoes\""))
        .expect("the sender's line");
    assert_eq!(event(&records(echoes), "echoes")["count"], DATAGRAMS);

    for copy in ["copy", "second"] {
        assert!(
            std::fs::read_to_string(folder.join(copy)).unwrap() == file,
            "{copy}"
        );
    }

    let last = |path: &Path| {
        let all = records(&std::fs::read_to_string(path).unwrap());
        let of_client = |record: &Value| record["event"] == "status" && !record["clients"][0].is_null();
        all.into_iter().rfind(of_client).unwrap()["clients"][0].clone()
    };
    let (client, server) = (last(&here), last(&there));
    let paths = server["paths"].as_array().unwrap();
    let numbers = |key: &str| -> Vec<u64> { paths.iter().map(|path| path[key].as_u64().unwrap()).collect() };
    let least = file.len() as u64 / 20;
    assert!(numbers("bytes_sent").iter().all(|sent| *sent > least), "{server}");
    assert!(numbers("chunks_lost").iter().any(|lost| *lost > 0), "{server}");
    // The first path ended, and another one began: the counters of its network went on.
    let own = |key: &str, list: &str| {
        let all = client[list].as_array().unwrap().iter();
        let of_first = all.filter(|one| one[key] == "path1");
        of_first
            .map(|one| one["chunks_sent"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert!(own("network", "networks") > own("interface", "paths"), "{client}");
    let datagrams = &client["rules"][0];
    assert_eq!(
        (
            &datagrams["messages_sent"],
            &datagrams["messages_received"],
            &datagrams["abandoned"]
        ),
        (&DATAGRAMS.into(), &DATAGRAMS.into(), &0.into()),
        "{client}"
    );
}
