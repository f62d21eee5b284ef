//! The client: its rules, and an association with a server that is set up again whenever it ends.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{Association, AssociationStats};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::counters::{RuleCounters, RuleStats};
use crate::dial::Dial;
use crate::failure::{Failures, TargetFailure, ToldTargets};
use crate::limits::Limits;
use crate::lock::{Lock, lock};
use crate::rule::{Listen, Protocol, Rule};
use crate::session::{CONTROL, NOT_NEEDED, Session, SessionRule};
use crate::socket::Listener;
use crate::wire::{Hello, MOST_RULES, Message, RuleOffer, VERSION, Welcome};

/// The time for the server to answer a Hello.
const ANSWER: Duration = Duration::from_secs(10);
/// The time to set up an association: longer than the limit of an endpoint, whose error says why it failed.
const SET_UP: Duration = Duration::from_secs(12);
/// The first and the longest pause between two attempts: a server that was restarted has its clients again after a few seconds.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(4)];
/// If nothing arrives for this time, the client tries a second association.
const SILENCE: Duration = Duration::from_secs(3);
/// How often the client looks whether something arrived: heartbeats come every half second.
const LOOK: Duration = Duration::from_millis(500);

/// Why a client cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A place where a rule listens is not free.
    #[error("cannot listen at {place}: {source}; choose a free port and an address of this machine")]
    Listen {
        /// The place.
        place: Listen,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There are more rules than a server accepts.
    #[error("there are {0} rules; a client has at most {MOST_RULES}")]
    Rules(usize),
    /// The operating system gave no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

/// The progress of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientEvent {
    /// The server accepted the client. The verdict about each rule is the place where the server listens (empty for rules that are not
    /// reverse), or the reason why it refuses the rule.
    Connected {
        /// The association, which tells who the server is.
        association: Association,
        /// The rules with their verdicts.
        rules: Vec<(Rule, Result<String, String>)>,
    },
    /// The association ended, or could not be set up.
    Disconnected {
        /// The reason.
        reason: String,
        /// The pause until the next attempt.
        retry_in: Duration,
    },
    /// The target of a rule does not accept: that of a reverse rule here, or one of a TCP rule at the server. Each target is told once a minute,
    /// and at most 64 of them.
    TargetFailed(TargetFailure),
}

#[derive(Clone)]
struct ClientRule {
    rule: Rule,
    listener: Option<Arc<Listener>>,
    counters: Arc<RuleCounters>,
}

impl ClientRule {
    /// Refuses in a task what programs send to the place of the rule, if the rule listens here.
    fn refuse(&self, tasks: &mut JoinSet<()>) {
        if let Some(listener) = self.listener.clone() {
            let counters = Arc::clone(&self.counters);
            tasks.spawn(async move { listener.refuse(&counters).await });
        }
    }
}

/// A client. Dropping [`Client::run`] stops it.
pub struct Client {
    number: [u8; 16],
    rules: Lock<Vec<ClientRule>>,
    limits: Limits,
    session: Lock<Option<Arc<Session>>>,
    /// Asks for another association.
    renewal: Notify,
    /// Asks for an attempt now, if there is no association.
    attempt: Notify,
    told: Arc<ToldTargets>,
    observe: Arc<dyn Fn(ClientEvent) + Send + Sync>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rules: Vec<_> = self.rules().iter().map(ToString::to_string).collect();
        f.debug_struct("Client")
            .field("rules", &rules)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Listens at the places of all rules that are not reverse. Programs that connect before the server is reached wait.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn bind(rules: Vec<Rule>, limits: Limits) -> Result<Self, ClientError> {
        let mut number = [0; 16];
        getrandom::fill(&mut number).map_err(|error| ClientError::Random(error.to_string()))?;
        Ok(Self {
            number,
            rules: Lock::new(bind(rules, Vec::new()).await?),
            limits,
            session: Lock::new(None),
            renewal: Notify::new(),
            attempt: Notify::new(),
            told: Arc::default(),
            observe: Arc::new(|_| {}),
        })
    }

    /// Calls this function at each event.
    #[must_use]
    pub fn observe(mut self, observe: impl Fn(ClientEvent) + Send + Sync + 'static) -> Self {
        self.observe = Arc::new(observe);
        self
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        lock(&self.rules).iter().map(|own| own.rule.clone()).collect()
    }

    /// Takes these rules in place of the former ones, and sets up another association for them: connections through the former one end. A rule
    /// that listens where a former one did takes over its socket, so that no program is refused meanwhile. A rule that stays as it was
    /// keeps its counters.
    ///
    /// # Errors
    /// See [`ClientError`]. Then the former rules stay.
    pub async fn replace_rules(&self, rules: Vec<Rule>) -> Result<(), ClientError> {
        let former = lock(&self.rules).clone();
        let rules = bind(rules, former).await?;
        *lock(&self.rules) = rules;
        self.reconnect();
        Ok(())
    }

    /// Sets up another association in place of the present one, or tries it now in place of after a pause: the server is reached in another
    /// way.
    pub fn reconnect(&self) {
        self.renewal.notify_one();
    }

    /// Without an association: begins another attempt to set up one now, because a network has come back. Otherwise does nothing.
    pub fn try_now(&self) {
        self.attempt.notify_waiters();
    }

    /// Where each rule listens at this endpoint, with the port that the system chose for port 0; `None` for reverse rules.
    #[must_use]
    pub fn places(&self) -> Vec<Option<Listen>> {
        let place = |own: &ClientRule| own.listener.as_ref()?.place();
        lock(&self.rules).iter().map(place).collect()
    }

    /// The counters of each rule, of all associations so far.
    #[must_use]
    pub fn stats(&self) -> Vec<RuleStats> {
        let rules = lock(&self.rules);
        rules.iter().map(|own| own.counters.read()).collect()
    }

    /// The counters and paths of the association; `None` while there is none.
    #[must_use]
    pub fn association(&self) -> Option<AssociationStats> {
        let session = lock(&self.session).clone()?;
        Some(session.association.stats())
    }

    /// The name of the network interface of the association's paths that begin at this address: see [`Association::interface`].
    #[must_use]
    pub fn interface(&self, local: IpAddr) -> Option<String> {
        let session = lock(&self.session).clone()?;
        session.association.interface(local)
    }

    /// Connects to the server, and connects again whenever the association ends, until the future is dropped. After a failure it waits for a
    /// quarter of a second, then twice as long each time up to 4 s. If nothing arrives for three seconds, it sets up a second association
    /// beside the first one, and uses it if the first one stays silent.
    ///
    /// `connect` sets up an association with an endpoint of [`endpoint`](crate::endpoint). The endpoint may be a new one each time.
    pub async fn run<C, F, E>(&self, connect: C)
    where
        C: Fn() -> F,
        F: Future<Output = Result<Association, E>>,
        E: Display,
    {
        let mut pause = PAUSES[0];
        let mut next: Option<Association> = None;
        loop {
            let mut dropping = self.drop_datagrams();
            let association = match next.take() {
                Some(association) => Ok(association),
                None => tokio::select! {
                    association = set_up(&connect) => association,
                    () = self.renewal.notified() => continue,
                    () = self.attempt.notified() => continue,
                },
            };
            let rules = lock(&self.rules).clone();
            let reason = match association {
                Err(reason) => reason,
                Ok(association) => match greet(self.number, &rules, &association).await {
                    Err(reason) => {
                        association.abort(reason.clone());
                        reason
                    }
                    Ok(welcome) => {
                        pause = PAUSES[0];
                        // It has stopped before programs are served, whose datagrams it would take.
                        dropping.shutdown().await;
                        let served = self.serve(&rules, association, welcome, &connect).await;
                        dropping = self.drop_datagrams();
                        match served {
                            Served::Ended(reason) => reason,
                            Served::Replaced(association) => {
                                next = association;
                                continue;
                            }
                        }
                    }
                },
            };
            drop(rules);
            let retry_in = spread(pause);
            (self.observe)(ClientEvent::Disconnected { reason, retry_in });
            tokio::select! {
                () = sleep(retry_in) => pause = (pause * 2).min(PAUSES[1]),
                () = self.renewal.notified() => pause = PAUSES[0],
                () = self.attempt.notified() => pause = PAUSES[0],
            }
            drop(dropping);
        }
    }

    /// Drops and counts the datagrams that programs send while there is no association, until it is dropped: later they would be old. If nobody
    /// read them, the operating system would drop those for which its buffer has no room, and nobody would count them.
    fn drop_datagrams(&self) -> JoinSet<()> {
        let mut dropping = JoinSet::new();
        let rules = lock(&self.rules);
        let datagrams = rules.iter().filter(|own| own.rule.protocol == Protocol::Udp);
        datagrams.for_each(|own| own.refuse(&mut dropping));
        dropping
    }

    /// Forwards until the association ends, or another one replaces it.
    async fn serve<C, F, E>(
        &self,
        own: &[ClientRule],
        association: Association,
        welcome: Welcome,
        connect: &C,
    ) -> Served
    where
        C: Fn() -> F,
        F: Future<Output = Result<Association, E>>,
        E: Display,
    {
        let own_rule = |own: &ClientRule| {
            let dial = own.rule.reverse.then(|| Dial {
                target: own.rule.target.clone(),
                policy: None,
            });
            let traffic = own.rule.traffic.clone();
            let mut rule = SessionRule::new(
                own.rule.protocol,
                traffic,
                !own.rule.reverse,
                dial,
                Arc::clone(&own.counters),
            );
            rule.remote_target = (!own.rule.reverse).then(|| own.rule.target.clone());
            rule
        };
        let rules = own.iter().map(own_rule).collect();
        let limits = Limits {
            flows: self.limits.flows.min(welcome.most_flows),
            ..self.limits
        };
        let observe = Arc::clone(&self.observe);
        let failures = Failures::new(&self.told, move |failure| {
            observe(ClientEvent::TargetFailed(failure));
        });
        let session = Session::new(association.clone(), true, rules, &limits, failures);
        *lock(&self.session) = Some(Arc::clone(&session));
        let mut listeners = Vec::new();
        // Dropped with the session, which ends them.
        let mut refusing = JoinSet::new();
        for (number, (own, verdict)) in own.iter().zip(&welcome.verdicts).enumerate() {
            let Some(listener) = own.listener.clone() else {
                continue;
            };
            // Before the event: whoever hears of it may send.
            own.counters.dropped.add(listener.drop_waiting());
            if verdict.is_ok() {
                listeners.push((number as u16, listener));
            } else {
                own.refuse(&mut refusing);
            }
        }
        (self.observe)(ClientEvent::Connected {
            association: association.clone(),
            rules: own
                .iter()
                .map(|own| own.rule.clone())
                .zip(welcome.verdicts)
                .collect(),
        });
        let served = tokio::select! {
            reason = session.run(listeners) => Served::Ended(reason),
            successor = successor(&association, connect) => Served::Replaced(Some(successor)),
            () = self.renewal.notified() => Served::Replaced(None),
        };
        session.end("another association replaces it");
        // The next session needs the listeners for itself.
        session.stopped().await;
        *lock(&self.session) = None;
        served
    }
}

enum Served {
    Ended(String),
    /// By this association, or by one that is to be set up.
    Replaced(Option<Association>),
}

/// Listens for each rule that is not reverse, with the sockets of former rules where these listened at the same place.
async fn bind(rules: Vec<Rule>, mut former: Vec<ClientRule>) -> Result<Vec<ClientRule>, ClientError> {
    if rules.len() > MOST_RULES {
        return Err(ClientError::Rules(rules.len()));
    }
    let mut take = |is_it: &dyn Fn(&Rule) -> bool| {
        let index = former.iter().position(|own| is_it(&own.rule))?;
        Some(former.swap_remove(index))
    };
    // All rules that stay as they were come first: with port 0, other rules may listen at the same place.
    let kept: Vec<_> = rules.iter().map(|rule| take(&|own| own == rule)).collect();
    let mut bound = Vec::new();
    for (rule, kept) in rules.into_iter().zip(kept) {
        if let Some(kept) = kept {
            bound.push(kept);
            continue;
        }
        let place = |rule: &Rule| (rule.protocol, rule.reverse, rule.listen.clone());
        let former = take(&|own| place(own) == place(&rule));
        let listener = match former.and_then(|own| own.listener) {
            _ if rule.reverse => None,
            Some(listener) => Some(listener),
            None => {
                let listener = Listener::bind(rule.protocol, &rule.listen).await;
                Some(Arc::new(listener.map_err(|source| ClientError::Listen {
                    place: rule.listen.clone(),
                    source,
                })?))
            }
        };
        bound.push(ClientRule {
            rule,
            listener,
            counters: Arc::default(),
        });
    }
    Ok(bound)
}

/// Tells the server the rules, and waits for its verdicts.
async fn greet(client: [u8; 16], own: &[ClientRule], association: &Association) -> Result<Welcome, String> {
    let offer = |one: &ClientRule| RuleOffer {
        protocol: one.rule.protocol,
        reverse: one.rule.reverse,
        traffic: one.rule.traffic.clone(),
        place: if one.rule.reverse {
            one.rule.listen.to_string()
        } else {
            one.rule.target.to_string()
        },
    };
    let hello = Message::Hello(Hello {
        version: VERSION,
        client,
        rules: own.iter().map(offer).collect(),
    });
    let exchange = async {
        let sent = association.send(CONTROL, hello.encode()).await;
        sent.map_err(|error| error.to_string())?;
        association.recv().await.map_err(|error| error.to_string())
    };
    let answer = timeout(ANSWER, exchange).await;
    let answer = answer.map_err(|_| "the server does not answer the Hello".to_owned())??;
    let answer = answer.ok_or("the server ended the association")?;
    match Message::decode(answer.into_bytes()) {
        Ok(Message::Welcome(welcome)) if welcome.verdicts.len() == own.len() => Ok(welcome),
        Ok(Message::Refusal { version, reason }) => Err(format!(
            "the server refuses the client: {reason} (it has version {version} of the protocol, this program {VERSION})"
        )),
        Ok(_) => Err("the server sent another message than a Welcome".to_owned()),
        Err(error) => Err(format!("the server sent {error}")),
    }
}

async fn set_up<C, F, E>(connect: &C) -> Result<Association, String>
where
    C: Fn() -> F,
    F: Future<Output = Result<Association, E>>,
    E: Display,
{
    match timeout(SET_UP, connect()).await {
        Ok(Ok(association)) => Ok(association),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the server does not answer".to_owned()),
    }
}

/// A new association, after the old one was silent for so long that the new one was set up meanwhile.
async fn successor<C, F, E>(old: &Association, connect: &C) -> Association
where
    C: Fn() -> F,
    F: Future<Output = Result<Association, E>>,
    E: Display,
{
    let received = || old.stats().counters.packets_received;
    let (mut last, mut heard) = (received(), Instant::now());
    loop {
        sleep(LOOK).await;
        if received() != last {
            (last, heard) = (received(), Instant::now());
        }
        if heard.elapsed() < SILENCE {
            continue;
        }
        let Ok(new) = set_up(connect).await else {
            continue;
        };
        // If only the network was away, the old association, with its connections, works again too. Its own heartbeats may be 2 s apart now.
        for path in old.paths() {
            let _ = old.request_heartbeat(path.id);
        }
        sleep(LOOK).await;
        if received() == last {
            return new;
        }
        new.abort(NOT_NEEDED);
    }
}

/// A time between half of it and all of it, so that the clients of a server that restarts do not come all at once.
fn spread(time: Duration) -> Duration {
    let mut random = [0; 1];
    let _ = getrandom::fill(&mut random);
    time / 2 + time / 2 * u32::from(random[0]) / 255
}
