//! The dumbbell on which TCP is compared with ns-2. `scripts/tcp-validation` runs both; a test checks that our results stay as they were
//! then.

use core::time::Duration;

use anabranch_netsim::{Dumbbell, LinkConfig, Network, QueueLimit, Recovery, TcpConfig, TcpSource, Traffic};
use anabranch_proto::Timestamp;

/// Simulated seconds of a run.
pub(crate) const SECONDS: u64 = 200;
/// All flows start within this number of seconds.
const START_WITHIN: f64 = 3.0;
const RATE: u64 = 10_000_000;
/// ns-2 accepts a packet of 1,500 bytes while fewer than 71,500 bytes wait, and does not count the packet in transmission: 48 packets wait
/// and one is in transmission. In this simulator the packet in transmission counts.
const QUEUE: u64 = 49 * 1500;

/// The results of a run.
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
    /// Retransmitted segments of all flows.
    pub(crate) retransmitted: u64,
    /// Timeouts of all flows.
    pub(crate) timeouts: u64,
}

/// Runs this number of greedy flows; the seed determines when they start.
pub(crate) fn run(flows: usize, recovery: Recovery, seed: u64) -> Figures {
    let mut network = Network::new(seed);
    let line = LinkConfig::default()
        .with_rate(RATE)
        .with_delay(Duration::from_millis(40));
    let bottleneck = line.clone().with_queue(QueueLimit::Bytes(QUEUE));
    let mut dumbbell = Dumbbell::new(&mut network, bottleneck, line);
    // As ns-2's defaults.
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
        figures.retransmitted += stats.retransmitted;
        figures.timeouts += stats.timeouts;
    }
    let elapsed = Duration::from_secs(SECONDS);
    let link = network.link_stats(dumbbell.forward);
    figures.offered = link.offered;
    figures.lost = link.lost();
    // Nearly all packets have 1,500 bytes and are in transmission for the time that 1,500 bytes take.
    let transmitting = link.delivered_bytes as f64 * 8.0 / (RATE as f64 * elapsed.as_secs_f64()) * 1500.0;
    figures.queue = link.queue_mean_bytes(elapsed) - transmitting;
    figures
}
