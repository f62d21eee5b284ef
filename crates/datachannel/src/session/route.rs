//! ICE (RFC 8445): the addresses between which the datagrams of a session travel.

use std::net::SocketAddr;
use std::time::Instant;

use is::stun::{StunMessage, StunPacket};
use is::{Candidate, IceAgent, IceAgentEvent, IceConnectionState, IceCreds};

use super::Datagram;
use super::learned::Learned;
use crate::sdp::Description;
use crate::session_config::SessionError;

/// The most local candidates.
const MOST_LOCAL: usize = 16;

/// Something that ICE found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteEvent {
    /// The route is chosen.
    Nominated,
    /// No route works.
    Unreachable,
}

/// The addresses of a session.
pub(super) struct Route {
    ice: IceAgent,
    learned: Learned,
    /// This side's address and the peer's, as soon as they are known.
    chosen: Option<(SocketAddr, SocketAddr)>,
}

impl Route {
    /// Of a session that receives at the addresses `local`; `is_lite` if this side only answers checks.
    pub(super) fn new(now: Instant, local: &[SocketAddr], is_lite: bool) -> Result<Self, SessionError> {
        if local.is_empty() || local.len() > MOST_LOCAL {
            return Err(SessionError::Local(format!("{} were given", local.len())));
        }
        let mut ice = IceAgent::new(IceCreds::new());
        ice.set_ice_lite(is_lite);
        for address in local {
            let refused = |why: String| SessionError::Local(format!("{address}: {why}"));
            if address.ip().is_unspecified() || address.port() == 0 {
                return Err(refused("it is unspecified".to_owned()));
            }
            let candidate = Candidate::host(*address, "udp").map_err(|error| refused(error.to_string()))?;
            ice.add_local_candidate(candidate);
        }
        // The agent's clock must run before the peer's first check: a check that comes before the peer's description would stop it.
        IceAgent::handle_timeout(&mut ice, now);
        Ok(Self {
            ice,
            learned: Learned::default(),
            chosen: None,
        })
    }

    pub(super) fn is_lite(&self) -> bool {
        self.ice.ice_lite()
    }

    pub(super) fn credentials(&self) -> IceCreds {
        self.ice.local_credentials().clone()
    }

    pub(super) fn candidates(&self) -> Vec<Candidate> {
        self.ice.local_candidates().collect()
    }

    /// Both descriptions are known; `offered` if this side made the offer.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        peer: &Description,
        offered: bool,
    ) -> Result<(), SessionError> {
        if peer.is_lite && self.is_lite() {
            return Err(SessionError::BothLite);
        }
        // RFC 8445 §6.1.1.
        self.ice
            .set_controlling(!self.is_lite() && (offered || peer.is_lite));
        self.ice.set_remote_credentials(peer.credentials.clone());
        for candidate in &peer.candidates {
            self.ice.add_remote_candidate(candidate.clone());
        }
        self.ice.handle_timeout(now);
        Ok(())
    }

    /// Whether a STUN message is for this session.
    pub(super) fn accepts(&self, bytes: &[u8]) -> bool {
        StunMessage::parse(bytes).is_ok_and(|message| self.ice.accepts_message(&message))
    }

    /// A STUN message arrived. Messages of strangers have no effect.
    pub(super) fn handle_stun(
        &mut self,
        now: Instant,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
    ) {
        if let Ok(message) = StunMessage::parse(bytes)
            && self.ice.accepts_message(&message)
            && self.learned.admits(source, message.mapped_address())
        {
            let packet = StunPacket {
                proto: is::Protocol::Udp,
                source,
                destination,
                message,
            };
            self.ice.handle_packet(now, packet);
        }
    }

    /// Whether ICE has verified the address of the peer that another datagram came from. The peer may begin with DTLS before it nominates a
    /// route: the answers then take the way back.
    pub(super) fn admits(&mut self, source: SocketAddr, destination: SocketAddr) -> bool {
        let is_verified = self.ice.has_viable_remote_candidate(source);
        if is_verified {
            self.chosen.get_or_insert((destination, source));
        }
        is_verified
    }

    /// This side's address and the peer's, as soon as they are known.
    pub(super) fn chosen(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.chosen
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.ice.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        self.ice.poll_timeout()
    }

    /// The next STUN message to be sent.
    pub(super) fn poll_datagram(&mut self) -> Option<Datagram> {
        let transmit = self.ice.poll_transmit()?;
        Some(Datagram {
            source: transmit.source,
            destination: transmit.destination,
            bytes: transmit.contents.into(),
        })
    }

    pub(super) fn poll_event(&mut self) -> Option<RouteEvent> {
        loop {
            match self.ice.poll_event()? {
                IceAgentEvent::NominatedSend {
                    source, destination, ..
                } => {
                    self.chosen = Some((source, destination));
                    return Some(RouteEvent::Nominated);
                }
                IceAgentEvent::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                    return Some(RouteEvent::Unreachable);
                }
                _ => {}
            }
        }
    }
}
