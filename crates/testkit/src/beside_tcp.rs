//! An association of one path or several, and greedy TCP flows, at one bottleneck: what does each get?

use core::time::Duration;
use std::net::IpAddr;

use anabranch_netsim::{
    Application, Dumbbell, Host, HostApi, LinkConfig, Network, NodeId, Recovery, TcpConfig, TcpSource,
    Traffic,
};
use anabranch_proto::{
    AssociationId, Config, ConnectOptions, Event, Reliability, SendOptions, StreamId, Timestamp,
};
use bytes::Bytes;

use crate::{PORT, Sink};

/// The greedy TCP flows, and the time that all flows have.
const FLOWS: u64 = 4;
const SECONDS: u64 = 150;

/// Always has messages to send, and sends each once without retransmission.
struct Unrepaired {
    id: AssociationId,
}

impl Application for Unrepaired {
    fn on_event(&mut self, _: &mut HostApi<'_>, _: AssociationId, _: Event) {}

    fn on_timer(&mut self, api: &mut HostApi<'_>) {
        let now = api.now();
        let Some(association) = api.association(self.id) else {
            return;
        };
        let options = SendOptions::default().reliability(Reliability::Retransmissions(0));
        while association.stats().queued_bytes < 50_000 {
            let message = Bytes::from_static(&[0; 1400]);
            if association.send(now, StreamId(0), message, options).is_err() {
                break;
            }
        }
        api.set_timer(Some(now + Duration::from_millis(5)));
    }
}

/// The bottleneck, and the greedy TCP flows at it.
#[derive(Clone, Debug)]
pub struct BesideTcp {
    bottleneck: LinkConfig,
    tcp: TcpConfig,
    /// The delay of the link between the host and the bottleneck, for each path of the association, in each direction.
    access: Vec<Duration>,
}

impl BesideTcp {
    /// Four TCP flows with Reno at this link, for 150 s, with the same delay back. TCP recovers with SACK and counts bytes, like the TCP of
    /// kernels. Let the link add up to 0.2 ms of random delay to each packet: without it, drop-tail and equal RTTs lock the flows in
    /// phase, and the size of a packet decides which flow has the losses.
    ///
    /// # Panics
    /// If the text is no link.
    #[must_use]
    pub fn at(link: &str) -> Self {
        let mut tcp = TcpConfig::default().with_recovery(Recovery::Sack);
        tcp.byte_counting = true;
        Self {
            bottleneck: link.parse().expect("a link"),
            tcp,
            access: vec![Duration::from_micros(10)],
        }
    }

    /// The TCP flows have Linux's settings, with CUBIC.
    #[must_use]
    pub fn cubic(mut self) -> Self {
        self.tcp = TcpConfig::linux().with_cubic();
        self
    }

    /// The association has so many paths.
    #[must_use]
    pub fn paths(mut self, paths: usize) -> Self {
        self.access = vec![Duration::from_micros(10); paths];
        self
    }

    /// The association has a path for each of these delays in milliseconds, by which it is longer than the bottleneck in each direction.
    #[must_use]
    pub fn longer_by(mut self, millis: &[u64]) -> Self {
        self.access = millis.iter().copied().map(Duration::from_millis).collect();
        self
    }

    /// Goodput of the association, and the mean goodput of the TCP flows, in Mbit/s.
    #[must_use]
    pub fn run(&self, config: &Config, seed: u64) -> (f64, f64) {
        let mut network = Network::new(seed);
        let back = LinkConfig::default()
            .with_rate(10_000_000)
            .with_delay(self.bottleneck.delay);
        let mut dumbbell = Dumbbell::new(&mut network, self.bottleneck.clone(), back);
        let mut random = network.generator("starts");
        let flows: Vec<_> = (0..FLOWS)
            .map(|flow| {
                let start = Timestamp::from_millis(random.below(3000));
                let name = format!("tcp{flow}");
                dumbbell.add_tcp(&mut network, &name, &self.tcp, Traffic::Greedy, start)
            })
            .collect();
        let right = self.add_association(&mut network, &mut dumbbell, config);
        network.run_until(Timestamp::from_millis(SECONDS * 1000));
        let mbit = |bytes: u64| bytes as f64 * 8.0 / SECONDS as f64 / 1e6;
        let tcp = flows
            .iter()
            .map(|flow| network.node::<TcpSource>(flow.left).stats().bytes_acked);
        let sink = network.host(right).application::<Sink>().expect("it runs");
        (mbit(sink.bytes), mbit(tcp.sum::<u64>()) / FLOWS as f64)
    }

    /// Returns the receiver of the data.
    fn add_association(&self, network: &mut Network, dumbbell: &mut Dumbbell, config: &Config) -> NodeId {
        let addresses = self.access.iter().map(|_| {
            let next = dumbbell.next_addresses();
            dumbbell.skip_addresses();
            next
        });
        let (lefts, rights): (Vec<_>, Vec<_>) = addresses.unzip();
        let mut seeds = network.generator("sctp seeds");
        let mut host = |own: &[IpAddr]| {
            let mut config = config.clone();
            if own.len() > 1 {
                config.local_addresses = own.to_vec();
            }
            Host::new(config, 0, seeds.bytes()).expect("in range")
        };
        let (left, mut right) = (host(&lefts), host(&rights));
        right.endpoint_mut().listen(PORT).expect("not port 0");
        right.run(Sink::default(), None);
        let left = network.add_node("sctp→", &lefts, left);
        let right = network.add_node("→sctp", &rights, right);
        for ((own, peer), delay) in lefts.iter().zip(&rights).zip(&self.access) {
            let link = LinkConfig::default().with_rate(100_000_000).with_delay(*delay);
            dumbbell.attach(network, (left, *own), (right, *peer), (link.clone(), link));
        }
        let now = network.now();
        let host = network.host_mut(left);
        let id = host
            .connect(now, (rights[0], 0).into(), PORT, ConnectOptions::default())
            .expect("connect");
        host.run(Unrepaired { id }, Some(Timestamp::from_millis(1000)));
        right
    }
}
