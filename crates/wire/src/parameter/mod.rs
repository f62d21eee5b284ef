//! Parameters: the variable-length part of INIT, INIT ACK, ASCONF and RE-CONFIG (RFC 9260 §3.2.1).
//!
//! ```text
//! |        Parameter Type         |       Parameter Length        |
//! |                       Parameter Value                         |
//! ```

mod key_management;
mod re_config;
mod value;

use alloc::vec::Vec;

use bytes::Bytes;
pub use key_management::{KeyManagement, KeyManagementFlags};
pub use re_config::StreamList;
pub use value::{AddressAction, PairAction, Parameter};

use crate::chunk::{UnknownAction, pad, padded};

/// Bytes of the parameter header: type and length.
pub const HEADER_LEN: usize = 4;

/// How to treat a parameter of this unknown type, from the two highest bits of the type (§3.2.1).
#[must_use]
pub const fn unknown_parameter_action(kind: u16) -> UnknownAction {
    UnknownAction::from_bits((kind >> 14) as u8)
}

/// Why a parameter cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The length field is smaller than the parameter's header or larger than the rest of the chunk.
    #[error("a parameter claims {claimed} bytes where {left} are left")]
    Length {
        /// Length in bytes that the length field states.
        claimed: usize,
        /// Bytes left in the chunk.
        left: usize,
    },
    /// The type is known, but the content does not have the form of this type.
    #[error("a parameter of type {kind:#06x} has a length that its content does not fit")]
    Content {
        /// The parameter type.
        kind: u16,
    },
}

/// A list of parameters, as encoded in a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Parameters(Bytes);

impl Parameters {
    /// An empty list.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Bytes::new())
    }

    /// Takes these bytes as an encoded list, without checking them.
    #[must_use]
    pub const fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The encoded list.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The list with one parameter more, at its end.
    #[must_use]
    pub fn with(&self, parameter: &Parameter) -> Self {
        ParametersBuilder(self.0.to_vec()).push(parameter).finish()
    }

    /// The parameters in order. The iterator ends after the first error.
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

/// A parameter whose length has been checked and whose content has not.
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

    /// The parameter with its header and without padding.
    #[must_use]
    pub fn whole(&self) -> Bytes {
        self.whole.clone()
    }
}

/// Encodes a list of parameters.
#[derive(Clone, Debug, Default)]
pub struct ParametersBuilder(Vec<u8>);

impl ParametersBuilder {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a parameter. The last parameter of a chunk gets no padding (§3.2).
    #[must_use]
    pub fn push(mut self, parameter: &Parameter) -> Self {
        pad(&mut self.0, 0);
        parameter.encode_unpadded(&mut self.0);
        self
    }

    /// The encoded list.
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
