//! The layer that carries the packets of SCTP.

use super::error::{ConfigError, check};

/// The length of a UDP header in bytes.
const UDP_HEADER_LEN: u16 = 8;

/// The layer that carries the packets of SCTP. It says how many bytes the layer adds to each packet, which are subtracted from the path
/// MTU, and whether the layer detects errors itself.
///
/// The crate `anabranch` sets it to match the sockets; only a program that gives sockets with a layer of its own
/// (`EndpointBuilder::bind_socket`) sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LowerLayer {
    /// UDP (RFC 6951), which adds 8 bytes. The default.
    #[default]
    Udp,
    /// IP.
    Ip,
    /// Another layer over UDP.
    Tunnel {
        /// The bytes that the layer adds to each packet, beside the 8 bytes of UDP. At most 256.
        overhead: u16,
    },
    /// DTLS over UDP (RFC 8261). It detects errors better than the checksum: packets with a checksum of zero are accepted, and are sent to
    /// a peer that accepts them (RFC 9653, error detection method 1). A DTLS connection is one path. Without DTLS below, this choice
    /// lets damaged packets in.
    Dtls {
        /// The bytes that DTLS adds to each packet, beside the 8 bytes of UDP. At most 256.
        overhead: u16,
    },
}

impl LowerLayer {
    /// Whether packets are encapsulated in UDP.
    #[must_use]
    pub const fn is_over_udp(self) -> bool {
        !matches!(self, Self::Ip)
    }

    /// Whether the layer detects errors better than the checksum (RFC 9653).
    pub(crate) const fn detects_errors(self) -> bool {
        matches!(self, Self::Dtls { .. })
    }

    /// The bytes between the IP header and the packet of SCTP.
    pub(crate) const fn header_len(self) -> u16 {
        match self {
            Self::Ip => 0,
            Self::Udp => UDP_HEADER_LEN,
            Self::Tunnel { overhead } | Self::Dtls { overhead } => UDP_HEADER_LEN + overhead,
        }
    }

    /// Checks the range of the choice.
    ///
    /// # Errors
    /// The overhead is longer than 256 bytes.
    pub fn validate(self) -> Result<(), ConfigError> {
        check(&[(
            !matches!(self, Self::Tunnel { overhead } | Self::Dtls { overhead } if overhead > 256),
            "lower_layer",
            "must have an overhead of at most 256 bytes",
        )])
    }
}
