//! WebRTC data channels (RFC 8831, RFC 8832) without socket or thread.
//!
//! A [`Session`] is a peer connection: it makes and reads offers and answers, and joins ICE, DTLS, SCTP and the channels. [`Channels`] are the
//! channels alone, over an association of `anabranch-proto` that the program sets up in another way.

mod channels;
mod config;
mod dcep;
mod sdp;
mod session;

pub use channels::{
    ChannelEvent, ChannelId, ChannelLimits, ChannelMessage, ChannelSendError, Channels, OpenError, Role,
};
pub use config::{ChannelConfig, NORMAL_PRIORITY};
pub use sdp::SdpError;
pub use session::{Datagram, Session, SessionConfig, SessionEnd, SessionError, SessionEvent};
