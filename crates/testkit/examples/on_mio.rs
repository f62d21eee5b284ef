//! An echo server and its client in one thread with `mio`, without tokio: how a program with an event loop of its own drives the core.
//! The book's page *Embed it elsewhere* explains it. Nothing is encrypted here.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anabranch_proto::{
    Association, AssociationId, AssociationState, Config, ConnectOptions, EcnCodepoint, Endpoint, Event,
    Handling, SendOptions, StreamId, Timestamp,
};
use bytes::Bytes;
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};

/// The SCTP port of the server.
const PORT: u16 = 7;
/// The stream of all messages.
const STREAM: StreamId = StreamId(0);
/// Room for the largest datagram.
const DATAGRAM: usize = 65_536;

/// The core on one UDP socket: the endpoint, and the associations that the core leaves to its driver.
struct Driver {
    socket: UdpSocket,
    endpoint: Endpoint,
    associations: BTreeMap<AssociationId, Box<Association>>,
    /// The origin of the core's time.
    begun: Instant,
}

impl Driver {
    fn bind(address: SocketAddr) -> Result<Self, Box<dyn std::error::Error>> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(Self {
            socket: UdpSocket::bind(address)?,
            endpoint: Endpoint::new(Config::default(), seed)?,
            associations: BTreeMap::new(),
            begun: Instant::now(),
        })
    }

    /// The core reads no clock: each call tells it the time, which never decreases.
    fn now(&self) -> Timestamp {
        Timestamp(self.begun.elapsed().as_nanos() as u64)
    }

    fn connect(&mut self, server: SocketAddr) -> Result<AssociationId, Box<dyn std::error::Error>> {
        let now = self.now();
        let (id, association) = self
            .endpoint
            .connect(now, server, PORT, ConnectOptions::default())?;
        self.associations.insert(id, association);
        Ok(id)
    }

    /// A step for each datagram that has arrived. `mio` reports a socket once, so all of them are read.
    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let (len, from) = match self.socket.recv_from(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                received => received?,
            };
            let datagram = Bytes::copy_from_slice(&buffer[..len]);
            let now = self.now();
            match self
                .endpoint
                .handle_datagram(now, None, from, datagram, EcnCodepoint::NotEct)
            {
                Handling::Done => {}
                Handling::Reply(reply) => {
                    let _ = self.socket.send_to(&reply.packet, reply.destination);
                }
                Handling::Deliver(id, inbound) => {
                    if let Some(association) = self.associations.get_mut(&id) {
                        association.handle_packet(now, inbound);
                    }
                }
                Handling::Accept(id, association) => {
                    self.associations.insert(id, association);
                }
            }
        }
    }

    /// A step for each association whose timer is due.
    fn expire(&mut self) {
        let now = self.now();
        for association in self.associations.values_mut() {
            if association.poll_timeout().is_some_and(|due| due <= now) {
                association.handle_timeout(now);
            }
        }
    }

    /// The polls after the steps, in the order of the core's contract. `application` sees each event.
    fn drain(&mut self, mut application: impl FnMut(Timestamp, &mut Association, Event)) {
        let now = self.now();
        let mut packets = Vec::new();
        for id in self.associations.keys().copied().collect::<Vec<_>>() {
            let Some(association) = self.associations.get_mut(&id) else {
                continue;
            };
            loop {
                while let Some(batch) = association.poll_transmit(now, &mut packets, 1) {
                    // A datagram that the full socket refuses is lost like one on the network: the core sends it again.
                    let _ = self.socket.send_to(&packets, batch.destination);
                    packets.clear();
                }
                while let Some(event) = association.poll_endpoint_event() {
                    self.endpoint.handle_event(now, id, event);
                }
                let Some(event) = association.poll_event() else {
                    break;
                };
                // Its calls are steps, which the next turn polls.
                application(now, association, event);
            }
        }
        self.associations
            .retain(|_, association| association.state() != AssociationState::Closed);
    }

    /// How long the driver may sleep: until the first timer of an association; `None` without timers.
    fn sleep(&self) -> Option<Duration> {
        let due = self.associations.values().filter_map(|one| one.poll_timeout());
        due.min().map(|due| due.saturating_duration_since(self.now()))
    }
}

/// Returns every message to its sender.
fn echo(now: Timestamp, association: &mut Association, event: Event) {
    if !matches!(event, Event::Readable) {
        return;
    }
    while let Some(part) = association.recv(now) {
        let sent = association.send(
            now,
            part.stream,
            part.payload.into_bytes(),
            SendOptions::default(),
        );
        if let Err(error) = sent {
            println!("server: no echo: {error}");
        }
    }
}

/// Says hello, and ends the association with the answer. `say` gets what a user would see.
fn greet(now: Timestamp, association: &mut Association, event: Event, say: &mut dyn FnMut(String)) {
    match event {
        Event::Established { .. } => {
            let deadline = SendOptions::default().deadline(Duration::from_millis(500));
            let hello = Bytes::from_static(b"hello from an event loop");
            if let Err(error) = association.send(now, STREAM, hello, deadline) {
                say(format!("not sent: {error}"));
            }
        }
        Event::Readable => {
            while let Some(part) = association.recv(now) {
                say(String::from_utf8_lossy(&part.payload.into_bytes()).into_owned());
                association.shutdown(now);
            }
        }
        Event::Closed(reason) => say(format!("the end: {reason}")),
        _ => {}
    }
}

pub(crate) fn run(say: &mut dyn FnMut(String)) -> Result<(), Box<dyn std::error::Error>> {
    let any = "127.0.0.1:0".parse()?;
    let (mut server, mut client) = (Driver::bind(any)?, Driver::bind(any)?);
    server.endpoint.listen(PORT)?;
    client.connect(server.socket.local_addr()?)?;
    let mut poll = Poll::new()?;
    for (token, driver) in [&mut server, &mut client].into_iter().enumerate() {
        poll.registry()
            .register(&mut driver.socket, Token(token), Interest::READABLE)?;
    }
    let mut events = Events::with_capacity(16);
    while !client.associations.is_empty() {
        server.expire();
        client.expire();
        server.drain(echo);
        client.drain(|now, association, event| greet(now, association, event, say));
        let sleep = server.sleep().into_iter().chain(client.sleep()).min();
        match poll.poll(&mut events, sleep) {
            // A signal.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            polled => polled?,
        }
        server.receive()?;
        client.receive()?;
    }
    Ok(())
}

#[cfg(not(test))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&mut |line| println!("client: {line}"))
}
