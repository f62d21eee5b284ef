//! The data channels of an association (RFC 8831 §6).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_proto::{
    Association, Event, MessagePart, Ppid, ReconfigurationEvent, ReconfigurationRequest,
    ReconfigurationResult, Reliability, ResetDirection, SchedulerKind, SendError, SendOptions, StreamId,
    StreamItem, StreamSelection, Timestamp,
};
use bytes::{Bytes, BytesMut};

use crate::config::ChannelConfig;
use crate::dcep::Dcep;

/// Payload protocol identifiers (RFC 8831 §8).
const DCEP: Ppid = Ppid(50);
const STRING: Ppid = Ppid(51);
const BINARY: Ppid = Ppid(53);
const STRING_EMPTY: Ppid = Ppid(56);
const BINARY_EMPTY: Ppid = Ppid(57);

/// Bytes of a label, and of a protocol.
const MOST_TEXT: usize = 65_535;
/// The number that no stream has (RFC 8831 §6.2).
const NO_STREAM: u16 = 65_535;

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
    /// Channels at a time, those that are closing included. Channels that the peer opens beyond it are closed. Default 1,024.
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
    /// A message arrived.
    Message(ChannelId, ChannelMessage),
    /// The buffered amount fell to the threshold or below ([`Channels::set_buffered_amount_low_threshold`]).
    BufferedAmountLow(ChannelId),
    /// A message of the channel was refused with [`ChannelSendError::Full`], and the send buffer, which all channels share, has room for
    /// the channel again.
    Writable(ChannelId),
    /// The channel is closed, by either side. Its number may be used for another channel.
    Closed(ChannelId),
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
    /// The peer closed the channel at once, or the session ended.
    #[error("the peer refused the channel, or the connection ended")]
    Refused,
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

#[derive(Debug)]
struct Channel {
    config: ChannelConfig,
    state: State,
    /// The outgoing stream was reset, and the peer confirmed it.
    reset_out: bool,
    /// The peer reset its stream.
    reset_in: bool,
    /// The message that arrives in parts.
    joining: Option<Joining>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The peer has not confirmed it yet: messages are sent in order until it does (RFC 8832 §6).
    Opening,
    Open,
    Closing,
}

#[derive(Debug)]
struct Joining {
    ppid: Ppid,
    bytes: BytesMut,
}

/// The data channels of an association. It keeps no clock and does no I/O: the caller drives the association, and passes each of its events to
/// [`Channels::handle_event`].
#[derive(Debug)]
pub struct Channels {
    role: Role,
    limits: ChannelLimits,
    channels: BTreeMap<u16, Channel>,
    /// Announcements that wait for the association or for room in its buffer.
    announcements: VecDeque<(u16, Dcep)>,
    /// Streams with something to read.
    readable: BTreeSet<u16>,
    /// Channels that the application does not read at present.
    paused: BTreeSet<u16>,
    /// Streams to be reset, and those of the request that waits for its answer.
    resets: BTreeSet<u16>,
    resetting: Vec<u16>,
    events: VecDeque<ChannelEvent>,
    is_established: bool,
}

impl Channels {
    /// The channels of an association that begins. Its streams are read by the channels alone.
    #[must_use]
    pub fn new(role: Role, limits: ChannelLimits) -> Self {
        Self {
            role,
            limits,
            channels: BTreeMap::new(),
            announcements: VecDeque::new(),
            readable: BTreeSet::new(),
            paused: BTreeSet::new(),
            resets: BTreeSet::new(),
            resetting: Vec::new(),
            events: VecDeque::new(),
            is_established: false,
        }
    }

    /// Prepares an association for channels; call it once, before its first event.
    pub fn prepare(association: &mut Association, now: Timestamp) {
        association.separate_new_streams(now, true);
    }

    /// Opens a channel. Messages may be sent at once.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        &mut self,
        association: &mut Association,
        now: Timestamp,
        config: ChannelConfig,
    ) -> Result<ChannelId, OpenError> {
        if config.label.len() > MOST_TEXT || config.protocol.len() > MOST_TEXT {
            return Err(OpenError::TooLong);
        }
        match config.reliability {
            Reliability::Reliable | Reliability::Retransmissions(_) => {}
            Reliability::Lifetime(time)
                if time.subsec_nanos() % 1_000_000 == 0 && u32::try_from(time.as_millis()).is_ok() => {}
            _ => return Err(OpenError::Reliability),
        }
        let streams = association.outbound_streams();
        let id = match config.negotiated {
            Some(id) if id >= streams || id == NO_STREAM || self.channels.contains_key(&id) => {
                return Err(OpenError::InvalidNumber(id));
            }
            Some(id) => id,
            None if self.channels.len() >= self.limits.max_channels => return Err(OpenError::NoNumber),
            None => self.free_number(streams).ok_or(OpenError::NoNumber)?,
        };
        let is_negotiated = config.negotiated.is_some();
        if !is_negotiated {
            self.announcements.push_back((id, Dcep::Open(config.clone())));
        }
        let state = if is_negotiated {
            State::Open
        } else {
            State::Opening
        };
        self.insert(association, id, config, state);
        if is_negotiated && self.is_established {
            self.events.push_back(ChannelEvent::Opened(ChannelId(id)));
        }
        association.stream(now, StreamId(id)).set_separate(true);
        self.announce(association, now);
        Ok(ChannelId(id))
    }

    /// The properties of a channel that is not closed.
    #[must_use]
    pub fn config(&self, id: ChannelId) -> Option<&ChannelConfig> {
        self.channels.get(&id.0).map(|channel| &channel.config)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// See [`ChannelSendError`]; nothing was sent then.
    pub fn send(
        &mut self,
        association: &mut Association,
        now: Timestamp,
        id: ChannelId,
        message: ChannelMessage,
    ) -> Result<(), ChannelSendError> {
        self.announce(association, now);
        let channel = self
            .channels
            .get(&id.0)
            .filter(|channel| channel.state != State::Closing);
        let channel = channel.ok_or(ChannelSendError::Closed)?;
        let (size, limit) = (message.bytes.len(), self.limits.peer_max_message);
        if size > limit {
            return Err(ChannelSendError::TooLarge { size, limit });
        }
        if self.announcements.iter().any(|(waiting, _)| *waiting == id.0) {
            // Nothing may pass the announcement.
            return Err(ChannelSendError::Full);
        }
        let (ppid, bytes) = match (message.is_text, message.bytes.is_empty()) {
            (true, false) => (STRING, message.bytes),
            (false, false) => (BINARY, message.bytes),
            // SCTP has no empty messages: one byte stands for one.
            (true, true) => (STRING_EMPTY, Bytes::from_static(&[0])),
            (false, true) => (BINARY_EMPTY, Bytes::from_static(&[0])),
        };
        let ordered = channel.config.ordered || channel.state == State::Opening;
        let options = SendOptions::default()
            .ppid(ppid)
            .unordered(!ordered)
            .reliability(channel.config.reliability);
        match association.send(now, StreamId(id.0), bytes, options) {
            Ok(_) => Ok(()),
            Err(SendError::BufferFull) => Err(ChannelSendError::Full),
            Err(SendError::TooLarge { size, limit }) => Err(ChannelSendError::TooLarge { size, limit }),
            Err(_) => Err(ChannelSendError::Closed),
        }
    }

    /// Bytes of user data of the channel that wait for their first transmission.
    #[must_use]
    pub fn buffered_amount(&self, association: &Association, id: ChannelId) -> usize {
        association.buffered_amount(StreamId(id.0))
    }

    /// From now on, [`ChannelEvent::BufferedAmountLow`] tells when the buffered amount falls from above `threshold` to it or below.
    pub fn set_buffered_amount_low_threshold(
        &mut self,
        association: &mut Association,
        now: Timestamp,
        id: ChannelId,
        threshold: usize,
    ) {
        let mut stream = association.stream(now, StreamId(id.0));
        // The stream of a channel exists.
        let _ = stream.set_buffered_amount_low_threshold(Some(threshold));
    }

    /// Closes a channel: messages sent before still arrive, messages of the peer are dropped (RFC 8831 §6.7).
    /// [`ChannelEvent::Closed`] tells the end.
    pub fn close(&mut self, association: &mut Association, now: Timestamp, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(&id.0)
            && channel.state != State::Closing
        {
            channel.state = State::Closing;
            self.resets.insert(id.0);
            self.reset(association, now);
        }
    }

    /// An event of the association.
    pub fn handle_event(&mut self, association: &mut Association, now: Timestamp, event: &Event) {
        match event {
            Event::Established { .. } => self.on_established(association, now),
            Event::StreamOpened(stream) | Event::StreamReadable(stream) => {
                self.readable.insert(stream.0);
            }
            Event::Writable(stream) => {
                self.announce(association, now);
                if self.channels.contains_key(&stream.0) {
                    self.events.push_back(ChannelEvent::Writable(ChannelId(stream.0)));
                }
            }
            Event::BufferedAmountLow(stream) if self.channels.contains_key(&stream.0) => {
                self.events
                    .push_back(ChannelEvent::BufferedAmountLow(ChannelId(stream.0)));
            }
            Event::Reconfiguration(ReconfigurationEvent::Answered { request, result })
                if *request == ReconfigurationRequest::ResetOutgoing =>
            {
                self.on_reset(association, now, *result);
            }
            Event::Closed(_) => {
                let closed = std::mem::take(&mut self.channels).into_keys();
                self.events
                    .extend(closed.map(|id| ChannelEvent::Closed(ChannelId(id))));
                self.announcements.clear();
            }
            _ => {}
        }
    }

    /// The next event. Messages are read from the association only when they are asked for here, so that a slow application slows the peer.
    pub fn poll_event(&mut self, association: &mut Association, now: Timestamp) -> Option<ChannelEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let id = self.readable.difference(&self.paused).next().copied()?;
            match association.stream(now, StreamId(id)).recv() {
                None => {
                    self.readable.remove(&id);
                }
                Some(StreamItem::Part(part)) => self.on_part(association, now, id, part),
                Some(StreamItem::Reset) => self.on_peer_reset(association, now, id),
            }
        }
    }

    /// Whether [`Channels::poll_event`] reads messages of this channel. Unread messages of a channel fill the receive window of the
    /// association, and in the end stop the peer's other channels too. Default true.
    pub fn set_reading(&mut self, id: ChannelId, reads: bool) {
        if reads {
            self.paused.remove(&id.0);
        } else {
            self.paused.insert(id.0);
        }
    }

    fn free_number(&self, streams: u16) -> Option<u16> {
        let first = match self.role {
            Role::Client => 0,
            Role::Server => 1,
        };
        (first..streams)
            .step_by(2)
            .find(|id| !self.channels.contains_key(id))
    }

    fn insert(&mut self, association: &mut Association, id: u16, config: ChannelConfig, state: State) {
        if association.scheduler() == SchedulerKind::Priority {
            // Class 0 is served first.
            let _ = association.set_stream_priority(StreamId(id), u16::MAX - config.priority);
        }
        let channel = Channel {
            config,
            state,
            reset_out: false,
            reset_in: false,
            joining: None,
        };
        self.channels.insert(id, channel);
    }

    fn on_established(&mut self, association: &mut Association, now: Timestamp) {
        self.is_established = true;
        let negotiated = self
            .channels
            .iter()
            .filter(|(_, channel)| channel.config.negotiated.is_some());
        let opened = negotiated.map(|(id, _)| ChannelEvent::Opened(ChannelId(*id)));
        self.events.extend(opened);
        self.announce(association, now);
    }

    /// Sends what waits of the protocol's own messages.
    fn announce(&mut self, association: &mut Association, now: Timestamp) {
        while let Some((id, message)) = self.announcements.front() {
            let options = SendOptions::default().ppid(DCEP);
            match association.send(now, StreamId(*id), message.encode().into(), options) {
                Err(SendError::BufferFull) => return,
                // A stream that the peer does not have: the channel cannot be announced.
                Err(SendError::InvalidStream { .. }) => {
                    let id = *id;
                    self.channels.remove(&id);
                    self.events.push_back(ChannelEvent::Closed(ChannelId(id)));
                }
                Ok(_) | Err(_) => {}
            }
            self.announcements.pop_front();
        }
    }

    fn on_part(&mut self, association: &mut Association, now: Timestamp, id: u16, part: MessagePart) {
        if part.ppid == DCEP && part.beginning && part.ending {
            match Dcep::decode(&part.payload.into_bytes()) {
                Some(Dcep::Open(config)) => self.on_open(association, now, id, config),
                Some(Dcep::Ack) => {
                    if let Some(channel) = self.channels.get_mut(&id)
                        && channel.state == State::Opening
                    {
                        channel.state = State::Open;
                        self.events.push_back(ChannelEvent::Opened(ChannelId(id)));
                    }
                }
                None => self.refuse(association, now, id),
            }
            return;
        }
        let Some(channel) = self
            .channels
            .get_mut(&id)
            .filter(|channel| channel.state != State::Closing)
        else {
            // A message of no channel, or of one that this side has closed.
            return;
        };
        if part.beginning {
            channel.joining = Some(Joining {
                ppid: part.ppid,
                bytes: BytesMut::new(),
            });
        }
        let Some(joining) = &mut channel.joining else {
            return;
        };
        if part.truncated {
            // The peer abandoned the rest.
            channel.joining = None;
            return;
        }
        if joining.bytes.len() + part.payload.len() > self.limits.max_message {
            channel.joining = None;
            self.close(association, now, ChannelId(id));
            return;
        }
        for piece in part.payload.pieces() {
            joining.bytes.extend_from_slice(piece);
        }
        if !part.ending {
            return;
        }
        let Some(Joining { ppid, bytes }) = channel.joining.take() else {
            return;
        };
        let bytes = bytes.freeze();
        let message = match ppid {
            STRING => (true, bytes),
            BINARY => (false, bytes),
            STRING_EMPTY => (true, Bytes::new()),
            BINARY_EMPTY => (false, Bytes::new()),
            // Of no data channel (RFC 8831 §6.6).
            _ => return,
        };
        let (is_text, bytes) = message;
        let message = ChannelMessage { is_text, bytes };
        self.events
            .push_back(ChannelEvent::Message(ChannelId(id), message));
    }

    /// The peer announced a channel.
    fn on_open(&mut self, association: &mut Association, now: Timestamp, id: u16, config: ChannelConfig) {
        let is_theirs = match self.role {
            Role::Client => !id.is_multiple_of(2),
            Role::Server => id.is_multiple_of(2),
        };
        let is_full = self.channels.len() >= self.limits.max_channels;
        if !is_theirs || is_full || self.channels.contains_key(&id) || id >= association.outbound_streams() {
            self.refuse(association, now, id);
            return;
        }
        self.insert(association, id, config.clone(), State::Open);
        self.announcements.push_back((id, Dcep::Ack));
        self.announce(association, now);
        self.events
            .push_back(ChannelEvent::Accepted(ChannelId(id), config));
    }

    /// RFC 8832 §6: a channel that cannot be is closed, without a confirmation. One that exists stays.
    fn refuse(&mut self, association: &mut Association, now: Timestamp, id: u16) {
        if !self.channels.contains_key(&id) && id < association.outbound_streams() {
            self.resets.insert(id);
            self.reset(association, now);
        }
    }

    /// Requests the resets that wait, if no request waits for its answer.
    fn reset(&mut self, association: &mut Association, now: Timestamp) {
        if !self.resetting.is_empty() || self.resets.is_empty() {
            return;
        }
        let mut streams: Vec<u16> = self.resets.iter().copied().collect();
        loop {
            let listed = StreamSelection::Listed(streams.iter().copied().map(StreamId).collect());
            match association
                .reconfigure(now)
                .reset_streams(listed, ResetDirection::Outgoing)
            {
                Ok(()) => break,
                Err(anabranch_proto::ReconfigurationError::TooManyStreams { limit }) if limit > 0 => {
                    streams.truncate(limit);
                }
                // Later: another request waits, or set-up is not complete.
                Err(_) => return,
            }
        }
        for stream in &streams {
            self.resets.remove(stream);
        }
        self.resetting = streams;
    }

    /// The peer answered this side's reset.
    fn on_reset(&mut self, association: &mut Association, now: Timestamp, result: ReconfigurationResult) {
        for id in std::mem::take(&mut self.resetting) {
            match result {
                ReconfigurationResult::Performed | ReconfigurationResult::NothingToDo => {
                    if let Some(channel) = self.channels.get_mut(&id) {
                        channel.reset_out = true;
                        self.end_if_reset(id);
                    }
                }
                _ => {
                    self.resets.insert(id);
                }
            }
        }
        self.reset(association, now);
    }

    /// The peer reset its stream: it closes the channel, or confirms that this side closed it.
    fn on_peer_reset(&mut self, association: &mut Association, now: Timestamp, id: u16) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        channel.reset_in = true;
        channel.joining = None;
        if channel.state != State::Closing {
            channel.state = State::Closing;
            self.announcements.retain(|(waiting, _)| *waiting != id);
            self.resets.insert(id);
            self.reset(association, now);
        }
        self.end_if_reset(id);
    }

    fn end_if_reset(&mut self, id: u16) {
        if let Some(channel) = self.channels.get(&id)
            && channel.reset_in
            && channel.reset_out
        {
            self.channels.remove(&id);
            self.paused.remove(&id);
            self.events.push_back(ChannelEvent::Closed(ChannelId(id)));
        }
    }
}
