//! Random runs with an attacker below DTLS. A and Z set up an association over DTLS and exchange messages, in virtual time. M attacks: it
//! replays, changes, truncates and reorders datagrams, forges ClientHellos from everywhere, alerts, HelloVerifyRequests, fragments
//! and ICMP messages, sends records of its own association from A's address, and takes A's address with a certificate that Z accepts
//! too. All messages arrive once; nothing of M's counts as A's or Z's; M learns nothing; handshakes, connections and answers to
//! strangers are bounded; the association ends with a graceful shutdown.
//!
//! `DTLS_SEEDS=100..200` (or one number) chooses the seeds; a failure prints the command that runs it again. The keys of DTLS are random, so
//! that a seed fixes the story, but not the bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_dtls::{Certificate, DtlsConfig, Effects, Peers};
use anabranch_netsim::Generator;
use anabranch_proto::{CloseReason, ConnectOptions, Event, IcmpKind, IcmpMessage};
use anabranch_testkit::Seeds;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::association::Association;
use crate::datagram_socket::{DatagramSocket, Readiness, Received, Transmit};
use crate::endpoint::Endpoint;
use crate::lock::lock;

/// Seeds that run in CI.
const SEEDS: Range<u64> = 0..40;
const REPEATED: Seeds = Seeds {
    variable: "DTLS_SEEDS",
    binary: "",
};
/// Events that the runs must reach together.
const MUST_REACH: [&str; 14] = [
    "M reads",
    "M off the path",
    "replay",
    "changed",
    "reordered",
    "alert",
    "garbage",
    "hello of a stranger",
    "ICMP",
    "A's address taken",
    "A has another port",
    "HelloVerifyRequest",
    "fragment",
    "hello of A's address",
];
/// The most bytes to an address that has not returned a cookie, for a byte from there.
const AMPLIFICATION: usize = 3;
/// Set-up is tried so often while M attacks; then M pauses.
const ATTEMPTS: usize = 3;
const MOST_HANDSHAKES: usize = 8;
const MOST_CONNECTIONS: usize = 8;
/// Virtual time that set-up or a transfer may take when M has stopped.
const LIMIT: Duration = Duration::from_secs(900);
const PORT: u16 = 7;
/// A's SCTP port.
const OWN_PORT: u16 = 50_000;
/// The beginning of each message. Nobody but A and Z ever sees it.
const SECRET: &[u8] = b"a secret of A and Z";

const A: SocketAddr = address([10, 0, 0, 1], 5000);
const M: SocketAddr = address([10, 66, 0, 1], 5000);
/// M's host behind A's translator.
const NEIGHBOUR: SocketAddr = address([10, 0, 0, 66], 5000);
const Z: SocketAddr = address([192, 0, 2, 1], 9899);
/// A's address outside.
const PUBLIC: SocketAddr = address([198, 51, 100, 1], 1000);

const fn address(ip: [u8; 4], port: u16) -> SocketAddr {
    let [a, b, c, d] = ip;
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
}

#[test]
fn an_attacker_below_dtls_is_never_the_peer() {
    let seeds = REPEATED.chosen(SEEDS);
    let mut reached = BTreeSet::new();
    for seed in seeds.clone() {
        let run = || {
            eprintln!("seed {seed}");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(run(seed))
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(more) => reached.extend(more),
            Err(_) => panic!(
                "again: {}={seed} cargo test -p anabranch --lib an_attacker_below_dtls",
                REPEATED.variable
            ),
        }
    }
    if seeds == SEEDS {
        for what in MUST_REACH {
            assert!(reached.contains(what), "no seed reached {what}");
        }
    }
}

/// A - Z: connected
/// A has another port, and begins another connection: its last message is lost for 100 s, so that the connection is complete for A alone, and
/// ends
/// A - Z: the messages arrive when the network is better: the association waited
#[tokio::test(start_paused = true)]
async fn a_connection_that_the_server_does_not_complete_ends_no_association() {
    let story = Story::begin(0);
    let (ours, theirs) = story.connect().await;
    let moved = SocketAddr::new(PUBLIC.ip(), 2000);
    story.net(|net| {
        net.attacks = false;
        net.loses_finished = true;
        net.translate(A, moved);
    });
    let better = async {
        sleep(Duration::from_secs(100)).await;
        assert_eq!(ours.close_reason(), None);
        let layer = story.z.hub().dtls.as_ref().unwrap();
        assert_eq!(layer.peers.peer(moved), None, "the connection is complete");
        story.net(|net| net.loses_finished = false);
    };
    tokio::join!(story.transfer([&ours, &theirs], 0), better);
}

/// The datagrams that wait for a host: source and bytes.
#[derive(Debug, Default)]
struct Queue {
    datagrams: Mutex<VecDeque<(SocketAddr, Vec<u8>)>>,
    arrived: Notify,
}

#[derive(Debug)]
struct Sent {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Net {
    random: Generator,
    /// The hosts by their own addresses, and the addresses that they have outside.
    queues: BTreeMap<SocketAddr, Arc<Queue>>,
    public: BTreeMap<SocketAddr, SocketAddr>,
    attacks: bool,
    /// A's last messages of handshakes do not arrive.
    loses_finished: bool,
    /// Whether M reads the datagrams of A and Z.
    reads: bool,
    /// The datagrams that M has read, or sent itself.
    seen: Vec<Sent>,
    held: Option<Sent>,
    /// Forged ICMP messages for A: the quoted bytes.
    icmp: Vec<Vec<u8>>,
    /// Bytes from and to the addresses of strangers, which are M's inventions.
    strangers: BTreeMap<SocketAddr, [usize; 2]>,
    reached: BTreeSet<&'static str>,
}

#[derive(Debug)]
struct Host {
    own: SocketAddr,
    net: Arc<Mutex<Net>>,
    queue: Arc<Queue>,
}

impl DatagramSocket for Host {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.own)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut net = lock(&self.net);
        for bytes in transmit.datagrams() {
            net.send(self.own, transmit.destination, bytes);
        }
        Ok(())
    }

    fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let (source, datagram) = lock(&self.queue.datagrams)
            .pop_front()
            .ok_or(io::ErrorKind::WouldBlock)?;
        buffer[..datagram.len()].copy_from_slice(&datagram);
        Ok(Received::new(source, datagram.len()))
    }

    fn readable(&self) -> Readiness<'_> {
        Box::pin(async {
            while lock(&self.queue.datagrams).is_empty() {
                self.queue.arrived.notified().await;
            }
            Ok(())
        })
    }

    fn writable(&self) -> Readiness<'_> {
        Box::pin(async { Ok(()) })
    }
}

/// The network, and M's part in it.
impl Net {
    fn chance(&mut self, of: u64) -> bool {
        self.random.below(of) == 0
    }

    /// A host sends a datagram: M acts before and after it.
    fn send(&mut self, own: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        assert!(
            !bytes.windows(SECRET.len()).any(|part| part == SECRET),
            "a message in clear text"
        );
        let Some(from) = self.public.get(&own).copied() else {
            return;
        };
        // RFC 9147 §4: a record of DTLS 1.3 with the keys of the handshake.
        if self.loses_finished && own == A && bytes.first().is_some_and(|first| first & 0xe3 == 0x22) {
            return;
        }
        if let Some([_, answered]) = self.strangers.get_mut(&to) {
            *answered += bytes.len();
            return;
        }
        let sent = Sent {
            from,
            to,
            bytes: bytes.to_vec(),
        };
        let between = [from, to].iter().all(|end| *end == Z || end.ip() == PUBLIC.ip());
        if !self.attacks || !between {
            self.deliver(&sent);
            self.remember(sent);
            return;
        }
        while self.chance(4) {
            self.attack(&sent);
        }
        if let Some(held) = self.held.take() {
            self.deliver(&sent);
            self.deliver(&held);
        } else if self.reads && self.chance(12) {
            self.reached.insert("reordered");
            self.held = Some(sent);
            return;
        } else if !self.chance(60) {
            self.deliver(&sent);
        }
        if self.reads {
            self.remember(sent);
        }
        while self.chance(4) {
            let Some(last) = self.seen.pop() else { return };
            self.attack(&last);
            self.seen.push(last);
        }
    }

    fn remember(&mut self, sent: Sent) {
        self.seen.push(sent);
    }

    fn deliver(&mut self, sent: &Sent) {
        let host = self.public.iter().find(|(_, public)| **public == sent.to);
        if let Some(queue) = host.and_then(|(own, _)| self.queues.get(own)) {
            lock(&queue.datagrams).push_back((sent.from, sent.bytes.clone()));
            queue.arrived.notify_one();
        }
    }

    fn forge(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        if let Some([received, _]) = self.strangers.get_mut(&from) {
            *received += bytes.len();
        }
        self.deliver(&Sent { from, to, bytes });
    }

    /// One forged datagram, beside a genuine one.
    fn attack(&mut self, near: &Sent) {
        let (from, to) = match self.chance(3) {
            // The receiver of the genuine one seems to answer.
            true => (near.to, near.from),
            false => (near.from, near.to),
        };
        let (what, bytes) = match self.random.below(9) {
            0 if !self.seen.is_empty() => {
                let any = self.random.below(self.seen.len() as u64) as usize;
                ("replay", self.seen[any].bytes.clone())
            }
            1 | 2 if self.reads => ("changed", self.change(&near.bytes)),
            3 => ("alert", self.alert()),
            4 => ("HelloVerifyRequest", self.hello_verify_request()),
            5 => ("fragment", self.fragment()),
            6 => ("hello of A's address", self.hello()),
            7 if to != Z => ("garbage", vec![22; 1 + self.random.below(40) as usize]),
            _ => {
                self.attack_from_elsewhere();
                return;
            }
        };
        self.reached.insert(what);
        self.forge(from, to, bytes);
    }

    /// From an address that M has invented, or by ICMP.
    fn attack_from_elsewhere(&mut self) {
        if self.chance(3) {
            self.reached.insert("ICMP");
            let mut quote = self.hello();
            quote.truncate(64);
            self.icmp.push(quote);
            return;
        }
        self.reached.insert("hello of a stranger");
        let near_a = self.chance(2);
        let ip = if near_a {
            [198, 51, 100, 1]
        } else {
            [203, 0, 113, 9]
        };
        let from = address(ip, 10_000 + self.random.below(50_000) as u16);
        self.strangers.entry(from).or_default();
        let bytes = match self.random.below(3) {
            0 if !self.seen.is_empty() => {
                let any = self.random.below(self.seen.len() as u64) as usize;
                self.seen[any].bytes.clone()
            }
            1 => self.fragment(),
            _ => self.hello(),
        };
        self.forge(from, Z, bytes);
    }

    fn change(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut changed = bytes.to_vec();
        if self.chance(3) {
            changed.truncate(self.random.below(bytes.len() as u64) as usize);
            return changed;
        }
        for _ in 0..=self.random.below(3) {
            let place = self.random.below(bytes.len() as u64) as usize;
            changed[place] ^= 1 << self.random.below(8);
        }
        changed
    }

    /// An alert without encryption (RFC 6347 §4.1).
    fn alert(&mut self) -> Vec<u8> {
        let [level, code] = [[2, 40], [2, 20], [1, 0], [2, 47]][self.random.below(4) as usize];
        let sequence = self.random.below(8) as u8;
        vec![21, 254, 253, 0, 0, 0, 0, 0, 0, 0, sequence, 0, 2, level, code]
    }

    /// RFC 6347 §4.2.1, with a cookie that nobody knows.
    fn hello_verify_request(&mut self) -> Vec<u8> {
        let mut bytes = vec![22, 254, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 35];
        bytes.extend([3, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 23, 254, 255, 20]);
        bytes.extend((0..20).map(|_| self.random.below(256) as u8));
        bytes
    }

    /// The beginning of a ClientHello whose rest never comes: 35 bytes.
    fn fragment(&mut self) -> Vec<u8> {
        let mut bytes = vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 22];
        bytes.extend([1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 10]);
        bytes.extend((0..10).map(|_| self.random.below(256) as u8));
        bytes
    }

    /// A ClientHello of a client that never goes on, or one whose cookie is wrong.
    fn hello(&mut self) -> Vec<u8> {
        let config = DtlsConfig::new(self.certificate());
        let (client, mut effects) = (Peers::new(config), Effects::default());
        client.connect(anabranch_proto::Timestamp::ZERO, Z, &mut effects);
        let (_, hello) = effects.datagrams().next().expect("a ClientHello");
        hello.to_vec()
    }

    /// Making one takes longer than a handshake.
    fn certificate(&self) -> Certificate {
        static MADE: std::sync::OnceLock<Certificate> = std::sync::OnceLock::new();
        MADE.get_or_init(|| Certificate::generate().unwrap()).clone()
    }

    /// The translator gives this host this address outside.
    fn translate(&mut self, own: SocketAddr, public: SocketAddr) {
        self.public.retain(|_, used| *used != public);
        self.public.insert(own, public);
    }
}

struct Story {
    net: Arc<Mutex<Net>>,
    a: Endpoint,
    m: Endpoint,
    z: Endpoint,
    neighbour: Endpoint,
    a_certificate: Certificate,
}

impl Story {
    fn begin(seed: u64) -> Self {
        let mut random = Generator::of_process(seed, "attacker below DTLS");
        let reads = random.below(2) == 0;
        let net = Arc::new(Mutex::new(Net {
            random,
            queues: BTreeMap::new(),
            public: [(A, PUBLIC), (M, M), (Z, Z)].into(),
            attacks: false,
            loses_finished: false,
            reads,
            seen: Vec::new(),
            held: None,
            icmp: Vec::new(),
            strangers: BTreeMap::new(),
            reached: [if reads { "M reads" } else { "M off the path" }].into(),
        }));
        let certificate = || Certificate::generate().unwrap();
        let (a_certificate, m_certificate) = (certificate(), certificate());
        let host = |own: SocketAddr, certificate: &Certificate| {
            let queue = Arc::<Queue>::default();
            lock(&net).queues.insert(own, Arc::clone(&queue));
            let dtls = DtlsConfig::new(certificate.clone())
                .max_handshakes(MOST_HANDSHAKES)
                .max_connections(MOST_CONNECTIONS);
            let net = Arc::clone(&net);
            let host = Host { own, net, queue };
            Endpoint::builder().dtls(dtls).bind_socket(host).unwrap()
        };
        let story = Self {
            a: host(A, &a_certificate),
            m: host(M, &m_certificate),
            z: host(Z, &certificate()),
            neighbour: host(NEIGHBOUR, &m_certificate),
            a_certificate,
            net,
        };
        story.z.listen_on_port(PORT).unwrap();
        story
    }

    fn net<R>(&self, work: impl FnOnce(&mut Net) -> R) -> R {
        work(&mut lock(&self.net))
    }

    /// Time passes: forged ICMP messages arrive, and the bounds are checked.
    async fn pass(&self, most_ms: u64) {
        let (ms, icmp) = self.net(|net| (net.random.below(most_ms) + 1, std::mem::take(&mut net.icmp)));
        let messages = icmp.into_iter().map(|quote| IcmpMessage {
            kind: IcmpKind::PortUnreachable,
            source: None,
            destination: Z,
            quote: quote.into(),
        });
        self.a.hub().handle_icmp(messages.collect());
        sleep(Duration::from_millis(ms)).await;
        for endpoint in [&self.a, &self.z] {
            let peers = &endpoint.hub().dtls.as_ref().unwrap().peers;
            assert!(peers.handshakes() <= MOST_HANDSHAKES, "too many handshakes");
            assert!(peers.connections() <= MOST_CONNECTIONS, "too many connections");
        }
    }

    /// A connects to Z, again if M prevents it.
    async fn connect(&self) -> (Association, Association) {
        for attempt in 0.. {
            if attempt == ATTEMPTS {
                self.net(|net| net.attacks = false);
                sleep(Duration::from_secs(60)).await;
            }
            assert!(attempt < ATTEMPTS + 2, "A does not connect");
            let options = ConnectOptions::default().local_port(OWN_PORT);
            let connecting = self.a.connect_with(Z, PORT, options);
            let passing = async {
                loop {
                    self.pass(200).await;
                }
            };
            let ours = tokio::select! {
                ours = timeout(LIMIT, connecting) => ours,
                () = passing => continue,
            };
            if let Ok(Err(error)) = &ours {
                eprintln!("attempt {attempt}: {error}");
            }
            let Ok(Ok(ours)) = ours else { continue };
            // The set-ups that failed at A come first.
            let mut accepted = None;
            while let Ok(one) = timeout(Duration::from_secs(1), self.z.accept()).await {
                accepted = one.filter(|one| one.close_reason().is_none()).or(accepted);
            }
            if let Some(theirs) = accepted {
                // An attempt that failed at A may have succeeded at Z: this one restarted it.
                while let Ok(Some(_)) = timeout(Duration::from_millis(1), theirs.next_event()).await {}
                self.net(|net| net.attacks = true);
                return (ours, theirs);
            }
        }
        unreachable!()
    }

    /// Messages in both directions, all of which arrive once, unchanged and in order. A takes care of the time between them.
    async fn transfer(&self, ends: [&Association; 2], round: u64) {
        let count = 5 + self.net(|net| net.random.below(15));
        let send = async |from: &Association, side: u64| {
            for number in 0..count {
                if let Err(error) = from.send(0, message(round, side, number)).await {
                    panic!("side {side}: {error}");
                }
                self.pass(2000).await;
            }
        };
        let receive = async |to: &Association, side: u64| {
            for number in 0..count {
                let got = to.recv().await.unwrap().unwrap();
                assert!(
                    got.into_bytes() == message(round, side, number),
                    "message {number}"
                );
            }
        };
        let all = async {
            tokio::join!(
                send(ends[0], 0),
                send(ends[1], 1),
                receive(ends[1], 0),
                receive(ends[0], 1)
            )
        };
        if timeout(LIMIT, all).await.is_err() {
            panic!(
                "messages are missing: A {:?}, Z {:?}",
                ends[0].close_reason(),
                ends[1].close_reason()
            );
        }
    }

    /// M gets A's address outside, and tries to continue A's association. Then A has it again, or another port.
    async fn take_address(&self) {
        self.net(|net| {
            net.reached.insert("A's address taken");
            net.translate(NEIGHBOUR, PUBLIC);
        });
        let options = ConnectOptions::default().local_port(OWN_PORT);
        let attempt = self.neighbour.connect_with(Z, PORT, options);
        let taken = timeout(Duration::from_secs(30), attempt).await;
        assert!(!matches!(taken, Ok(Ok(_))), "M is in A's association");
        self.net(|net| {
            net.public.remove(&NEIGHBOUR);
            let port = if net.chance(2) {
                net.reached.insert("A has another port");
                2000
            } else {
                PUBLIC.port()
            };
            net.translate(A, SocketAddr::new(PUBLIC.ip(), port));
        });
    }
}

fn message(round: u64, side: u64, number: u64) -> Vec<u8> {
    let mut bytes = SECRET.to_vec();
    bytes.extend([round as u8, side as u8, number as u8]);
    bytes.resize(30 + (number * 389 % 3000) as usize, 7);
    bytes
}

/// One run. It panics if a rule is violated, and returns the events that it reached.
async fn run(seed: u64) -> BTreeSet<&'static str> {
    let story = Story::begin(seed);
    let both = async { tokio::join!(story.m.connect_to_port(Z, PORT), story.z.accept()) };
    let (ms, for_m) = timeout(LIMIT, both)
        .await
        .expect("M has an association of its own");
    let (ms, for_m) = (ms.unwrap(), for_m.unwrap());
    ms.send(0, "of M").await.unwrap();
    assert_eq!(for_m.recv().await.unwrap().unwrap().into_bytes(), "of M");
    story.net(|net| net.attacks = true);
    let (ours, theirs) = story.connect().await;
    let print = Some(story.a_certificate.fingerprint());
    assert_eq!(theirs.peer_fingerprint(), print);
    story.transfer([&ours, &theirs], 0).await;
    if seed.is_multiple_of(2) {
        story.take_address().await;
        story.transfer([&ours, &theirs], 1).await;
    }
    story.net(|net| net.attacks = false);
    timeout(LIMIT, ours.shutdown()).await.unwrap().unwrap();
    assert_eq!(
        timeout(LIMIT, theirs.closed()).await.unwrap(),
        CloseReason::Shutdown
    );
    for end in [&ours, &theirs] {
        while let Some(event) = end.next_event().await {
            assert_ne!(event, Event::Restarted);
        }
        assert_eq!(end.try_recv().unwrap().map(|_| ()), None, "a message of nobody");
    }
    assert_eq!(theirs.peer_fingerprint(), print);
    // M has its own association still, and nothing else: nobody else's either.
    assert!(ms.try_recv().unwrap().is_none() && for_m.close_reason().is_none());
    assert!(for_m.try_recv().unwrap().is_none());
    let accepted = timeout(Duration::from_secs(1), story.z.accept()).await;
    assert!(accepted.is_err(), "an association of nobody");
    story.net(|net| {
        for (stranger, [received, answered]) in &net.strangers {
            assert!(
                *answered <= AMPLIFICATION * received,
                "{answered} bytes to {stranger} for {received}"
            );
        }
        std::mem::take(&mut net.reached)
    })
}
