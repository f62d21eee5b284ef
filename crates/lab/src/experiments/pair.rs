//! Two hosts with a link of their own, and nothing else on it: a source on one, a sink on the other.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anabranch_netsim::{Generator, Host, LinkConfig, LinkId, Network, NodeId};
use anabranch_proto::{Config, Counters, Timestamp};

use crate::tap::Tap;
use crate::traffic::{Sink, Source};

const PORT: u16 = 7;
const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Where the source sends: address and UDP port, and the SCTP port.
pub(super) const PEER: (SocketAddr, u16) = (SocketAddr::new(RECEIVER, 0), PORT);

/// The network of a run.
pub(super) struct Pair {
    pub(super) network: Network,
    /// The link that data takes; acknowledgements take one like it.
    pub(super) data_link: LinkId,
    sender: NodeId,
    receiver: NodeId,
}

impl Pair {
    /// Both hosts with these settings. The source begins within the first second: when is the seed's choice.
    pub(super) fn new(seed: u64, config: &Config, link: LinkConfig, source: Source) -> Self {
        let mut network = Network::new(seed);
        let start = Duration::from_millis(Generator::of_process(seed, "start").below(1000));
        let host = |label: &str| {
            let seed = network.generator(label).bytes();
            Host::new(config.clone(), 0, seed).expect("the settings are in range")
        };
        let (mut sender, mut receiver) = (host("sender"), host("receiver"));
        sender.run(source, Some(Timestamp::ZERO + start));
        receiver.run(Sink::default(), None);
        receiver
            .endpoint_mut()
            .listen(PORT)
            .expect("nothing else listens");
        let sender = network.add_node("sender", &[SENDER], Tap::new(sender));
        let receiver = network.add_node("receiver", &[RECEIVER], Tap::new(receiver));
        let (data_link, _) = network.connect((sender, SENDER), (receiver, RECEIVER), link.clone(), link);
        Self {
            network,
            data_link,
            sender,
            receiver,
        }
    }

    pub(super) fn sender(&self) -> &Tap {
        self.network.node(self.sender)
    }

    pub(super) fn receiver(&self) -> &Tap {
        self.network.node(self.receiver)
    }

    pub(super) fn receiver_mut(&mut self) -> &mut Tap {
        self.network.node_mut(self.receiver)
    }

    pub(super) fn source(&self) -> &Source {
        let host = self.sender().host();
        host.application().expect("the sender runs a source")
    }

    pub(super) fn sink(&self) -> &Sink {
        let host = self.receiver().host();
        host.application().expect("the receiver runs a sink")
    }

    /// The sender's counters; all 0 before there is an association.
    pub(super) fn counters(&self) -> Counters {
        let host = self.sender().host();
        let id = host.association_ids().next();
        let association = id.and_then(|id| host.association(id));
        association
            .map(|association| *association.counters())
            .unwrap_or_default()
    }
}
