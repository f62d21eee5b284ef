//! Many idle associations of one endpoint: the time of their setup, their memory, and their processor time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anabranch_proto::{
    Association, AssociationId, ConnectOptions, EcnCodepoint, Endpoint, Handling, Timestamp,
};
use bytes::Bytes;

use super::meter::cpu_time;
use super::{BenchArgs, PORT};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long the associations are idle, in virtual time.
const REST: Duration = Duration::from_secs(600);
/// The one-way delay.
const DELAY: Duration = Duration::from_millis(1);

/// The cost of many associations.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleReport {
    pub(super) associations: u64,
    /// Associations set up per second; one thread does the work of both ends.
    pub(super) per_second: f64,
    /// Resident bytes of one end of an association; `None` if the system does not report them.
    pub(super) bytes_each: Option<f64>,
    /// Processor time of one end per minute, for heartbeats and their answers.
    pub(super) cpu_per_minute: Duration,
}

/// One end of all associations: an endpoint.
struct End {
    endpoint: Endpoint,
    address: SocketAddr,
    associations: BTreeMap<AssociationId, Entry>,
    timeouts: BTreeSet<(Timestamp, AssociationId)>,
    buffer: Vec<u8>,
}

/// An association, and its place among the timeouts.
struct Entry {
    association: Box<Association>,
    timeout: Option<Timestamp>,
}

/// A packet in transit: arrival time, source, destination, content.
type Carried = (Timestamp, SocketAddr, SocketAddr, Bytes);

impl End {
    fn new(args: &BenchArgs, address: SocketAddr, seed: u8) -> Result<Self, Failure> {
        let endpoint = Endpoint::new(args.config()?, [seed; 32])
            .map_err(|error| Failure::new(format!("the benchmark's settings: {error}")))?;
        Ok(Self {
            endpoint,
            address,
            associations: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            buffer: Vec::new(),
        })
    }

    fn send(&mut self, now: Timestamp, id: AssociationId, wire: &mut VecDeque<Carried>) {
        let Some(Entry { association, timeout }) = self.associations.get_mut(&id) else {
            return;
        };
        self.buffer.clear();
        while let Some(transmit) = association.poll_transmit(now, &mut self.buffer, 1) {
            let packet = Bytes::copy_from_slice(&self.buffer);
            wire.push_back((now + DELAY, self.address, transmit.destination, packet));
            self.buffer.clear();
        }
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(now, id, event);
        }
        while association.poll_event().is_some() {}
        if let Some(old) = timeout.take() {
            self.timeouts.remove(&(old, id));
        }
        *timeout = association.poll_timeout();
        self.timeouts.extend(timeout.map(|due| (due, id)));
    }

    fn keep(&mut self, id: AssociationId, association: Box<Association>) {
        let timeout = None;
        self.associations.insert(id, Entry { association, timeout });
    }

    fn input(&mut self, now: Timestamp, from: SocketAddr, packet: Bytes, wire: &mut VecDeque<Carried>) {
        match self
            .endpoint
            .handle_datagram(now, None, from, packet, EcnCodepoint::NotEct)
        {
            Handling::Done => {}
            Handling::Reply(reply) => {
                wire.push_back((now + DELAY, self.address, reply.destination, reply.packet));
            }
            Handling::Deliver(id, inbound) => {
                if let Some(entry) = self.associations.get_mut(&id) {
                    entry.association.handle_packet(now, inbound);
                }
                self.send(now, id, wire);
            }
            Handling::Accept(id, association) => {
                self.keep(id, association);
                self.send(now, id, wire);
            }
        }
    }

    fn on_time(&mut self, now: Timestamp, wire: &mut VecDeque<Carried>) {
        while let Some(&(due, id)) = self.timeouts.first()
            && due <= now
        {
            if let Some(entry) = self.associations.get_mut(&id) {
                entry.association.handle_timeout(now);
            }
            self.send(now, id, wire);
        }
    }
}

fn carry(ends: &mut [End; 2], now: Timestamp, wire: &mut VecDeque<Carried>) {
    while let Some((at, from, to, packet)) = wire.pop_front() {
        if at > now {
            wire.push_front((at, from, to, packet));
            return;
        }
        if let Some(end) = ends.iter_mut().find(|end| end.address == to) {
            end.input(now, from, packet, wire);
        }
    }
}

/// Sets up the associations, and keeps them idle.
pub(super) fn run(args: &BenchArgs, count: u64, interrupt: &Interrupt) -> Result<IdleReport, Failure> {
    let address = |last| SocketAddr::new(Ipv4Addr::new(10, 0, 0, last).into(), 9899);
    let mut ends = [End::new(args, address(1), 1)?, End::new(args, address(2), 2)?];
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("no association: {error}"));
    ends[1].endpoint.listen(PORT).map_err(|error| failed(&error))?;
    let mut wire = VecDeque::new();
    let mut now = Timestamp::from_millis(1);
    let before = resident();
    let begun = Instant::now();
    for _ in 0..count {
        if interrupt.is_set() {
            return Err(Failure::interrupted(
                "interrupted during the setup of the associations",
            ));
        }
        let connected = ends[0]
            .endpoint
            .connect(now, address(2), PORT, ConnectOptions::default());
        let (id, association) = connected.map_err(|error| failed(&error))?;
        ends[0].keep(id, association);
        ends[0].send(now, id, &mut wire);
        for _ in 0..4 {
            now += DELAY;
            carry(&mut ends, now, &mut wire);
        }
    }
    let set_up = begun.elapsed();
    let there = ends[1].associations.len() as u64;
    if there != count {
        return Err(Failure::new(format!(
            "{there} of {count} associations: this is a bug"
        )));
    }
    let bytes = resident()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    let cpu = cpu_time();
    let end = now + REST;
    while now < end && !interrupt.is_set() {
        now += 20 * DELAY;
        carry(&mut ends, now, &mut wire);
        ends.iter_mut().for_each(|end| end.on_time(now, &mut wire));
    }
    let rest = cpu_time().saturating_sub(cpu);
    let ends_of_all = 2.0 * count as f64;
    Ok(IdleReport {
        associations: count,
        per_second: count as f64 / set_up.as_secs_f64(),
        bytes_each: bytes.map(|bytes| bytes as f64 / ends_of_all),
        cpu_per_minute: rest.div_f64(ends_of_all * REST.as_secs_f64() / 60.0),
    })
}

/// The resident memory in bytes; `None` if the system does not report it (not Linux).
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
