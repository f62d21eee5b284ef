//! One data channel.

use crate::config::ChannelConfig;

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) config: ChannelConfig,
    pub(crate) state: State,
    pub(crate) is_theirs: bool,
    /// Whether the application reads the channel's messages: until it closes the channel.
    pub(crate) is_read: bool,
    /// Everything that the peer sent before it reset its stream is read. Later messages of the stream belong to the next channel of this
    /// number.
    pub(crate) is_read_out: bool,
    pub(crate) outgoing: Outgoing,
    /// The peer reset its stream.
    pub(crate) reset_in: bool,
    /// The application knows that the channel is closed.
    pub(crate) told_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The peer has not confirmed it yet: messages are sent in order until it does (RFC 8832 §6).
    Opening,
    Open,
    Closing,
}

/// The stream to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    InUse,
    /// Its reset was requested, or waits for its turn.
    Resetting,
    /// It was reset, and the peer confirmed it.
    Reset,
    /// The peer does not let it be reset: its number cannot be used again.
    Stuck,
}

impl Channel {
    pub(crate) fn new(config: ChannelConfig, state: State, is_theirs: bool) -> Self {
        Self {
            config,
            state,
            is_theirs,
            is_read: true,
            is_read_out: false,
            outgoing: Outgoing::InUse,
            reset_in: false,
            told_closed: false,
        }
    }

    /// Bytes of its label and protocol that the peer chose.
    pub(crate) fn texts(&self) -> usize {
        if self.is_theirs { texts(&self.config) } else { 0 }
    }
}

/// Bytes of label and protocol.
pub(crate) fn texts(config: &ChannelConfig) -> usize {
    config.label.len() + config.protocol.len()
}
