//! Associations over DTLS belong to certificates: they follow their peer to another UDP port, and nobody else continues them. The
//! endpoints share a network in memory with an address translator, in tokio's virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{
    Association, Certificate, CloseReason, ConnectError, ConnectOptions, DatagramSocket, DtlsConfig,
    DtlsError, Endpoint, Event, Readiness, Received, Transmit,
};
use tokio::sync::Notify;
use tokio::time::timeout;

const PORT: u16 = 7;
const SERVER: &str = "192.0.2.1:9899";
/// The translator's address, with its ports.
const FIRST: &str = "198.51.100.1:1000";
const SECOND: &str = "198.51.100.1:2000";
const THIRD: &str = "198.51.100.1:3000";
/// Virtual time that is enough for everything that happens at all.
const LONG: Duration = Duration::from_secs(60);
/// The same if the client has nothing to send: two intervals of heartbeats, and then the largest RTO of the server.
const IDLE: Duration = Duration::from_secs(150);

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The datagrams that wait for a host: source and bytes.
#[derive(Debug, Default)]
struct Queue {
    datagrams: Mutex<VecDeque<(SocketAddr, Vec<u8>)>>,
    arrived: Notify,
}

/// Hosts, by their own addresses, and the public addresses that they have now.
#[derive(Debug, Default)]
struct Net {
    queues: Mutex<BTreeMap<SocketAddr, Arc<Queue>>>,
    public: Mutex<BTreeMap<SocketAddr, SocketAddr>>,
    /// ClientHellos so far.
    hellos: AtomicUsize,
}

impl Net {
    /// The translator now gives this host this public address; whoever had it has none.
    fn translate(&self, own: &str, public: &str) {
        let mut table = self.public.lock().unwrap();
        table.retain(|_, used| *used != at(public));
        table.insert(at(own), at(public));
    }

    fn deliver(&self, own: SocketAddr, transmit: &Transmit<'_>) {
        let table = self.public.lock().unwrap();
        let Some(source) = table.get(&own) else { return };
        let to = table.iter().find(|(_, public)| **public == transmit.destination);
        let queues = self.queues.lock().unwrap();
        let Some(queue) = to.and_then(|(host, _)| queues.get(host)) else {
            return;
        };
        for datagram in transmit.datagrams() {
            self.hellos.fetch_add(
                usize::from(datagram[0] == 22 && datagram.get(13) == Some(&1)),
                Ordering::Relaxed,
            );
            queue
                .datagrams
                .lock()
                .unwrap()
                .push_back((*source, datagram.to_vec()));
        }
        queue.arrived.notify_one();
    }
}

#[derive(Debug)]
struct Host {
    own: SocketAddr,
    net: Arc<Net>,
    queue: Arc<Queue>,
}

impl DatagramSocket for Host {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.own)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.net.deliver(self.own, transmit);
        Ok(())
    }

    fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let next = self.queue.datagrams.lock().unwrap().pop_front();
        let (source, datagram) = next.ok_or(io::ErrorKind::WouldBlock)?;
        buffer[..datagram.len()].copy_from_slice(&datagram);
        Ok(Received::new(source, datagram.len()))
    }

    fn readable(&self) -> Readiness<'_> {
        Box::pin(async {
            while self.queue.datagrams.lock().unwrap().is_empty() {
                self.queue.arrived.notified().await;
            }
            Ok(())
        })
    }

    fn writable(&self) -> Readiness<'_> {
        Box::pin(async { Ok(()) })
    }
}

fn certificate() -> Certificate {
    Certificate::generate().unwrap()
}

impl Net {
    fn endpoint(self: &Arc<Self>, own: &str, certificate: &Certificate) -> Endpoint {
        let queue = Arc::<Queue>::default();
        self.queues.lock().unwrap().insert(at(own), Arc::clone(&queue));
        let (net, own) = (Arc::clone(self), at(own));
        Endpoint::builder()
            .dtls(DtlsConfig::new(certificate.clone()))
            .bind_socket(Host { own, net, queue })
            .unwrap()
    }

    fn server(self: &Arc<Self>, certificate: &Certificate) -> Endpoint {
        self.translate(SERVER, SERVER);
        let server = self.endpoint(SERVER, certificate);
        server.listen_on_port(PORT).unwrap();
        server
    }
}

/// A's host behind the translator, and B's.
const A: &str = "10.0.0.1:5000";
const B: &str = "10.0.0.2:5000";

/// A network with a server and A's association with it.
async fn begin() -> (Arc<Net>, Endpoint, Endpoint, Association, Association) {
    let net = Arc::<Net>::default();
    let server = net.server(&certificate());
    net.translate(A, FIRST);
    let client = net.endpoint(A, &certificate());
    let (ours, theirs) = connect(&client, &server).await;
    (net, client, server, ours, theirs)
}

async fn connect(client: &Endpoint, server: &Endpoint) -> (Association, Association) {
    // B has A's SCTP port.
    let options = ConnectOptions::default().local_port(50_000);
    let both = async { tokio::join!(client.connect_with(at(SERVER), PORT, options), server.accept()) };
    let (ours, theirs) = timeout(LONG, both).await.expect("set-up takes too long");
    (ours.unwrap(), theirs.unwrap())
}

async fn pass(from: &Association, to: &Association, text: &'static str) {
    from.send(0, text).await.unwrap();
    let message = timeout(LONG, to.recv())
        .await
        .unwrap_or_else(|_| panic!("{text}: nothing arrives"));
    assert_eq!(message.unwrap().unwrap().into_bytes(), text);
}

/// The translator gives the client another port: both directions continue, over a second handshake.
#[tokio::test(start_paused = true)]
async fn another_port_of_the_peer_is_followed() {
    let (net, _client, _server, ours, theirs) = begin().await;
    let (print, hellos) = (theirs.peer_fingerprint(), net.hellos.load(Ordering::Relaxed));
    pass(&ours, &theirs, "before").await;
    net.translate(A, SECOND);
    pass(&ours, &theirs, "after").await;
    pass(&theirs, &ours, "back").await;
    assert_eq!(theirs.remote_addr(), at(SECOND));
    assert!(theirs.peer_fingerprint() == print && print.is_some());
    let again = net.hellos.load(Ordering::Relaxed) - hellos;
    assert!((1..=3).contains(&again), "{again} more ClientHellos");
    // And once more, while the server sends: the client's next heartbeats find out.
    net.translate(A, THIRD);
    theirs.send(0, "while nobody can reach A").await.unwrap();
    let message = timeout(IDLE, ours.recv()).await.unwrap();
    assert_eq!(message.unwrap().unwrap().into_bytes(), "while nobody can reach A");
    assert!(ours.close_reason().is_none() && theirs.close_reason().is_none());
    // The association ends with its new connection, not with the former ones.
    timeout(Duration::from_secs(400), pass_time(&ours, &theirs))
        .await
        .unwrap();
    timeout(LONG, ours.shutdown()).await.unwrap().unwrap();
    assert_eq!(
        timeout(LONG, theirs.closed()).await.unwrap(),
        CloseReason::Shutdown
    );
}

/// Longer than the former connections live.
async fn pass_time(ours: &Association, theirs: &Association) {
    for _ in 0..35 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        pass(ours, theirs, "still here").await;
    }
}

/// The same endpoint connects again to a server that has lost its DTLS connection: after a new port, and after a restart.
#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_in_nobodys_way() {
    let (net, client, server, ours, _theirs) = begin().await;
    net.translate(A, SECOND);
    ours.abort("");
    let (ours, theirs) = connect(&client, &server).await;
    pass(&ours, &theirs, "from another port").await;
    // The server's program ends without a word, and another one begins: its certificate is new.
    let former = net.queues.lock().unwrap().remove(&at(SERVER));
    let server = net.server(&certificate());
    ours.abort("");
    let (ours, theirs) = connect(&client, &server).await;
    pass(&ours, &theirs, "to another program").await;
    drop(former);
}

/// A client whose certificate is not accepted any more gets the reason, not silence.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_refused_beside_a_dead_connection_is_an_error() {
    let net = Arc::<Net>::default();
    let first = certificate();
    let server = net.server(&first);
    net.translate(A, FIRST);
    let queue = Arc::<Queue>::default();
    net.queues.lock().unwrap().insert(at(A), Arc::clone(&queue));
    let host = Host {
        own: at(A),
        net: Arc::clone(&net),
        queue,
    };
    let trusting = DtlsConfig::new(certificate()).trust(first.fingerprint());
    let client = Endpoint::builder().dtls(trusting).bind_socket(host).unwrap();
    let (ours, _theirs) = connect(&client, &server).await;
    let other = certificate();
    let _restarted = net.server(&other);
    ours.abort("");
    let error = timeout(LONG, client.connect_to_port(at(SERVER), PORT))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(error, ConnectError::Dtls { reason: DtlsError::Refused(seen), .. } if seen == other.fingerprint()),
        "{error}"
    );
}

/// B has another certificate, which is accepted too, A's public address and A's SCTP ports. It does not continue A's association, gets
/// nothing of A's, and cannot end it.
#[tokio::test(start_paused = true)]
async fn another_certificate_does_not_continue_an_association() {
    let (net, _client, _server, ours, theirs) = begin().await;
    let print = theirs.peer_fingerprint();
    pass(&ours, &theirs, "before").await;
    net.translate(B, FIRST);
    theirs.send(0, "for A alone").await.unwrap();
    let b = net.endpoint(B, &certificate());
    let options = ConnectOptions::default().local_port(50_000);
    let refused = timeout(LONG, b.connect_with(at(SERVER), PORT, options)).await;
    let error = refused.expect("an answer").unwrap_err();
    assert!(
        matches!(
            error,
            ConnectError::Refused {
                reason: CloseReason::AbortedByPeer(_),
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("another certificate"), "{error}");
    // A comes back, at another port.
    net.translate(A, SECOND);
    let message = timeout(IDLE, ours.recv()).await.unwrap();
    assert_eq!(message.unwrap().unwrap().into_bytes(), "for A alone");
    pass(&ours, &theirs, "A is back").await;
    assert_eq!(theirs.peer_fingerprint(), print);
    timeout(LONG, ours.shutdown()).await.unwrap().unwrap();
    while let Some(event) = theirs.next_event().await {
        assert_ne!(event, Event::Restarted);
    }
}

/// B has an association of its own beside A's: another SCTP port at the same address.
#[tokio::test(start_paused = true)]
async fn two_certificates_have_associations_at_one_address() {
    let (net, _client, server, ours, theirs) = begin().await;
    net.translate(B, FIRST);
    let b = net.endpoint(B, &certificate());
    let options = ConnectOptions::default().local_port(50_001);
    let both = async { tokio::join!(b.connect_with(at(SERVER), PORT, options), server.accept()) };
    let (bs, for_b) = timeout(LONG, both).await.unwrap();
    let (bs, for_b) = (bs.unwrap(), for_b.unwrap());
    pass(&bs, &for_b, "of B").await;
    pass(&for_b, &bs, "for B").await;
    assert_ne!(for_b.peer_fingerprint(), theirs.peer_fingerprint());
    net.translate(A, FIRST);
    pass(&ours, &theirs, "of A").await;
    pass(&theirs, &ours, "for A").await;
}

/// A restart with the same certificate is a restart (RFC 9260 §5.2.4 A).
#[tokio::test(start_paused = true)]
async fn the_same_certificate_restarts_an_association() {
    let net = Arc::<Net>::default();
    let server = net.server(&certificate());
    net.translate(A, FIRST);
    let own = certificate();
    let former = net.endpoint(A, &own);
    let (_ours, theirs) = connect(&former, &server).await;
    let restarted = net.endpoint(A, &own);
    let options = ConnectOptions::default().local_port(50_000);
    let again = timeout(LONG, restarted.connect_with(at(SERVER), PORT, options)).await;
    let again = again.unwrap().unwrap();
    pass(&again, &theirs, "again").await;
    again.abort("");
    let mut restarts = 0;
    while let Some(event) = theirs.next_event().await {
        restarts += usize::from(event == Event::Restarted);
    }
    assert_eq!(restarts, 1);
}
