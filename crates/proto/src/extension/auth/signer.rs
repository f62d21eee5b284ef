//! Signing packets (RFC 4895 §6.2).

use anabranch_wire::chunk::{Auth, AuthPlan, ChunkTypes};
use anabranch_wire::packet::PacketWriter;

use super::mac::Keyed;
use crate::config::HmacAlgorithm;

/// Signs the chunks that the peer requires to be authenticated, with the active key.
#[derive(Debug)]
pub(crate) struct Signer {
    plan: AuthPlan,
    keyed: Keyed,
}

impl Signer {
    pub(super) fn new(types: ChunkTypes, algorithm: HmacAlgorithm, key_id: u16, key: &[u8]) -> Self {
        Self {
            plan: AuthPlan {
                types,
                shared_key_id: key_id,
                hmac_id: algorithm.id(),
                hmac_len: algorithm.len() as u16,
            },
            keyed: Keyed::new(algorithm, key),
        }
    }

    /// Begins a packet: an AUTH chunk will precede the first chunk that needs one.
    pub(crate) fn begin(&self, packet: &mut PacketWriter<'_>) {
        packet.authenticate(self.plan);
    }

    /// Fills in the HMAC of a packet that has all its chunks. Returns whether the packet has an AUTH chunk.
    pub(crate) fn sign(&self, packet: &mut PacketWriter<'_>) -> bool {
        let Some(signed) = packet.authenticated() else {
            return false;
        };
        // The data of the HMAC has zeros in its place (figure 6).
        let mut hmac = [0; 32];
        let hmac = &mut hmac[..usize::from(self.plan.hmac_len)];
        self.keyed.write([signed, &[], &[]], hmac);
        signed[Auth::HEADER_LEN..][..hmac.len()].copy_from_slice(hmac);
        true
    }

    /// Bytes that a packet needs in addition if a chunk of this type is its first one that needs an AUTH chunk.
    pub(crate) fn overhead(&self, kind: u8) -> usize {
        if self.plan.types.contains(kind) {
            self.plan.chunk_len()
        } else {
            0
        }
    }
}
