//! The same interface for programs without an async runtime: calls block the thread. Each endpoint has one thread of its own, which handles
//! packets and timers.
//!
//! ```
//! use anabranch::blocking::Endpoint;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Endpoint::bind("127.0.0.1:0")?;
//! server.listen()?;
//! let address = server.local_addr();
//! let echo = std::thread::spawn(move || {
//!     let association = server.accept().expect("the endpoint is open");
//!     while let Ok(Some(message)) = association.recv() {
//!         association.send(message.stream, message.into_bytes()).expect("the client reads");
//!     }
//! });
//! let client = Endpoint::bind("127.0.0.1:0")?;
//! let association = client.connect(address)?;
//! association.send(0, "hello")?;
//! let answer = association.recv()?.ok_or("no answer")?;
//! assert_eq!(answer.into_bytes(), "hello");
//! association.shutdown()?;
//! client.close();
//! # echo.join().unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! The types dereference to those of the crate's root, whose methods that do not wait can be called directly: `association.stats()`. Methods
//! of the same name are replaced by ones that block. They panic if they are called inside an async runtime, which they would block.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{
    CloseReason, ConnectOptions, Event, MessageId, MessagePart, Ppid, ReconfigurationError, Reliability,
    SendOptions, StreamId,
};
#[cfg(feature = "tls")]
use anabranch_tls::TlsSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Handle};

use crate::DEFAULT_SCTP_PORT;
use crate::datagram_socket::DatagramSocket;
use crate::error::{BindError, ConnectError, RecvError, SendError, ShutdownError};
use crate::into_message::IntoMessage;
use crate::message::Message;
use crate::path_source::PathSource;
use crate::receipt::Receipt;
use crate::stream::option_methods;

/// An endpoint whose calls block; otherwise [`crate::Endpoint`]. Cheap to clone.
///
/// Its thread ends when the last handle is dropped and the last association has ended. A program that exits earlier loses data that was not
/// acknowledged: call [`Endpoint::close`] first.
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: crate::Endpoint,
    runtime: Handle,
}

/// An association whose calls block; otherwise [`crate::Association`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Association {
    inner: crate::Association,
    runtime: Handle,
}

/// A stream whose calls block; otherwise [`crate::StreamHandle`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: crate::StreamHandle,
    runtime: Handle,
}

/// A stream as a sequence of bytes: [`std::io::Read`] and [`std::io::Write`]; otherwise [`crate::ByteStream`].
#[derive(Debug)]
pub struct ByteStream {
    inner: crate::ByteStream,
    runtime: Handle,
}

impl Deref for Endpoint {
    type Target = crate::Endpoint;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl Deref for Association {
    type Target = crate::Association;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl Deref for Stream {
    type Target = crate::StreamHandle;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

/// Binds endpoints whose calls block: [`crate::EndpointBuilder::blocking`].
#[derive(Clone, Debug)]
#[must_use]
pub struct EndpointBuilder {
    inner: crate::EndpointBuilder,
}

impl crate::EndpointBuilder {
    /// The same options, for programs without an async runtime ([`crate::blocking`]).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = anabranch::Endpoint::builder().backlog(8).blocking().bind("127.0.0.1:0")?;
    /// # Ok(()) }
    /// ```
    pub fn blocking(self) -> EndpointBuilder {
        EndpointBuilder { inner: self }
    }
}

impl EndpointBuilder {
    /// As [`crate::EndpointBuilder::bind`].
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(self, local: impl ToSocketAddrs) -> Result<Endpoint, BindError> {
        let addresses: Vec<_> = local.to_socket_addrs().map_err(BindError::Resolve)?.collect();
        start(self.inner.bind(&addresses[..]))
    }

    /// As [`crate::EndpointBuilder::bind_all`].
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind_all(self, locals: &[SocketAddr]) -> Result<Endpoint, BindError> {
        start(async { self.inner.bind_all(locals) })
    }

    /// As [`crate::EndpointBuilder::bind_paths`].
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind_paths(self, sources: &[PathSource], port: u16) -> Result<Endpoint, BindError> {
        start(async { self.inner.bind_paths(sources, port) })
    }

    /// As [`crate::EndpointBuilder::bind_socket`], with a socket that needs no async runtime.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind_socket(self, socket: impl DatagramSocket) -> Result<Endpoint, BindError> {
        start(async { self.inner.bind_socket(socket) })
    }

    /// As [`crate::EndpointBuilder::bind_sockets`], with sockets that need no async runtime.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind_sockets<S: DatagramSocket>(
        self,
        sockets: impl IntoIterator<Item = S>,
    ) -> Result<Endpoint, BindError> {
        start(async { self.inner.bind_sockets(sockets) })
    }
}

/// Starts the thread that drives all tasks of the endpoint until it has stopped.
fn start(bind: impl Future<Output = Result<crate::Endpoint, BindError>>) -> Result<Endpoint, BindError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BindError::Thread)?;
    let handle = runtime.handle().clone();
    let inner = runtime.block_on(bind)?;
    let hub = Arc::clone(inner.hub());
    std::thread::Builder::new()
        .name("anabranch".to_owned())
        .spawn(move || runtime.block_on(hub.stopped()))
        .map_err(BindError::Thread)?;
    Ok(Endpoint {
        inner,
        runtime: handle,
    })
}

impl Endpoint {
    /// As [`crate::Endpoint::bind`].
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(local: impl ToSocketAddrs) -> Result<Self, BindError> {
        crate::Endpoint::builder().blocking().bind(local)
    }

    /// As [`crate::Endpoint::server`]. Needs the feature `tls`.
    ///
    /// # Errors
    /// See [`BindError`].
    #[cfg(feature = "tls")]
    pub fn server(local: impl ToSocketAddrs, settings: TlsSettings) -> Result<Self, BindError> {
        let addresses: Vec<_> = local.to_socket_addrs().map_err(BindError::Resolve)?.collect();
        start(crate::Endpoint::server(&addresses[..], settings))
    }

    /// As [`crate::Endpoint::client`]. Needs the feature `tls`.
    ///
    /// # Errors
    /// See [`BindError`].
    #[cfg(feature = "tls")]
    pub fn client(settings: TlsSettings) -> Result<Self, BindError> {
        start(crate::Endpoint::client(settings))
    }

    /// As [`crate::Endpoint::accept`].
    #[must_use]
    pub fn accept(&self) -> Option<Association> {
        let inner = self.runtime.block_on(self.inner.accept())?;
        Some(self.association(inner))
    }

    /// As [`crate::Endpoint::connect`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(&self, remote: impl ToSocketAddrs) -> Result<Association, ConnectError> {
        self.connect_to_port(remote, DEFAULT_SCTP_PORT)
    }

    /// As [`crate::Endpoint::connect_to_port`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect_to_port(
        &self,
        remote: impl ToSocketAddrs,
        port: u16,
    ) -> Result<Association, ConnectError> {
        self.connect_with(remote, port, ConnectOptions::default())
    }

    /// As [`crate::Endpoint::connect_with`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect_with(
        &self,
        remote: impl ToSocketAddrs,
        port: u16,
        options: ConnectOptions,
    ) -> Result<Association, ConnectError> {
        let addresses: Vec<_> = remote.to_socket_addrs().map_err(ConnectError::Resolve)?.collect();
        let inner = self
            .runtime
            .block_on(self.inner.connect_with(&addresses[..], port, options))?;
        Ok(self.association(inner))
    }

    /// As [`crate::Endpoint::close`].
    pub fn close(&self) {
        self.runtime.block_on(self.inner.close());
    }

    /// As [`crate::Endpoint::idle`].
    pub fn idle(&self) {
        self.runtime.block_on(self.inner.idle());
    }

    fn association(&self, inner: crate::Association) -> Association {
        Association {
            inner,
            runtime: self.runtime.clone(),
        }
    }
}

impl Association {
    /// As [`crate::Association::send`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(
        &self,
        stream: impl Into<StreamId>,
        message: impl IntoMessage,
    ) -> Result<MessageId, SendError> {
        self.runtime.block_on(self.inner.send(stream, message))
    }

    /// As [`crate::Association::send_with`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_with(
        &self,
        stream: impl Into<StreamId>,
        message: impl IntoMessage,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        self.runtime
            .block_on(self.inner.send_with(stream, message, options))
    }

    /// As [`crate::Association::send_with_receipt`]; [`Receipt::delivered_blocking`] waits for the answer.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_with_receipt(
        &self,
        stream: impl Into<StreamId>,
        message: impl IntoMessage,
    ) -> Result<Receipt, SendError> {
        self.runtime
            .block_on(self.inner.send_with_receipt(stream, message))
    }

    /// As [`crate::Association::send_part`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_part(
        &self,
        stream: impl Into<StreamId>,
        part: impl IntoMessage,
        options: SendOptions,
        end: bool,
    ) -> Result<MessageId, SendError> {
        self.runtime
            .block_on(self.inner.send_part(stream, part, options, end))
    }

    /// As [`crate::Association::recv`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv(&self) -> Result<Option<Message>, RecvError> {
        self.runtime.block_on(self.inner.recv())
    }

    /// As [`Association::recv`], but waits at most this long. If no message came, none was taken.
    ///
    /// # Errors
    /// See [`RecvTimeoutError`].
    pub fn recv_timeout(&self, limit: Duration) -> Result<Option<Message>, RecvTimeoutError> {
        timeout(&self.runtime, limit, self.inner.recv())
    }

    /// As [`crate::Association::recv_part`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv_part(&self) -> Result<Option<MessagePart>, RecvError> {
        self.runtime.block_on(self.inner.recv_part())
    }

    /// As [`crate::Association::drained`].
    ///
    /// # Errors
    /// See [`ShutdownError`].
    pub fn drained(&self) -> Result<(), ShutdownError> {
        self.runtime.block_on(self.inner.drained())
    }

    /// As [`crate::Association::next_event`].
    #[must_use]
    pub fn next_event(&self) -> Option<Event> {
        self.runtime.block_on(self.inner.next_event())
    }

    /// As [`crate::Association::shutdown`].
    ///
    /// # Errors
    /// See [`ShutdownError`].
    pub fn shutdown(&self) -> Result<(), ShutdownError> {
        self.runtime.block_on(self.inner.shutdown())
    }

    /// As [`crate::Association::closed`].
    #[must_use]
    pub fn closed(&self) -> CloseReason {
        self.runtime.block_on(self.inner.closed())
    }

    /// As [`crate::Association::stream`].
    pub fn stream(&self, id: impl Into<StreamId>) -> Stream {
        self.wrap(self.inner.stream(id))
    }

    /// As [`crate::Association::accept_stream`].
    #[must_use]
    pub fn accept_stream(&self) -> Option<Stream> {
        let inner = self.runtime.block_on(self.inner.accept_stream())?;
        Some(self.wrap(inner))
    }

    fn wrap(&self, inner: crate::StreamHandle) -> Stream {
        Stream {
            inner,
            runtime: self.runtime.clone(),
        }
    }
}

option_methods!(Stream, inner.options);

impl Stream {
    /// As [`crate::StreamHandle::send`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(&self, message: impl IntoMessage) -> Result<MessageId, SendError> {
        self.runtime.block_on(self.inner.send(message))
    }

    /// As [`crate::StreamHandle::send_with`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_with(&self, message: impl IntoMessage, options: SendOptions) -> Result<MessageId, SendError> {
        self.runtime.block_on(self.inner.send_with(message, options))
    }

    /// As [`crate::StreamHandle::send_with_receipt`]; [`Receipt::delivered_blocking`] waits for the answer.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_with_receipt(&self, message: impl IntoMessage) -> Result<Receipt, SendError> {
        self.runtime.block_on(self.inner.send_with_receipt(message))
    }

    /// As [`crate::StreamHandle::send_part`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_part(&self, part: impl IntoMessage, end: bool) -> Result<MessageId, SendError> {
        self.runtime.block_on(self.inner.send_part(part, end))
    }

    /// As [`crate::StreamHandle::recv`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv(&self) -> Result<Option<Message>, RecvError> {
        self.runtime.block_on(self.inner.recv())
    }

    /// As [`Stream::recv`], but waits at most this long. If no message came, none was taken.
    ///
    /// # Errors
    /// See [`RecvTimeoutError`].
    pub fn recv_timeout(&self, limit: Duration) -> Result<Option<Message>, RecvTimeoutError> {
        timeout(&self.runtime, limit, self.inner.recv())
    }

    /// As [`crate::StreamHandle::recv_part`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv_part(&self) -> Result<Option<MessagePart>, RecvError> {
        self.runtime.block_on(self.inner.recv_part())
    }

    /// As [`crate::StreamHandle::next_event`].
    #[must_use]
    pub fn next_event(&self) -> Option<Event> {
        self.runtime.block_on(self.inner.next_event())
    }

    /// As [`crate::StreamHandle::buffered_amount_low`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn buffered_amount_low(&self, threshold: usize) -> Result<(), SendError> {
        self.runtime.block_on(self.inner.buffered_amount_low(threshold))
    }

    /// As [`crate::StreamHandle::reset`].
    ///
    /// # Errors
    /// See [`ReconfigurationError`].
    pub fn reset(&self) -> Result<(), ReconfigurationError> {
        self.runtime.block_on(self.inner.reset())
    }

    /// As [`crate::StreamHandle::into_byte_stream`].
    #[must_use]
    pub fn into_byte_stream(self) -> ByteStream {
        ByteStream {
            inner: self.inner.into_byte_stream(),
            runtime: self.runtime,
        }
    }
}

impl ByteStream {
    /// Sends what was written, and ends the stream for its reader, by a reset (RFC 6525).
    ///
    /// # Errors
    /// The association has ended, or the peer does not support resets.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.inner.shutdown())
    }
}

impl io::Read for ByteStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.runtime.block_on(self.inner.read(buffer))
    }
}

impl io::Write for ByteStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.inner.flush())
    }
}

/// Why no message was received in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvTimeoutError {
    /// No message came within the time limit.
    #[error("no message came within the time limit")]
    Elapsed,
    /// The message cannot be received, or the association has ended.
    #[error(transparent)]
    Recv(#[from] RecvError),
}

fn timeout<T>(
    runtime: &Handle,
    limit: Duration,
    work: impl Future<Output = Result<T, RecvError>>,
) -> Result<T, RecvTimeoutError> {
    runtime.block_on(async {
        match tokio::time::timeout(limit, work).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(RecvTimeoutError::Elapsed),
        }
    })
}
