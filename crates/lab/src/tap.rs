//! A host under observation: when each message first left the host and first reached it, and the bytes that the host holds for its
//! application after data arrives. Messages are identified by their payload protocol identifier, as [`crate::traffic`] sets it.

use std::net::IpAddr;

use anabranch_netsim::{Host, Node, Packet, Payload};
use anabranch_proto::Timestamp;

use crate::message_numbers::MessageNumbers;
use crate::packet_log::{PacketLog, Seen, each_chunk};
use crate::queue_meter::QueueMeter;
use crate::trace::Series;
use crate::traffic::FirstTimes;

/// A host, and an observer between the host and the network. The observer sees every packet and changes none.
pub struct Tap {
    host: Host,
    sent: FirstTimes,
    arrived: FirstTimes,
    /// Of the chunks that left, and of those that arrived.
    numbers: [MessageNumbers; 2],
    holdings: Holdings,
    queue: Option<QueueMeter>,
    log: Option<PacketLog>,
    series: Option<Series>,
    digest: Option<u64>,
}

/// Data that a receiver could not deliver yet, counted after each packet with data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Packets with data after which the receiver held undelivered data.
    pub events: u64,
    /// The held bytes, summed over those packets.
    pub bytes: u64,
}

impl Tap {
    /// A host to be observed.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self {
            host,
            sent: FirstTimes::default(),
            arrived: FirstTimes::default(),
            numbers: Default::default(),
            holdings: Holdings::default(),
            queue: None,
            log: None,
            series: None,
            digest: None,
        }
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The host, mutable.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The time at which each message's first chunk first left.
    #[must_use]
    pub fn sent(&self) -> &FirstTimes {
        &self.sent
    }

    /// The time at which each message's last chunk first arrived.
    #[must_use]
    pub fn arrived(&self) -> &FirstTimes {
        &self.arrived
    }

    /// The holdings since the start or [`Tap::restart_holdings`].
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        self.holdings
    }

    /// Restarts the count of holdings.
    pub fn restart_holdings(&mut self) {
        self.holdings = Holdings::default();
    }

    /// Measures the utilisation of the retransmission queue from now on.
    pub(crate) fn measure_queue(&mut self, now: Timestamp) {
        let mut queue = self.queue.take().unwrap_or_default();
        queue.restart(now);
        queue.look(&self.host);
        self.queue = Some(queue);
    }

    /// The measurement of the retransmission queue until `now`, if there is one.
    pub(crate) fn queue(&mut self, now: Timestamp) -> Option<&QueueMeter> {
        self.queue.as_mut()?.advance(now);
        self.queue.as_ref()
    }

    /// Logs every packet from now on. The receiver has these addresses, one for each path.
    pub(crate) fn keep_log(&mut self, receiver: Vec<IpAddr>) {
        self.log = Some(PacketLog::new(receiver));
    }

    /// Hashes every packet that the host sends from now on.
    pub(crate) fn keep_digest(&mut self) {
        // The offset basis of FNV-1a.
        self.digest = Some(0xcbf2_9ce4_8422_2325);
    }

    /// Samples the state of the host's association from now on.
    pub(crate) fn keep_series(&mut self) {
        self.series = Some(Series::default());
    }

    /// The samples since [`Tap::keep_series`].
    pub(crate) fn take_series(&mut self) -> Option<Series> {
        self.series.take()
    }

    /// Samples the association, if a sample is due. The observer looks at events that happen anyway: it adds none to the network.
    fn sample(&mut self, now: Timestamp) {
        let Some(series) = self.series.as_mut().filter(|series| series.is_due(now)) else {
            return;
        };
        let id = self.host.association_ids().next();
        if let Some(association) = id.and_then(|id| self.host.association(id)) {
            series.add(now, association.stats());
        }
    }

    /// The log since [`Tap::keep_log`].
    pub(crate) fn log(&self) -> &[Seen] {
        self.log.as_ref().map_or(&[], PacketLog::seen)
    }

    fn write_down(&mut self, now: Timestamp, packet: &Packet) {
        if let (Some(log), Payload::Sctp(bytes)) = (&mut self.log, &packet.payload) {
            log.on_packet(now, packet.destination.ip(), bytes.clone());
        }
    }

    /// Logs T3-rtx expirations.
    fn look_for_timeouts(&mut self, now: Timestamp) {
        let Some(log) = &mut self.log else {
            return;
        };
        let id = self.host.association_ids().next();
        let association = id.and_then(|id| self.host.association(id));
        if let Some(association) = association.filter(|one| one.counters().timeouts != log.timeouts()) {
            log.on_paths(now, &association.stats().paths);
        }
    }

    /// Applies `act` to the host, and updates the retransmission queue's measurement before and after.
    fn watched<Answer>(&mut self, now: Timestamp, act: impl FnOnce(&mut Host) -> Answer) -> Answer {
        if let Some(queue) = &mut self.queue {
            queue.advance(now);
        }
        let answer = act(&mut self.host);
        if let Some(queue) = &mut self.queue {
            queue.look(&self.host);
        }
        self.sample(now);
        answer
    }

    /// A hash of all packets sent since [`Tap::keep_digest`] and their times. Equal behaviour gives an equal hash.
    pub(crate) fn digest(&self) -> Option<u64> {
        self.digest
    }

    fn held_bytes(&self) -> usize {
        let associations = self.host.association_ids();
        associations
            .filter_map(|id| self.host.association(id))
            .map(|association| association.stats().unread_bytes)
            .sum()
    }

    fn mix(&mut self, now: Timestamp, packet: &Packet) {
        if let Some(digest) = &mut self.digest {
            for byte in now.0.to_le_bytes().iter().chain(packet.payload.sctp()) {
                *digest = (*digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }
}

impl Node for Tap {
    fn handle_packet(&mut self, now: Timestamp, packet: Packet) {
        let mut has_data = false;
        let [_, numbers] = &mut self.numbers;
        each_chunk(&packet, |chunk| {
            let data = numbers.read(&chunk);
            has_data |= data.is_some();
            if let Some(number) = data.filter(|data| data.ending).and_then(|data| data.number) {
                self.arrived.note(number, now);
            }
        });
        if let Some(queue) = &mut self.queue {
            queue.advance(now);
            queue.on_received(&packet);
        }
        self.write_down(now, &packet);
        self.watched(now, |host| host.handle_packet(now, packet));
        if has_data {
            let held = self.held_bytes();
            self.holdings.events += u64::from(held > 0);
            self.holdings.bytes += held as u64;
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.watched(now, |host| host.handle_timeout(now));
        self.look_for_timeouts(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Packet> {
        let packet = self.watched(now, |host| host.poll_transmit(now))?;
        if let Some(queue) = &mut self.queue {
            queue.on_sent(&packet);
        }
        self.write_down(now, &packet);
        let [numbers, _] = &mut self.numbers;
        each_chunk(&packet, |chunk| {
            if let Some(number) = numbers.read(&chunk).and_then(|data| data.number) {
                self.sent.note(number, now);
            }
        });
        self.mix(now, &packet);
        Some(packet)
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.host.poll_timeout()
    }
}
