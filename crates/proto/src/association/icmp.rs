//! ICMP messages that quote a packet of the association (RFC 9260 §10; RFC 6951 §5.5).

use super::identity::Identity;
use super::{Association, State};
use crate::association_state::permit;
use crate::close_reason::CloseReason;
use crate::event::PathError;
use crate::icmp::{IcmpKind, IcmpMessage};
use crate::path::{Path, PathId, PathState};
use crate::time::Timestamp;

/// The minimum MTU of an IPv6 link (RFC 8200 §5). A smaller MTU in a *Packet Too Big* message is ignored (RFC 8899 §4.6.1).
const IPV6_MIN_MTU: u16 = 1280;

/// The proof in the quoted packet that its sender saw a packet of this association (ICMP6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoted {
    /// The quote has the peer's verification tag.
    PeerTag,
    /// The quote begins with an INIT that has this endpoint's tag as its Initiate Tag.
    Init,
}

impl Quoted {
    /// ICMP8: whether *unreachable* from the address of this path ends the association.
    fn counts(self, state: &State, path: &Path) -> bool {
        let in_cookie_wait = matches!(state, State::CookieWait(_));
        match self {
            Self::Init => in_cookie_wait,
            // Before set-up is complete no path is confirmed, but the application named the address of the first path.
            Self::PeerTag => {
                path.state != PathState::Unconfirmed || (state.may(permit::SET_UP) && path.id == PathId(0))
            }
        }
    }
}

impl Identity {
    /// ICMP6. An INIT has tag 0 and is recognised by its Initiate Tag; in other packets tag 0 proves nothing.
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
    /// Handles an ICMP message that [`crate::Endpoint::route_icmp`] routed to this association. The message has no effect unless its quote
    /// proves that its sender saw a packet of this association: the quote must have the peer's verification tag or, in an INIT, this
    /// endpoint's Initiate Tag (ICMP6). The cost is constant.
    ///
    /// * *Protocol unreachable* ends the association as an ABORT would (ICMP8, [`CloseReason::ProtocolUnreachable`]), unless the peer
    ///   merely
    ///   listed the address and no heartbeat has confirmed it: such an address may belong to another host.
    /// * *Port unreachable* over UDP does the same (RFC 6951 §5.5) if this endpoint began the association. If the peer began it, the peer
    ///   may
    ///   be behind an address translator, which answers in this way after it has forgotten its mapping; the peer's next packet then moves
    ///   the UDP port (RFC 6951 §5.4). In that case timers decide whether the peer is gone.
    /// * *Packet too big* has the effect of [`PathError::TooLarge`] (ICMP7).
    pub fn handle_icmp(&mut self, now: Timestamp, message: &IcmpMessage) {
        if !self.state.is_closed() {
            self.step(now, |it| take_icmp(it, now, message));
        }
    }
}

fn take_icmp(it: &mut Association, now: Timestamp, message: &IcmpMessage) {
    let Some(path) = it.paths.quoted(message) else {
        return;
    };
    let Some(quoted) = it.identity.quoted_by(message) else {
        return;
    };
    match message.kind {
        IcmpKind::PortUnreachable if !it.config.lower_layer.is_over_udp() => {}
        IcmpKind::PortUnreachable if !(it.initiated || it.state.has_finished()) => {}
        IcmpKind::PortUnreachable | IcmpKind::ProtocolUnreachable => {
            let remote = message.destination;
            if quoted.counts(&it.state, it.paths.path(path)) {
                // As an ABORT with the T bit: the peer has completed the shutdown and is gone (§8.4 rule 8).
                it.close(if it.state.has_finished() {
                    CloseReason::Shutdown
                } else {
                    CloseReason::ProtocolUnreachable { remote }
                });
            }
        }
        IcmpKind::TooLarge(Some(mtu)) if message.destination.is_ipv6() && mtu < IPV6_MIN_MTU => {}
        IcmpKind::TooLarge(mtu) => it.take_path_error(now, path, PathError::TooLarge(mtu)),
    }
}
