//! The memory of a peer connection of data channels: a program in a process of its own that accepts all channels and reads nothing, and a peer
//! that offers it much more than fits. *Packets* are messages and channels here.

use std::io::Write;
use std::time::Duration;

use anabranch_datachannel::{ChannelConfig, ChannelMessage, DataChannel, PeerConnection, SessionConfig};
use anabranch_dtls::Certificate;
use bytes::Bytes;
use tokio::net::UdpSocket;

use crate::Scenario;
use crate::attack::Attack;
use crate::over_udp::Victim;

pub(crate) const SCENARIOS: &[Scenario] = &[
    (
        "messages that the application has not read, of all channels together",
        unread,
    ),
    (
        "channels, those included that the application has not accepted or not read to the end",
        channels,
    ),
    ("labels and protocols of the channels that the peer opens", labels),
];

/// Channels that one side can open without waiting for others to close.
const CHANNELS: usize = 500;

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.expect("a socket")
}

fn config() -> SessionConfig {
    SessionConfig::new(Certificate::generate().expect("a certificate"), [])
}

/// The program that is attacked: answers an offer of one line, and keeps all channels.
pub(crate) async fn serve() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("an offer");
    let offer: String = serde_json::from_str(&line).expect("a text");
    let (peer, answer) =
        PeerConnection::answer(socket().await, config().ice_lite(true), &offer).expect("an answer");
    println!("answers {}", serde_json::to_string(&answer).expect("a text"));
    let mut kept = Vec::new();
    while let Some(channel) = peer.accept().await {
        kept.push(channel);
    }
}

/// A peer with this many channels.
struct Peer {
    _victim: Victim,
    peer: PeerConnection,
    channels: Vec<DataChannel>,
}

impl Peer {
    async fn new(attack: &mut Attack, channels: usize) -> Self {
        let (peer, offer) = PeerConnection::offer(socket().await, config()).expect("an offer");
        let mut victim = Victim::spawn(attack, "channels");
        let line = serde_json::to_string(&offer).expect("a text");
        writeln!(victim.stdin, "{line}").expect("the victim reads");
        let answer: String = serde_json::from_str(&victim.line("answers ")).expect("a text");
        peer.accept_answer(&answer).expect("an answer");
        peer.connected().await.expect("a connection");
        let mut begun = Self {
            _victim: victim,
            peer,
            channels: Vec::new(),
        };
        for _ in 0..channels {
            begun.open(ChannelConfig::new("")).await;
        }
        begun
    }

    async fn open(&mut self, config: ChannelConfig) -> bool {
        let opened = self.peer.open(config).await;
        let is_open = opened.is_ok();
        self.channels.extend(opened);
        is_open
    }
}

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(scenario);
}

/// Empty messages, and messages of 16 KiB, on all channels in turn.
fn unread(attack: &mut Attack) {
    run(async {
        let peer = Peer::new(attack, CHANNELS).await;
        attack.begins();
        for number in 0..attack.planned() as usize {
            let len = if number % 2 == 0 { 0 } else { 16 << 10 };
            let message = ChannelMessage {
                is_text: false,
                bytes: Bytes::from(vec![7; len]),
            };
            // The peer's own send buffer refuses what the victim does not take.
            let _ = peer.channels[number / 2 % CHANNELS].try_send(message);
            attack.sent(len);
            if number % 16 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
}

/// Channels that are opened and closed again.
fn channels(attack: &mut Attack) {
    run(async {
        let mut peer = Peer::new(attack, 0).await;
        attack.begins();
        let label = "x".repeat(100);
        for _ in 0..attack.planned() {
            if !peer.open(ChannelConfig::new(label.clone())).await {
                // No number is free: those of closed channels are.
                peer.channels.clear();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            attack.sent(label.len());
        }
        // A channel without a bound would take its handle, its two streams and its label.
        attack.would_take(attack.planned() * 2048);
    });
}

/// Labels of 60,000 bytes.
fn labels(attack: &mut Attack) {
    run(async {
        let mut peer = Peer::new(attack, 0).await;
        attack.begins();
        for _ in 0..attack.planned() {
            peer.open(ChannelConfig::new("x".repeat(60_000))).await;
            attack.sent(60_000);
        }
    });
}
