//! The values that pass between channels and the application: numbers, limits, messages, events and errors.

use bytes::Bytes;

use crate::config::ChannelConfig;

/// The role in the DTLS handshake, which decides who may open which channels (RFC 8832 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The DTLS client: it opens channels with even numbers.
    Client,
    /// The DTLS server: it opens channels with odd numbers.
    Server,
}

/// A data channel: the number of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u16);

/// Limits of the channels of one association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelLimits {
    /// The largest message that this side accepts, in bytes; it announces the number (`max-message-size`). Default 256 KiB.
    pub max_message: usize,
    /// The largest message that the peer accepts, in bytes, as it announced. Default 64 KiB (RFC 8841 §6.1).
    pub peer_max_message: usize,
    /// Channels at a time, those that are closing included, and those whose messages are not read to the end. Channels that the peer opens
    /// beyond it are closed. Default 1,024.
    pub max_channels: usize,
}

impl Default for ChannelLimits {
    fn default() -> Self {
        Self {
            max_message: 256 << 10,
            peer_max_message: 64 << 10,
            max_channels: 1024,
        }
    }
}

/// A message of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelMessage {
    /// Whether the message is a text. The peer says so; the bytes may be no UTF-8 nevertheless.
    pub is_text: bool,
    /// The bytes; a message may be empty.
    pub bytes: Bytes,
}

/// An event of the channels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelEvent {
    /// The channel that this side opened is open: the peer confirmed it.
    Opened(ChannelId),
    /// The peer opened a channel.
    Accepted(ChannelId, ChannelConfig),
    /// [`crate::Channels::recv`] may return messages of the channel. It need not be told again before `recv` has returned `None`.
    Readable(ChannelId),
    /// The buffered amount fell to the threshold or below ([`crate::Channels::set_buffered_amount_low_threshold`]).
    BufferedAmountLow(ChannelId),
    /// A message of the channel was refused with [`ChannelSendError::Full`], and the send buffer, which all channels share, has room for
    /// the channel again.
    Writable(ChannelId),
    /// The channel is closed: no more messages can be sent. If the peer closed it, its last messages can still be read; the peer learns that
    /// the channel is closed, and its number is free, after [`crate::Channels::recv`] has returned `None`, or [`crate::Channels::close`] was called.
    Closed(ChannelId),
    /// The peer opened a channel, or sent in one, and this side closed it at once.
    Refused(ChannelId, Refusal),
}

/// The reason why this side refused a channel of the peer (RFC 8832 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There are as many channels as [`ChannelLimits::max_channels`].
    #[error("there are as many channels as the limits of this side allow")]
    TooMany,
    /// The labels and protocols of all channels are longer than 1 MiB.
    #[error("the labels and protocols of all channels are longer than 1 MiB")]
    LongTexts,
    /// The number is in use, belongs to this side, or is beyond the streams to the peer.
    #[error(
        "the number of the channel is in use, belongs to this side, or is beyond the streams to the peer"
    )]
    Number,
    /// The announcement is malformed.
    #[error("the peer's DATA_CHANNEL_OPEN is malformed")]
    Malformed,
    /// Messages arrived, and within 10 s neither the peer announced the channel nor the application opened it.
    #[error("messages arrived, and within 10 s neither side opened the channel")]
    NotOpened,
}

/// The reason why a channel was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Label or protocol are too long.
    #[error("label and protocol have at most 65,535 bytes each")]
    TooLong,
    /// The number of a negotiated channel is in use, or no stream has it.
    #[error("the number {0} is in use, or beyond the streams of the association")]
    InvalidNumber(u16),
    /// No number is left.
    #[error("all numbers of channels are in use; close channels, and wait until they are closed")]
    NoNumber,
    /// The peer closed the channel instead of confirming it.
    #[error("the peer refused the channel")]
    Refused,
    /// The session ended before the peer confirmed the channel.
    #[error("the connection ended before the channel was open")]
    Ended,
    /// The session is not connected yet.
    #[error("the session is not connected yet; wait for the event `Connected`")]
    NotConnected,
    /// The lifetime of the channel's messages is not a number of milliseconds that the protocol can carry, or the reliability is another.
    #[error(
        "a channel's messages have a lifetime of whole milliseconds, at most 2^32 - 1, or a limit of retransmissions, or none"
    )]
    Reliability,
}

/// The reason why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelSendError {
    /// There is no such channel, or it is closing.
    #[error("the channel is closed")]
    Closed,
    /// The message is larger than the peer accepts.
    #[error(
        "a message of {size} bytes is larger than the {limit} bytes that the peer accepts; send it in parts"
    )]
    TooLarge {
        /// The message's length in bytes.
        size: usize,
        /// The peer's limit.
        limit: usize,
    },
    /// The send buffer is full: the channel has filled its share, or all channels together have filled the buffer.
    /// [`ChannelEvent::Writable`] tells when there is room.
    #[error("the send buffer is full; wait until the channel is writable")]
    Full,
}
