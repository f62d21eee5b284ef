//! The sockets of connections: TCP and Unix stream sockets.

use std::io;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use crate::counters::RuleCounters;
use crate::rule::{Listen, Protocol};

/// The pause after an error of `accept`, such as too many open files, which would otherwise come again at once.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// A connection with a program. It is reset when it is dropped, unless [`ByteSocket::finish`] was called: the program must not take the end
/// of the forwarder for the end of the data.
#[derive(Debug)]
pub(crate) struct ByteSocket {
    stream: Stream,
    is_finished: AtomicBool,
}

impl From<Stream> for ByteSocket {
    fn from(stream: Stream) -> Self {
        Self {
            stream,
            is_finished: AtomicBool::new(false),
        }
    }
}

impl From<TcpStream> for ByteSocket {
    fn from(stream: TcpStream) -> Self {
        // The association bundles what it can. Without the option, a program's last bytes would wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        // Without keep-alives, the connection of a host that vanished would stay forever.
        let _ = SockRef::from(&stream).set_keepalive(true);
        Stream::Tcp(stream).into()
    }
}

#[cfg(unix)]
impl From<UnixStream> for ByteSocket {
    fn from(stream: UnixStream) -> Self {
        Stream::Unix(stream).into()
    }
}

impl ByteSocket {
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.readable().await,
            #[cfg(unix)]
            Stream::Unix(stream) => stream.readable().await,
        }
    }

    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.stream {
            Stream::Tcp(stream) => stream.try_read(buffer),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.try_read(buffer),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.writable().await,
            #[cfg(unix)]
            Stream::Unix(stream) => stream.writable().await,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.stream {
            Stream::Tcp(stream) => stream.try_write(bytes),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.try_write(bytes),
        }
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.writable().await?;
            match self.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn socket(&self) -> SockRef<'_> {
        match &self.stream {
            Stream::Tcp(stream) => SockRef::from(stream),
            #[cfg(unix)]
            Stream::Unix(stream) => SockRef::from(stream),
        }
    }

    /// Ends this direction (FIN); the other one continues.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        self.socket().shutdown(std::net::Shutdown::Write)
    }

    /// Both directions have ended.
    pub(crate) fn finish(&self) {
        self.is_finished.store(true, Ordering::Relaxed);
    }
}

impl Drop for ByteSocket {
    fn drop(&mut self) {
        if !self.is_finished.load(Ordering::Relaxed) {
            let _ = self.socket().set_linger(Some(Duration::ZERO));
        }
    }
}

/// A place where programs connect.
#[derive(Debug)]
pub(crate) enum ByteListener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
}

#[cfg(unix)]
impl Drop for ByteListener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl ByteListener {
    pub(crate) async fn accept(&self) -> io::Result<ByteSocket> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| stream.into()),
            #[cfg(unix)]
            Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| stream.into()),
        }
    }
}

/// A place where a rule listens.
#[derive(Debug)]
pub(crate) enum Listener {
    Datagrams(UdpSocket),
    Bytes(ByteListener),
}

impl Listener {
    pub(crate) async fn bind(protocol: Protocol, place: &Listen) -> io::Result<Self> {
        Ok(match (protocol, place) {
            (Protocol::Udp, Listen::Socket(address)) => Self::Datagrams(UdpSocket::bind(address).await?),
            (Protocol::Tcp, Listen::Socket(address)) => {
                Self::Bytes(ByteListener::Tcp(TcpListener::bind(address).await?))
            }
            #[cfg(unix)]
            (Protocol::Tcp, Listen::Unix(path)) => {
                Self::Bytes(ByteListener::Unix(bind_unix(path).await?, path.clone()))
            }
            (_, Listen::Unix(_)) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    /// Refuses what programs send: the server does not permit the rule, or there is no association for datagrams.
    pub(crate) async fn refuse(&self, counters: &RuleCounters) {
        loop {
            let waited = match self {
                Self::Datagrams(socket) => socket.readable().await,
                // Dropping the connection resets it.
                Self::Bytes(listener) => listener.accept().await.map(|_| counters.flows_refused.add(1)),
            };
            if waited.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
            counters.dropped.add(self.drop_waiting());
            tokio::task::consume_budget().await;
        }
    }

    /// Drops the datagrams that wait. Returns their number.
    pub(crate) fn drop_waiting(&self) -> u64 {
        // The buffer of a socket has fewer.
        const MOST: usize = 100_000;
        let Self::Datagrams(socket) = self else {
            return 0;
        };
        let mut byte = [0];
        let mut dropped = 0;
        for _ in 0..MOST {
            match socket.try_recv_from(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A datagram that is longer than the buffer is an error on some systems.
                _ => dropped += 1,
            }
        }
        dropped
    }

    /// Where programs reach it: with port 0, the port that the system chose.
    pub(crate) fn place(&self) -> Option<Listen> {
        match self {
            Self::Datagrams(socket) => socket.local_addr().ok().map(Listen::Socket),
            Self::Bytes(ByteListener::Tcp(listener)) => listener.local_addr().ok().map(Listen::Socket),
            #[cfg(unix)]
            Self::Bytes(ByteListener::Unix(_, path)) => Some(Listen::Unix(path.clone())),
        }
    }
}

/// Replaces the file of a program that has ended without removing it.
#[cfg(unix)]
async fn bind_unix(path: &std::path::Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let refused = match UnixStream::connect(path).await {
                Ok(_) => false,
                Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
            };
            if !refused {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}
