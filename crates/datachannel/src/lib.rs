//! WebRTC data channels (RFC 8831, RFC 8832) without socket or thread.
//!
//! A [`Session`] is a peer connection: it makes and reads offers and answers, and joins ICE, DTLS, SCTP and the channels. [`Channels`] are the
//! channels alone, over an association of `anabranch-proto` that the program sets up in another way. With the feature `tokio`,
//! `PeerConnection` runs a session on a UDP socket.

mod channel;
mod channels;
mod config;
mod dcep;
mod interface;
mod joins;
#[cfg(feature = "tokio")]
mod peer_connection;
mod resets;
mod sdp;
mod session;
mod session_config;
mod unclaimed;

pub use channels::Channels;
pub use config::{ChannelConfig, NORMAL_PRIORITY};
pub use interface::{
    ChannelEvent, ChannelId, ChannelLimits, ChannelMessage, ChannelSendError, OpenError, Refusal, Role,
};
#[cfg(feature = "tokio")]
pub use peer_connection::{DataChannel, PeerConnection};
pub use sdp::{SdpError, candidate_addresses};
pub use session::{Datagram, Session, SessionEnd, SessionEvent, SessionTransmit};
pub use session_config::{SessionConfig, SessionError};
