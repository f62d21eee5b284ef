//! The stack against usrsctp and pion, as client and as server, with loss in between: mixed messages both ways, and a
//! shutdown from either side. `scripts/setup` builds the peers; interop/README.md says how messages are made.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anabranch::Endpoint;

#[path = "common/peer_messages.rs"]
mod peer_messages;

use peer_messages::{SEED, STREAMS, UNORDERED_EVERY, program, receive_all, send_all};

const PORT: u16 = 5000;
const MESSAGES: u64 = 10_000;

fn start(peer: &str, role: &str, udp_port: u16, first: bool) -> Child {
    let program = program(peer);
    assert!(
        program.exists(),
        "{} is not there: run scripts/setup first",
        program.display()
    );
    Command::new(program)
        .args([
            role,
            "--udp-port",
            &udp_port.to_string(),
            "--messages",
            &MESSAGES.to_string(),
        ])
        .args([
            "--streams",
            &STREAMS.to_string(),
            "--unordered-every",
            &UNORDERED_EVERY.to_string(),
        ])
        .args(["--seed", &SEED.to_string(), "--timeout", "120"])
        .args(["--shutdown", if first { "first" } else { "second" }])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the peer starts")
}

/// One exchange: the peer in this role, and whether it ends the association.
async fn exchange(peer: &str, peer_listens: bool, peer_ends: bool) {
    let mut builder = Endpoint::builder()
        .link("delay=2ms,loss=0.2%".parse().expect("a link"), 3)
        .linger(Duration::from_secs(2));
    if let Some(directory) = std::env::var_os("ANABRANCH_CAPTURES") {
        let name = format!("interop-{peer}-listens-{peer_listens}-ends-{peer_ends}.pcapng");
        builder = builder.capture(PathBuf::from(directory).join(name));
    }
    let endpoint = builder.bind("127.0.0.1:0").await.expect("bind");
    let (mut child, association) = if peer_listens {
        let mut child = start(peer, "listen", 0, peer_ends);
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let port = lines
            .find_map(|line| {
                line.expect("text")
                    .strip_prefix("ready udp-port=")?
                    .parse::<u16>()
                    .ok()
            })
            .expect("the peer tells its port");
        std::thread::spawn(move || lines.count());
        let association = endpoint
            .connect(("127.0.0.1", port), PORT)
            .await
            .expect("connect");
        (child, association)
    } else {
        endpoint.listen(PORT).expect("listen");
        let child = start(peer, "connect", endpoint.local_addr().port(), peer_ends);
        let association = endpoint.accept().await.expect("accept");
        (child, association)
    };
    let (own, peers) = if peer_listens { (0, 1) } else { (1, 0) };
    let sending = association.clone();
    let sender = tokio::spawn(async move { send_all(&sending, own, 0..MESSAGES).await });
    receive_all(&association, peers, MESSAGES, |_| ()).await;
    sender.await.expect("all is sent");
    if peer_ends {
        assert_eq!(association.recv().await, Ok(None), "an orderly end");
    } else {
        association.drained().await.expect("all is acknowledged");
        association.shutdown().await.expect("an orderly end");
    }
    endpoint.close().await;
    let status = tokio::task::spawn_blocking(move || {
        let status = child.wait();
        let mut verdict = String::new();
        let read = child
            .stdout
            .take()
            .map(|mut out| std::io::Read::read_to_string(&mut out, &mut verdict));
        (status, read, verdict)
    });
    let (status, _, verdict) = status.await.expect("the peer ends");
    assert!(status.expect("waited").success(), "{verdict}");
    println!("{peer}, listens {peer_listens}, ends {peer_ends}: {verdict}");
}

macro_rules! interop {
    ($($name:ident: $peer:literal, $listens:literal, $ends:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let limit = Duration::from_secs(150);
            tokio::time::timeout(limit, exchange($peer, $listens, $ends)).await.expect("in time");
        }
    )*};
}

interop! {
    usrsctp_listens_and_we_end: "usrsctp", true, false;
    usrsctp_listens_and_ends: "usrsctp", true, true;
    usrsctp_connects_and_we_end: "usrsctp", false, false;
    usrsctp_connects_and_ends: "usrsctp", false, true;
    pion_listens_and_we_end: "pion", true, false;
    pion_listens_and_ends: "pion", true, true;
    pion_connects_and_we_end: "pion", false, false;
    pion_connects_and_ends: "pion", false, true;
}
