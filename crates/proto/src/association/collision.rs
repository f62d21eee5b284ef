//! Set-up chunks that arrive for an existing association (RFC 9260 §5.2): both endpoints set up at once, the peer restarted,
//! or the chunk is old or a duplicate.

use std::net::IpAddr;

use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Chunk, ErrorChunk, Init};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};
use bytes::Bytes;

use super::identity::Identity;
use super::protection::{may_restart, needs_keys, own_parameter, refused_init};
use super::stall::Stall;
use super::{Association, State};
use crate::association_state::{AssociationState, permit};
use crate::control::{refuse, reply};
use crate::event::{EndpointEvent, Event};
use crate::extension::auth::offer;
use crate::inbound::Inbound;
use crate::negotiation::{
    CookieError, InitFields, InitRefusal, OwnInit, PeerInit, StateCookie, TieTags, answer_init, first_tsn,
};
use crate::path::{PathId, Paths, set_up_address};
use crate::time::Timestamp;

/// How a valid cookie relates to the association (§5.2.4, table 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CookieAction {
    /// A: the peer restarted.
    Restart,
    /// B: both endpoints set up at once.
    Collision,
    /// D: a retransmission of the COOKIE ECHO that set up the association.
    Duplicate,
    /// C, and combinations that the table does not show.
    Discard,
}

impl Identity {
    /// Compares the tags of a cookie with those of the association (§5.2.4, table 12).
    fn judge(&self, cookie: &StateCookie) -> CookieAction {
        let local = cookie.local_tag == self.local_tag;
        let peer = cookie.peer_tag == self.peer_tag;
        let ties = cookie.tie_tags == Some(self.tie_tags);
        match (local, peer) {
            (false, false) if ties => CookieAction::Restart,
            (true, false) => CookieAction::Collision,
            (true, true) => CookieAction::Duplicate,
            _ => CookieAction::Discard,
        }
    }
}

/// The addresses that an INIT from `source` would add to the association, as address parameters.
fn added_addresses(paths: &Paths, peer: &PeerInit, source: IpAddr, max_paths: usize) -> Bytes {
    // As many as the state cookie would hold; the source is one of them.
    let most = max_paths.saturating_sub(1);
    let listed = peer
        .addresses
        .iter()
        .copied()
        .filter(|address| *address != source);
    let all = listed.take(most).chain([source]);
    let mut added = ParametersBuilder::new();
    for address in all.filter(|address| !paths.knows(*address)) {
        added = added.push(&match address {
            IpAddr::V4(ip) => Parameter::Ipv4(ip),
            IpAddr::V6(ip) => Parameter::Ipv6(ip),
        });
    }
    added.finish().as_bytes().clone()
}

impl Association {
    /// An INIT for an association that exists (§5.2.1, §5.2.2).
    pub(super) fn on_init(&mut self, now: Timestamp, inbound: &Inbound, init: &Init) {
        // §5.2.1 rule 1: the INIT ACK in COOKIE-WAIT contains the tag by which this endpoint will recognise its peer. It goes to the
        // address that the application named, as if the INIT had come from there: a peer with several addresses receives it, and no other
        // host learns the tag.
        let mut inbound = inbound.clone();
        let first = self.paths.path(PathId(0));
        let elsewhere = inbound.remote.ip() != first.route.remote.ip();
        if elsewhere && matches!(self.state, State::CookieWait(_)) {
            (inbound.local, inbound.remote) = (first.route.local, first.route.remote);
        }
        let inbound = &inbound;
        self.counters.init_collisions += 1;
        let peer = match PeerInit::of_init(init, &self.config) {
            Ok(peer) => peer,
            Err(InitRefusal::Silent) => return,
            Err(InitRefusal::Abort(cause)) => {
                self.control.reply(refuse(inbound, init.initiate_tag, &[cause]));
                return;
            }
        };
        match self.state.kind() {
            // §9.2: the SHUTDOWN ACK is retransmitted, the INIT is discarded.
            AssociationState::ShutdownAckSent => {
                self.send_shutdown_chunk(now);
                return;
            }
            AssociationState::CookieWait => {}
            _ => {
                let added =
                    added_addresses(&self.paths, &peer, inbound.remote.ip(), self.config.most_paths());
                // The INIT of this association itself, late: the peer may have deleted addresses since (RFC 5061).
                let is_own = peer.fields.tag == self.identity.peer_tag;
                if !added.is_empty() && is_own && self.addresses.requests().is_some() {
                    return;
                }
                if !added.is_empty() {
                    let cause = Cause::RestartWithNewAddresses(added);
                    self.control.reply(refuse(inbound, init.initiate_tag, &[cause]));
                    return;
                }
            }
        }
        let setting_up = self.state.may(permit::SET_UP);
        if let Some(cause) = refused_init(self, &peer) {
            self.control.reply(refuse(inbound, init.initiate_tag, &[cause]));
            return;
        }
        // The RANDOM follows the same rules as the tag (RFC 4895 §6.1).
        let (tag, initial_tsn, authentication) = if setting_up {
            (
                self.identity.local_tag,
                self.identity.local_initial_tsn,
                self.authentication.own().cloned(),
            )
        } else {
            let random = &mut self.random;
            let fresh = || VerificationTag(random.nonzero_u32());
            (
                self.protection.tag_for_restart(fresh),
                first_tsn(&self.config, &mut self.random),
                offer(&self.config, || self.random.bytes()),
            )
        };
        let key_management = own_parameter(self, &peer, setting_up);
        let tie_tags = (self.state.kind() != AssociationState::CookieWait).then_some(self.identity.tie_tags);
        let own = OwnInit {
            fields: InitFields::own(&self.config, tag, initial_tsn),
            authentication,
            key_management,
        };
        let init_ack = answer_init(now, &self.config, &mut self.mint, inbound, &peer, own, tie_tags);
        self.control.reply(reply(inbound, init.initiate_tag, &[init_ack]));
    }

    /// A COOKIE ECHO for an association that exists (§5.2.4). Returns whether the chunks bundled after it are to be handled.
    pub(super) fn on_cookie_echo(&mut self, now: Timestamp, inbound: &Inbound, cookie: &Bytes) -> bool {
        let cookie = match self.mint.open(now, inbound.packet.header, cookie) {
            Ok(cookie) => cookie,
            Err(CookieError::Forged) => return false,
            Err(CookieError::Stale { staleness_us, cookie }) => {
                let same =
                    (cookie.local_tag, cookie.peer_tag) == (self.identity.local_tag, self.identity.peer_tag);
                if !same {
                    let causes = Causes::from_causes(&[Cause::StaleCookie { staleness_us }]);
                    let error = Chunk::Error(ErrorChunk { causes });
                    self.control.reply(reply(inbound, cookie.peer_tag, &[error]));
                    return false;
                }
                *cookie
            }
        };
        if !self.admits_cookie(&cookie, inbound) {
            return false;
        }
        match self.identity.judge(&cookie) {
            // A restart is authenticated by restart keys alone (draft-ietf-tsvwg-sctp-dtls-chunk §5.4).
            CookieAction::Restart if !may_restart(self) => {
                let refusal = refuse(inbound, cookie.peer_tag, &[needs_keys()]);
                self.control.reply(refusal);
                false
            }
            CookieAction::Restart => self.on_restart(now, inbound, &cookie),
            CookieAction::Collision => {
                self.identity.peer_tag = cookie.peer_tag;
                if self.state.may(permit::SET_UP) {
                    self.paths.adopt_local_address(&self.config, inbound);
                    self.adopt(now, &cookie.negotiated());
                    self.become_established(now);
                } else if cookie.authentication.is_some() {
                    self.authentication.adopt(cookie.negotiated().authentication);
                }
                self.send_cookie_ack(now, inbound);
                true
            }
            CookieAction::Duplicate => {
                if self.state.may(permit::SET_UP) {
                    self.become_established(now);
                }
                self.send_cookie_ack(now, inbound);
                true
            }
            CookieAction::Discard => false,
        }
    }

    /// Action A (restart): as if an ABORT had arrived and then a new COOKIE ECHO.
    fn on_restart(&mut self, now: Timestamp, inbound: &Inbound, cookie: &StateCookie) -> bool {
        if self.state.has_finished() {
            self.send_shutdown_chunk(now);
            let causes = Causes::from_causes(&[Cause::CookieReceivedWhileShuttingDown]);
            self.control
                .push(self.paths.answer_path(), Chunk::Error(ErrorChunk { causes }));
            return false;
        }
        self.counters.restarts += 1;
        self.notices.tell_undelivered(&mut self.sender, &mut self.paths);
        let remote = cookie.confirmed(inbound.remote);
        self.notices.tell_endpoint(EndpointEvent::PeerRestarted {
            local_tag: cookie.local_tag,
            remote,
        });
        self.identity.local_tag = cookie.local_tag;
        self.identity.local_initial_tsn = cookie.local_initial_tsn;
        // Cookies made before the restart belong to an association that no longer exists.
        self.identity.tie_tags = TieTags::new(&mut self.random);
        self.ending.on_restart();
        self.stall = Stall::default();
        // §5.2.4 A: congestion control begins again on every path; the path in use is known to work.
        let local = set_up_address(&self.config, inbound, remote.ip());
        let seed = u64::from(self.identity.local_tag.0);
        let paths = Paths::new(local, remote, &self.config, now, seed);
        self.paths = paths;
        self.sender.restart(cookie.local_initial_tsn, &self.config);
        self.control.forget_paths();
        self.adopt(now, &cookie.negotiated());
        self.notices.tell(Event::Restarted);
        self.become_established(now);
        self.send_cookie_ack(now, inbound);
        true
    }
}
