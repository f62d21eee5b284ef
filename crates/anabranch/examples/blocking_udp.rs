//! The protocol's core without an async runtime: two threads, each with a plain UDP socket and a loop. The loop can be ported to
//! any other input and output. `cargo run --example blocking_udp`.

use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anabranch_proto::{
    Association, AssociationId, Config, ConnectOptions, EcnCodepoint, Endpoint, Event, Handling, SendOptions,
    StreamId, Timestamp,
};

const PORT: u16 = 7;

/// A socket, an endpoint and its only association.
struct Driver {
    socket: UdpSocket,
    endpoint: Endpoint,
    association: Option<(AssociationId, Box<Association>)>,
    start: Instant,
}

impl Driver {
    fn new(seed: [u8; 32]) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let endpoint = Endpoint::new(Config::default(), seed).map_err(Error::other)?;
        Ok(Self {
            socket,
            endpoint,
            association: None,
            start: Instant::now(),
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    /// Sends the packets that are ready, waits for a datagram or a timer, and returns the association's events.
    fn turn(&mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut wait = Duration::from_secs(10);
        let now = self.now();
        if let Some((id, association)) = &mut self.association {
            let mut datagram = Vec::new();
            while let Some(transmit) = association.poll_transmit(now, &mut datagram, 1) {
                self.socket.send_to(&datagram, transmit.destination)?;
                datagram.clear();
            }
            while let Some(event) = association.poll_endpoint_event() {
                self.endpoint.handle_event(now, *id, event);
            }
            events.extend(std::iter::from_fn(|| association.poll_event()));
            if let Some(due) = association.poll_timeout() {
                wait = wait.min(due.saturating_duration_since(now));
            }
        }
        if events.is_empty() {
            self.receive(wait)?;
        }
        Ok(events)
    }

    fn receive(&mut self, wait: Duration) -> Result<()> {
        // A read timeout of zero is an error.
        self.socket
            .set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        let mut buffer = [0; 65_536];
        let received = match self.socket.recv_from(&mut buffer) {
            Ok(received) => Some(received),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(error) => return Err(error),
        };
        let now = self.now();
        if let Some((len, remote)) = received {
            let datagram = buffer[..len].to_vec().into();
            match self
                .endpoint
                .handle_datagram(now, None, remote, datagram, EcnCodepoint::NotEct)
            {
                Handling::Done => {}
                Handling::Reply(reply) => {
                    self.socket.send_to(&reply.packet, reply.destination)?;
                }
                Handling::Deliver(id, packet) => match &mut self.association {
                    Some((ours, association)) if *ours == id => association.handle_packet(now, packet),
                    _ => {}
                },
                Handling::Accept(id, association) => self.association = Some((id, association)),
            }
        }
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(now);
        }
        Ok(())
    }

    /// All received messages. They are too small to be delivered in parts.
    fn messages(&mut self) -> Vec<String> {
        let now = self.now();
        let Some((_, association)) = &mut self.association else {
            return Vec::new();
        };
        let parts = std::iter::from_fn(|| association.recv(now));
        parts
            .map(|part| String::from_utf8_lossy(&part.payload.into_bytes()).into_owned())
            .collect()
    }

    fn send(&mut self, message: String) -> Result<()> {
        let now = self.now();
        let Some((_, association)) = &mut self.association else {
            return Ok(());
        };
        let sent = association.send(now, StreamId(0), message.into(), SendOptions::default());
        sent.map(drop).map_err(Error::other)
    }
}

/// Answers every message until the client ends the association.
fn serve(mut driver: Driver) -> Result<()> {
    loop {
        for event in driver.turn()? {
            match event {
                Event::Readable => {
                    for message in driver.messages() {
                        driver.send(format!("{message}, says the server"))?;
                    }
                }
                Event::Closed(reason) => {
                    println!("server: {reason:?}");
                    return Ok(());
                }
                _ => {}
            }
        }
    }
}

fn ask(mut driver: Driver, server: SocketAddr) -> Result<()> {
    let now = driver.now();
    let begun = driver
        .endpoint
        .connect(now, server, PORT, ConnectOptions::default());
    driver.association = Some(begun.map_err(Error::other)?);
    loop {
        for event in driver.turn()? {
            match event {
                Event::Established { .. } => driver.send("hello".into())?,
                Event::Readable => {
                    for message in driver.messages() {
                        println!("client: {message}");
                    }
                    let now = driver.now();
                    if let Some((_, association)) = &mut driver.association {
                        association.shutdown(now);
                    }
                }
                Event::Closed(reason) => {
                    println!("client: {reason:?}");
                    return Ok(());
                }
                _ => {}
            }
        }
    }
}

fn main() -> Result<()> {
    // A real program takes its seed from the operating system: it makes verification tags and cookies unpredictable.
    let mut server = Driver::new([1; 32])?;
    server.endpoint.listen(PORT).map_err(Error::other)?;
    let address = server.socket.local_addr()?;
    let serving = std::thread::spawn(move || serve(server));
    ask(Driver::new([2; 32])?, address)?;
    serving.join().map_err(|_| Error::other("the server panicked"))?
}
