//! The state of one association behind its lock: the core's state machine, and its tasks and events.

use std::io;
use std::time::Instant;

use anabranch_proto::{CloseReason, Event, Inbound, PathId, StreamId, StreamItem, Timestamp};

use super::events::Events;
use super::inbox::Input;
use super::keys::Keys;
use crate::datagram::Outgoing;
use crate::error::RecvError;
use crate::message::{Joiner, Message, Next};
use crate::path_source::PathSource;
use crate::readers::Readers;
use crate::receipt::Receipts;
use crate::senders::Senders;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) core: Box<anabranch_proto::Association>,
    /// Where the paths begin, if the addresses of the host are followed.
    pub(crate) sources: Vec<PathSource>,
    /// The current batch of packets; it stays here while the socket is full.
    pub(super) buffer: Vec<u8>,
    pub(super) blocked: Option<(PathId, Outgoing)>,
    /// The packet that was made last after the association had ended: SHUTDOWN COMPLETE or ABORT.
    pub(super) last_packet: Option<Box<(Outgoing, Vec<u8>)>>,
    /// When the task's timer expires.
    pub(super) armed: Option<Timestamp>,
    pub(super) clock: Timestamp,
    pub(crate) events: Events,
    pub(crate) joiner: Joiner,
    pub(crate) senders: Senders,
    pub(crate) readers: Readers,
    pub(crate) receipts: Receipts,
    pub(crate) established: bool,
    /// The key management, if packets are encrypted: the application uses the association when both directions are.
    pub(crate) keys: Option<Keys>,
    /// Every sent message is acknowledged or abandoned.
    pub(crate) dry: bool,
    pub(crate) closed: Option<CloseReason>,
    /// No handle is left: received messages are dropped, so that the peer can complete the shutdown.
    pub(crate) abandoned: bool,
    /// The system's last error in sending; `None` after a packet was sent.
    pub(crate) refused: Option<io::Error>,
    /// The last content of the inbox; kept to reuse its memory.
    pub(super) inputs: Vec<Input>,
    pub(super) gone: bool,
    /// A test makes the association's code panic at the next packet.
    #[cfg(test)]
    pub(super) panics: bool,
}

/// The work to do after the lock is released.
#[derive(Debug, Default)]
pub(super) struct Aftermath {
    pub(super) readable: bool,
    pub(super) changed: bool,
    pub(super) drive: bool,
    /// More data may be ready to send: `transmit` stopped after a burst, or after several errors.
    pub(super) again: bool,
    /// Packets that arrived after the association had ended.
    pub(super) unread: Vec<Inbound>,
}

impl State {
    pub(super) fn new(
        core: Box<anabranch_proto::Association>,
        sources: Vec<PathSource>,
        keys: Option<Keys>,
        started: Instant,
    ) -> Self {
        Self {
            core,
            sources,
            buffer: Vec::new(),
            blocked: None,
            last_packet: None,
            armed: None,
            clock: Timestamp::ZERO,
            events: Events::default(),
            joiner: Joiner::new(started),
            senders: Senders::default(),
            readers: Readers::default(),
            receipts: Receipts::default(),
            established: false,
            keys,
            dry: true,
            closed: None,
            abandoned: false,
            refused: None,
            inputs: Vec::new(),
            gone: false,
            #[cfg(test)]
            panics: false,
        }
    }

    /// The present time. Threads may read the clock before they take the lock, but the core's time must not run backwards.
    pub(super) fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.clock = self.clock.max(now);
        self.clock
    }

    /// The next whole message, or the error of a message that is too large.
    pub(crate) fn next_message(
        &mut self,
        now: Timestamp,
        limit: usize,
    ) -> Option<Result<Message, RecvError>> {
        loop {
            let part = self.core.recv(now)?;
            if let Some(answer) = self.joiner.push(part, limit) {
                return Some(answer);
            }
        }
    }

    /// The same for a stream that is read by handle.
    pub(crate) fn next_message_of(
        &mut self,
        stream: StreamId,
        now: Timestamp,
        limit: usize,
    ) -> Next<Message> {
        loop {
            match self.core.stream(now, stream).recv() {
                None => return Next::Nothing,
                Some(StreamItem::Reset) => return Next::End,
                Some(StreamItem::Part(part)) => {
                    if let Some(answer) = self.joiner.push(part, limit) {
                        return Next::One(answer);
                    }
                }
            }
        }
    }

    pub(super) fn handle_packet(&mut self, now: Timestamp, inbound: Inbound) {
        #[cfg(test)]
        assert!(!self.panics, "a test wants this panic");
        self.core.handle_packet(now, inbound);
        let core = &mut self.core;
        if self.keys.as_ref().is_some_and(|keys| keys.are_due(core)) {
            self.manage_keys(now);
        }
    }

    /// Lets key management work.
    pub(super) fn manage_keys(&mut self, now: Timestamp) {
        if let Some(keys) = &mut self.keys {
            keys.work(&mut self.core, now);
        }
    }

    /// When the association's task must run again.
    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        let keys = self.keys.as_ref().and_then(Keys::poll_timeout);
        let core = self.core.poll_timeout();
        core.into_iter().chain(keys).min()
    }

    /// Ends the association after a panic in its code. State that the panic may have left inconsistent is not used any more.
    pub(super) fn fail(&mut self, after: &mut Aftermath) {
        self.core.fail();
        self.joiner.clear();
        self.inputs.clear();
        self.blocked = None;
        self.on_event(Event::Closed(CloseReason::InternalError), after);
    }

    pub(super) fn on_event(&mut self, event: Event, after: &mut Aftermath) {
        match event {
            Event::Established { .. } if self.keys.is_some() => {}
            Event::Established { .. } | Event::Protected => {
                self.established = true;
                after.changed = true;
            }
            // Its messages were handled before.
            Event::KeyManagement => {}
            Event::Readable => after.readable = true,
            Event::Writable(stream) => self.senders.wake_next(stream),
            Event::StreamReadable(stream) => self.readers.wake(stream),
            Event::StreamOpened(stream) => {
                self.readers.on_opened(stream);
                after.changed = true;
            }
            Event::BufferedAmountLow(stream) => self.readers.on_low(stream),
            Event::Dry => {
                self.dry = true;
                after.changed = true;
            }
            Event::Closed(reason) => {
                self.closed.get_or_insert(reason);
                if let Some(keys) = &mut self.keys {
                    keys.end();
                }
                self.senders.wake_all();
                self.readers.wake_all();
                self.receipts.clear();
                (after.readable, after.changed) = (true, true);
            }
            event => {
                if self.receipts.on_event(&event) {
                    return;
                }
                if event == Event::Restarted {
                    self.joiner.clear();
                }
                if event == Event::PeerShutdown {
                    // Tasks that wait for room must learn that there will be none.
                    self.senders.wake_all();
                }
                self.events.push(event);
                after.changed = true;
            }
        }
    }
}
