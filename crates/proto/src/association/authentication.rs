//! Authenticated chunks (RFC 4895): the calls of the application, and the rules of §6.3 for each received chunk.

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Chunk, ErrorChunk, RawChunk, kind};

use super::packet_notes::{Onward, PacketNotes};
use super::{Association, State};
use crate::config::SharedKey;
use crate::error::AuthenticationKeyError;
use crate::event::{AuthenticationEvent, Event};
use crate::extension::auth::{CookieAdmission, Verdict};
use crate::inbound::Inbound;
use crate::negotiation::StateCookie;

/// The endpoint pair shared keys of an association (RFC 4895 §6.1): see [`Association::authentication_keys`].
#[derive(Debug)]
pub struct AuthenticationKeys<'a> {
    association: &'a mut Association,
}

impl AuthenticationKeys<'_> {
    /// Adds a key, or replaces the key with the same identifier (RFC 6458 §8.3.2). Give the key to both endpoints before one of them makes
    /// it active.
    ///
    /// # Errors
    /// See [`AuthenticationKeyError`].
    pub fn put(&mut self, key: SharedKey) -> Result<(), AuthenticationKeyError> {
        self.association.change(|it| it.authentication.put_key(key))
    }

    /// Signs with this key from now on, retransmissions included (RFC 6458 §8.1.20). The peer must have the key; it reports
    /// [`AuthenticationEvent::NewKey`].
    ///
    /// # Errors
    /// See [`AuthenticationKeyError`].
    pub fn activate(&mut self, id: u16) -> Result<(), AuthenticationKeyError> {
        self.association.change(|it| it.authentication.activate_key(id))
    }

    /// Forgets a key (RFC 6458 §8.3.4): chunks that the peer signs with it are discarded from now on.
    ///
    /// # Errors
    /// See [`AuthenticationKeyError`].
    pub fn remove(&mut self, id: u16) -> Result<(), AuthenticationKeyError> {
        self.association.change(|it| it.authentication.remove_key(id))
    }
}

/// Authenticated chunks (RFC 4895).
impl Association {
    /// The endpoint pair shared keys, to change them.
    pub fn authentication_keys(&mut self) -> AuthenticationKeys<'_> {
        AuthenticationKeys { association: self }
    }
}

/// Received chunks (§6.3).
impl Association {
    /// Verifies an AUTH chunk, and discards chunks that must be authenticated and are not. `None` if the chunk is to be handled.
    pub(super) fn authenticate(
        &mut self,
        inbound: &Inbound,
        raw: &RawChunk<'_>,
        notes: &mut PacketNotes,
    ) -> Option<Onward> {
        if raw.kind != kind::AUTH {
            let refused = self.authentication.refuses(raw.kind);
            self.counters.chunks_unauthenticated += u64::from(refused);
            // An ASCONF may come from any address: if it is not authenticated, the rest of its packet is discarded too (RFC 5061 §5.2 D5).
            return refused.then_some(match raw.kind {
                kind::ASCONF => Onward::Break(()),
                _ => Onward::Continue(()),
            });
        }
        let Some(verdict) = self.authentication.on_auth(raw) else {
            // In COOKIE-WAIT the keys are not known yet: the cookie has them.
            let waits = matches!(self.state, State::CookieWait(_)) && inbound.has_cookie_echo_after_auth();
            return waits.then_some(Onward::Continue(()));
        };
        Some(match verdict {
            Verdict::Genuine { new_key } => {
                self.counters.packets_verified += 1;
                if let Some(id) = new_key {
                    let event = Event::Authentication(AuthenticationEvent::NewKey(id));
                    self.notices.tell_if_few(event);
                }
                Onward::Continue(())
            }
            Verdict::Discard => {
                self.counters.packets_unverified += 1;
                Onward::Break(())
            }
            Verdict::UnsupportedHmac(hmac_id) => {
                self.counters.packets_unverified += 1;
                let causes = Causes::from_causes(&[Cause::UnsupportedHmac { hmac_id }]);
                self.answer(Chunk::Error(ErrorChunk { causes }), notes);
                Onward::Break(())
            }
        })
    }

    /// Whether a packet with this valid cookie may set up the association. In COOKIE-WAIT the cookie has the only parameters of the peer;
    /// later, those of the association count, and the COOKIE ECHO has been verified with them.
    pub(super) fn admits_cookie(&mut self, cookie: &StateCookie, inbound: &Inbound) -> bool {
        if !matches!(self.state, State::CookieWait(_)) {
            return true;
        }
        let exchange = cookie.negotiated().authentication;
        match self.authentication.admit_cookie(&self.config, exchange, inbound) {
            CookieAdmission::Plain => true,
            CookieAdmission::Authenticated => {
                self.authentication.begin_packet(true);
                self.counters.packets_verified += 1;
                true
            }
            CookieAdmission::Refused => false,
        }
    }
}

/// Set-up is complete: reports that the peer does not support authentication, if this endpoint offered it.
pub(super) fn tell_authentication(it: &mut Association) {
    if it.authentication.is_negotiated() == Some(false) {
        let event = Event::Authentication(AuthenticationEvent::NotSupported);
        it.notices.tell_if_few(event);
    }
}
