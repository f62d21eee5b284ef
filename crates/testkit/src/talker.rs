//! The application on each host of a pair: sends what it is given as the buffer allows, reads what comes, and keeps
//! both with all events for the test to look at.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use anabranch_netsim::{Application, HostApi};
use anabranch_proto::{Association, AssociationId, Event, MessagePart, Ppid, SendError, StreamId, Timestamp};
use bytes::Bytes;

use crate::ledger::Parcel;

/// A message that arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When its end was read.
    pub at: Timestamp,
    /// Its stream.
    pub stream: StreamId,
    /// As it was sent.
    pub ppid: Ppid,
    /// As it was sent.
    pub unordered: bool,
    /// All of it.
    pub bytes: Bytes,
}

/// See the [module's documentation](self).
#[derive(Debug)]
pub struct Talker {
    /// Whether what comes is read at once. A test that fills the receive window sets this to false.
    pub reading: bool,
    /// What is still to be sent.
    pub backlog: VecDeque<Parcel>,
    /// The addresses of the peers that it talks to: it leaves all other associations alone. `None`: it talks to everybody.
    pub peers: Option<Vec<IpAddr>>,
    /// Whether to begin a shutdown when the backlog is empty.
    pub shutdown_when_done: bool,
    /// All events of all associations so far, but for `Readable` and `Writable` which are acted on.
    pub events: Vec<(Timestamp, AssociationId, Event)>,
    /// Messages that arrived whole and that the test has not taken.
    pub inbox: VecDeque<Message>,
    /// Parts read so far, whole messages counted as one.
    pub parts_read: u64,
    /// Messages of which the end has not come, by association and number.
    unfinished: BTreeMap<(AssociationId, u64), Vec<u8>>,
}

impl Default for Talker {
    fn default() -> Self {
        Self {
            reading: true,
            backlog: VecDeque::new(),
            peers: None,
            shutdown_when_done: false,
            events: Vec::new(),
            inbox: VecDeque::new(),
            parts_read: 0,
            unfinished: BTreeMap::new(),
        }
    }
}

impl Talker {
    /// Sends as much of the backlog as the association takes now.
    ///
    /// # Panics
    /// If it refuses a message for another reason than a full buffer, or than being over.
    pub fn send_backlog(&mut self, now: Timestamp, association: &mut Association) {
        while let Some(parcel) = self.backlog.front() {
            match association.send(now, parcel.stream, parcel.bytes.clone(), parcel.options) {
                Ok(_) => {
                    self.backlog.pop_front();
                }
                Err(SendError::BufferFull | SendError::Closed) => return,
                Err(error) => panic!("send: {error}"),
            }
        }
        if core::mem::take(&mut self.shutdown_when_done) {
            association.shutdown(now);
        }
    }

    /// Reads all there is.
    pub fn read(&mut self, now: Timestamp, id: AssociationId, association: &mut Association) {
        while let Some(part) = association.recv(now) {
            self.take_part(now, id, part);
        }
    }

    /// Enters a part that was read, and the message that it ends.
    ///
    /// # Panics
    /// If it is not the part that must come next.
    pub fn take_part(&mut self, now: Timestamp, id: AssociationId, part: MessagePart) {
        self.parts_read += 1;
        let key = (id, part.message);
        let begun = self.unfinished.remove(&key);
        assert_eq!(
            part.beginning,
            begun.is_none(),
            "message {} begins once",
            part.message
        );
        let mut bytes = begun.unwrap_or_default();
        for piece in part.payload.pieces() {
            bytes.extend_from_slice(piece);
        }
        if part.truncated {
            return;
        }
        if part.ending {
            let MessagePart {
                stream,
                ppid,
                unordered,
                ..
            } = part;
            self.inbox.push_back(Message {
                at: now,
                stream,
                ppid,
                unordered,
                bytes: bytes.into(),
            });
        } else {
            self.unfinished.insert(key, bytes);
        }
    }

    /// Messages begun and not ended.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.unfinished.len()
    }
}

impl Application for Talker {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        if matches!(event, Event::Readable) && !self.reading {
            return;
        }
        let Some(association) = api.association(id) else {
            return;
        };
        let remote = association.remote_address().ip();
        if self.peers.as_ref().is_some_and(|peers| !peers.contains(&remote)) {
            return;
        }
        match event {
            Event::Readable => self.read(now, id, association),
            Event::Writable => self.send_backlog(now, association),
            event => {
                if matches!(event, Event::Established { .. }) {
                    self.send_backlog(now, association);
                }
                self.events.push((now, id, event));
            }
        }
    }
}
