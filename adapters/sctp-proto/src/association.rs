//! An association: its packets, its events, and the life of its streams.
//!
//! A stream here is a pair of streams of SCTP, one in each direction, as a data channel is. It ends when both are reset (RFC 8831 §6.7).

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anabranch_proto::{
    self as proto, AssociationState, CloseReason, NextItem, ReconfigurationEvent, ReconfigurationRequest,
    ReconfigurationResult, SendOptions, StreamItem, StreamSelection, Timestamp,
};
use bytes::Bytes;

use crate::clock::Clock;
use crate::config::TransportConfig;
use crate::error::{AssociationError, Error, Result};
use crate::event::{AssociationEvent, EndpointEvent, Event, StreamEvent, StreamId, StreamResetError};
use crate::message::{Chunks, Joined, Joins, PayloadProtocolIdentifier};
use crate::packet::{Payload, Side, Transmit};
use crate::resets::Resets;
use crate::stream::{Channel, OwnReset, Stream};

/// The most events that wait here. While more wait in the core, the peer cannot cause further ones.
const MOST_EVENTS: usize = 256;

/// A message that was written after the last call that had a time.
#[derive(Debug)]
struct Written {
    stream: StreamId,
    message: Bytes,
    options: SendOptions,
}

/// An association.
#[derive(Debug)]
pub struct Association {
    core: Box<proto::Association>,
    clock: Clock,
    side: Side,
    remote: SocketAddr,
    local_ip: Option<IpAddr>,
    pub(crate) max_send_message_size: usize,
    pub(crate) lifetime_is_deadline: bool,
    pub(crate) channels: BTreeMap<StreamId, Channel>,
    /// How many streams there have been.
    generations: u64,
    /// Streams that the peer opened and [`Association::accept_stream`] has not returned, by their generations.
    accepted: BTreeMap<u64, StreamId>,
    /// Removed streams whose reset has no answer yet, and how many generations of each.
    completing: BTreeMap<StreamId, u32>,
    written: Vec<Written>,
    joins: Joins,
    resets: Resets,
    events: VecDeque<Event>,
    connected: bool,
    /// Why this crate aborted the association.
    failure: Option<AssociationError>,
    buffer: Vec<u8>,
}

impl Association {
    pub(crate) fn new(
        mut core: Box<proto::Association>,
        clock: Clock,
        transport: &TransportConfig,
        side: Side,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
    ) -> Self {
        core.separate_new_streams(clock.now(), true);
        let mut association = Self {
            core,
            clock,
            side,
            remote,
            local_ip,
            max_send_message_size: transport.max_send_message_size as usize,
            lifetime_is_deadline: transport.lifetime_is_deadline,
            channels: BTreeMap::new(),
            generations: 0,
            accepted: BTreeMap::new(),
            completing: BTreeMap::new(),
            written: Vec::new(),
            joins: Joins::new(
                transport.max_receive_message_size as usize,
                transport.most_incomplete(),
            ),
            resets: Resets::default(),
            events: VecDeque::new(),
            connected: false,
            failure: None,
            buffer: Vec::new(),
        };
        association.take_events();
        association
    }

    /// The core's association, for its statistics and its state.
    #[must_use]
    pub fn core(&self) -> &proto::Association {
        &self.core
    }

    /// The next event.
    #[must_use]
    pub fn poll(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.take_events();
        }
        let event = self.events.pop_front();
        if let Some(Event::Stream(StreamEvent::Readable { id })) = &event
            && let Some(channel) = self.channels.get_mut(id)
        {
            channel.told_readable = false;
        }
        event
    }

    /// The next event for the endpoint: pass it to [`crate::Endpoint::handle_event`].
    #[must_use]
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.core.poll_endpoint_event().map(EndpointEvent)
    }

    /// When to call [`Association::handle_timeout`]. `None` also before the first call that had a time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = [self.core.poll_timeout(), self.resets.due()];
        self.clock.instant(due.into_iter().flatten().min()?)
    }

    /// The next packets, all for one destination.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let at = self.advance(now);
        let most = self.core.burst_limit().datagrams;
        let transmit = self.core.poll_transmit(at, &mut self.buffer, most);
        self.take_events();
        let transmit = transmit?;
        let mut packets = Bytes::from(std::mem::take(&mut self.buffer));
        let length = transmit.segment_size.unwrap_or(transmit.len);
        let mut datagrams = Vec::new();
        while !packets.is_empty() {
            datagrams.push(packets.split_to(length.min(packets.len())));
        }
        Some(Transmit {
            now,
            remote: transmit.destination,
            ecn: crate::EcnCodepoint::from_bits(transmit.ecn.bits()),
            local_ip: transmit.source.or(self.local_ip),
            payload: Payload::RawEncode(datagrams),
        })
    }

    /// The time has come that [`Association::poll_timeout`] returned. An earlier call has no effect but to tell the time.
    pub fn handle_timeout(&mut self, now: Instant) {
        let at = self.advance(now);
        self.core.handle_timeout(at);
        if self.resets.due().is_some_and(|due| due <= at) {
            self.request_resets();
        }
        self.take_events();
    }

    /// A datagram arrived that [`crate::Endpoint::handle`] routed here.
    pub fn handle_event(&mut self, event: AssociationEvent) {
        let at = self.advance(event.now);
        self.core.handle_packet(at, event.packet);
        self.take_events();
    }

    /// Whether the association is neither established nor closed yet.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        !self.connected && !self.is_closed()
    }

    /// Whether the association has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core.state() == AssociationState::Closed
    }

    /// Whether a graceful shutdown has begun and not ended.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        use AssociationState::{ShutdownAckSent, ShutdownPending, ShutdownReceived, ShutdownSent};
        let state = self.core.state();
        matches!(
            state,
            ShutdownPending | ShutdownSent | ShutdownReceived | ShutdownAckSent
        )
    }

    /// Whether nothing is left to do: the association has ended and all its events were returned.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_closed() && self.events.is_empty() && self.channels.is_empty()
    }

    /// The role of this side.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// The address of the peer.
    #[must_use]
    pub fn remote_addr(&self) -> SocketAddr {
        self.remote
    }

    /// The local address at which the peer set up the association, if known.
    #[must_use]
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.local_ip
    }

    /// The smoothed round-trip time; the retransmission timeout before the first measurement.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        let path = self.core.stats().paths.into_iter().next();
        path.map_or(Duration::ZERO, |path| path.srtt.unwrap_or(path.rto))
    }

    /// Ends the association when the peer has acknowledged all messages.
    ///
    /// # Errors
    /// [`Error::ErrShutdownNonEstablished`].
    pub fn shutdown(&mut self) -> Result<()> {
        if self.core.state() != AssociationState::Established {
            return Err(Error::ErrShutdownNonEstablished);
        }
        self.send_written();
        self.core.shutdown(self.clock.now());
        self.take_events();
        Ok(())
    }

    /// Aborts the association; [`Association::poll_transmit`] returns the ABORT. Messages that were not sent are lost.
    ///
    /// # Errors
    /// None: the type is that of `sctp-proto`.
    pub fn close(&mut self) -> Result<()> {
        self.abort(AssociationError::LocallyClosed, b"");
        self.take_events();
        Ok(())
    }

    /// Opens a stream. The peer does not learn of it before a message is written.
    ///
    /// # Errors
    /// [`Error::ErrStreamAlreadyExist`], [`Error::ErrStreamResetPending`] or [`Error::ErrStreamCreateFailed`].
    pub fn open_stream(
        &mut self,
        stream_identifier: StreamId,
        default_payload_type: PayloadProtocolIdentifier,
    ) -> Result<Stream<'_>> {
        let id = stream_identifier;
        if self.channels.contains_key(&id) {
            return Err(Error::ErrStreamAlreadyExist);
        }
        if self.completing.contains_key(&id) || self.resets.is_pending(id) {
            return Err(Error::ErrStreamResetPending);
        }
        if id >= self.core.outbound_streams() || self.is_closed() {
            return Err(Error::ErrStreamCreateFailed);
        }
        self.core
            .stream(self.clock.now(), proto::StreamId(id))
            .set_separate(true);
        let channel = self.register(id);
        channel.default_payload_type = default_payload_type;
        Ok(Stream::new(self, id))
    }

    /// The next stream that the peer opened.
    pub fn accept_stream(&mut self) -> Option<Stream<'_>> {
        let (_, id) = self.accepted.pop_first()?;
        Some(Stream::new(self, id))
    }

    /// A stream.
    ///
    /// # Errors
    /// [`Error::ErrStreamNotExisted`].
    pub fn stream(&mut self, stream_identifier: StreamId) -> Result<Stream<'_>> {
        if !self.channels.contains_key(&stream_identifier) {
            return Err(Error::ErrStreamNotExisted);
        }
        Ok(Stream::new(self, stream_identifier))
    }

    /// All streams.
    #[must_use]
    pub fn stream_ids(&self) -> Vec<StreamId> {
        self.channels.keys().copied().collect()
    }

    /// Sets the longest message that may be written.
    pub fn set_max_send_message_size(&mut self, bytes: u32) {
        self.max_send_message_size = bytes as usize;
    }

    /// The time is now `now`: messages that were written before are sent.
    fn advance(&mut self, now: Instant) -> Timestamp {
        let at = self.clock.advance(now);
        self.send_written();
        at
    }

    pub(crate) fn push(&mut self, event: StreamEvent) {
        self.events.push_back(Event::Stream(event));
    }

    /// Takes the events of the core, unless many wait already.
    fn take_events(&mut self) {
        while self.events.len() < MOST_EVENTS
            && let Some(event) = self.core.poll_event()
        {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: proto::Event) {
        match event {
            proto::Event::Established { .. } if !self.connected => {
                self.connected = true;
                self.events.push_back(Event::Connected);
                for id in self.stream_ids() {
                    self.watch_buffered_amount(id);
                }
            }
            // The DTLS connection goes on, so the peer has no reason to begin anew.
            proto::Event::Restarted => self.abort(AssociationError::Reset, b"restarted"),
            proto::Event::StreamOpened(id) | proto::Event::StreamReadable(id) => self.look(id.0),
            proto::Event::BufferedAmountLow(id) if self.channels.contains_key(&id.0) => {
                self.push(StreamEvent::BufferedAmountLow { id: id.0 });
            }
            proto::Event::Reconfiguration(ReconfigurationEvent::InboundReset { streams, .. }) => {
                let streams = match streams {
                    StreamSelection::All => self.stream_ids(),
                    StreamSelection::Listed(streams) => streams.iter().map(|id| id.0).collect(),
                };
                streams.into_iter().for_each(|id| self.look(id));
            }
            proto::Event::Reconfiguration(ReconfigurationEvent::Answered {
                request: ReconfigurationRequest::ResetOutgoing,
                result,
            }) => self.on_reset_answered(result),
            proto::Event::Closed(reason) => self.on_closed(&reason),
            _ => {}
        }
    }

    fn abort(&mut self, reason: AssociationError, text: &'static [u8]) {
        self.failure.get_or_insert(reason);
        self.core.abort(self.clock.now(), Bytes::from_static(text));
    }

    fn on_closed(&mut self, reason: &CloseReason) {
        let failure = self.failure.take();
        let reason = failure.unwrap_or_else(|| AssociationError::of(reason, self.connected));
        self.resets.clear();
        self.completing.clear();
        self.written.clear();
        for id in self.stream_ids() {
            self.remove_if_over(id);
        }
        if !self.connected {
            let reason = reason.clone();
            self.events.push_back(Event::HandshakeFailed { reason });
        }
        self.events.push_back(Event::AssociationLost { reason });
    }
}

/// Messages.
impl Association {
    pub(crate) fn write(&mut self, stream: StreamId, message: Bytes, options: SendOptions) {
        if let Some(channel) = self.channels.get_mut(&stream) {
            channel.written += message.len();
        }
        self.written.push(Written {
            stream,
            message,
            options,
        });
    }

    /// Bytes of a stream that were not sent yet.
    pub(crate) fn buffered_amount(&self, id: StreamId) -> usize {
        let written = self.channels.get(&id).map_or(0, |channel| channel.written);
        written + self.core.buffered_amount(proto::StreamId(id))
    }

    /// Gives the core what was written. The lifetime of a message begins here.
    pub(crate) fn send_written(&mut self) {
        let now = self.clock.now();
        for Written {
            stream,
            message,
            options,
        } in self.written.drain(..)
        {
            if let Some(channel) = self.channels.get_mut(&stream) {
                channel.written = 0;
            }
            // The buffer has no limit, and `Stream` checked the rest. The association may have ended since.
            let _ = self.core.send(now, proto::StreamId(stream), message, options);
        }
        self.take_events();
    }

    /// The next message of a stream that is read.
    pub(crate) fn read(&mut self, id: StreamId) -> Result<Option<Chunks>> {
        loop {
            let part = match self.core.stream(self.clock.now(), proto::StreamId(id)).recv() {
                Some(StreamItem::Part(part)) => part,
                Some(StreamItem::Reset) => {
                    self.on_read_out(id);
                    return Ok(None);
                }
                None => {
                    self.remove_if_over(id);
                    return Ok(None);
                }
            };
            match self.joins.add(part) {
                Joined::Message(chunks) => {
                    if let Some(channel) = self.channels.get_mut(&id) {
                        channel.count_received(&chunks);
                    }
                    self.look(id);
                    self.remove_if_over(id);
                    self.take_events();
                    return Ok(Some(chunks));
                }
                Joined::Incomplete => {}
                Joined::TooLong => {
                    self.abort(AssociationError::TransportError, b"a message is too long");
                    return Err(Error::ErrInboundPacketTooLarge);
                }
                Joined::TooMuch => {
                    self.abort(
                        AssociationError::ReceiveBufferExhausted,
                        b"too many messages are incomplete",
                    );
                    return Err(Error::ErrInboundPacketTooLarge);
                }
            }
        }
    }
}

/// The life of streams.
impl Association {
    fn register(&mut self, id: StreamId) -> &mut Channel {
        self.generations += 1;
        self.watch_buffered_amount(id);
        self.channels
            .entry(id)
            .or_insert(Channel::new(id, self.generations - 1))
    }

    /// Asks the core for [`StreamEvent::BufferedAmountLow`]. It refuses before it knows the number of streams.
    pub(crate) fn watch_buffered_amount(&mut self, id: StreamId) {
        let threshold = self.channels.get(&id).map_or(0, |channel| channel.low_threshold);
        let mut stream = self.core.stream(self.clock.now(), proto::StreamId(id));
        let _ = stream.set_buffered_amount_low_threshold(Some(threshold));
    }

    /// Looks at the next item of a stream: tells the application of messages, drops those that it does not read, and ends the stream if the
    /// peer reset it.
    pub(crate) fn look(&mut self, id: StreamId) {
        loop {
            let mut stream = self.core.stream(self.clock.now(), proto::StreamId(id));
            match (stream.peek(), self.channels.get_mut(&id)) {
                (None, _) => {
                    // The core tells of the next item only after this.
                    stream.recv();
                    return;
                }
                (Some(NextItem::Reset), _) => {
                    stream.recv();
                    self.on_read_out(id);
                }
                (Some(_), Some(channel)) if channel.reads => {
                    if !std::mem::replace(&mut channel.told_readable, true) {
                        self.push(StreamEvent::Readable { id });
                    }
                    return;
                }
                (Some(_), Some(_)) => {
                    stream.recv();
                }
                (Some(_), None) => {
                    let generation = self.register(id).generation();
                    self.accepted.insert(generation, id);
                    self.push(StreamEvent::Opened { id });
                }
            }
        }
    }

    /// Stops reading a stream, and asks for its reset.
    pub(crate) fn stop(&mut self, id: StreamId) -> Result<()> {
        let Some(channel) = self.channels.get_mut(&id).filter(|channel| channel.reads) else {
            return Ok(());
        };
        if self.core.state() != AssociationState::Established {
            return Err(Error::ErrResetPacketInStateNotExist);
        }
        channel.reads = false;
        self.joins.forget(id);
        self.reset(id);
        self.look(id);
        self.take_events();
        Ok(())
    }

    /// Asks for the reset of a stream, once.
    fn reset(&mut self, id: StreamId) {
        if let Some(channel) = self.channels.get_mut(&id)
            && channel.own_reset == OwnReset::None
        {
            channel.own_reset = OwnReset::Pending;
            self.resets.insert(id);
            self.request_resets();
        }
    }

    fn request_resets(&mut self) {
        self.send_written();
        for id in self.resets.request(&mut self.core, self.clock.now()) {
            self.on_reset_failed(id, StreamResetError::Failed);
        }
    }

    fn on_reset_answered(&mut self, result: ReconfigurationResult) {
        let over = self.resets.on_answer(self.clock.now(), result);
        for id in over {
            if result.is_success() {
                self.on_reset_performed(id);
            } else if result == ReconfigurationResult::Denied {
                self.on_reset_failed(id, StreamResetError::Denied);
            } else {
                self.on_reset_failed(id, StreamResetError::Failed);
            }
        }
        self.request_resets();
    }

    /// Whether the reset of a removed stream has its answer now.
    fn completes(&mut self, id: StreamId) -> bool {
        let Some(generations) = self.completing.get_mut(&id) else {
            return false;
        };
        *generations -= 1;
        if *generations == 0 {
            self.completing.remove(&id);
        }
        true
    }

    fn on_reset_performed(&mut self, id: StreamId) {
        if self.completes(id) {
            self.push(StreamEvent::ResetComplete { id });
        } else if let Some(channel) = self.channels.get_mut(&id) {
            channel.own_reset = OwnReset::Performed;
        }
    }

    fn on_reset_failed(&mut self, id: StreamId, reason: StreamResetError) {
        if !self.completes(id)
            && let Some(channel) = self.channels.get_mut(&id)
        {
            channel.own_reset = OwnReset::Failed;
        }
        self.push(StreamEvent::ResetFailed { id, reason });
    }

    /// The peer reset a stream, and all that it sent before was read: this side resets its stream too.
    fn on_read_out(&mut self, id: StreamId) {
        self.joins.forget(id);
        self.reset(id);
        let Some(channel) = self.channels.get(&id) else {
            return;
        };
        let own_reset = channel.own_reset;
        self.remove(id);
        self.push(StreamEvent::Finished { id });
        match own_reset {
            OwnReset::None | OwnReset::Failed => {}
            OwnReset::Pending => *self.completing.entry(id).or_default() += 1,
            OwnReset::Performed => self.push(StreamEvent::ResetComplete { id }),
        }
    }

    /// After the end of the association, a stream remains until its messages are read.
    fn remove_if_over(&mut self, id: StreamId) {
        if !self.is_closed() {
            return;
        }
        let reads = self.channels.get(&id).is_some_and(|channel| channel.reads);
        let stream = self.core.stream(self.clock.now(), proto::StreamId(id));
        if !reads || stream.peek().is_none() {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: StreamId) {
        self.joins.forget(id);
        if let Some(channel) = self.channels.remove(&id) {
            self.accepted.remove(&channel.generation());
            self.events.push_back(Event::DataChannelStatsFinal(channel.stats));
        }
    }
}
