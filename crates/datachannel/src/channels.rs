//! The data channels of an association (RFC 8831 §6).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_proto::{
    Association, AssociationState, Event, MessagePart, NextItem, Ppid, ReconfigurationEvent,
    ReconfigurationRequest, ReconfigurationResult, Reliability, SchedulerKind, SendError, SendOptions,
    StreamId, StreamItem, StreamSelection, Timestamp,
};
use bytes::Bytes;

use crate::channel::{Channel, Outgoing, State, texts};
use crate::config::ChannelConfig;
use crate::dcep::{self, Dcep};
use crate::interface::{
    ChannelEvent, ChannelId, ChannelLimits, ChannelMessage, ChannelSendError, OpenError, Refusal, Role,
};
use crate::joins::{Joined, Joins};
use crate::resets::Resets;
use crate::unclaimed::Unclaimed;

/// Payload protocol identifiers (RFC 8831 §8).
const DCEP: Ppid = Ppid(50);
const STRING: Ppid = Ppid(51);
const BINARY: Ppid = Ppid(53);
const STRING_EMPTY: Ppid = Ppid(56);
const BINARY_EMPTY: Ppid = Ppid(57);

/// Bytes of a label, and of a protocol.
const MOST_TEXT: usize = 65_535;
/// Bytes of the labels and protocols of all channels that the peer opened.
const MOST_TEXTS: usize = 1 << 20;
/// The number that no stream has (RFC 8831 §6.2).
const NO_STREAM: u16 = 65_535;

/// A message of a data channel has one of these identifiers (RFC 8831 §6.6).
fn message(ppid: Ppid, bytes: Bytes) -> Option<ChannelMessage> {
    let (is_text, bytes) = match ppid {
        STRING => (true, bytes),
        BINARY => (false, bytes),
        STRING_EMPTY => (true, Bytes::new()),
        BINARY_EMPTY => (false, Bytes::new()),
        _ => return None,
    };
    Some(ChannelMessage { is_text, bytes })
}

/// The data channels of an association. Messages stay in the association, and in its receive window, until the application reads them. This
/// type keeps no clock and does no I/O: the caller drives the association, and passes each of its events to [`Channels::handle_event`].
#[derive(Debug)]
pub struct Channels {
    role: Role,
    limits: ChannelLimits,
    channels: BTreeMap<u16, Channel>,
    /// Bytes of the labels and protocols that the peer chose.
    texts: usize,
    /// Channels whose announcement or confirmation waits for the association or for room in its buffer.
    announcements: VecDeque<u16>,
    /// Streams with something to read that [`Channels::poll_event`] has not looked at.
    fresh: BTreeSet<u16>,
    /// Streams whose channel was refused: what the peer has sent in it is dropped until the peer resets its stream.
    refused: BTreeSet<u16>,
    unclaimed: Unclaimed,
    joins: Joins,
    resets: Resets,
    events: VecDeque<ChannelEvent>,
    is_established: bool,
}

/// Serves a channel according to its priority, where the association has priorities.
fn prioritise(association: &mut Association, id: u16, config: &ChannelConfig) {
    if association.scheduler() == SchedulerKind::Priority {
        // Class 0 is served first.
        let _ = association.set_stream_priority(StreamId(id), u16::MAX - config.served_priority());
    }
}

impl Channels {
    /// The channels of an association that begins. Its streams are read by the channels alone.
    #[must_use]
    pub fn new(role: Role, limits: ChannelLimits) -> Self {
        Self {
            role,
            limits,
            channels: BTreeMap::new(),
            texts: 0,
            announcements: VecDeque::new(),
            fresh: BTreeSet::new(),
            refused: BTreeSet::new(),
            unclaimed: Unclaimed::default(),
            joins: Joins::default(),
            resets: Resets::default(),
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
            // The stream of a channel that was refused may be about to be reset.
            Some(id)
                if id >= streams
                    || id == NO_STREAM
                    || self.channels.contains_key(&id)
                    || self.resets.is_pending(id) =>
            {
                return Err(OpenError::InvalidNumber(id));
            }
            Some(id) => id,
            None if self.channels.len() >= self.limits.max_channels => return Err(OpenError::NoNumber),
            None => self.free_number(streams).ok_or(OpenError::NoNumber)?,
        };
        let is_negotiated = config.negotiated.is_some();
        if !is_negotiated {
            self.announcements.push_back(id);
        }
        let state = if is_negotiated {
            State::Open
        } else {
            State::Opening
        };
        self.insert(association, id, Channel::new(config, state, false));
        if is_negotiated && self.is_established {
            self.events.push_back(ChannelEvent::Opened(ChannelId(id)));
        }
        association.stream(now, StreamId(id)).set_separate(true);
        // The peer may have sent in a negotiated channel before it was opened here.
        self.refused.remove(&id);
        self.unclaimed.remove(id);
        self.fresh.insert(id);
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
        if self.announcements.contains(&id.0) {
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
        let options = SendOptions::default().ppid(ppid);
        let options = match channel.config.reliability {
            Reliability::Lifetime(time) if channel.config.lifetime_is_deadline => options.deadline(time),
            reliability => options.reliability(reliability),
        };
        let options = options.unordered(!ordered);
        match association.send(now, StreamId(id.0), bytes, options) {
            Ok(_) => Ok(()),
            Err(SendError::BufferFull) => Err(ChannelSendError::Full),
            Err(SendError::TooLarge { size, limit }) => Err(ChannelSendError::TooLarge { size, limit }),
            Err(_) => Err(ChannelSendError::Closed),
        }
    }

    /// Sets whether the lifetime of a channel's messages is a deadline ([`ChannelConfig::lifetime_is_deadline`]): for channels that the peer
    /// opened.
    pub fn set_lifetime_is_deadline(
        &mut self,
        association: &mut Association,
        id: ChannelId,
        is_deadline: bool,
    ) {
        if let Some(channel) = self.channels.get_mut(&id.0) {
            channel.config.lifetime_is_deadline = is_deadline;
            prioritise(association, id.0, &channel.config);
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

    /// Closes a channel: messages sent before still arrive, unread messages of the peer are dropped (RFC 8831 §6.7).
    /// [`ChannelEvent::Closed`] tells the end.
    pub fn close(&mut self, association: &mut Association, now: Timestamp, id: ChannelId) {
        let id = id.0;
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut channel.is_read, false) {
            self.joins.forget(id);
            self.fresh.insert(id);
        }
        channel.state = State::Closing;
        let announced = self.announcements.len();
        self.announcements.retain(|waiting| *waiting != id);
        if self.announcements.len() < announced && !channel.is_theirs {
            // The peer does not know of the channel.
            self.remove(id);
            self.events.push_back(ChannelEvent::Closed(ChannelId(id)));
        } else {
            self.reset_outgoing(id);
            self.reset(association, now);
        }
    }

    /// The next message of a channel. `None` if there is none at present, or the channel is closed and its last message was returned. Unread
    /// messages of a channel fill the receive window of the association, and in the end stop the peer's other channels too.
    pub fn recv(
        &mut self,
        association: &mut Association,
        now: Timestamp,
        id: ChannelId,
    ) -> Option<ChannelMessage> {
        loop {
            let channel = self.channels.get(&id.0)?;
            if !channel.is_read || channel.is_read_out {
                return None;
            }
            let part = match association.stream(now, StreamId(id.0)).recv()? {
                StreamItem::Part(part) => part,
                StreamItem::Reset => {
                    self.on_read_out(association, now, id.0);
                    return None;
                }
            };
            if part.ppid == DCEP {
                self.on_dcep(association, now, id.0, part);
                continue;
            }
            self.confirm(id.0);
            match self.joins.add(part, self.limits.max_message) {
                Joined::Message(ppid, bytes) => {
                    if let Some(message) = message(ppid, bytes) {
                        return Some(message);
                    }
                }
                Joined::Incomplete => {}
                Joined::TooLarge => self.close(association, now, id),
            }
        }
    }

    /// An event of the association.
    pub fn handle_event(&mut self, association: &mut Association, now: Timestamp, event: &Event) {
        match event {
            Event::Established { .. } if !self.is_established => self.on_established(association, now),
            // The peer has forgotten the channels, and the DTLS connection that carries them has not ended: no peer needs this.
            Event::Restarted => association.abort(now, Bytes::from_static(b"restarted")),
            Event::StreamOpened(stream) | Event::StreamReadable(stream) => {
                self.fresh.insert(stream.0);
            }
            Event::Writable(stream) => {
                self.announce(association, now);
                if self.is_open(stream.0) {
                    self.events.push_back(ChannelEvent::Writable(ChannelId(stream.0)));
                }
            }
            Event::BufferedAmountLow(stream) if self.is_open(stream.0) => {
                self.events
                    .push_back(ChannelEvent::BufferedAmountLow(ChannelId(stream.0)));
            }
            Event::Reconfiguration(ReconfigurationEvent::Answered { request, result })
                if *request == ReconfigurationRequest::ResetOutgoing =>
            {
                self.on_reset(association, now, *result);
            }
            Event::Reconfiguration(ReconfigurationEvent::InboundReset { streams, .. }) => {
                self.on_peer_resets(association, now, streams);
            }
            Event::Closed(_) => self.on_association_closed(association, now),
            _ => {}
        }
    }

    /// The next event. Announcements of channels are read from the association here; the channels' messages by [`Channels::recv`].
    pub fn poll_event(&mut self, association: &mut Association, now: Timestamp) -> Option<ChannelEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let id = *self.fresh.first()?;
            if association.state() == AssociationState::Closed {
                // All events of the channels are told at its end.
                return None;
            }
            self.look(association, now, id);
        }
    }

    /// When [`Channels::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        [self.unclaimed.due(), self.resets.due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The time has come that [`Channels::poll_timeout`] returned.
    pub fn handle_timeout(&mut self, association: &mut Association, now: Timestamp) {
        while let Some(id) = self.unclaimed.expired(now) {
            self.refuse(association, now, id, Refusal::NotOpened);
            self.fresh.insert(id);
        }
        if self.resets.due().is_some_and(|due| due <= now) {
            self.reset(association, now);
        }
    }

    /// Whether there is a channel that the application does not know to be closed.
    fn is_open(&self, id: u16) -> bool {
        self.channels.get(&id).is_some_and(|channel| !channel.told_closed)
    }

    fn free_number(&self, streams: u16) -> Option<u16> {
        let first = match self.role {
            Role::Client => 0,
            Role::Server => 1,
        };
        (first..streams)
            .step_by(2)
            .find(|id| !self.channels.contains_key(id) && !self.resets.is_pending(*id))
    }

    fn insert(&mut self, association: &mut Association, id: u16, channel: Channel) {
        prioritise(association, id, &channel.config);
        self.texts += channel.texts();
        self.channels.insert(id, channel);
    }

    fn remove(&mut self, id: u16) {
        if let Some(channel) = self.channels.remove(&id) {
            self.texts -= channel.texts();
            // The peer may have opened the next channel of this number.
            self.fresh.insert(id);
        }
    }

    fn on_established(&mut self, association: &mut Association, now: Timestamp) {
        self.is_established = true;
        let negotiated = self
            .channels
            .iter()
            .filter(|(_, channel)| channel.config.negotiated.is_some() && channel.state == State::Open);
        let opened = negotiated.map(|(id, _)| ChannelEvent::Opened(ChannelId(*id)));
        self.events.extend(opened);
        self.announce(association, now);
        self.reset(association, now);
    }

    /// Sends what waits of the protocol's own messages.
    fn announce(&mut self, association: &mut Association, now: Timestamp) {
        while let Some(id) = self.announcements.front().copied() {
            if let Some(channel) = self.channels.get(&id) {
                let message = if channel.is_theirs {
                    dcep::ack()
                } else {
                    dcep::open(&channel.config)
                };
                let options = SendOptions::default().ppid(DCEP);
                match association.send(now, StreamId(id), message.into(), options) {
                    Err(SendError::BufferFull) => return,
                    // A stream that the peer does not have: the channel cannot be announced.
                    Err(SendError::InvalidStream { .. }) => {
                        self.remove(id);
                        self.events.push_back(ChannelEvent::Closed(ChannelId(id)));
                    }
                    Ok(_) | Err(_) => {}
                }
            }
            self.announcements.pop_front();
        }
    }

    /// Reads what the application does not: announcements, and messages in a channel that this side has refused or closed. Everything else
    /// stays in the association, also messages before their channel is opened.
    fn look(&mut self, association: &mut Association, now: Timestamp, id: u16) {
        self.fresh.remove(&id);
        loop {
            let mut stream = association.stream(now, StreamId(id));
            let next = stream.peek();
            match (self.channels.get(&id), next) {
                (Some(channel), _) if channel.is_read_out => return,
                (_, None | Some(NextItem::Message(DCEP))) => {}
                (Some(channel), _) if channel.is_read => {
                    if next != Some(NextItem::Reset) {
                        self.confirm(id);
                    }
                    if self.is_open(id) {
                        self.events.push_back(ChannelEvent::Readable(ChannelId(id)));
                    }
                    return;
                }
                (None, Some(NextItem::Message(_))) if !self.refused.contains(&id) => {
                    self.unclaimed.insert(now, id);
                    return;
                }
                _ => {}
            }
            match stream.recv() {
                None => return,
                Some(StreamItem::Part(part)) if part.ppid == DCEP => self.on_dcep(association, now, id, part),
                Some(StreamItem::Part(_)) => {}
                Some(StreamItem::Reset) => self.on_read_out(association, now, id),
            }
        }
    }

    /// A message of the protocol itself, or a part of one.
    fn on_dcep(&mut self, association: &mut Association, now: Timestamp, id: u16, part: MessagePart) {
        let message = match self.joins.add(part, dcep::LONGEST) {
            Joined::Incomplete => return,
            Joined::Message(_, bytes) => Dcep::decode(&bytes),
            Joined::TooLarge => None,
        };
        match message {
            Some(Dcep::Open(config)) => self.on_open(association, now, id, config),
            Some(Dcep::Ack) => self.confirm(id),
            None => self.refuse(association, now, id, Refusal::Malformed),
        }
    }

    /// The peer confirmed the channel: any message does (RFC 8832 §6).
    fn confirm(&mut self, id: u16) {
        if let Some(channel) = self.channels.get_mut(&id)
            && channel.state == State::Opening
        {
            channel.state = State::Open;
            self.events.push_back(ChannelEvent::Opened(ChannelId(id)));
        }
    }

    /// The peer announced a channel.
    fn on_open(&mut self, association: &mut Association, now: Timestamp, id: u16, config: ChannelConfig) {
        let is_theirs = match self.role {
            Role::Client => !id.is_multiple_of(2),
            Role::Server => id.is_multiple_of(2),
        };
        let is_free = !self.channels.contains_key(&id) && id < association.outbound_streams();
        let refusal = if !is_theirs || !is_free {
            Some(Refusal::Number)
        } else if self.channels.len() >= self.limits.max_channels {
            Some(Refusal::TooMany)
        } else if self.texts + texts(&config) > MOST_TEXTS {
            Some(Refusal::LongTexts)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.refuse(association, now, id, refusal);
            return;
        }
        self.refused.remove(&id);
        self.unclaimed.remove(id);
        self.insert(association, id, Channel::new(config.clone(), State::Open, true));
        self.announcements.push_back(id);
        self.announce(association, now);
        self.events
            .push_back(ChannelEvent::Accepted(ChannelId(id), config));
    }

    /// RFC 8832 §6: a channel that cannot be is closed, without a confirmation. One that exists stays.
    fn refuse(&mut self, association: &mut Association, now: Timestamp, id: u16, refusal: Refusal) {
        if self.channels.contains_key(&id) {
            return;
        }
        if self.refused.insert(id) {
            self.events
                .push_back(ChannelEvent::Refused(ChannelId(id), refusal));
        }
        // A peer that announced fewer streams than it uses cannot be told.
        if id < association.outbound_streams() {
            self.resets.insert(id);
            self.reset(association, now);
        }
    }

    /// The channel's stream to the peer is to be reset.
    fn reset_outgoing(&mut self, id: u16) {
        if let Some(channel) = self.channels.get_mut(&id)
            && channel.outgoing == Outgoing::InUse
        {
            channel.outgoing = Outgoing::Resetting;
            self.resets.insert(id);
        }
    }

    /// Requests the resets that wait, if no request waits for its answer.
    fn reset(&mut self, association: &mut Association, now: Timestamp) {
        for id in self.resets.request(association, now) {
            self.on_outgoing(id, Outgoing::Stuck);
        }
    }

    /// The peer answered this side's request.
    fn on_reset(&mut self, association: &mut Association, now: Timestamp, result: ReconfigurationResult) {
        let over = self.resets.on_answer(now, result);
        for id in over.reset {
            self.on_outgoing(id, Outgoing::Reset);
        }
        for id in over.refused {
            self.on_outgoing(id, Outgoing::Stuck);
        }
        self.reset(association, now);
    }

    fn on_outgoing(&mut self, id: u16, outgoing: Outgoing) {
        // The reset may be that of a channel which was refused before the present one was accepted.
        if let Some(channel) = self.channels.get_mut(&id)
            && channel.outgoing == Outgoing::Resetting
        {
            channel.outgoing = outgoing;
            self.end_if_reset(id);
        }
    }

    /// The peer reset streams: it closes the channels, or confirms that this side closed them. Their last messages can still be read.
    fn on_peer_resets(&mut self, association: &mut Association, now: Timestamp, streams: &StreamSelection) {
        let streams: Vec<u16> = match streams {
            StreamSelection::All => self.channels.keys().copied().collect(),
            StreamSelection::Listed(streams) => streams.iter().map(|stream| stream.0).collect(),
        };
        for id in streams {
            if self.channels.contains_key(&id) {
                // The last messages and the end can be read: this is told before the channel is closed.
                self.look(association, now, id);
            } else {
                // The announcement may be unread. Messages without a channel are dropped.
                self.refused.insert(id);
                self.look(association, now, id);
                self.refused.remove(&id);
            }
            self.on_peer_reset(id);
        }
    }

    fn on_peer_reset(&mut self, id: u16) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.reset_in = true;
            channel.state = State::Closing;
            self.announcements.retain(|waiting| *waiting != id);
            self.end_if_reset(id);
        }
    }

    /// All is read that the peer sent before it reset its stream.
    fn on_read_out(&mut self, association: &mut Association, now: Timestamp, id: u16) {
        self.joins.forget(id);
        self.refused.remove(&id);
        self.unclaimed.remove(id);
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.is_read_out = true;
            self.reset_outgoing(id);
            self.on_peer_reset(id);
            self.reset(association, now);
        }
    }

    /// Tells that a channel is closed: at once if the peer closes it; if this side does, when both streams are reset. A channel is removed
    /// when everything is over.
    fn end_if_reset(&mut self, id: u16) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        let is_reset = channel.reset_in && channel.outgoing == Outgoing::Reset;
        let is_closed =
            is_reset || channel.outgoing == Outgoing::Stuck || (channel.reset_in && channel.is_read);
        if is_closed && !std::mem::replace(&mut channel.told_closed, true) {
            self.events.push_back(ChannelEvent::Closed(ChannelId(id)));
        }
        if is_reset && channel.is_read_out {
            self.remove(id);
        }
    }

    /// The association has ended. Messages that have arrived can still be read.
    fn on_association_closed(&mut self, association: &mut Association, now: Timestamp) {
        for id in self.fresh.clone() {
            self.look(association, now, id);
        }
        for (id, channel) in &mut self.channels {
            channel.state = State::Closing;
            if !std::mem::replace(&mut channel.told_closed, true) {
                self.events.push_back(ChannelEvent::Closed(ChannelId(*id)));
            }
        }
        self.announcements.clear();
    }
}
