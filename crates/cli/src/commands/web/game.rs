//! The traffic of the page: a game's messages in five channels, and a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch::{LinkConfig, LinkedSocket, Reliability};
use anabranch_datachannel::{ChannelConfig, ChannelMessage, DataChannel, PeerConnection};
use anabranch_netsim::{LossModel, QueueLimit};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

/// The label of the channel with which the page controls the traffic.
pub(super) const CONTROL: &str = "anabranch-control";
/// The rate of the link.
const RATE: u64 = 8_000_000;
/// The queue of the link, in bytes: 64 ms at its rate.
const QUEUE: u64 = 64_000;
/// The greatest values of the page's sliders, in percent and in milliseconds one way.
const MOST_LOSS: f64 = 20.0;
const MOST_DELAY: f64 = 200.0;
/// How often the game sends, and how much: a message has its number (32 bits), its time in milliseconds (64-bit floating point), both
/// big-endian, and zeros.
const INTERVAL: Duration = Duration::from_micros(16_667);
const MESSAGE: usize = 100;
/// After this time a message of the game is useless.
const LIFETIME: Duration = Duration::from_millis(100);
/// The priority of the game in its own channel (RFC 8831 §6.4: *extra high*).
const URGENT: u16 = 1024;
/// The parts in which the file is sent, and how much of it waits in the send buffer, in bytes.
const PART: usize = 16 << 10;
const FILE_BUFFER: usize = 256 << 10;

/// The link of a visitor before the page has sent the values of its sliders.
pub(super) fn first_link() -> LinkConfig {
    link(1.0, 30.0)
}

/// A link with this loss in percent, and this delay in milliseconds.
fn link(loss: f64, delay: f64) -> LinkConfig {
    LinkConfig::default()
        .with_rate(RATE)
        .with_queue(QueueLimit::Bytes(QUEUE))
        .with_delay(Duration::from_secs_f64(delay / 1e3))
        .with_loss(LossModel::bernoulli(loss / 100.0))
}

/// The traffic of a visitor's page.
#[derive(Debug)]
pub(super) struct Game {
    begun: Instant,
    socket: Arc<LinkedSocket>,
    /// Whether the file is sent: not before the page asks for it.
    file: AtomicBool,
}

impl Game {
    pub(super) fn new(socket: Arc<LinkedSocket>) -> Self {
        Self {
            begun: Instant::now(),
            socket,
            file: AtomicBool::new(false),
        }
    }

    /// Opens the channels, and sends until the control channel is closed. The page makes a mistake only if it is another page: an error
    /// ends the traffic.
    pub(super) async fn run(self, peer: &PeerConnection, control: DataChannel) -> Option<()> {
        let open = |label: &str, change: fn(ChannelConfig) -> ChannelConfig| {
            let config = change(ChannelConfig::new(label));
            async move { peer.open(config).await.ok() }
        };
        let expiring =
            |config: ChannelConfig| config.ordered(false).reliability(Reliability::Lifetime(LIFETIME));
        let file = open("file", |config| config).await?;
        let game = [
            file.clone(),
            open("reliable", |config| config).await?,
            open("expiring", expiring).await?,
            open("prioritised", |config| {
                config
                    .ordered(false)
                    .reliability(Reliability::Lifetime(LIFETIME))
                    .priority(URGENT)
            })
            .await?,
            open("deadline", |config| config.deadline(LIFETIME)).await?,
        ];
        tokio::select! {
            () = self.play(&game) => {}
            () = self.send_file(&file) => {}
            () = self.obey(&control) => {}
        }
        Some(())
    }

    /// Milliseconds since the beginning: the clock that the page compares with its own.
    fn clock(&self) -> f64 {
        self.begun.elapsed().as_secs_f64() * 1e3
    }

    /// Sends the game's messages, the same ones in each channel.
    async fn play(&self, channels: &[DataChannel]) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for number in 0_u32.. {
            ticks.tick().await;
            let mut bytes = vec![0; MESSAGE];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            bytes[4..12].copy_from_slice(&self.clock().to_be_bytes());
            let bytes = Bytes::from(bytes);
            for channel in channels {
                // A full send buffer loses the message; the page counts it.
                let _ = channel.try_send(ChannelMessage {
                    is_text: false,
                    bytes: bytes.clone(),
                });
            }
        }
    }

    async fn send_file(&self, channel: &DataChannel) {
        let part = Bytes::from(vec![0; PART]);
        loop {
            channel.buffered_amount_low(FILE_BUFFER - PART).await;
            if !self.file.load(Ordering::Relaxed) {
                tokio::time::sleep(INTERVAL).await;
            } else if channel.send_bytes(part.clone()).await.is_err() {
                return;
            }
        }
    }

    /// Does what the page asks for, until its channel is closed.
    async fn obey(&self, control: &DataChannel) {
        while let Some(message) = control.recv().await {
            let Ok(request) = serde_json::from_slice::<Value>(&message.bytes) else {
                return;
            };
            if let Some(at) = request["clock"].as_f64() {
                let answer = json!({ "clock": at, "server": self.clock() });
                if control.send_text(answer.to_string()).await.is_err() {
                    return;
                }
            }
            if let Some((loss, delay)) = request["loss"].as_f64().zip(request["delay"].as_f64()) {
                let within = |value: f64, most: f64| value.clamp(0.0, most);
                self.socket
                    .set_link(&link(within(loss, MOST_LOSS), within(delay, MOST_DELAY)));
            }
            if let Some(file) = request["file"].as_bool() {
                self.file.store(file, Ordering::Relaxed);
            }
        }
    }
}
