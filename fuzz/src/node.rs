//! An endpoint with its associations, driven as the documentation of `anabranch_proto` requires. Checks the invariants of all its output.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{
    Association, AssociationId, CloseReason, Config, ConnectOptions, EcnCodepoint, Endpoint, Event, Handling,
    SendOptions, StreamId, Timestamp,
};
use anabranch_testkit::{Message, Talker};
use anabranch_wire::packet::Packet;
use bytes::Bytes;

/// The most datagrams that one input may cause: the send buffer in the smallest packets, and answers.
const MOST_DATAGRAMS: usize = 4000;

/// The most streams that the targets send on.
const STREAMS: u16 = 4;

/// A datagram that the endpoint sends.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The local address, if the endpoint sets one.
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) datagram: Bytes,
}

/// The state recorded for one association.
#[derive(Default)]
struct Record {
    /// Messages that `send` accepted.
    taken: u64,
    undelivered: BTreeSet<u64>,
    closed: Option<CloseReason>,
}

/// See the [module's documentation](self).
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) associations: BTreeMap<AssociationId, Box<Association>>,
    records: BTreeMap<AssociationId, Record>,
    /// Datagrams to be sent on by the caller.
    pub(crate) sent: Vec<Sent>,
    /// Reads and stores the messages.
    pub(crate) talker: Talker,
    /// Why associations ended, in order.
    pub(crate) ended: Vec<CloseReason>,
    buffer: Vec<u8>,
}

impl Node {
    /// An endpoint that listens on this SCTP port.
    pub(crate) fn new(config: Config, seed: u8, port: u16) -> Self {
        let mut endpoint = Endpoint::new(config, [seed; 32]).expect("the settings are in range");
        endpoint.listen(port).expect("not port 0");
        Self {
            endpoint,
            associations: BTreeMap::new(),
            records: BTreeMap::new(),
            sent: Vec::new(),
            talker: Talker::default(),
            ended: Vec::new(),
            buffer: Vec::new(),
        }
    }

    pub(crate) fn connect(&mut self, now: Timestamp, remote: SocketAddr, port: u16) -> AssociationId {
        let connected = self
            .endpoint
            .connect(now, remote, port, ConnectOptions::default());
        let (id, association) = connected.expect("it can be begun");
        self.keep(now, id, association);
        id
    }

    fn keep(&mut self, now: Timestamp, id: AssociationId, association: Box<Association>) {
        self.associations.insert(id, association);
        self.records.insert(id, Record::default());
        self.drain(now, id);
    }

    /// A datagram arrived.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Timestamp,
        local: IpAddr,
        remote: SocketAddr,
        datagram: Bytes,
    ) {
        let len = datagram.len();
        match self
            .endpoint
            .handle_datagram(now, Some(local), remote, datagram, EcnCodepoint::NotEct)
        {
            Handling::Done => {}
            Handling::Reply(reply) => {
                // The source address is not validated yet: at most three times the received bytes may be sent there.
                assert!(
                    reply.packet.len() <= 3 * len,
                    "{} bytes answer {len}",
                    reply.packet.len()
                );
                self.sent.push(Sent {
                    source: reply.source,
                    destination: reply.destination,
                    datagram: reply.packet,
                });
            }
            Handling::Deliver(id, inbound) => {
                let association = self.associations.get_mut(&id).expect("the endpoint knows it");
                association.handle_packet(now, inbound);
                self.drain(now, id);
            }
            Handling::Accept(id, association) => self.keep(now, id, association),
        }
    }

    /// The newest association that is not over.
    pub(crate) fn newest(&self) -> Option<AssociationId> {
        self.associations.keys().next_back().copied()
    }

    /// Calls `act` with an association that is not over.
    pub(crate) fn act(&mut self, now: Timestamp, id: AssociationId, act: impl FnOnce(&mut Association)) {
        if let Some(association) = self.associations.get_mut(&id) {
            act(association);
            self.drain(now, id);
        }
    }

    /// Reads one part of a message, if there is one.
    pub(crate) fn read_part(&mut self, now: Timestamp, id: AssociationId) {
        if let Some(association) = self.associations.get_mut(&id) {
            if let Some(part) = association.recv(now) {
                self.talker.take_part(now, id, part);
            }
            self.drain(now, id);
        }
    }

    /// Sends a message or a part of one; returns whether `send` accepted it.
    pub(crate) fn send(
        &mut self,
        now: Timestamp,
        id: AssociationId,
        (stream, message, options): (StreamId, Bytes, SendOptions),
        part: Option<bool>,
    ) -> bool {
        let mut taken = None;
        self.act(now, id, |association| {
            taken = match part {
                None => association.send(now, stream, message, options).ok(),
                Some(end) => association.send_part(now, stream, message, options, end).ok(),
            };
        });
        if let Some(message) = taken
            && let Some(record) = self.records.get_mut(&id)
        {
            record.taken = record.taken.max(message.0 + 1);
        }
        taken.is_some()
    }

    /// Takes all output of the association.
    fn drain(&mut self, now: Timestamp, id: AssociationId) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        let record = self.records.entry(id).or_default();
        let mut left = MOST_DATAGRAMS;
        loop {
            self.buffer.clear();
            while let Some(transmit) = association.poll_transmit(now, &mut self.buffer, 8) {
                assert_eq!(transmit.len, self.buffer.len());
                assert!(transmit.len > 0);
                for datagram in self.buffer.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                    left = left.checked_sub(1).expect("output has an end");
                    self.sent.push(Sent {
                        source: transmit.source,
                        destination: transmit.destination,
                        datagram: checked(datagram),
                    });
                }
                self.buffer.clear();
            }
            while let Some(event) = association.poll_endpoint_event() {
                self.endpoint.handle_event(now, id, event);
            }
            while let Some(event) = association.poll_event() {
                assert_eq!(record.closed, None, "nothing follows the end, not {event:?}");
                match event {
                    Event::Undelivered(undelivered) => {
                        assert!(
                            record.undelivered.insert(undelivered.message.0),
                            "told twice: {undelivered:?}"
                        );
                    }
                    Event::Closed(reason) => record.closed = Some(reason),
                    _ => {}
                }
            }
            let read = self.talker.parts_read;
            if self.talker.reading || record.closed.is_some() {
                self.talker.read(now, id, association);
            }
            if read == self.talker.parts_read {
                break;
            }
        }
        if let Some(reason) = record.closed.take() {
            assert_eq!(association.poll_timeout(), None);
            self.associations.remove(&id);
            self.records.remove(&id);
            self.ended.push(reason);
        }
        assert_eq!(self.endpoint.association_count(), self.associations.len());
    }

    /// Checks the undelivered messages that were reported: `send` must have accepted each before.
    pub(crate) fn check(&self) {
        let buffers = &self.endpoint.config().buffers;
        let limit = (buffers.receive * buffers.growth) as usize;
        // The streams share twice the limit. The last message of each may go beyond its share.
        let most_sent = |streams: u16| {
            2 * buffers.send * buffers.growth as usize + usize::from(streams) * buffers.max_message
        };
        for (id, association) in &self.associations {
            let record = &self.records[id];
            assert!(record.undelivered.last().is_none_or(|last| *last < record.taken));
            let stats = association.stats();
            assert!(
                stats.unread_bytes <= 2 * limit + 65_535,
                "{} bytes unread",
                stats.unread_bytes
            );
            assert!(stats.a_rwnd as usize <= limit);
            assert!(
                stats.queued_bytes + stats.outstanding_bytes
                    <= most_sent(association.outbound_streams().min(STREAMS))
            );
            assert!(stats.paths.len() <= self.endpoint.config().max_paths);
        }
    }

    /// The earliest deadline.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.associations
            .values()
            .filter_map(|association| association.poll_timeout())
            .min()
    }

    /// Handles the timeouts that are due.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        let is_due = |association: &Association| association.poll_timeout().is_some_and(|due| due <= now);
        let due: Vec<_> = self
            .associations
            .iter()
            .filter(|(_, association)| is_due(association))
            .collect();
        let due: Vec<_> = due.into_iter().map(|(id, _)| *id).collect();
        for id in due {
            self.act(now, id, |association| association.handle_timeout(now));
            let next = self
                .associations
                .get(&id)
                .and_then(|association| association.poll_timeout());
            assert!(
                next.is_none_or(|next| next > now),
                "at {now}, handled, due at {next:?}"
            );
        }
    }

    /// The messages that were read completely.
    pub(crate) fn messages(&mut self) -> impl Iterator<Item = Message> {
        self.talker.inbox.drain(..)
    }
}

/// Checks that a datagram of the endpoint can be decoded.
fn checked(datagram: &[u8]) -> Bytes {
    let datagram = Bytes::copy_from_slice(datagram);
    let packet = Packet::parse(datagram.clone()).expect("its checksum is right");
    let mut chunks = 0;
    for raw in packet.chunks() {
        anabranch_wire::chunk::Chunk::decode(raw.expect("its lengths are right")).expect("it can be read");
        chunks += 1;
    }
    assert!(chunks > 0);
    datagram
}
