//! A server and clients on loopback, and a time limit.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part of it")]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::Endpoint;
use anabranch_forward::{
    Client, ClientEvent, Limits, Listen, PORT, Policy, Protocol, Rule, RuleStats, Server,
};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

/// Fails a test that hangs.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work)
        .await
        .expect("it takes too long")
}

/// Looks until it is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking)
        .await
        .unwrap_or_else(|_| panic!("it takes too long: {what}"));
}

pub struct Running {
    pub server: Arc<Server>,
    pub endpoint: Endpoint,
    pub task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn policy(targets: &[&str], listening: &[&str]) -> Policy {
    let read = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Policy {
        targets: read(targets),
        listening: read(listening),
    }
}

/// Everything on loopback is permitted.
pub fn open_policy() -> Policy {
    policy(&["127.0.0.1:*"], &["127.0.0.1:*"])
}

pub async fn start(server: Server, policy: Policy, address: SocketAddr) -> Running {
    let endpoint = anabranch_forward::endpoint(&Limits::default())
        .bind(address)
        .await
        .unwrap();
    endpoint.listen_on_port(PORT).unwrap();
    let server = Arc::new(server);
    let task = tokio::spawn({
        let (server, endpoint) = (Arc::clone(&server), endpoint.clone());
        let policy = Arc::new(policy);
        async move { server.run(&endpoint, |_| Arc::clone(&policy)).await }
    });
    Running {
        server,
        endpoint,
        task,
    }
}

pub async fn serve(limits: Limits, policy: Policy) -> Running {
    start(Server::new(limits), policy, ([127, 0, 0, 1], 0).into()).await
}

/// A client that runs, and its events.
pub struct Connected {
    pub client: Arc<Client>,
    pub events: UnboundedReceiver<ClientEvent>,
    pub task: JoinHandle<()>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connected {
    /// The verdicts about the rules, when the server accepts the client the next time.
    pub async fn verdicts(&mut self) -> Vec<Result<String, String>> {
        within(async {
            loop {
                let event = self.events.recv().await.expect("the client runs");
                if let ClientEvent::Connected { rules, .. } = event {
                    return rules.into_iter().map(|(_, verdict)| verdict).collect();
                }
            }
        })
        .await
    }

    /// Where a rule listens.
    pub fn place(&self, rule: usize) -> SocketAddr {
        match &self.client.places()[rule] {
            Some(Listen::Socket(place)) => *place,
            other => panic!("{other:?}"),
        }
    }

    pub fn stats(&self, rule: usize) -> RuleStats {
        self.client.stats()[rule]
    }
}

/// Starts a client of a server at this address.
pub async fn client(rules: Vec<Rule>, limits: Limits, server: SocketAddr) -> Connected {
    let (sender, events) = unbounded_channel();
    let client = Client::bind(rules, limits).await.unwrap();
    let client = Arc::new(client.observe(move |event| {
        let _ = sender.send(event);
    }));
    let endpoint = anabranch_forward::endpoint(&limits)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let task = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.run(|| endpoint.connect_to_port(server, PORT)).await }
    });
    Connected { client, events, task }
}

/// A server and a client with these rules, all accepted.
pub async fn forward(rules: Vec<Rule>) -> (Running, Connected, Vec<String>) {
    let running = serve(Limits::default(), open_policy()).await;
    let mut connected = client(rules, Limits::default(), running.endpoint.local_addr()).await;
    let verdicts = connected.verdicts().await;
    let places = verdicts.into_iter().map(|verdict| verdict.unwrap()).collect();
    (running, connected, places)
}

pub fn rule(protocol: Protocol, reverse: bool, target: SocketAddr, options: &str) -> Rule {
    Rule::parse(protocol, reverse, &format!("0={target}{options}")).unwrap()
}

pub async fn udp() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

pub async fn tcp() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub async fn connect(place: SocketAddr) -> TcpStream {
    within(TcpStream::connect(place)).await.unwrap()
}

/// Bytes that depend on their position and on the seed.
pub fn bytes(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}
