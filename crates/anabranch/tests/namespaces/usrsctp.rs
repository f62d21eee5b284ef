//! usrsctp as the peer, with two addresses: a path is cut during a transfer. In one test this side sends, in the other usrsctp.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anabranch::{Association, Config, Endpoint, PathState, SendOptions, StreamId};

use crate::bed::{Bed, LIMIT, expect_pause_below, skip, wait_until};
use crate::failover::endpoint;
use crate::peer_messages::{Inbox, SEED, STREAMS, Sizes, UNORDERED_EVERY, program, receive_all, send_all};
use crate::transfer::{Progress, path, wait_for_paths};

pub(crate) const PORT: u16 = 5000;
pub(crate) const UDP_PORT: u16 = 9899;
/// About 20 MB.
const MESSAGES: u64 = 8000;
/// About 2 MB: at an RTT of 80 ms usrsctp sends 0.5 MB/s, with or without the cut.
const FROM_USRSCTP: u64 = 700;
/// Messages that are sent after the path is restored.
const LAST: u64 = 1000;

/// Two subnets; `None` if the usrsctp peer was not built. usrsctp runs over UDP without privileges, but it uses all addresses of
/// its namespace.
pub(crate) fn two_subnets(test: &'static str) -> Option<Bed> {
    if !program("usrsctp").exists() {
        skip(
            test,
            "target/interop/usrsctp-peer is not there (scripts/setup builds it)",
        );
        return None;
    }
    let bed = Bed::build(test, &["a", "z"], &[])?.in_turn();
    bed.join("path0", [("a", &["10.83.1.1/24"]), ("z", &["10.83.1.2/24"])]);
    bed.join("path1", [("a", &["10.83.2.1/24"]), ("z", &["10.83.2.2/24"])]);
    Some(bed)
}

/// usrsctp on both addresses of `z`, with these arguments: the role first.
pub(crate) fn peer(bed: &Bed, arguments: &[&str]) -> Child {
    peer_at(bed, &["10.83.1.2", "10.83.2.2"], arguments)
}

/// usrsctp on these addresses of `z`.
pub(crate) fn peer_at(bed: &Bed, locals: &[&str], arguments: &[&str]) -> Child {
    let mut command = bed.command("z", program("usrsctp"));
    command.args(arguments).arg("--fast-failover");
    for local in locals {
        command.args(["--local", local]);
    }
    for (option, value) in [
        ("--timeout", 90),
        ("--streams", STREAMS),
        ("--unordered-every", UNORDERED_EVERY),
        ("--seed", SEED),
    ] {
        command.args([option, &value.to_string()]);
    }
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().expect("the peer starts")
}

/// Waits until the peer listens.
pub(crate) fn listening(child: &mut Child) {
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("ready")));
    assert!(ready.is_some(), "the peer listens");
    std::thread::spawn(move || lines.count());
}

/// Two subnets, and usrsctp listening on both of its addresses.
fn start(test: &'static str, sends: bool) -> Option<(Bed, Child)> {
    let bed = two_subnets(test)?;
    let (messages, expect) = if sends { (FROM_USRSCTP, 0) } else { (0, MESSAGES) };
    let [udp_port, messages, expect] =
        [u64::from(UDP_PORT), messages, expect].map(|number| number.to_string());
    let mut child = peer(
        &bed,
        &[
            "listen",
            "--udp-port",
            &udp_port,
            "--shutdown",
            "second",
            "--messages",
            &messages,
            "--expect",
            &expect,
        ],
    );
    listening(&mut child);
    Some((bed, child))
}

pub(crate) fn verdict(mut child: Child) -> String {
    let mut verdict = String::new();
    let mut out = child.stdout.take().expect("piped");
    out.read_to_string(&mut verdict).expect("text");
    assert!(child.wait().expect("it ends").success(), "{verdict}");
    verdict
}

async fn connect() -> (Endpoint, Association) {
    let config = Config::default();
    let addresses = [IpAddr::from([10, 83, 1, 1]), IpAddr::from([10, 83, 2, 1])];
    let endpoint = endpoint(&config, &addresses, true, Some("delay=40ms"));
    let remote = SocketAddr::from(([10, 83, 1, 2], UDP_PORT));
    let association = endpoint.connect_to_port(remote, PORT).await.expect("connect");
    (endpoint, association)
}

/// All messages are reliable.
pub(crate) fn reliable(_: StreamId, _unordered: bool) -> SendOptions {
    SendOptions::default()
}

/// This side sends. The acknowledgements show the messages that usrsctp has.
fn cut_while_sending_to_usrsctp() -> Option<Duration> {
    let (bed, child) = start("tousrsctp", false)?;
    let (told, association) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let taken = Arc::new(AtomicU64::new(0));
    let sender = bed.inside("a", {
        let taken = Arc::clone(&taken);
        move || async move {
            let (endpoint, association) = connect().await;
            told.send(association.clone()).expect("it is awaited");
            for index in 0..MESSAGES - LAST {
                send_all(&association, Sizes::Mixed, 0, index..index + 1, reliable).await;
                taken.store(index + 1, Ordering::Relaxed);
            }
            tokio::task::spawn_blocking(move || resumed.recv())
                .await
                .expect("no panic")
                .expect("told");
            send_all(&association, Sizes::Mixed, 0, MESSAGES - LAST..MESSAGES, reliable).await;
            association.drained().await.expect("all is acknowledged");
            association.shutdown().await.expect("an orderly end");
            endpoint.close().await;
        }
    });
    let association = association.recv_timeout(LIMIT).expect("connected");
    wait_for_paths(&association, 2);
    wait_until("a part is sent", || taken.load(Ordering::Relaxed) > MESSAGES / 4);

    let cut = Instant::now();
    bed.ip("z", "link set path0 down");
    let acknowledgements = || association.stats().counters.sacks_received;
    let (mut before, mut last, mut longest) = (acknowledgements(), Instant::now(), Duration::ZERO);
    let mut doubted = None;
    while taken.load(Ordering::Relaxed) < MESSAGES - LAST || association.stats().outstanding_bytes > 0 {
        assert!(cut.elapsed() < LIMIT / 2, "the transfer goes on");
        let now = acknowledgements();
        if now > before {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        before = now;
        if doubted.is_none() && path(&association, 0).state != PathState::Active {
            doubted = Some(cut.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    println!("to usrsctp: dead path noticed after {doubted:?}, the longest pause {longest:?}");
    assert!(doubted.is_some());

    bed.ip("z", "link set path0 up");
    wait_until("the path is active again", || {
        path(&association, 0).state == PathState::Active
    });
    let sent = path(&association, 0).data_bytes_sent;
    resume.send(()).expect("it is awaited");
    wait_until("data returns to the primary path", || {
        path(&association, 0).data_bytes_sent > sent
    });
    sender.join().expect("the sender");
    println!("to usrsctp: {}", verdict(child));
    Some(longest)
}

#[test]
fn we_send_to_usrsctp() {
    expect_pause_below(Duration::from_secs(1), cut_while_sending_to_usrsctp);
}

/// usrsctp sends, with the same settings. The time until it leaves the path is not checked.
#[test]
fn usrsctp_sends_to_us() {
    let Some((bed, child)) = start("fromusrsctp", true) else {
        return;
    };
    let progress = Arc::new(Progress::default());
    let (told, association) = mpsc::channel();
    let receiver = bed.inside("a", {
        let progress = Arc::clone(&progress);
        move || async move {
            let (endpoint, association) = connect().await;
            told.send(association.clone()).expect("it is awaited");
            receive_all(
                &association,
                &mut Inbox::new(Sizes::Mixed, 1, FROM_USRSCTP),
                |_| true,
                |bytes| progress.note(bytes),
            )
            .await;
            association.shutdown().await.expect("an orderly end");
            endpoint.close().await;
        }
    });
    let association = association.recv_timeout(LIMIT).expect("connected");
    wait_for_paths(&association, 2);
    wait_until("half a MiB has come", || progress.bytes() > 1 << 19);
    progress.restart();
    bed.ip("a", "link set path0 down");
    receiver.join().expect("nothing is lost");
    println!(
        "from usrsctp: the longest pause {:?}; {}",
        progress.longest(),
        verdict(child)
    );
}
