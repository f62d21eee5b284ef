//! ICE (RFC 8445): the addresses between which the datagrams of a session travel.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_proto::Timestamp;
use is::stun::{StunMessage, StunPacket};
use is::{Candidate, IceAgent, IceAgentEvent, IceCreds};

use super::learned::Learned;
use super::{Datagram, clock};
use crate::sdp::{Description, MOST_CANDIDATES};
use crate::session_config::SessionError;

/// The most local candidates.
const MOST_LOCAL: usize = 16;
/// A peer that was not heard for this long is silent. Peers check a route that works at least every 6 s (RFC 7675 §5.1).
const SILENCE: Duration = Duration::from_secs(10);
/// A peer that was not heard for this long is lost: its consent has expired (RFC 7675 §5.1).
const LOST: Duration = Duration::from_secs(30);
/// Unanswered checks after which the agent drops a pair of addresses: later than [`LOST`], with one check in 3 s.
const CHECKS: usize = 14;

/// Something that ICE found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteEvent {
    /// The route is chosen, for the first time or again; `changed` if datagrams took another one before.
    Nominated { changed: bool },
    /// The peer is silent.
    Silent,
    /// The peer was silent, and is heard again.
    Heard,
    /// No route works.
    Unreachable,
}

/// The addresses of a session. An ICE restart (RFC 8445 §9) is another agent with other credentials; the former one serves its route until
/// the new one has chosen.
pub(super) struct Route {
    ice: IceAgent,
    /// The agent of a restart that this side offered, as long as the answer is not here.
    offered: Option<IceAgent>,
    former: Option<IceAgent>,
    learned: Learned,
    local: Vec<SocketAddr>,
    /// This side's address and the peer's, as soon as they are known.
    chosen: Option<(SocketAddr, SocketAddr)>,
    /// The route before: the peer's last records on it may still arrive.
    left: Option<(SocketAddr, SocketAddr)>,
    /// The time of the peer's last message, or of the last description of either side. `None` before both descriptions are known.
    heard: Option<Timestamp>,
    /// Whether the peer was heard at all.
    met: bool,
    is_silent: bool,
    events: VecDeque<RouteEvent>,
}

impl Route {
    /// Of a session that receives at the addresses `local`; `is_lite` if this side only answers checks.
    pub(super) fn new(now: Timestamp, local: &[SocketAddr], is_lite: bool) -> Result<Self, SessionError> {
        Ok(Self {
            ice: agent(now, local, is_lite)?,
            offered: None,
            former: None,
            learned: Learned::default(),
            local: local.to_vec(),
            chosen: None,
            left: None,
            heard: None,
            met: false,
            is_silent: false,
            events: VecDeque::new(),
        })
    }

    pub(super) fn is_lite(&self) -> bool {
        self.ice.ice_lite()
    }

    /// The credentials of this side's next description.
    pub(super) fn credentials(&self) -> IceCreds {
        self.described().local_credentials().clone()
    }

    /// The candidates of this side's next description.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        self.described().local_candidates().collect()
    }

    fn described(&self) -> &IceAgent {
        self.offered.as_ref().unwrap_or(&self.ice)
    }

    /// Both descriptions are known; `offered` if this side made the offer.
    pub(super) fn begin(
        &mut self,
        now: Timestamp,
        peer: &Description,
        offered: bool,
    ) -> Result<(), SessionError> {
        if peer.is_lite && self.is_lite() {
            return Err(SessionError::BothLite);
        }
        // RFC 8445 §6.1.1.
        self.ice
            .set_controlling(!self.is_lite() && (offered || peer.is_lite));
        self.meet(now, peer);
        Ok(())
    }

    /// Prepares a restart. The next description of this side is its offer; if `local` is not empty, with these addresses.
    pub(super) fn offer_restart(&mut self, now: Timestamp, local: &[SocketAddr]) -> Result<(), SessionError> {
        let local = if local.is_empty() { &self.local } else { local };
        self.offered = Some(agent(now, local, self.is_lite())?);
        self.local = local.to_vec();
        self.wait(now);
        Ok(())
    }

    /// The peer answered the offer of a restart.
    pub(super) fn accept_restart(&mut self, now: Timestamp, peer: &Description) {
        if let Some(agent) = self.offered.take() {
            self.replace(agent);
            self.meet(now, peer);
        }
    }

    /// The peer made an offer in a session that has begun: with other credentials it restarts ICE (RFC 8839 §4.4.1.1.1).
    pub(super) fn answer(&mut self, now: Timestamp, peer: &Description) -> Result<(), SessionError> {
        self.offered = None;
        if self.ice.remote_credentials() != Some(&peer.credentials) {
            let agent = agent(now, &self.local, self.is_lite())?;
            self.replace(agent);
        }
        self.meet(now, peer);
        Ok(())
    }

    /// RFC 8445 §6.1.1: a restart keeps the roles.
    fn replace(&mut self, mut agent: IceAgent) {
        agent.set_controlling(self.ice.controlling());
        self.learned = Learned::default();
        let former = std::mem::replace(&mut self.ice, agent);
        // After a second restart that followed at once, the first one may have no route.
        if self.former.is_none() || former.state().is_connected() {
            self.former = Some(former);
        }
    }

    fn meet(&mut self, now: Timestamp, peer: &Description) {
        self.ice.set_remote_credentials(peer.credentials.clone());
        for candidate in &peer.candidates {
            self.add_candidate(candidate.clone());
        }
        self.ice.handle_timeout(clock::instant(now));
        self.wait(now);
    }

    /// Gives the peer its time from now on.
    fn wait(&mut self, now: Timestamp) {
        self.heard = Some(now);
    }

    /// A candidate of the peer. Further ones than fit are ignored: the peer's checks show its address.
    pub(super) fn add_candidate(&mut self, candidate: Candidate) {
        if self.ice.remote_candidates().count() < MOST_CANDIDATES {
            self.ice.add_remote_candidate(candidate);
        }
    }

    /// Whether a STUN message is for this session.
    pub(super) fn accepts(&self, bytes: &[u8]) -> bool {
        StunMessage::parse(bytes).is_ok_and(|message| self.is_accepted(&message))
    }

    fn is_accepted(&self, message: &StunMessage<'_>) -> bool {
        let agents = [Some(&self.ice), self.offered.as_ref(), self.former.as_ref()];
        agents
            .into_iter()
            .flatten()
            .any(|ice| ice.accepts_message(message))
    }

    fn agents(&mut self) -> impl Iterator<Item = &mut IceAgent> {
        [Some(&mut self.ice), self.offered.as_mut(), self.former.as_mut()]
            .into_iter()
            .flatten()
    }

    /// A STUN message arrived. Messages of strangers have no effect.
    pub(super) fn handle_stun(
        &mut self,
        now: Timestamp,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
    ) {
        let Ok(message) = StunMessage::parse(bytes) else {
            return;
        };
        if !self.is_accepted(&message) || !self.learned.admits(source, message.mapped_address()) {
            return;
        }
        let Some(ice) = self.agents().find(|ice| ice.accepts_message(&message)) else {
            return;
        };
        let packet = StunPacket {
            proto: is::Protocol::Udp,
            source,
            destination,
            message,
        };
        ice.handle_packet(clock::instant(now), packet);
        self.met = true;
        if self.heard.is_some() {
            self.wait(now);
        }
        if std::mem::replace(&mut self.is_silent, false) {
            self.events.push_back(RouteEvent::Heard);
        }
    }

    /// Whether ICE has verified the address of the peer that another datagram came from. The peer may begin with DTLS before it nominates a
    /// route: the answers then take the way back.
    pub(super) fn admits(&mut self, source: SocketAddr, destination: SocketAddr) -> bool {
        let is_verified = [self.chosen, self.left].contains(&Some((destination, source)))
            || self.agents().any(|ice| ice.has_viable_remote_candidate(source));
        if is_verified {
            self.chosen.get_or_insert((destination, source));
        }
        is_verified
    }

    /// This side's address and the peer's, as soon as they are known.
    pub(super) fn chosen(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.chosen
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        let at = clock::instant(now);
        self.agents().for_each(|ice| ice.handle_timeout(at));
        let Some(heard) = self.heard else { return };
        if self.met && !self.is_silent && now >= heard + SILENCE {
            self.is_silent = true;
            self.events.push_back(RouteEvent::Silent);
        }
        if now >= heard + LOST {
            // A peer without addresses, as with names of mDNS, may take its time: people carry descriptions too.
            let may_come = !self.met && self.ice.remote_candidates().next().is_none();
            if may_come {
                self.wait(now);
            } else {
                self.events.push_back(RouteEvent::Unreachable);
            }
        }
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Timestamp> {
        let limit = if self.met && !self.is_silent {
            SILENCE
        } else {
            LOST
        };
        let deadline = self.heard.map(|heard| heard + limit);
        let agents = self.agents().filter_map(IceAgent::poll_timeout).min();
        let agents = agents.map(clock::timestamp);
        [agents, deadline].into_iter().flatten().min()
    }

    /// The next STUN message to be sent.
    pub(super) fn poll_datagram(&mut self) -> Option<Datagram> {
        let transmit = self.agents().find_map(IceAgent::poll_transmit)?;
        Some(Datagram {
            source: transmit.source,
            destination: transmit.destination,
            bytes: transmit.contents.into(),
        })
    }

    pub(super) fn poll_event(&mut self) -> Option<RouteEvent> {
        if let Some(former) = &mut self.former
            && let Some(route) = nominated(former)
        {
            return Some(self.choose(route));
        }
        if let Some(route) = nominated(&mut self.ice) {
            self.former = None;
            return Some(self.choose(route));
        }
        self.events.pop_front()
    }

    fn choose(&mut self, route: (SocketAddr, SocketAddr)) -> RouteEvent {
        let before = self.chosen.replace(route).filter(|before| *before != route);
        self.left = before.or(self.left);
        RouteEvent::Nominated {
            changed: before.is_some(),
        }
    }
}

/// An agent that receives at these addresses.
fn agent(now: Timestamp, local: &[SocketAddr], is_lite: bool) -> Result<IceAgent, SessionError> {
    if local.is_empty() || local.len() > MOST_LOCAL {
        return Err(SessionError::Local(format!("{} were given", local.len())));
    }
    let mut ice = IceAgent::new(IceCreds::new());
    ice.set_ice_lite(is_lite);
    ice.set_max_stun_retransmits(CHECKS);
    for address in local {
        let refused = |why: String| SessionError::Local(format!("{address}: {why}"));
        if address.ip().is_unspecified() || address.port() == 0 {
            return Err(refused("it is unspecified".to_owned()));
        }
        let candidate = Candidate::host(*address, "udp").map_err(|error| refused(error.to_string()))?;
        ice.add_local_candidate(candidate);
    }
    // The agent's clock must run before the peer's first check: a check that comes before the peer's description would stop it.
    IceAgent::handle_timeout(&mut ice, clock::instant(now));
    Ok(ice)
}

/// The next route that an agent chose.
fn nominated(ice: &mut IceAgent) -> Option<(SocketAddr, SocketAddr)> {
    loop {
        if let IceAgentEvent::NominatedSend {
            source, destination, ..
        } = ice.poll_event()?
        {
            return Some((source, destination));
        }
    }
}
