//! A pcapng capture of the packets that an endpoint sent and received, for Wireshark.
//!
//! The capture shows the packets that the core handled: sent packets are recorded before an in-process link, received packets
//! after it. The headers below SCTP are constructed from the addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_netsim::{InterfaceId, PcapngWriter};
use anabranch_proto::Timestamp;

use crate::record_file::{self, Pipe, RecordFile};

/// Limit of destinations whose local address is remembered. At the limit, the list is emptied.
const MAX_ROUTES: usize = 1024;

pub(crate) struct Capture {
    path: PathBuf,
    pipe: Option<Arc<Pipe>>,
    inner: Mutex<Inner>,
}

struct Inner {
    writer: PcapngWriter<RecordFile>,
    interface: InterfaceId,
    /// Destinations, each with the local address that the system uses towards it.
    routes: Vec<(IpAddr, IpAddr)>,
    /// An error has ended the capture; the associations continue.
    failed: bool,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Capture {
    /// Begins a capture; `Timestamp::ZERO` is the present time.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = u64::try_from(origin.as_nanos()).unwrap_or(u64::MAX);
        let (file, pipe) = record_file::create(path)?;
        let mut writer = PcapngWriter::new(file, origin)?;
        let interface = writer.add_interface("anabranch")?;
        let inner = Inner {
            writer,
            interface,
            routes: Vec::new(),
            failed: false,
        };
        Ok(Self {
            path: path.to_owned(),
            pipe,
            inner: Mutex::new(inner),
        })
    }

    /// Records sent packets. If the address of `source` is unspecified, the routing table gives it.
    pub(crate) fn sent<'a>(
        &self,
        now: Timestamp,
        mut source: SocketAddr,
        destination: SocketAddr,
        packets: impl Iterator<Item = &'a [u8]>,
    ) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if source.ip().is_unspecified() {
            source.set_ip(inner.route(destination.ip()));
        }
        for packet in packets {
            self.record(&mut inner, now, source, destination, packet);
        }
    }

    /// Records a packet that `local` received.
    pub(crate) fn received(&self, now: Timestamp, remote: SocketAddr, mut local: SocketAddr, packet: &[u8]) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if local.ip().is_unspecified() {
            local.set_ip(inner.route(remote.ip()));
        }
        self.record(&mut inner, now, remote, local, packet);
    }

    pub(crate) async fn flush(&self) {
        {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let flushed = inner.writer.flush();
            self.check(&mut inner, flushed);
        }
        if let Some(pipe) = &self.pipe {
            pipe.written().await;
        }
    }

    fn record(&self, inner: &mut Inner, now: Timestamp, from: SocketAddr, to: SocketAddr, packet: &[u8]) {
        if !inner.failed {
            let written = inner.writer.write(inner.interface, now, from, to, packet, None);
            self.check(inner, written);
        }
    }

    fn check(&self, inner: &mut Inner, result: io::Result<()>) {
        if let (Err(error), false) = (result, inner.failed) {
            inner.failed = true;
            tracing::warn!(path = %self.path.display(), %error, "the capture ends here");
        }
    }
}

impl Inner {
    fn route(&mut self, destination: IpAddr) -> IpAddr {
        if let Some((_, local)) = self.routes.iter().find(|(known, _)| *known == destination) {
            return *local;
        }
        if self.routes.len() >= MAX_ROUTES {
            self.routes.clear();
        }
        let local = local_address_towards(destination).unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        self.routes.push((destination, local));
        local
    }
}

/// Asks the routing table: connecting a UDP socket sends nothing.
fn local_address_towards(destination: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match destination {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((destination, 9))?;
    Ok(socket.local_addr()?.ip())
}
