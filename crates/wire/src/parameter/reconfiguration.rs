//! Requests to change streams, and the answers (RFC 6525 §4).
//!
//! ```text
//! |     Parameter Type = 13, 14   | Length = 16, 8 + 2 * N        |
//! |           Re-configuration Request Sequence Number            |
//! |     13: Re-configuration Response Sequence Number             |
//! |     13: Sender's Last Assigned TSN                            |
//! |  Stream Number 1 (optional)   |    Stream Number 2 (optional) |
//!
//! |     Parameter Type = 15       |      Parameter Length = 8     |
//! |         Re-configuration Request Sequence Number              |
//!
//! |     Parameter Type = 16       |      Length = 12, 20          |
//! |         Re-configuration Response Sequence Number             |
//! |                            Result                             |
//! |    Sender's Next TSN, Receiver's Next TSN (optional)          |
//!
//! |     Parameter Type = 17, 18   |      Parameter Length = 12    |
//! |          Re-configuration Request Sequence Number             |
//! |      Number of new streams    |         Reserved              |
//! ```

use alloc::vec::Vec;

use super::{Parameter, kind};
use crate::reader::Reader;
use crate::types::{StreamId, Tsn};

/// Reads a parameter of types 13 to 18; what is left is for the caller to refuse.
pub(super) fn read(parameter_kind: u16, reader: &mut Reader) -> Option<Parameter> {
    let request = reader.u32()?;
    Some(match parameter_kind {
        kind::OUTGOING_SSN_RESET => Parameter::OutgoingSsnReset {
            request,
            response: reader.u32()?,
            last_assigned_tsn: Tsn(reader.u32()?),
            streams: read_streams(reader)?,
        },
        kind::INCOMING_SSN_RESET => Parameter::IncomingSsnReset {
            request,
            streams: read_streams(reader)?,
        },
        kind::SSN_TSN_RESET => Parameter::SsnTsnReset { request },
        kind::RE_CONFIG_RESPONSE => {
            let result = reader.u32()?;
            let next_tsns = if reader.is_empty() {
                None
            } else {
                Some((Tsn(reader.u32()?), Tsn(reader.u32()?)))
            };
            Parameter::ReConfigResponse {
                sequence: request,
                result,
                next_tsns,
            }
        }
        kind::ADD_OUTGOING_STREAMS => Parameter::AddOutgoingStreams {
            request,
            count: read_count(reader)?,
        },
        kind::ADD_INCOMING_STREAMS => Parameter::AddIncomingStreams {
            request,
            count: read_count(reader)?,
        },
        _ => return None,
    })
}

fn read_streams(reader: &mut Reader) -> Option<Vec<StreamId>> {
    Some(
        super::list::read_u16s(reader)?
            .into_iter()
            .map(StreamId)
            .collect(),
    )
}

fn read_count(reader: &mut Reader) -> Option<u16> {
    let count = reader.u16()?;
    let _reserved = reader.u16()?;
    Some(count)
}

/// Appends the content of a parameter of types 13 to 18, of others nothing.
pub(super) fn put_value(out: &mut Vec<u8>, parameter: &Parameter) {
    let mut number = |number: u32| out.extend_from_slice(&number.to_be_bytes());
    match parameter {
        Parameter::OutgoingSsnReset {
            request,
            response,
            last_assigned_tsn,
            streams,
        } => {
            [*request, *response, last_assigned_tsn.0]
                .into_iter()
                .for_each(number);
            put_streams(out, streams);
        }
        Parameter::IncomingSsnReset { request, streams } => {
            number(*request);
            put_streams(out, streams);
        }
        Parameter::SsnTsnReset { request } => number(*request),
        Parameter::ReConfigResponse {
            sequence,
            result,
            next_tsns,
        } => {
            number(*sequence);
            number(*result);
            if let Some((sender, receiver)) = next_tsns {
                number(sender.0);
                number(receiver.0);
            }
        }
        Parameter::AddOutgoingStreams { request, count }
        | Parameter::AddIncomingStreams { request, count } => {
            number(*request);
            number(u32::from(*count) << 16);
        }
        _ => {}
    }
}

fn put_streams(out: &mut Vec<u8>, streams: &[StreamId]) {
    streams
        .iter()
        .for_each(|stream| out.extend_from_slice(&stream.0.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn resets_round_trip() {
        let streams = Vec::from([StreamId(4), StreamId(5), StreamId(6)]);
        let bytes = [0, 13, 0, 22, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 4, 0, 5, 0, 6];
        let outgoing = Parameter::OutgoingSsnReset {
            request: 1,
            response: 2,
            last_assigned_tsn: Tsn(3),
            streams,
        };
        check(&bytes, &outgoing);
        let bytes = [0, 14, 0, 10, 0, 0, 0, 9, 0, 7];
        check(
            &bytes,
            &Parameter::IncomingSsnReset {
                request: 9,
                streams: [StreamId(7)].into(),
            },
        );
        check(&[0, 15, 0, 8, 0, 0, 0, 9], &Parameter::SsnTsnReset { request: 9 });
        check_refused(&[0, 14, 0, 9, 0, 0, 0, 9, 7]);
    }

    #[test]
    fn answers_have_both_tsns_or_none() {
        let bytes = [0, 16, 0, 20, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4];
        let next_tsns = Some((Tsn(3), Tsn(4)));
        check(
            &bytes,
            &Parameter::ReConfigResponse {
                sequence: 1,
                result: 2,
                next_tsns,
            },
        );
        check(
            &[0, 16, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2],
            &Parameter::ReConfigResponse {
                sequence: 1,
                result: 2,
                next_tsns: None,
            },
        );
        check_refused(&[0, 16, 0, 16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
    }

    #[test]
    fn added_streams_round_trip() {
        let bytes = [0, 17, 0, 12, 0, 0, 0, 1, 0, 2, 0, 0];
        check(&bytes, &Parameter::AddOutgoingStreams { request: 1, count: 2 });
        let bytes = [0, 18, 0, 12, 0, 0, 0, 1, 0, 2, 0, 0];
        check(&bytes, &Parameter::AddIncomingStreams { request: 1, count: 2 });
    }
}
