//! The settings of buffers and of the receive window.

use super::error::{ConfigError, check};
use super::settings::settings;

settings! {
    /// Buffers, the receive window, and limits on the memory that a peer can occupy.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BufferConfig {
        /// The receive buffer: the advertised receiver window (a_rwnd) when nothing waits to be read, in bytes of user data. At least
        /// 1,500 (RFC 9260 §3.3.2), default 1 MiB. Memory is limited too, to twice this and 32 KiB: each chunk counts 256 bytes beside its user
        /// data, and so does each incomplete message. So messages shorter than 256 bytes get a smaller window.
        pub receive: u32,
        /// The send buffer: bytes of user data queued or not yet acknowledged. At least 1, default 1 MiB. While all streams together have
        /// less, each accepts messages. Then a stream that has filled its share answers [`crate::SendError::BufferFull`], and others go on:
        /// see `stream_shares`. All streams together take at most twice this, and one message more: a single message may be larger than the
        /// buffer. This bound counts memory, with about 230 bytes for each message or chunk in addition to its user data.
        pub send: usize,
        /// The factor by which `receive` and `send` may grow automatically, at least 1. The receive buffer grows when the application reads
        /// a whole window within half a second. The send buffer grows when half of it is in flight. Default 16, which fills a path of
        /// 1 Gbit/s and 130 ms; 1 turns growth off.
        pub growth: u32,
        /// The largest message that `send` accepts, in bytes, at least 1. Default 256 MiB. Longer messages are sent in parts
        /// ([`crate::Association::send_part`]).
        pub max_message: usize,
    } experiments {
        /// Whether the streams share the send buffer fairly, so that a stream which has filled its share delays `send` of no other stream.
        /// Default true. The share of a stream is what twice `send` leaves free: all of `send` for a single stream, two thirds of it for each
        /// of two, and so on. With the scheduler [`SchedulerKind::Priority`](crate::SchedulerKind::Priority) the data of less urgent classes
        /// does not count in a stream's share, and each class in use keeps an equal part of `send`, which other classes leave free. With more than eight classes the least urgent
        /// ones keep the last eighth together. False is for comparison with other stacks: the streams use one buffer, and all wait when it is
        /// full.
        pub stream_shares: bool,
        /// A message longer than this, in bytes, is delivered in parts before it is complete (partial delivery, RFC 9260 §6.9). At least 1;
        /// never more than half of `receive` is used. Default 256 KiB.
        pub partial_delivery_point: usize,
    }
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self {
            receive: 1 << 20,
            send: 1 << 20,
            growth: 16,
            max_message: 256 << 20,
            stream_shares: true,
            partial_delivery_point: 256 << 10,
        }
    }
}

impl BufferConfig {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[
            (
                self.receive >= 1500,
                "buffers.receive",
                "must be at least 1500 bytes",
            ),
            (self.send >= 1, "buffers.send", "must be at least 1 byte"),
            (
                self.growth >= 1,
                "buffers.growth",
                "must be at least 1, which turns growth off",
            ),
            (
                self.max_message >= 1,
                "buffers.max_message",
                "must be at least 1 byte",
            ),
            (
                self.partial_delivery_point >= 1,
                "buffers.partial_delivery_point",
                "must be at least 1 byte",
            ),
        ])
    }
}
