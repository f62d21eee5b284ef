//! The result of the parameters of both endpoints: the association shared keys, the chunk types to sign, and the chunk types that the peer
//! must sign.

use anabranch_wire::chunk::{Auth, ChunkTypes, kind, padded};

use super::keys::{KeyVectors, SharedKeys};
use super::mac::Keyed;
use super::parameters::AuthParameters;
use super::signer::Signer;
use super::verdict::Verdict;
use crate::config::{AuthenticationConfig, HmacAlgorithm};

/// The negotiated authentication.
#[derive(Debug)]
pub(super) struct Session {
    vectors: KeyVectors,
    /// The chunk types that are discarded if they are not authenticated.
    required: ChunkTypes,
    /// The chunk types that the peer requires to be authenticated.
    signed: ChunkTypes,
    /// The algorithms that the peer may use.
    accepted: Vec<HmacAlgorithm>,
    /// The first algorithm of the peer that this endpoint supports.
    hmac: HmacAlgorithm,
    signer: Option<Signer>,
    /// The key and algorithm of the last AUTH chunk that could be verified.
    verifier: Option<(u16, HmacAlgorithm, Keyed)>,
    /// The key that the peer signs with: at first, the one of this endpoint.
    peer_key: u16,
}

impl Session {
    pub(super) fn new(
        config: &AuthenticationConfig,
        keys: &SharedKeys,
        own: &AuthParameters,
        peer: &AuthParameters,
    ) -> Self {
        // A CHUNKS parameter may list types that cannot be authenticated: they are ignored (RFC 4895 §3.2).
        let possible = |kind: &u8| {
            !matches!(
                *kind,
                kind::INIT | kind::INIT_ACK | kind::SHUTDOWN_COMPLETE | kind::AUTH
            )
        };
        // ASCONF and ASCONF-ACK are signed even if the peer does not list them (RFC 5061 §4.1).
        let asconf = [kind::ASCONF, kind::ASCONF_ACK];
        let asconf = asconf.into_iter().filter(|kind| config.chunks.contains(kind));
        let mut session = Self {
            vectors: KeyVectors::new(&own.vector(), &peer.vector()),
            required: config.chunks.iter().copied().collect(),
            signed: peer.chunk_types().chain(asconf).filter(possible).collect(),
            accepted: config.hmacs.clone(),
            hmac: peer.preferred().unwrap_or(HmacAlgorithm::Sha1),
            signer: None,
            verifier: None,
            peer_key: keys.active(),
        };
        session.on_keys_changed(keys);
        session
    }

    /// A key was added, replaced, removed or made active.
    pub(super) fn on_keys_changed(&mut self, keys: &SharedKeys) {
        self.verifier = None;
        let id = keys.active();
        let secret = keys.secret(id).filter(|_| !self.signed.is_empty());
        self.signer = secret
            .map(|secret| Signer::new(self.signed, self.hmac, id, &self.vectors.association_key(secret)));
    }

    /// Verifies an AUTH chunk; `packet` has the bytes from its header to the end of the packet. At most one HMAC is computed.
    pub(super) fn verify(&mut self, keys: &SharedKeys, auth: &Auth, packet: &[u8]) -> Verdict {
        let accepted = HmacAlgorithm::from_id(auth.hmac_id).filter(|hmac| self.accepted.contains(hmac));
        let Some(algorithm) = accepted else {
            return Verdict::UnsupportedHmac(auth.hmac_id);
        };
        let id = auth.shared_key_id;
        let Some(secret) = keys.secret(id).filter(|_| auth.hmac.len() == algorithm.len()) else {
            return Verdict::Discard;
        };
        let differs = |(key, of, _): &(u16, HmacAlgorithm, Keyed)| (*key, *of) != (id, algorithm);
        if self.verifier.as_ref().is_some_and(differs) {
            self.verifier = None;
        }
        let (_, _, keyed) = self.verifier.get_or_insert_with(|| {
            let key = self.vectors.association_key(secret);
            (id, algorithm, Keyed::new(algorithm, &key))
        });
        let end = padded(Auth::HEADER_LEN + algorithm.len()).min(packet.len());
        let blank = [0; 32];
        let parts = [
            &packet[..Auth::HEADER_LEN],
            &blank[..end - Auth::HEADER_LEN],
            &packet[end..],
        ];
        if !keyed.verify(parts, &auth.hmac) {
            return Verdict::Discard;
        }
        let new_key = (self.peer_key != id).then_some(id);
        self.peer_key = id;
        Verdict::Genuine { new_key }
    }

    pub(super) fn signer(&self) -> Option<&Signer> {
        self.signer.as_ref()
    }

    pub(super) fn required(&self) -> ChunkTypes {
        self.required
    }

    pub(super) fn signed(&self) -> ChunkTypes {
        self.signed
    }

    pub(super) fn hmac(&self) -> HmacAlgorithm {
        self.hmac
    }

    pub(super) fn peer_key(&self) -> u16 {
        self.peer_key
    }
}
