//! A wire in memory: two sockets that are given to endpoints.

#![allow(dead_code, unreachable_pub, reason = "each program uses its part of it")]

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anabranch::{DatagramSocket, Readiness, Received, Transmit};
use tokio::sync::Notify;

/// One direction of a wire.
#[derive(Debug, Default)]
struct Way {
    datagrams: Mutex<VecDeque<Vec<u8>>>,
    arrived: Notify,
    taken: Notify,
}

/// One end of a wire.
#[derive(Debug)]
pub struct Wire {
    pub own: SocketAddr,
    peer: SocketAddr,
    outward: Arc<Way>,
    inward: Arc<Way>,
    /// The most datagrams in one call, and the number of datagrams that wait at which the wire is full.
    batch: usize,
    calls: Arc<Calls>,
}

/// The calls of both ends.
#[derive(Debug, Default)]
pub struct Calls {
    /// The most datagrams in a call.
    pub longest: AtomicUsize,
    /// How often the wire was full.
    pub full: AtomicUsize,
}

/// The two ends of a wire.
pub fn wire(batch: usize) -> ([Wire; 2], Arc<Calls>) {
    wire_between(["192.0.2.1:9899", "192.0.2.2:9899"], batch)
}

/// The two ends of a wire between these addresses.
pub fn wire_between(addresses: [&str; 2], batch: usize) -> ([Wire; 2], Arc<Calls>) {
    let ways: [Arc<Way>; 2] = Default::default();
    let calls = Arc::<Calls>::default();
    let addresses = addresses.map(|text| text.parse().unwrap());
    let end = |side: usize| Wire {
        own: addresses[side],
        peer: addresses[1 - side],
        outward: Arc::clone(&ways[side]),
        inward: Arc::clone(&ways[1 - side]),
        batch,
        calls: Arc::clone(&calls),
    };
    ([end(0), end(1)], calls)
}

impl DatagramSocket for Wire {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.own)
    }

    fn max_segments(&self) -> usize {
        self.batch
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        assert_eq!(transmit.destination, self.peer);
        assert!(
            transmit.contents.len() < 65_507,
            "more than a UDP socket takes at once"
        );
        let count = transmit.datagrams().count();
        self.calls.longest.fetch_max(count, Ordering::Relaxed);
        let mut datagrams = self.outward.datagrams.lock().unwrap();
        if datagrams.len() >= self.batch {
            self.calls.full.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        datagrams.extend(transmit.datagrams().map(<[u8]>::to_vec));
        self.outward.arrived.notify_one();
        Ok(())
    }

    /// Receives all datagrams of one length at once.
    fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut datagrams = self.inward.datagrams.lock().unwrap();
        let segment = datagrams.front().ok_or(io::ErrorKind::WouldBlock)?.len();
        let mut len = 0;
        while let Some(datagram) = datagrams.front()
            && datagram.len() == segment
            && len + segment <= buffer.len()
        {
            buffer[len..len + segment].copy_from_slice(datagram);
            len += segment;
            datagrams.pop_front();
        }
        self.inward.taken.notify_waiters();
        let mut received = Received::new(self.peer, len);
        received.segment = segment;
        Ok(received)
    }

    fn readable(&self) -> Readiness<'_> {
        Box::pin(async {
            while self.inward.datagrams.lock().unwrap().is_empty() {
                self.inward.arrived.notified().await;
            }
            Ok(())
        })
    }

    fn writable(&self) -> Readiness<'_> {
        Box::pin(async {
            let mut taken = std::pin::pin!(self.outward.taken.notified());
            taken.as_mut().enable();
            if self.outward.datagrams.lock().unwrap().len() >= self.batch {
                taken.await;
            }
            Ok(())
        })
    }
}
