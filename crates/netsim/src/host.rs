//! A node that runs the protocol: an endpoint, its associations, and an application.
//!
//! The host drives the core as a program with sockets does, and drains an association in the order that the core requires. A test may also
//! work without an application: between runs of the network it reads [`Host::take_events`] and uses [`Host::association_mut`].

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anabranch_proto::{
    Association, AssociationId, Config, ConnectError, ConnectOptions, Endpoint, EndpointError, Event,
    Handling, Inbound, Timestamp, TraceEvent, TraceLevel, Transmit,
};
use bytes::Bytes;

use crate::ecn::{Ecn, EcnCounts};
use crate::network::Node;
use crate::packet::{Packet, Payload};

/// Datagrams requested from the core at a time: a batch as for real sockets with generic segmentation offload (GSO).
const BATCH: usize = 16;

/// A program that runs on a host.
pub trait Application: Any + Send {
    /// Handles an event of one of the host's associations. [`Event::Readable`] comes once, and again only after `recv` has returned `None`.
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event);

    /// Called once when the time set with [`HostApi::set_timer`] has come.
    fn on_timer(&mut self, api: &mut HostApi<'_>) {
        let _ = api;
    }
}

/// The interface between an application and its host.
pub struct HostApi<'a> {
    now: Timestamp,
    core: &'a mut Core,
}

impl HostApi<'_> {
    /// The current virtual time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Starts an association; see [`Endpoint::connect`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        remote_port: u16,
        options: ConnectOptions,
    ) -> Result<AssociationId, ConnectError> {
        self.core.connect(self.now, remote, remote_port, options)
    }

    /// The association with this id, to be used; `None` if there is none.
    pub fn association(&mut self, id: AssociationId) -> Option<&mut Association> {
        self.core.association_mut(id)
    }

    /// Removes an association. If it is not over yet, the host sends nothing to its peer about that.
    pub fn forget(&mut self, id: AssociationId) {
        self.core.forget(id);
    }

    /// Sets when to call [`Application::on_timer`]; the time must be later than now. `None` cancels the timer.
    pub fn set_timer(&mut self, at: Option<Timestamp>) {
        self.core.timer = at;
    }
}

/// A host with one endpoint.
pub struct Host {
    core: Core,
    application: Option<Box<dyn Application>>,
    /// Events that no application handled.
    events: VecDeque<(Timestamp, AssociationId, Event)>,
}

struct Entry {
    association: Box<Association>,
    /// The host's entry in `Core::timeouts`.
    timeout: Option<Timestamp>,
}

/// The host without its application, so that the application can borrow it.
struct Core {
    endpoint: Endpoint,
    /// Source UDP port of packets; 0 without UDP encapsulation.
    udp_port: u16,
    associations: BTreeMap<AssociationId, Entry>,
    timeouts: BTreeSet<(Timestamp, AssociationId)>,
    /// Associations to be drained, each at most once.
    changed: VecDeque<AssociationId>,
    outgoing: VecDeque<Packet>,
    timer: Option<Timestamp>,
    buffer: Vec<u8>,
    codepoints: Codepoints,
    tracing: TraceLevel,
    trace: Vec<(AssociationId, TraceEvent)>,
}

/// Translates ECN codepoints between packets and the endpoint (RFC 3168), and counts those of arriving packets.
#[derive(Clone, Copy, Debug, Default)]
struct Codepoints {
    /// Codepoint for outgoing datagrams that replaces the endpoint's.
    sent_with: Option<Ecn>,
    /// Codepoints of received datagrams.
    received: EcnCounts,
}

impl Codepoints {
    /// The codepoint for a datagram that the endpoint sends.
    fn of_transmit(&self, transmit: &Transmit) -> Ecn {
        self.sent_with.unwrap_or(transmit.ecn)
    }

    /// The codepoint of a received datagram, before the endpoint handles the datagram.
    fn of_datagram(&mut self, ecn: Ecn) -> Ecn {
        self.received.add(ecn);
        ecn
    }
}

impl Host {
    /// A host without an application. `udp_port` is the port of UDP encapsulation (RFC 6951), or 0 for SCTP directly over IP;
    /// `config.lower_layer` must say the same. `seed` is the only source of random numbers of its endpoint.
    ///
    /// # Errors
    /// A setting of `config` is out of range.
    pub fn new(config: Config, udp_port: u16, seed: [u8; 32]) -> Result<Self, EndpointError> {
        let core = Core {
            endpoint: Endpoint::new(config, seed)?,
            udp_port,
            associations: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            changed: VecDeque::new(),
            outgoing: VecDeque::new(),
            timer: None,
            buffer: Vec::new(),
            codepoints: Codepoints::default(),
            tracing: TraceLevel::Off,
            trace: Vec::new(),
        };
        Ok(Self {
            core,
            application: None,
            events: VecDeque::new(),
        })
    }

    /// From now on, gives events to an application. If `start` is set, the host calls [`Application::on_timer`] at that time. It must be
    /// later than now unless the run has not begun.
    pub fn run(&mut self, application: impl Application, start: Option<Timestamp>) {
        self.application = Some(Box::new(application));
        self.core.timer = start;
    }

    /// The application, if it has the type `T`; `None` if it has another type or there is no application.
    #[must_use]
    pub fn application<T: Application>(&self) -> Option<&T> {
        let application: &dyn Any = &**self.application.as_ref()?;
        application.downcast_ref()
    }

    /// The application, to be changed, if it has the type `T`; `None` if it has another type or there is no application.
    pub fn application_mut<T: Application>(&mut self) -> Option<&mut T> {
        let application: &mut dyn Any = &mut **self.application.as_mut()?;
        application.downcast_mut()
    }

    /// The endpoint.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.core.endpoint
    }

    /// Sends all further datagrams of associations with this ECN codepoint, whatever the endpoint requests. Replies to packets that belong
    /// to no association stay Not-ECT.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.core.codepoints.sent_with = Some(ecn);
    }

    /// The datagrams received so far, counted by ECN codepoint.
    #[must_use]
    pub fn ecn_received(&self) -> EcnCounts {
        self.core.codepoints.received
    }

    /// Starts an association; see [`Endpoint::connect`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        remote_port: u16,
        options: ConnectOptions,
    ) -> Result<AssociationId, ConnectError> {
        self.core.connect(now, remote, remote_port, options)
    }

    /// The associations, in the order of their creation. An association that is over stays in the list until [`Self::forget`].
    pub fn association_ids(&self) -> impl Iterator<Item = AssociationId> {
        self.core.associations.keys().copied()
    }

    /// The association with this id; `None` if there is none.
    #[must_use]
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.core.associations.get(&id).map(|entry| &*entry.association)
    }

    /// The association with this id, to be used; `None` if there is none. Its packets leave at the network's next run.
    pub fn association_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        self.core.association_mut(id)
    }

    /// Removes an association. If it is not over yet, the host sends nothing to its peer about that.
    pub fn forget(&mut self, id: AssociationId) {
        self.core.forget(id);
    }

    /// Removes and returns the events that no application handled, with their times.
    pub fn take_events(&mut self) -> impl Iterator<Item = (Timestamp, AssociationId, Event)> + use<> {
        core::mem::take(&mut self.events).into_iter()
    }

    /// Sets how much all associations record from now on, those to come included. [`Self::take_trace`] has to be called now and then.
    pub fn set_tracing(&mut self, level: TraceLevel) {
        self.core.tracing = level;
        for entry in self.core.associations.values_mut() {
            entry.association.set_tracing(level);
        }
    }

    /// Removes and returns the trace events since the last call, in order.
    pub fn take_trace(&mut self) -> Vec<(AssociationId, TraceEvent)> {
        core::mem::take(&mut self.core.trace)
    }

    /// Simulates a reboot: the host loses its associations, timers and unsent packets, and keeps only its addresses.
    ///
    /// # Errors
    /// A setting of `config` is out of range.
    pub fn reboot(&mut self, config: Config, seed: [u8; 32]) -> Result<(), EndpointError> {
        let tracing = self.core.tracing;
        *self = Self::new(config, self.core.udp_port, seed)?;
        self.core.tracing = tracing;
        Ok(())
    }

    /// Drains every association that changed. The application may change further associations meanwhile.
    fn drain(&mut self, now: Timestamp) {
        while let Some(id) = self.core.changed.pop_front() {
            self.core.drain_association(now, id);
            while let Some(event) = self.core.poll_event(id) {
                match &mut self.application {
                    Some(application) => {
                        application.on_event(
                            &mut HostApi {
                                now,
                                core: &mut self.core,
                            },
                            id,
                            event,
                        );
                    }
                    None => self.events.push_back((now, id, event)),
                }
            }
            self.core.note_timeout(id);
        }
    }
}

impl Core {
    fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        remote_port: u16,
        options: ConnectOptions,
    ) -> Result<AssociationId, ConnectError> {
        let (id, association) = self.endpoint.connect(now, remote, remote_port, options)?;
        self.insert(id, association);
        Ok(id)
    }

    fn insert(&mut self, id: AssociationId, mut association: Box<Association>) {
        association.set_tracing(self.tracing);
        self.associations.insert(
            id,
            Entry {
                association,
                timeout: None,
            },
        );
        self.mark_changed(id);
    }

    fn association_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        if self.associations.contains_key(&id) {
            self.mark_changed(id);
        }
        self.associations
            .get_mut(&id)
            .map(|entry| &mut *entry.association)
    }

    fn forget(&mut self, id: AssociationId) {
        if let Some(Entry {
            timeout: Some(time), ..
        }) = self.associations.remove(&id)
        {
            self.timeouts.remove(&(time, id));
        }
    }

    fn mark_changed(&mut self, id: AssociationId) {
        if !self.changed.contains(&id) {
            self.changed.push_back(id);
        }
    }

    fn deliver(&mut self, now: Timestamp, id: AssociationId, inbound: Inbound) {
        if let Some(entry) = self.associations.get_mut(&id) {
            entry.association.handle_packet(now, inbound);
            self.mark_changed(id);
        }
    }

    fn drain_association(&mut self, now: Timestamp, id: AssociationId) {
        let Some(Entry { association, .. }) = self.associations.get_mut(&id) else {
            return;
        };
        loop {
            self.buffer.clear();
            let Some(transmit) = association.poll_transmit(now, &mut self.buffer, BATCH) else {
                break;
            };
            let source = SocketAddr::new(or_unspecified(transmit.source), self.udp_port);
            let ecn = self.codepoints.of_transmit(&transmit);
            let datagrams = self.buffer[..transmit.len].chunks(transmit.segment_size.unwrap_or(transmit.len));
            self.outgoing.extend(datagrams.map(|datagram| Packet {
                source,
                destination: transmit.destination,
                payload: Bytes::copy_from_slice(datagram).into(),
                may_fragment: transmit.may_fragment,
                ecn,
                dscp: transmit.dscp,
            }));
        }
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(now, id, event);
        }
        while let Some(event) = association.poll_trace() {
            self.trace.push((id, event));
        }
    }

    fn poll_event(&mut self, id: AssociationId) -> Option<Event> {
        self.associations.get_mut(&id)?.association.poll_event()
    }

    /// Updates `timeouts` for an association.
    fn note_timeout(&mut self, id: AssociationId) {
        let Some(entry) = self.associations.get_mut(&id) else {
            return;
        };
        let timeout = entry.association.poll_timeout();
        if timeout != entry.timeout {
            if let Some(old) = entry.timeout {
                self.timeouts.remove(&(old, id));
            }
            if let Some(new) = timeout {
                self.timeouts.insert((new, id));
            }
            entry.timeout = timeout;
        }
    }
}

fn or_unspecified(address: Option<IpAddr>) -> IpAddr {
    address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

impl Node for Host {
    fn handle_packet(&mut self, now: Timestamp, packet: Packet) {
        let core = &mut self.core;
        if packet.destination.port() != core.udp_port {
            return; // Nothing listens on that UDP port, or on SCTP over IP.
        }
        let Payload::Sctp(datagram) = packet.payload else {
            return; // The host has no TCP.
        };
        let ecn = core.codepoints.of_datagram(packet.ecn);
        let local = Some(packet.destination.ip());
        match core
            .endpoint
            .handle_datagram(now, local, packet.source, datagram, ecn)
        {
            Handling::Done => {}
            Handling::Reply(reply) => core.outgoing.push_back(Packet {
                source: SocketAddr::new(or_unspecified(reply.source), core.udp_port),
                destination: reply.destination,
                payload: reply.packet.into(),
                may_fragment: true,
                ecn: Ecn::NotEct,
                dscp: core.endpoint.config().dscp,
            }),
            Handling::Deliver(id, inbound) => core.deliver(now, id, inbound),
            Handling::Accept(id, association) => core.insert(id, association),
        }
        self.drain(now);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(&(time, id)) = self.core.timeouts.first() {
            if time > now {
                break;
            }
            self.core.timeouts.pop_first();
            if let Some(entry) = self.core.associations.get_mut(&id) {
                entry.timeout = None;
                entry.association.handle_timeout(now);
                self.core.mark_changed(id);
            }
        }
        if self.core.timer.is_some_and(|time| time <= now) {
            self.core.timer = None;
            if let Some(application) = &mut self.application {
                application.on_timer(&mut HostApi {
                    now,
                    core: &mut self.core,
                });
            }
        }
        self.drain(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Packet> {
        if !self.core.changed.is_empty() {
            self.drain(now);
        }
        self.core.outgoing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let first = self.core.timeouts.first().map(|(time, _)| *time);
        match (first, self.core.timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
