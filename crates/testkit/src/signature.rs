//! Signatures of hand-made packets (RFC 4895), written from the RFC and apart from the core's own.

use anabranch_wire::chunk::{Auth, Chunk, EncodeChunk, padded};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The HMAC Identifier of SHA-256.
const HMAC_ID: u16 = 3;
/// Its length in bytes.
const HMAC_LEN: usize = 32;

/// Signs packets of a peer with HMAC-SHA-256.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The association shared key.
    key: Vec<u8>,
    shared_key_id: u16,
}

/// The parameters RANDOM, CHUNKS and HMAC-ALGO of a peer that demands signatures of these chunk types.
#[must_use]
pub fn authentication_parameters(parameters: ParametersBuilder, chunks: &[u8]) -> ParametersBuilder {
    let parameters = parameters.push(&Parameter::Random(Bytes::from_static(&[9; 32])));
    let parameters = parameters.push(&Parameter::ChunkList(Bytes::copy_from_slice(chunks)));
    parameters.push(&Parameter::RequestedHmacs(vec![HMAC_ID, 1]))
}

/// The key vector in the parameters of an INIT or INIT ACK: RANDOM, CHUNKS and HMAC-ALGO without padding (§6.1).
fn vector(parameters: &Parameters) -> Vec<u8> {
    let of = |wanted: u16| {
        let mut all = parameters.iter().map_while(Result::ok);
        let found = all.find(|raw| raw.kind == wanted);
        found.map_or(Vec::new(), |raw| raw.whole().to_vec())
    };
    [0x8002, 0x8003, 0x8004].map(of).concat()
}

impl Signature {
    /// The signature of an association set up with these parameters of an INIT and INIT ACK, in any order (§6.1).
    #[must_use]
    pub fn new(one: &Parameters, other: &Parameters, shared_key_id: u16, secret: &[u8]) -> Self {
        let (one, other) = (vector(one), vector(other));
        // Both begin with the type of RANDOM: of two numbers of different length the longer one is greater.
        let ordered = (one.len(), &one) <= (other.len(), &other);
        let (first, second) = if ordered { (one, other) } else { (other, one) };
        Self {
            key: [secret, &first, &second].concat(),
            shared_key_id,
        }
    }

    /// These encoded chunks after an AUTH chunk that signs them (§6.2).
    #[must_use]
    pub fn before(&self, chunks: &[u8]) -> Vec<u8> {
        let auth = |hmac: Vec<u8>| {
            let auth = Chunk::Auth(Auth {
                shared_key_id: self.shared_key_id,
                hmac_id: HMAC_ID,
                hmac: hmac.into(),
            });
            let mut bytes = Vec::new();
            auth.encode(&mut bytes);
            bytes.resize(padded(bytes.len()), 0);
            bytes.extend_from_slice(chunks);
            bytes
        };
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).unwrap_or_else(|_| unreachable!("any length"));
        mac.update(&auth(vec![0; HMAC_LEN]));
        auth(mac.finalize().into_bytes().to_vec())
    }
}
