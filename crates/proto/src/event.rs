//! The events that an association reports to the application (notifications, RFC 9260 §11.2) and to its endpoint.

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::cause::Causes;
use anabranch_wire::{StreamId, VerificationTag};
use bytes::Bytes;

use crate::close_reason::CloseReason;
use crate::message::MessageId;
use crate::path_id::{PathId, PathState};
use crate::reconfiguration::ReconfigurationEvent;

/// An event for the application. [`crate::Association::poll_event`] returns it.
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
    /// All packets of both directions are encrypted from now on, and user messages can be sent ([`crate::Config::require_protection`]).
    Protected,
    /// [`crate::KeyManager::recv`] has a message. Reported once, and again only after it has returned `None`. For drivers.
    KeyManagement,
    /// The peer restarted (RESTART, RFC 9260 §11.2.7). Streams begin anew. Messages that were not acknowledged are lost, and each is
    /// reported as [`Event::Undelivered`].
    Restarted,
    /// `recv` has a message. Reported once, and again only after `recv` has returned `None`.
    Readable,
    /// A stream has room again that had answered [`crate::SendError::BufferFull`]. Reported once, until the stream answers so again. If
    /// several tasks send on one stream, the driver chooses their order: let the first try, then the next, until one is refused, which
    /// requests this event again.
    Writable(StreamId),
    /// [`crate::Stream::recv`] has a message of this stream, which is read separately. Reported once, and again only after
    /// `recv` has returned `None`.
    StreamReadable(StreamId),
    /// The peer began to send on a stream; [`crate::Association::separate_new_streams`] asked for this. The stream is read separately.
    StreamOpened(StreamId),
    /// No endpoint sent a message for [`crate::Config::idle_timeout`]: the association is being shut down.
    IdleTimeout,
    /// The buffered amount of this stream fell to the threshold of [`crate::Stream::set_buffered_amount_low_threshold`] (the event
    /// `bufferedamountlow` of WebRTC data channels).
    BufferedAmountLow(StreamId),
    /// Everything sent is acknowledged (SENDER DRY, RFC 6458 §6.1.9). Reported once, until `send` accepts another message. Not reported
    /// if `send` accepted a message before the event was polled.
    Dry,
    /// For a minute, the peer has acknowledged none of the data that waits: its application reads nothing, so that its window stays closed,
    /// or no packet arrives, which [`Event::PathChanged`] tells sooner. Reported once, and again after another acknowledgement. The
    /// association continues, for ever if the peer answers heartbeats; [`crate::Association::abort`] ends it.
    Stalled {
        /// Bytes of user data that are queued or not acknowledged.
        bytes: usize,
    },
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
    /// The peer has a message with [`crate::SendOptions::confirm`], and cannot renege on it.
    Acknowledged(Acknowledged),
    /// A message that the peer did not acknowledge, or could still renege on, before the association ended or restarted, or that was given to a stream which the peer did not
    /// accept (SEND FAILURE, RFC 9260 §11.2.2).
    Undelivered(Undelivered),
    /// A message was abandoned as its [`crate::Reliability`] demands (RFC 3758, RFC 6458 §6.1.11). If a part of it was sent, the
    /// peer may have received it nevertheless.
    Abandoned(Undelivered),
    /// The peer sent an ERROR chunk (RFC 9260 §3.3.10).
    PeerError(Causes),
    /// Authenticated chunks (RFC 4895): AUTHENTICATION EVENT, RFC 6458 §6.1.8.
    Authentication(AuthenticationEvent),
    /// The addresses of this endpoint or of the peer changed (RFC 5061): PEER ADDRESS CHANGE, RFC 6458 §6.1.2.
    Addresses(AddressEvent),
    /// The Adaptation Code Point of the peer (RFC 5061 §4.2.6): ADAPTATION INDICATION, RFC 6458 §6.1.6. It follows
    /// [`Event::Established`], if the peer sent one.
    AdaptationLayer(u32),
    /// Streams were reset or added, or the peer answered a request for it (RFC 6525 §6.1).
    Reconfiguration(ReconfigurationEvent),
    /// The peer began a graceful shutdown and accepts no more messages (RFC 6458 §6.1.5).
    PeerShutdown,
    /// The driver dropped so many events here, because the application did not read them. The core itself drops none.
    Missed(u64),
    /// The association has ended (COMMUNICATION LOST or SHUTDOWN COMPLETE, RFC 9260 §11.2). It is the last event; `recv` still returns
    /// complete messages.
    Closed(CloseReason),
}

/// A change of addresses (RFC 5061, RFC 6458 §6.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressEvent {
    /// The peer has another address. Its path is not confirmed yet: [`Event::PathChanged`] follows.
    PeerAdded {
        /// The address.
        address: IpAddr,
        /// Its path.
        path: PathId,
    },
    /// The peer does not have this address any more. A later path may have the same number.
    PeerRemoved(IpAddr),
    /// The peer removed one of several paths to this address. A later path may have the same number.
    PeerPairRemoved {
        /// The address.
        address: IpAddr,
        /// The path.
        path: PathId,
    },
    /// The peer asked for this primary path. It is used as soon as its address is confirmed.
    PeerPrimary {
        /// The address.
        address: IpAddr,
        /// Its path.
        path: PathId,
    },
    /// The peer knows this address of this endpoint now.
    LocalAdded(IpAddr),
    /// Follows [`AddressEvent::LocalAdded`] if the endpoints did not negotiate paths that differ by the UDP port alone
    /// ([`crate::Extensions::port_pairs`]). The peer then keeps one port for each address (RFC 6951 §5.1). If address translators give this
    /// address and another one of this endpoint the same public address, the peer sends to one of the two alone.
    LocalMayShare(IpAddr),
    /// The peer does not use this address of this endpoint any more.
    LocalRemoved(IpAddr),
    /// The peer refused to add or delete this address. No further request is sent before the application changes its addresses again.
    LocalRefused {
        /// The address.
        address: IpAddr,
        /// The code of the error cause (RFC 5061 §4.3); 0 if the peer named none.
        cause: u16,
    },
    /// The peer does not recognize ASCONF although it offered it: no requests are sent any more.
    NotSupported,
}

/// A change of authentication (RFC 4895, RFC 6458 §6.1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthenticationEvent {
    /// The peer signs with the shared key of this identifier from now on (`SCTP_AUTH_NEW_KEY`). At first, the peer is expected to use
    /// the same key as this endpoint.
    NewKey(u16),
    /// The peer does not support authenticated chunks (`SCTP_AUTH_NO_AUTH`), which
    /// [`crate::AuthenticationConfig::required`] allows: no chunk is authenticated.
    NotSupported,
}

/// A message that was acknowledged completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The identifier that `send` returned.
    pub message: MessageId,
    /// The stream of the message.
    pub stream: StreamId,
    /// The application's number for the message: [`crate::SendOptions::context`].
    pub context: u64,
}

/// A message that was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The identifier that `send` returned.
    pub message: MessageId,
    /// The stream of the message.
    pub stream: StreamId,
    /// The application's number for the message: [`crate::SendOptions::context`].
    pub context: u64,
    /// Whether any part of the message was sent: if so, the peer may have received it.
    pub sent: bool,
}

/// An event for the endpoint that routes packets to the association: pass each one to [`crate::Endpoint::handle_event`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// The peer restarted (RFC 9260 §5.2.4 A).
    PeerRestarted {
        /// The association's new verification tag.
        local_tag: VerificationTag,
        /// The only address of the peer, until others are added.
        remote: SocketAddr,
    },
    /// The peer has this address in addition.
    PeerAddressAdded(SocketAddr),
    /// The peer does not have this address any more (RFC 5061 §5.3 F13).
    PeerAddressRemoved(IpAddr),
    /// The addresses and UDP ports of the peer that have a path, now that these changed. Only an association that negotiated port pairs
    /// ([`crate::Extensions::port_pairs`]) sends this event.
    PeerPorts(Vec<SocketAddr>),
    /// The host at this address, which the peer listed, has no part in the association. Set-up chunks from there are for another
    /// association.
    PeerAddressDenied(SocketAddr),
    /// The association has ended and its id may be forgotten.
    Closed,
    /// The association has ended by a graceful shutdown (RFC 9260 §9.2): for a while the endpoint answers late packets of the peer
    /// accordingly.
    ShutDown {
        /// The peer's verification tag.
        peer_tag: VerificationTag,
    },
}

/// An error that the operating system reported for a packet on a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A packet was too large (EMSGSIZE, ICMP): the largest IP packet that may pass, in bytes, if known.
    #[error("the packet is too large for the path")]
    TooLarge(Option<u16>),
    /// The system itself reports that the destination cannot be reached: an interface or a route is gone. Do not report ICMP messages
    /// as this error, because anybody can send them (RFC 6951 §5.5): see [`crate::IcmpMessage`].
    #[error("the system has no route to the destination")]
    Unreachable,
    /// The layer below closed its connection, as DTLS does with close_notify: no packet can be sent any more, so that the association ends
    /// at once.
    #[error("the layer below closed its connection")]
    Closed,
    /// The layer below carries the packets of the path over another route now, as ICE does below DTLS. The path begins anew (RFC 8261 §6.1):
    /// congestion window, RTT and path MTU are those of a new path, a heartbeat measures it, and chunks in flight are retransmitted without
    /// being counted as lost.
    #[error("the path leads over another route")]
    RouteChanged,
}

/// A packet that the driver must send for the endpoint itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The local address to send from, if the packet that this answers named one.
    pub source: Option<std::net::IpAddr>,
    /// The destination: address and UDP port (0 without encapsulation).
    pub destination: SocketAddr,
    /// The SCTP packet.
    pub packet: Bytes,
}
