//! Protected packets (draft-ietf-tsvwg-sctp-dtls-chunk): the calls of the driver, which manages the keys, and the rules for packets before
//! both directions are protected.

use std::borrow::Cow;

use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::kind;
use anabranch_wire::parameter::KeyManagement;
use bytes::Bytes;

use super::{Association, State};
use crate::association_state::permit;
use crate::close_reason::CloseReason;
use crate::error::{KeyError, SendError};
use crate::event::Event;
use crate::extension::protection::{
    Agreement, KEY_MANAGEMENT_PPID, KEY_STREAM, KeyExchange, KeyUsage, RecordKey, answer,
    is_accepted_in_clear,
};
use crate::inbound::Inbound;
use crate::message::{MessagePart, SendOptions};
use crate::negotiation::{Negotiated, PeerInit};
use crate::time::Timestamp;

/// The interface between key management and the protection of packets (draft-ietf-tsvwg-sctp-dtls-chunk §7): see
/// [`Association::key_manager`].
#[derive(Debug)]
pub struct KeyManager<'a> {
    association: &'a mut Association,
}

impl KeyManager<'_> {
    /// The role of this endpoint, the method, and the parameters from which keys are derived. `None` before set-up is complete, and without
    /// protection.
    #[must_use]
    pub fn agreement(&self) -> Option<&Agreement> {
        let agreement = self.association.protection.agreement();
        agreement.filter(|_| !self.association.state.may(permit::SET_UP))
    }

    /// Sends a message of key management: reliable and in order, on stream 0. It is sent before user messages are permitted, and although the
    /// send buffer may be full.
    ///
    /// # Errors
    /// See [`SendError`]: the association has ended, or the application has begun a message on stream 0 in parts.
    pub fn send(&mut self, now: Timestamp, message: Bytes) -> Result<(), SendError> {
        self.association.step(now, |it| {
            if !it.state.may(permit::SEND_DATA) {
                return Err(SendError::Closed);
            }
            it.sender
                .queue
                .check_push(KEY_STREAM, message.len(), false, true)?;
            let options = SendOptions {
                ppid: KEY_MANAGEMENT_PPID,
                ..SendOptions::default()
            };
            let len = message.len();
            it.sender
                .queue
                .push(now, KEY_STREAM, message, &options, false, true)?;
            it.sender.count(KEY_STREAM, len);
            it.notices.on_data();
            Ok(())
        })
    }

    /// Whether [`KeyManager::recv`] has a message.
    #[must_use]
    pub fn has_message(&self) -> bool {
        self.association.receiver.has_key_management()
    }

    /// The next message, or part of one, of the peer's key management, and whether it arrived protected.
    pub fn recv(&mut self, now: Timestamp) -> Option<(MessagePart, bool)> {
        if !self.association.protection.is_on() {
            return None;
        }
        let Some(part) = self.association.receiver.recv_key_management(now) else {
            self.association.notices.on_keys_read_out();
            return None;
        };
        Some((part, !self.association.protection.accepts_clear()))
    }

    /// Installs the key of the next epoch for packets of the peer. Install it before the peer can use it.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn install_receiving(&mut self, epoch: u64, key: Box<dyn RecordKey>) -> Result<(), KeyError> {
        self.association
            .change(|it| it.protection.install_receiving(epoch, key))
    }

    /// Encrypts packets with the key of the next epoch from now on. Before the first key, the key management has read a message of the peer
    /// which proves that the peer received all messages so far.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn install_sending(
        &mut self,
        now: Timestamp,
        epoch: u64,
        key: Box<dyn RecordKey>,
    ) -> Result<(), KeyError> {
        self.association.step(now, |it| {
            it.protection.install_sending(epoch, key)?;
            // The peer acknowledges in clear until it may send protected packets, and such a SACK counts no more. Waiting for it could
            // hold back the message that permits it.
            if it.protection.is_pending() {
                it.sending(now, |sender, cx| sender.on_all_received(cx));
            }
            Ok(())
        })
    }

    /// Forgets the key of an epoch for packets of the peer.
    pub fn remove_receiving(&mut self, epoch: u64) {
        self.association
            .change(|it| it.protection.remove_receiving(epoch));
    }

    /// Accepts protected packets alone from now on, and permits user messages: [`Event::Protected`]. Without keys for both directions, or if
    /// anything arrived in clear beside the messages of key management, the association ends. A shutdown that was requested before begins now:
    /// send the last message of the handshake before.
    pub fn require(&mut self, now: Timestamp) {
        self.association.step(now, |it| {
            let forged = it.protection.accepts_clear() && !it.receiver.has_only_key_management();
            let was_pending = it.protection.is_pending();
            if forged || !it.protection.require() {
                fail(it, Cow::Borrowed(FORGED));
                return;
            }
            // After a restart, restart keys have protected the packets since set-up.
            if was_pending {
                it.notices.tell(Event::Protected);
                it.advance_addresses(now);
            }
        });
    }

    /// Keeps the restart keys of the newest epoch (draft-ietf-tsvwg-sctp-dtls-chunk §5.4): `receiving` for packets of the peer, `sending` for
    /// packets to it. They stay unused until the peer restarts the association. The restart keys of the epoch before are kept until
    /// [`KeyManager::remove_receiving`] names it.
    ///
    /// # Errors
    /// See [`KeyError`]: one of the endpoints does not keep restart keys ([`Agreement::permits_restart`]).
    pub fn install_restart(
        &mut self,
        epoch: u64,
        receiving: Box<dyn RecordKey>,
        sending: Box<dyn RecordKey>,
    ) -> Result<(), KeyError> {
        self.association
            .change(|it| it.protection.install_restart(epoch, receiving, sending))
    }

    /// Restarts an association of which this endpoint has nothing left but restart keys. Call it right after [`crate::Endpoint::connect`], with
    /// the same addresses and ports as before. The keys must never have been used, and must never be used again: record their use before this
    /// call in a place that outlives the program. When the peer has answered, the association is protected by them ([`Event::Protected`]).
    /// Then new keys should be agreed soon, beginning with epoch 3.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn restart(
        &mut self,
        epoch: u64,
        receiving: Box<dyn RecordKey>,
        sending: Box<dyn RecordKey>,
    ) -> Result<(), KeyError> {
        self.association.change(|it| {
            if !matches!(it.state, State::CookieWait(_)) {
                return Err(KeyError::NoRestart);
            }
            it.protection.restart(epoch, receiving, sending)
        })
    }

    /// Forgets the restart keys with which the association was restarted: packets of the peer with them are discarded from now on.
    pub fn end_restart(&mut self) {
        self.association.change(|it| it.protection.end_restart());
    }

    /// How often the keys of this epoch were used.
    #[must_use]
    pub fn usage(&self, epoch: u64) -> KeyUsage {
        self.association.protection.usage(epoch)
    }

    /// Ends the association: no keys could be agreed. The peer receives the first 1,024 bytes of the reason.
    pub fn fail(&mut self, now: Timestamp, reason: impl Into<Cow<'static, str>>) {
        let reason = reason.into();
        self.association.step(now, |it| fail(it, reason));
    }
}

/// The reason if a packet in clear was not of the peer.
const FORGED: &str = "packets were forged while keys were agreed";

fn fail(it: &mut Association, reason: Cow<'static, str>) {
    let text = format!("key management failed: {reason}");
    let text = Bytes::from(text).slice(..);
    let text = text.slice(..text.len().min(super::MOST_REASON));
    it.abort_with(
        Cause::UserInitiatedAbort(text),
        CloseReason::ProtectionFailed(reason),
    );
}

/// Protected packets (draft-ietf-tsvwg-sctp-dtls-chunk).
impl Association {
    /// The messages and keys of key management. For drivers.
    pub fn key_manager(&mut self) -> KeyManager<'_> {
        KeyManager { association: self }
    }
}

/// The reason that the application is told if this endpoint refuses an association because its packets would not be protected.
pub(super) fn why_unprotected(cause: &Cause) -> Option<CloseReason> {
    let why = match cause {
        Cause::MissingDtlsSupport => "this side requires encryption (DTLS chunks), and the peer offers none",
        Cause::NoCommonKeyManagement => "this side supports no key management method of the peer",
        Cause::IncompatibleKeyManagementRoles => {
            "the peer takes no role in key management that this side could complement"
        }
        Cause::TieBreakerCollision => "both sides drew the same tie breaker: connect again",
        _ => return None,
    };
    Some(CloseReason::ProtectionFailed(Cow::Borrowed(why)))
}

/// Adopts what set-up negotiated about keys.
pub(super) fn adopt_protection(it: &mut Association, negotiated: &Negotiated<'_>) {
    let Some((own, parameters)) = it.protection.own().zip(negotiated.protection) else {
        return;
    };
    let exchange = KeyExchange {
        own: parameters.own.unwrap_or(own).clone(),
        peer: parameters.peer.clone(),
    };
    // The parameters were checked before: only equal tie breakers are left.
    it.protection.adopt(exchange.agree().ok());
}

/// The cause with which an INIT for an existing association is refused, if its packets are protected: a restart, if one of the endpoints has no
/// restart keys, or a set-up from both ends in which no roles can be chosen.
pub(super) fn refused_init(it: &Association, peer: &PeerInit) -> Option<Cause> {
    let own = it.protection.own()?;
    if it.state.may(permit::SET_UP) {
        let exchange = KeyExchange {
            own: own.clone(),
            peer: peer.key_management.clone()?,
        };
        return exchange.agree().err();
    }
    // The INIT of this association itself, late, is answered as always.
    let is_own = peer.fields.tag == it.identity.peer_tag;
    let keeps_keys = |parameter: &KeyManagement| parameter.flags().restart;
    let restarts = it.protection.permits_restart() && peer.key_management.as_ref().is_some_and(keeps_keys);
    (!is_own && !restarts).then(needs_keys)
}

/// The cause with which a restart without restart keys is refused.
pub(super) fn needs_keys() -> Cause {
    let text = b"an association with these addresses and ports is encrypted, and cannot be restarted without its keys";
    Cause::UserInitiatedAbort(Bytes::from_static(text))
}

/// The parameter of an INIT ACK that answers the INIT of this peer: during set-up that of the own INIT, otherwise one with a new tie breaker
/// (draft-ietf-tsvwg-sctp-dtls-chunk §5.4).
pub(super) fn own_parameter(
    it: &mut Association,
    peer: &PeerInit,
    setting_up: bool,
) -> Option<KeyManagement> {
    if setting_up {
        return it.protection.own().cloned();
    }
    let config = it.config.protection.as_ref()?;
    Some(answer(
        config,
        peer.key_management.as_ref()?,
        it.random.next_u32(),
    ))
}

/// Whether the COOKIE ECHO of the present packet may restart the association: without protection always, with protection only if restart keys
/// decrypted the packet.
pub(super) fn may_restart(it: &Association) -> bool {
    !it.protection.is_on() || it.protection.opened_for_restart()
}

/// Ends the association if its key may encrypt no more packets: the driver has not installed another one in time.
pub(super) fn end_if_exhausted(it: &mut Association) {
    if it.protection.is_exhausted() && !it.state.is_closed() {
        fail(
            it,
            Cow::Borrowed("the keys were used too often, and no others were agreed in time"),
        );
    }
}

/// Decrypts a packet; `None` if it is discarded. The first protected packet ends the time in which packets in clear are accepted: then
/// nothing may have arrived beside key management, or an attacker could have put data before that of the peer.
pub(super) fn unprotect(it: &mut Association, inbound: Inbound) -> Option<Inbound> {
    // An attacker that does not know the tag causes no decryption.
    let is_protected = inbound.is_dtls();
    let tag = inbound.packet.header.verification_tag;
    if is_protected && !it.identity.is_proven(&inbound) && !it.protection.has_restart_tag(tag) {
        return None;
    }
    let accepted_clear = it.protection.accepts_clear();
    let opened = it.protection.open(inbound, it.state.may(permit::SET_UP))?;
    let begins_with = |kind| opened.leading().is_some_and(|raw| raw.kind == kind);
    // Unused restart keys serve no other purpose than a restart (§5.4).
    if it.protection.opened_for_restart() && !begins_with(kind::COOKIE_ECHO) {
        return None;
    }
    let begins = accepted_clear && !it.protection.accepts_clear();
    if begins && !it.receiver.has_only_key_management() {
        fail(it, Cow::Borrowed(FORGED));
        return None;
    }
    // A packet with anything else than key management is discarded as a whole: the peer does not send such packets yet.
    let types = it.config.chunk_types;
    if it.protection.accepts_clear() && !opened.chunks().all(|raw| is_accepted_in_clear(raw.under(types))) {
        return None;
    }
    // A packet from an address that is not the peer's may only ask to add it (RFC 5061 §5.2 D2).
    let known = it.paths.knows(opened.remote.ip());
    (!is_protected || known || begins_with(kind::ASCONF)).then_some(opened)
}
