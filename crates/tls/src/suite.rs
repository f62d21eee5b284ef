//! The cipher suites of the records, which are those of the TLS handshakes.

use anabranch_proto::KeyLimits;
use rustls::{CipherSuite, SupportedCipherSuite};

/// A cipher suite (draft-ietf-tsvwg-sctp-dtls-chunk §3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256, which every endpoint supports.
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20Poly1305,
}

impl Suite {
    /// The suite that a handshake negotiated.
    pub(crate) fn of(negotiated: SupportedCipherSuite) -> Option<Self> {
        match negotiated.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Self::Aes128Gcm),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Self::Aes256Gcm),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// The name in the registry of TLS cipher suites (IANA).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "TLS_AES_128_GCM_SHA256",
            Self::Aes256Gcm => "TLS_AES_256_GCM_SHA384",
            Self::ChaCha20Poly1305 => "TLS_CHACHA20_POLY1305_SHA256",
        }
    }

    /// The suite with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];
        all.into_iter().find(|suite| suite.name() == name)
    }

    /// Bytes of the key, and of the key for sequence numbers.
    #[must_use]
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// How often a key may be used (RFC 9147 §4.5.3): AES-GCM encrypts 2^24.5 records, here 2^24.
    pub(crate) const fn limits(self) -> KeyLimits {
        let sealed = match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 24,
            Self::ChaCha20Poly1305 => 1 << 47,
        };
        KeyLimits {
            sealed,
            failed: 1 << 36,
        }
    }
}
