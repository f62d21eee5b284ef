//! Several paths at once with usrsctp, over two subnets that lose packets, with mixed messages in both directions. usrsctp's CMT
//! and NR-SACK are off or on. Both stacks use the same flag bits of acknowledgements for delayed acknowledgements (DAC).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anabranch::{
    Association, AuthenticationConfig, Config, Counters, CoupledControl, Endpoint, LinkConfig, MultipathMode,
    SharedKey,
};

use crate::bed::Bed;
use crate::captured::{Captured, chunks};
use crate::peer_messages::{Inbox, Sizes, receive_all, send_all};
use crate::usrsctp::{PORT, UDP_PORT, listening, peer_at, reliable, two_subnets, verdict};

const OURS: [[u8; 4]; 2] = [[10, 83, 1, 1], [10, 83, 2, 1]];
const THEIRS: [[u8; 4]; 2] = [[10, 83, 1, 2], [10, 83, 2, 2]];
/// The in-process links of the paths, at our side.
const LINKS: [&str; 2] = [
    "rate=40mbit,delay=5ms,loss=1%,queue=128kib",
    "rate=20mbit,delay=15ms,loss=2%,queue=128kib",
];
/// Messages in each direction: about 5 MB.
const MESSAGES: u64 = 2000;
/// So many instead, without random losses, if it is set: `scripts/long/one-address` sends 100 MB.
const MORE: &str = "ANABRANCH_MESSAGES";
const WITHOUT_LOSS: [&str; 2] = [
    "rate=40mbit,delay=5ms,queue=128kib",
    "rate=20mbit,delay=15ms,queue=128kib",
];
const DATA: u8 = 0;
const SACK: u8 = 3;
const NR_SACK: u8 = 16;
const AUTH: u8 = 15;
/// The secret of key 1 of both sides.
const SECRET: &str = "a secret of both";

/// The settings of an exchange.
struct Exchange {
    test: &'static str,
    peer_listens: bool,
    /// The addresses of the peer: both of them, or the first alone, to which both of ours then lead.
    peer_addresses: usize,
    /// Additional arguments for usrsctp.
    peer: &'static [&'static str],
    mode: MultipathMode,
    congestion: CoupledControl,
    delayed_acks: bool,
    /// Whether both sides require signed DATA and acknowledgements, with a shared key (RFC 4895).
    signed: bool,
}

/// The chunks of the packets.
struct Seen {
    chunks: Vec<Captured>,
}

impl Seen {
    fn from(&self, addresses: [[u8; 4]; 2], kind: u8) -> impl Iterator<Item = &Captured> {
        let own = move |chunk: &&Captured| addresses.contains(&chunk.source.ip().octets());
        self.chunks
            .iter()
            .filter(own)
            .filter(move |chunk| chunk.kind == kind)
    }

    fn count(&self, addresses: [[u8; 4]; 2], kind: u8) -> usize {
        self.from(addresses, kind).count()
    }

    /// DATA chunks by their source address.
    fn data(&self, addresses: [[u8; 4]; 2]) -> [usize; 2] {
        addresses.map(|address| {
            let by = |chunk: &&Captured| *chunk.source.ip() == Ipv4Addr::from(address);
            self.from(addresses, DATA).filter(by).count()
        })
    }

    /// The number of acknowledgements for each value of their two high flag bits, and all other flag bits that occur.
    fn flags(&self, addresses: [[u8; 4]; 2]) -> (BTreeMap<u8, usize>, u8) {
        let (mut high, mut other) = (BTreeMap::new(), 0);
        for kind in [SACK, NR_SACK] {
            for chunk in self.from(addresses, kind) {
                *high.entry(chunk.flags >> 6).or_default() += 1;
                other |= chunk.flags & 0x3f;
            }
        }
        (high, other)
    }
}

fn open(exchange: &Exchange, capture: &PathBuf) -> Endpoint {
    let mut config = Config::default();
    config.local_addresses = OURS.map(IpAddr::from).to_vec();
    config.multipath.mode = exchange.mode;
    config.multipath.congestion = exchange.congestion;
    config.multipath.delayed_acks = exchange.delayed_acks;
    config.authentication = exchange.signed.then(|| {
        let mut authentication = AuthenticationConfig::default();
        authentication.keys = vec![SharedKey {
            id: 1,
            secret: SECRET.into(),
        }];
        authentication.chunks = vec![DATA, SACK, NR_SACK];
        authentication
    });
    // The same value as for usrsctp, so that the sizes of packets do not differ.
    config.path_mtu_limit = 1400;
    let builder = OURS
        .iter()
        .zip(if std::env::var_os(MORE).is_some() {
            WITHOUT_LOSS
        } else {
            LINKS
        })
        .fold(Endpoint::builder(), |builder, (address, link)| {
            let link: LinkConfig = link.parse().expect("a link");
            builder.path_link(IpAddr::from(*address), link, 5)
        });
    let locals = OURS.map(|address| SocketAddr::from((address, UDP_PORT)));
    let builder = builder.config(config).capture(capture);
    builder
        .linger(std::time::Duration::from_secs(4))
        .bind_all(&locals)
        .expect("bind")
}

/// Messages in both directions; then this side ends the association. Returns the bytes sent on each path, and the counters.
async fn exchange_all(association: Association, own: u64, messages: u64) -> (Vec<u64>, Counters) {
    let sending = association.clone();
    let sender = async move { send_all(&sending, Sizes::Mixed, own, 0..messages, reliable).await };
    let mut inbox = Inbox::new(Sizes::Mixed, 1 - own, messages);
    let receiver = receive_all(&association, &mut inbox, |_| true, |_| ());
    tokio::join!(sender, receiver);
    association.drained().await.expect("all is acknowledged");
    let stats = association.stats();
    association.shutdown().await.expect("an orderly end");
    let by_path = stats.paths.iter().map(|path| path.data_bytes_sent).collect();
    (by_path, stats.counters)
}

/// The peer keeps its first address alone, which both subnets reach.
fn lead_to_the_first(bed: &Bed) {
    bed.ip("a", "rule add from 10.83.2.1 table 102");
    bed.ip("a", "route add 10.83.1.2 dev path1 table 102");
    bed.ip("z", "address delete 10.83.2.2/24 dev path1");
    bed.ip("z", "route add 10.83.2.0/24 dev path1 src 10.83.1.2");
    // Each host takes packets for any of its addresses on any interface.
    for role in ["a", "z"] {
        bed.shell(
            role,
            "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done",
        );
    }
}

fn run(exchange: Exchange) -> Option<Seen> {
    let bed: Bed = two_subnets(exchange.test)?;
    let theirs = &["10.83.1.2", "10.83.2.2"][..exchange.peer_addresses];
    if theirs.len() == 1 {
        lead_to_the_first(&bed);
    }
    let count = std::env::var(MORE).map_or(MESSAGES, |text| text.parse().expect("a number of messages"));
    let capture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.pcapng", exchange.test));
    let [messages, udp_port] = [count.to_string(), UDP_PORT.to_string()];
    let common = ["--messages", &messages, "--shutdown", "second"];
    let role = if exchange.peer_listens {
        vec!["listen", "--udp-port", &udp_port]
    } else {
        vec![
            "connect",
            "--udp-port",
            &udp_port,
            "--local-udp-port",
            &udp_port,
            "--remote",
            "10.83.1.1",
        ]
    };
    let key = format!("1:{SECRET}");
    let signs = ["--auth-chunks", "0,3,16", "--auth-key", &key];
    let signs = if exchange.signed { &signs[..] } else { &[] };
    let arguments = [&role[..], &common, exchange.peer, signs].concat();
    let signed = exchange.signed;
    let test = exchange.test;
    let peer_listens = exchange.peer_listens;
    let (child, (by_path, counters)) = if peer_listens {
        let mut child = peer_at(&bed, theirs, &arguments);
        listening(&mut child);
        let inside = bed.inside("a", {
            let capture = capture.clone();
            move || async move {
                let endpoint = open(&exchange, &capture);
                let remote = SocketAddr::from((THEIRS[0], UDP_PORT));
                let association = endpoint.connect_to_port(remote, PORT).await.expect("connect");
                let result = exchange_all(association, 0, count).await;
                endpoint.close().await;
                result
            }
        });
        (child, inside.join().expect("all of it arrives"))
    } else {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let inside = bed.inside("a", {
            let capture = capture.clone();
            move || async move {
                let endpoint = open(&exchange, &capture);
                endpoint.listen_on_port(PORT).expect("listen");
                ready.send(()).expect("it is awaited");
                let association = endpoint.accept().await.expect("accept");
                let result = exchange_all(association, 1, count).await;
                endpoint.close().await;
                result
            }
        });
        is_ready.recv().expect("it listens");
        let child = peer_at(&bed, theirs, &arguments);
        (child, inside.join().expect("all of it arrives"))
    };
    let verdict = verdict(child);
    let seen = Seen {
        chunks: chunks(&std::fs::read(&capture).expect("a capture")),
    };
    println!(
        "{test}: bytes by path {by_path:?}, usrsctp's DATA by path {:?}; flags of its acknowledgements {:?}, of ours {:?}; {}",
        seen.data(THEIRS),
        seen.flags(THEIRS),
        seen.flags(OURS),
        verdict.trim()
    );
    if signed {
        for side in [THEIRS, OURS] {
            let data = seen.data(side);
            println!(
                "{test}: {} AUTH chunks, {data:?} DATA chunks",
                seen.count(side, AUTH)
            );
            assert!(seen.count(side, AUTH) > MESSAGES as usize);
        }
        assert_eq!(
            (counters.packets_unverified, counters.chunks_unauthenticated),
            (0, 0),
            "{counters:?}"
        );
        assert!(counters.packets_verified > MESSAGES, "{counters:?}");
        assert!(
            verdict.contains(r#""missing":0,"wrong":0,"unknown_key":0,"unknown_hmac":0"#),
            "{verdict}"
        );
    }
    // On a busy machine heartbeats may stay unanswered for so long that an address gets another path.
    let used = by_path.iter().filter(|bytes| **bytes > 0).count();
    assert!(used >= 2, "{by_path:?}");
    Some(seen)
}

/// usrsctp uses no extension: it sends on one path and acknowledges as RFC 9260 requires.
#[test]
fn cmt_with_a_peer_that_has_none() {
    let seen = run(Exchange {
        test: "cmt-plain",
        peer_listens: true,
        peer_addresses: 2,
        peer: &[],
        mode: MultipathMode::Cmt,
        congestion: CoupledControl::Lia,
        delayed_acks: false,
        signed: false,
    });
    if let Some(seen) = seen {
        assert_eq!(seen.flags(THEIRS).1 | seen.flags(OURS).1, 0);
        assert!(seen.count(THEIRS, SACK) > 0 && seen.count(OURS, SACK) > 0);
    }
}

/// An extension that the peer does not support is not used.
#[test]
fn eca_with_a_peer_that_has_none() {
    let seen = run(Exchange {
        test: "eca-plain",
        peer_listens: false,
        peer_addresses: 2,
        peer: &["--nr-sack"],
        mode: MultipathMode::Eca,
        congestion: CoupledControl::Uncoupled,
        delayed_acks: false,
        signed: false,
    });
    if let Some(seen) = seen {
        assert!(seen.count(THEIRS, NR_SACK) > 0 && seen.count(OURS, NR_SACK) > 0);
        assert!(
            seen.data(OURS).iter().all(|count| *count > 0),
            "DATA, and by both paths"
        );
    }
}

/// Both sides send on both paths at once, and acknowledge with NR-SACK, whose flags give the number of packets that the
/// acknowledgement covers (DAC).
#[test]
fn cmt_and_nr_sack_and_dac_on_both_sides() {
    let seen = run(Exchange {
        test: "cmt-dac",
        peer_listens: true,
        peer_addresses: 2,
        peer: &["--cmt", "1", "--nr-sack", "--dac"],
        mode: MultipathMode::Cmt,
        congestion: CoupledControl::Uncoupled,
        delayed_acks: true,
        signed: false,
    });
    if let Some(seen) = seen {
        assert!(
            seen.data(THEIRS).iter().all(|count| *count > 0),
            "both of its paths"
        );
        assert_eq!(seen.count(THEIRS, SACK) + seen.count(OURS, SACK), 0);
        for side in [THEIRS, OURS] {
            let (high, other) = seen.flags(side);
            assert!(
                high.keys().any(|packets| *packets > 0) && other == 0,
                "{high:?}, {other}"
            );
        }
    }
}

/// The same with resource pooling on both sides; usrsctp connects.
#[test]
fn resource_pooling_on_both_sides() {
    let seen = run(Exchange {
        test: "cmt-pooling",
        peer_listens: false,
        peer_addresses: 2,
        peer: &["--cmt", "2", "--nr-sack"],
        mode: MultipathMode::Cmt,
        congestion: CoupledControl::ResourcePooling,
        delayed_acks: false,
        signed: false,
    });
    if let Some(seen) = seen {
        assert!(
            seen.data(THEIRS).iter().all(|count| *count > 0),
            "both of its paths"
        );
    }
}

/// Both sides send signed DATA on both paths and sign their acknowledgements, SACK or NR-SACK, in both roles.
#[test]
fn signed_on_both_paths() {
    let kinds: [(&str, bool, &[&str], u8); 2] = [
        ("cmt-signed", true, &["--cmt", "1"], SACK),
        ("cmt-signed-nr-sack", false, &["--cmt", "1", "--nr-sack"], NR_SACK),
    ];
    for (test, peer_listens, peer, ack) in kinds {
        let Some(seen) = run(Exchange {
            test,
            peer_listens,
            peer_addresses: 2,
            peer,
            mode: MultipathMode::Cmt,
            congestion: CoupledControl::Uncoupled,
            delayed_acks: false,
            signed: true,
        }) else {
            return;
        };
        for side in [THEIRS, OURS] {
            assert!(
                seen.data(side).iter().all(|count| *count > 0),
                "both paths of each side"
            );
            assert_eq!(
                seen.count(side, SACK) + seen.count(side, NR_SACK),
                seen.count(side, ack)
            );
        }
    }
}

/// The peer has one address, and knows both of ours from set-up: we send on both paths at once, and so does the peer.
fn one_address_of_the_peer(test: &'static str, peer_listens: bool) {
    let Some(seen) = run(Exchange {
        test,
        peer_listens,
        peer_addresses: 1,
        peer: &["--cmt", "1"],
        mode: MultipathMode::Cmt,
        congestion: CoupledControl::Lia,
        delayed_acks: false,
        signed: false,
    }) else {
        return;
    };
    assert!(
        seen.data(OURS).iter().all(|count| *count > 0),
        "from both of our addresses"
    );
    let to = |address: [u8; 4]| {
        let mut data = seen.from(THEIRS, DATA);
        data.any(|chunk| chunk.destination == Ipv4Addr::from(address))
    };
    assert!(OURS.into_iter().all(to), "to both of our addresses");
    assert_eq!(seen.data(THEIRS)[1], 0, "from the one address of the peer");
}

#[test]
fn one_address_of_a_listening_peer() {
    one_address_of_the_peer("one-listens", true);
}

#[test]
fn one_address_of_a_connecting_peer() {
    one_address_of_the_peer("one-connects", false);
}
