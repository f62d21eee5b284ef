//! Datagrams as the sockets below an endpoint take and give them: batches to send, and receive buffers.

use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{Config, Dscp, EcnCodepoint, LowerLayer};
use bytes::Bytes;
use quinn_udp::RecvMeta;

use crate::datagram_socket::Transmit;
use crate::pool::Pool;

/// The layer below SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// UDP datagrams (RFC 6951): need no privilege and pass network address translators.
    #[default]
    Udp,
    /// Directly over IP, as protocol 132. Opening the socket needs root or `CAP_NET_RAW`. If the kernel's SCTP module is
    /// loaded, it receives the same packets and aborts associations that it does not know: unload the module. Programs on
    /// one machine share its addresses, but not SCTP ports: an endpoint ignores packets for ports that are not its own.
    /// Connecting to a port without a listener therefore times out instead of being refused.
    RawIp,
}

/// Adapts settings to the sockets. Over UDP, a layer of the application may lie between.
pub(crate) fn fit_transport(config: &mut Config, transport: Transport) {
    match (transport, config.lower_layer) {
        (Transport::RawIp, _) => config.lower_layer = LowerLayer::Ip,
        (Transport::Udp, LowerLayer::Ip) => config.lower_layer = LowerLayer::Udp,
        (Transport::Udp, _) => {}
    }
}

/// Receive buffers of one call, each large enough for a batch of generic receive offload.
pub(crate) const RECEIVE_BUFFERS: usize = 8;
pub(crate) const RECEIVE_BUFFER_LEN: usize = 1 << 16;
/// The largest UDP datagram, and the largest batch for segmentation offload, in bytes (65,535 less the IPv6 and UDP headers).
pub(crate) const MAX_BATCH: usize = 65_535 - 48;

/// A batch of datagrams to one destination; the caller holds their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) len: usize,
    /// The length of each datagram but the last; equal to `len` for a single datagram.
    pub(crate) segment: usize,
    /// Whether IP may fragment the packet; allowed only for batches of one datagram.
    pub(crate) may_fragment: bool,
    /// The codepoint of all datagrams of the batch.
    pub(crate) ecn: EcnCodepoint,
    pub(crate) dscp: Dscp,
    /// Bytes that the socket has accepted: a socket with little free buffer can accept a part of a batch.
    pub(crate) sent: usize,
}

impl Outgoing {
    /// The batch that the core has written.
    pub(crate) fn of(transmit: &anabranch_proto::Transmit) -> Self {
        Self {
            source: transmit.source,
            destination: transmit.destination,
            len: transmit.len,
            segment: transmit.segment_size.unwrap_or(transmit.len).max(1),
            may_fragment: transmit.may_fragment,
            ecn: transmit.ecn,
            dscp: transmit.dscp,
            sent: 0,
        }
    }

    /// The end of the next call's datagrams, of which one call takes at most `most` and no more than [`MAX_BATCH`] bytes. An encrypted batch
    /// is longer than the batch that the core made.
    pub(crate) fn next_end(&self, most: usize) -> usize {
        let fit = (MAX_BATCH / self.segment.max(1)).max(1);
        self.len.min(self.sent + most.clamp(1, fit) * self.segment)
    }

    /// The datagrams up to `end` that have not been sent yet; `bytes` are those of the whole batch.
    pub(crate) fn transmit<'a>(&self, bytes: &'a [u8], end: usize) -> Transmit<'a> {
        let mut transmit = Transmit::new(self.destination, &bytes[self.sent..end]);
        transmit.source = self.source;
        transmit.ecn = self.ecn;
        transmit.segment = self.segment;
        transmit
    }
}

/// A received datagram without the headers below SCTP or DTLS. `P` holds its bytes: a slice of the receive buffer until they are kept.
#[derive(Clone, Debug)]
pub(crate) struct Datagram<P = Bytes> {
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: EcnCodepoint,
    pub(crate) payload: P,
}

impl<P> Datagram<P> {
    /// The same datagram, its bytes kept.
    pub(crate) fn keep(self, keep: impl FnOnce(P) -> Bytes) -> Datagram {
        Datagram {
            local: self.local,
            remote: self.remote,
            ecn: self.ecn,
            payload: keep(self.payload),
        }
    }
}

/// The receive buffers of a socket, reused by every call.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    pub(crate) bytes: Vec<u8>,
    pub(crate) meta: [RecvMeta; RECEIVE_BUFFERS],
    pub(crate) count: usize,
    /// The memory of packets that are kept.
    pub(crate) pool: Pool,
}

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; RECEIVE_BUFFERS * RECEIVE_BUFFER_LEN],
            meta: [RecvMeta::default(); RECEIVE_BUFFERS],
            count: 0,
            pool: Pool::default(),
        }
    }

    /// The number of buffers that the last call filled.
    pub(crate) fn filled(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 encrypted packets of 1,080 bytes are more than one system call takes: with all of them, it would report that a packet is larger than
    /// the path MTU.
    #[test]
    fn one_call_sends_no_more_than_a_udp_socket_takes() {
        let of = |segment, len, sent| Outgoing {
            source: None,
            destination: "127.0.0.1:1".parse().expect("an address"),
            len,
            segment,
            may_fragment: false,
            ecn: EcnCodepoint::NotEct,
            dscp: Dscp::default(),
            sent,
        };
        assert_eq!(of(1080, 64 * 1080, 0).next_end(64), 60 * 1080);
        assert_eq!(of(1080, 64 * 1080, 60 * 1080).next_end(64), 64 * 1080);
        assert_eq!(of(1080, 64 * 1080, 0).next_end(4), 4 * 1080);
        assert_eq!(of(65_535, 65_535, 0).next_end(64), 65_535, "a single datagram");
        assert_eq!(of(100, 250, 200).next_end(0), 250, "at least one");
    }
}
