//! In-process links in front of the sockets, in real time: one link in each direction, for all sockets or for each local
//! address. One endpoint alone can thus emulate a slow and lossy path in both directions.
//!
//! The runtime's timers have a resolution of 1 ms: packets arrive up to 1 ms later than the link's delay requires, and the
//! packets of a fast link leave in bursts.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_netsim::{Link, LinkConfig, LinkStats, Packet};
use anabranch_proto::{Dscp, Timestamp};
use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::{Hub, Stop, Touched, lock, stopped};
use crate::socket::{Datagram, MAX_BATCH, Outgoing};

/// How long the endpoint waits for the SHUTDOWN ACK that a peer retransmits after the loss of the SHUTDOWN COMPLETE. With an
/// RTO.Min of 1 s, the third retransmission comes after 7 s.
const LAST_ANSWER: Duration = Duration::from_secs(8);
/// Interval of the checks whether the endpoint has answered it.
const LOOK: Duration = Duration::from_millis(10);
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
pub(super) struct LinkDoor {
    links: Mutex<Vec<BothWays>>,
    /// If a link lost the packet that was sent last: when it was sent.
    lost_last: Mutex<Option<Timestamp>>,
    /// A packet was put into a link.
    wake: Notify,
    /// The task that takes packets out has ended: what is put in later leaves no more.
    ended: watch::Sender<bool>,
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

impl LinkDoor {
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
    fn lost_last(&self) -> Option<Timestamp> {
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
    fn take(&self, now: Timestamp, outward: &mut Vec<Packet>, inward: &mut Vec<Packet>) {
        for link in lock(&self.links).iter_mut() {
            outward.extend(std::iter::from_fn(|| link.outward.poll(now)));
            inward.extend(std::iter::from_fn(|| link.inward.poll(now)));
        }
    }

    /// When the next packet leaves a link, in either direction.
    fn next_event(&self) -> Option<Timestamp> {
        let links = lock(&self.links);
        links.iter().filter_map(BothWays::next_event).min()
    }
}

impl Hub {
    /// If a link lost the last packet, the SHUTDOWN COMPLETE, waits for the peer's next SHUTDOWN ACK, which the core answers.
    pub(super) async fn wait_for_shutdown_acks(&self) {
        let lost = || self.link.as_ref().and_then(LinkDoor::lost_last);
        while lost().is_some_and(|lost| self.now() < lost + LAST_ANSWER) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the links are empty after the stop. It waits for the end of [`Hub::carry`], not for empty links: nobody would empty
    /// them if a packet came later, or if the runtime ended that task.
    pub(super) async fn carried(&self) {
        if let Some(link) = &self.link {
            stopped(&mut link.ended.subscribe()).await;
        }
    }

    /// The task that takes packets out of the links when they are due: it sends them, or handles them as received. After the stop it ends as
    /// soon as the links are empty.
    pub(super) fn carry(self: Arc<Self>, stop: watch::Receiver<bool>) -> impl Future<Output = ()> + Send {
        // Also if the runtime drops the task before it begins.
        let ended = self.link.as_ref().map(|link| Stop(link.ended.clone()));
        async move {
            let _ended = ended;
            self.carry_until(stop).await;
        }
    }

    async fn carry_until(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let Some(link) = &self.link else { return };
        let (mut outward, mut inward, mut touched) = (Vec::new(), Vec::new(), Touched::default());
        let mut buffer = Vec::new();
        let mut stopping = false;
        loop {
            link.take(self.now(), &mut outward, &mut inward);
            for group in groups(&outward) {
                self.send_group(group, &mut buffer).await;
            }
            outward.clear();
            let datagrams = inward.drain(..).map(
                |Packet {
                     source,
                     destination,
                     payload,
                     ecn,
                     ..
                 }| {
                    let local = (!destination.ip().is_unspecified()).then_some(destination.ip());
                    Datagram {
                        local,
                        remote: source,
                        ecn,
                        payload: payload.into_sctp(),
                    }
                },
            );
            // All sockets have the same port, and the datagrams contain their addresses.
            if self.handle_batch(
                datagrams,
                std::convert::identity,
                self.sockets[0].local(),
                &mut touched,
            ) {
                tokio::task::yield_now().await;
            }
            // After the endpoint is closed, the last packets (SHUTDOWN COMPLETE, ABORT) must still leave, and also the answers
            // to the packets that have just arrived.
            let next = link.next_event();
            if stopping && next.is_none() {
                return;
            }
            tokio::select! {
                () = link.wake.notified() => {}
                () = tokio::time::sleep_until(self.instant(next.unwrap_or_default())), if next.is_some() => {}
                () = stopped(&mut stop), if !stopping => stopping = true,
            }
        }
    }

    /// Sends packets as one batch.
    async fn send_group(&self, group: &[Packet], buffer: &mut Vec<u8>) {
        let Some(first) = group.first() else { return };
        buffer.clear();
        group
            .iter()
            .for_each(|packet| buffer.extend_from_slice(packet.payload.sctp()));
        let source = first.source.ip();
        let mut outgoing = Outgoing {
            source: (!source.is_unspecified()).then_some(source),
            destination: first.destination,
            len: buffer.len(),
            segment: first.payload.len(),
            may_fragment: first.may_fragment,
            ecn: first.ecn,
            dscp: first.dscp,
            sent: 0,
        };
        let Some(socket) = self.socket_for(&outgoing) else {
            return;
        };
        while let Err(error) = socket.try_send(&mut outgoing, buffer) {
            if error.kind() != std::io::ErrorKind::WouldBlock {
                tracing::debug!(destination = %outgoing.destination, %error, "lost after the link");
                return;
            }
            socket.writable().await;
        }
    }
}

/// Divides packets, in order, into runs that can leave as one batch: with the same addresses, codepoints and length. Only the last
/// packet of a run may be shorter.
fn groups(packets: &[Packet]) -> impl Iterator<Item = &[Packet]> {
    let mut rest = packets;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let len = first.payload.len();
        let most = (MAX_BATCH / len.max(1)).clamp(1, 64);
        let mut count = 1;
        while count < most
            && let Some(packet) = rest.get(count)
            && (packet.source, packet.destination) == (first.source, first.destination)
            && (packet.ecn, packet.dscp) == (first.ecn, first.dscp)
            && !packet.may_fragment
            && !first.may_fragment
            && packet.payload.len() <= len
            && !packet.payload.is_empty()
        {
            count += 1;
            if packet.payload.len() < len {
                break;
            }
        }
        let (group, after) = rest.split_at(count);
        rest = after;
        Some(group)
    })
}

#[cfg(test)]
mod tests {
    use anabranch_netsim::Ecn;

    use super::*;

    fn packet(destination: u16, len: usize) -> Packet {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Packet {
            source: at(1),
            destination: at(destination),
            payload: vec![0; len].into(),
            may_fragment: false,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
        }
    }

    #[test]
    fn a_link_without_limits_does_not_hold_everything() {
        let config = "delay=10s,duplicate=100%,mtu=65535".parse().unwrap();
        let mut way = Way::new(config, 1, "test");
        let mut count = 0;
        while way.link.stats().offered == count {
            way.enqueue(Timestamp::ZERO, packet(1, 60_000));
            count += 1;
        }
        let bytes = way.link.bytes_in_transit() as usize;
        assert!(bytes <= MOST_IN_TRANSIT + 61_000 && bytes > MOST_IN_TRANSIT - 61_000);
        while way.poll(Timestamp::from_millis(10_000)).is_some() {}
        assert_eq!(way.link.bytes_in_transit(), 0);
    }

    #[test]
    fn packets_with_equal_addresses_and_lengths_leave_in_one_batch() {
        let packets = [
            packet(5, 100),
            packet(5, 100),
            packet(5, 60),
            packet(5, 60),
            packet(6, 60),
            packet(6, 61),
        ];
        let lengths: Vec<_> = groups(&packets).map(<[Packet]>::len).collect();
        assert_eq!(lengths, [3, 1, 1, 1]);
        let many: Vec<_> = (0..200).map(|_| packet(5, 1252)).collect();
        let lengths: Vec<_> = groups(&many).map(<[Packet]>::len).collect();
        assert_eq!(lengths, [52, 52, 52, 44]);
        let mut mixed = vec![packet(5, 100); 5];
        mixed[2].ecn = Ecn::Ce;
        let lengths: Vec<_> = groups(&mixed).map(<[Packet]>::len).collect();
        assert_eq!(lengths, [2, 1, 2]);
        mixed[3].dscp = Dscp::EF;
        let lengths: Vec<_> = groups(&mixed).map(<[Packet]>::len).collect();
        assert_eq!(lengths, [2, 1, 1, 1]);
    }

    async fn turns() {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    }

    /// As an alert of DTLS that is sent while the endpoint stops: nothing takes it out of the link.
    #[tokio::test]
    async fn a_packet_after_the_end_of_the_links_task_holds_up_no_close() {
        let link = "delay=10ms".parse().expect("a link");
        let builder = crate::Endpoint::builder().link(link, 1);
        let endpoint = builder.bind("127.0.0.1:0").await.expect("a socket on loopback");
        endpoint.close().await;
        turns().await;
        let mut late = Outgoing {
            source: None,
            destination: SocketAddr::from(([127, 0, 0, 1], 9)),
            len: 4,
            segment: 4,
            may_fragment: false,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
            sent: 0,
        };
        endpoint
            .hub()
            .try_send(&mut late, b"late")
            .expect("the link takes it");
        tokio::select! {
            biased;
            () = endpoint.close() => {}
            () = turns() => panic!("it waits for a task that has ended"),
        }
    }
}
