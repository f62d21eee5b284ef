//! The stack against usrsctp and pion, as client and as server, with loss in between: mixed messages both ways, and a
//! shutdown from either side. `scripts/setup` builds the peers; interop/README.md says how messages are made.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anabranch::{Association, Endpoint, Message, Ppid, SendOptions, StreamId};

const PORT: u16 = 5000;
const PPID_BASE: u32 = 0x4100_0000;
const MESSAGES: u64 = 10_000;
const STREAMS: u64 = 8;
const UNORDERED_EVERY: u64 = 10;
const SEED: u64 = 1;
const MAX_SIZE: u64 = 262_144;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// Message `index` of the side that listens (1) or connects (0): stream, order flag, bytes.
fn describe(direction: u64, index: u64) -> (StreamId, bool, Vec<u8>) {
    let classes = [
        (700, 1, 256),
        (900, 257, 4096),
        (987, 4097, 16_384),
        (996, 16_385, 65_536),
        (1000, 65_537, 262_144),
    ];
    let mut state = mix(mix(2 * SEED + direction).wrapping_add(index));
    let (class, size, stream) = (next(&mut state) % 1000, next(&mut state), next(&mut state));
    let (_, low, high) = classes
        .into_iter()
        .find(|(below, ..)| class < *below)
        .expect("all are below 1000");
    let size = match index {
        0 => 1,
        1 => MAX_SIZE,
        _ => low + size % (high - low + 1),
    };
    let unordered = index % UNORDERED_EVERY == UNORDERED_EVERY - 1;
    let mut bytes = Vec::with_capacity(size as usize + 8);
    while bytes.len() < size as usize {
        bytes.extend_from_slice(&next(&mut state).to_le_bytes());
    }
    bytes.truncate(size as usize);
    (StreamId((stream % STREAMS) as u16), unordered, bytes)
}

async fn send_all(association: &Association, direction: u64) {
    for index in 0..MESSAGES {
        let (stream, unordered, bytes) = describe(direction, index);
        let options = SendOptions {
            ppid: Ppid(PPID_BASE + index as u32),
            unordered,
            ..SendOptions::default()
        };
        association.send_with(stream, bytes, options).await.expect("send");
    }
}

async fn receive_all(association: &Association, direction: u64) {
    let mut seen = vec![false; MESSAGES as usize];
    let mut last = [None; STREAMS as usize];
    for _ in 0..MESSAGES {
        let message: Message = association.recv().await.expect("recv").expect("another message");
        let index = u64::from(message.ppid.0 - PPID_BASE);
        let (stream, unordered, bytes) = describe(direction, index);
        assert_eq!(
            (message.stream, message.unordered),
            (stream, unordered),
            "message {index}"
        );
        assert!(
            !std::mem::replace(&mut seen[index as usize], true),
            "message {index} came twice"
        );
        if !unordered {
            let before = last[usize::from(stream.0)].replace(index);
            assert!(before < Some(index), "message {index} came after {before:?}");
        }
        assert!(
            message.into_bytes() == bytes,
            "message {index} is not what was sent"
        );
    }
}

fn start(peer: &str, role: &str, udp_port: u16, first: bool) -> Child {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/interop");
    let program = folder.join(format!("{peer}-peer"));
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
    let sender = tokio::spawn(async move { send_all(&sending, own).await });
    receive_all(&association, peers).await;
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
