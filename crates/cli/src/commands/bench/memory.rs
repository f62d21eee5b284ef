//! Both ends of an association in one thread, with packets passed in memory.

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_proto::{
    Association, AssociationId, ConnectOptions, EcnCodepoint, Endpoint, Handling, SendOptions, Timestamp,
};
use bytes::{Bytes, BytesMut};

use super::{BenchArgs, MEMORY_PACKET, Meter, PORT, Report, is_stamped, stamp};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Datagrams that a side may build at once, as with segmentation offload: as many as stay in the first-level cache until
/// they are copied.
const BATCH: usize = 16;
/// Virtual time between two rounds.
const ROUND: Duration = Duration::from_micros(10);
/// Bytes of a block.
const ARENA: usize = 256 << 10;

/// Makes copies of bytes, many in one block, as a fast application does. A block without references is reused.
struct Arena {
    filling: BytesMut,
    /// Filled blocks, oldest first.
    full: VecDeque<BytesMut>,
}

impl Arena {
    fn new() -> Self {
        Self {
            filling: BytesMut::with_capacity(ARENA),
            full: VecDeque::new(),
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Bytes {
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
struct Side {
    endpoint: Endpoint,
    association: Option<(AssociationId, Box<Association>)>,
    /// The address of the other end.
    peer: SocketAddr,
    buffer: Vec<u8>,
    network: Arena,
}

impl Side {
    fn new(args: &BenchArgs, peer: SocketAddr, seed: u8) -> Result<Self, Failure> {
        let endpoint = Endpoint::new(args.config()?, [seed; 32])
            .map_err(|error| Failure::new(format!("the benchmark's settings: {error}")))?;
        Ok(Self {
            endpoint,
            association: None,
            peer,
            buffer: Vec::new(),
            network: Arena::new(),
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
struct Pair {
    sender: Side,
    receiver: Side,
    now: Timestamp,
    there: VecDeque<Bytes>,
    /// Bytes of packets to keep in transit to the receiver, as long as the sender has data.
    hold: usize,
    back: VecDeque<Bytes>,
    packets: u64,
    answers: u64,
}

impl Pair {
    fn set_up(args: &BenchArgs) -> Result<Self, Failure> {
        let [a, z] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 9899)));
        let now = Timestamp::from_millis(1);
        let mut sender = Side::new(args, z, 1)?;
        let mut receiver = Side::new(args, a, 2)?;
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("no association: {error}"));
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
            pair.exchange(1, |_| {});
        }
        pair.packets = 0;
        pair.answers = 0;
        Ok(pair)
    }

    /// Carries all packets that the sender has ready. The receiver gets `quantum` packets before it may answer.
    fn exchange(&mut self, quantum: u64, mut read: impl FnMut(&mut Association)) {
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
                read(association);
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

    /// Whether fewer bytes are in transit than `hold`.
    fn is_short(&self) -> bool {
        self.hold > 0 && self.there.len() * usize::from(MEMORY_PACKET) < self.hold
    }

    fn answer(&mut self, now: Timestamp) {
        self.receiver.output(now, &mut self.back);
        while let Some(packet) = self.back.pop_front() {
            self.answers += 1;
            self.sender.input(now, packet, &mut self.there);
        }
    }

    /// No packet moved: sets the time to the next timeout.
    fn wait(&mut self) -> Result<(), Failure> {
        let next = [self.sender.next_timeout(), self.receiver.next_timeout()];
        let next = next.into_iter().flatten().min();
        self.now = next
            .ok_or_else(|| Failure::new("the benchmark makes no progress: this is a bug"))?
            .max(self.now);
        self.sender.on_time(self.now);
        self.receiver.on_time(self.now);
        Ok(())
    }
}

/// Carries the messages.
pub(super) fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<Report, Failure> {
    let mut pair = Pair::set_up(args)?;
    pair.hold = args.held_bytes();
    if let Some((_, association)) = &mut pair.sender.association {
        let set = args.set_classes(association);
        set.map_err(|error| Failure::new(error.to_string()))?;
    }
    let total = args.messages();
    let mut template = vec![0x5a; usize::try_from(args.size).unwrap_or(usize::MAX)];
    let options = SendOptions::default().unordered(args.unordered);
    let (mut sent, mut received, mut wrong) = (0, 0, 0);
    let mut application = Arena::new();
    let meter = Meter::start();
    while received < total && !interrupt.is_set() {
        let Some((_, association)) = &mut pair.sender.association else {
            return Err(Failure::new("no association: this is a bug"));
        };
        if sent == total {
            pair.hold = 0;
        }
        while sent < total {
            stamp(&mut template, sent);
            let message = application.copy(&template);
            if association
                .send(pair.now, args.stream_of(sent), message, options)
                .is_err()
            {
                break;
            }
            sent += 1;
        }
        let before = (pair.packets, pair.answers);
        let now = pair.now;
        pair.exchange(args.quantum, |association| {
            while let Some(part) = association.recv(now) {
                let whole = part.beginning && part.ending && part.payload.len() == template.len();
                let right = args.scheduler.is_some()
                    || part
                        .payload
                        .pieces()
                        .first()
                        .is_some_and(|first| is_stamped(first, received));
                wrong += u64::from(!(whole && right));
                received += 1;
            }
        });
        if before == (pair.packets, pair.answers) && received < total {
            pair.wait()?;
        }
    }
    if wrong > 0 {
        return Err(Failure::new(format!(
            "{wrong} messages arrived out of order or truncated: this is a bug"
        )));
    }
    let packet = args.packet.unwrap_or(MEMORY_PACKET);
    Ok(meter.report(
        received,
        received * args.size,
        packet,
        [pair.packets, pair.answers],
    ))
}
