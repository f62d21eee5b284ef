//! The network of a run: pairs of hosts that share one bottleneck.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anabranch_netsim::{
    Application, Dumbbell, Host, HostApi, LinkConfig, LinkId, LossModel, Network, NodeId, QueueLimit,
};
use anabranch_proto::{AssociationId, Config, Counters, Event, SendOptions, StreamId, Timestamp};

use super::super::pair::begin;
use super::Numbers;
use super::sender::Sender;
use crate::traffic::{BothWays, Sink, Source};
use crate::trial::Trial;

const PORT: u16 = 7;
const UDP_PORT: u16 = 9899;
const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// User data of a full packet: 1,500 bytes less the IPv4 and UDP headers, SCTP's common header and the DATA chunk header.
pub(super) const PAYLOAD: usize = 1444;

/// The default size of send and receive buffers: more than a bandwidth-delay product and a full queue.
pub(super) const BUFFERS: u32 = 4 << 20;

/// The destination of messages: address and UDP port, and the SCTP port.
pub(super) type Peer = (SocketAddr, u16);

/// A greedy source of messages that fill a packet each. The messages are unordered, so the deliveries within a second are those that the
/// network made within that second.
pub(super) fn greedy(peer: Peer) -> Source {
    let options = SendOptions::default().unordered(true);
    Source::greedy(peer, options, PAYLOAD)
}

/// A link of `rate` Mbit/s with half of this RTT as its delay, and random loss in percent.
pub(super) fn link(rate: f64, rtt: Duration, queue: QueueLimit, loss: f64) -> LinkConfig {
    LinkConfig::default()
        .with_rate((rate * 1e6) as u64)
        .with_delay(rtt / 2)
        .with_queue(queue)
        .with_loss(LossModel::bernoulli(loss / 100.0))
}

/// The bandwidth-delay product of a link in bytes.
pub(super) fn product(rate: f64, rtt: Duration) -> f64 {
    rate * 1e6 / 8.0 * rtt.as_secs_f64()
}

/// An application that sends each message back.
struct Echo;

impl Application for Echo {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        let Some(association) = api.association(id).filter(|_| event == Event::Readable) else {
            return;
        };
        while let Some(part) = association.recv(now) {
            let options = SendOptions::default().ppid(part.ppid);
            let sent = association.send(now, StreamId(0), part.payload.into_bytes(), options);
            debug_assert!(sent.is_ok(), "echoes are few and small");
        }
    }
}

/// The hosts of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    sender: NodeId,
    receiver: NodeId,
}

/// The network of a run.
pub(super) struct Rig {
    pub(super) network: Network,
    /// The bottleneck in the direction of the data.
    pub(super) forward: LinkId,
    pub(super) flows: Vec<Flow>,
}

impl Rig {
    /// One flow over a link with equal directions. The flow begins within the first second.
    pub(super) fn alone(
        trial: &Trial<'_>,
        config: &Config,
        link: &LinkConfig,
        source: impl FnOnce(Peer) -> Source,
    ) -> Self {
        Self::between(trial, config, link, source(peer(OTHER)), Sink::default())
    }

    /// The same flow, with a receiver that sends every message back.
    pub(super) fn echoing(
        trial: &Trial<'_>,
        config: &Config,
        link: &LinkConfig,
        source: impl FnOnce(Peer) -> Source,
    ) -> Self {
        let source = BothWays::new(source(peer(OTHER)));
        Self::between(trial, config, link, source, Echo)
    }

    fn between(
        trial: &Trial<'_>,
        config: &Config,
        link: &LinkConfig,
        source: impl Application,
        sink: impl Application,
    ) -> Self {
        let mut network = Network::new(trial.seed);
        let mut sender = host(&network, config, "sender");
        sender.run(source, Some(begin(trial.seed, "start")));
        let receiver = listener(&network, config, "receiver", sink);
        let sender = network.add_node("sender", &[ONE], sender);
        let receiver = network.add_node("receiver", &[OTHER], receiver);
        let (forward, _) = network.connect((sender, ONE), (receiver, OTHER), link.clone(), link.clone());
        trial.observe(&mut network);
        Self {
            network,
            forward,
            flows: vec![Flow { sender, receiver }],
        }
    }

    /// Greedy flows that share a bottleneck. Each begins within the first second.
    pub(super) fn shared(trial: &Trial<'_>, senders: &[Sender], bottleneck: &LinkConfig) -> Self {
        let mut network = Network::new(trial.seed);
        let access = LinkConfig::default()
            .with_rate(10_000_000_000)
            .with_delay(Duration::from_micros(10));
        let mut dumbbell =
            Dumbbell::new(&mut network, bottleneck.clone(), bottleneck.clone()).with_access(access);
        let mut flows = Vec::new();
        for (number, kind) in senders.iter().enumerate() {
            let (config, name) = (kind.config(BUFFERS), format!("flow {number}"));
            let (_, address) = dumbbell.next_addresses();
            let mut sender = host(&network, &config, &format!("{name} sender"));
            let receiver = listener(&network, &config, &format!("{name} receiver"), Sink::default());
            sender.run(greedy(peer(address)), Some(begin(trial.seed, &name)));
            let pair = dumbbell.add_pair(&mut network, &name, sender, receiver);
            flows.push(Flow {
                sender: pair.left,
                receiver: pair.right,
            });
        }
        trial.observe(&mut network);
        Self {
            network,
            forward: dumbbell.forward,
            flows,
        }
    }

    fn host(&self, node: NodeId) -> &Host {
        self.network.host(node)
    }

    /// The source on a flow's sender.
    pub(super) fn source(&self, flow: usize) -> &Source {
        let host = self.host(self.flows[flow].sender);
        let both_ways = || host.application().map(|both: &BothWays| &both.source);
        let source = host.application().or_else(both_ways);
        source.expect("the sender runs a source")
    }

    /// The sink on a flow's receiver.
    pub(super) fn sink(&self, flow: usize) -> &Sink {
        let sink = self.host(self.flows[flow].receiver).application();
        sink.expect("the receiver runs a sink")
    }

    /// The sink on the sender, with the echoes.
    pub(super) fn echoes(&self) -> &Sink {
        let both: Option<&BothWays> = self.host(self.flows[0].sender).application();
        &both.expect("the sender receives as well").sink
    }

    fn counters_of(&self, node: NodeId) -> Counters {
        let host = self.host(node);
        let mut associations = host.association_ids().filter_map(|id| host.association(id));
        associations
            .next()
            .map(|association| *association.counters())
            .unwrap_or_default()
    }

    /// The counters of a flow's sender.
    pub(super) fn counters(&self, flow: usize) -> Counters {
        self.counters_of(self.flows[flow].sender)
    }

    /// A flow's goodput between two times, in Mbit/s of user data.
    pub(super) fn goodput(&self, flow: usize, (from, to): (Timestamp, Timestamp)) -> f64 {
        let submitted = self.source(flow).submitted();
        let deliveries = self.sink(flow).deliveries();
        let first = deliveries.partition_point(|(at, _)| *at < from);
        let bytes: usize = deliveries[first..]
            .iter()
            .take_while(|(at, _)| *at < to)
            .map(|(_, number)| submitted[*number as usize].len)
            .sum();
        bytes as f64 * 8e-6 / to.saturating_duration_since(from).as_secs_f64()
    }

    /// The counters of the first flow's sender over the whole run, and the goodput of the flow between two times.
    pub(super) fn numbers(&self, counts: (Timestamp, Timestamp)) -> Numbers {
        Numbers {
            goodput: self.goodput(0, counts),
            ..Numbers::of_counters(&self.counters(0))
        }
    }
}

fn peer(address: IpAddr) -> Peer {
    (SocketAddr::new(address, UDP_PORT), PORT)
}

fn host(network: &Network, config: &Config, label: &str) -> Host {
    let seed = network.generator(label).bytes();
    Host::new(config.clone(), UDP_PORT, seed).expect("the settings are in range")
}

fn listener(network: &Network, config: &Config, label: &str, application: impl Application) -> Host {
    let mut host = host(network, config, label);
    host.run(application, None);
    host.endpoint_mut().listen(PORT).expect("nothing else listens");
    host
}
