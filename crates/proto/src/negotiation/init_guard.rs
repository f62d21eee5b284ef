//! Owns the parameter in an INIT by which its sender shows that it knows a secret of the receiver. The hash is the driver's: the core has none.

use core::fmt::Debug;

use anabranch_wire::chunk::{CHUNK_HEADER_LEN, Chunk, EncodeChunk, Init, RawChunk, padded};
use anabranch_wire::parameter::{HEADER_LEN, Parameter};

/// Makes and checks the proofs of INITs ([`crate::Endpoint::set_init_guard`]). A proof is a whole number of 32-bit words, and depends on all
/// bytes of the INIT before it.
pub trait InitGuard: Debug + Send + Sync {
    /// The proof for an INIT of this endpoint, whose chunk value begins with these bytes.
    fn prove(&self, init: &[u8]) -> Vec<u8>;

    /// Whether the proof of a peer's INIT, whose chunk value begins with these bytes, is right.
    fn accepts(&self, init: &[u8], proof: &[u8]) -> bool;
}

/// Adds the proof to an INIT, as its last parameter.
pub(crate) fn prove(guard: Option<&dyn InitGuard>, mut init: Init) -> Init {
    let Some(guard) = guard else {
        return init;
    };
    let mut bytes = Vec::new();
    init.encode(&mut bytes);
    bytes.resize(padded(bytes.len()), 0);
    let proof = guard.prove(&bytes[CHUNK_HEADER_LEN..]);
    init.parameters = init.parameters.with(&Parameter::KnownKeys(proof.into()));
    init
}

/// Whether an INIT ends with a right proof.
pub(crate) fn is_proved(guard: &dyn InitGuard, chunk: RawChunk<'_>) -> bool {
    let value = chunk.value();
    let Ok(Chunk::Init(init)) = Chunk::decode(chunk) else {
        return false;
    };
    let last = init.parameters.iter().last().and_then(Result::ok);
    let Some(Ok(Parameter::KnownKeys(proof))) = last.map(Parameter::decode) else {
        return false;
    };
    let before = value.len().checked_sub(HEADER_LEN + proof.len());
    before.is_some_and(|before| guard.accepts(&value[..before], &proof))
}
