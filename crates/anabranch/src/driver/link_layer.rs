//! In-process links in front of the sockets: one link in each direction, for all sockets or for each local address. One endpoint alone can
//! thus emulate a slow and lossy path in both directions.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use anabranch_netsim::{Link, LinkConfig, LinkStats, Packet};
use anabranch_proto::{Dscp, Timestamp};
use bytes::Bytes;
use tokio::sync::{Notify, watch};

use crate::datagram::{Datagram, Outgoing};
use crate::lock::lock;

/// Limit of the bytes in transit in one direction: a link without a rate or a queue would otherwise hold any amount.
const MOST_IN_TRANSIT: usize = 64 << 20;

/// A link that the application asked for.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    /// The local address whose packets pass the link; `None` for all addresses without a link of their own.
    pub(crate) local: Option<IpAddr>,
    pub(crate) config: LinkConfig,
    pub(crate) seed: u64,
}

#[derive(Debug)]
pub(super) struct LinkLayer {
    links: Mutex<Vec<BothWays>>,
    /// If a link lost the packet that was sent last: when it was sent.
    lost_last: Mutex<Option<Timestamp>>,
    /// A packet was put into a link.
    pub(super) wake: Notify,
    /// The task that takes packets out has ended: what is put in later leaves no more.
    pub(super) ended: watch::Sender<bool>,
}

/// A link, in both directions.
#[derive(Debug)]
struct BothWays {
    local: Option<IpAddr>,
    outward: Way,
    inward: Way,
}

/// One direction.
#[derive(Debug)]
struct Way {
    link: Link<Packet>,
}

impl Way {
    fn new(config: LinkConfig, seed: u64, label: &str) -> Self {
        Self {
            link: Link::new(config, seed, label),
        }
    }

    /// Puts a packet into the link; false if the link loses or corrupts it.
    fn enqueue(&mut self, now: Timestamp, packet: Packet) -> bool {
        let len = packet.payload.len();
        let bytes = usize::try_from(self.link.bytes_in_transit()).unwrap_or(usize::MAX);
        if bytes.saturating_add(len) > MOST_IN_TRANSIT {
            tracing::debug!(
                bytes,
                "too many bytes are in transit in the link: a packet is dropped"
            );
            return false;
        }
        let fate = self.link.enqueue(now, packet);
        fate.lost.is_none() && !fate.corrupted
    }

    fn poll(&mut self, now: Timestamp) -> Option<Packet> {
        self.link.poll(now)
    }
}

impl BothWays {
    fn new(plan: LinkPlan) -> Self {
        let LinkPlan { local, config, seed } = plan;
        // Links with the same seed must not lose the same packets.
        let label = |way: &str| local.map_or(way.to_owned(), |local| format!("{way} of {local}"));
        Self {
            local,
            outward: Way::new(config.clone(), seed, &label("outward")),
            inward: Way::new(config, seed, &label("inward")),
        }
    }

    fn next_event(&self) -> Option<Timestamp> {
        let ways = [self.outward.link.next_event(), self.inward.link.next_event()];
        ways.into_iter().flatten().min()
    }
}

/// The link that packets of this local address pass.
fn link_of(links: &mut [BothWays], local: IpAddr) -> Option<&mut BothWays> {
    let own = links.iter().position(|link| link.local == Some(local));
    let index = own.or_else(|| links.iter().position(|link| link.local.is_none()))?;
    links.get_mut(index)
}

impl LinkLayer {
    /// The links that the application asked for, if there are any.
    pub(super) fn open(plans: Vec<LinkPlan>) -> Option<Self> {
        (!plans.is_empty()).then(|| Self {
            links: Mutex::new(plans.into_iter().map(BothWays::new).collect()),
            lost_last: Mutex::default(),
            wake: Notify::new(),
            ended: watch::Sender::new(false),
        })
    }

    /// If a link lost the packet that was sent last: when it was sent.
    pub(super) fn lost_last(&self) -> Option<Timestamp> {
        *lock(&self.lost_last)
    }

    /// The counters, outbound and inbound, of the link of this local address, or with `None`, of the link for all addresses.
    pub(super) fn stats(&self, local: Option<IpAddr>) -> Option<(LinkStats, LinkStats)> {
        let links = lock(&self.links);
        let link = links.iter().find(|link| link.local == local)?;
        Some((*link.outward.link.stats(), *link.inward.link.stats()))
    }

    /// False if there is no such link.
    pub(super) fn set_config(&self, local: Option<IpAddr>, config: &LinkConfig) -> bool {
        let mut links = lock(&self.links);
        let Some(link) = links.iter_mut().find(|link| link.local == local) else {
            return false;
        };
        link.outward.link.set_config(config.clone());
        link.inward.link.set_config(config.clone());
        true
    }

    /// Puts sent packets into the link of their local address; false if it has no link.
    pub(super) fn enqueue_sent(
        &self,
        now: Timestamp,
        local: SocketAddr,
        outgoing: &mut Outgoing,
        bytes: &[u8],
    ) -> bool {
        let source = outgoing
            .source
            .map_or(local, |address| SocketAddr::new(address, local.port()));
        let mut links = lock(&self.links);
        let Some(link) = link_of(&mut links, source.ip()) else {
            return false;
        };
        let mut arrives = true;
        for packet in bytes[outgoing.sent..outgoing.len].chunks(outgoing.segment.max(1)) {
            let payload = Bytes::copy_from_slice(packet);
            arrives = link.outward.enqueue(
                now,
                Packet {
                    source,
                    destination: outgoing.destination,
                    payload: payload.into(),
                    may_fragment: outgoing.may_fragment,
                    ecn: outgoing.ecn,
                    dscp: outgoing.dscp,
                },
            );
        }
        *lock(&self.lost_last) = (!arrives).then_some(now);
        outgoing.sent = outgoing.len;
        drop(links);
        self.wake.notify_one();
        true
    }

    /// Puts received datagrams into the link of their local address; returns those whose address has no link.
    pub(super) fn enqueue_received(
        &self,
        now: Timestamp,
        local: SocketAddr,
        datagrams: impl Iterator<Item = Datagram>,
    ) -> Vec<Datagram> {
        let mut links = lock(&self.links);
        let mut free = Vec::new();
        for datagram in datagrams {
            let address = datagram.local.unwrap_or(local.ip());
            let Some(link) = link_of(&mut links, address) else {
                free.push(datagram);
                continue;
            };
            link.inward.enqueue(
                now,
                Packet {
                    source: datagram.remote,
                    destination: SocketAddr::new(address, local.port()),
                    payload: datagram.payload.into(),
                    // The received datagram no longer shows whether its sender allowed fragmentation.
                    may_fragment: false,
                    ecn: datagram.ecn,
                    dscp: Dscp::default(),
                },
            );
        }
        drop(links);
        self.wake.notify_one();
        free
    }

    /// Takes out the packets that have passed the links by `now`.
    pub(super) fn take(&self, now: Timestamp, outward: &mut Vec<Packet>, inward: &mut Vec<Packet>) {
        for link in lock(&self.links).iter_mut() {
            outward.extend(std::iter::from_fn(|| link.outward.poll(now)));
            inward.extend(std::iter::from_fn(|| link.inward.poll(now)));
        }
    }

    /// When the next packet leaves a link, in either direction.
    pub(super) fn next_event(&self) -> Option<Timestamp> {
        let links = lock(&self.links);
        links.iter().filter_map(BothWays::next_event).min()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_netsim::Ecn;

    use super::*;

    #[test]
    fn a_link_without_limits_does_not_hold_everything() {
        let config = "delay=10s,duplicate=100%,mtu=65535".parse().unwrap();
        let mut way = Way::new(config, 1, "test");
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let packet = Packet {
            source: at(1),
            destination: at(1),
            payload: vec![0; 60_000].into(),
            may_fragment: false,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
        };
        let mut count = 0;
        while way.link.stats().offered == count {
            way.enqueue(Timestamp::ZERO, packet.clone());
            count += 1;
        }
        let bytes = way.link.bytes_in_transit() as usize;
        assert!(bytes <= MOST_IN_TRANSIT + 61_000 && bytes > MOST_IN_TRANSIT - 61_000);
        while way.poll(Timestamp::from_millis(10_000)).is_some() {}
        assert_eq!(way.link.bytes_in_transit(), 0);
    }
}
