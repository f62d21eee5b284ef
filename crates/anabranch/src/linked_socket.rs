//! A UDP socket whose datagrams pass an emulated link in each direction.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_netsim::{Generator, Link, LinkConfig, LinkPacket};
use anabranch_proto::Timestamp;
use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use crate::datagram_socket::{DatagramSocket, Readiness, Received, Transmit};

/// The headers of IPv4 and UDP, in bytes: they take their time on a link.
const HEADERS: usize = 28;
/// The largest UDP datagram.
const DATAGRAM: usize = 65_535;
/// Datagrams that passed the link and were not taken yet; further ones are lost.
const MOST_WAITING: usize = 1024;
/// Datagrams received in a row before the links are looked at.
const IN_A_ROW: usize = 64;

/// A datagram in the link: to the peer, or from it.
#[derive(Clone, Debug)]
struct Packet {
    peer: SocketAddr,
    bytes: Bytes,
}

impl LinkPacket for Packet {
    fn wire_len(&self) -> usize {
        self.bytes.len() + HEADERS
    }

    fn corrupt(&mut self, random: &mut Generator) {
        self.bytes.corrupt(random);
    }
}

/// Both directions.
#[derive(Debug)]
struct Links {
    outward: Link<Packet>,
    inward: Link<Packet>,
    /// Datagrams that have passed the inward link.
    arrived: VecDeque<Packet>,
}

/// A UDP socket behind an emulated link: datagrams sent *and* received pass it. [`LinkedSocket::carry`] must run as long as the socket is used. A
/// link counts the headers of IPv4 and UDP too, and its timing is accurate to about 1 ms. Needs the feature `link`.
///
/// Endpoints have links of their own ([`EndpointBuilder::link`](crate::EndpointBuilder::link)); this one is for data channels.
#[derive(Debug)]
pub struct LinkedSocket {
    socket: UdpSocket,
    /// The address that the peer sends to.
    announced: SocketAddr,
    links: Mutex<Links>,
    begun: Instant,
    /// A datagram was put into a link, or the link was changed.
    put: Notify,
    /// A datagram has passed the inward link.
    passed: Notify,
}

impl LinkedSocket {
    /// A link of this configuration in each direction, with random numbers from `seed`. `announced` is the address that the peer sends to: that
    /// of the socket, if no address translator is in between.
    #[must_use]
    pub fn new(socket: UdpSocket, announced: SocketAddr, config: &LinkConfig, seed: u64) -> Self {
        let link = |label| Link::new(config.clone(), seed, label);
        Self {
            socket,
            announced,
            links: Mutex::new(Links {
                outward: link("outward"),
                inward: link("inward"),
                arrived: VecDeque::new(),
            }),
            begun: Instant::now(),
            put: Notify::new(),
            passed: Notify::new(),
        }
    }

    /// Changes the link from now on, in both directions.
    pub fn set_link(&self, config: &LinkConfig) {
        let mut links = self.lock();
        links.outward.set_config(config.clone());
        links.inward.set_config(config.clone());
        drop(links);
        self.put.notify_one();
    }

    /// Carries datagrams through the link, until the socket fails.
    pub async fn carry(&self) {
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let next = self.take_due();
            let due = next.map_or_else(Instant::now, |next| self.instant(next));
            tokio::select! {
                readable = self.socket.readable() => {
                    if readable.is_err() {
                        return;
                    }
                    self.receive(&mut buffer);
                }
                () = tokio::time::sleep_until(due.into()), if next.is_some() => {}
                () = self.put.notified() => {}
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Waits until the outward link is empty, and carries datagrams itself meanwhile, so that the wait also ends if nothing runs
    /// [`LinkedSocket::carry`] any more.
    pub async fn drained(&self) {
        let next = || self.lock().outward.next_event();
        while let Some(next) = next() {
            tokio::time::sleep_until(self.instant(next).into()).await;
            self.take_due();
        }
    }

    /// Takes out what has passed the links; returns when the next datagram will have.
    fn take_due(&self) -> Option<Timestamp> {
        let mut guard = self.lock();
        let links = &mut *guard;
        let now = self.now();
        while let Some(packet) = links.outward.poll(now) {
            // A full socket loses the datagram, as a network may.
            let _ = self.socket.try_send_to(&packet.bytes, packet.peer);
        }
        while let Some(packet) = links.inward.poll(now) {
            if links.arrived.len() < MOST_WAITING {
                links.arrived.push_back(packet);
            }
        }
        if !links.arrived.is_empty() {
            self.passed.notify_one();
        }
        let next = [links.outward.next_event(), links.inward.next_event()];
        next.into_iter().flatten().min()
    }

    fn receive(&self, buffer: &mut [u8]) {
        let mut links = self.lock();
        let now = self.now();
        for _ in 0..IN_A_ROW {
            match self.socket.try_recv_from(buffer) {
                Ok((len, peer)) => {
                    let bytes = Bytes::copy_from_slice(&buffer[..len]);
                    links.inward.enqueue(now, Packet { peer, bytes });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An ICMP message about an earlier datagram.
                Err(_) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn instant(&self, at: Timestamp) -> Instant {
        self.begun + Duration::from_nanos(at.0)
    }
}

impl DatagramSocket for LinkedSocket {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.announced)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut links = self.lock();
        let now = self.now();
        for datagram in transmit.datagrams() {
            let packet = Packet {
                peer: transmit.destination,
                bytes: Bytes::copy_from_slice(datagram),
            };
            links.outward.enqueue(now, packet);
        }
        drop(links);
        self.put.notify_one();
        Ok(())
    }

    fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let Some(packet) = self.lock().arrived.pop_front() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        buffer[..packet.bytes.len()].copy_from_slice(&packet.bytes);
        Ok(Received::new(packet.peer, packet.bytes.len()))
    }

    fn readable(&self) -> Readiness<'_> {
        Box::pin(async {
            while self.lock().arrived.is_empty() {
                self.passed.notified().await;
            }
            Ok(())
        })
    }

    fn writable(&self) -> Readiness<'_> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn datagrams_pass_the_link_both_ways() {
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let own = socket.local_addr().unwrap();
        let config = LinkConfig::default().with_delay(Duration::from_millis(20));
        let linked = Arc::new(LinkedSocket::new(socket, own, &config, 1));
        let carrier = Arc::clone(&linked);
        let carrying = tokio::spawn(async move { carrier.carry().await });
        let begun = Instant::now();
        linked
            .try_send(&Transmit::new(peer.local_addr().unwrap(), b"there"))
            .unwrap();
        let mut buffer = vec![0; DATAGRAM];
        let (len, from) = peer.recv_from(&mut buffer).await.unwrap();
        assert_eq!((&buffer[..len], from), (&b"there"[..], own));
        peer.send_to(b"back", own).await.unwrap();
        linked.readable().await.unwrap();
        let received = linked.try_recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..received.len], b"back");
        assert!(begun.elapsed() >= Duration::from_millis(40));
        let all_lost = LinkConfig::default().with_loss(anabranch_netsim::LossModel::bernoulli(1.0));
        linked.set_link(&all_lost);
        linked
            .try_send(&Transmit::new(peer.local_addr().unwrap(), b"lost"))
            .unwrap();
        linked.drained().await;
        assert!(peer.try_recv_from(&mut buffer).is_err());
        carrying.abort();
    }

    /// As at the end of a visit: whoever carried is gone, and the last datagrams are in the link.
    #[tokio::test]
    async fn the_last_datagrams_leave_without_a_carrier() {
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let own = socket.local_addr().unwrap();
        let config = LinkConfig::default().with_delay(Duration::from_millis(20));
        let linked = LinkedSocket::new(socket, own, &config, 1);
        linked
            .try_send(&Transmit::new(peer.local_addr().unwrap(), b"bye"))
            .unwrap();
        let drained = tokio::time::timeout(Duration::from_secs(60), linked.drained()).await;
        assert!(drained.is_ok(), "nobody takes them out");
        let mut buffer = vec![0; DATAGRAM];
        let (len, _) = peer.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..len], b"bye");
    }
}
