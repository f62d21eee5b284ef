//! Two hosts in virtual time. The code of a host is compiled twice: with this crate and with the original `sctp-proto`, so that it also
//! checks that both have the same interface.

#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

/// An event that a host has seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Connected,
    Opened(u16),
    /// The stream, the payload protocol identifier, and the message.
    Message(u16, u32, Vec<u8>),
    Finished(u16),
    ResetComplete(u16),
    Lost,
}

/// Reliability: reliable, most retransmissions, or a lifetime in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Reliable,
    Rexmit(u32),
    Timed(u32),
}

/// A host with one association.
pub(crate) trait Host {
    fn connect(&mut self);
    fn input(&mut self, now: Instant, packet: Bytes);
    fn timeout(&mut self, now: Instant);
    fn output(&mut self, now: Instant) -> Vec<Bytes>;
    fn due(&self) -> Option<Instant>;
    fn open(&mut self, stream: u16, unordered: bool, kind: Kind);
    /// Whether the message was taken.
    fn write(&mut self, stream: u16, message: &[u8]) -> bool;
    fn close_stream(&mut self, stream: u16);
    fn shutdown(&mut self);
    fn is_closed(&self) -> bool;
    fn seen(&self) -> &[Seen];
}

macro_rules! host {
    ($module:ident, $crate_name:ident) => {
        pub(crate) mod $module {
            use std::net::SocketAddr;
            use std::sync::Arc;
            use std::time::Instant;

            use bytes::Bytes;
            use $crate_name::{
                Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
                Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig, StreamEvent, Transmit,
            };

            use super::{Kind, Seen};

            pub(crate) struct Host {
                pub(crate) endpoint: Endpoint,
                pub(crate) association: Option<(AssociationHandle, Association)>,
                remote: SocketAddr,
                seen: Vec<Seen>,
                /// Whether events are polled and messages are read.
                pub(crate) reads: bool,
            }

            impl Default for Host {
                fn default() -> Self {
                    let server = ServerConfig::new();
                    Self {
                        endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(server))),
                        association: None,
                        remote: "192.0.2.1:5000".parse().unwrap(),
                        seen: Vec::new(),
                        reads: true,
                    }
                }
            }

            fn packets(transmit: Transmit) -> Vec<Bytes> {
                match transmit.payload {
                    Payload::RawEncode(packets) => packets,
                    _ => panic!("not to be sent"),
                }
            }

            impl Host {
                pub(crate) fn association(&mut self) -> &mut Association {
                    &mut self.association.as_mut().unwrap().1
                }

                fn read(&mut self, id: u16) {
                    loop {
                        let Ok(mut stream) = self.association().stream(id) else {
                            return;
                        };
                        let Ok(Some(message)) = stream.read() else {
                            return;
                        };
                        let mut bytes = vec![0; message.len()];
                        assert_eq!(message.read(&mut bytes), Ok(bytes.len()));
                        self.seen.push(Seen::Message(id, message.ppi as u32, bytes));
                    }
                }

                fn poll(&mut self) {
                    while self.reads
                        && let Some((_, association)) = &mut self.association
                        && let Some(event) = association.poll()
                    {
                        match event {
                            Event::Connected => self.seen.push(Seen::Connected),
                            Event::AssociationLost { .. } => self.seen.push(Seen::Lost),
                            Event::Stream(StreamEvent::Opened { id }) => {
                                self.seen.push(Seen::Opened(id));
                            }
                            Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                            Event::Stream(StreamEvent::Finished { id }) => {
                                self.seen.push(Seen::Finished(id));
                            }
                            Event::Stream(StreamEvent::ResetComplete { id }) => {
                                self.seen.push(Seen::ResetComplete(id));
                            }
                            _ => {}
                        }
                    }
                }
            }

            impl super::Host for Host {
                fn connect(&mut self) {
                    let remote = self.remote;
                    self.association = Some(self.endpoint.connect(ClientConfig::new(), remote).unwrap());
                }

                fn input(&mut self, now: Instant, packet: Bytes) {
                    match self.endpoint.handle(now, self.remote, None, None, packet) {
                        Some((handle, DatagramEvent::NewAssociation(association))) => {
                            self.association = Some((handle, association));
                        }
                        Some((handle, DatagramEvent::AssociationEvent(event))) => {
                            let (own, association) = self.association.as_mut().unwrap();
                            assert_eq!(*own, handle);
                            association.handle_event(event);
                        }
                        None => {}
                    }
                    self.poll();
                }

                fn timeout(&mut self, now: Instant) {
                    if let Some((_, association)) = &mut self.association {
                        association.handle_timeout(now);
                    }
                    self.poll();
                }

                fn output(&mut self, now: Instant) -> Vec<Bytes> {
                    let mut all = Vec::new();
                    while let Some(transmit) = self.endpoint.poll_transmit() {
                        all.extend(packets(transmit));
                    }
                    while let Some((handle, association)) = &mut self.association {
                        if let Some(transmit) = association.poll_transmit(now) {
                            all.extend(packets(transmit));
                            continue;
                        }
                        let Some(event) = association.poll_endpoint_event() else {
                            break;
                        };
                        assert!(self.endpoint.handle_event(*handle, event).is_none());
                    }
                    self.poll();
                    all
                }

                fn due(&self) -> Option<Instant> {
                    self.association.as_ref()?.1.poll_timeout()
                }

                fn open(&mut self, stream: u16, unordered: bool, kind: Kind) {
                    let (kind, value) = match kind {
                        Kind::Reliable => (ReliabilityType::Reliable, 0),
                        Kind::Rexmit(most) => (ReliabilityType::Rexmit, most),
                        Kind::Timed(millis) => (ReliabilityType::Timed, millis),
                    };
                    let mut stream = self
                        .association()
                        .open_stream(stream, PayloadProtocolIdentifier::Binary)
                        .unwrap();
                    stream
                        .set_reliability_params(unordered, kind, value)
                        .unwrap();
                }

                fn write(&mut self, stream: u16, message: &[u8]) -> bool {
                    let stream = self.association().stream(stream);
                    stream.is_ok_and(|mut stream| stream.write(message) == Ok(message.len()))
                }

                fn close_stream(&mut self, stream: u16) {
                    self.association().stream(stream).unwrap().close().unwrap();
                }

                fn shutdown(&mut self) {
                    self.association().shutdown().unwrap();
                }

                fn is_closed(&self) -> bool {
                    self.association
                        .as_ref()
                        .is_none_or(|(_, it)| it.is_closed())
                }

                fn seen(&self) -> &[Seen] {
                    &self.seen
                }
            }
        }
    };
}

host!(ours, sctp_proto);
host!(theirs, original);

/// Two hosts, and a link with 20 ms each way. The first host is the client.
pub(crate) struct World<A, B> {
    pub(crate) client: A,
    pub(crate) server: B,
    pub(crate) now: Instant,
    begun: Instant,
    /// The datagrams in transit: when they arrive, and whether at the server.
    transit: VecDeque<(Instant, bool, Bytes)>,
    /// Of each thousand packets, so many are lost.
    pub(crate) loss: u64,
    /// No packet arrives that leaves before this time.
    pub(crate) cut_until: Option<Instant>,
    random: u64,
    /// The longest packet.
    pub(crate) longest: usize,
}

const DELAY: Duration = Duration::from_millis(20);

impl<A: Host, B: Host> World<A, B> {
    pub(crate) fn new(client: A, server: B) -> Self {
        let now = Instant::now();
        Self {
            client,
            server,
            now,
            begun: now,
            transit: VecDeque::new(),
            loss: 0,
            cut_until: None,
            random: 1,
            longest: 0,
        }
    }

    /// Two hosts with an association.
    pub(crate) fn connected(client: A, server: B) -> Self {
        let mut world = Self::new(client, server);
        world.client.connect();
        world.until("both are connected", |world| {
            world.client.seen().contains(&Seen::Connected) && world.server.seen().contains(&Seen::Connected)
        });
        world
    }

    fn is_lost(&mut self) -> bool {
        // xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 1000 < self.loss || self.cut_until.is_some_and(|until| self.now < until)
    }

    fn transmit(&mut self) {
        for to_server in [true, false] {
            let packets = if to_server {
                self.client.output(self.now)
            } else {
                self.server.output(self.now)
            };
            for packet in packets {
                self.longest = self.longest.max(packet.len());
                if !self.is_lost() {
                    self.transit.push_back((self.now + DELAY, to_server, packet));
                }
            }
        }
    }

    /// Goes on until the next packet or timer, but not beyond `end`.
    fn step(&mut self, end: Instant) {
        self.transmit();
        let first = self.transit.front().map(|(at, ..)| *at);
        let due = [first, self.client.due(), self.server.due()];
        let next = due.into_iter().flatten().min();
        self.now = next.unwrap_or(end).clamp(self.now, end);
        while let Some((at, to_server, _)) = self.transit.front()
            && *at <= self.now
        {
            let to_server = *to_server;
            let (_, _, packet) = self.transit.pop_front().unwrap();
            if to_server {
                self.server.input(self.now, packet);
            } else {
                self.client.input(self.now, packet);
            }
        }
        self.client.timeout(self.now);
        self.server.timeout(self.now);
        self.transmit();
    }

    /// Goes on for a time.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(end);
        }
    }

    /// Goes on until something is true; panics if it is not within five minutes.
    pub(crate) fn until(&mut self, goal: &str, is_true: impl Fn(&Self) -> bool) {
        let end = self.begun + Duration::from_secs(300);
        self.transmit();
        while !is_true(self) {
            assert!(
                self.now < end,
                "{goal}: {:?} {:?}",
                self.client.seen(),
                self.server.seen()
            );
            self.step(end);
        }
    }
}

/// The messages of a stream.
pub(crate) fn messages(host: &impl Host, stream: u16) -> Vec<Vec<u8>> {
    let of = |seen: &Seen| match seen {
        Seen::Message(id, _, bytes) if *id == stream => Some(bytes.clone()),
        _ => None,
    };
    host.seen().iter().filter_map(of).collect()
}

/// A message with this number, of this length.
pub(crate) fn message(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; len.max(4)];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}
