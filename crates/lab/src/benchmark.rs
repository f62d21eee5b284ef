//! The cost of the simulator itself: one dumbbell topology, simple enough to be modelled in other simulators.

use core::time::Duration;
use std::net::SocketAddr;

use anabranch_netsim::{Dumbbell, DumbbellPair, Host, LinkConfig, Network, QueueLimit, TcpConfig, Traffic};
use anabranch_proto::{SendOptions, Timestamp};

use crate::experiments::plain_config;
use crate::traffic::{Poisson, Sink, Sizes, Source};

const PORT: u16 = 7;
const TCP_FLOWS: u64 = 4;
/// User data of the fifth flow, in bits per second.
const BITS_PER_SECOND: f64 = 0.6e6;
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(1000);

/// Four greedy TCP flows, and an association that sends messages of one length as a Poisson process of 0.6 Mbit/s. They share a link of 10
/// Mbit/s and 40 ms with a queue of 73,000 bytes.
pub struct Benchmark {
    network: Network,
    dumbbell: Dumbbell,
    sctp: DumbbellPair,
}

/// The work that the simulator has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Events handled.
    pub events: u64,
    /// Packets offered to the bottleneck, in the direction of the receivers.
    pub packets: u64,
    /// Packets that the queue dropped.
    pub refused: u64,
    /// Messages delivered.
    pub messages: u64,
}

impl Benchmark {
    /// The network before its first event. Messages have `bytes` bytes, 1 to 65,536.
    ///
    /// # Panics
    /// If `bytes` is out of range.
    #[must_use]
    pub fn new(seed: u64, bytes: usize) -> Self {
        assert!((1..=65_536).contains(&bytes), "a message has 1 to 65,536 bytes");
        let mut network = Network::new(seed);
        let bottleneck = LinkConfig::default()
            .with_rate(10_000_000)
            .with_delay(Duration::from_millis(40))
            .with_queue(QueueLimit::Bytes(73_000));
        let access = LinkConfig::default()
            .with_rate(100_000_000)
            .with_delay(Duration::from_micros(10));
        let mut dumbbell = Dumbbell::new(&mut network, bottleneck.clone(), bottleneck).with_access(access);
        for flow in 0..TCP_FLOWS {
            let start = Timestamp::from_millis(flow * 250);
            let name = format!("tcp {flow}");
            dumbbell.add_tcp(&mut network, &name, &TcpConfig::default(), Traffic::Greedy, start);
        }
        let host = |label: &str| {
            let seed = network.generator(label).bytes();
            Host::new(plain_config(), 0, seed).expect("the settings are in range")
        };
        let (mut sender, mut receiver) = (host("sender"), host("receiver"));
        let (_, peer) = dumbbell.next_addresses();
        let interval = Duration::from_secs_f64(bytes as f64 * 8.0 / BITS_PER_SECOND);
        let messages = Poisson::new(seed, MESSAGES_BEGIN, interval, Sizes::Fixed(bytes), 0.0.into());
        let options = SendOptions::default().unordered(true);
        let source = Source::scheduled(
            (SocketAddr::new(peer, 0), PORT),
            vec![options.into(); 2],
            messages,
        );
        sender.run(source, Some(Timestamp::ZERO));
        receiver.run(Sink::default(), None);
        receiver
            .endpoint_mut()
            .listen(PORT)
            .expect("nothing else listens");
        let sctp = dumbbell.add_pair(&mut network, "messages", sender, receiver);
        Self {
            network,
            dumbbell,
            sctp,
        }
    }

    /// Runs the simulation until `end`.
    pub fn run_until(&mut self, end: Timestamp) {
        self.network.run_until(end);
    }

    /// The work done so far.
    #[must_use]
    pub fn work(&self) -> Work {
        let link = self.network.link_stats(self.dumbbell.forward);
        let sink = self.network.host(self.sctp.right).application::<Sink>();
        Work {
            events: self.network.events_handled(),
            packets: link.offered,
            refused: link.lost_queue,
            messages: sink.map_or(0, |sink| sink.deliveries().len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flows_deliver_and_equal_seeds_do_equal_work() {
        let work = |seed| {
            let mut benchmark = Benchmark::new(seed, 72);
            benchmark.run_until(Timestamp::from_millis(10_000));
            benchmark.work()
        };
        let one = work(1);
        assert_eq!(one, work(1));
        assert_ne!(one, work(2));
        // Nine seconds of 0.6 Mbit/s in messages of 72 bytes, less the bytes in flight; a full bottleneck of large packets.
        assert!((7_000..11_000).contains(&one.messages), "{one:?}");
        assert!(one.packets > 7_000 && one.refused > 0, "{one:?}");
    }
}
