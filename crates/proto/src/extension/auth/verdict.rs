//! Owns the results that the verification of an AUTH chunk can have.

/// The result of an AUTH chunk (RFC 4895 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The chunks after it are authenticated. If the peer began to use another key, its identifier.
    Genuine { new_key: Option<u16> },
    /// The chunks after it are silently discarded.
    Discard,
    /// The chunks after it are discarded, and an ERROR names the HMAC Identifier, which this endpoint did not list.
    UnsupportedHmac(u16),
}
