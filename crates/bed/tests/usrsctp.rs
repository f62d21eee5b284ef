//! usrsctp and this project's stack over a bed with loss and reordering: every message in each direction must arrive once, complete and in
//! order. `scripts/setup` builds the peer.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anabranch::{Endpoint, SendOptions};
use anabranch_bed::{Bed, PathPlan, Plan, Side};

#[path = "../../anabranch/tests/common/peer_messages.rs"]
mod peer_messages;

use peer_messages::{Inbox, SEED, STREAMS, Sizes, UNORDERED_EVERY, program, receive_all, send_all};

const PORT: u16 = 5000;
const UDP_PORT: u16 = 9899;
/// The link of both directions.
const LINK: &str = "rate=20mbit,delay=5ms,jitter=1ms,queue=100p,loss=2%,reorder=2%:5ms";
/// The default number of messages in each direction, 2.5 kB long on average.
const MESSAGES: u64 = 500;
/// This variable sets another number of messages: 160,000 take ten minutes.
const HOW_MANY: &str = "ANABRANCH_BED_MESSAGES";

fn skip(why: impl std::fmt::Display) {
    // Written to stderr directly: the test harness hides the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED usrsctp over a bed: {why}");
}

#[test]
fn usrsctp_and_this_stack_exchange_all_messages() {
    let peer = program("usrsctp");
    if !peer.exists() {
        return skip("target/interop/usrsctp-peer is not there (scripts/setup builds it)");
    }
    let plan = Plan {
        paths: vec![PathPlan::symmetric(LINK.parse().unwrap())],
        seed: 1,
    };
    let bed = match Bed::build(&plan) {
        Ok(bed) => bed,
        Err(error) if error.is_refusal() => return skip(error),
        Err(error) => panic!("{error}"),
    };
    let messages = std::env::var(HOW_MANY).map_or(MESSAGES, |text| text.parse().expect("a number"));
    let timeout = 60 + messages / 50;
    let mut listener = bed
        .spawn(Side::Left, listen(&mut Command::new(peer), messages, timeout))
        .unwrap();
    let mut lines = BufReader::new(listener.stderr.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().starts_with("ready")),
        "the peer listens"
    );
    bed.inside(Side::Right, || exchange(messages)).unwrap();
    let mut said = String::new();
    listener.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(listener.wait().unwrap().success(), "{said}");
    assert!(said.contains(&format!("\"received\":{messages}")), "{said}");
    bed.check().unwrap();
    for way in &bed.counters()[0] {
        assert!(way.link.lost_model > 0 && way.link.reordered > 0, "{way:?}");
    }
}

fn listen(command: &mut Command, messages: u64, timeout: u64) -> &mut Command {
    let local = Side::Left.ipv4(1).to_string();
    command
        .args(["listen", "--local", &local, "--shutdown", "second"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (option, value) in [
        ("--udp-port", u64::from(UDP_PORT)),
        ("--messages", messages),
        ("--streams", STREAMS),
        ("--unordered-every", UNORDERED_EVERY),
        ("--seed", SEED),
        ("--timeout", timeout),
    ] {
        command.args([option, &value.to_string()]);
    }
    command
}

/// Connects to the peer, sends and receives all messages, and shuts the association down.
fn exchange(messages: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::builder()
            // If SHUTDOWN COMPLETE is lost, usrsctp retransmits SHUTDOWN ACK after a second or two.
            .linger(Duration::from_secs(5))
            .bind((Side::Right.ipv4(1), 0))
            .await
            .unwrap();
        let to = SocketAddr::from((Side::Left.ipv4(1), UDP_PORT));
        let association = endpoint.connect_to_port(to, PORT).await.unwrap();
        let mut inbox = Inbox::new(Sizes::Mixed, 1, messages);
        tokio::join!(
            send_all(&association, Sizes::Mixed, 0, 0..messages, |_, _| {
                SendOptions::default()
            }),
            receive_all(&association, &mut inbox, |_| true, |_| {}),
        );
        association.shutdown().await.unwrap();
        endpoint.close().await;
    });
}
