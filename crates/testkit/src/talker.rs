//! The application on each host of a pair: it sends the test's messages as the send buffer allows, reads all received messages,
//! and keeps messages and events for the test.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use anabranch_netsim::{Application, HostApi};
use anabranch_proto::{
    Association, AssociationId, Event, FIRST_EPOCH, MessagePart, Ppid, SendError, StreamId, Timestamp,
};
use bytes::Bytes;

use crate::ledger::Parcel;
use crate::toy_keys::ToyKeys;

/// A message that arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When its end was read.
    pub at: Timestamp,
    /// The stream.
    pub stream: StreamId,
    /// As given to the sender.
    pub ppid: Ppid,
    /// As given to the sender.
    pub unordered: bool,
    /// The whole content.
    pub bytes: Bytes,
}

/// See the [module's documentation](self).
#[derive(Debug)]
pub struct Talker {
    /// Whether received data is read at once. A test that fills the receive window sets this to false.
    pub reading: bool,
    /// Messages that are still to be sent.
    pub backlog: VecDeque<Parcel>,
    /// The addresses of the peers whose associations the talker uses. `None`: it uses all associations.
    pub peers: Option<Vec<IpAddr>>,
    /// Whether to start a shutdown when the backlog is empty.
    pub shutdown_when_done: bool,
    /// All events of all associations so far, except `Readable` and `Writable`, which the talker handles.
    pub events: Vec<(Timestamp, AssociationId, Event)>,
    /// Complete messages that the test has not taken.
    pub inbox: VecDeque<Message>,
    /// The key management of its association, if packets are protected.
    pub keys: ToyKeys,
    /// Parts read so far; a message that was read in one part counts once.
    pub parts_read: u64,
    /// Messages whose end has not arrived, by association and number.
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
            keys: ToyKeys::default(),
            parts_read: 0,
            unfinished: BTreeMap::new(),
        }
    }
}

impl Talker {
    /// Sends as much of the backlog as the association takes now.
    ///
    /// # Panics
    /// If the association refuses a message for another reason than a full buffer or its end.
    pub fn send_backlog(&mut self, now: Timestamp, association: &mut Association) {
        while let Some(parcel) = self.backlog.front() {
            match association.send(now, parcel.stream, parcel.bytes.clone(), parcel.options) {
                Ok(_) => {
                    self.backlog.pop_front();
                }
                Err(SendError::BufferFull | SendError::Closed | SendError::NotProtected) => return,
                Err(error) => panic!("send: {error}"),
            }
        }
        if core::mem::take(&mut self.shutdown_when_done) {
            association.shutdown(now);
        }
    }

    /// Reads all data that is there.
    pub fn read(&mut self, now: Timestamp, id: AssociationId, association: &mut Association) {
        while let Some(part) = association.recv(now) {
            self.take_part(now, id, part);
        }
    }

    /// Records a part that was read, and the message if the part ends it.
    ///
    /// # Panics
    /// If the part does not continue its message.
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

    /// The number of messages that began and have not ended.
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
            Event::Writable(_) => self.send_backlog(now, association),
            Event::KeyManagement => self.keys.handle(now, &mut association.key_manager()),
            event => {
                if matches!(event, Event::Established { .. }) {
                    self.keys.begin(now, &mut association.key_manager(), FIRST_EPOCH);
                }
                if matches!(event, Event::Established { .. } | Event::Protected) {
                    self.send_backlog(now, association);
                }
                self.events.push((now, id, event));
            }
        }
    }
}
