//! The memory of `anabranch web` for strangers: the command itself, and a hostile client. *Packets* are requests here.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use crate::Scenario;
use crate::attack::Attack;
use crate::over_udp::Victim;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("TCP connections", idle),
    ("the head and the body of a request", requests),
    ("visitors", visitors),
];

/// An offer as browsers make it.
const OFFER: &str = "v=0\r\no=- 1942278418090845555 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
    m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:Jez8\r\na=ice-pwd:UG/uHBq2taYy8JMbxzWAPwXS\r\n\
    a=fingerprint:sha-256 A9:B7:3B:29:2B:64:54:B2:AA:3C:2D:C4:69:D2:08:FC:16:44:96:5F:EF:83:4F:44:64:E1:55:80:71:16:A9:6E\r\n\
    a=setup:actpass\r\na=mid:0\r\na=sctp-port:5000\r\na=max-message-size:262144\r\n";

fn start(attack: &mut Attack) -> (Victim, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["web", "--listen", "127.0.0.1:0", "--json"]);
    let mut victim = Victim::of(attack, &mut command);
    let line = victim.line("\"url\":\"http://");
    let (address, _) = line.split_once('"').expect("a URL");
    (victim, address.parse().expect("an address"))
}

/// A request. Returns the answer, or what there is of it.
fn request(address: SocketAddr, head: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        let close = format!(
            "{head}\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        // The server may refuse the rest.
        let _ = stream.write_all(&[close.as_bytes(), body].concat());
        let _ = stream.read_to_end(&mut answer);
    }
    answer
}

/// Connections that send half a request, and stay.
fn idle(attack: &mut Attack) {
    let (_victim, address) = start(attack);
    request(address, "GET / HTTP/1.1", b"");
    attack.begins();
    let half = format!("POST /offer HTTP/1.1\r\nX: {}", "x".repeat(15_000));
    let mut kept = Vec::new();
    for number in 0..attack.planned() {
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.write_all(half.as_bytes());
            kept.push(stream);
        }
        if number % 500 == 499 {
            // Descriptors of this process are limited too; the server has closed the oldest ones long ago.
            kept.drain(..kept.len() / 2);
        }
        attack.sent(half.len());
    }
}

/// Heads and bodies that are too long.
fn requests(attack: &mut Attack) {
    let (_victim, address) = start(attack);
    request(address, "GET / HTTP/1.1", b"");
    attack.begins();
    let head = format!("POST /offer HTTP/1.1\r\nX: {}", "x".repeat(60_000));
    let body = vec![b'a'; 60_000];
    for number in 0..attack.planned() {
        if number % 2 == 0 {
            request(address, &head, b"");
        } else {
            request(
                address,
                "POST /offer HTTP/1.1\r\nContent-Type: application/sdp",
                &body,
            );
        }
        attack.sent(60_000);
    }
}

/// Offers without a visit.
fn visitors(attack: &mut Attack) {
    let (_victim, address) = start(attack);
    attack.begins();
    let head = "POST /offer HTTP/1.1\r\nContent-Type: application/sdp";
    let mut accepted = 0;
    for _ in 0..attack.planned() {
        let answer = request(address, head, OFFER.as_bytes());
        accepted += u64::from(answer.starts_with(b"HTTP/1.1 201"));
        attack.sent(OFFER.len());
    }
    assert!(accepted >= 16, "{accepted} offers were answered");
    // A visitor that is not displaced takes some 200 kB: its session, its link and its socket's buffers.
    attack.would_take(accepted * (200 << 10));
}
