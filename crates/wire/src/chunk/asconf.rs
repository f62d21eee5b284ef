//! ASCONF and ASCONF-ACK (RFC 5061 §4.1).
//!
//! ```text
//! | Type = 193,128|  Chunk Flags  |         Chunk Length          |
//! |                       Sequence Number                         |
//! |             Address Parameter, ASCONF Parameters              |
//! ```

use alloc::vec::Vec;
use core::net::IpAddr;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::parameter::{Parameter, ParameterError, Parameters, RawParameter};
use crate::reader::Reader;

macro_rules! asconf_chunk {
    ($(#[$doc:meta])* $name:ident, $kind:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// Serial number of the request.
            pub serial: u32,
            /// In an ASCONF, the first parameter is an address parameter that identifies the sender.
            pub parameters: Parameters,
        }

        impl $name {
            pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
                let mut reader = Reader::new(raw.value());
                let serial = reader.u32().ok_or(ChunkError::Length { kind: $kind })?;
                Ok(Self { serial, parameters: Parameters::from_bytes(reader.rest()) })
            }
        }

        impl EncodeChunk for $name {
            fn encoded_len(&self) -> usize {
                CHUNK_HEADER_LEN + 4 + self.parameters.as_bytes().len()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                put_header(out, $kind, 0, self.encoded_len());
                out.extend_from_slice(&self.serial.to_be_bytes());
                out.extend_from_slice(self.parameters.as_bytes());
            }
        }
    };
}

asconf_chunk!(
    /// Adds, deletes or prefers addresses.
    Asconf,
    kind::ASCONF
);
asconf_chunk!(
    /// Acknowledges an ASCONF.
    AsconfAck,
    kind::ASCONF_ACK
);

impl Asconf {
    /// The address parameter, which must be the first parameter: an address that the association has, or the unspecified address
    /// (RFC 5061 §4.1.1, §5.3.1).
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        let first = self.parameters.iter().next()?.ok()?;
        match Parameter::decode(first).ok()? {
            Parameter::Ipv4(ip) => Some(ip.into()),
            Parameter::Ipv6(ip) => Some(ip.into()),
            _ => None,
        }
    }

    /// The ASCONF parameters after the address parameter, in order: at most one for every 4 bytes of the chunk. The iterator ends after
    /// the first error.
    pub fn requests(&self) -> impl Iterator<Item = Result<RawParameter, ParameterError>> + use<> {
        self.parameters.iter().skip(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;
    use crate::parameter::{AddressAction, ParametersBuilder};

    #[test]
    fn round_trip() {
        let parameters = ParametersBuilder::new()
            .push(&Parameter::Ipv4([10, 0, 0, 1].into()))
            .finish();
        let bytes = [193, 0, 0, 16, 0, 0, 0, 3, 0, 5, 0, 8, 10, 0, 0, 1];
        check(
            &bytes,
            &Chunk::Asconf(Asconf {
                serial: 3,
                parameters,
            }),
        );
        let empty = Parameters::empty();
        check(
            &[128, 0, 0, 8, 0, 0, 0, 3],
            &Chunk::AsconfAck(AsconfAck {
                serial: 3,
                parameters: empty,
            }),
        );
        check_refused(&[128, 0, 0, 6, 0, 0], ChunkError::Length { kind: 128 });
        check_refused(&[193, 0, 0, 7, 0, 0, 0], ChunkError::Length { kind: 193 });
    }

    #[test]
    fn an_asconf_begins_with_an_address() {
        let add = Parameter::Address {
            action: AddressAction::Add,
            correlation: 1,
            address: [10, 0, 0, 2].into(),
        };
        let with = |first: Option<Parameter>| {
            let list = first
                .iter()
                .fold(ParametersBuilder::new(), ParametersBuilder::push);
            Asconf {
                serial: 1,
                parameters: list.push(&add).finish(),
            }
        };
        let right = with(Some(Parameter::Ipv6([0; 16].into())));
        assert_eq!(right.address(), Some([0; 16].into()));
        let requests: Vec<_> = right
            .requests()
            .map(|raw| Parameter::decode(raw.unwrap()))
            .collect();
        assert_eq!(requests, [Ok(add.clone())]);
        assert_eq!(with(None).address(), None);
        assert_eq!(with(Some(Parameter::EcnCapable)).address(), None);
    }
}
