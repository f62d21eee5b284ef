//! Messages that may be abandoned (RFC 7496), in whole runs: live video with lifetimes on a lossy link, whose congestion window
//! must still grow (RFC 9260 §7.2); and messages that are sent once, on two paths without losses.

use std::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{
    Config, CoupledControl, MultipathMode, PathScheduler, Reliability, SendOptions, StreamId, Timestamp,
};
use anabranch_testkit::{Pair, Setup, Side, with_buffers};

/// The lifetime of a frame.
const LIFETIME: Duration = Duration::from_millis(200);
/// The duration of a run, in seconds.
const SECONDS: u64 = 60;
/// Frames per second.
const RATE: u64 = 30;

/// 10 Mbit/s, an RTT of 40 ms, a queue of 100 packets, 3 % loss in each direction.
fn lossy_link() -> LinkConfig {
    LinkConfig::default()
        .with_rate(10_000_000)
        .with_delay(Duration::from_millis(20))
        .with_queue(QueueLimit::Packets(100))
        .with_loss(LossModel::bernoulli(0.03))
}

/// The results of a run.
#[derive(Debug, Default)]
struct Video {
    /// Bytes of frames that arrived.
    delivered: u64,
    /// Bytes of frames that arrived within their lifetime.
    useful: u64,
    /// The longest time, in whole seconds, with a cwnd of at most two packets.
    longest_minimum: u64,
    /// T3-rtx expirations.
    timeouts: u64,
}

/// Sends 30 frames of 4 to 12 KiB per second, 2.1 Mbit/s, and every second second a frame of 40 KiB.
fn play(seed: u64, options: SendOptions) -> Video {
    let mut sizes = Generator::of_process(seed, "frames");
    let setup = Setup::new(seed).captured(false).config(Config::rfc9260());
    let mut pair = setup.path(lossy_link()).connect();
    let mut video = Video::default();
    let (mut sent_at, mut at_minimum) = (Vec::<Timestamp>::new(), 0);
    for frame in 0..SECONDS * RATE {
        let len = if frame % (2 * RATE) == RATE {
            40 << 10
        } else {
            (4 << 10) + sizes.below(8 << 10) as usize
        };
        let mut bytes = vec![0x5a; len];
        bytes[..8].copy_from_slice(&frame.to_le_bytes());
        let now = pair.now();
        // If the buffer is full, a frame of a reliable flow is not sent at all.
        let _ = pair
            .association_mut(Side::A)
            .send(now, StreamId(0), bytes.into(), options);
        sent_at.push(now);
        pair.run_for(Duration::from_nanos(1_000_000_000 / RATE));
        count(&mut pair, &sent_at, &mut video);
        let path = &pair.association(Side::A).stats().paths[0];
        at_minimum = if path.cwnd <= 2 * usize::from(path.pmtu) {
            at_minimum + 1
        } else {
            0
        };
        video.longest_minimum = video.longest_minimum.max(at_minimum / RATE);
    }
    video.timeouts = pair.association(Side::A).counters().timeouts;
    video
}

fn count(pair: &mut Pair, sent_at: &[Timestamp], video: &mut Video) {
    for message in pair.messages(Side::Z) {
        let frame = u64::from_le_bytes(message.bytes[..8].try_into().expect("8 bytes"));
        let delay = message.at.saturating_duration_since(sent_at[frame as usize]);
        video.delivered += message.bytes.len() as u64;
        if delay <= LIFETIME {
            video.useful += message.bytes.len() as u64;
        }
    }
}

/// A sender that abandons half-sent messages when they expire recovers after T3-rtx like a reliable one: the window stays at
/// its minimum for less than a second. Half of the bytes that a reliable flow delivers, most of them late, arrive in time.
#[test]
fn video_with_lifetimes_recovers_after_a_timeout() {
    let (mut useful, mut reliable, mut timeouts) = (0, 0, 0);
    for seed in 0..6 {
        for unordered in [false, true] {
            let options = |reliability| {
                SendOptions::default()
                    .reliability(reliability)
                    .unordered(unordered)
            };
            let video = play(seed, options(Reliability::Lifetime(LIFETIME)));
            assert!(
                video.longest_minimum < 2,
                "seed {seed}, unordered {unordered}: {video:?}"
            );
            useful += video.useful;
            timeouts += video.timeouts;
            reliable += play(seed, options(Reliability::Reliable)).delivered;
        }
    }
    println!("useful bytes {useful}, delivered by reliable flows {reliable}, T3-rtx {timeouts} times");
    assert!(timeouts > 0, "T3-rtx found a loss");
    assert!(2 * useful >= reliable, "{useful} of {reliable}");
}

// buffers of 64 KiB: A → DATA 0 (path 1, slow) …, 1 … (path 0) → Z; the buffer is full, and DATA 0 blocks it
/// Chunk rescheduling retransmits chunks that are not known to be lost. A message that must not be retransmitted is not
/// rescheduled: rescheduling would abandon it although it arrives.
#[test]
fn rescheduling_abandons_nothing() {
    let mut config = with_buffers(64 << 10);
    config.multipath.mode = MultipathMode::Cmt;
    config.multipath.scheduler = PathScheduler::RoundRobin;
    config.multipath.congestion = CoupledControl::Uncoupled;
    config.multipath.reschedule = true;
    let link = |rate, delay| {
        LinkConfig::default()
            .with_rate(rate)
            .with_delay(Duration::from_millis(delay))
    };
    for (reliability, reschedules) in [
        (Reliability::Reliable, true),
        (Reliability::Retransmissions(0), false),
    ] {
        let mut pair = Setup::new(5)
            .captured(false)
            .path(link(10_000_000, 10))
            .path(link(2_000_000, 100))
            .config(config.clone())
            .connect();
        let options = SendOptions::default().reliability(reliability);
        for _ in 0..1000 {
            let now = pair.now();
            let association = pair.association_mut(Side::A);
            let message = vec![7; 1000];
            while association
                .send(now, StreamId(0), message.clone().into(), options)
                .is_ok()
            {}
            pair.run_ms(10);
        }
        let counters = pair.association(Side::A).counters();
        assert_eq!(counters.chunks_rescheduled > 0, reschedules, "{reliability:?}");
        assert_eq!(counters.abandoned_sent, 0, "{reliability:?}");
    }
}
