//! `anabranch web`: its answers to requests, and its page in a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

mod common;

use common::{Running, anabranch, text};

/// An offer as browsers make it: without candidates, because their addresses are found by their checks.
const OFFER: &str = "v=0\r\no=- 1942278418090845555 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
    m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:Jez8\r\na=ice-pwd:UG/uHBq2taYy8JMbxzWAPwXS\r\n\
    a=fingerprint:sha-256 A9:B7:3B:29:2B:64:54:B2:AA:3C:2D:C4:69:D2:08:FC:16:44:96:5F:EF:83:4F:44:64:E1:55:80:71:16:A9:6E\r\n\
    a=setup:actpass\r\na=mid:0\r\na=sctp-port:5000\r\na=max-message-size:262144\r\n";

/// A server of the page, and its address.
struct Server {
    running: Running,
    address: SocketAddr,
    rest: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut command = anabranch(&[&["web", "--listen", "127.0.0.1:0", "--json"], args].concat());
        let mut child = command.spawn().expect("the command starts");
        let mut rest = BufReader::new(child.stdout.take().expect("its output"));
        let running = Running(child);
        let mut line = String::new();
        rest.read_line(&mut line).expect("its first line");
        let record: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(record["event"], "listening");
        assert_eq!(record["encryption"]["protocol"], "DTLS");
        assert!(record["page_encryption"].is_null());
        let url = record["url"].as_str().expect("a URL");
        let address = url
            .strip_prefix("http://")
            .expect("http")
            .parse()
            .expect("an address");
        Self {
            running,
            address,
            rest,
        }
    }

    /// The status and the whole answer to a request.
    fn request(&self, head: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("the server");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a limit");
        write!(
            stream,
            "{head}\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .expect("the head is sent");
        // The server may refuse a body before its end.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = text(&answer);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{answer:?}")), answer)
    }

    fn offer(&self, kind: &str, body: &[u8]) -> (u16, String) {
        self.request(&format!("POST /offer HTTP/1.1\r\nContent-Type: {kind}"), body)
    }
}

#[test]
fn requests_have_answers_with_reasons() {
    let server = Server::start(&[]);
    let (status, page) = server.request("GET / HTTP/1.1", b"");
    let lower = page.to_ascii_lowercase();
    assert_eq!(status, 200);
    assert!(page.contains("<title>") && lower.contains("content-security-policy: default-src 'none'"));
    // Everything that the page loads is here.
    for (file, kind) in [("page.js", "text/javascript"), ("page.css", "text/css")] {
        assert!(page.contains(file));
        let (status, answer) = server.request(&format!("GET /{file} HTTP/1.1"), b"");
        assert!(status == 200 && answer.contains(kind), "{file}");
    }
    for (expected, (status, answer), reason) in [
        (404, server.request("GET /other HTTP/1.1", b""), "only the page"),
        (405, server.request("POST / HTTP/1.1", b""), "GET"),
        (405, server.request("GET /offer HTTP/1.1", b""), "POST"),
        (
            415,
            server.offer("text/plain", OFFER.as_bytes()),
            "application/sdp",
        ),
        (
            413,
            server.offer("application/sdp", &vec![b'a'; 70_000]),
            "65536 bytes",
        ),
        (400, server.offer("application/sdp", b"v=1"), "description"),
        (400, server.offer("application/sdp", b"\xff\xfe"), "UTF-8"),
        (
            201,
            server.offer("application/sdp; charset=utf-8", OFFER.as_bytes()),
            "a=setup:passive",
        ),
    ] {
        assert_eq!(status, expected, "{answer}");
        assert!(answer.contains(reason), "{reason:?} is not in {answer}");
    }
}

#[test]
fn visitors_and_their_time_are_bounded() {
    let mut server = Server::start(&["--visitors", "1", "--visit", "1s"]);
    let offer = |server: &Server| server.offer("application/sdp", OFFER.as_bytes());
    assert_eq!(offer(&server).0, 201);
    let (status, answer) = offer(&server);
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("1 visitor already") && answer.to_ascii_lowercase().contains("retry-after"));
    // The room is free again after the longest visit.
    let mut lines = String::new();
    while !lines.contains("\"left\"") {
        assert!(server.rest.read_line(&mut lines).expect("a line") > 0);
    }
    assert!(lines.contains("longest visit"), "{lines}");
    assert_eq!(offer(&server).0, 201);
    server.running.interrupt();
    let mut rest = String::new();
    server.rest.read_to_string(&mut rest).expect("the summary");
    let summary: Value = serde_json::from_str(rest.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&summary["event"], &summary["visits"], &summary["refused"]),
        (&"summary".into(), &2.into(), &1.into())
    );
}

#[test]
fn mistakes_name_the_flag() {
    let taken = Server::start(&[]);
    let listen = taken.address.to_string();
    for (args, words) in [
        (["--listen", "localhost"], "127.0.0.1:8080"),
        (["--listen", &listen], "--listen"),
        (["--udp-ports", "9-5"], "50000-50015"),
        (["--visitors", "0"], "--visitors"),
        (["--visit", "2d"], "10m"),
        (["--address", "0.0.0.0"], "--address"),
    ] {
        let output = anabranch(&[&["web"], &args[..]].concat())
            .output()
            .expect("it starts");
        let error = text(&output.stderr);
        assert!(
            !output.status.success() && error.contains(words),
            "{args:?}: {error}"
        );
    }
}

/// A browser loads the page, moves a slider and sees the numbers change; nothing comes from elsewhere, and a phone is wide enough.
#[test]
fn the_page_compares_ways_in_a_browser() {
    let server = Server::start(&[]);
    let url = format!("http://{}/", server.address);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(
        root.join("target/interop/webrtc").exists(),
        "run scripts/setup, which installs the driver of browsers"
    );
    let script = root.join("interop/webrtc/page.mjs");
    let mut command = Command::new("node");
    command.arg(script).arg(&url).stdin(Stdio::null());
    // With ANABRANCH_PICTURES, a person can look at the page afterwards.
    if let Some(folder) = std::env::var_os("ANABRANCH_PICTURES") {
        command.arg(PathBuf::from(folder).join("web"));
    }
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node starts");
    let output = Running(child).output();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(seen["faults"], Value::Array(Vec::new()));
    assert_eq!(seen["status"], "connected, encrypted");
    for request in seen["requests"].as_array().expect("requests") {
        let request = request.as_str().expect("a URL");
        assert!(
            request.starts_with(&url) || request.starts_with("data:"),
            "{request}"
        );
    }
    assert_eq!(
        (&seen["widths"]["wide"], &seen["widths"]["phone"]),
        (&1280.into(), &390.into())
    );
    let median = |when: &str| seen[when]["prioritised"]["median"].as_f64().expect("a number");
    assert!(median("slow") > median("before"), "{seen}");
}
