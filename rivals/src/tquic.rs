//! Multipath QUIC by TQUIC with its redundant scheduler, which sends the data of streams on every path: a stream for each message.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tquic::{
    Config, Connection, Endpoint, MultipathAlgorithm, PacketInfo, PacketSendHandler, Shutdown, TlsConfig,
    TransportHandler,
};

use crate::quic::NAME;
use crate::record::arrived;
use crate::traffic::{LONGEST, generate, taken};
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new(
        "tquic-redundant",
        "tquic",
        "redundant scheduler, a stream for each message, reset after the deadline (control: not reset), BBR, its default",
    )
    .with_paths()
    .without_file(),
];

const PROTOCOL: &[u8] = b"rival";

/// The sockets of all local addresses.
struct Sockets(Vec<(SocketAddr, UdpSocket)>);

impl Sockets {
    fn bind(addresses: &[SocketAddr]) -> Outcome<Self> {
        let bound = |address: &SocketAddr| {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok((socket.local_addr()?, socket))
        };
        addresses.iter().map(bound).collect::<Outcome<_>>().map(Self)
    }

    /// Waits for a datagram, a millisecond at most.
    fn wait(&self) -> Outcome<()> {
        let sockets = self.0.iter();
        let mut sockets: Vec<_> = sockets
            .map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
            .collect();
        match poll(&mut sockets, PollTimeout::from(1_u8)) {
            // A signal: another thread handles it.
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl PacketSendHandler for Sockets {
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        for (sent, (packet, info)) in packets.iter().enumerate() {
            let socket = self.0.iter().find(|(address, _)| *address == info.src);
            if let Some((_, socket)) = socket
                && let Err(error) = socket.send_to(packet, info.dst)
                && error.kind() == std::io::ErrorKind::WouldBlock
            {
                return Ok(sent);
            }
        }
        Ok(packets.len())
    }
}

/// The streams that are written, and those that are read.
#[derive(Default)]
struct Streams {
    is_established: bool,
    /// Bytes that the connection did not take yet.
    unsent: HashMap<u64, Bytes>,
    /// Bytes that have arrived.
    read: HashMap<u64, Vec<u8>>,
}

impl Streams {
    /// Writes what a stream takes.
    fn write(&mut self, connection: &mut Connection, stream: u64) {
        let Some(mut rest) = self.unsent.remove(&stream) else {
            return;
        };
        let written = connection.stream_write(stream, rest.clone(), true).unwrap_or(0);
        let rest = rest.split_off(written);
        let is_written = rest.is_empty();
        if is_written {
            taken();
        } else {
            self.unsent.insert(stream, rest);
        }
        let _ = connection.stream_want_write(stream, !is_written);
    }

    fn read(&mut self, connection: &mut Connection, stream: u64) {
        let mut bytes = [0; LONGEST];
        while let Ok((length, is_end)) = connection.stream_read(stream, &mut bytes) {
            let message = self.read.entry(stream).or_default();
            message.extend_from_slice(&bytes[..length]);
            if is_end {
                arrived(message);
                break;
            }
        }
    }
}

struct Handler {
    streams: Rc<RefCell<Streams>>,
    /// Further paths, which are opened when the connection is established.
    paths: Vec<(SocketAddr, SocketAddr)>,
}

impl TransportHandler for Handler {
    fn on_conn_created(&mut self, _connection: &mut Connection) {}

    fn on_conn_established(&mut self, connection: &mut Connection) {
        for (local, peer) in &self.paths {
            if let Err(error) = connection.add_path(*local, *peer) {
                eprintln!("tquic: no path from {local}: {error}");
            }
        }
        self.streams.borrow_mut().is_established = true;
    }

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        eprintln!(
            "tquic: closed, {:?}, {:?}",
            connection.local_error(),
            connection.peer_error()
        );
    }

    fn on_stream_created(&mut self, _connection: &mut Connection, _stream: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        self.streams.borrow_mut().read(connection, stream);
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        self.streams.borrow_mut().write(connection, stream);
    }

    fn on_stream_closed(&mut self, _connection: &mut Connection, stream: u64) {
        let mut streams = self.streams.borrow_mut();
        streams.unsent.remove(&stream);
        streams.read.remove(&stream);
    }

    fn on_new_token(&mut self, _connection: &mut Connection, _token: Vec<u8>) {}
}

fn config(tls: TlsConfig) -> Outcome<Box<Config>> {
    let mut config = Config::new()?;
    config.set_tls_config(tls);
    config.set_max_idle_timeout(30_000);
    config.set_initial_max_streams_uni(10_000);
    config.set_active_connection_id_limit(8);
    config.enable_multipath(true);
    config.set_multipath_algorithm(MultipathAlgorithm::Redundant);
    Ok(Box::new(config))
}

/// The certificate protects nothing. TQUIC reads it from files.
fn server_tls() -> Outcome<TlsConfig> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let name = std::env::temp_dir().join(format!("rival-tquic-{}", std::process::id()));
    let [certificate, key] =
        ["certificate", "key"].map(|part| name.with_extension(part).display().to_string());
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let tls = TlsConfig::new_server_config(&certificate, &key, vec![PROTOCOL.to_vec()], false);
    std::fs::remove_file(certificate)?;
    std::fs::remove_file(key)?;
    Ok(tls?)
}

fn client_tls() -> Outcome<TlsConfig> {
    let mut tls = TlsConfig::new_client_config(vec![PROTOCOL.to_vec()], false)?;
    tls.set_verify(false);
    Ok(tls)
}

/// Serves the endpoint: sends, waits a millisecond at most, and receives.
fn serve(endpoint: &mut Endpoint, sockets: &Sockets) -> Outcome<()> {
    endpoint.process_connections()?;
    sockets.wait()?;
    endpoint.on_timeout(Instant::now());
    let mut bytes = vec![0; 65536];
    for (dst, socket) in &sockets.0 {
        while let Ok((length, src)) = socket.recv_from(&mut bytes) {
            let info = PacketInfo {
                src,
                dst: *dst,
                time: Instant::now(),
            };
            let _ = endpoint.recv(&mut bytes[..length], &info);
        }
    }
    Ok(())
}

pub(crate) fn run(side: Side, job: &Job) -> Outcome<()> {
    let streams = Rc::new(RefCell::new(Streams::default()));
    if side == Side::Receiver {
        let sockets = Rc::new(Sockets::bind(&[job.addr])?);
        let handler = Handler {
            streams,
            paths: Vec::new(),
        };
        let mut endpoint = Endpoint::new(config(server_tls()?)?, true, Box::new(handler), sockets.clone());
        loop {
            serve(&mut endpoint, &sockets)?;
        }
    }
    let any = ["0.0.0.0".parse()?];
    let locals = if job.local.is_empty() {
        &any[..]
    } else {
        &job.local
    };
    let locals: Vec<_> = locals.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
    let sockets = Rc::new(Sockets::bind(&locals)?);
    let paths = sockets.0[1..]
        .iter()
        .map(|(local, _)| (*local, job.addr))
        .collect();
    let handler = Handler {
        streams: streams.clone(),
        paths,
    };
    let mut endpoint = Endpoint::new(config(client_tls()?)?, false, Box::new(handler), sockets.clone());
    let connection = endpoint.connect(sockets.0[0].0, job.addr, Some(NAME), None, None, None)?;
    while !streams.borrow().is_established {
        serve(&mut endpoint, &sockets)?;
    }
    let lifetime = (!job.traffic.is_reliable()).then(|| job.traffic.deadline());
    let mut sent = VecDeque::new();
    let mut messages = generate(job);
    loop {
        let connection = endpoint
            .conn_get_mut(connection)
            .ok_or("the connection is closed")?;
        while let Ok(message) = messages.try_recv() {
            let stream = connection.stream_uni_new(0, false)?;
            streams.borrow_mut().unsent.insert(stream, message.into());
            streams.borrow_mut().write(connection, stream);
            sent.push_back((Instant::now(), stream));
        }
        if let Some(lifetime) = lifetime {
            while sent.front().is_some_and(|(at, _)| at.elapsed() >= lifetime) {
                let stream = sent.pop_front().map_or(0, |(_, stream)| stream);
                // A stream whose data was acknowledged is closed.
                let _ = connection.stream_shutdown(stream, Shutdown::Write, 0);
            }
        }
        serve(&mut endpoint, &sockets)?;
    }
}
