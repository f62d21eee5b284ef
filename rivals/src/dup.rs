//! References for two paths, which show how far a short program comes: each message leaves at once as a UDP datagram on every path, and a longer
//! message as several datagrams. There is no congestion control and no pacing, so nobody should use this beside other flows.

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::record::arrived;
use crate::traffic::{HEADER, Header, fragments, generate, taken};
use crate::{Job, Outcome, Rival, Side, clock};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new(
        "dup",
        "dup",
        "every datagram at once on every path, without retransmission and congestion control",
    )
    .with_paths(),
    Rival::new(
        "dup-arq",
        "dup",
        "the same; retransmits on every path, until it is late, what is not acknowledged after 1.25 RTT of the fastest path + 5 ms",
    )
    .with_paths(),
];

/// The longest fragment of a message.
const LONGEST_DATAGRAM: usize = 1200;
/// After a fragment, each datagram has the number of its path, in a byte, and the time at which it was sent. An acknowledgement has both as
/// well, after number and fragment of the message.
const TRAILER: usize = 9;
const ACKNOWLEDGEMENT: usize = 10 + TRAILER;
/// The time after which a datagram without acknowledgement is sent again, before a round-trip time is known.
const FIRST_TIMEOUT: u64 = 200_000_000;
/// Control messages are sent again for this time.
const RELIABLE: u64 = 3_000_000_000;

/// The number of a message, and of the fragment.
type Name = (u64, u16);

fn name(fragment: &[u8]) -> Option<Name> {
    let header = Header::read(fragment)?;
    Some((header.number, u16::from_le_bytes([fragment[6], fragment[7]])))
}

/// A fragment without acknowledgement.
struct Waiting {
    fragment: Vec<u8>,
    again_at: u64,
    until: u64,
}

#[derive(Default)]
struct Unacknowledged {
    waiting: HashMap<Name, Waiting>,
    /// The smoothed round-trip time of each path in ns.
    rtt: HashMap<u8, f64>,
}

impl Unacknowledged {
    fn timeout(&self) -> u64 {
        let fastest = self.rtt.values().copied().reduce(f64::min);
        fastest.map_or(FIRST_TIMEOUT, |rtt| (rtt * 1.25) as u64 + 5_000_000)
    }

    /// The first acknowledgement of a fragment gives a sample of the round-trip time.
    fn on_acknowledgement(&mut self, bytes: &[u8; ACKNOWLEDGEMENT]) {
        let number = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("8 bytes"));
        let name = (number(0), u16::from_le_bytes([bytes[8], bytes[9]]));
        if self.waiting.remove(&name).is_some() {
            let sample = clock::now().saturating_sub(number(11)) as f64;
            let rtt = self.rtt.entry(bytes[10]).or_insert(sample);
            *rtt += (sample - *rtt) / 8.0;
        }
    }
}

/// Sends a fragment on every path. The kernel may have no room for it: then it is lost.
fn send_on_all(paths: &[UdpSocket], fragment: &[u8]) {
    for (path, socket) in (0_u8..).zip(paths) {
        let datagram = [fragment, &[path], &clock::now().to_le_bytes()].concat();
        let _ = socket.send(&datagram);
    }
}

/// A socket for each address of --local.
fn paths(job: &Job) -> Outcome<Vec<UdpSocket>> {
    let any = ["0.0.0.0".parse()?];
    let locals = if job.local.is_empty() {
        &any[..]
    } else {
        &job.local
    };
    let connected = |ip: &_| {
        let socket = UdpSocket::bind(SocketAddr::new(*ip, 0))?;
        socket.connect(job.addr)?;
        Ok(socket)
    };
    locals.iter().map(connected).collect()
}

/// Receives from all paths; acknowledgements go to all addresses of the peer.
fn receive(job: &Job) -> Outcome<()> {
    let acknowledges = job.rival == "dup-arq";
    let socket = UdpSocket::bind(job.addr)?;
    let (mut seen, mut peers) = (HashSet::new(), HashSet::new());
    let mut bytes = vec![0; LONGEST_DATAGRAM + TRAILER];
    loop {
        let (length, from) = socket.recv_from(&mut bytes)?;
        let Some(end) = length.checked_sub(TRAILER).filter(|end| *end >= HEADER) else {
            continue;
        };
        let (fragment, trailer) = bytes[..length].split_at(end);
        let Some(name) = name(fragment) else { continue };
        if seen.insert(name) {
            arrived(fragment);
        }
        if acknowledges {
            peers.insert(from);
            let acknowledgement = [&name.0.to_le_bytes()[..], &name.1.to_le_bytes(), trailer].concat();
            for peer in &peers {
                let _ = socket.send_to(&acknowledgement, peer);
            }
        }
    }
}

fn receive_acknowledgements(socket: &UdpSocket, state: &Mutex<Unacknowledged>) {
    let mut bytes = [0; ACKNOWLEDGEMENT];
    loop {
        // An error comes from an ICMP message, and concerns an earlier datagram.
        if matches!(socket.recv(&mut bytes), Ok(ACKNOWLEDGEMENT)) {
            state.lock().expect("no holder panics").on_acknowledgement(&bytes);
        }
    }
}

fn retransmit(paths: &[UdpSocket], state: &Mutex<Unacknowledged>) {
    loop {
        std::thread::sleep(Duration::from_millis(1));
        let now = clock::now();
        let mut state = state.lock().expect("no holder panics");
        let again_at = now + state.timeout();
        state.waiting.retain(|_, waiting| now < waiting.until);
        for waiting in state
            .waiting
            .values_mut()
            .filter(|waiting| waiting.again_at <= now)
        {
            send_on_all(paths, &waiting.fragment);
            waiting.again_at = again_at;
        }
    }
}

pub(crate) fn run(side: Side, job: &Job) -> Outcome<()> {
    if side == Side::Receiver {
        return receive(job);
    }
    let paths = Arc::new(paths(job)?);
    let state = Arc::new(Mutex::new(Unacknowledged::default()));
    let retransmits = job.rival == "dup-arq";
    if retransmits {
        for path in 0..paths.len() {
            let (paths, state) = (Arc::clone(&paths), Arc::clone(&state));
            std::thread::spawn(move || receive_acknowledgements(&paths[path], &state));
        }
        let (paths, state) = (Arc::clone(&paths), Arc::clone(&state));
        std::thread::spawn(move || retransmit(&paths, &state));
    }
    let useful = if job.traffic.is_reliable() {
        RELIABLE
    } else {
        job.traffic.deadline().as_nanos() as u64
    };
    let mut messages = generate(job);
    while let Some(message) = messages.blocking_recv() {
        let made = Header::read(&message).map_or(0, |header| header.made);
        for fragment in fragments(&message, LONGEST_DATAGRAM) {
            send_on_all(&paths, &fragment);
            if retransmits && let Some(name) = name(&fragment) {
                let mut state = state.lock().expect("no holder panics");
                let again_at = clock::now() + state.timeout();
                let until = made + useful;
                state.waiting.insert(
                    name,
                    Waiting {
                        fragment,
                        again_at,
                        until,
                    },
                );
            }
        }
        taken();
    }
    Ok(())
}
