//! A stream of an association as the interfaces that other libraries use: a stream and a sink of messages, and a stream of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Pending, StreamHandle};
use crate::error::{RecvError, SendError};
#[cfg(feature = "futures")]
use crate::into_message::IntoMessage;
use crate::message::Message;

/// Bytes of the messages that [`ByteStream`] sends.
const MESSAGE: usize = 16 << 10;

/// Polls a future that was begun earlier, and forgets it when it is ready.
fn resume<T>(pending: &mut Pending<T>, context: &mut Context<'_>) -> Poll<Option<T>> {
    let Some(future) = pending else {
        return Poll::Ready(None);
    };
    let answer = ready!(future.as_mut().poll(context));
    *pending = None;
    Poll::Ready(Some(answer))
}

impl StreamHandle {
    /// The stream as a sequence of bytes, for code that knows no messages.
    #[must_use]
    pub fn into_byte_stream(self) -> ByteStream {
        ByteStream::new(self)
    }

    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Message>, RecvError>> {
        if self.receiving.is_none() {
            self.receiving = self.recv_later();
        }
        resume(&mut self.receiving, context).map(|answer| answer.unwrap_or(Ok(None)))
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let answer = ready!(resume(&mut self.sending, context));
        Poll::Ready(answer.transpose().map(|_| ()))
    }
}

/// The messages of the stream, as [`StreamHandle::recv`]; it ends where `recv` returns `None`, and goes on if it is polled again after a
/// reset.
#[cfg(feature = "futures")]
impl futures_core::Stream for StreamHandle {
    type Item = Result<Message, RecvError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(context).map(Result::transpose)
    }
}

/// Sends messages with the options of the handle. A flush waits until the last message is in the send buffer; so does closing, which ends
/// neither the stream nor the association.
#[cfg(feature = "futures")]
impl<M: IntoMessage> futures_sink::Sink<M> for StreamHandle {
    type Error = SendError;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_sent(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: M) -> Result<(), SendError> {
        self.sending = self.send_later(message.into_message());
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_sent(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_sent(context)
    }
}

/// A stream as a sequence of bytes ([`StreamHandle::into_byte_stream`]): messages of up to 16 KiB, whose borders the reader does not see. The
/// handle must be ordered and reliable, or bytes are missing.
///
/// The end that the reader sees is a reset of the stream (RFC 6525), which [`tokio::io::AsyncWriteExt::shutdown`] requests, or the graceful
/// end of the association.
#[derive(Debug)]
pub struct ByteStream {
    handle: StreamHandle,
    /// The unread rest of a message.
    rest: Bytes,
    ended: bool,
}

impl ByteStream {
    pub(super) fn new(handle: StreamHandle) -> Self {
        Self {
            handle,
            rest: Bytes::new(),
            ended: false,
        }
    }

    /// The handle of the stream.
    #[must_use]
    pub fn handle(&self) -> &StreamHandle {
        &self.handle
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() && !self.ended {
            let message = ready!(self.handle.poll_recv(context)).map_err(io::Error::other)?;
            match message {
                Some(message) => self.rest = message.into_bytes(),
                None => self.ended = true,
            }
        }
        let len = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..len]);
        self.rest.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.handle.poll_sent(context)).map_err(broken)?;
        let len = bytes.len().min(MESSAGE);
        if len == 0 {
            return Poll::Ready(Ok(0));
        }
        self.handle.sending = self.handle.send_later(Bytes::copy_from_slice(&bytes[..len]));
        // If the buffer is full, the message waits here, and the next call waits for it.
        if let Poll::Ready(Err(error)) = self.handle.poll_sent(context) {
            return Poll::Ready(Err(broken(error)));
        }
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.poll_sent(context).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.handle.poll_sent(context)).map_err(broken)?;
        let handle = &mut self.handle;
        if handle.resetting.is_none() {
            handle.resetting = handle.reset_later();
        }
        let answer = ready!(resume(&mut handle.resetting, context));
        Poll::Ready(answer.unwrap_or(Ok(())).map_err(io::Error::other))
    }
}

fn broken(error: SendError) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}
