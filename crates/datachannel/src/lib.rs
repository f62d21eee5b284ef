//! WebRTC data channels (RFC 8831, RFC 8832) over an association of `anabranch-proto`, without socket or thread.
//!
//! [`Channels`] opens, accepts and closes channels, and sends and receives their messages.

mod channels;
mod config;
mod dcep;

pub use channels::{
    ChannelEvent, ChannelId, ChannelLimits, ChannelMessage, ChannelSendError, Channels, OpenError, Role,
};
pub use config::{ChannelConfig, NORMAL_PRIORITY};
