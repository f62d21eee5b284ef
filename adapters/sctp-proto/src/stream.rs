//! A stream, as the application uses it.

use std::fmt;
use std::time::Duration;

use anabranch_proto::{Reliability, SendOptions};
use bytes::Bytes;

use crate::association::Association;
use crate::error::{Error, Result};
use crate::event::{DataChannelStats, StreamEvent, StreamId};
use crate::message::{Chunks, PayloadProtocolIdentifier};

/// Whether messages of a stream may be abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReliabilityType {
    /// They are not.
    #[default]
    Reliable = 0,
    /// After a number of retransmissions (RFC 7496 §3.1).
    Rexmit = 1,
    /// After a lifetime in milliseconds (RFC 3758 §4.1). See also [`crate::TransportConfig::with_lifetime_is_deadline`].
    Timed = 2,
}

impl fmt::Display for ReliabilityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl From<u8> for ReliabilityType {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Rexmit,
            2 => Self::Timed,
            _ => Self::Reliable,
        }
    }
}

/// The reset of this side's direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnReset {
    None,
    Pending,
    Performed,
    Failed,
}

/// The state of a stream.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Whether the application may still read, and write.
    pub(crate) reads: bool,
    writes: bool,
    pub(crate) own_reset: OwnReset,
    /// Whether [`StreamEvent::Readable`] waits to be polled.
    pub(crate) told_readable: bool,
    unordered: bool,
    reliability: (ReliabilityType, u32),
    pub(crate) default_payload_type: PayloadProtocolIdentifier,
    pub(crate) low_threshold: usize,
    high_threshold: usize,
    /// Bytes that were written and not given to the core yet.
    pub(crate) written: usize,
    pub(crate) stats: DataChannelStats,
}

impl Channel {
    pub(crate) fn new(id: StreamId, generation: u64) -> Self {
        Self {
            reads: true,
            writes: true,
            own_reset: OwnReset::None,
            told_readable: false,
            unordered: false,
            reliability: (ReliabilityType::Reliable, 0),
            default_payload_type: PayloadProtocolIdentifier::Unknown,
            low_threshold: 0,
            high_threshold: usize::MAX,
            written: 0,
            stats: DataChannelStats {
                stream_identifier: id,
                generation,
                ..DataChannelStats::default()
            },
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.stats.generation
    }

    /// The options of a message. Those about channels are reliable and ordered (RFC 8832 §6).
    fn options(&self, ppi: PayloadProtocolIdentifier, lifetime_is_deadline: bool) -> SendOptions {
        let options = SendOptions::default().ppid(ppi.to_core());
        if ppi == PayloadProtocolIdentifier::Dcep {
            return options;
        }
        let (kind, value) = self.reliability;
        let time = Duration::from_millis(value.into());
        let options = match kind {
            ReliabilityType::Reliable => options,
            ReliabilityType::Rexmit => options.reliability(Reliability::Retransmissions(value)),
            ReliabilityType::Timed if lifetime_is_deadline => options.deadline(time),
            ReliabilityType::Timed => options.lifetime(time),
        };
        options.unordered(self.unordered)
    }

    pub(crate) fn count_received(&mut self, message: &Chunks) {
        if let Some(bytes) = message.ppi.counted(message.len()) {
            self.stats.messages_received += 1;
            self.stats.bytes_received += bytes;
        }
    }

    fn count_sent(&mut self, ppi: PayloadProtocolIdentifier, len: usize) {
        if let Some(bytes) = ppi.counted(len) {
            self.stats.messages_sent += 1;
            self.stats.bytes_sent += bytes;
        }
    }
}

/// A stream of an association: [`Association::stream`].
#[derive(Debug)]
pub struct Stream<'a> {
    association: &'a mut Association,
    id: StreamId,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(association: &'a mut Association, id: StreamId) -> Self {
        Self { association, id }
    }

    fn channel(&self) -> Result<&Channel> {
        let channel = self.association.channels.get(&self.id);
        channel.ok_or(Error::ErrStreamClosed)
    }

    fn channel_mut(&mut self) -> Result<&mut Channel> {
        let channel = self.association.channels.get_mut(&self.id);
        channel.ok_or(Error::ErrStreamClosed)
    }

    /// The number of the stream.
    #[must_use]
    pub fn stream_identifier(&self) -> StreamId {
        self.id
    }

    /// The statistics of the stream.
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn stats(&self) -> Result<DataChannelStats> {
        Ok(self.channel()?.stats)
    }

    /// The next message; `None` if no whole message is here.
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`], and [`Error::ErrInboundPacketTooLarge`], after which the association is aborted.
    pub fn read(&mut self) -> Result<Option<Chunks>> {
        if !self.is_readable() {
            return Err(Error::ErrStreamClosed);
        }
        self.association.read(self.id)
    }

    /// As [`Stream::read`].
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn read_sctp(&mut self) -> Result<Option<Chunks>> {
        self.read()
    }

    /// Writes a message with the default payload protocol identifier. Returns its length.
    ///
    /// # Errors
    /// See [`Stream::write_with_ppi`].
    pub fn write(&mut self, data: &[u8]) -> Result<usize> {
        let ppi = self.get_default_payload_type()?;
        self.write_with_ppi(data, ppi)
    }

    /// Writes a message. Returns its length. An empty one is sent as a byte if its identifier says that it is empty (RFC 8831 §6.6), and
    /// otherwise not at all, because SCTP has no empty messages.
    ///
    /// # Errors
    /// [`Error::ErrOutboundPacketTooLarge`], and [`Error::ErrStreamClosed`] also if the association is shutting down.
    pub fn write_with_ppi(&mut self, data: &[u8], ppi: PayloadProtocolIdentifier) -> Result<usize> {
        self.send(Bytes::copy_from_slice(data), ppi)
    }

    /// As [`Stream::write_with_ppi`], without copying the message.
    ///
    /// # Errors
    /// As [`Stream::write_with_ppi`].
    pub fn write_sctp(&mut self, data: &Bytes, ppi: PayloadProtocolIdentifier) -> Result<usize> {
        self.send(data.clone(), ppi)
    }

    /// As [`Stream::write`], without copying the message.
    ///
    /// # Errors
    /// As [`Stream::write_with_ppi`].
    pub fn write_chunk(&mut self, data: &Bytes) -> Result<usize> {
        let ppi = self.get_default_payload_type()?;
        self.send(data.clone(), ppi)
    }

    /// As [`Stream::write`]; the pieces are one message.
    ///
    /// # Errors
    /// As [`Stream::write_with_ppi`].
    pub fn write_chunks(&mut self, data: &mut [Bytes]) -> Result<usize> {
        let ppi = self.get_default_payload_type()?;
        self.send(data.concat().into(), ppi)
    }

    fn send(&mut self, message: Bytes, ppi: PayloadProtocolIdentifier) -> Result<usize> {
        if !self.is_writable() || self.association.is_closing() || self.association.is_closed() {
            return Err(Error::ErrStreamClosed);
        }
        let len = message.len();
        if len > self.association.max_send_message_size {
            return Err(Error::ErrOutboundPacketTooLarge);
        }
        let message = match (len, ppi.is_empty()) {
            (0, true) => Bytes::from_static(&[0]),
            (0, false) => return Ok(0),
            _ => message,
        };
        let before = self.buffered_amount()?;
        let lifetime_is_deadline = self.association.lifetime_is_deadline;
        let channel = self.channel_mut()?;
        let options = channel.options(ppi, lifetime_is_deadline);
        channel.count_sent(ppi, len);
        if before < channel.high_threshold && before + message.len() >= channel.high_threshold {
            let id = self.id;
            self.association.push(StreamEvent::BufferedAmountHigh { id });
        }
        self.association.write(self.id, message, options);
        Ok(len)
    }

    /// Whether messages may be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.channel().is_ok_and(|channel| channel.reads)
    }

    /// Whether messages may be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.channel()
            .is_ok_and(|channel| channel.writes && channel.own_reset == OwnReset::None)
    }

    /// Reads no more messages, drops those that have arrived, and resets the stream after the messages that were written.
    ///
    /// # Errors
    /// [`Error::ErrResetPacketInStateNotExist`]; nothing was changed then.
    pub fn stop(&mut self) -> Result<()> {
        self.association.stop(self.id)
    }

    /// Writes no more messages.
    ///
    /// # Errors
    /// None: the type is that of `sctp-proto`.
    pub fn finish(&mut self) -> Result<()> {
        if let Ok(channel) = self.channel_mut() {
            channel.writes = false;
        }
        Ok(())
    }

    /// Closes the stream in both directions: [`Stream::finish`] and [`Stream::stop`].
    ///
    /// # Errors
    /// See [`Stream::stop`].
    pub fn close(&mut self) -> Result<()> {
        self.finish()?;
        self.stop()
    }

    /// Sets the payload protocol identifier of [`Stream::write`].
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn set_default_payload_type(&mut self, ppi: PayloadProtocolIdentifier) -> Result<()> {
        self.channel_mut()?.default_payload_type = ppi;
        Ok(())
    }

    /// The payload protocol identifier of [`Stream::write`].
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn get_default_payload_type(&self) -> Result<PayloadProtocolIdentifier> {
        Ok(self.channel()?.default_payload_type)
    }

    /// Sets whether messages written from now on are unordered, and whether they may be abandoned: after `value` retransmissions or
    /// milliseconds.
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn set_reliability_params(
        &mut self,
        unordered: bool,
        kind: ReliabilityType,
        value: u32,
    ) -> Result<()> {
        let channel = self.channel_mut()?;
        channel.unordered = unordered;
        channel.reliability = (kind, value);
        Ok(())
    }

    /// Bytes of messages that were written and not sent yet. `sctp-proto` also counts those that were not acknowledged.
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn buffered_amount(&self) -> Result<usize> {
        self.channel()?;
        Ok(self.association.buffered_amount(self.id))
    }

    /// The low threshold of the buffered amount. Default 0.
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn buffered_amount_low_threshold(&self) -> Result<usize> {
        Ok(self.channel()?.low_threshold)
    }

    /// Sets when [`StreamEvent::BufferedAmountLow`] is told: when the buffered amount falls from above the threshold to it or below.
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn set_buffered_amount_low_threshold(&mut self, bytes: usize) -> Result<()> {
        self.channel_mut()?.low_threshold = bytes;
        self.association.watch_buffered_amount(self.id);
        Ok(())
    }

    /// The high threshold of the buffered amount. Default: there is none.
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn buffered_amount_high_threshold(&self) -> Result<usize> {
        Ok(self.channel()?.high_threshold)
    }

    /// Sets when [`StreamEvent::BufferedAmountHigh`] is told: when the buffered amount reaches the threshold.
    ///
    /// # Errors
    /// [`Error::ErrStreamClosed`].
    pub fn set_buffered_amount_high_threshold(&mut self, bytes: usize) -> Result<()> {
        self.channel_mut()?.high_threshold = bytes;
        Ok(())
    }
}
