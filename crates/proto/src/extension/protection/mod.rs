//! Protected packets (draft-ietf-tsvwg-sctp-dtls-chunk): what set-up agrees about keys (`agreement`), the cryptography that the driver has
//! (`record_key`), the encryption of packets (`sending`), their decryption (`receiving`), the replay window (`replay`) and the keys for a restart
//! (`restart`). [`Protection`] is the state of an association. No cryptography is here, and an association without protection has an empty
//! [`Protection`].

mod agreement;
mod receiving;
mod record_key;
mod replay;
mod restart;
mod sending;

use anabranch_wire::chunk::{Chunk, Dtls, DtlsHeader, EData, EIData, RawChunk, experimental_kind, kind};
use anabranch_wire::packet::{COMMON_HEADER_LEN, Packet};
use anabranch_wire::parameter::KeyManagement;
use anabranch_wire::{Ppid, StreamId, VerificationTag};

#[cfg(test)]
pub(crate) use agreement::MOST_COOKIE_LEN;
pub use agreement::{Agreement, KeyRole};
pub(crate) use agreement::{KeyExchange, KeyParameters, answer, check_peer, cookie_len, offer};
pub use record_key::{KeyLimits, KeyUsage, RecordKey};

use crate::config::PROTECTION_OVERHEAD;
use crate::error::KeyError;
use crate::inbound::Inbound;
use crate::stats::ProtectionStats;
use receiving::{Context, Receiving, Refused};
use restart::{RestartKeys, Unused};
use sending::Sending;

pub(crate) use crate::message::{KEY_MANAGEMENT_PPID, KEY_STREAM};

/// The epoch of the first keys (draft-ietf-tsvwg-sctp-dtls-chunk §3.1).
pub const FIRST_EPOCH: u64 = 3;

/// The protection of an association.
#[derive(Debug, Default)]
pub(crate) struct Protection(Option<Box<State>>);

#[derive(Debug)]
struct State {
    /// The parameter that this endpoint sends in its INIT. It uses it in each INIT ACK before set-up is complete as well.
    own: KeyManagement,
    replay_window: u16,
    /// `None` before the peer's parameter is known.
    agreement: Option<Agreement>,
    sending: Option<Sending>,
    receiving: Receiving,
    /// The restart keys with which the peer may restart the association.
    unused: Unused,
    /// The association was restarted with restart keys.
    restarted: bool,
    /// The restart key of an association that this endpoint restarts, until its INIT was answered: the INIT leaves in clear.
    resting: Option<Sending>,
    /// No packet in clear is accepted any more, except INIT and INIT ACK.
    enforced: bool,
    /// Both directions are protected: user messages may be sent.
    ready: bool,
    counts: ProtectionStats,
    /// The packets of the batch before their encryption, if the trace asked for them.
    plain: Option<Vec<Vec<u8>>>,
}

/// Set-up and keys.
impl Protection {
    /// The protection with this parameter of the own INIT.
    pub(crate) fn new(own: KeyManagement, replay_window: u16) -> Self {
        Self(Some(Box::new(State {
            own,
            replay_window,
            agreement: None,
            sending: None,
            receiving: Receiving::default(),
            unused: Unused::default(),
            restarted: false,
            resting: None,
            enforced: false,
            ready: false,
            counts: ProtectionStats::default(),
            plain: None,
        })))
    }

    /// Whether packets are protected, or are going to be.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The parameter of this endpoint's INIT.
    pub(crate) fn own(&self) -> Option<&KeyManagement> {
        self.0.as_ref().map(|state| &state.own)
    }

    /// The parameters of both endpoints are known. The keys of an earlier set-up are forgotten, unless this set-up is a restart with restart
    /// keys.
    pub(crate) fn adopt(&mut self, agreement: Option<Agreement>) {
        let Some(state) = &mut self.0 else {
            return;
        };
        state.agreement = agreement;
        if let Some(keys) = state.unused.take_opened() {
            state.receiving = Receiving::restarted(keys.receiving);
            state.sending = Some(keys.sending);
            state.counts.newest_received = None;
            state.restarted = true;
        } else if state.restarted && !state.ready {
            state.sending = state.resting.take().or(state.sending.take());
        } else {
            state.sending = None;
            state.receiving = Receiving::default();
            (state.enforced, state.ready) = (false, false);
        }
    }

    pub(crate) fn agreement(&self) -> Option<&Agreement> {
        self.0.as_ref()?.agreement.as_ref()
    }

    /// Whether set-up is negotiated and no keys protect both directions yet: user messages must wait.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        self.0.as_ref().is_some_and(|state| !state.ready)
    }

    /// Whether packets in clear are still accepted.
    #[inline(always)]
    pub(crate) fn accepts_clear(&self) -> bool {
        self.0.as_ref().is_some_and(|state| !state.enforced)
    }

    /// Installs the key of the next epoch for packets of the peer.
    pub(crate) fn install_receiving(&mut self, epoch: u64, key: Box<dyn RecordKey>) -> Result<(), KeyError> {
        let state = self.0.as_mut().ok_or(KeyError::NotNegotiated)?;
        follows(state.receiving.newest(), epoch)?;
        state.receiving.install(epoch, key, state.replay_window);
        Ok(())
    }

    /// Encrypts with the key of the next epoch from now on.
    pub(crate) fn install_sending(&mut self, epoch: u64, key: Box<dyn RecordKey>) -> Result<(), KeyError> {
        let state = self.0.as_mut().ok_or(KeyError::NotNegotiated)?;
        let primary = state.sending.as_ref().filter(|sending| !sending.restart);
        follows(primary.map(|sending| sending.epoch), epoch)?;
        state.sending = Some(Sending::new(epoch, key));
        Ok(())
    }

    pub(crate) fn remove_receiving(&mut self, epoch: u64) {
        if let Some(state) = &mut self.0 {
            state.receiving.remove(epoch);
            state.unused.remove(epoch);
        }
    }

    /// Accepts no packet in clear from now on, and permits user messages. False without keys for both directions.
    pub(crate) fn require(&mut self) -> bool {
        let Some(state) = &mut self.0 else {
            return false;
        };
        let complete = state.sending.is_some() && !state.receiving.is_empty();
        state.enforced |= complete;
        state.ready |= complete;
        complete
    }

    /// How often the keys of this epoch were used.
    pub(crate) fn usage(&self, epoch: u64) -> KeyUsage {
        let Some(state) = &self.0 else {
            return KeyUsage::default();
        };
        let primary = state.sending.as_ref().filter(|sending| !sending.restart);
        let sending = primary.filter(|sending| sending.epoch == epoch);
        KeyUsage {
            sealed: sending.map_or(0, |sending| sending.usage().sealed),
            ..state.receiving.usage(epoch)
        }
    }

    pub(crate) fn stats(&self) -> Option<ProtectionStats> {
        let state = self.0.as_ref()?;
        Some(ProtectionStats {
            is_protected: state.ready,
            is_restarted: state.restarted,
            epoch: state.sending.as_ref().map(|sending| sending.epoch),
            ..state.counts
        })
    }
}

/// The epochs of a direction begin at 3, and each is one more than the one before.
fn follows(last: Option<u64>, epoch: u64) -> Result<(), KeyError> {
    let expected = last.map_or(FIRST_EPOCH, |last| last + 1);
    if epoch == expected {
        Ok(())
    } else {
        Err(KeyError::Epoch { expected })
    }
}

/// Restarts (draft-ietf-tsvwg-sctp-dtls-chunk §5.4).
impl Protection {
    /// Keeps the restart keys of an epoch, with which the peer may restart the association.
    pub(crate) fn install_restart(
        &mut self,
        epoch: u64,
        receiving: Box<dyn RecordKey>,
        sending: Box<dyn RecordKey>,
    ) -> Result<(), KeyError> {
        let state = self.0.as_mut().ok_or(KeyError::NotNegotiated)?;
        let permitted = state.agreement.as_ref().is_some_and(Agreement::permits_restart);
        if !permitted {
            return Err(KeyError::NoRestart);
        }
        // The primary keys of the epoch come first.
        let newest = state.receiving.newest();
        if newest != Some(epoch) {
            let expected = newest.unwrap_or(FIRST_EPOCH);
            return Err(KeyError::Epoch { expected });
        }
        state.unused.install(RestartKeys {
            receiving: Context::new(epoch, receiving, state.replay_window),
            sending: Sending::for_restart(epoch, sending),
        });
        Ok(())
    }

    /// This endpoint restarts the association of an earlier run with these keys. The INIT was not answered yet.
    pub(crate) fn restart(
        &mut self,
        epoch: u64,
        receiving: Box<dyn RecordKey>,
        sending: Box<dyn RecordKey>,
    ) -> Result<(), KeyError> {
        let state = self.0.as_mut().ok_or(KeyError::NotNegotiated)?;
        if !state.own.flags().restart || state.restarted {
            return Err(KeyError::NoRestart);
        }
        state.receiving = Receiving::restarted(Context::new(epoch, receiving, state.replay_window));
        state.resting = Some(Sending::for_restart(epoch, sending));
        (state.restarted, state.enforced) = (true, true);
        Ok(())
    }

    /// The cookie was too old: an INIT leaves again, in clear.
    pub(crate) fn on_stale_cookie(&mut self) {
        if let Some(state) = &mut self.0 {
            state.resting = state.resting.take().or(state.sending.take());
        }
    }

    /// Set-up is complete. True if it is a restart by this endpoint: then user messages may be sent.
    pub(crate) fn complete_restart(&mut self) -> bool {
        self.0.as_mut().is_some_and(|state| {
            let completes = state.restarted && !state.ready;
            state.ready |= completes;
            completes
        })
    }

    /// Forgets the restart key with which the association was restarted, for packets of the peer.
    pub(crate) fn end_restart(&mut self) {
        if let Some(state) = &mut self.0 {
            state.receiving.end_restart();
        }
    }

    /// Whether the peer can restart the association.
    pub(crate) fn permits_restart(&self) -> bool {
        self.0.as_ref().is_some_and(|state| !state.unused.is_empty())
    }

    /// The tag of an INIT ACK that answers a restart; `fresh` if the peer may not restart the association.
    pub(crate) fn tag_for_restart(&mut self, fresh: impl FnOnce() -> VerificationTag) -> VerificationTag {
        match self.0.as_mut().filter(|state| !state.unused.is_empty()) {
            Some(state) => state.unused.tag(fresh),
            None => fresh(),
        }
    }

    /// Whether a packet with this tag may be decrypted with unused restart keys.
    pub(crate) fn has_restart_tag(&self, tag: VerificationTag) -> bool {
        self.0.as_ref().is_some_and(|state| state.unused.has_tag(tag))
    }

    /// Whether unused restart keys decrypted the present packet.
    pub(crate) fn opened_for_restart(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.unused.opened())
    }
}

/// Packets to the peer.
impl Protection {
    /// Whether packets are encrypted.
    #[inline(always)]
    pub(crate) fn seals(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.sending.is_some())
    }

    /// The bytes by which a packet is longer when it is encrypted.
    #[inline(always)]
    pub(crate) fn overhead(&self) -> usize {
        if self.seals() {
            usize::from(PROTECTION_OVERHEAD)
        } else {
            0
        }
    }

    /// Whether no more packets may be encrypted.
    pub(crate) fn is_exhausted(&self) -> bool {
        let sending = self.0.as_ref().and_then(|state| state.sending.as_ref());
        sending.is_some_and(Sending::is_exhausted)
    }

    /// Whether a complete packet with this header and first chunk is encrypted: packets of another tag are answers to a peer that set up
    /// another association, and an INIT ACK is always in clear.
    pub(crate) fn seals_packet(&self, packet: &[u8], peer: VerificationTag) -> bool {
        let tag = packet.get(4..8).is_some_and(|tag| tag == peer.0.to_be_bytes());
        self.seals() && tag && packet.get(COMMON_HEADER_LEN) != Some(&kind::INIT_ACK)
    }

    /// Leaves room in the buffer for what is before a packet of this length.
    pub(crate) fn begin(&self, buffer: &mut Vec<u8>, packet: usize) {
        Sending::begin(buffer, packet);
    }

    /// Encrypts the packet that begins after the room at `begin`, and makes its checksum. Returns the length of the result. If the packet
    /// cannot be encrypted, it is removed from the buffer.
    pub(crate) fn seal(&mut self, buffer: &mut Vec<u8>, begin: usize) -> Option<usize> {
        let state = self.0.as_mut()?;
        let plain = (state.plain.is_some()).then(|| buffer[begin + Dtls::HEADER_LEN..].to_vec());
        let sealed = state
            .sending
            .as_mut()
            .is_some_and(|sending| sending.seal(buffer, begin));
        if !sealed {
            buffer.truncate(begin);
            return None;
        }
        state.counts.packets_sealed += 1;
        if let Some(kept) = &mut state.plain {
            kept.extend(plain);
        }
        Some(buffer.len() - begin)
    }
}

/// The trace, which reads packets before their encryption.
impl Protection {
    /// Keeps the packets that are encrypted until [`Protection::take_plain`].
    pub(crate) fn keep_plain(&mut self) {
        if let Some(state) = &mut self.0 {
            state.plain = Some(Vec::new());
        }
    }

    /// The packets that were encrypted since [`Protection::keep_plain`], before their encryption. None is kept any more.
    pub(crate) fn take_plain(&mut self) -> Vec<Vec<u8>> {
        let state = self.0.as_mut();
        state.and_then(|state| state.plain.take()).unwrap_or_default()
    }
}

/// Packets of the peer.
impl Protection {
    /// Decrypts a packet. `None` if it is discarded: a DTLS chunk that is not authentic, was replayed or is not alone; or a packet in clear
    /// when none is accepted any more. While this endpoint restarts an association (`sets_up`), an ABORT or ERROR in clear is accepted: a peer
    /// that has no such association cannot encrypt it.
    pub(crate) fn open(&mut self, inbound: Inbound, sets_up: bool) -> Option<Inbound> {
        let Some(state) = &mut self.0 else {
            return Some(inbound);
        };
        state.unused.begin_packet();
        let first = inbound.packet.chunks().next();
        let alone = inbound.packet.chunks().nth(1).is_none();
        match first {
            Some(Ok(raw)) if raw.kind == kind::DTLS => {
                let header = DtlsHeader::decode(&raw).ok();
                let packet = alone.then(|| state.decrypt(header, inbound.packet)).flatten()?;
                state.enforced = true;
                Some(Inbound { packet, ..inbound })
            }
            _ if inbound.contains(kind::DTLS) => None,
            Some(Ok(raw)) if state.enforced => {
                let tag = inbound.packet.header.verification_tag;
                let is_set_up = alone
                    && match raw.kind {
                        kind::INIT | kind::INIT_ACK => true,
                        // It restarts nothing, and is told so.
                        kind::COOKIE_ECHO => state.unused.has_tag(tag),
                        kind::ABORT | kind::ERROR => sets_up,
                        _ => false,
                    };
                state.counts.packets_unprotected += u64::from(!is_set_up);
                is_set_up.then_some(inbound)
            }
            _ => Some(inbound),
        }
    }
}

impl State {
    /// Decrypts a packet, which has one chunk with this header, if the header is valid.
    fn decrypt(&mut self, header: Option<DtlsHeader>, packet: Packet) -> Option<Packet> {
        let counts = &mut self.counts;
        let Some(header) = header else {
            counts.packets_unauthentic += 1;
            return None;
        };
        let opened = if self.unused.has_tag(packet.header.verification_tag) {
            self.unused.open(header, packet)
        } else {
            self.receiving.open(header, packet)
        };
        match opened {
            Ok((packet, epoch)) => {
                counts.packets_opened += 1;
                if !header.restart {
                    counts.newest_received = counts.newest_received.max(Some(epoch));
                }
                Some(packet)
            }
            Err(Refused::Replayed) => {
                counts.packets_replayed += 1;
                None
            }
            Err(Refused::NotAuthentic | Refused::NoKey) => {
                counts.packets_unauthentic += 1;
                None
            }
        }
    }
}

/// Whether a chunk, with the type that it has in this crate, is accepted in clear: user data of key management alone; and no chunk that
/// changes addresses or streams, or makes the receiver not wait for data. Key management needs none of these.
pub(crate) fn is_accepted_in_clear(raw: RawChunk<'_>) -> bool {
    match Chunk::decode(raw) {
        Ok(Chunk::Data(data)) => is_key_management(data.stream, data.unordered, data.ppid, data.beginning),
        Ok(Chunk::IData(data)) => is_key_management(data.stream, data.unordered, data.ppid, data.beginning),
        Ok(Chunk::EData(EData { data, .. })) => {
            is_key_management(data.stream, data.unordered, data.ppid, data.beginning)
        }
        Ok(Chunk::EIData(EIData { data, .. })) => {
            is_key_management(data.stream, data.unordered, data.ppid, data.beginning)
        }
        Ok(chunk) => !waits_for_protection(chunk.kind()),
        // The association ends because of it, or ignores it.
        Err(_) => true,
    }
}

/// Whether a chunk of user data may carry key management.
fn is_key_management(stream: StreamId, unordered: bool, ppid: Ppid, is_first: bool) -> bool {
    // With interleaving only the first fragment has the identifier (RFC 8260 §2.1).
    stream == KEY_STREAM && !unordered && (ppid == KEY_MANAGEMENT_PPID || !is_first)
}

/// Whether a chunk of this type must not be sent by an attacker before keys are installed.
fn waits_for_protection(kind: u8) -> bool {
    matches!(
        kind,
        kind::ASCONF
            | kind::ASCONF_ACK
            | kind::RE_CONFIG
            | kind::FORWARD_TSN
            | kind::I_FORWARD_TSN
            | experimental_kind::SELECTIVE_FORWARD_TSN
            | experimental_kind::EXTENDED_FORWARD_TSN
    )
}
