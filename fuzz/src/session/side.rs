//! A session and the application that uses it, with the rules for both.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_datachannel::{
    ChannelConfig, ChannelEvent, ChannelId, ChannelMessage, ChannelSendError, Datagram, OpenError, Session,
    SessionConfig, SessionError, SessionEvent,
};
use anabranch_proto::{Reliability, Timestamp};
use bytes::Bytes;

use super::foe::Foe;
use crate::memory::ALLOCATED;

/// The most results of polls after one call: far more than one datagram or timeout can cause.
const MOST_POLLS: usize = 20_000;
/// The longest datagram: Ethernet's MTU without the headers of IPv4 and UDP.
const LONGEST: usize = 1500 - 28;
/// The most timeouts at one time: ICE may have 100 requests that waited for the peer's description.
const MOST_AT_ONCE: u32 = 128;

/// The time between timeouts while the socket is full.
const WHILE_BLOCKED: Duration = Duration::from_millis(20);

const KIB: usize = 1 << 10;
/// Memory of an association, of the channels' tables, and of allocations that the sum of the rows rounds.
const STRUCTURES: usize = 96 * KIB;
/// A handshake and two connections of DTLS, and the buffer of a batch of datagrams, twice.
const DTLS: usize = 20 * KIB + 2 * 11 * KIB + 2 * 64 * KIB;
/// Candidates and pairs of ICE.
const ICE: usize = 256 * KIB;
/// Events and lists of resets.
const RESETS: usize = 64 * KIB;
/// Bytes of a channel, a stream that the peer used, and a stream to the peer.
const CHANNEL: usize = 512;
const INBOUND: usize = 134;
const OUTBOUND: usize = 400;
/// Memory is taken for so many streams from the peer at a time.
const STREAMS_AT_ONCE: usize = 32;
/// Texts of all channels that the peer opens, kept twice, and messages in parts, with the room that vectors have.
const MOST_TEXTS: usize = 2 << 20;
const MOST_PARTS: usize = 32 << 20;
/// Datagrams that wait for a full socket.
const MOST_WAITING: usize = 1024 * 1600;

/// How far the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Begun,
    Connected,
    Ended,
}

/// A channel that the application knows.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The number of the channel among all of both sides, if the peer is well-behaved.
    pub(super) instance: Option<u16>,
    is_ours: bool,
    is_open: bool,
    /// The session has told that it is closed.
    pub(super) is_closed: bool,
    /// The application has closed it.
    pub(super) is_left: bool,
    /// The last call of `recv` returned nothing.
    is_read: bool,
}

/// A message that was read: of which channel, and its contents.
pub(super) struct Read {
    pub(super) instance: Option<u16>,
    pub(super) is_text: bool,
    pub(super) bytes: Vec<u8>,
}

/// See the [module's documentation](self).
pub(super) struct Side {
    session: Option<Session>,
    pub(super) stage: Stage,
    /// Whether the session has told that the peer is silent.
    is_silent: bool,
    pub(super) channels: BTreeMap<u16, Known>,
    /// Whether it is the client of DTLS, if the harness knows.
    pub(super) is_client: Option<bool>,
    /// Whether the peer is well-behaved.
    pub(super) is_fair: bool,
    /// Whether the application reads each message at once.
    pub(super) reads: bool,
    /// Whether the socket takes nothing.
    pub(super) is_blocked: bool,
    was_blocked: bool,
    pub(super) inbox: Vec<Read>,
    /// Channels that the peer opened, and that the session has told to be closed, since the last look.
    pub(super) accepted: Vec<u16>,
    /// With the channel's number among all, because the next channel of its number may have been accepted since.
    pub(super) closed: Vec<(u16, Option<u16>)>,
    receive: usize,
    send: usize,
    max_message: usize,
    max_channels: usize,
    /// Bytes of the labels of channels that the application opened.
    labels: usize,
    /// Timeouts at the same time.
    at_once: (Option<Timestamp>, u32),
    /// The memory of the session now, and the most during the last call.
    held: isize,
    most_held: isize,
    buffer: Vec<u8>,
}

/// Calls and returns the result, the growth of allocated memory, and the most that it grew meanwhile.
fn counted<R>(call: impl FnOnce() -> R) -> (R, isize, isize) {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage() as isize;
    let result = call();
    let grown = ALLOCATED.current_usage() as isize - before;
    let peak = ALLOCATED.peak_usage() as isize - before;
    (result, grown, peak)
}

impl Side {
    /// Begins a session, and returns it with its description.
    pub(super) fn new(
        config: &SessionConfig,
        begin: impl FnOnce(SessionConfig) -> Result<(Session, String), SessionError>,
    ) -> Option<(Self, String)> {
        let (begun, mut held, _) = counted(|| begin(config.clone()));
        let (session, text) = begun.ok()?;
        let copy = text.clone();
        let (_, grown, _) = counted(|| drop(text));
        held += grown;
        let buffers = &config.sctp.buffers;
        let side = Self {
            session: Some(session),
            stage: Stage::Begun,
            is_silent: false,
            channels: BTreeMap::new(),
            is_client: None,
            is_fair: false,
            reads: true,
            is_blocked: false,
            was_blocked: false,
            inbox: Vec::new(),
            accepted: Vec::new(),
            closed: Vec::new(),
            receive: buffers.receive as usize,
            send: buffers.send,
            max_message: config.limits.max_message,
            max_channels: config.limits.max_channels,
            labels: 0,
            at_once: (None, 0),
            held,
            most_held: held,
            buffer: Vec::new(),
        };
        Some((side, copy))
    }

    /// Calls the session, and counts its memory.
    pub(super) fn call<R>(&mut self, call: impl FnOnce(&mut Session) -> R) -> R {
        let session = self.session.as_mut().expect("it is dropped at the end");
        let (result, grown, peak) = counted(|| call(session));
        self.most_held = self.most_held.max(self.held + peak);
        self.held += grown;
        result
    }

    /// Drops something that the session made.
    fn forget<T>(&mut self, value: T) {
        self.held += counted(|| drop(value)).1;
    }

    /// The sum of the rows of docs/LIMITS.md for the settings of this session, as far as a peer that has sent so much can reach them.
    fn limit(&self, foe: Option<&Foe>) -> usize {
        let (streams, texts, parts) = match foe {
            Some(foe) => (foe.streams.len(), foe.texts, foe.parts),
            // A well-behaved peer opens few channels, with short labels, and ends each message.
            None => (0, 4 * KIB, 2 * self.max_channels * self.max_message),
        };
        let used = streams + self.channels.len();
        let received = 3 * self.receive + 48 * KIB + 16 * KIB;
        let sent = 2 * self.send + self.max_message;
        let streams = used * STREAMS_AT_ONCE * INBOUND + used * OUTBOUND + used * CHANNEL;
        let waiting = if self.was_blocked { MOST_WAITING } else { 64 * KIB };
        // The application's own labels are also in the announcements.
        let texts = 2 * self.labels + (2 * texts).min(MOST_TEXTS) + (2 * parts).min(MOST_PARTS);
        STRUCTURES + DTLS + ICE + RESETS + received + sent + streams + waiting + texts
    }

    /// The session may not have held more than its limit since the last check.
    pub(super) fn check_memory(&mut self, foe: Option<&Foe>) {
        let limit = self.limit(foe);
        assert!(
            self.most_held <= limit as isize,
            "{} bytes of memory at most, {} now, where the limit is {limit}",
            self.most_held,
            self.held
        );
        self.most_held = self.held;
    }

    /// The end of the session: all of its memory is freed.
    pub(super) fn finish(mut self) {
        let session = self.session.take();
        self.forget(session);
        let buffer = std::mem::take(&mut self.buffer);
        self.forget(buffer);
        assert!(
            self.held.unsigned_abs() < 16 * KIB,
            "{} bytes stay behind",
            self.held
        );
    }
}

/// Events and datagrams.
impl Side {
    /// Takes all events and datagrams.
    pub(super) fn drain(&mut self, now: Timestamp) -> Vec<Datagram> {
        let mut sent = Vec::new();
        let mut left = MOST_POLLS;
        loop {
            let before = left;
            while let Some(event) = self.call(|session| session.poll_event(now)) {
                left = left.checked_sub(1).expect("events have an end");
                let readable = self.on_event(&event);
                self.forget(event);
                if let Some(id) = readable.filter(|_| self.reads) {
                    while self.read(now, id) {
                        left = left.checked_sub(1).expect("messages have an end");
                    }
                }
            }
            while !self.is_blocked {
                let mut buffer = std::mem::take(&mut self.buffer);
                let transmit = self.call(|session| session.poll_transmit(now, &mut buffer, 8));
                self.buffer = buffer;
                let Some(transmit) = transmit else { break };
                left = left.checked_sub(1).expect("datagrams have an end");
                assert!(transmit.segment > 0 && transmit.len <= self.buffer.len());
                for bytes in self.buffer[..transmit.len].chunks(transmit.segment) {
                    assert!(bytes.len() <= LONGEST, "a datagram of {} bytes", bytes.len());
                    sent.push(Datagram {
                        source: transmit.source,
                        destination: transmit.destination,
                        bytes: bytes.to_vec(),
                    });
                }
            }
            if left == before {
                return sent;
            }
        }
    }

    /// Returns the channel of which messages may be read.
    fn on_event(&mut self, event: &SessionEvent) -> Option<u16> {
        assert_ne!(self.stage, Stage::Ended, "{event:?} after the end");
        let event = match event {
            SessionEvent::Connected => {
                assert_eq!(self.stage, Stage::Begun, "connected twice");
                self.stage = Stage::Connected;
                return None;
            }
            SessionEvent::Closed(_) => {
                let open: Vec<u16> = self.open_channels().collect();
                assert!(
                    open.is_empty(),
                    "the session is closed, and not its channels {open:?}"
                );
                self.stage = Stage::Ended;
                return None;
            }
            SessionEvent::Channel(event) => event,
            SessionEvent::Silent => {
                assert!(!std::mem::replace(&mut self.is_silent, true), "silent twice");
                return None;
            }
            SessionEvent::Heard => {
                assert!(std::mem::replace(&mut self.is_silent, false), "heard twice");
                return None;
            }
            _ => return None,
        };
        if let ChannelEvent::Accepted(id, config) = event {
            self.on_accepted(*id, config);
            return None;
        }
        let (ChannelEvent::Opened(id)
        | ChannelEvent::Readable(id)
        | ChannelEvent::BufferedAmountLow(id)
        | ChannelEvent::Writable(id)
        | ChannelEvent::Closed(id)) = event
        else {
            return None;
        };
        let known = self.channels.get_mut(&id.0);
        let known = known.unwrap_or_else(|| panic!("{event:?} of no channel"));
        assert!(!known.is_closed, "{event:?} after the channel was closed");
        match event {
            ChannelEvent::Opened(_) => {
                assert!(known.is_ours && !known.is_left, "{event:?}");
                assert!(!std::mem::replace(&mut known.is_open, true), "opened twice");
            }
            ChannelEvent::Readable(_) => {
                assert!(
                    !known.is_left,
                    "{event:?} of a channel that the application closed"
                );
                known.is_read = false;
                return Some(id.0);
            }
            ChannelEvent::Closed(_) => {
                known.is_closed = true;
                self.closed.push((id.0, known.instance));
                // Its last messages can still be read.
                return (!known.is_left).then_some(id.0);
            }
            _ => {}
        }
        None
    }

    fn on_accepted(&mut self, id: ChannelId, config: &ChannelConfig) {
        if let Some(former) = self.channels.get(&id.0) {
            // The number is free when everything was read.
            assert!(
                former.is_closed && (former.is_left || former.is_read),
                "{id:?} is accepted, and is {former:?}"
            );
        }
        if let Some(is_client) = self.is_client {
            // RFC 8832 §6: the client's numbers are even.
            assert_eq!(id.0 % 2 == 1, is_client, "{id:?} of the peer");
        }
        assert_eq!(config.negotiated, None);
        self.add(id.0, false);
        if self.is_fair {
            let instance = config.label.trim_start_matches('.').parse();
            let known = self.channels.get_mut(&id.0).expect("it was added");
            known.instance = Some(instance.expect("a label that was sent"));
        }
        self.accepted.push(id.0);
        let open = self.open_channels().count();
        assert!(open <= self.max_channels, "{open} channels");
    }

    fn add(&mut self, id: u16, is_ours: bool) {
        let known = Known {
            instance: None,
            is_ours,
            is_open: !is_ours,
            is_closed: false,
            is_left: false,
            is_read: false,
        };
        self.channels.insert(id, known);
    }

    fn open_channels(&self) -> impl Iterator<Item = u16> {
        self.channels
            .iter()
            .filter(|(_, known)| !known.is_closed)
            .map(|(id, _)| *id)
    }
}

/// Calls of the application.
impl Side {
    pub(super) fn open(&mut self, now: Timestamp, config: &ChannelConfig) -> Option<u16> {
        let opened = self.call(|session| session.open(now, config.clone()));
        match opened {
            Ok(ChannelId(id)) => {
                assert_ne!(self.stage, Stage::Ended, "a channel opens");
                if let Some(former) = self.channels.get(&id) {
                    assert!(
                        former.is_closed && (former.is_left || former.is_read),
                        "{id} is opened, and is {former:?}"
                    );
                }
                if let Some(is_client) = self.is_client.filter(|_| config.negotiated.is_none()) {
                    assert_eq!(id % 2 == 0, is_client, "{id} is ours");
                }
                self.add(id, true);
                self.labels += config.label.len();
                Some(id)
            }
            Err(OpenError::NotConnected) if self.stage == Stage::Connected => panic!("it is connected"),
            Err(_) => None,
        }
    }

    pub(super) fn send(&mut self, now: Timestamp, id: u16, is_text: bool, bytes: &[u8]) -> bool {
        let sent = self.call(|session| {
            let bytes = Bytes::copy_from_slice(bytes);
            session.send(now, ChannelId(id), ChannelMessage { is_text, bytes })
        });
        let may = self
            .channels
            .get(&id)
            .is_some_and(|known| !known.is_left && !known.is_closed);
        match sent {
            Ok(()) => assert!(
                may && self.stage != Stage::Ended,
                "{id} takes a message: {:?} {:?}",
                self.channels.get(&id),
                self.stage
            ),
            Err(ChannelSendError::Closed) => {
                // The session itself closes a channel whose peer breaks the rules.
                let is_open = self.is_fair && may && self.stage == Stage::Connected;
                assert!(!is_open, "{id} is open, but takes no message");
            }
            Err(_) => {}
        }
        sent.is_ok()
    }

    /// Reads a message. Returns whether there was one.
    pub(super) fn read(&mut self, now: Timestamp, id: u16) -> bool {
        let message = self.call(|session| session.recv(now, ChannelId(id)));
        let known = self.channels.get_mut(&id);
        let Some(message) = message else {
            known.into_iter().for_each(|known| known.is_read = true);
            return false;
        };
        let known = known.expect("a message of no channel");
        assert!(
            !known.is_left,
            "a message of a channel that the application closed"
        );
        known.is_read = false;
        let instance = known.instance;
        assert!(message.bytes.len() <= self.max_message);
        self.inbox.push(Read {
            instance,
            is_text: message.is_text,
            bytes: message.bytes.to_vec(),
        });
        self.forget(message);
        true
    }

    pub(super) fn close(&mut self, now: Timestamp, id: u16) {
        if let Some(known) = self
            .channels
            .get_mut(&id)
            .filter(|known| !known.is_closed || !known.is_read)
        {
            known.is_left = true;
        }
        self.call(|session| session.close_channel(now, ChannelId(id)));
    }

    /// Calls the session, and returns a description that it made.
    pub(super) fn describe(
        &mut self,
        call: impl FnOnce(&mut Session) -> Result<String, SessionError>,
    ) -> Option<String> {
        let made = self.call(call);
        let copy = made.as_ref().ok().cloned();
        self.forget(made);
        copy
    }

    pub(super) fn block(&mut self, is_blocked: bool) {
        self.is_blocked = is_blocked;
        self.was_blocked |= is_blocked;
    }

    /// Calls that change little.
    pub(super) fn ask(&mut self, now: Timestamp, id: u16, threshold: usize) {
        self.call(|session| {
            session.set_buffered_amount_low_threshold(now, ChannelId(id), threshold);
            let _ = session.buffered_amount(ChannelId(id));
        });
        let is_known = self.call(|session| session.channel(ChannelId(id)).is_some());
        assert!(!is_known || self.channels.contains_key(&id), "{id} is unknown");
    }
}

/// The network and the clock.
impl Side {
    pub(super) fn handle(&mut self, now: Timestamp, datagram: &Datagram) {
        let (source, destination): (SocketAddr, SocketAddr) = (datagram.source, datagram.destination);
        self.call(|session| {
            let _ = session.accepts(&datagram.bytes);
            session.handle_datagram(now, source, destination, &datagram.bytes);
        });
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Timestamp> {
        let next = self.call(Session::poll_timeout);
        assert!(
            next.is_none() || self.stage != Stage::Ended,
            "a timeout after the end"
        );
        // Some timers wait for the next datagram. A driver whose socket is full does not call them again at once.
        match self.at_once.0.filter(|_| self.is_blocked) {
            Some(last) => next.map(|next| next.max(last + WHILE_BLOCKED)),
            None => next,
        }
    }

    /// Handles the timeout, if it is due. Time goes on then.
    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        if self.at_once.0 != Some(now) {
            self.at_once = (Some(now), 0);
        }
        self.at_once.1 += 1;
        assert!(
            self.at_once.1 <= MOST_AT_ONCE,
            "the time of the timeout does not move"
        );
        self.call(|session| session.handle_timeout(now));
    }

    /// Bytes that the association has not sent, or that are not acknowledged.
    pub(super) fn is_idle(&mut self) -> bool {
        self.call(|session| {
            session
                .stats()
                .is_none_or(|stats| stats.queued_bytes + stats.outstanding_bytes == 0)
        })
    }
}

/// When the messages of a channel may be abandoned.
pub(super) fn reliability(bits: u8) -> Reliability {
    match bits & 7 {
        0..4 => Reliability::Reliable,
        4 => Reliability::Retransmissions(u32::from(bits >> 3 & 3)),
        5 => Reliability::Lifetime(Duration::from_millis(u64::from(bits) * 4)),
        // These cannot be announced.
        6 => Reliability::Priority(1),
        _ => Reliability::Lifetime(Duration::from_micros(1)),
    }
}
