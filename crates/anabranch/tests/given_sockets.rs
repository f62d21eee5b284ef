//! Endpoints on sockets that the application gives.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{
    BindError, Certificate, Config, DatagramSocket, Dscp, DtlsConfig, Endpoint, EndpointBuilder, Readiness,
    Received, Transmit, Transport,
};
use tokio::sync::Notify;

/// Datagrams in one call of [`Wire::try_send`].
const SEGMENTS: usize = 4;
/// Datagrams that wait, at which the wire is full.
const FULL: usize = 4;

/// One direction of a wire in memory.
#[derive(Debug, Default)]
struct Way {
    datagrams: Mutex<VecDeque<Vec<u8>>>,
    arrived: Notify,
    taken: Notify,
}

/// One end of a wire in memory.
#[derive(Debug)]
struct Wire {
    own: SocketAddr,
    peer: SocketAddr,
    outward: Arc<Way>,
    inward: Arc<Way>,
    /// The most datagrams in a call, and how often the wire was full.
    longest: Arc<AtomicUsize>,
    full: Arc<AtomicUsize>,
}

impl DatagramSocket for Wire {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.own)
    }

    fn max_segments(&self) -> usize {
        SEGMENTS
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        assert_eq!(transmit.destination, self.peer);
        assert!(
            transmit.contents.len() < 65_507,
            "more than a UDP socket takes at once"
        );
        let count = transmit.datagrams().count();
        self.longest.fetch_max(count, Ordering::Relaxed);
        let mut datagrams = self.outward.datagrams.lock().unwrap();
        if datagrams.len() >= FULL {
            self.full.fetch_add(1, Ordering::Relaxed);
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
            if self.outward.datagrams.lock().unwrap().len() >= FULL {
                taken.await;
            }
            Ok(())
        })
    }
}

/// The two ends of a wire, and what its calls were.
fn wire() -> ([Wire; 2], Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let ways: [Arc<Way>; 2] = Default::default();
    let (longest, full) = (Arc::default(), Arc::default());
    let addresses = ["192.0.2.1:9899", "192.0.2.2:9899"].map(|text| text.parse().unwrap());
    let end = |side: usize| Wire {
        own: addresses[side],
        peer: addresses[1 - side],
        outward: Arc::clone(&ways[side]),
        inward: Arc::clone(&ways[1 - side]),
        longest: Arc::clone(&longest),
        full: Arc::clone(&full),
    };
    let ends = [end(0), end(1)];
    (ends, longest, full)
}

/// Sends messages of all sizes through a wire in memory.
async fn exchange(builders: [EndpointBuilder; 2]) -> (usize, usize) {
    let ([ours, theirs], longest, full) = wire();
    let server = theirs.own;
    let [client, listener] = builders;
    let client = client.bind_socket(ours).unwrap();
    let listener = listener.bind_socket(theirs).unwrap();
    assert_eq!(listener.local_addr(), server);
    listener.listen().unwrap();
    let echo = tokio::spawn(async move {
        let association = listener.accept().await.unwrap();
        while let Some(message) = association.recv().await.unwrap() {
            association
                .send(message.stream, message.into_bytes())
                .await
                .unwrap();
        }
        listener.close().await;
    });
    let association = client.connect(server).await.unwrap();
    for size in [1, 1_000, 100_000, 2_000_000] {
        association.send(0, vec![7_u8; size]).await.unwrap();
        let echoed = association.recv().await.unwrap().unwrap().into_bytes();
        assert!(echoed.len() == size && echoed.iter().all(|byte| *byte == 7));
    }
    association.shutdown().await.unwrap();
    echo.await.unwrap();
    client.close().await;
    (longest.load(Ordering::Relaxed), full.load(Ordering::Relaxed))
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .expect("it takes too long")
}

#[tokio::test]
async fn messages_pass_a_socket_that_the_application_gives() {
    let mut config = Config::default();
    config.path_mtu_limit = config.path_mtu;
    let builder = Endpoint::builder().config(config);
    let (longest, full) = within(exchange([builder.clone(), builder])).await;
    assert_eq!(longest, SEGMENTS, "datagrams in a call");
    assert!(full > 0, "the wire was never full");
}

/// The link in front of the socket makes batches of its own.
#[tokio::test]
async fn they_may_pass_a_link() {
    let link = || Endpoint::builder().link("delay=5ms".parse().unwrap(), 1);
    let (longest, _) = within(exchange([link(), link()])).await;
    assert_eq!(longest, SEGMENTS, "datagrams in a call");
}

#[tokio::test]
async fn they_may_be_encrypted() {
    let dtls = || Endpoint::builder().dtls(DtlsConfig::new(Certificate::generate().unwrap()));
    within(exchange([dtls(), dtls()])).await;
}

#[tokio::test]
async fn options_of_system_sockets_are_refused() {
    let mut config = Config::default();
    config.dscp = Dscp::EF;
    for (builder, option) in [
        (Endpoint::builder().transport(Transport::RawIp), "transport"),
        (
            Endpoint::builder().interface([127, 0, 0, 1].into(), "lo"),
            "interface",
        ),
        (Endpoint::builder().watch_interfaces(true), "watch_interfaces"),
        (Endpoint::builder().config(config), "Config::dscp"),
    ] {
        let ([socket, _], ..) = wire();
        let refused = builder.bind_socket(socket);
        assert!(
            matches!(refused, Err(BindError::GivenSocket(named)) if named == option),
            "{option}"
        );
    }
}
