//! The sockets of an endpoint. Those that were bound with it stay; those of paths come and go with the addresses of the host.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::datagram::Transport;
use crate::interfaces::Device;
use crate::lock::lock;
use crate::socket::Socket;
use crate::system_socket::SystemSocket;

/// A socket of an endpoint, and the end of its task.
#[derive(Debug)]
pub(crate) struct OpenSocket {
    socket: Socket,
    /// The interface of a path, to which its socket is bound if the system allows that.
    device: Option<Device>,
    /// The socket belongs to a path, and is closed when the host loses the address.
    is_temporary: bool,
    closed: Notify,
}

impl Deref for OpenSocket {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}

impl OpenSocket {
    pub(crate) fn new(socket: Socket, device: Option<Device>, is_temporary: bool) -> Self {
        Self {
            socket,
            device,
            is_temporary,
            closed: Notify::new(),
        }
    }

    /// Waits until the endpoint does not use this socket any more.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    fn is_on(&self, address: IpAddr, device: Option<&Device>) -> bool {
        self.local().ip() == address && (self.device.as_ref() == device || self.device.is_none())
    }
}

/// The sockets, all with one port. There is always at least one.
#[derive(Debug)]
pub(crate) struct Sockets(Mutex<Arc<[Arc<OpenSocket>]>>);

impl Sockets {
    pub(super) fn new(sockets: Vec<OpenSocket>) -> Self {
        Self(Mutex::new(sockets.into_iter().map(Arc::new).collect()))
    }

    pub(crate) fn all(&self) -> Arc<[Arc<OpenSocket>]> {
        Arc::clone(&lock(&self.0))
    }

    /// The socket on this source address, otherwise the first socket that can reach the destination.
    pub(super) fn choose(&self, source: Option<IpAddr>, destination: IpAddr) -> Option<Arc<OpenSocket>> {
        let sockets = self.all();
        let own = sockets.iter().find(|socket| Some(socket.local().ip()) == source);
        own.or_else(|| sockets.iter().find(|socket| socket.reaches(destination)))
            .cloned()
    }

    /// The name of the interface of the path that begins at this address.
    pub(crate) fn interface_of(&self, address: IpAddr) -> Option<String> {
        let sockets = self.all();
        let own = sockets.iter().find(|socket| socket.local().ip() == address)?;
        own.device.as_ref().map(|device| device.name.clone())
    }

    /// Opens a socket on an address of an interface, unless there is one. Returns the new socket. Must be called within a tokio runtime.
    pub(super) fn open(
        &self,
        address: IpAddr,
        device: Option<Device>,
        transport: Transport,
    ) -> io::Result<Option<Arc<OpenSocket>>> {
        let mut list = lock(&self.0);
        let is_there = list.iter().any(|socket| socket.is_on(address, device.as_ref()));
        // Each raw socket receives a copy of each packet: one on all addresses is enough.
        let is_served = |socket: &Arc<OpenSocket>| {
            transport == Transport::RawIp && socket.local().ip().is_unspecified() && socket.reaches(address)
        };
        if is_there || list.iter().any(is_served) {
            return Ok(None);
        }
        if list.iter().any(|socket| socket.system().is_none()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let local = SocketAddr::new(address, list[0].local().port());
        let neighbours: Vec<&SystemSocket> = list.iter().filter_map(|socket| socket.system()).collect();
        let open = |name| SystemSocket::open_beside(&neighbours, local, transport, name);
        let name = device.as_ref().map(|device| device.name.as_str());
        let socket = match open(name) {
            // Linux before 5.7 lets only privileged programs bind to an interface. The routes then choose it.
            Err(error) if name.is_some() && error.kind() == io::ErrorKind::PermissionDenied => open(None),
            opened => opened,
        }?;
        let socket = Arc::new(OpenSocket::new(Socket::System(socket), device, true));
        // An interface that was removed and added again leaves a socket on its former index, which receives nothing.
        let (stale, kept): (Vec<_>, Vec<_>) =
            list.iter().cloned().partition(|one| one.local().ip() == address);
        *list = kept.into_iter().chain([Arc::clone(&socket)]).collect();
        drop(list);
        stale.iter().for_each(|socket| socket.closed.notify_one());
        Ok(Some(socket))
    }

    /// Closes the sockets of paths whose address is not in use any more. The last socket stays.
    pub(super) fn close_unused(&self, in_use: impl Fn(IpAddr) -> bool) {
        let mut list = lock(&self.0);
        let is_unused = |socket: &Arc<OpenSocket>| socket.is_temporary && !in_use(socket.local().ip());
        let (unused, kept): (Vec<_>, Vec<_>) = list.iter().cloned().partition(is_unused);
        if unused.is_empty() || kept.is_empty() {
            return;
        }
        *list = kept.into();
        drop(list);
        unused.iter().for_each(|socket| socket.closed.notify_one());
    }
}

#[cfg(test)]
#[cfg(any(target_os = "android", target_os = "linux"))]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn on_all_addresses() -> Sockets {
        let local = SocketAddr::from(([0; 4], 0));
        let socket = SystemSocket::open(local, Transport::Udp, false, None).expect("a socket");
        Sockets::new(vec![OpenSocket::new(Socket::System(socket), None, false)])
    }

    fn loopback() -> Device {
        let name = "lo".to_owned();
        let index = crate::interfaces::index(&name).expect("the loopback interface");
        Device { name, index }
    }

    fn open(sockets: &Sockets, address: IpAddr) -> Option<Arc<OpenSocket>> {
        let opened = sockets.open(address, Some(loopback()), Transport::Udp);
        opened.expect("a socket beside the one on all addresses")
    }

    #[tokio::test]
    async fn a_socket_of_a_path_comes_and_goes_beside_the_one_on_all_addresses() {
        let sockets = on_all_addresses();
        let port = sockets.all()[0].local().port();
        let own = open(&sockets, LOOPBACK).expect("a new socket");
        assert_eq!(own.local(), SocketAddr::new(LOOPBACK, port));
        assert!(open(&sockets, LOOPBACK).is_none(), "it is there already");
        assert_eq!(sockets.interface_of(LOOPBACK).as_deref(), Some("lo"));
        assert_eq!(sockets.interface_of([0, 0, 0, 0].into()), None);
        let chosen = |source| {
            sockets
                .choose(Some(source), LOOPBACK)
                .expect("a socket")
                .local()
                .ip()
        };
        assert_eq!(chosen(LOOPBACK), LOOPBACK);
        assert!(chosen([127, 84, 0, 1].into()).is_unspecified());
        sockets.close_unused(|address| address == LOOPBACK);
        assert_eq!(sockets.all().len(), 2);
        sockets.close_unused(|_| false);
        assert_eq!(sockets.all().len(), 1, "the endpoint's own socket stays");
        own.closed().await;
        // Sockets share the port only while one is opened.
        let other =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).expect("a socket");
        other.set_reuse_port(true).expect("it may share");
        let bound = other.bind(&SocketAddr::new(LOOPBACK, port).into());
        assert!(bound.is_err(), "another program would get the packets");
    }

    #[tokio::test]
    async fn an_interface_that_was_added_again_gets_another_socket_and_the_last_one_stays() {
        let local = SocketAddr::new(LOOPBACK, 0);
        let socket = SystemSocket::open(local, Transport::Udp, false, None).expect("a socket");
        let device = Device {
            index: u32::MAX,
            ..loopback()
        };
        let former = OpenSocket::new(Socket::System(socket), Some(device), true);
        let sockets = Sockets::new(vec![former]);
        let former = Arc::clone(&sockets.all()[0]);
        assert!(
            open(&sockets, LOOPBACK).is_some(),
            "the former index leads nowhere"
        );
        former.closed().await;
        sockets.close_unused(|_| false);
        assert_eq!(sockets.all().len(), 1);
    }
}
