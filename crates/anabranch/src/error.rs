//! What can go wrong with each operation of this crate, in words that say what to do. What the peer does wrong is
//! answered by the protocol itself and ends, at worst, in a [`CloseReason`].

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use anabranch_proto::wire::cause::{Cause, Causes};
use anabranch_proto::{CloseReason, ConfigError, StreamId};

/// Why an endpoint could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A setting is out of its range.
    #[error("the configuration cannot be used: {0}")]
    Config(#[from] ConfigError),
    /// The name of the local address could not be resolved, or it resolved to nothing.
    #[error("the local address cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// The operating system refused the socket.
    #[error("cannot bind {address}: {source} (is the port in use, or the address not one of this machine?)")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the operating system answered.
        source: io::Error,
    },
    /// A socket cannot be bound to the network interface.
    #[error("cannot use the network interface {interface:?}: {source}")]
    Interface {
        /// Its name.
        interface: String,
        /// What the operating system answered.
        source: io::Error,
    },
    /// The program may not open raw sockets.
    #[error(
        "raw IP needs root or CAP_NET_RAW to open a socket of protocol 132 on {0}: grant it, or use UDP, which needs neither"
    )]
    RawNotPermitted(SocketAddr),
    /// The capture's file could not be made.
    #[error("cannot write the capture to {path:?}: {source}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// The operating system gave no random numbers, without which nothing here is safe.
    #[error("the operating system gave no random numbers: {0}")]
    Random(String),
}

/// Why an endpoint does not listen on a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// SCTP port 0 stands for no port.
    #[error("SCTP port 0 cannot be listened on: choose 1 to 65535")]
    PortZero,
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind a new one")]
    Closed,
}

/// Why an association did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name could not be resolved.
    #[error("the remote address cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// The name resolved to nothing that this endpoint's sockets can reach.
    #[error(
        "none of the remote addresses has the IP version that this endpoint is bound to: bind another address"
    )]
    NoAddress,
    /// The request itself cannot be met.
    #[error(transparent)]
    Invalid(#[from] anabranch_proto::ConnectError),
    /// A setting of this association is out of its range.
    #[error("the configuration cannot be used: {0}")]
    Config(#[from] ConfigError),
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind a new one")]
    Closed,
    /// Nothing answered.
    #[error(
        "{remote} does not answer for SCTP port {port}: is it running, and are address and UDP port right?"
    )]
    TimedOut {
        /// Where to.
        remote: SocketAddr,
        /// The SCTP port.
        port: u16,
    },
    /// The system at the address said by ICMP that nothing takes SCTP there: the UDP port is closed (RFC 6951 §5.5), or, over raw
    /// IP, the system has no SCTP. The message was believed because it quotes this side's INIT. Linux only; elsewhere,
    /// and where no ICMP comes, it is [`ConnectError::TimedOut`].
    #[error("{}: is the listener running there, and are address and UDP port right?", nothing_at(.remote))]
    ProtocolUnreachable {
        /// Where to.
        remote: SocketAddr,
    },
    /// Nothing answered, and nothing left: the operating system refused to send.
    #[error("cannot send to {remote}: {source}")]
    Unsent {
        /// Where to.
        remote: SocketAddr,
        /// What the operating system answered last.
        source: io::Error,
    },
    /// The other side, or the protocol, ended it before it began.
    #[error("{remote} did not set up an association on SCTP port {port}: {reason}", reason = Explained(reason))]
    Refused {
        /// Where to.
        remote: SocketAddr,
        /// The SCTP port.
        port: u16,
        /// How it ended.
        reason: CloseReason,
    },
}

/// Why a message was not taken. Nothing of it was taken then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send buffer is full (`try_send` only: `send` waits).
    #[error("the send buffer is full: await send, or try again later")]
    BufferFull,
    /// The message itself cannot be sent: too large, empty, no such stream, or another one is open there.
    #[error(transparent)]
    Message(anabranch_proto::SendError),
    /// A shutdown has begun here or at the peer, after which no more messages are taken.
    #[error("the association is shutting down and takes no more messages")]
    ShuttingDown,
    /// The association is over.
    #[error("the association is over: {}", Explained(.0))]
    Closed(CloseReason),
}

/// Why there is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// A message grew larger than what `recv` joins. The rest of it is skipped; the next call goes on with the next
    /// message.
    #[error(
        "a message on stream {stream} is larger than {limit} bytes: use recv_part, or raise EndpointBuilder::max_joined_message"
    )]
    TooLarge {
        /// Its stream.
        stream: StreamId,
        /// The limit in bytes.
        limit: usize,
    },
    /// The association ended, and not by an orderly shutdown.
    #[error("the association is over: {}", Explained(.0))]
    Closed(CloseReason),
}

/// An association that did not end in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the association did not end in order: {}", Explained(.0))]
pub struct ShutdownError(pub CloseReason);

/// The causes in an ABORT. What the peer's application wrote is shown without what would control a terminal.
fn in_words(causes: &Causes) -> String {
    let words = causes.iter().map(|cause| match cause {
        Ok(Cause::UserInitiatedAbort(text)) if text.is_empty() => "its application asked for it".to_owned(),
        Ok(Cause::UserInitiatedAbort(text)) => format!("{:?}", String::from_utf8_lossy(&text)),
        Ok(Cause::ProtocolViolation(text)) => {
            format!("protocol violation: {:?}", String::from_utf8_lossy(&text))
        }
        Ok(Cause::OutOfResource) => "it has no room".to_owned(),
        Ok(cause) => format!("{cause:?}"),
        Err(_) => "a malformed cause".to_owned(),
    });
    let words = words.collect::<Vec<_>>().join(", ");
    if words.is_empty() {
        "without a reason".to_owned()
    } else {
        words
    }
}

/// What an ICMP message of this address says.
fn nothing_at(remote: &SocketAddr) -> String {
    match remote.port() {
        0 => format!("{} takes no SCTP over IP (protocol unreachable)", remote.ip()),
        _ => format!("nothing receives at {remote} (port unreachable)"),
    }
}

/// A [`CloseReason`] in words.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a>(pub &'a CloseReason);

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CloseReason::Shutdown => f.write_str("orderly shutdown"),
            CloseReason::AbortedByPeer(causes) => write!(f, "the peer aborted it ({})", in_words(causes)),
            CloseReason::Aborted => f.write_str("this side aborted it"),
            CloseReason::ProtocolViolation(what) => write!(f, "the peer broke the protocol: {what}"),
            CloseReason::Unreachable => f.write_str("the peer stopped answering"),
            CloseReason::SetUpTimedOut => f.write_str("the peer did not answer"),
            CloseReason::StaleCookie => f.write_str("the peer's cookie went stale during set-up"),
            CloseReason::ShutdownTimedOut => f.write_str("the shutdown took too long"),
            CloseReason::ProtocolUnreachable { remote } => f.write_str(&nothing_at(remote)),
            CloseReason::InternalError => {
                f.write_str("a fault in this program's SCTP (it panicked; standard error has more)")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_writes_cannot_control_the_terminal() {
        let causes = Causes::from_causes(&[
            Cause::UserInitiatedAbort(b"\x1b[2Jbye"[..].to_vec().into()),
            Cause::OutOfResource,
        ]);
        let told = Explained(&CloseReason::AbortedByPeer(causes)).to_string();
        assert_eq!(told, "the peer aborted it (\"\\u{1b}[2Jbye\", it has no room)");
        let none = Explained(&CloseReason::AbortedByPeer(Causes::empty())).to_string();
        assert_eq!(none, "the peer aborted it (without a reason)");
    }
}
