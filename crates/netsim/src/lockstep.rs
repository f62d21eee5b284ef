//! Both ends of an association in one thread, with packets passed in memory: the cost of the protocol alone, with no link and no system
//! call. Both programs that measure it use this: `anabranch bench`, and the budgets of instructions.

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_proto::{
    Association, AssociationId, Config, ConnectOptions, EcnCodepoint, Endpoint, Handling, Timestamp,
};
use bytes::{Bytes, BytesMut};
use thiserror::Error;

/// Datagrams that a side may build at once, as with segmentation offload: as many as stay in the first-level cache until
/// they are copied.
const BATCH: usize = 16;
/// Virtual time between two rounds.
const ROUND: Duration = Duration::from_micros(10);
/// Bytes of a block.
const ARENA: usize = 256 << 10;
/// The SCTP port of the receiver.
const PORT: u16 = 7;

/// Why the two ends could not go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LockstepError {
    /// The settings of an end are wrong.
    #[error("{0}")]
    Config(String),
    /// The association was not set up.
    #[error("no association: {0}")]
    NoAssociation(String),
    /// No packet moved, and no timer runs.
    #[error("no progress: no packet moves and no timer runs")]
    NoProgress,
}

/// Makes copies of bytes, many in one block, as a fast application does. A block without references is reused.
#[derive(Debug)]
pub struct Arena {
    filling: BytesMut,
    /// Filled blocks, oldest first.
    full: VecDeque<BytesMut>,
}

impl Default for Arena {
    fn default() -> Self {
        Self {
            filling: BytesMut::with_capacity(ARENA),
            full: VecDeque::new(),
        }
    }
}

impl Arena {
    /// A copy of these bytes.
    pub fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if self.filling.capacity() < bytes.len() {
            self.begin_block(bytes.len());
        }
        self.filling.extend_from_slice(bytes);
        self.filling.split().freeze()
    }

    fn begin_block(&mut self, least: usize) {
        let oldest = self.full.front_mut();
        let block = if oldest.is_some_and(|oldest| oldest.try_reclaim(least)) {
            self.full.pop_front()
        } else {
            None
        };
        let block = block.unwrap_or_else(|| BytesMut::with_capacity(least.max(ARENA)));
        self.full.push_back(mem::replace(&mut self.filling, block));
    }
}

/// One end of the association.
#[derive(Debug)]
struct Side {
    endpoint: Endpoint,
    association: Option<(AssociationId, Box<Association>)>,
    /// The address of the other end.
    peer: SocketAddr,
    buffer: Vec<u8>,
    network: Arena,
}

impl Side {
    fn new(config: &Config, peer: SocketAddr, seed: u8) -> Result<Self, LockstepError> {
        let endpoint = Endpoint::new(config.clone(), [seed; 32])
            .map_err(|error| LockstepError::Config(error.to_string()))?;
        Ok(Self {
            endpoint,
            association: None,
            peer,
            buffer: Vec::new(),
            network: Arena::default(),
        })
    }

    /// Handles a packet from the other end.
    fn input(&mut self, now: Timestamp, packet: Bytes, answers: &mut VecDeque<Bytes>) {
        match self
            .endpoint
            .handle_datagram(now, None, self.peer, packet, EcnCodepoint::NotEct)
        {
            Handling::Done => {}
            Handling::Reply(reply) => answers.push_back(reply.packet),
            Handling::Deliver(_, inbound) => {
                if let Some((_, association)) = &mut self.association {
                    association.handle_packet(now, inbound);
                }
            }
            Handling::Accept(id, association) => self.association = Some((id, association)),
        }
    }

    /// Sends all packets that are ready.
    fn output(&mut self, now: Timestamp, packets: &mut VecDeque<Bytes>) {
        let Some((id, association)) = &mut self.association else {
            return;
        };
        while let Some(transmit) = association.poll_transmit(now, &mut self.buffer, BATCH) {
            let size = transmit.segment_size.unwrap_or(transmit.len);
            // This copy takes the place of the copy into the kernel.
            packets.extend(self.buffer.chunks(size).map(|packet| self.network.copy(packet)));
            self.buffer.clear();
        }
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(now, *id, event);
        }
        while association.poll_event().is_some() {}
    }

    fn on_time(&mut self, now: Timestamp) {
        if let Some((_, association)) = &mut self.association
            && association.poll_timeout().is_some_and(|due| due <= now)
        {
            association.handle_timeout(now);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.association
            .as_ref()
            .and_then(|(_, association)| association.poll_timeout())
    }
}

/// The two ends, the packets in transit, and the time.
#[derive(Debug)]
pub struct Lockstep {
    sender: Side,
    receiver: Side,
    now: Timestamp,
    there: VecDeque<Bytes>,
    /// Packets to keep in transit to the receiver, as long as the sender has data.
    pub hold: usize,
    back: VecDeque<Bytes>,
    packets: u64,
    answers: u64,
}

impl Lockstep {
    /// Sets up an association between two ends with these settings.
    ///
    /// # Errors
    /// The settings are wrong, or set-up failed.
    pub fn set_up(config: &Config) -> Result<Self, LockstepError> {
        let [a, z] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 9899)));
        let now = Timestamp::from_millis(1);
        let mut sender = Side::new(config, z, 1)?;
        let mut receiver = Side::new(config, a, 2)?;
        let failed = |error: &dyn std::fmt::Display| LockstepError::NoAssociation(error.to_string());
        receiver.endpoint.listen(PORT).map_err(|error| failed(&error))?;
        let connected = sender.endpoint.connect(now, z, PORT, ConnectOptions::default());
        sender.association = Some(connected.map_err(|error| failed(&error))?);
        let mut pair = Self {
            sender,
            receiver,
            now,
            there: VecDeque::new(),
            hold: 0,
            back: VecDeque::new(),
            packets: 0,
            answers: 0,
        };
        // The four packets of the handshake.
        for _ in 0..4 {
            pair.exchange(1, |_, _| {});
        }
        pair.packets = 0;
        pair.answers = 0;
        Ok(pair)
    }

    /// The sending association, and the time.
    ///
    /// # Errors
    /// The association has ended.
    pub fn sender(&mut self) -> Result<(&mut Association, Timestamp), LockstepError> {
        let ended = || LockstepError::NoAssociation("it has ended".to_owned());
        let (_, association) = self.sender.association.as_mut().ok_or_else(ended)?;
        Ok((association, self.now))
    }

    /// Packets that arrived since set-up: at the receiver, and at the sender.
    #[must_use]
    pub fn packets(&self) -> [u64; 2] {
        [self.packets, self.answers]
    }

    /// A round of a transfer: `write` gives messages to the sender, the packets are carried as by [`Lockstep::exchange`], and `read` reads.
    /// If no packet moves, time passes until the next timeout.
    ///
    /// # Errors
    /// The association has ended, or no packet moves and no timer runs.
    pub fn round(
        &mut self,
        quantum: u64,
        write: impl FnOnce(&mut Association, Timestamp),
        read: impl FnMut(&mut Association, Timestamp),
    ) -> Result<(), LockstepError> {
        let (association, now) = self.sender()?;
        write(association, now);
        let before = self.packets();
        self.exchange(quantum, read);
        if before == self.packets() {
            self.wait()?;
        }
        Ok(())
    }

    /// Carries all packets that the sender has ready. The receiver gets `quantum` packets before it may answer, and then `read` may read.
    pub fn exchange(&mut self, quantum: u64, mut read: impl FnMut(&mut Association, Timestamp)) {
        let now = self.now;
        let before = self.there.len();
        self.sender.output(now, &mut self.there);
        let filling = self.there.len() > before && self.is_short();
        while !self.there.is_empty() && !filling {
            for packet in (0..quantum).map_while(|_| self.there.pop_front()) {
                self.packets += 1;
                self.receiver.input(now, packet, &mut self.back);
            }
            if let Some((_, association)) = &mut self.receiver.association {
                read(association, now);
            }
            self.answer(now);
            self.sender.output(now, &mut self.there);
            if self.is_short() {
                break;
            }
        }
        self.answer(now);
        self.now = now + ROUND;
        self.sender.on_time(self.now);
        self.receiver.on_time(self.now);
    }

    /// Whether fewer packets are in transit than `hold`.
    fn is_short(&self) -> bool {
        self.there.len() < self.hold
    }

    fn answer(&mut self, now: Timestamp) {
        self.receiver.output(now, &mut self.back);
        while let Some(packet) = self.back.pop_front() {
            self.answers += 1;
            self.sender.input(now, packet, &mut self.there);
        }
    }

    /// No packet moved: sets the time to the next timeout.
    ///
    /// # Errors
    /// No timer runs.
    pub fn wait(&mut self) -> Result<(), LockstepError> {
        let next = [self.sender.next_timeout(), self.receiver.next_timeout()];
        let next = next.into_iter().flatten().min();
        self.now = next.ok_or(LockstepError::NoProgress)?.max(self.now);
        self.sender.on_time(self.now);
        self.receiver.on_time(self.now);
        Ok(())
    }
}
