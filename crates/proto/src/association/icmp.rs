//! ICMP messages that quote a packet of the association (RFC 9260 §10; RFC 6951 §5.5).

use super::identity::Identity;
use super::{Association, State};
use crate::event::{CloseReason, PathError};
use crate::icmp::{IcmpKind, IcmpMessage};
use crate::path::{Path, PathId, PathState};
use crate::time::Timestamp;

/// The least MTU of an IPv6 link (RFC 8200 §5). A smaller MTU in a *Packet Too Big* message is ignored (RFC 8899 §4.6.1).
const IPV6_MIN_MTU: u16 = 1280;

/// What the quoted packet proves (ICMP6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoted {
    /// It has the peer's verification tag.
    PeerTag,
    /// It begins with an INIT that has this side's tag as its Initiate Tag.
    Init,
}

impl Quoted {
    /// ICMP8: whether *unreachable* from the address of this path ends the association.
    fn counts(self, state: &State, path: &Path) -> bool {
        let in_cookie_wait = matches!(state, State::CookieWait(_));
        match self {
            Self::Init => in_cookie_wait,
            // Set-up has no confirmed path, but the first one is the one that the application named.
            Self::PeerTag => {
                path.state != PathState::Unconfirmed || (state.is_setting_up() && path.id == PathId(0))
            }
        }
    }
}

impl Identity {
    /// ICMP6. Tag 0 stands for no tag: only an INIT has it, and is known by its Initiate Tag.
    fn quoted_by(&self, message: &IcmpMessage) -> Option<Quoted> {
        let header = message.header()?;
        let ports = (header.source_port, header.destination_port);
        if ports != (self.local_port, self.remote_port) {
            return None;
        }
        let peer_tag = self.peer_tag;
        if header.verification_tag.0 != 0 {
            return (header.verification_tag == peer_tag).then_some(Quoted::PeerTag);
        }
        (message.initiate_tag()? == self.local_tag).then_some(Quoted::Init)
    }
}

impl Association {
    /// Handles an ICMP message that [`crate::Endpoint::route_icmp`] said is for this association. It does nothing unless the
    /// quote proves that its sender saw a packet of this association: the peer's verification tag, or, in an INIT, this
    /// side's Initiate Tag (ICMP6). Its work is constant.
    ///
    /// * *Protocol unreachable* ends the association as an ABORT would (ICMP8, [`CloseReason::ProtocolUnreachable`]), unless the
    ///   address is one that the peer listed and that is not confirmed yet: nothing but the peer's word says that this
    ///   address is the peer's.
    /// * *Port unreachable* over UDP does the same (RFC 6951 §5.5) if this side began the association. The peer of one that
    ///   was accepted may be behind an address translator: one that has forgotten its mapping answers so too, and the peer's
    ///   next packet moves the UDP port (RFC 6951 §5.4). Timers tell whether the peer is gone.
    /// * *Packet too big* is what [`PathError::TooLarge`] is (ICMP7).
    pub fn handle_icmp(&mut self, now: Timestamp, message: &IcmpMessage) {
        self.exhausted = None;
        if self.state.is_closed() {
            return;
        }
        let Some(path) = self.paths.find(None, message.destination.ip().to_canonical()) else {
            return;
        };
        let Some(quoted) = self.identity.quoted_by(message) else {
            return;
        };
        match message.kind {
            IcmpKind::PortUnreachable if !self.config.udp_encapsulation => {}
            IcmpKind::PortUnreachable if !(self.initiated || self.state.has_finished()) => {}
            IcmpKind::PortUnreachable | IcmpKind::ProtocolUnreachable => {
                let remote = message.destination;
                if quoted.counts(&self.state, self.paths.path(path)) {
                    // As an ABORT with the T bit: the peer has completed the shutdown and is gone (§8.4 rule 8).
                    self.close(if self.state.has_finished() {
                        CloseReason::Shutdown
                    } else {
                        CloseReason::ProtocolUnreachable { remote }
                    });
                }
            }
            IcmpKind::TooLarge(Some(mtu)) if message.destination.is_ipv6() && mtu < IPV6_MIN_MTU => {}
            IcmpKind::TooLarge(mtu) => self.handle_path_error(now, path, PathError::TooLarge(mtu)),
        }
    }
}
