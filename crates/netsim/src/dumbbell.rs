//! A [`Dumbbell`]: pairs of hosts that share one bottleneck.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_proto::Timestamp;

use crate::link_config::LinkConfig;
use crate::network::{LinkId, Network, Node, NodeId, Route, Router};
use crate::tcp::{TcpConfig, TcpSink, TcpSource, Traffic};

const TCP_PORT: u16 = 5001;
/// The rate of the links between hosts and routers unless set: 100 Mbit/s.
const ACCESS_RATE: u64 = 100_000_000;
/// Default delay of the links between hosts and routers.
const ACCESS_DELAY: Duration = Duration::from_micros(10);

/// Two routers with a bottleneck between them, to which the caller adds pairs of hosts.
///
/// ```text
/// left hosts ── left router ══ bottleneck ══ right router ── right hosts
/// ```
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// The router on the left.
    pub left: NodeId,
    /// The router on the right.
    pub right: NodeId,
    /// The bottleneck from left to right.
    pub forward: LinkId,
    /// The bottleneck from right to left.
    pub backward: LinkId,
    access: LinkConfig,
    pairs: u16,
}

/// A host on the left and its peer on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumbbellPair {
    /// The host on the left: the sender of a pair made by [`Dumbbell::add_tcp`].
    pub left: NodeId,
    /// The host on the right.
    pub right: NodeId,
    /// Address of the host on the left.
    pub left_address: IpAddr,
    /// Address of the host on the right.
    pub right_address: IpAddr,
}

impl Dumbbell {
    /// The routers and the links between them. Every added host is linked to its router at 100 Mbit/s with a delay of 10 µs and an
    /// unlimited queue.
    #[must_use]
    pub fn new(network: &mut Network, forward: LinkConfig, backward: LinkConfig) -> Self {
        let left = network.add_node("left", &[], Router);
        let right = network.add_node("right", &[], Router);
        let forward = network.add_link(left, right, forward);
        let backward = network.add_link(right, left, backward);
        for (router, link) in [(left, forward), (right, backward)] {
            network.add_route(router, anywhere_by(link));
        }
        Self {
            left,
            right,
            forward,
            backward,
            access: LinkConfig::default()
                .with_rate(ACCESS_RATE)
                .with_delay(ACCESS_DELAY),
            pairs: 0,
        }
    }

    /// Sets the links, in both directions, between routers and the hosts that are added later.
    #[must_use]
    pub fn with_access(mut self, access: LinkConfig) -> Self {
        self.access = access;
        self
    }

    /// The addresses that the next pair will have, left and right, for nodes that need the address of their peer.
    #[must_use]
    pub fn next_addresses(&self) -> (IpAddr, IpAddr) {
        let [high, low] = (self.pairs + 1).to_be_bytes();
        (IpAddr::from([10, 1, high, low]), IpAddr::from([10, 2, high, low]))
    }

    /// Skips the next pair of addresses. On a copy, this shows the addresses of the pair after the next one.
    pub fn skip_addresses(&mut self) {
        self.pairs += 1;
    }

    /// Adds a host on each side. Each host's name consists of `name` and an arrow from the left host to the right one.
    pub fn add_pair(
        &mut self,
        network: &mut Network,
        name: &str,
        left: impl Node,
        right: impl Node,
    ) -> DumbbellPair {
        let all = self.add_pair_with_paths(network, name, 1, left, right);
        all[0]
    }

    /// Adds a host on each side with `paths` addresses each, at least 1, all behind the one bottleneck. The result has one entry for each
    /// pair of addresses, always with the same two hosts.
    ///
    /// # Panics
    /// If `paths` is 0.
    pub fn add_pair_with_paths(
        &mut self,
        network: &mut Network,
        name: &str,
        paths: usize,
        left: impl Node,
        right: impl Node,
    ) -> Vec<DumbbellPair> {
        let addresses: Vec<_> = (0..paths)
            .map(|_| {
                let next = self.next_addresses();
                self.pairs += 1;
                next
            })
            .collect();
        let (lefts, rights): (Vec<_>, Vec<_>) = addresses.iter().copied().unzip();
        let left = network.add_node(&format!("{name}→"), &lefts, left);
        let right = network.add_node(&format!("→{name}"), &rights, right);
        for (host, own, router) in [(left, lefts, self.left), (right, rights, self.right)] {
            let up = network.add_link(host, router, self.access.clone());
            let down = network.add_link(router, host, self.access.clone());
            network.add_route(host, anywhere_by(up));
            for address in own {
                network.add_route(
                    router,
                    Route {
                        source: None,
                        destination: Some(address),
                        link: down,
                    },
                );
            }
        }
        let pair = |(left_address, right_address)| DumbbellPair {
            left,
            right,
            left_address,
            right_address,
        };
        addresses.into_iter().map(pair).collect()
    }

    /// Connects an address of a node on the left with an address of a node on the right, over links of their own and the bottleneck. `up`
    /// leads from the left node to its router, `down` back to it; the right node's links have no impairment. Both nodes have these addresses
    /// already. Returns the links `up` and `down`.
    pub fn attach(
        &self,
        network: &mut Network,
        (left, left_address): (NodeId, IpAddr),
        (right, right_address): (NodeId, IpAddr),
        (up, down): (LinkConfig, LinkConfig),
    ) -> (LinkId, LinkId) {
        let up = network.add_link(left, self.left, up);
        let down = network.add_link(self.left, left, down);
        let out = network.add_link(self.right, right, LinkConfig::default());
        let back = network.add_link(right, self.right, LinkConfig::default());
        let mut route = |node, source, destination, link| {
            let route = Route {
                source,
                destination: Some(destination),
                link,
            };
            network.add_route(node, route);
        };
        for (host, own, peer, link) in [
            (left, left_address, right_address, up),
            (right, right_address, left_address, back),
        ] {
            route(host, Some(own), peer, link);
            // As in a real host, only the destination matters if the source address belongs to another link.
            route(host, None, peer, link);
        }
        route(self.left, None, left_address, down);
        route(self.right, None, right_address, out);
        (up, down)
    }

    /// Adds a connection of TCP from left to right: a [`TcpSource`] that connects at `start`, and a [`TcpSink`].
    pub fn add_tcp(
        &mut self,
        network: &mut Network,
        name: &str,
        config: &TcpConfig,
        traffic: Traffic,
        start: Timestamp,
    ) -> DumbbellPair {
        let (_, peer) = self.next_addresses();
        let random = network.generator(&format!("tcp {name}"));
        let source = TcpSource::new(
            config.clone(),
            TCP_PORT,
            (peer, TCP_PORT).into(),
            traffic,
            start,
            random,
        );
        let sink = TcpSink::new(config.clone(), TCP_PORT);
        self.add_pair(network, name, source, sink)
    }
}

fn anywhere_by(link: LinkId) -> Route {
    Route {
        source: None,
        destination: None,
        link,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_share_the_bottleneck_in_both_directions() {
        let mut network = Network::new(1);
        let line = LinkConfig::default()
            .with_rate(1_000_000)
            .with_delay(Duration::from_millis(10));
        let mut dumbbell = Dumbbell::new(&mut network, line.clone(), line);
        let config = TcpConfig::default();
        let flows = ["one", "two"]
            .map(|name| dumbbell.add_tcp(&mut network, name, &config, Traffic::Greedy, Timestamp::ZERO));
        network.run_until(Timestamp::from_millis(10_000));
        let [one, two] = flows.map(|flow| network.node::<TcpSource>(flow.left).stats().bytes_acked);
        let received = flows.map(|flow| network.node::<TcpSink>(flow.right).stats().bytes);
        assert!(received[0] >= one && received[1] >= two);
        assert!(one > 100_000 && two > 100_000, "{one}, {two}");
        // Each packet has 40 bytes of headers and 1,460 of data, and all received data has crossed the bottleneck.
        let carried = network.link_stats(dumbbell.forward).delivered_bytes;
        assert!(carried >= (received[0] + received[1]) * 1500 / 1460 && carried <= 1_250_000);
        let acks = network.link_stats(dumbbell.backward).delivered;
        assert!(acks > 300, "{acks}");
        assert_eq!(network.unroutable(), 0);
    }
}
