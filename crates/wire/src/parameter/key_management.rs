//! The DTLS Key Management Parameter (draft-ietf-tsvwg-sctp-dtls-chunk §4.1): how the keys of DTLS chunks may be agreed.
//!
//! ```text
//! |    Parameter Type = 0x8006    |       Parameter Length        |
//! |                          Tie Breaker                          |
//! |Reserved |R|S|C|  Method #1    |  Method #2    | ...
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::HEADER_LEN;

/// The type of the parameter.
pub(super) const KIND: u16 = 0x8006;

/// The parameter. It keeps the bytes of the value as they were received, because keys are derived from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyManagement(Bytes);

/// The bits beside the reserved ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyManagementFlags {
    /// R: a protected restart is supported.
    pub restart: bool,
    /// S: the role of the server is supported.
    pub server: bool,
    /// C: the role of the client is supported.
    pub client: bool,
}

impl KeyManagementFlags {
    const fn to_bits(self) -> u8 {
        (self.restart as u8) << 2 | (self.server as u8) << 1 | self.client as u8
    }

    const fn from_bits(bits: u8) -> Self {
        Self {
            restart: bits & 4 != 0,
            server: bits & 2 != 0,
            client: bits & 1 != 0,
        }
    }
}

impl KeyManagement {
    /// Bytes of the value before the methods.
    const FIXED: usize = 5;

    /// The parameter of an endpoint that supports these methods, the preferred one first.
    #[must_use]
    pub fn new(tie_breaker: u32, flags: KeyManagementFlags, methods: &[u8]) -> Self {
        let mut value = Vec::with_capacity(Self::FIXED + methods.len());
        value.extend_from_slice(&tie_breaker.to_be_bytes());
        value.push(flags.to_bits());
        value.extend_from_slice(methods);
        Self(value.into())
    }

    /// Takes these bytes as the value of the parameter; `None` if they name no method.
    #[must_use]
    pub fn from_value(value: Bytes) -> Option<Self> {
        (value.len() > Self::FIXED).then_some(Self(value))
    }

    /// The value of the parameter, without its header.
    #[must_use]
    pub const fn value(&self) -> &Bytes {
        &self.0
    }

    /// The tie breaker.
    #[must_use]
    pub fn tie_breaker(&self) -> u32 {
        u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// The bits R, S and C.
    #[must_use]
    pub fn flags(&self) -> KeyManagementFlags {
        KeyManagementFlags::from_bits(self.0[4])
    }

    /// The identifiers of the methods, the preferred one first; at least one.
    #[must_use]
    pub fn methods(&self) -> &[u8] {
        &self.0[Self::FIXED..]
    }

    /// The parameter as it is in the packet, with its header and without padding: keys are derived from these bytes.
    #[must_use]
    pub fn whole(&self) -> Vec<u8> {
        let len = (HEADER_LEN + self.0.len()) as u16;
        let mut whole = Vec::with_capacity(usize::from(len));
        whole.extend_from_slice(&KIND.to_be_bytes());
        whole.extend_from_slice(&len.to_be_bytes());
        whole.extend_from_slice(&self.0);
        whole
    }
}
