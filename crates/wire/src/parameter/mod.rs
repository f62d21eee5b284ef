//! Parameters: the variable part of INIT, INIT ACK, ASCONF and RE-CONFIG (RFC 9260 §3.2.1).
//!
//! ```text
//! |        Parameter Type         |       Parameter Length        |
//! |                       Parameter Value                         |
//! ```

mod re_config;
mod value;

use alloc::vec::Vec;

use bytes::Bytes;
pub use re_config::StreamList;
pub use value::{AddressAction, Parameter};

use crate::chunk::{UnknownAction, pad, padded};

/// Bytes of type and length.
pub const HEADER_LEN: usize = 4;

/// What is done with a parameter of an unknown type: the two highest bits tell (§3.2.1).
#[must_use]
pub const fn unknown_parameter_action(kind: u16) -> UnknownAction {
    UnknownAction::from_bits((kind >> 14) as u8)
}

/// Why a parameter cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// It claims fewer bytes than its header has, or more than are there.
    #[error("a parameter claims {claimed} bytes where {left} are left")]
    Length {
        /// Bytes that the length field claims.
        claimed: usize,
        /// Bytes left in the chunk.
        left: usize,
    },
    /// Its type is known and its content does not fit it.
    #[error("a parameter of type {kind:#06x} has a length that its content does not fit")]
    Content {
        /// The parameter type.
        kind: u16,
    },
}

/// A list of parameters as it stands in a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Parameters(Bytes);

impl Parameters {
    /// None.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Bytes::new())
    }

    /// The list that these bytes are.
    #[must_use]
    pub const fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// As it stands in the chunk.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The parameters in order; ends after the first error.
    pub fn iter(&self) -> impl Iterator<Item = Result<RawParameter, ParameterError>> + use<> {
        RawParameters { rest: self.0.clone() }
    }
}

struct RawParameters {
    rest: Bytes,
}

impl Iterator for RawParameters {
    type Item = Result<RawParameter, ParameterError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.rest.len();
        if left == 0 {
            return None;
        }
        let claimed = if left < HEADER_LEN {
            left
        } else {
            usize::from(u16::from_be_bytes([self.rest[2], self.rest[3]]))
        };
        if left < HEADER_LEN || claimed < HEADER_LEN || claimed > left {
            self.rest = Bytes::new();
            return Some(Err(ParameterError::Length { claimed, left }));
        }
        let mut whole = self.rest.split_to(padded(claimed).min(left));
        whole.truncate(claimed);
        Some(Ok(RawParameter {
            kind: u16::from_be_bytes([whole[0], whole[1]]),
            whole,
        }))
    }
}

/// A parameter whose length is right and whose content was not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawParameter {
    /// The parameter type.
    pub kind: u16,
    whole: Bytes,
}

impl RawParameter {
    /// The value, without header and padding.
    #[must_use]
    pub fn value(&self) -> Bytes {
        self.whole.slice(HEADER_LEN..)
    }

    /// The parameter with its header, without padding.
    #[must_use]
    pub fn whole(&self) -> Bytes {
        self.whole.clone()
    }
}

/// Writes a list of parameters.
#[derive(Clone, Debug, Default)]
pub struct ParametersBuilder(Vec<u8>);

impl ParametersBuilder {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds one at the end. The last one of a chunk stays without padding (§3.2).
    #[must_use]
    pub fn push(mut self, parameter: &Parameter) -> Self {
        pad(&mut self.0, 0);
        parameter.encode_unpadded(&mut self.0);
        self
    }

    /// The list.
    #[must_use]
    pub fn finish(self) -> Parameters {
        Parameters(self.0.into())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let all = vec![
            Parameter::Ipv4([192, 0, 2, 1].into()),
            Parameter::StateCookie(Bytes::from_static(b"cookie")),
            Parameter::CookiePreservative { increment_ms: 2000 },
            Parameter::SupportedExtensions(vec![64, 192, 193].into()),
            Parameter::ForwardTsnSupported,
        ];
        let list = all
            .iter()
            .fold(ParametersBuilder::new(), ParametersBuilder::push)
            .finish();
        let read: Vec<_> = list
            .iter()
            .map(|raw| Parameter::decode(raw.unwrap()).unwrap())
            .collect();
        assert_eq!(read, all);
        assert!(!list.as_bytes().len().is_multiple_of(4) || all.len() == 5);
        for len in 0..list.as_bytes().len() {
            let short = Parameters::from_bytes(list.as_bytes().slice(..len));
            assert!(short.iter().filter(Result::is_ok).count() < all.len());
        }
    }

    #[test]
    fn the_highest_bits_tell_what_to_do_with_unknown_parameters() {
        assert_eq!(
            unknown_parameter_action(0x0001),
            UnknownAction::Discard { report: false }
        );
        assert_eq!(
            unknown_parameter_action(0x4001),
            UnknownAction::Discard { report: true }
        );
        assert_eq!(
            unknown_parameter_action(0x8001),
            UnknownAction::Skip { report: false }
        );
        assert_eq!(
            unknown_parameter_action(0xC001),
            UnknownAction::Skip { report: true }
        );
    }
}
