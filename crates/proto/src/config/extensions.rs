//! The settings of extensions that need no module of their own: partial reliability (RFC 3758) with the extensions that make it faster,
//! NR-SACK, interleaving (RFC 8260) and stream reconfiguration (RFC 6525).

use super::error::{ConfigError, check};
use super::settings::settings;

settings! {
    /// Partial reliability (RFC 3758, RFC 7496), and extensions that make it faster (Basto and Freitas, *SCTP extensions for time
    /// sensitive traffic*). [`crate::Reliability`] says for each message whether and when it may be abandoned.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PartialReliabilityConfig {
    } experiments {
        /// Whether FORWARD-TSN is offered to the peer. Default true. Unless both endpoints support it, every chunk that was sent is
        /// retransmitted until it is acknowledged.
        pub offer: bool,
        /// Whether a message may be abandoned before its first transmission. Default true. False is for experiments: each message is then
        /// sent once, however late, as in the stack of Rajiullah and Brunstrom.
        pub discard_unsent: bool,
        /// Whether a queued message with a lifetime is abandoned as soon as it will probably not arrive before its lifetime is over: when the
        /// bytes in the path's queue, the rest of the message and the variation of the round-trip time take longer at the highest rate that the
        /// path has carried lately ([`crate::controller::Controller::known_rate`]: only BBR knows it). Later messages then do not wait for one
        /// that comes too late. Default false; [`crate::Config::low_latency`] sets it.
        pub discard_hopeless: bool,
        /// *Early discard* (Basto and Freitas): a chunk that must not be retransmitted is abandoned at its first missing report, instead of the
        /// last report needed for fast retransmit (RFC 9260 §7.2.4). The report of a retransmission comes from a chunk that left later on the
        /// same path. Congestion control counts the chunk as a loss when missing reports or RACK declare it lost, and at the latest when the
        /// receiver skips it. Default false, because reordering alone causes first missing reports, and a chunk that was only late may arrive
        /// after the receiver has skipped it. [`crate::SendOptions::early_discard`] overrides it for a message.
        pub early_discard: bool,
        /// *Selective forward TSN*: offered to the peer, and used if the peer offers it too. It notifies the receiver that a chunk of an
        /// ordered message will not be retransmitted, so that later messages of the stream are delivered without it. The value is the
        /// number of later packets, at least 1, after which the sender sends the notice. Values above half the congestion window count as half
        /// the congestion window. `None`, the default, offers nothing; the paper used 1.
        pub selective_forward_tsn: Option<u32>,
        /// *Extended FORWARD-TSN*: offered to the peer, and used if the peer offers it too. It lists abandoned unordered messages that a
        /// FORWARD-TSN cannot pass yet, because the receiver waits for a chunk below them. The receiver treats them as received. Rajiullah and
        /// Brunstrom name an extension of FORWARD-TSN without its format; the format is this project's. It lists messages of one chunk. It is
        /// not used with ECA-SCTP. If both endpoints offer it, and no ECA-SCTP, messages are not interleaved. Default false.
        pub extended_forward_tsn: bool,
        /// The notice that messages get unless [`crate::SendOptions::discard_notice`] says otherwise, if both endpoints offered selective
        /// forward TSN. Default [`DiscardNotice::WithData`].
        pub discard_notice: DiscardNotice,
    }
}

impl Default for PartialReliabilityConfig {
    fn default() -> Self {
        Self {
            offer: true,
            discard_unsent: true,
            discard_hopeless: false,
            early_discard: false,
            selective_forward_tsn: None,
            extended_forward_tsn: false,
            discard_notice: DiscardNotice::WithData,
        }
    }
}

impl PartialReliabilityConfig {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[(
            self.selective_forward_tsn != Some(0),
            "partial_reliability.selective_forward_tsn",
            "must be at least 1 packet",
        )])
    }
}

/// Whether the sender notifies the receiver of each chunk of an ordered message that will not be retransmitted, so that the receiver
/// delivers later messages of the stream without it (*selective forward TSN*; Basto and Freitas, *SCTP extensions for time sensitive
/// traffic*). It has an effect only if both endpoints offered it: [`PartialReliabilityConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DiscardNotice {
    /// No notice is sent.
    Never,
    /// The notice leaves with a later packet with data, on the path of the chunk.
    #[default]
    WithData,
    /// As [`DiscardNotice::WithData`]; but if the congestion window of that path allows no more data, the notice leaves in a packet
    /// without data, of about 60 bytes. It helps if the stream continues on other paths, or if the window is one packet.
    Alone,
}

settings! {
    /// NR-SACK (draft-tuexen-tsvwg-sctp-multipath §4; Natarajan and others, *NR-SACKs for SCTP*).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NrSackConfig {
    } experiments {
        /// Whether NR-SACK is offered; it replaces SACK if both endpoints offer it. Default true.
        pub offer: bool,
        /// Whether this endpoint may renege: drop chunks that it acknowledged in gap ack blocks, if its buffer is full and the chunk that
        /// closes the lowest gap needs the memory. Default false: every chunk held is declared non-renegable, and the buffer may instead grow
        /// beyond its limit, at most to twice the limit.
        pub may_renege: bool,
        /// Whether FORWARD-TSN moves past chunks that the peer declared non-renegable (Rajiullah and Brunstrom, *Optimizing PR-SCTP
        /// Performance using NR-SACKs*). Default true; false is for comparison.
        pub forward_past_nonrenegable: bool,
    }
}

impl Default for NrSackConfig {
    fn default() -> Self {
        Self {
            offer: true,
            may_renege: false,
            forward_past_nonrenegable: true,
        }
    }
}

settings! {
    /// Message interleaving (RFC 8260 §2): I-DATA in place of DATA.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct InterleavingConfig {
        /// Whether I-DATA is offered; it replaces DATA if both endpoints offer it. With it a large message does not delay messages of other
        /// streams. Each chunk takes 4 bytes more, and parts of several messages may be delivered alternately, which
        /// [`crate::MessagePart::message`] tells apart. Default true; [`crate::Config::without_extensions`] turns it off.
        pub offer: bool,
    } experiments {
    }
}

impl Default for InterleavingConfig {
    fn default() -> Self {
        Self { offer: true }
    }
}

settings! {
    /// Stream reconfiguration (RFC 6525): resets of streams, and more streams.
    /// [`StreamConfig::max_inbound`](crate::StreamConfig::max_inbound) limits the streams that the peer adds.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReconfigurationConfig {
    } experiments {
        /// Whether RE-CONFIG is offered; it is used if both endpoints offer it. Default true.
        pub offer: bool,
        /// The most outbound streams, if the peer asks this endpoint to add some. Default 65,535.
        pub max_outbound: u16,
        /// Whether the peer may reset the TSNs and the SSNs of the association. Default true. With ECA-SCTP such requests are always denied.
        pub association_reset: bool,
    }
}

impl Default for ReconfigurationConfig {
    fn default() -> Self {
        Self {
            offer: true,
            max_outbound: u16::MAX,
            association_reset: true,
        }
    }
}
