//! The queues of events (notifications, RFC 9260 §11.2) for the application and for the endpoint.

use std::collections::VecDeque;

use anabranch_wire::cause::Causes;
use bytes::Bytes;

use crate::event::{EndpointEvent, Event};
use crate::message::UnsentMessage;
use crate::path::{Path, Paths};
use crate::receive::StreamNews;
use crate::reconfiguration::{ReconfigurationEvent, StreamSelection};
use crate::recovery::Chunk;
use crate::transmit::Sender;

/// The most events that may wait before the peer can add no more.
const MOST_WAITING: usize = 256;
/// The most bytes of error causes in them.
const MOST_CAUSES: usize = 1 << 16;

/// The most streams that they list before the peer can add no more.
const MOST_STREAMS: usize = 1 << 16;

/// The queued events, and which of the recurring events were reported already.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    events: VecDeque<Event>,
    /// Bytes of the error causes of the peer in the queue.
    causes: usize,
    /// Streams that the events in the queue list.
    streams: usize,
    endpoint_events: VecDeque<EndpointEvent>,
    readable_told: bool,
    keys_told: bool,
    dry_told: bool,
    /// `Closed` was reported: no event follows it.
    over: bool,
}

impl Notices {
    /// Nothing was sent yet: no event `Dry` is due.
    pub(crate) fn new() -> Self {
        Self {
            dry_told: true,
            ..Self::default()
        }
    }

    /// Reports an event, unless the association has ended.
    pub(crate) fn tell(&mut self, event: Event) {
        if self.over {
            return;
        }
        self.over = matches!(event, Event::Closed(_));
        self.streams += streams_of(&event);
        self.events.push_back(event);
    }

    /// Reports an ERROR of the peer, unless the application has not yet polled many such events: a peer must not fill the queue. The causes
    /// are copied, so that few bytes do not keep a large datagram in memory.
    pub(crate) fn tell_peer_error(&mut self, causes: &Causes) {
        let bytes = causes.as_bytes();
        if self.events.len() < MOST_WAITING && self.causes + bytes.len() <= MOST_CAUSES {
            self.causes += bytes.len();
            let copy = Causes::from_bytes(Bytes::copy_from_slice(bytes));
            self.tell(Event::PeerError(copy));
        }
    }

    /// Reports an event that a peer can cause as often as it likes, unless the application has not yet polled many events.
    pub(crate) fn tell_if_few(&mut self, event: Event) {
        if self.events.len() < MOST_WAITING {
            self.tell(event);
        }
    }

    /// Whether so many events wait that the peer may cause no more.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.events.len() >= MOST_WAITING || self.streams >= MOST_STREAMS
    }

    /// Reports that the state of a path changed.
    pub(crate) fn tell_path(&mut self, path: &Path) {
        self.tell(Event::PathChanged {
            path: path.id,
            remote: path.route.remote,
            state: path.state,
        });
    }

    /// Drops all messages, and reports each that was not acknowledged completely, once, in the order of `send`.
    pub(crate) fn tell_undelivered(&mut self, sender: &mut Sender, paths: &mut Paths) {
        let sent = sender.outstanding.drain(paths).filter(Chunk::is_unsettled);
        let mut failed: Vec<_> = sent.map(|chunk| chunk.fragment.undelivered()).collect();
        failed.extend(sender.queue.drain().iter().map(UnsentMessage::undelivered));
        sender.buffer.clear();
        sender.confirmations.clear();
        failed.sort_by_key(|undelivered| undelivered.message);
        failed.dedup_by_key(|undelivered| undelivered.message);
        for undelivered in failed {
            self.tell(Event::Undelivered(undelivered));
        }
    }

    pub(crate) fn tell_endpoint(&mut self, event: EndpointEvent) {
        self.endpoint_events.push_back(event);
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if let Some(Event::PeerError(causes)) = &event {
            self.causes -= causes.as_bytes().len();
        }
        self.streams -= event.as_ref().map_or(0, streams_of);
        event
    }

    pub(crate) fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.endpoint_events.pop_front()
    }

    /// A message was accepted: an event `Dry` that was not polled yet is removed, because it no longer holds.
    pub(crate) fn on_data(&mut self) {
        if core::mem::take(&mut self.dry_told) {
            self.events.retain(|event| *event != Event::Dry);
        }
    }

    /// `recv` returned `None`.
    pub(crate) fn on_read_out(&mut self) {
        self.readable_told = false;
    }

    /// [`crate::KeyManager::recv`] returned `None`.
    pub(crate) fn on_keys_read_out(&mut self) {
        self.keys_told = false;
    }

    /// Messages of key management can be read: reports it once.
    pub(crate) fn on_key_management(&mut self) {
        if !core::mem::replace(&mut self.keys_told, true) {
            self.tell(Event::KeyManagement);
        }
    }

    /// Messages can be read: reports it once.
    pub(crate) fn on_readable(&mut self) {
        if !self.readable_told {
            self.readable_told = true;
            self.tell(Event::Readable);
        }
    }

    /// Streams that are read separately can be read, or the peer opened them.
    #[inline(never)]
    pub(crate) fn tell_streams(&mut self, news: impl Iterator<Item = StreamNews>) {
        for one in news {
            self.tell(match one {
                StreamNews::Opened(stream) => Event::StreamOpened(stream),
                StreamNews::Readable(stream) => Event::StreamReadable(stream),
            });
        }
    }

    /// Tells each stream that was refused a message and has room now.
    pub(crate) fn tell_writable(&mut self, sender: &mut Sender) {
        while let Some(stream) = sender.buffer.take_writable() {
            self.tell(Event::Writable(stream));
        }
    }

    /// Everything sent is acknowledged.
    pub(crate) fn on_dry(&mut self) {
        if !self.dry_told {
            self.dry_told = true;
            self.tell(Event::Dry);
        }
    }
}

/// The number of streams that an event lists.
fn streams_of(event: &Event) -> usize {
    match event {
        Event::Reconfiguration(
            ReconfigurationEvent::InboundReset {
                streams: StreamSelection::Listed(streams),
                ..
            }
            | ReconfigurationEvent::OutboundReset {
                streams: StreamSelection::Listed(streams),
            },
        ) => streams.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dry_is_told_only_while_it_is_true() {
        let mut notices = Notices::new();
        notices.on_data();
        notices.on_dry();
        notices.on_data();
        assert_eq!(notices.poll_event(), None);
        notices.on_dry();
        notices.on_dry();
        assert_eq!(notices.poll_event(), Some(Event::Dry));
        assert_eq!(notices.poll_event(), None);
    }
}
