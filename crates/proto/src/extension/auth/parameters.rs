//! The parameters RANDOM, CHUNKS and HMAC-ALGO (RFC 4895 §3), from which the key vectors are made, and their form in the state cookie.

use anabranch_wire::parameter::{Parameter, ParametersBuilder};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::config::{Config, HmacAlgorithm};

/// Length of a Random Number in bytes (RFC 4895 §3.1).
pub(crate) const RANDOM_LEN: usize = 32;
/// The most chunk types of a CHUNKS parameter: its maximum length is 260 bytes (RFC 4895 §3.2).
const MOST_CHUNKS: usize = 256;
/// The most HMAC Identifiers of a peer. No list is this long: two are assigned.
const MOST_HMACS: usize = 16;

/// The length that the cookie notes for a CHUNKS parameter that was not sent.
const NO_CHUNKS: u16 = u16::MAX;

/// The parameters of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthParameters {
    /// RANDOM.
    pub(crate) random: [u8; RANDOM_LEN],
    /// CHUNKS, if it was sent.
    chunks: Option<Bytes>,
    /// HMAC-ALGO.
    hmacs: Vec<u16>,
}

/// The parameters of both endpoints, as far as they are not settings of this endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyExchange<'a> {
    /// The RANDOM of this endpoint; `None` for that of its INIT.
    pub(crate) local_random: Option<[u8; RANDOM_LEN]>,
    pub(crate) peer: &'a AuthParameters,
}

/// The parameters that this endpoint offers, with a new RANDOM; `None` if it does not offer authentication.
pub(crate) fn offer(config: &Config, random: impl FnOnce() -> [u8; RANDOM_LEN]) -> Option<AuthParameters> {
    let settings = config.offered_authentication()?;
    Some(AuthParameters {
        random: random(),
        // An empty list may be omitted (RFC 4895 §6.1).
        chunks: (!settings.chunks.is_empty()).then(|| settings.chunks.clone().into()),
        hmacs: settings.hmacs.iter().map(|hmac| hmac.id()).collect(),
    })
}

impl AuthParameters {
    fn parameters(&self) -> impl Iterator<Item = Parameter> {
        let random = Parameter::Random(Bytes::copy_from_slice(&self.random));
        let chunks = self.chunks.clone().map(Parameter::ChunkList);
        let hmacs = Parameter::RequestedHmacs(self.hmacs.clone());
        [Some(random), chunks, Some(hmacs)].into_iter().flatten()
    }

    /// Adds the parameters to an INIT or INIT ACK.
    pub(crate) fn push(&self, parameters: ParametersBuilder) -> ParametersBuilder {
        self.parameters()
            .fold(parameters, |list, parameter| list.push(&parameter))
    }

    /// The key vector: the parameters without padding (RFC 4895 §6.1).
    pub(super) fn vector(&self) -> Vec<u8> {
        let one = |parameter| {
            let list = ParametersBuilder::new().push(&parameter).finish();
            list.as_bytes().to_vec()
        };
        self.parameters().flat_map(one).collect()
    }

    /// The chunk types in CHUNKS.
    pub(super) fn chunk_types(&self) -> impl Iterator<Item = u8> {
        self.chunks.iter().flatten().copied()
    }

    /// The first algorithm in HMAC-ALGO that this endpoint supports.
    pub(super) fn preferred(&self) -> Option<HmacAlgorithm> {
        self.hmacs.iter().find_map(|id| HmacAlgorithm::from_id(*id))
    }

    /// Length in a cookie in bytes.
    pub(crate) fn cookie_len(&self) -> usize {
        RANDOM_LEN + 2 + self.chunks.as_ref().map_or(0, Bytes::len) + 1 + 2 * self.hmacs.len()
    }

    /// Length in a cookie in bytes of the longest parameters.
    pub(crate) const MOST_COOKIE_LEN: usize = RANDOM_LEN + 2 + MOST_CHUNKS + 1 + 2 * MOST_HMACS;

    /// Appends the parameters to a cookie.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&self.random);
        match &self.chunks {
            Some(chunks) => {
                out.put_u16(chunks.len() as u16);
                out.put_slice(chunks);
            }
            None => out.put_u16(NO_CHUNKS),
        }
        out.put_u8(self.hmacs.len() as u8);
        self.hmacs.iter().for_each(|hmac| out.put_u16(*hmac));
    }

    /// Reads the parameters from a cookie of this endpoint.
    pub(crate) fn decode(from: &mut &[u8]) -> Option<Self> {
        let random = *from.split_first_chunk::<RANDOM_LEN>()?.0;
        from.advance(RANDOM_LEN);
        let chunks = match from.try_get_u16().ok()? {
            NO_CHUNKS => None,
            len => {
                let chunks = Bytes::copy_from_slice(from.get(..usize::from(len))?);
                from.advance(chunks.len());
                Some(chunks)
            }
        };
        let count = from.try_get_u8().ok()?;
        let hmacs = (0..count).map(|_| from.try_get_u16().ok());
        Some(Self {
            random,
            chunks,
            hmacs: hmacs.collect::<Option<_>>()?,
        })
    }
}

/// Collects the parameters of an INIT or INIT ACK. Of each type only the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParameterReader {
    random: Option<Bytes>,
    chunks: Option<Bytes>,
    hmacs: Option<Vec<u16>>,
}

impl ParameterReader {
    /// Takes a parameter if it is one of these types.
    pub(crate) fn take(&mut self, parameter: Parameter) {
        match parameter {
            Parameter::Random(random) => {
                self.random.get_or_insert(random);
            }
            Parameter::ChunkList(chunks) => {
                self.chunks.get_or_insert(chunks);
            }
            Parameter::RequestedHmacs(hmacs) => {
                self.hmacs.get_or_insert(hmacs);
            }
            _ => {}
        }
    }

    /// The types of the mandatory parameters that are missing.
    pub(crate) fn missing(&self) -> Vec<u16> {
        let missing = [(self.random.is_none(), 0x8002), (self.hmacs.is_none(), 0x8004)];
        let missing = missing.into_iter().filter(|(is_missing, _)| *is_missing);
        missing.map(|(_, kind)| kind).collect()
    }

    /// The peer's parameters; `None` if it does not support authentication, which takes RANDOM and HMAC-ALGO. Values that the RFC forbids
    /// end the association; the text says why.
    pub(crate) fn finish(self) -> Result<Option<AuthParameters>, &'static str> {
        let random = match self.random {
            // §6.1: the association must be aborted, whatever else the peer sent.
            Some(random) => {
                let random = <[u8; RANDOM_LEN]>::try_from(&random[..]);
                Some(random.map_err(|_| "the Random Number does not have 32 bytes")?)
            }
            None => None,
        };
        if self
            .chunks
            .as_ref()
            .is_some_and(|chunks| chunks.len() > MOST_CHUNKS)
        {
            return Err("the CHUNKS parameter has more than 260 bytes");
        }
        let Some((random, hmacs)) = random.zip(self.hmacs) else {
            return Ok(None);
        };
        let parameters = AuthParameters {
            random,
            // Copied, so that a few bytes do not keep a large datagram in memory.
            chunks: self.chunks.as_deref().map(Bytes::copy_from_slice),
            hmacs,
        };
        if parameters.hmacs.len() > MOST_HMACS || parameters.preferred().is_none() {
            return Err("HMAC-ALGO has no algorithm that must be supported, or too many");
        }
        Ok(Some(parameters))
    }
}
