//! `anabranch web`: its answers to requests, and its page in a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anabranch::host_addresses;
use anabranch_datachannel::{ChannelConfig, DataChannel, PeerConnection, SessionConfig, candidate_addresses};
use anabranch_dtls::Certificate;
use serde_json::Value;

mod common;

use common::{Running, anabranch, browse, text};

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
        Self::start_at("127.0.0.1:0", args)
    }

    fn start_at(listen: &str, args: &[&str]) -> Self {
        let mut command = anabranch(&[&["web", "--listen", listen, "--json"], args].concat());
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

    /// The addresses of the answer to an offer.
    fn announced(&self) -> Vec<IpAddr> {
        let (status, answer) = self.offer("application/sdp", OFFER.as_bytes());
        assert_eq!(status, 201, "{answer}");
        let (_, sdp) = answer.split_once("\r\n\r\n").expect("a body");
        let candidates = candidate_addresses(sdp).expect("addresses");
        candidates.iter().map(SocketAddr::ip).collect()
    }

    /// A visitor that connects, its channel, and the UDP address of its visit.
    async fn visit(&self) -> (PeerConnection, DataChannel, SocketAddr) {
        self.visit_at([127, 0, 0, 1].into()).await
    }

    /// A visitor that has this address alone, and sends to this address alone.
    async fn visit_at(&self, address: IpAddr) -> (PeerConnection, DataChannel, SocketAddr) {
        let config = SessionConfig::new(Certificate::generate().expect("a certificate"), []);
        let socket = tokio::net::UdpSocket::bind((address, 0)).await.expect("a port");
        let (peer, offer) = PeerConnection::offer(socket, config).expect("an offer");
        let (status, answer) =
            tokio::task::block_in_place(|| self.offer("application/sdp", offer.as_bytes()));
        assert_eq!(status, 201, "{answer}");
        let (_, sdp) = answer.split_once("\r\n\r\n").expect("a body");
        let is_elsewhere =
            |line: &str| line.starts_with("a=candidate") && !line.contains(&format!(" {address} "));
        let reachable: String = sdp
            .split_inclusive('\n')
            .filter(|line| !is_elsewhere(line))
            .collect();
        let candidates = candidate_addresses(&reachable).expect("addresses");
        let [candidate] = candidates[..] else {
            panic!("{address} is not once in {sdp}")
        };
        peer.accept_answer(&reachable).expect("an answer");
        peer.connected().await.expect("a connection");
        let channel = peer.open(ChannelConfig::new("echo")).await.expect("a channel");
        (peer, channel, candidate)
    }

    /// Ends the server. Returns the events of its output that were not read, and its log.
    fn end(mut self) -> (Vec<Value>, String) {
        self.running.interrupt();
        let mut rest = String::new();
        self.rest.read_to_string(&mut rest).expect("the summary");
        let events = rest.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let mut log = String::new();
        let stderr = self.running.0.stderr.as_mut().expect("its log");
        stderr.read_to_string(&mut log).expect("its log");
        (events.collect(), log)
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
    for (file, kind) in [
        ("base.js", "text/javascript"),
        ("page.js", "text/javascript"),
        ("base.css", "text/css"),
        ("page.css", "text/css"),
    ] {
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

#[tokio::test(flavor = "multi_thread")]
async fn visitors_and_their_time_are_bounded() {
    let mut server = Server::start(&["--visitors", "1", "--visit", "1s"]);
    let (_peer, _channel, _) = server.visit().await;
    let (status, answer) = server.offer("application/sdp", OFFER.as_bytes());
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("1 visitor already") && answer.to_ascii_lowercase().contains("retry-after"));
    // The place is free again after the longest visit.
    let mut lines = String::new();
    while !lines.contains("\"left\"") {
        assert!(server.rest.read_line(&mut lines).expect("a line") > 0);
    }
    assert!(
        lines.contains("\"visitor\"") && lines.contains("longest visit"),
        "{lines}"
    );
    assert_eq!(server.offer("application/sdp", OFFER.as_bytes()).0, 201);
    let (events, _) = server.end();
    let summary = events.last().expect("a summary");
    assert_eq!(
        (
            &summary["event"],
            &summary["visits"],
            &summary["unconnected"],
            &summary["refused"]
        ),
        (&"summary".into(), &1.into(), &1.into(), &1.into())
    );
}

/// Requests whose bodies never come, and offers whose visitors never connect, keep nobody out, and write no lines.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_do_not_connect_keep_nobody_out() {
    let server = Server::start(&["--visitors", "4", "--udp-ports", "0"]);
    let head = b"POST /offer HTTP/1.1\r\nHost: test\r\nContent-Type: application/sdp\r\nContent-Length: 900\r\n\r\nv=0";
    let silent: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).expect("the server");
            stream.write_all(head).expect("the head is sent");
            stream
        })
        .collect();
    for _ in 0..20 {
        let (status, answer) = server.offer("application/sdp", OFFER.as_bytes());
        assert_eq!(status, 201, "{answer}");
    }
    let (peer, channel, _) = server.visit().await;
    // It has connected, and stays.
    for _ in 0..20 {
        assert_eq!(server.offer("application/sdp", OFFER.as_bytes()).0, 201);
    }
    channel.send_text("still here").await.expect("it is sent");
    assert_eq!(channel.recv().await.expect("an echo").bytes, "still here");
    drop((silent, peer, channel));
    let (events, _) = server.end();
    let visitors = events.iter().filter(|event| event["event"] == "visitor");
    assert_eq!(visitors.count(), 1, "{events:?}");
    assert_eq!(events.last().expect("a summary")["unconnected"], 40);
}

/// Strangers cannot fill the log: here with STUN messages of attributes that the ICE library warns of.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_write_nothing_into_the_log() {
    let server = Server::start(&[]);
    let (_peer, channel, address) = server.visit().await;
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut message = [&[0, 1, 1, 0x90, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    // MAPPED-ADDRESS without content.
    (0..100).for_each(|_| message.extend_from_slice(&[0, 1, 0, 0]));
    for _ in 0..20 {
        stranger.send_to(&message, address).expect("it is sent");
    }
    // A message of the visitor passes the link behind them.
    channel.send_text("after them").await.expect("it is sent");
    assert_eq!(channel.recv().await.expect("an echo").bytes, "after them");
    let (_, log) = server.end();
    assert_eq!(log, "");
}

/// An IPv4 address of this host. `None`, with a message, if it has only loopback addresses: then nothing else can be announced.
fn host_address() -> Option<IpAddr> {
    let addresses = host_addresses().unwrap_or_default();
    let found = addresses.into_iter().find(IpAddr::is_ipv4);
    if found.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: this host has no IPv4 address but loopback"
        );
    }
    found
}

/// Firefox has no loopback candidates, and reaches 127.0.0.1 from none of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_on_loopback_announces_the_addresses_of_the_host() {
    let Some(address) = host_address() else { return };
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let server = Server::start_at(listen, &[]);
        let announced = server.announced();
        assert!(
            announced[0].is_loopback() && announced.contains(&address),
            "{announced:?}"
        );
        for visitor in [address, [127, 0, 0, 1].into()] {
            let (_peer, channel, _) = server.visit_at(visitor).await;
            channel.send_text("here").await.expect("it is sent");
            assert_eq!(channel.recv().await.expect("an echo").bytes, "here");
        }
    }
}

/// A proxy on this machine sends its requests to a loopback address, and its visitors their datagrams to another one.
#[tokio::test(flavor = "multi_thread")]
async fn visitors_of_a_proxy_reach_the_given_address() {
    let Some(address) = host_address() else { return };
    let server = Server::start(&["--address", &address.to_string()]);
    assert_eq!(server.announced(), [address]);
    let (_peer, channel, _) = server.visit_at(address).await;
    channel.send_text("here").await.expect("it is sent");
    assert_eq!(channel.recv().await.expect("an echo").bytes, "here");
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

/// A browser with its default preferences loads the page, moves a slider and sees the numbers change; nothing comes from elsewhere, and a
/// phone is wide enough. `ANABRANCH_PEER` names the browser: chromium (the default) or firefox.
#[test]
fn the_page_compares_ways_in_a_browser() {
    let server = Server::start(&[]);
    let url = format!("http://{}/", server.address);
    let seen = browse("page.mjs", &url, "web");
    assert_eq!(seen["status"], "connected, encrypted");
    let median = |when: &str| seen[when]["prioritised"]["median"].as_f64().expect("a number");
    assert!(median("slow") > median("before"), "{seen}");
}
