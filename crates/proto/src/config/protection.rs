//! The settings of protected packets (draft-ietf-tsvwg-sctp-dtls-chunk).

use super::error::{ConfigError, check};

/// The most methods that an endpoint lists.
pub(crate) const MOST_METHODS: usize = 32;

/// The bytes that a DTLS chunk adds to a packet: the chunk header, the pre-padding and the record header (8), the content type and the tag
/// (17), and the padding to a multiple of 4 bytes (3).
pub(crate) const PROTECTION_OVERHEAD: u16 = 28;

/// The most bytes of chunks in a protected packet: those of a DTLS record (RFC 9147 §4).
pub(crate) const MOST_RECORD: u16 = 1 << 14;

/// Protected packets: each packet after set-up is one DTLS chunk, and an association with a peer that does not support them is refused
/// (strict mode of draft-ietf-tsvwg-sctp-dtls-chunk §5.1).
///
/// The core has no cryptography. The driver sends the messages from which keys are agreed, and installs the keys
/// ([`crate::Association::key_manager`]).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectionConfig {
    /// The identifiers of the key management methods, the preferred one first; 1 to 32. Default 192, TLS 1.3 in user messages
    /// (draft-porfiri-tsvwg-sctp-dtls-handshake).
    pub methods: Vec<u8>,
    /// How many packets the replay window has: a packet that arrives later than so many others of its keys is discarded. Paths overtake each
    /// other, so it must be larger than the rate of packets times the difference of the delays of the paths. 64 to 32,767, default 16,384.
    pub replay_window: u16,
    /// Whether this endpoint keeps restart keys (§5.4): with [`crate::KeyManager::install_restart`], so that a peer that lost its state can
    /// restart the association; and in a storage of the driver, so that this endpoint can ([`crate::KeyManager::restart`]). An association
    /// is restarted only if both endpoints have this setting. Default false.
    pub restart: bool,
}

impl Default for ProtectionConfig {
    fn default() -> Self {
        Self {
            methods: vec![192],
            replay_window: 16_384,
            restart: false,
        }
    }
}

impl ProtectionConfig {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[
            (
                (1..=MOST_METHODS).contains(&self.methods.len()),
                "protection.methods",
                "must have 1 to 32 methods",
            ),
            (
                (64..=32_767).contains(&self.replay_window),
                "protection.replay_window",
                "must lie between 64 and 32,767: sequence numbers have 16 bits",
            ),
        ])
    }
}
