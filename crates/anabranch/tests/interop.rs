//! The stack against usrsctp and pion, as client and as server, with loss in between: mixed messages both ways, and a
//! shutdown from either side; partial reliability; NR-SACK and interleaving with usrsctp. `scripts/setup` builds
//! the peers; interop/README.md says how messages are made.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{
    AddressEvent, AddressForm, Association, AssociationStats, Config, DynamicAddressConfig, EcnState,
    Endpoint, Event, LinkConfig, MultipathMode, ReconfigurationEvent, Reliability, ResetDirection,
    SchedulerKind, SendOptions, StreamId, StreamSelection,
};

#[path = "interop/authenticated.rs"]
mod authenticated;
#[path = "common/captured.rs"]
mod captured;
#[path = "interop/parameters.rs"]
mod parameters;
#[path = "common/peer_messages.rs"]
mod peer_messages;
#[path = "interop/pion_resets.rs"]
mod pion_resets;

use authenticated::Terms;
use captured::Captured;
use peer_messages::{Inbox, LARGE, SEED, STREAMS, Sizes, UNORDERED_EVERY, program, receive_all, send_all};
use pion_resets::First;

const PORT: u16 = 5000;

/// Lifetime of messages of streams 3 and 7; messages of streams 2 and 6 are not retransmitted (interop/README.md, `--partial`).
const LIFETIME: Duration = Duration::from_millis(100);

/// One exchange.
#[derive(Clone, Copy)]
struct Exchange {
    peer: &'static str,
    peer_listens: bool,
    /// Whether the peer ends the association.
    peer_ends: bool,
    /// Messages in each direction. The last message must be reliable in both directions: when it arrives, all others were sent.
    messages: u64,
    link: &'static str,
    /// Whether messages of some streams may be abandoned.
    partial: bool,
    /// Early copies of each message.
    copies: u8,
    /// Whether the peer is told to offer NR-SACK.
    nr_sack: bool,
    /// Whether both sides offer I-DATA.
    interleave: bool,
    /// The multipath mode that this side offers. These peers do not support it.
    multipath: MultipathMode,
    /// Whether this side asks for ECN.
    ecn: bool,
    /// The chunks that are authenticated (RFC 4895).
    auth: Option<Terms>,
    /// Whether this side changes its address in the middle (RFC 5061).
    moves: Option<AddressForm>,
    /// Whether both sides reset streams while data flows (usrsctp).
    resets: bool,
    /// The Adaptation Code Points of this side and of the peer (RFC 5061).
    adaptation: Option<(u32, u32)>,
    /// The side that resets a stream first, in each of the rounds (pion).
    rounds: Option<First>,
    sizes: Sizes,
}

impl Exchange {
    const RELIABLE: Self = Self {
        peer: "",
        peer_listens: true,
        peer_ends: true,
        messages: 10_000,
        link: "delay=2ms,loss=0.2%",
        partial: false,
        copies: 0,
        nr_sack: false,
        interleave: false,
        multipath: MultipathMode::Off,
        ecn: false,
        auth: None,
        moves: None,
        resets: false,
        adaptation: None,
        rounds: None,
        sizes: Sizes::Mixed,
    };

    /// A loss rate at which hundreds of messages are abandoned, and a rate at which the largest messages expire while they are being
    /// sent.
    const PARTIAL: Self = Self {
        messages: 3002,
        link: "rate=60mbit,delay=2ms,loss=1%",
        partial: true,
        ..Self::RELIABLE
    };

    /// Messages of 1 MiB on eight streams.
    const LARGE: Self = Self {
        messages: 40,
        interleave: true,
        sizes: Sizes::Large,
        ..Self::RELIABLE
    };

    /// usrsctp 0.9.5 cannot abandon interleaved messages: it tells its application that reliable messages failed.
    fn peer_sends(self) -> bool {
        !(self.partial && self.interleave)
    }

    /// With I-DATA, unordered messages are reliable here: usrsctp 0.9.5 applies the MID of an unordered message in an
    /// I-FORWARD-TSN to the ordered messages of the stream too, and aborts the association when the ordered message with this
    /// MID arrives.
    fn reliability(self, stream: StreamId, unordered: bool) -> Reliability {
        match stream.0 % 4 {
            _ if self.interleave && unordered => Reliability::Reliable,
            2 if self.partial => Reliability::Retransmissions(0),
            3 if self.partial => Reliability::Lifetime(LIFETIME),
            _ => Reliability::Reliable,
        }
    }

    fn start(self, role: &str, udp_port: u16) -> Child {
        let program = program(self.peer);
        assert!(
            program.exists(),
            "{} is not there: run scripts/setup first",
            program.display()
        );
        let lifetime = if self.partial { LIFETIME.as_millis() } else { 0 };
        let mut command = Command::new(program);
        command.arg(role);
        for (option, value) in [
            ("--udp-port", u64::from(udp_port)),
            ("--messages", self.messages),
            ("--streams", STREAMS),
            ("--unordered-every", UNORDERED_EVERY),
            ("--partial", lifetime as u64),
            ("--seed", SEED),
            ("--timeout", 120),
        ] {
            command.args([option, &value.to_string()]);
        }
        command.args(self.nr_sack.then_some("--nr-sack"));
        if let Some((_, peers)) = self.adaptation {
            command.args(["--adaptation", &peers.to_string()]);
        }
        if let Some(terms) = self.auth {
            command.args(terms.arguments(self.messages));
        }
        if self.resets {
            command.args(["--reset-every", "400"]);
        }
        if let Some(first) = self.rounds {
            command.args(pion_resets::arguments(first));
        }
        command.args(self.interleave.then_some("--interleave"));
        if self.sizes == Sizes::Large {
            command.args(["--large", "--max-size", &LARGE.to_string()]);
        }
        if !self.peer_sends() {
            command.args(["--no-send", "--expect", &self.messages.to_string()]);
        }
        command
            .args(["--shutdown", if self.peer_ends { "first" } else { "second" }])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the peer starts")
    }

    /// The file of the capture. Exchanges with extensions always have one, because the test reads it.
    fn capture(self) -> Option<PathBuf> {
        let extended = self.partial
            || self.nr_sack
            || self.interleave
            || self.rounds.is_some()
            || self.auth.is_some()
            || self.multipath != MultipathMode::Off;
        let own = extended.then(|| env!("CARGO_TARGET_TMPDIR").into());
        let directory = std::env::var_os("ANABRANCH_CAPTURES")
            .map(PathBuf::from)
            .or(own)?;
        let Self {
            peer,
            peer_listens,
            peer_ends,
            partial,
            nr_sack,
            interleave,
            multipath,
            ..
        } = self;
        let service = match (partial, nr_sack) {
            (false, false) => "",
            (true, false) => "-partial",
            (true, true) => "-partial-nr-sack",
            (false, true) => "-nr-sack",
        };
        let format = match (interleave, multipath) {
            (true, _) => "-interleaved".to_owned(),
            (false, MultipathMode::Off) => String::new(),
            (false, mode) => format!("-{mode:?}"),
        };
        let copies = if self.copies > 0 { "-copies" } else { "" };
        let adaptation = if self.adaptation.is_some() {
            "-parameters"
        } else {
            ""
        };
        let signs = self.auth.map_or(String::new(), Terms::name);
        let resets = match self.rounds {
            Some(first) => format!("-resets-{first:?}-{}", self.link),
            None if self.resets => "-resets".to_owned(),
            None => String::new(),
        };
        let moves = self
            .moves
            .map_or(String::new(), |form| format!("-moves-{form:?}"));
        // Tests run at the same time: each needs a file of its own.
        let name = format!(
            "interop-{peer}{service}{format}{copies}{adaptation}{signs}{resets}{moves}-listens-{peer_listens}-ends-{peer_ends}.pcapng"
        );
        Some(directory.join(name))
    }

    /// Starts the peer, and sets up the association.
    async fn meet(self, endpoint: &Endpoint) -> (Child, Association) {
        if !self.peer_listens {
            endpoint.listen_on_port(PORT).expect("listen");
            let child = self.start("connect", endpoint.local_addr().port());
            return (child, endpoint.accept().await.expect("accept"));
        }
        let mut child = self.start("listen", 0);
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
            .connect_to_port(("127.0.0.1", port), PORT)
            .await
            .expect("connect");
        (child, association)
    }

    /// The endpoint of this side.
    async fn open(self) -> Endpoint {
        let mut config = Config::default();
        config.multipath.mode = self.multipath;
        config.ecn = self.ecn;
        config.adaptation_layer = self.adaptation.map(|(ours, _)| ours);
        config.dynamic_addresses = self.moves.map(|form| DynamicAddressConfig { form });
        config.authentication = self.auth.map(Terms::config);
        config.interleaving.offer = self.interleave;
        if self.interleave {
            config.scheduler = SchedulerKind::RoundRobin;
        }
        let mut builder = Endpoint::builder()
            .config(config)
            .link(self.link.parse().expect("a link"), 3);
        if let Some(capture) = self.capture() {
            builder = builder.capture(capture);
        }
        let local = if self.moves.is_some() {
            "0.0.0.0:0"
        } else {
            "127.0.0.1:0"
        };
        builder.bind(local).await.expect("bind")
    }

    /// Messages in both directions, then a graceful shutdown.
    async fn run(self) -> Outcome {
        let endpoint = self.open().await;
        let (child, association) = self.meet(&endpoint).await;
        let (own, peers) = if self.peer_listens { (0, 1) } else { (1, 0) };
        if self.partial {
            half_sent(&association, StreamId(3), false).await;
            half_sent(&association, StreamId(7), !self.interleave).await;
        }
        let sending = association.clone();
        let options = move |stream, unordered| {
            SendOptions::default()
                .reliability(self.reliability(stream, unordered))
                .early_copies(self.copies)
        };
        let last = self.messages - 1;
        let sender = tokio::spawn(async move {
            match self.rounds {
                Some(first) => pion_resets::send_in_rounds(&sending, own, first).await,
                None => send_all(&sending, self.sizes, own, 0..last, options).await,
            }
        });
        let keys = self
            .auth
            .filter(Terms::change)
            .map(|terms| authenticated::change_key(&association, terms, self.messages));
        let mut moved = None;
        if self.moves.is_some() {
            let moving = association.clone();
            let for_good = !self.peer_listens;
            moved = Some(tokio::spawn(async move {
                move_in_the_middle(&moving, for_good).await
            }));
        }
        let mut inbox = Inbox::new(
            self.sizes,
            peers,
            if self.peer_sends() { self.messages } else { 0 },
        );
        let needed = |stream| self.reliability(stream, false) == Reliability::Reliable;
        let done = Arc::new(Mutex::new(Reconfigured::default()));
        let resets = self
            .resets
            .then(|| tokio::spawn(reset_streams(association.clone(), Arc::clone(&done))));
        receive_all(&association, &mut inbox, needed, |_| ()).await;
        sender.await.expect("all is sent");
        if let Some(resets) = resets {
            resets.abort();
            let done = done.lock().expect("no panic");
            println!("{done:?}");
            assert!(done.answered > 0, "requests of this side are performed");
            assert!(done.inbound > 0, "the peer resets streams");
            assert!(!self.interleave || done.added > 0, "the peer adds streams");
        }
        // The peer waits for the last message, and the side that ends the association exits at once: its SHUTDOWN COMPLETE must
        // not be lost.
        let link: LinkConfig = self.link.parse().expect("a link");
        assert!(endpoint.set_link(&link.with_loss(LinkConfig::default().loss)));
        send_all(&association, self.sizes, own, last..self.messages, options).await;
        if !self.peer_ends {
            association.drained().await.expect("all is acknowledged");
        }
        let stats = association.stats();
        let supported = self.ecn && self.peer == "usrsctp";
        let expected = if supported {
            EcnState::Capable
        } else {
            EcnState::Off
        };
        assert_eq!(stats.paths[0].ecn.state, expected);
        if let Some(keys) = keys {
            keys.await.expect("the key changes");
        }
        if let Some(moved) = moved {
            moved.await.expect("the address changes");
            let left = if self.peer_listens {
                FIRST_ADDRESS
            } else {
                SECOND_ADDRESS
            };
            assert_eq!(association.local_addresses(), [left]);
            assert_eq!(stats.paths[0].local, Some(left));
        }
        if self.peer_ends {
            while let Some(message) = association.recv().await.expect("an orderly end") {
                inbox.take(message);
            }
        } else {
            association.shutdown().await.expect("an orderly end");
        }
        let port = endpoint.local_addr().port();
        endpoint.close().await;
        let (success, verdict) = verdict(child).await;
        assert!(success, "{verdict}");
        println!(
            "{}, listens {}: {verdict}{:?}",
            self.peer, self.peer_listens, stats.counters
        );
        drop(endpoint);
        let read = |path| captured::chunks(&std::fs::read(path).expect("a capture"));
        Outcome {
            stats,
            port,
            chunks: self.capture().map_or(Vec::new(), read),
            verdict,
        }
    }

    /// The peers use every offered extension, and no other.
    async fn run_extended(self) {
        let outcome = self.run().await;
        let (counters, sent) = (outcome.stats.counters, outcome.sent());
        let [nr_sack, sack, forward_tsn, i_forward_tsn, selective, data, i_data] =
            [16, 3, 192, 194, 160, 0, 64].map(|kind| sent.get(&kind).copied().unwrap_or_default());
        let (data, i_data, forward_tsn, i_forward_tsn) = if self.interleave {
            (i_data, data, i_forward_tsn, forward_tsn)
        } else {
            (data, i_data, forward_tsn, i_forward_tsn)
        };
        assert!(
            data > 0 && i_data == 0 && i_forward_tsn == 0,
            "only DATA or only I-DATA: {sent:?}"
        );
        if self.partial {
            // More than the two messages that were abandoned half-sent.
            assert!(counters.abandoned_sent > 2, "{counters:?}");
            let told = counters.forward_tsns_received > 0;
            assert_eq!(told, self.peer_sends(), "{counters:?}");
            assert!(forward_tsn > 0, "{sent:?}");
        }
        assert_eq!(selective, 0, "it was not negotiated");
        if self.nr_sack {
            assert!(sack == 0 && nr_sack > 0, "{sent:?}");
            assert!(
                counters.freed_early_bytes > 0,
                "the peer's NR-SACKs: {counters:?}"
            );
        } else {
            assert!((sack > 0) == self.peer_sends() && nr_sack == 0, "{sent:?}");
            assert_eq!(counters.freed_early_bytes, 0);
        }
    }
}

/// How an exchange ended.
struct Outcome {
    /// Taken when all messages have arrived here.
    stats: AssociationStats,
    /// Our UDP port.
    port: u16,
    /// The chunks of both sides, if there is a capture.
    chunks: Vec<Captured>,
    /// The line that the peer's program printed.
    verdict: String,
}

impl Outcome {
    /// The number of our chunks of each type.
    fn sent(&self) -> BTreeMap<u8, u64> {
        let mut found = BTreeMap::new();
        for chunk in &self.chunks {
            if chunk.source.port() == self.port {
                *found.entry(chunk.kind).or_default() += 1;
            }
        }
        found
    }
}

/// Waits for the peer's program: whether it succeeded, and the line that it printed.
async fn verdict(mut child: Child) -> (bool, String) {
    let ended = tokio::task::spawn_blocking(move || {
        let status = child.wait().expect("waited");
        let mut verdict = String::new();
        let out = child.stdout.as_mut().expect("piped");
        std::io::Read::read_to_string(out, &mut verdict).expect("text");
        (status.success(), verdict)
    });
    ended.await.expect("the peer ends")
}

/// The address that an exchange moves to.
const SECOND_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The address of all other exchanges.
const FIRST_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// After some messages have arrived, adds an address and deletes one: the first if usrsctp connects. If it listens, usrsctp 0.9.5 tests a
/// new address only half a minute later and would send nothing before; then the new one is deleted again.
async fn move_in_the_middle(association: &Association, for_good: bool) {
    while association.stats().counters.messages_received < 100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let told = |event| match event {
        // usrsctp tells paths apart by their addresses alone.
        Some(Event::Addresses(AddressEvent::LocalMayShare(_))) => None,
        Some(Event::Addresses(change)) => Some(change),
        Some(_) => None,
        None => panic!("the association lives"),
    };
    let gone = if for_good {
        association.move_to(SECOND_ADDRESS).expect("dynamic addresses");
        FIRST_ADDRESS
    } else {
        let both = [FIRST_ADDRESS, SECOND_ADDRESS];
        association.set_local_addresses(&both).expect("dynamic addresses");
        SECOND_ADDRESS
    };
    let mut changes = Vec::new();
    while changes.len() < 2 {
        changes.extend(told(association.next_event().await));
        if changes.len() == 1 && !for_good {
            let one = association.set_local_addresses(&[FIRST_ADDRESS]);
            one.expect("dynamic addresses");
        }
    }
    let expected = [
        AddressEvent::LocalAdded(SECOND_ADDRESS),
        AddressEvent::LocalRemoved(gone),
    ];
    assert_eq!(changes, expected);
}

/// A large message that is abandoned after a part of it was sent.
async fn half_sent(association: &Association, stream: StreamId, unordered: bool) {
    loop {
        let options = SendOptions::default()
            .reliability(Reliability::Lifetime(Duration::from_millis(200)))
            .unordered(unordered);
        let begun = association
            .send_part(stream, vec![0; 100_000], options, false)
            .await;
        let begun = begun.expect("a part");
        // The last part is not sent before the lifetime is over.
        let sent = loop {
            match association.next_event().await.expect("the association lives") {
                Event::Abandoned(one) if one.message == begun => break one.sent,
                _ => {}
            }
        };
        let ended = association.send_part(stream, vec![0; 10], options, true).await;
        assert_eq!(ended, Ok(begun), "the rest is swallowed");
        // On a busy machine, 200 ms may pass before the first fragment is sent.
        if sent {
            return;
        }
    }
}

/// Changes of the streams that were seen.
#[derive(Debug, Default)]
struct Reconfigured {
    /// Requests of this side that the peer performed, and those that it refused.
    answered: u32,
    refused: u32,
    inbound: u32,
    outbound: u32,
    added: u32,
}

/// Resets all streams, again and again, every second time with the incoming ones.
async fn reset_streams(association: Association, done: Arc<Mutex<Reconfigured>>) {
    let direction = |count: u32| {
        if count.is_multiple_of(2) {
            ResetDirection::Both
        } else {
            ResetDirection::Outgoing
        }
    };
    let mut count = 0;
    loop {
        let pause = tokio::time::sleep(Duration::from_millis(20));
        let event = tokio::select! {
            event = association.next_event() => event,
            () = pause => {
                let streams = StreamSelection::listed(0..STREAMS as u16);
                count += u32::from(association.reset_streams(streams, direction(count)).is_ok());
                continue;
            }
        };
        let Some(event) = event else { return };
        let Event::Reconfiguration(event) = event else {
            continue;
        };
        let mut done = done.lock().expect("no panic");
        match event {
            ReconfigurationEvent::InboundReset { .. } => done.inbound += 1,
            ReconfigurationEvent::OutboundReset { .. } => done.outbound += 1,
            ReconfigurationEvent::StreamsAdded { .. } => done.added += 1,
            ReconfigurationEvent::Answered { result, .. } if result.is_success() => done.answered += 1,
            ReconfigurationEvent::Answered { .. } => done.refused += 1,
            _ => {}
        }
    }
}

/// Runs a test with a time limit.
async fn in_time<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(150);
    tokio::time::timeout(limit, test).await.expect("in time")
}

macro_rules! interop {
    ($($name:ident: $peer:literal, $listens:literal, $ends:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange { peer: $peer, peer_listens: $listens, peer_ends: $ends, ..Exchange::RELIABLE };
            in_time(exchange.run()).await;
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

macro_rules! extended {
    ($($name:ident: $peer:literal, $listens:literal, $ends:literal, $partial:literal, $nr_sack:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange {
                peer: $peer,
                peer_listens: $listens,
                peer_ends: $ends,
                partial: $partial,
                nr_sack: $nr_sack,
                ..Exchange::PARTIAL
            };
            in_time(exchange.run_extended()).await;
        }
    )*};
}

macro_rules! interleaved {
    ($($name:ident: $listens:literal, $ends:literal, $kind:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange {
                peer: "usrsctp",
                peer_listens: $listens,
                peer_ends: $ends,
                interleave: true,
                ..Exchange::$kind
            };
            in_time(exchange.run_extended()).await;
        }
    )*};
}

// I-DATA (RFC 8260): messages of 1 MiB on eight streams that take turns, with loss; I-FORWARD-TSN.
interleaved! {
    interleaved_with_usrsctp_that_listens: true, false, LARGE;
    interleaved_with_usrsctp_that_connects: false, true, LARGE;
    abandoned_interleaved_with_usrsctp_that_listens: true, true, PARTIAL;
    abandoned_interleaved_with_usrsctp_that_connects: false, false, PARTIAL;
}

// Partial reliability with peers that do not offer NR-SACK; NR-SACK instead of SACK; and both.
//
// With both, usrsctp 0.9.5 lists in a FORWARD-TSN every ordered message that it passes, including messages that are received
// non-renegable but incomplete (RFC 3758 §3.5 C4 lists only abandoned messages): our receiver does not skip such messages.
extended! {
    abandoned_with_usrsctp_that_listens: "usrsctp", true, true, true, false;
    abandoned_with_usrsctp_that_connects: "usrsctp", false, false, true, false;
    abandoned_with_pion_that_listens: "pion", true, false, true, false;
    abandoned_with_pion_that_connects: "pion", false, true, true, false;
    nr_sack_with_usrsctp_that_listens: "usrsctp", true, false, false, true;
    nr_sack_with_usrsctp_that_connects: "usrsctp", false, true, false, true;
    both_with_usrsctp_that_listens: "usrsctp", true, true, true, true;
    both_with_usrsctp_that_connects: "usrsctp", false, false, true, true;
}

macro_rules! marked {
    ($($name:ident: $peer:literal, $listens:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange {
                peer: $peer,
                peer_listens: $listens,
                messages: 3000,
                link: "rate=20mbit,delay=2ms,loss=0.2%,aqm=codel,ecn-mark=20p",
                ecn: true,
                ..Exchange::RELIABLE
            };
            in_time(exchange.run()).await;
        }
    )*};
}

// ECN with usrsctp, which negotiates it, and with pion, which does not.
marked! {
    ecn_with_usrsctp_that_listens: "usrsctp", true;
    ecn_with_usrsctp_that_connects: "usrsctp", false;
    ecn_with_pion_that_listens: "pion", true;
}

macro_rules! several_paths_wanted {
    ($($name:ident: $peer:literal, $listens:literal, $mode:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange {
                peer: $peer,
                peer_listens: $listens,
                messages: 3000,
                multipath: MultipathMode::$mode,
                ..Exchange::RELIABLE
            };
            let sent = in_time(exchange.run()).await.sent();
            let known = |kind: &u8| matches!(kind, 0..=16 | 64 | 128..=132 | 192..=194);
            assert!(sent[&0] > 0 && sent.keys().all(known), "nothing that the peer does not know: {sent:?}");
        }
    )*};
}

// The peer has one address and does not support multipath: the association follows RFC 9260. (usrsctp with several addresses, with
// and without CMT: tests/namespaces/usrsctp_at_once.rs.)
several_paths_wanted! {
    cmt_with_pion_that_listens: "pion", true, Cmt;
    cmt_with_pion_that_connects: "pion", false, Cmt;
    eca_with_pion_that_listens: "pion", true, Eca;
    eca_with_pion_that_connects: "pion", false, Eca;
    eca_with_usrsctp_that_listens: "usrsctp", true, Eca;
    eca_with_usrsctp_that_connects: "usrsctp", false, Eca;
}

/// Authenticated chunks, and a change of the only address, with usrsctp in both roles.
macro_rules! family {
    ($($name:ident: $listens:expr, $auth:expr, $moves:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange {
                peer: "usrsctp",
                peer_listens: $listens,
                peer_ends: false,
                messages: 3000,
                link: "rate=60mbit,delay=2ms,loss=0.2%",
                auth: $auth,
                moves: $moves,
                ..Exchange::RELIABLE
            };
            let counters = in_time(exchange.run()).await.stats.counters;
            let auth: Option<Terms> = $auth;
            assert!(auth.is_none() || counters.packets_verified > 1000, "{counters:?}");
            assert_eq!(counters.packets_unverified, 0, "{counters:?}");
            assert_eq!(counters.chunks_unauthenticated, 0, "{counters:?}");
        }
    )*};
}

macro_rules! reset {
    ($($name:ident: $listens:literal, $interleave:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange {
                peer: "usrsctp",
                peer_listens: $listens,
                messages: 6000,
                interleave: $interleave,
                resets: true,
                ..Exchange::RELIABLE
            };
            in_time(exchange.run()).await;
        }
    )*};
}

// RFC 6525: both sides reset all streams in both directions while data flows; with I-DATA usrsctp adds streams too.
reset! {
    resets_with_usrsctp_that_listens: true, false;
    resets_with_usrsctp_that_connects: false, false;
    interleaved_resets_with_usrsctp_that_listens: true, true;
}

macro_rules! rounds {
    ($($name:ident: $listens:literal, $first:ident, $link:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange {
                peer: "pion",
                peer_listens: $listens,
                peer_ends: $listens,
                messages: pion_resets::MESSAGES,
                link: $link,
                rounds: Some(First::$first),
                ..Exchange::RELIABLE
            };
            let outcome = in_time(exchange.run()).await;
            assert!(outcome.verdict.contains(&pion_resets::verdict()), "{}", outcome.verdict);
            pion_resets::check(&outcome.chunks, outcome.port, First::$first, !$link.contains("loss"));
        }
    )*};
}

// RFC 6525 as data channels use it (RFC 8831 §6.7). Limits of pion 1.12.0: interop/README.md.
rounds! {
    we_reset_first_and_pion_listens: true, Us, "delay=2ms";
    we_reset_first_and_pion_connects: false, Us, "delay=2ms";
    pion_listens_and_resets_first: true, Pion, "delay=2ms";
    pion_connects_and_resets_first: false, Pion, "delay=2ms";
    resets_cross_and_pion_listens: true, Both, "delay=2ms";
    resets_cross_and_pion_connects: false, Both, "delay=2ms";
    we_reset_first_with_loss_and_pion_listens: true, Us, "delay=2ms,loss=0.2%";
    pion_connects_and_resets_first_with_loss: false, Pion, "delay=2ms,loss=0.2%";
}

family! {
    usrsctp_listens_and_signs_data: true, Some(Terms::PEER_SIGNS), None;
    usrsctp_connects_and_signs_data: false, Some(Terms::PEER_SIGNS), None;
    usrsctp_listens_and_an_address_comes_and_goes: true, None, Some(AddressForm::Explicit);
    usrsctp_listens_and_an_address_comes_and_goes_by_wildcards: true, None, Some(AddressForm::Wildcard);
    usrsctp_connects_and_we_move: false, None, Some(AddressForm::Explicit);
}

macro_rules! authenticated {
    ($($name:ident: $listens:literal, $interleave:literal, $terms:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let base = if $interleave { Exchange::LARGE } else { Exchange { messages: 3000, ..Exchange::RELIABLE } };
            let exchange = Exchange {
                peer: "usrsctp",
                peer_listens: $listens,
                peer_ends: false,
                auth: Some(Terms::$terms),
                ..base
            };
            let outcome = in_time(exchange.run()).await;
            authenticated::check(&outcome, Terms::$terms);
        }
    )*};
}

// RFC 4895 with shared keys at both ends, each of which requires signatures of the other; with a new key in the middle; with I-DATA.
authenticated! {
    both_require_signed_data_and_usrsctp_listens: true, false, KEYS;
    both_require_signed_data_and_usrsctp_connects: false, false, KEYS;
    the_key_changes_and_usrsctp_listens: true, false, CHANGE;
    the_key_changes_and_usrsctp_connects: false, false, CHANGE;
    signed_interleaved_data_and_usrsctp_listens: true, true, INTERLEAVED;
    signed_interleaved_data_and_usrsctp_connects: false, true, INTERLEAVED;
}

macro_rules! refused {
    ($($name:ident: $listens:literal, $terms:ident, $reported:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let exchange = Exchange {
                peer: "usrsctp",
                peer_listens: $listens,
                messages: 100,
                link: "delay=2ms",
                auth: Some(Terms::$terms),
                ..Exchange::RELIABLE
            };
            in_time(authenticated::nothing_passes(exchange, $reported)).await;
        }
    )*};
}

// The keys differ: the association is set up, because its handshake is not signed, and no data passes in either direction.
refused! {
    another_secret_and_usrsctp_listens: true, SECRETS_DIFFER, "wrong";
    another_secret_and_usrsctp_connects: false, SECRETS_DIFFER, "wrong";
    another_key_and_usrsctp_listens: true, KEYS_DIFFER, "unknown_key";
    another_key_and_usrsctp_connects: false, KEYS_DIFFER, "unknown_key";
}

#[tokio::test(flavor = "multi_thread")]
async fn every_parameter_of_usrsctp_that_listens_is_accepted() {
    in_time(parameters::are_accepted(true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_parameter_of_usrsctp_that_connects_is_accepted() {
    in_time(parameters::are_accepted(false)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pion_ignores_requests_to_reset_its_streams() {
    let exchange = Exchange {
        peer: "pion",
        peer_ends: false,
        messages: 100,
        ..Exchange::RELIABLE
    };
    in_time(pion_resets::asked_in_vain(exchange)).await;
}

/// Each peer drops the second of two equal chunks. Returns the copies sent, and those that the peer reported as duplicates.
async fn takes_early_copies(peer: &'static str) -> (u64, u64) {
    let exchange = Exchange {
        peer,
        messages: 1500,
        link: "delay=20ms,loss=1%",
        copies: 3,
        ..Exchange::RELIABLE
    };
    let counters = in_time(exchange.run()).await.stats.counters;
    (counters.early_copies, counters.early_copies_unnecessary)
}

#[tokio::test(flavor = "multi_thread")]
async fn usrsctp_takes_early_copies() {
    let (sent, reported) = takes_early_copies("usrsctp").await;
    assert!(reported > 0 && sent >= reported, "{reported} of {sent}");
}

/// pion 1.12 reports no duplicates: it gets 32 copies at most.
#[tokio::test(flavor = "multi_thread")]
async fn pion_takes_early_copies() {
    let (sent, reported) = takes_early_copies("pion").await;
    assert!((1..=32).contains(&sent) && reported == 0, "{reported} of {sent}");
}
