//! The news of channels, for the tests of channels and of sessions.

use anabranch_datachannel::{ChannelConfig, ChannelEvent, ChannelId, ChannelMessage, Refusal};

/// The news of channels, and the messages that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Opened(ChannelId),
    Accepted(ChannelId, ChannelConfig),
    Message(ChannelId, ChannelMessage),
    Writable(ChannelId),
    Closed(ChannelId),
    Refused(ChannelId, Refusal),
}

impl Told {
    /// `None` of an event that is no news: messages can be read.
    pub(crate) fn of(event: ChannelEvent) -> Option<Self> {
        Some(match event {
            ChannelEvent::Opened(id) => Self::Opened(id),
            ChannelEvent::Accepted(id, config) => Self::Accepted(id, config),
            ChannelEvent::Writable(id) => Self::Writable(id),
            ChannelEvent::Closed(id) => Self::Closed(id),
            ChannelEvent::Refused(id, refusal) => Self::Refused(id, refusal),
            _ => return None,
        })
    }
}
