//! One association (RFC 9260 §4): what it owns, and the order in which its parts are called. Decisions are made in the
//! parts; the methods here are sorted as a caller meets them. Packets arrive in `inbound.rs`, timers expire in `timeout.rs`.

mod abandonment;
mod acknowledgement;
mod collision;
mod cooperation;
mod failure;
mod handshake;
mod icmp;
mod identity;
mod inbound;
mod multipath;
mod notices;
mod outbound;
mod peer_window;
mod scheduling;
mod shutdown;
mod state;
mod timeout;
mod timers;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::GapAckBlock;
use anabranch_wire::{StreamId, VerificationTag};
use bytes::Bytes;

pub(crate) use handshake::Blueprint;
pub(crate) use outbound::write_packet;
pub use state::AssociationState;

use crate::config::Config;
use crate::control::ControlQueue;
use crate::error::{PathRequestError, SendError};
use crate::event::{CloseReason, EndpointEvent, Event};
use crate::extension::ControlSources;
use crate::message::{AbandonPolicy, Persistence};
use crate::message::{MessageId, MessagePart, SendOptions};
use crate::negotiation::{Capabilities, CookieMint};
use crate::path::{PathId, PathState, Paths};
use crate::random::Random;
use crate::receive::Receiver;
use crate::recovery::{AckOutcome, Outstanding};
use crate::send::SendQueue;
use crate::stats::{AssociationStats, Counters, StreamStats};
use crate::time::Timestamp;
use identity::Identity;
use notices::Notices;
use peer_window::PeerWindow;
use shutdown::Ending;
use state::State;
use timers::Timers;

/// A batch of datagrams for one destination, written to the buffer given to [`Association::poll_transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The path it goes by.
    pub path: PathId,
    /// The local address to send from, if it is fixed.
    pub source: Option<IpAddr>,
    /// Address and UDP port (0 without encapsulation).
    pub destination: SocketAddr,
    /// Bytes in the buffer.
    pub len: usize,
    /// If there are several datagrams: the length of each but the last, which may be shorter.
    pub segment_size: Option<usize>,
    /// Whether routers, or the system itself, may cut the packet up (RFC 9260 §7.3): a chunk that has its TSN already and
    /// no longer fits the path. All others are to be sent with "don't fragment", as path MTU discovery wants.
    pub may_fragment: bool,
}

/// What may be handed to the network in one go: see [`Association::burst_limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstLimit {
    /// Full datagrams, at least one.
    pub datagrams: usize,
    /// The same in bytes.
    pub bytes: usize,
}

/// As much of an application's reason as travels in an ABORT.
const MOST_REASON: usize = 1024;

/// One association with a peer.
#[derive(Debug)]
pub struct Association {
    config: Arc<Config>,
    random: Random,
    mint: CookieMint,
    identity: Identity,
    state: State,
    /// This endpoint sent the INIT, to a UDP port that its application named.
    initiated: bool,
    capabilities: Capabilities,
    paths: Paths,
    queue: SendQueue,
    /// Bytes beyond which `send` takes nothing.
    send_limit: usize,
    outstanding: Outstanding,
    peer_window: PeerWindow,
    receiver: Receiver,
    control: ControlQueue,
    /// When messages are abandoned.
    abandon_policy: AbandonPolicy,
    sources: ControlSources,
    timers: Timers,
    ending: Ending,
    /// Errors in a row over all paths (§8.1).
    error_count: u32,
    notices: Notices,
    counters: Counters,
    /// Kept between acknowledgements for its memory.
    outcome: AckOutcome,
    ack_blocks: [Vec<GapAckBlock>; 2],
}

/// Sending, receiving, ending.
impl Association {
    /// Gives a whole message to a stream. It is taken in any state before a shutdown; before set-up is complete it
    /// waits.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was taken then.
    pub fn send(
        &mut self,
        now: Timestamp,
        stream: StreamId,
        message: Bytes,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        self.accept_message(now, stream, message, options, false, true)
    }

    /// Gives a part of a message to a stream: the first begins a message, the one with `end` ends it (explicit end
    /// of record, RFC 6458 §8.1.26). Options count from the first part. Until the message is ended, no other can
    /// leave; a message that is begun may be ended during a shutdown, which waits for it.
    ///
    /// # Errors
    /// See [`SendError`]; the part was not taken then. An ending part may be empty unless it is the only one.
    pub fn send_part(
        &mut self,
        now: Timestamp,
        stream: StreamId,
        part: Bytes,
        options: SendOptions,
        end: bool,
    ) -> Result<MessageId, SendError> {
        self.accept_message(now, stream, part, options, true, end)
    }

    fn accept_message(
        &mut self,
        now: Timestamp,
        stream: StreamId,
        message: Bytes,
        options: SendOptions,
        is_part: bool,
        end: bool,
    ) -> Result<MessageId, SendError> {
        let takes = self.state.begins_messages() && !self.ending.is_asked();
        let ends_one = is_part && self.state.ends_messages() && self.queue.has_open(stream);
        if !(takes || ends_one) {
            return Err(SendError::Closed);
        }
        let limit = self.config.buffers.max_message;
        if message.len() > limit {
            return Err(SendError::TooLarge {
                size: message.len(),
                limit,
            });
        }
        let full = self.buffered_bytes() >= self.send_limit && !message.is_empty();
        if full
            && !self.grow_send_buffer()
            && !self.make_room(now, stream, Persistence::new(options.reliability, now))
        {
            self.notices.want_writable();
            return Err(SendError::BufferFull);
        }
        let len = message.len();
        let options = options.or_as_set(&self.config.partial_reliability);
        let id = self.queue.push(now, stream, message, options, is_part, end)?;
        self.ending.on_more(len);
        if end {
            self.counters.messages_sent += 1;
        }
        self.notices.on_data();
        Ok(id)
    }

    /// Whether the send buffer has room: [`Association::send`] then takes a message of whatever length.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.buffered_bytes() < self.send_limit
    }

    /// Where half of the send buffer is in flight the network could take more: the buffer grows.
    fn grow_send_buffer(&mut self) -> bool {
        let buffers = &self.config.buffers;
        let most = buffers.send.saturating_mul(buffers.growth as usize);
        let grows = self.send_limit < most && self.paths.payload_in_flight() >= self.send_limit / 2;
        if grows {
            self.send_limit = (2 * self.send_limit).min(most);
        }
        grows
    }

    /// Bytes that count against the send buffer.
    fn buffered_bytes(&self) -> usize {
        self.queue.bytes() + self.outstanding.bytes()
    }

    /// The next message, or part of one. Taking it opens the receive window, so drain the association after.
    pub fn recv(&mut self, now: Timestamp) -> Option<MessagePart> {
        let part = self.receiver.recv(now);
        if self.receiver.window_update_due() {
            self.receiver.force_ack();
        }
        match &part {
            Some(part) => self.counters.messages_received += u64::from(part.ending),
            None => self.notices.on_read_out(),
        }
        part
    }

    /// Ends the association at once (ABORT, RFC 9260 §9.1). `reason` travels to the peer; at most 1,024 bytes of it.
    pub fn abort(&mut self, _now: Timestamp, reason: Bytes) {
        let reason = reason.slice(..reason.len().min(MOST_REASON));
        self.abort_with(Cause::UserInitiatedAbort(reason), CloseReason::Aborted);
    }

    /// Ends the association at once because this side has no room for it: the peer's ABORT has the cause Out of Resource
    /// (RFC 9260 §3.3.10.4).
    pub fn refuse(&mut self, _now: Timestamp) {
        self.abort_with(Cause::OutOfResource, CloseReason::Aborted);
    }
}

/// What follows from input.
impl Association {
    /// What any input may have made possible: the next step of a shutdown, room to send, something to read.
    fn after_input(&mut self, now: Timestamp) {
        self.advance_shutdown(now);
        let writable = self.has_room() && self.state.begins_messages() && !self.ending.is_asked();
        self.notices.on_input(self.receiver.is_readable(), writable);
        // An end that leaves messages behind empties both, and nothing follows `Closed`.
        if !self.state.is_closed() && self.queue.is_empty() && self.outstanding.is_empty() {
            self.notices.on_dry();
        }
    }
}

/// Output.
impl Association {
    /// Appends up to `max_datagrams` datagrams of equal size (the last may be shorter) for one destination to
    /// `buffer`; `None` when there is nothing to send now. See [`Association::burst_limit`] for how many to ask for.
    pub fn poll_transmit(
        &mut self,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        self.build_batch(now, buffer, max_datagrams)
    }

    /// How much should be handed to the network in one go, on the path that data takes now ([`Config::burst_time`]). A driver
    /// that then lets the application have a word keeps urgent messages from waiting behind what has left already.
    #[must_use]
    pub fn burst_limit(&self) -> BurstLimit {
        let path = self.paths.path(self.paths.data_path());
        let packet = path.pmtu.max_packet();
        let bytes = path.sent_within(self.config.burst_time).max(packet);
        BurstLimit {
            datagrams: bytes / packet,
            bytes,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.notices.poll_event()
    }

    /// The next event for the endpoint.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.notices.poll_endpoint_event()
    }
}

/// Requests and readings.
impl Association {
    /// Sends new data on this path from now on, while it is active (RFC 9260 §6.4, SET PRIMARY §11.1.5).
    ///
    /// # Errors
    /// There is no such path, or it is not confirmed.
    pub fn set_primary_path(&mut self, path: PathId) -> Result<(), PathRequestError> {
        if !self.paths.contains(path) {
            return Err(PathRequestError::Unknown(path.0));
        }
        if self.paths.path(path).state == PathState::Unconfirmed {
            return Err(PathRequestError::Unconfirmed(path.0));
        }
        self.paths.set_primary(path);
        Ok(())
    }

    /// Sends a heartbeat on this path now (REQUEST HEARTBEAT, RFC 9260 §11.1.8).
    ///
    /// # Errors
    /// There is no such path.
    pub fn request_heartbeat(&mut self, now: Timestamp, path: PathId) -> Result<(), PathRequestError> {
        if !self.paths.contains(path) {
            return Err(PathRequestError::Unknown(path.0));
        }
        self.send_heartbeat(now, path);
        Ok(())
    }

    /// The state it is in.
    #[must_use]
    pub fn state(&self) -> AssociationState {
        self.state.kind()
    }

    /// Local and remote SCTP port.
    #[must_use]
    pub fn ports(&self) -> (u16, u16) {
        (self.identity.local_port, self.identity.remote_port)
    }

    /// The verification tags: the one this side answers to, and the peer's (0 until it is known).
    #[must_use]
    pub fn tags(&self) -> (VerificationTag, VerificationTag) {
        (self.identity.local_tag, self.identity.peer_tag)
    }

    /// Address and UDP port of the primary path.
    #[must_use]
    pub fn remote_address(&self) -> SocketAddr {
        self.paths.path(self.paths.primary()).remote
    }

    /// Streams to the peer: before set-up those asked for.
    #[must_use]
    pub fn outbound_streams(&self) -> u16 {
        self.queue.stream_count()
    }

    /// Counters since set-up.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Readings for people and programs.
    #[must_use]
    pub fn stats(&self) -> AssociationStats {
        let primary = self.paths.primary();
        AssociationStats {
            counters: self.counters,
            extensions: self.capabilities.extensions(),
            paths: self.paths.iter().map(|path| path.stats(primary)).collect(),
            queued_bytes: self.queue.bytes(),
            outstanding_bytes: self.outstanding.bytes(),
            gap_acked_bytes: self.outstanding.gap_acked_bytes(),
            peer_rwnd: self.peer_window.left(self.paths.payload_in_flight()),
            a_rwnd: self.receiver.a_rwnd(),
            unread_bytes: self.receiver.unread_bytes(),
        }
    }

    /// Readings of one outbound stream; zero if nothing was sent on it.
    #[must_use]
    pub fn stream_stats(&self, stream: StreamId) -> StreamStats {
        self.queue.stream_stats(stream)
    }
}
