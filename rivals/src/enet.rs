//! ENet by rusty_enet: a host for the messages, another one for the file.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rusty_enet::{Event, Host, HostSettings, Packet, PacketKind, PeerID};

use crate::record::arrived;
use crate::traffic::{file_part, generate, taken};
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new("enet-reliable", "enet", "reliable packets"),
    Rival::new(
        "enet-unsequenced",
        "enet",
        "unreliable, unsequenced packets, fragments included",
    )
    .unreliable(),
    Rival::new(
        "enet-unreliable",
        "enet",
        "unreliable, sequenced packets, fragments included",
    )
    .unreliable()
    .second(),
];

/// ENet accepts all packets and does not tell how many wait. The receiver answers each part of the file, and so many parts are
/// outstanding: 192 KiB, three times ENet's largest window.
const OUTSTANDING: usize = 12;

/// A host, and its socket to wait for.
struct Waiting {
    host: Host<UdpSocket>,
    socket: UdpSocket,
}

impl Waiting {
    fn new(addr: SocketAddr) -> Outcome<Self> {
        let socket = UdpSocket::bind(addr)?;
        let settings = HostSettings {
            peer_limit: 4,
            channel_limit: 1,
            ..HostSettings::default()
        };
        let host = Host::new(socket.try_clone()?, settings).map_err(|error| format!("{error:?}"))?;
        Ok(Self { host, socket })
    }

    fn connect(addr: SocketAddr) -> Outcome<(Self, PeerID)> {
        let mut waiting = Self::new("0.0.0.0:0".parse()?)?;
        let peer = waiting
            .host
            .connect(addr, 1, 0)
            .map_err(|error| format!("{error:?}"))?
            .id();
        loop {
            while let Some(event) = waiting.host.service()? {
                if let Event::Connect { .. } = event {
                    return Ok((waiting, peer));
                }
            }
            waiting.wait()?;
        }
    }

    fn send(&mut self, peer: PeerID, packet: &Packet) -> Outcome<()> {
        let peer = self.host.peer_mut(peer);
        peer.send(0, packet).map_err(|error| format!("{error:?}").into())
    }

    /// Waits for a datagram, a millisecond at most.
    fn wait(&self) -> Outcome<()> {
        let mut sockets = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut sockets, PollTimeout::from(1_u8)) {
            // A signal: another thread handles it.
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn receive(addr: SocketAddr, is_file: bool) -> Outcome<()> {
    let mut waiting = Waiting::new(addr)?;
    loop {
        while let Some(event) = waiting.host.service()? {
            if let Event::Receive { packet, peer, .. } = event {
                arrived(packet.data());
                if is_file {
                    let answer = Packet::reliable(&[1_u8][..]);
                    peer.send(0, &answer).map_err(|error| format!("{error:?}"))?;
                }
            }
        }
        waiting.wait()?;
    }
}

fn send_file(addr: SocketAddr) -> Outcome<()> {
    let (mut waiting, peer) = Waiting::connect(addr)?;
    let part = Packet::new(file_part().as_slice(), PacketKind::Reliable);
    let mut outstanding = 0;
    loop {
        while outstanding < OUTSTANDING {
            waiting.send(peer, &part)?;
            outstanding += 1;
        }
        while let Some(event) = waiting.host.service()? {
            outstanding -= usize::from(matches!(event, Event::Receive { .. }));
        }
        waiting.wait()?;
    }
}

pub(crate) fn run(side: Side, job: &Job) -> Outcome<()> {
    let file = job.addr_of_file();
    if side == Side::Receiver {
        std::thread::spawn(move || receive(file, true));
        return receive(job.addr, false);
    }
    // Without "always", ENet sends unreliable packets that need fragments as reliable ones.
    let kind = match job.rival.as_str() {
        "enet-reliable" => PacketKind::Reliable,
        name => PacketKind::AlwaysUnreliable {
            sequenced: name == "enet-unreliable",
        },
    };
    let (mut waiting, peer) = Waiting::connect(job.addr)?;
    if job.file {
        std::thread::spawn(move || send_file(file));
    }
    let mut messages = generate(job);
    loop {
        while let Ok(message) = messages.try_recv() {
            waiting.send(peer, &Packet::new(message.as_slice(), kind))?;
            taken();
        }
        while waiting.host.service()?.is_some() {}
        waiting.wait()?;
    }
}
