//! RE-CONFIG (RFC 6525 §3.1): one or two parameters that request or answer a change of streams.
//!
//! ```text
//! | Type = 130    |  Chunk Flags  |      Chunk Length             |
//! |                  Re-configuration Parameters                  |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, UnknownAction, kind, pad, put_header};
use crate::parameter::{Parameter, ParameterError, Parameters, unknown_parameter_action};

/// Requests a change of streams, or answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReConfig {
    /// The requests or responses, not checked yet: see [`ReConfig::contents`].
    pub parameters: Parameters,
}

/// The parameters of a RE-CONFIG in one of the allowed combinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReConfigContents {
    /// One or two requests or responses.
    pub parameters: Vec<Parameter>,
    /// The parameters of unknown types that are to be reported (RFC 9260 §3.2.1), encoded; usually empty.
    pub unrecognized: Bytes,
}

/// Why the parameters of a RE-CONFIG are not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReConfigError {
    /// A parameter is malformed.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The parameters are none of the combinations of RFC 6525 §3.1.
    #[error("a RE-CONFIG has a combination of parameters that is not allowed")]
    Combination,
}

impl ReConfig {
    /// Decodes the parameters. A parameter of unknown type ends the list or is skipped, as the two highest bits of its type demand. The
    /// two parameters of an allowed combination may be in either order.
    ///
    /// # Errors
    /// A parameter is malformed, or the combination of the parameters is not allowed (§3.1).
    pub fn contents(&self) -> Result<ReConfigContents, ReConfigError> {
        let mut parameters = Vec::new();
        let mut unrecognized = Vec::new();
        for raw in self.parameters.iter() {
            let raw = raw?;
            match raw.kind {
                13..=18 if parameters.len() == 2 => return Err(ReConfigError::Combination),
                13..=18 => parameters.push(Parameter::decode(raw)?),
                // A parameter of another chunk: no combination of §3.1 has it.
                _ if !matches!(Parameter::decode(raw.clone()), Ok(Parameter::Unknown(_))) => {
                    return Err(ReConfigError::Combination);
                }
                unknown => {
                    let (stop, report) = match unknown_parameter_action(unknown) {
                        UnknownAction::Discard { report } => (true, report),
                        UnknownAction::Skip { report } => (false, report),
                    };
                    if report {
                        unrecognized.extend_from_slice(&raw.whole());
                        pad(&mut unrecognized, 0);
                    }
                    if stop {
                        break;
                    }
                }
            }
        }
        let allowed = match parameters.as_slice() {
            [_] => true,
            [first, second] => is_pair(first.kind(), second.kind()),
            _ => !unrecognized.is_empty(),
        };
        if !allowed {
            return Err(ReConfigError::Combination);
        }
        Ok(ReConfigContents {
            parameters,
            unrecognized: unrecognized.into(),
        })
    }

    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self {
            parameters: Parameters::from_bytes(raw.value()),
        })
    }
}

/// Whether parameters of these types may be in one chunk: combinations 3, 7, 9 and 10 of §3.1.
const fn is_pair(one: u16, other: u16) -> bool {
    matches!(
        (one, other),
        (13, 14) | (14, 13) | (17, 18) | (18, 17) | (16, 13) | (13, 16) | (16, 16)
    )
}

impl EncodeChunk for ReConfig {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + self.parameters.as_bytes().len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::RE_CONFIG, 0, self.encoded_len());
        out.extend_from_slice(self.parameters.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::check;
    use super::*;
    use crate::parameter::{Parameter, ParametersBuilder};

    use crate::parameter::StreamList;
    use crate::types::{StreamId, Tsn};

    fn chunk(parameters: &[Parameter]) -> ReConfig {
        let builder = parameters
            .iter()
            .fold(ParametersBuilder::new(), ParametersBuilder::push);
        ReConfig {
            parameters: builder.finish(),
        }
    }

    /// One parameter of each type, 13 to 18.
    fn one_of_each() -> Vec<Parameter> {
        let streams = StreamList::from_streams([StreamId(1), StreamId(2), StreamId(3)]);
        alloc::vec![
            Parameter::OutgoingReset {
                request: 1,
                response: 2,
                last_tsn: Tsn(3),
                streams: streams.clone(),
            },
            Parameter::IncomingReset { request: 1, streams },
            Parameter::TsnReset { request: 1 },
            Parameter::ReConfigResponse {
                sequence: 1,
                result: 1,
                next_tsns: Some((Tsn(4), Tsn(5))),
            },
            Parameter::AddOutgoing { request: 1, count: 2 },
            Parameter::AddIncoming { request: 1, count: 2 },
        ]
    }

    #[test]
    fn round_trip() {
        let answer = Parameter::ReConfigResponse {
            sequence: 7,
            result: 1,
            next_tsns: None,
        };
        let parameters = ParametersBuilder::new().push(&answer).finish();
        check(
            &[130, 0, 0, 16, 0, 16, 0, 12, 0, 0, 0, 7, 0, 0, 0, 1],
            &Chunk::ReConfig(ReConfig { parameters }),
        );
    }

    #[test]
    fn the_ten_combinations_are_allowed_and_no_others() {
        let allowed = [(13, 14), (17, 18), (16, 13), (16, 16)];
        for one in one_of_each() {
            assert_eq!(
                chunk(core::slice::from_ref(&one))
                    .contents()
                    .map(|all| all.parameters),
                Ok(alloc::vec![one.clone()])
            );
            for other in one_of_each() {
                let pair = (one.kind(), other.kind());
                let listed = allowed.contains(&pair) || allowed.contains(&(pair.1, pair.0));
                let read = chunk(&[one.clone(), other.clone()]).contents();
                assert_eq!(read.is_ok(), listed, "{pair:?}");
                for third in one_of_each() {
                    let three = chunk(&[one.clone(), other.clone(), third]);
                    assert_eq!(three.contents(), Err(ReConfigError::Combination));
                }
            }
        }
        assert_eq!(chunk(&[]).contents(), Err(ReConfigError::Combination));
        let foreign = Parameter::CookiePreservative { increment_ms: 1 };
        assert_eq!(chunk(&[foreign]).contents(), Err(ReConfigError::Combination));
    }

    #[test]
    fn a_length_that_does_not_fit_the_type_is_an_error() {
        for one in one_of_each() {
            let whole = chunk(core::slice::from_ref(&one)).parameters.as_bytes().clone();
            let lists_streams = matches!(one.kind(), 13 | 14);
            for len in 0..=whole.len() + 3 {
                let mut bytes = whole.to_vec();
                bytes.resize(len.max(4), 0);
                bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                let parameters = Parameters::from_bytes(bytes.into());
                let shortest = match one.kind() {
                    13 => 16,
                    14 => 8,
                    _ => whole.len(),
                };
                let fits = match one.kind() {
                    16 => len == 12 || len == 20,
                    _ if lists_streams => len >= shortest && len.is_multiple_of(2),
                    _ => len == shortest,
                };
                assert_eq!(
                    ReConfig { parameters }.contents().is_ok(),
                    fits,
                    "{one:?}, {len} bytes"
                );
            }
        }
    }

    #[test]
    fn parameters_of_unknown_types_are_treated_as_their_highest_bits_demand() {
        let known = [0, 15, 0, 8, 0, 0, 0, 9];
        let unknown = |high: u8| [high, 99, 0, 4];
        let read = |unknown_type: [u8; 4]| {
            let bytes = [&unknown_type[..], &known].concat();
            ReConfig {
                parameters: Parameters::from_bytes(bytes.into()),
            }
            .contents()
        };
        let request = Parameter::TsnReset { request: 9 };
        assert_eq!(read(unknown(0)), Err(ReConfigError::Combination));
        let stopped = read(unknown(0x40)).expect("reported");
        assert_eq!(
            (stopped.parameters, &stopped.unrecognized[..]),
            (Vec::new(), &unknown(0x40)[..])
        );
        let skipped = read(unknown(0x80)).expect("skipped");
        assert_eq!(
            (skipped.parameters, skipped.unrecognized.len()),
            (alloc::vec![request.clone()], 0)
        );
        let reported = read(unknown(0xC0)).expect("skipped and reported");
        assert_eq!(
            (reported.parameters, &reported.unrecognized[..]),
            (alloc::vec![request], &unknown(0xC0)[..])
        );
    }
}
