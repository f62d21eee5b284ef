//! The memory that a peer can make a connection take. The application accepts channels and reads nothing; the worst shapes of data come.

#![cfg(target_os = "linux")]

use std::future::Future;
use std::process::Command;
use std::time::Duration;

use anabranch_datachannel::{
    ChannelConfig, ChannelMessage, ChannelSendError, DataChannel, OpenError, PeerConnection, SessionConfig,
};
use anabranch_dtls::Certificate;
use anabranch_testkit::resident;
use bytes::Bytes;
use tokio::net::UdpSocket;

/// Channels that one side can open: half of the streams.
const CHANNELS: usize = 512;
/// Set in the process of a test.
const ALONE: &str = "ANABRANCH_ALONE";

const MIB: usize = 1 << 20;

/// Runs a test in a process of its own, because resident memory is of the whole process, and memory that one test has freed hides the growth
/// of the next.
fn alone(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(test);
    }
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", name, "--nocapture"];
    let status = Command::new(program).args(arguments).env(ALONE, "").status();
    assert!(status.unwrap().success());
}

/// A sender, a receiver that reads nothing, and their memory before.
struct Shape {
    sender: PeerConnection,
    receiver: PeerConnection,
    before: usize,
}

impl Shape {
    async fn new() -> Self {
        let config = || SessionConfig::new(Certificate::generate().unwrap(), []);
        let socket = || UdpSocket::bind("127.0.0.1:0");
        let (sender, offer) = PeerConnection::offer(socket().await.unwrap(), config()).unwrap();
        let (receiver, answer) =
            PeerConnection::answer(socket().await.unwrap(), config().ice_lite(true), &offer).unwrap();
        sender.accept_answer(&answer).unwrap();
        sender.connected().await.unwrap();
        receiver.connected().await.unwrap();
        Self {
            sender,
            receiver,
            before: resident("self"),
        }
    }

    async fn channels(&self) -> Vec<[DataChannel; 2]> {
        let mut channels = Vec::new();
        for _ in 0..CHANNELS {
            let ours = self.sender.open(ChannelConfig::new("")).await.unwrap();
            channels.push([ours, self.receiver.accept().await.unwrap()]);
        }
        channels
    }

    /// Sends up to `most` of these messages in all channels in turn, until the receiver's window is closed. Returns their number.
    async fn send(&self, channels: &[[DataChannel; 2]], bytes: Bytes, most: usize) -> usize {
        let message = ChannelMessage {
            is_text: false,
            bytes,
        };
        let mut sent = 0;
        while sent < most && self.receiver.stats().unwrap().a_rwnd > 0 {
            for [ours, _] in channels {
                match ours.try_send(message.clone()) {
                    Ok(()) => sent += 1,
                    Err(ChannelSendError::Full) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sent
    }

    fn assert_grown_at_most(&self, limit: usize, what: &str) {
        let grown = resident("self").saturating_sub(self.before);
        println!("{what}: {} KiB", grown >> 10);
        assert!(grown <= limit, "{what}: {grown} bytes");
    }
}

/// The receive window of the association is the limit of all channels together.
#[test]
fn unread_messages_of_many_channels() {
    alone("unread_messages_of_many_channels", async {
        let shape = Shape::new().await;
        let channels = shape.channels().await;
        let most = 128 * MIB / 16_384;
        let sent = shape.send(&channels, vec![7; 16_384].into(), most).await;
        shape.assert_grown_at_most(32 * MIB, &format!("{sent} messages of 16 KiB"));
        assert!(sent < most);
        // Every one of them arrives when the application reads.
        let (told, mut read) = tokio::sync::mpsc::unbounded_channel();
        for [_, theirs] in channels {
            let told = told.clone();
            tokio::spawn(async move { while theirs.recv().await.is_some() && told.send(()).is_ok() {} });
        }
        for _ in 0..sent {
            read.recv().await.unwrap();
        }
    });
}

/// An empty message has one byte on the wire, and costs the receiver more.
#[test]
fn unread_empty_messages() {
    alone("unread_empty_messages", async {
        let shape = Shape::new().await;
        let channels = shape.channels().await;
        let most = 500_000;
        let sent = shape.send(&channels, Bytes::new(), most).await;
        shape.assert_grown_at_most(64 * MIB, &format!("{sent} empty messages"));
        assert!(sent < most);
    });
}

/// Labels and protocols have a limit for all channels that the peer opens, accepted or not, open or closed and never accepted.
#[test]
fn long_labels() {
    alone("long_labels", async {
        let shape = Shape::new().await;
        let config = ChannelConfig::new("x".repeat(65_535)).protocol("y".repeat(65_535));
        let mut kept = Vec::new();
        for number in 0..CHANNELS {
            match shape.sender.open(config.clone()).await {
                // Some are closed at once, and the application never accepts them.
                Ok(channel) if number % 2 == 0 => kept.push(channel),
                Ok(_) | Err(OpenError::Refused) => {}
                Err(error) => panic!("{error}"),
            }
        }
        shape.assert_grown_at_most(16 * MIB, "labels and protocols");
        assert!(kept.len() < 8, "{} channels", kept.len());
        // Short labels still have room, and an accepted channel that was closed gives its room back.
        shape.sender.open(ChannelConfig::new("short")).await.unwrap();
        drop(kept);
        loop {
            let channel = shape.receiver.accept().await.unwrap();
            if channel.config().label == "short" {
                break;
            }
            while channel.recv().await.is_some() {}
        }
        shape.sender.open(config).await.unwrap();
    });
}
