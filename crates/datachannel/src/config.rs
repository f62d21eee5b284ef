//! The properties of a data channel.

use core::time::Duration;

use anabranch_proto::Reliability;

/// The priority of a channel that has no other (RFC 8831 §6.4: *normal*).
pub const NORMAL_PRIORITY: u16 = 256;
/// The least priority with which a channel is served whose lifetime is a deadline (RFC 8831 §6.4: *extra high*).
const URGENT_PRIORITY: u16 = 1024;

/// The properties of a data channel (RFC 8831 §6.4).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelConfig {
    /// A name for the application, at most 65,535 bytes.
    pub label: String,
    /// The name of the protocol that the application uses in the channel, or empty; at most 65,535 bytes.
    pub protocol: String,
    /// Whether messages arrive in the order in which they were sent. Default true.
    pub ordered: bool,
    /// Whether messages may be abandoned: after a lifetime, in milliseconds on the wire, or after retransmissions. Default: they are not.
    pub reliability: Reliability,
    /// Whether the lifetime is a deadline: this side sends the channel's messages so that they are at the peer within it
    /// ([`SendOptions::deadline`](field@anabranch_proto::SendOptions::deadline)), and serves the channel with a priority of at least 1,024. The peer is not told: to it, the channel is one with
    /// a lifetime. Default false. Without a lifetime, it has no effect.
    pub lifetime_is_deadline: bool,
    /// Channels of a higher priority are served first: 128 (below normal), 256 (normal, the default), 512 (high), 1,024 (extra high), or
    /// another number.
    pub priority: u16,
    /// The number of a channel that both peers open without a message about it. Default: the channel is announced to the peer, which
    /// need not know of it.
    pub negotiated: Option<u16>,
}

impl ChannelConfig {
    /// A reliable, ordered channel.
    #[must_use]
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            protocol: String::new(),
            ordered: true,
            reliability: Reliability::Reliable,
            lifetime_is_deadline: false,
            priority: NORMAL_PRIORITY,
            negotiated: None,
        }
    }

    /// Sets the name of the application's protocol.
    #[must_use]
    pub fn protocol(mut self, protocol: impl Into<String>) -> Self {
        self.protocol = protocol.into();
        self
    }

    /// Sets whether messages arrive in order.
    #[must_use]
    pub fn ordered(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        self
    }

    /// Sets whether messages may be abandoned.
    #[must_use]
    pub fn reliability(mut self, reliability: Reliability) -> Self {
        self.reliability = reliability;
        self
    }

    /// An unordered channel whose messages are worthless after this time: sets their lifetime, and that it is a deadline. Call
    /// [`ChannelConfig::ordered`] with `true` afterwards for messages that are of use in order alone.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.lifetime_is_deadline = true;
        self.reliability(Reliability::Lifetime(deadline)).ordered(false)
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: u16) -> Self {
        self.priority = priority;
        self
    }

    /// The priority with which this side serves the channel.
    pub(crate) fn served_priority(&self) -> u16 {
        if self.lifetime_is_deadline {
            self.priority.max(URGENT_PRIORITY)
        } else {
            self.priority
        }
    }

    /// Opens the channel under this number, without a message to the peer, which does the same.
    #[must_use]
    pub fn negotiated(mut self, id: u16) -> Self {
        self.negotiated = Some(id);
        self
    }
}
