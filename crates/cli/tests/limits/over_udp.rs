//! The memory of the library: a program in a process of its own, and a hostile peer that sends UDP datagrams over loopback.

use std::io::{BufRead, BufReader, Lines};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anabranch::{Association, Config, Endpoint, EndpointBuilder, LinkConfig};
use anabranch_testkit::{packet_of, state_cookie};
use anabranch_wire::chunk::{Chunk, CookieEcho, Heartbeat, Init, ReConfig, kind};
use anabranch_wire::packet::{CommonHeader, Packet};
use anabranch_wire::parameter::{Parameter, ParametersBuilder, StreamList};
use anabranch_wire::{StreamId, Tsn, VerificationTag};
use bytes::Bytes;

use crate::Scenario;
use crate::attack::Attack;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("messages that arrive in parts and that `recv` joins", joined),
    ("other events for the application", events),
    ("associations", associations),
    ("associations not accepted by the application", backlog),
    ("packets in the in-process link", link),
    ("buffers kept to be used again", pool),
];

/// The environment variable that tells the victim what it does.
const ROLE: &str = "ANABRANCH_LIMITS_ROLE";
const SCTP_PORT: u16 = 7;
/// A datagram that is not answered is sent again after this time.
const AGAIN: Duration = Duration::from_millis(250);
/// A victim that does not answer this many datagrams is broken.
const TRIES: usize = 240;
/// Packets between two heartbeats, which must be answered so that the socket's buffer does not overflow.
const IN_A_ROW: u64 = 8;

/// The limit of associations of the victim `many`.
const MOST: u64 = 1000;

/// The settings of the example in docs/LIMITS.md.
fn example() -> Config {
    let mut config = Config::default();
    config.buffers.receive = 64 << 10;
    config.buffers.growth = 1;
    config
}

fn builder(role: &str) -> EndpointBuilder {
    let builder = Endpoint::builder().config(example()).backlog(128);
    match role {
        "many" => builder.max_associations(MOST as usize),
        "link" => builder.link(
            LinkConfig {
                rate: Some(8000),
                mtu: u16::MAX,
                ..LinkConfig::default()
            },
            1,
        ),
        _ => builder,
    }
}

/// The program that is attacked. It ends when its standard input is closed.
#[tokio::main]
async fn serve(role: &str) {
    let endpoint = builder(role).bind("127.0.0.1:0").await.expect("a socket");
    endpoint.listen_on_port(SCTP_PORT).expect("listen");
    println!("serves {}", endpoint.local_addr());
    if role == "accepts-none" {
        return std::future::pending().await;
    }
    let mut kept: Vec<Association> = Vec::new();
    while let Some(association) = endpoint.accept().await {
        kept.push(association.clone());
        if role != "many" {
            tokio::spawn(async move { while let Ok(Some(_)) = association.recv().await {} });
        }
    }
}

#[test]
#[ignore = "the program that is attacked, in a process of its own"]
fn victim() {
    let role = std::env::var(ROLE).expect("a role");
    if role == "channels" {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        return runtime.block_on(crate::channels::serve());
    }
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(0);
    });
    serve(&role);
}

/// A running victim. It ends with this object.
pub(crate) struct Victim {
    child: Child,
    pub(crate) stdin: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Victim {
    pub(crate) fn spawn(attack: &mut Attack, role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command
            .args(["--exact", "over_udp::victim", "--ignored", "--nocapture"])
            .env(ROLE, role);
        Self::of(attack, &mut command)
    }

    pub(crate) fn of(attack: &mut Attack, command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        attack.of(child.id());
        Self {
            stdin: child.stdin.take().expect("a pipe"),
            output: BufReader::new(child.stdout.take().expect("a pipe")).lines(),
            child,
        }
    }

    /// The rest of the next line of the output that has this text.
    pub(crate) fn line(&mut self, text: &str) -> String {
        let mut lines = self.output.by_ref().map_while(Result::ok);
        let found = lines.find_map(|line| Some(line.split_once(text)?.1.to_owned()));
        found.unwrap_or_else(|| panic!("the victim does not say {text:?}"))
    }

    /// Starts the library in this role; returns its address too.
    fn start(attack: &mut Attack, role: &str) -> (Self, SocketAddr) {
        let mut victim = Self::spawn(attack, role);
        let address = victim.line("serves ").parse().expect("an address");
        (victim, address)
    }
}

/// A peer over UDP whose packets are made by hand.
struct Peer {
    socket: UdpSocket,
    port: u16,
    own_tag: VerificationTag,
    tag: VerificationTag,
    /// The initial TSN of the endpoint.
    endpoint_tsn: Tsn,
}

const FIRST: Tsn = Tsn(1000);

impl Peer {
    fn new(victim: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(victim).expect("connect");
        socket.set_read_timeout(Some(AGAIN)).expect("a time");
        Self {
            socket,
            port: 7000,
            own_tag: VerificationTag(0x00c0_ffee),
            tag: VerificationTag(0),
            endpoint_tsn: Tsn(0),
        }
    }

    fn packet(&self, chunks: &[Chunk]) -> Vec<u8> {
        let header = CommonHeader {
            source_port: self.port,
            destination_port: SCTP_PORT,
            verification_tag: self.tag,
        };
        packet_of(header, chunks)
    }

    fn send(&self, packet: &[u8]) {
        let _ = self.socket.send(packet);
    }

    /// Sends chunks until one that `wanted` takes comes back; `None` if an ABORT comes.
    fn ask<T>(&self, chunks: &[Chunk], wanted: impl Fn(Chunk) -> Option<T>) -> Option<T> {
        let packet = self.packet(chunks);
        let mut buffer = vec![0; 65_536];
        for _ in 0..TRIES {
            self.send(&packet);
            while let Ok(len) = self.socket.recv(&mut buffer) {
                let datagram = Bytes::copy_from_slice(&buffer[..len]);
                let Ok(packet) = Packet::parse_unchecked(datagram) else {
                    continue;
                };
                for raw in packet.chunks() {
                    match raw.map(Chunk::decode) {
                        Ok(Ok(Chunk::Abort(_))) => return None,
                        Ok(Ok(chunk)) => {
                            if let Some(found) = wanted(chunk) {
                                return Some(found);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        panic!("the victim does not answer");
    }

    /// Sets an association up, unless the victim refuses. Returns the bytes sent.
    fn set_up(&mut self, attack: &mut Attack) -> bool {
        self.tag = VerificationTag(0);
        let kinds = Bytes::from_static(&[kind::RE_CONFIG]);
        let parameters = ParametersBuilder::new().push(&Parameter::SupportedExtensions(kinds));
        let init = Chunk::Init(Init {
            initiate_tag: self.own_tag,
            a_rwnd: 100_000,
            outbound_streams: u16::MAX,
            inbound_streams: u16::MAX,
            initial_tsn: FIRST,
            parameters: parameters.finish(),
        });
        let answer = self.ask(&[init], |chunk| match chunk {
            Chunk::InitAck(ack) => Some(ack),
            _ => None,
        });
        attack.sent(44);
        let Some(ack) = answer else { return false };
        self.tag = ack.initiate_tag;
        self.endpoint_tsn = ack.initial_tsn;
        let cookie = state_cookie(&ack);
        let len = 16 + cookie.len();
        let echo = Chunk::CookieEcho(CookieEcho { cookie });
        let accepted = self.ask(&[echo], |chunk| (chunk == Chunk::CookieAck).then_some(()));
        attack.sent(len);
        accepted.is_some()
    }

    /// Waits until the victim has taken everything that was sent; `false` if it has ended the association.
    fn is_taken(&self) -> bool {
        let heartbeat = Chunk::Heartbeat(Heartbeat {
            tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
        });
        let answer = self.ask(&[heartbeat], |chunk| {
            matches!(chunk, Chunk::HeartbeatAck(_)).then_some(())
        });
        answer.is_some()
    }

    /// Sends the planned number of packets, less those of set-up, each made from its number.
    fn flood(&mut self, attack: &mut Attack, chunks: impl Fn(&Self, u32) -> Vec<Chunk>) {
        attack.begins();
        assert!(self.set_up(attack));
        let mut lives = true;
        for number in 0..attack.planned() - 2 {
            let packet = self.packet(&chunks(self, number as u32));
            self.send(&packet);
            if lives && number % IN_A_ROW == 0 {
                lives = self.is_taken();
            }
            attack.sent(packet.len());
        }
    }
}

/// A message without an end.
fn joined(attack: &mut Attack) {
    let (_victim, address) = Victim::start(attack, "reads");
    let payload = Bytes::from(vec![7; 1200]);
    Peer::new(address).flood(attack, |_, number| {
        let data = anabranch_wire::chunk::Data {
            tsn: FIRST.plus(number),
            stream: StreamId(0),
            ssn: anabranch_wire::Ssn(0),
            ppid: anabranch_wire::Ppid(0),
            unordered: false,
            beginning: number == 0,
            ending: false,
            immediate: false,
            payload: payload.clone(),
        };
        vec![Chunk::Data(data)]
    });
}

/// Resets of many streams; the application takes no events.
fn events(attack: &mut Attack) {
    let (_victim, address) = Victim::start(attack, "reads");
    Peer::new(address).flood(attack, |peer, number| {
        let listed = (0..590).map(|place| StreamId((number * 590 + place) as u16 >> 1));
        let request = Parameter::OutgoingReset {
            request: FIRST.plus(number).0,
            response: peer.endpoint_tsn.minus(1).0,
            last_tsn: FIRST.minus(1),
            streams: StreamList::from_streams(listed),
        };
        let parameters = ParametersBuilder::new().push(&request).finish();
        vec![Chunk::ReConfig(ReConfig { parameters })]
    });
}

/// Set-ups, two packets each, of which those beyond the limit are refused. An association takes no more than `each` bytes.
fn set_ups(attack: &mut Attack, role: &str, most: u64, each: u64) {
    let (_victim, address) = Victim::start(attack, role);
    let mut peer = Peer::new(address);
    attack.begins();
    let mut accepted = 0;
    for number in 0..attack.planned() / 2 {
        peer.port = 1 + number as u16;
        peer.own_tag = VerificationTag(1 + number as u32);
        accepted += u64::from(peer.set_up(attack));
    }
    assert!(accepted >= most, "{accepted} set-ups");
    attack.would_take(attack.planned() / 2 * each);
}

fn associations(attack: &mut Attack) {
    set_ups(attack, "many", MOST, 14 << 10);
}

fn backlog(attack: &mut Attack) {
    set_ups(attack, "accepts-none", 128, 16 << 10);
}

/// Datagrams of 60,000 bytes for a link of 1 kB/s. The victim cannot answer, so those that its socket has no room for are lost.
fn link(attack: &mut Attack) {
    let (_victim, address) = Victim::start(attack, "link");
    let peer = Peer::new(address);
    let packet = vec![7; 60_000];
    attack.begins();
    for _ in 0..attack.planned() {
        peer.send(&packet);
        std::thread::sleep(Duration::from_millis(1));
        attack.sent(packet.len());
    }
}

/// Datagrams of 60,000 bytes in an association.
fn pool(attack: &mut Attack) {
    let (_victim, address) = Victim::start(attack, "reads");
    let payload = Bytes::from(vec![7; 60_000]);
    Peer::new(address).flood(attack, |_, number| {
        let data = anabranch_wire::chunk::Data {
            tsn: FIRST.plus(number),
            stream: StreamId(0),
            ssn: anabranch_wire::Ssn(number as u16),
            ppid: anabranch_wire::Ppid(0),
            unordered: false,
            beginning: true,
            ending: true,
            immediate: false,
            payload: payload.clone(),
        };
        vec![Chunk::Data(data)]
    });
}
