//! What an association tells its application, and what it tells its endpoint.

use std::net::SocketAddr;

use anabranch_wire::{StreamId, VerificationTag, cause::Causes};
use bytes::Bytes;

use crate::message::MessageId;
use crate::path_id::{PathId, PathState};

/// Something the application may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Set-up is complete and messages can be sent and received (COMMUNICATION UP, RFC 9260 §11.2.4).
    Established {
        /// Streams to the peer.
        outbound_streams: u16,
        /// Streams from the peer.
        inbound_streams: u16,
    },
    /// The peer restarted (RESTART, RFC 9260 §11.2.6): streams begin anew, what was not acknowledged is lost and
    /// told as [`Event::Undelivered`].
    Restarted,
    /// There is something for `recv`. Told once until `recv` has answered `None`.
    Readable,
    /// The send buffer has room again. Told once, after the first input that made room since `send` last answered
    /// [`crate::SendError::BufferFull`]; not once for each caller that was refused, and not for room that a larger buffer
    /// ([`crate::BufferConfig::growth`]) gives. If several senders wait, their order is the driver's to choose:
    /// [`crate::Association::send`] takes from whoever asks first. Let the first of them try, then the next, until one is
    /// answered `BufferFull`, which asks for this event again.
    Writable,
    /// All that was sent is acknowledged (SENDER DRY, RFC 6458 §6.1.9). Told once per run of data; not at all if more was given to
    /// `send` before anybody heard of it.
    Dry,
    /// A path became active, potentially failed, inactive or confirmed (NETWORK STATUS CHANGE, RFC 9260 §11.2.3;
    /// RFC 7829 §7.1).
    PathChanged {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: SocketAddr,
        /// Its state now.
        state: PathState,
    },
    /// A message that the peer did not acknowledge before the association ended, restarted or gave it up (SEND
    /// FAILURE, RFC 9260 §11.2.2).
    Undelivered(Undelivered),
    /// A message was given up as its [`crate::Reliability`] says (RFC 3758, RFC 6458 §6.1.11). If any of it was sent, the
    /// peer may have received it all the same.
    Abandoned(Undelivered),
    /// The peer sent an ERROR chunk (RFC 9260 §3.3.10).
    PeerError(Causes),
    /// The peer began an orderly shutdown: it takes no more messages (RFC 6458 §6.1.5).
    PeerShutdown,
    /// The association is over (COMMUNICATION LOST or SHUTDOWN COMPLETE). Nothing follows but what `recv` holds.
    Closed(CloseReason),
}

/// A message that was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// What `send` answered.
    pub message: MessageId,
    /// Its stream.
    pub stream: StreamId,
    /// What the application gave with it.
    pub context: u64,
    /// Whether any part of it was sent: if so, the peer may have received it.
    pub sent: bool,
}

/// How an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// An orderly shutdown (RFC 9260 §9.2): everything was acknowledged.
    Shutdown,
    /// The peer sent ABORT (RFC 9260 §9.1).
    AbortedByPeer(Causes),
    /// This side's application asked for an ABORT.
    Aborted,
    /// The peer broke the protocol, and this side sent ABORT.
    ProtocolViolation(&'static str),
    /// The peer did not answer `Association.Max.Retrans` times (RFC 9260 §8.1).
    Unreachable,
    /// Set-up was not answered `Max.Init.Retransmits` times (RFC 9260 §5.1).
    SetUpTimedOut,
    /// The peer's cookie went stale and could not be renewed (RFC 9260 §5.2.6).
    StaleCookie,
    /// The shutdown took longer than T5-shutdown-guard allows (RFC 9260 §9.2): see `Config::shutdown_guard`.
    ShutdownTimedOut,
    /// An ICMP message that quotes a packet of this association said that nothing takes SCTP at this address of the peer: its UDP
    /// port is closed (RFC 6951 §5.5), or, over raw IP (UDP port 0), its system has no SCTP (RFC 9260 §10, ICMP8).
    ProtocolUnreachable {
        /// Where the quoted packet was sent: address and UDP port.
        remote: SocketAddr,
    },
    /// The code of this association panicked on this side, which ended it and tried to tell the peer by an ABORT. Messages
    /// that were not acknowledged or not read are lost, and [`Event::Undelivered`] does not tell them.
    InternalError,
}

/// What an association tells the endpoint that routes packets to it: hand each one to
/// [`crate::Endpoint::handle_event`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// The peer restarted (RFC 9260 §5.2.4 A).
    PeerRestarted {
        /// The association answers to this tag from now on.
        local_tag: VerificationTag,
        /// The peer's only address, until others are added.
        remote: SocketAddr,
    },
    /// The peer has this address too.
    PeerAddressAdded(SocketAddr),
    /// A host at this address, which the peer listed, has no part in the association: its set-up chunks are its own.
    PeerAddressDenied(SocketAddr),
    /// The association is over and its id may be forgotten.
    Closed,
    /// The same, in order (RFC 9260 §9.2): the endpoint answers late packets of the peer accordingly for a while.
    ShutDown {
        /// The tag that the peer had chosen.
        peer_tag: VerificationTag,
    },
}

/// What the operating system said of a packet to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// A packet was too large (EMSGSIZE, ICMP): the largest IP packet that may pass, if known.
    TooLarge(Option<u16>),
    /// The system says, of its own knowledge, that nothing can be sent to there: an interface or a route is gone. What
    /// others say, as ICMP messages do, must not be told as this: anybody can send them (RFC 6951 §5.5).
    Unreachable,
}

/// A packet that the application's driver must send for the endpoint itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The local address to send from, if the packet it answers named one.
    pub source: Option<std::net::IpAddr>,
    /// Where to: address and UDP port (0 without encapsulation).
    pub destination: SocketAddr,
    /// The SCTP packet.
    pub packet: Bytes,
}
