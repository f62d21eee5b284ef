//! The server: it accepts associations, and forwards what its policy permits.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anabranch::{Association, AssociationStats, Endpoint, ShownIdentity};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::counters::{RuleCounters, RuleStats};
use crate::dial::Dial;
use crate::failure::{Failures, TargetFailure, Told, ToldTargets};
use crate::limits::Limits;
use crate::lock::{Lock, lock};
use crate::policy::Policy;
use crate::rule::{Listen, Target};
use crate::session::{CONTROL, NOT_NEEDED, Session, SessionRule};
use crate::socket::Listener;
use crate::wire::{Hello, Message, RuleOffer, VERSION, Verdict, Welcome};

/// The time for a client to send its Hello.
const HELLO: Duration = Duration::from_secs(10);
/// Clients at the same time, unless [`Server::most_clients`] says otherwise.
const MOST_CLIENTS: usize = 1024;

/// The progress of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A client was accepted.
    Connected {
        /// Its address.
        remote: SocketAddr,
        /// The association, which tells who the client is.
        association: Association,
        /// For each rule: a description, and the place where the server listens (empty for rules that are not reverse) or the reason of the
        /// refusal.
        rules: Vec<(String, Result<String, String>)>,
    },
    /// A client was not accepted because of its key, or its handshake failed. Each address is told once a minute, and at most 64 of them.
    Refused {
        /// Its address.
        remote: SocketAddr,
        /// The reason.
        reason: String,
        /// The public key that it showed, if the server does not accept it.
        shown: Option<ShownIdentity>,
    },
    /// The association of a client ended, or was not accepted.
    Disconnected {
        /// Its address.
        remote: SocketAddr,
        /// The reason.
        reason: String,
        /// The rules, described, with their counters; empty if the client was not accepted.
        rules: Vec<(String, RuleStats)>,
    },
    /// A target here does not accept. Each target is told once a minute, and at most 64 of them.
    TargetFailed {
        /// The address of the client.
        remote: SocketAddr,
        /// The target and the error.
        failure: TargetFailure,
    },
}

/// A client of a server at one time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientStatus {
    /// The address of the client when it connected. It is the client's name in all events, also when it has left this address.
    pub remote: SocketAddr,
    /// The association and its paths.
    pub association: AssociationStats,
    /// The rules, described, with their counters.
    pub rules: Vec<(String, RuleStats)>,
}

/// A client that is served.
#[derive(Clone)]
struct Served {
    remote: SocketAddr,
    session: Arc<Session>,
    rules: Vec<(String, Arc<RuleCounters>)>,
}

impl Served {
    fn stats(&self) -> Vec<(String, RuleStats)> {
        let rules = self.rules.iter();
        rules
            .map(|(rule, counters)| (rule.clone(), counters.read()))
            .collect()
    }
}

/// A rule, and the reason why it is refused or where the server listens.
struct Judged {
    rule: SessionRule,
    verdict: Verdict,
    listener: Option<Arc<Listener>>,
}

/// A server.
pub struct Server {
    limits: Limits,
    places: Semaphore,
    /// By the random numbers that clients choose.
    clients: Lock<BTreeMap<[u8; 16], Served>>,
    /// How often the policies have changed. A client whose policy may be an older one is not served.
    changes: AtomicU64,
    told: Arc<ToldTargets>,
    refused: Told<IpAddr>,
    observe: Arc<dyn Fn(ServerEvent) + Send + Sync>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server whose clients have these limits each. At most 1,024 clients are served at the same time.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            places: Semaphore::new(MOST_CLIENTS),
            clients: Lock::default(),
            changes: AtomicU64::new(0),
            told: Arc::default(),
            refused: Told::default(),
            observe: Arc::new(|_| {}),
        }
    }

    /// Serves at most this number of clients at the same time, at least one.
    #[must_use]
    pub fn most_clients(mut self, clients: usize) -> Self {
        self.places = Semaphore::new(clients.clamp(1, Semaphore::MAX_PERMITS));
        self
    }

    /// Calls this function at each event.
    #[must_use]
    pub fn observe(mut self, observe: impl Fn(ServerEvent) + Send + Sync + 'static) -> Self {
        self.observe = Arc::new(observe);
        self
    }

    /// The clients that are served now.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientStatus> {
        let served: Vec<Served> = lock(&self.clients).values().cloned().collect();
        let status = |served: Served| ClientStatus {
            remote: served.remote,
            association: served.session.association.stats(),
            rules: served.stats(),
        };
        served.into_iter().map(status).collect()
    }

    /// Accepts and serves clients, each with the policy that `policy` has for it, until the endpoint is closed. The endpoint must listen on
    /// [`PORT`](crate::PORT).
    pub async fn run(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        policy: impl Fn(&Association) -> Arc<Policy> + Sync,
    ) {
        let accepting = async {
            while let Some(association) = endpoint.accept().await {
                let changes = self.changes.load(Ordering::SeqCst);
                let (server, policy) = (Arc::clone(self), policy(&association));
                tokio::spawn(async move { server.serve_as_of(changes, association, &policy).await });
            }
        };
        tokio::join!(accepting, self.tell_refusals(endpoint));
    }

    async fn tell_refusals(&self, endpoint: &Endpoint) {
        while let Some(failed) = endpoint.next_failed_handshake().await {
            if self.refused.admits(failed.remote.ip(), Instant::now()) {
                (self.observe)(ServerEvent::Refused {
                    remote: failed.remote,
                    reason: failed.reason.to_string(),
                    shown: failed.shown,
                });
            }
        }
    }

    /// Serves one client with this policy until its association ends.
    pub async fn serve(&self, association: Association, policy: &Arc<Policy>) {
        let changes = self.changes.load(Ordering::SeqCst);
        self.serve_as_of(changes, association, policy).await;
    }

    /// The policies have changed: ends each client for which `ended` has a reason, and those that are being accepted. A client connects
    /// again and then has the policy of that time; the others keep their flows. Returns the number of clients that were ended.
    pub fn end_changed(&self, ended: impl Fn(&Association) -> Option<String>) -> usize {
        self.changes.fetch_add(1, Ordering::SeqCst);
        let served: Vec<Served> = lock(&self.clients).values().cloned().collect();
        let end = |served: &Served| {
            let reason = ended(&served.session.association);
            reason.map(|reason| served.session.end(reason))
        };
        served.iter().filter_map(end).count()
    }

    async fn serve_as_of(&self, changes: u64, association: Association, policy: &Arc<Policy>) {
        let remote = association.remote_addr();
        let reason = match self.places.try_acquire() {
            Err(_) => Err("the server has no place for more clients".to_owned()),
            Ok(_place) => match self.receive_hello(&association).await {
                Ok(hello) => Ok(self
                    .serve_client(changes, remote, &association, hello, policy)
                    .await),
                Err(reason) => Err(reason),
            },
        };
        let (reason, rules) = reason.unwrap_or_else(|reason| {
            association.abort(reason.clone());
            (reason, Vec::new())
        });
        (self.observe)(ServerEvent::Disconnected {
            remote,
            reason,
            rules,
        });
    }

    async fn receive_hello(&self, association: &Association) -> Result<Hello, String> {
        let message = timeout(HELLO, association.recv()).await;
        let message = message.map_err(|_| "the client sent no Hello in time".to_owned())?;
        let message = message.map_err(|error| match error.to_string() {
            text if text.contains(NOT_NEEDED) => format!("{NOT_NEEDED}; this one was not needed"),
            text => text,
        })?;
        let message = message.ok_or("the client ended the association")?;
        let stream = message.stream;
        match Message::decode(message.into_bytes()) {
            Ok(Message::Hello(hello)) if stream == CONTROL => {
                if hello.version == VERSION {
                    return Ok(hello);
                }
                let reason = format!("the client has version {} of the protocol", hello.version);
                let refusal = Message::Refusal {
                    version: VERSION,
                    reason: reason.clone(),
                };
                let _ = association.send(CONTROL, refusal.encode()).await;
                // So that the refusal arrives before the association ends.
                let _ = timeout(HELLO, association.shutdown()).await;
                Err(reason)
            }
            Ok(_) => Err("the client began with another message than a Hello".to_owned()),
            Err(error) => Err(format!("the client sent {error}")),
        }
    }

    async fn serve_client(
        &self,
        changes: u64,
        remote: SocketAddr,
        association: &Association,
        hello: Hello,
        policy: &Arc<Policy>,
    ) -> (String, Vec<(String, RuleStats)>) {
        self.end_earlier(&hello.client).await;
        let mut judged = Vec::new();
        for offer in &hello.rules {
            judged.push(judge(offer, policy).await);
        }
        let mut listeners = Vec::new();
        let (mut verdicts, mut rules) = (Vec::new(), Vec::new());
        for (number, one) in judged.into_iter().enumerate() {
            listeners.extend(one.listener.map(|listener| (number as u16, listener)));
            verdicts.push(one.verdict);
            rules.push(one.rule);
        }
        let described = hello.rules.iter().map(describe);
        let counters = rules.iter().map(|rule| Arc::clone(&rule.counters));
        let counted = described.clone().zip(counters).collect();
        let failures = self.failures(remote);
        let session = Session::new(association.clone(), false, rules, &self.limits, failures);
        let welcome = Message::Welcome(Welcome {
            version: VERSION,
            most_flows: session.most_flows(),
            verdicts: verdicts.clone(),
        });
        if let Err(error) = association.send(CONTROL, welcome.encode()).await {
            return (error.to_string(), Vec::new());
        }
        let served = Served {
            remote,
            session: Arc::clone(&session),
            rules: counted,
        };
        // If two associations of a client say Hello at the same time, the later one stays.
        if let Some(earlier) = lock(&self.clients).insert(hello.client, served.clone()) {
            earlier
                .session
                .end("another association of the client replaces it");
        }
        (self.observe)(ServerEvent::Connected {
            remote,
            association: association.clone(),
            rules: described.zip(verdicts).collect(),
        });
        let _registered = Registered {
            server: self,
            client: hello.client,
            session: Arc::clone(&session),
        };
        if self.changes.load(Ordering::SeqCst) != changes {
            session.end("the server was configured again");
        }
        let reason = session.run(listeners).await;
        (reason, served.stats())
    }

    fn failures(&self, remote: SocketAddr) -> Failures {
        let observe = Arc::clone(&self.observe);
        Failures::new(&self.told, move |failure| {
            observe(ServerEvent::TargetFailed { remote, failure });
        })
    }

    /// Ends the earlier association of a client, and waits until its listening places are free.
    async fn end_earlier(&self, client: &[u8; 16]) {
        let earlier = lock(&self.clients).remove(client);
        if let Some(earlier) = earlier {
            earlier
                .session
                .end("another association of the client replaces it");
            earlier.session.stopped().await;
        }
    }
}

/// A client in the list of the server, unless another association has replaced it.
struct Registered<'a> {
    server: &'a Server,
    client: [u8; 16],
    session: Arc<Session>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut clients = lock(&self.server.clients);
        let own = clients.get(&self.client);
        if own.is_some_and(|served| Arc::ptr_eq(&served.session, &self.session)) {
            clients.remove(&self.client);
        }
    }
}

fn describe(offer: &RuleOffer) -> String {
    let reverse = if offer.reverse { "reverse-" } else { "" };
    format!("{reverse}{} {}", offer.protocol, offer.place)
}

/// Decides about a rule of a client.
async fn judge(offer: &RuleOffer, policy: &Arc<Policy>) -> Judged {
    let mut listener = None;
    let mut dial = None;
    let verdict = if offer.reverse {
        match listen(offer, policy).await {
            Ok(bound) => {
                let place = bound.place().map_or_else(String::new, |place| place.to_string());
                listener = Some(Arc::new(bound));
                Ok(place)
            }
            Err(reason) => Err(reason),
        }
    } else {
        match offer.place.parse::<Target>() {
            Ok(target) if policy.may_reach(offer.protocol, &target) => {
                dial = Some(Dial {
                    target,
                    policy: Some(Arc::clone(policy)),
                });
                Ok(String::new())
            }
            Ok(target) => Err(format!(
                "the server does not permit {target}/{}: it needs --allow-to",
                offer.protocol
            )),
            Err(error) => Err(error.to_string()),
        }
    };
    let rule = SessionRule::new(
        offer.protocol,
        offer.traffic.clone(),
        offer.reverse,
        dial,
        Arc::default(),
    );
    Judged {
        rule,
        verdict,
        listener,
    }
}

async fn listen(offer: &RuleOffer, policy: &Policy) -> Result<Listener, String> {
    let place: Listen = offer
        .place
        .parse()
        .map_err(|error: crate::RuleError| error.to_string())?;
    if !policy.permits_listening(offer.protocol, &place) {
        return Err(format!(
            "the server does not permit to listen at {place}/{}: it needs --allow-listen",
            offer.protocol
        ));
    }
    let bound = Listener::bind(offer.protocol, &place).await;
    bound.map_err(|error| format!("the server cannot listen at {place}: {error}"))
}
