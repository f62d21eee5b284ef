//! The dumbbell on which TCP is compared with ns-2: by `scripts/tcp-validation`, which runs both, and by the test that
//! keeps us where we were then.

use core::time::Duration;

use anabranch_netsim::{Dumbbell, LinkConfig, Network, QueueLimit, Recovery, TcpConfig, TcpSource, Traffic};
use anabranch_proto::Timestamp;

/// Simulated time of a run.
pub(crate) const SECONDS: u64 = 200;
/// Flows start in the first so many seconds.
const START_WITHIN: f64 = 3.0;
const RATE: u64 = 10_000_000;
/// ns-2 takes a packet of 1,500 bytes while fewer than 71,500 wait, and does not count the one in transmission: 48 and
/// one. Here that one counts.
const QUEUE: u64 = 49 * 1500;

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// When each flow started, in seconds.
    pub(crate) starts: Vec<f64>,
    /// Bytes that each flow had acknowledged.
    pub(crate) acked: Vec<u64>,
    /// Packets offered to the bottleneck.
    pub(crate) offered: u64,
    /// Packets that its queue refused.
    pub(crate) lost: u64,
    /// Mean bytes in its queue, without the packet in transmission.
    pub(crate) queue: f64,
    /// Segments repeated, of all flows.
    pub(crate) repeated: u64,
    /// Timeouts, of all flows.
    pub(crate) timeouts: u64,
}

/// Runs so many greedy flows; the seed decides when they start.
pub(crate) fn run(flows: usize, recovery: Recovery, seed: u64) -> Figures {
    let mut network = Network::new(seed);
    let line = LinkConfig::default()
        .with_rate(RATE)
        .with_delay(Duration::from_millis(40));
    let bottleneck = line.clone().with_queue(QueueLimit::Bytes(QUEUE));
    let mut dumbbell = Dumbbell::new(&mut network, bottleneck, line);
    // As ns-2 has it by default.
    let config = TcpConfig {
        recovery,
        initial_window: 2,
        receive_window: 700 * 1460,
        min_rto: Duration::from_millis(200),
        delayed_ack: Some(Duration::from_millis(100)),
        ..TcpConfig::default()
    };
    let mut random = network.generator("starts");
    let mut figures = Figures::default();
    let mut senders = Vec::new();
    for flow in 0..flows {
        // Whole milliseconds, so that both simulators start at the same time.
        let start = (random.fraction() * START_WITHIN * 1000.0).floor();
        figures.starts.push(start / 1000.0);
        let start = Timestamp::from_millis(start as u64);
        let name = format!("tcp{flow}");
        let pair = dumbbell.add_tcp(&mut network, &name, &config, Traffic::Greedy, start);
        senders.push(pair.left);
    }
    network.run_until(Timestamp::from_millis(SECONDS * 1000));
    for sender in senders {
        let stats = network.node::<TcpSource>(sender).stats();
        figures.acked.push(stats.bytes_acked);
        figures.repeated += stats.retransmitted;
        figures.timeouts += stats.timeouts;
    }
    let elapsed = Duration::from_secs(SECONDS);
    let link = network.link_stats(dumbbell.forward);
    figures.offered = link.offered;
    figures.lost = link.lost();
    // Nearly all packets have 1,500 bytes, and are in transmission for the time that these take.
    let transmitting = link.delivered_bytes as f64 * 8.0 / (RATE as f64 * elapsed.as_secs_f64()) * 1500.0;
    figures.queue = link.queue_mean_bytes(elapsed) - transmitting;
    figures
}
