//! SCTP over DTLS (RFC 8261): the endpoint of a session, and its one association.

use std::fmt;
use std::net::SocketAddr;

use anabranch_dtls::OVERHEAD;
use anabranch_proto::{
    Association, AssociationId, Config, ConnectError, ConnectOptions, EcnCodepoint, Endpoint, Event,
    Handling, LowerLayer, ReconfigurationConfig, Timestamp,
};
use bytes::Bytes;

use crate::channels::Channels;
use crate::session_config::SessionError;

/// The SCTP port of this side (RFC 8841 §5).
pub(super) const SCTP_PORT: u16 = 5000;
/// The address of the peer in SCTP's eyes: DTLS carries the packets, whatever the address is (RFC 8261 §5).
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 5000);
/// Streams to the peer (RFC 8831 §6.2).
const STREAMS: u16 = 65_535;
/// The largest IP packet: path MTU discovery must not find a larger one, because Chromium ends the connection if a DTLS record has more
/// than 2,048 bytes, whatever the path carries.
const LARGEST_PACKET: u16 = 1500;
/// The most datagrams of a batch: a UDP socket takes at most 65,507 bytes in one call.
const MOST_IN_BATCH: usize = 65_507 / LARGEST_PACKET as usize;

/// The SCTP of a session.
pub(super) struct Stack {
    endpoint: Endpoint,
    association: Option<(AssociationId, Box<Association>)>,
    /// The packets of a batch.
    buffer: Vec<u8>,
}

impl Stack {
    /// With these settings, except those that WebRTC and DTLS fix.
    pub(super) fn new(mut config: Config) -> Result<Self, SessionError> {
        config.lower_layer = LowerLayer::Dtls { overhead: OVERHEAD };
        config.path_mtu_limit = config.path_mtu_limit.min(LARGEST_PACKET);
        config.local_addresses.clear();
        config.dynamic_addresses = None;
        config.reconfiguration = ReconfigurationConfig::default();
        config.streams.outbound = STREAMS;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| SessionError::Random(error.to_string()))?;
        let sctp = |error: &dyn fmt::Display| SessionError::Sctp(error.to_string());
        let mut endpoint = Endpoint::new(config, seed).map_err(|error| sctp(&error))?;
        endpoint.listen(SCTP_PORT).map_err(|error| sctp(&error))?;
        Ok(Self {
            endpoint,
            association: None,
            buffer: Vec::new(),
        })
    }

    /// The association, if it has begun.
    pub(super) fn association(&self) -> Option<&Association> {
        self.association.as_ref().map(|(_, association)| &**association)
    }

    /// The same, to change it.
    pub(super) fn association_mut(&mut self) -> Option<&mut Association> {
        self.association
            .as_mut()
            .map(|(_, association)| &mut **association)
    }

    /// Begins the association, unless the peer has begun it (RFC 9260 §5.2.1).
    pub(super) fn connect(&mut self, now: Timestamp, port: u16) -> Result<(), ConnectError> {
        if self.association.is_none() {
            let options = ConnectOptions::default().local_port(SCTP_PORT);
            let (id, association) = self.endpoint.connect(now, PEER, port, options)?;
            self.adopt(now, id, association);
        }
        Ok(())
    }

    fn adopt(&mut self, now: Timestamp, id: AssociationId, mut association: Box<Association>) {
        Channels::prepare(&mut association, now);
        self.association = Some((id, association));
    }

    /// A packet of the peer arrived. Returns the answer to it, if the endpoint and not the association answers.
    pub(super) fn handle_packet(&mut self, now: Timestamp, packet: Bytes) -> Option<Bytes> {
        match self
            .endpoint
            .handle_datagram(now, None, PEER, packet, EcnCodepoint::NotEct)
        {
            Handling::Reply(reply) => return Some(reply.packet),
            Handling::Deliver(id, inbound) => {
                if let Some((_, association)) = self.association.as_mut().filter(|(own, _)| *own == id) {
                    association.handle_packet(now, inbound);
                }
            }
            // A session has one association.
            Handling::Accept(id, association) if self.association.is_none() => {
                self.adopt(now, id, association);
            }
            Handling::Accept(id, mut association) => {
                association.refuse(now);
                let mut packet = Vec::new();
                let abort = association.poll_transmit(now, &mut packet, 1);
                while let Some(event) = association.poll_endpoint_event() {
                    self.endpoint.handle_event(now, id, event);
                }
                return abort.map(|abort| Bytes::copy_from_slice(&packet[..abort.len]));
            }
            Handling::Done => {}
        }
        None
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if let Some(association) = self.association_mut()
            && association.poll_timeout().is_some_and(|due| due <= now)
        {
            association.handle_timeout(now);
        }
    }

    /// The next timeout: of the association, or the one of the channels, if that is sooner.
    pub(super) fn poll_timeout(&self, channels: Option<Timestamp>) -> Option<Timestamp> {
        let timeouts = [self.association()?.poll_timeout(), channels];
        timeouts.into_iter().flatten().min()
    }

    /// The next event of the association.
    pub(super) fn poll_event(&mut self, now: Timestamp) -> Option<Event> {
        let (id, association) = self.association.as_mut()?;
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(now, *id, event);
        }
        association.poll_event()
    }

    /// The next packets to be sent, as many as one batch of at most `max_datagrams` can take.
    pub(super) fn poll_packets(
        &mut self,
        now: Timestamp,
        max_datagrams: usize,
    ) -> Option<impl Iterator<Item = &[u8]>> {
        let (_, association) = self.association.as_mut()?;
        let burst = association.burst_limit().datagrams;
        let most = max_datagrams.min(burst).clamp(1, MOST_IN_BATCH);
        self.buffer.clear();
        let packets = association.poll_transmit(now, &mut self.buffer, most)?;
        let segment = packets.segment_size.unwrap_or(packets.len).max(1);
        Some(self.buffer[..packets.len].chunks(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that connects from this SCTP port, as far as it gets. Returns its events.
    fn connect(stack: &mut Stack, now: Timestamp, port: u16) -> Vec<Event> {
        let mut endpoint = Endpoint::new(Config::default(), [port as u8; 32]).unwrap();
        let options = ConnectOptions::default().local_port(port);
        let (_, mut association) = endpoint.connect(now, PEER, SCTP_PORT, options).unwrap();
        let mut packet = Vec::new();
        while let Some(sent) = association.poll_transmit(now, &mut packet, 1) {
            let answer = stack.handle_packet(now, Bytes::copy_from_slice(&packet[..sent.len]));
            let packets = stack.poll_packets(now, 1).into_iter().flatten();
            let answers = answer.into_iter().chain(packets.map(Bytes::copy_from_slice));
            for answer in answers.collect::<Vec<_>>() {
                let handling = endpoint.handle_datagram(now, None, PEER, answer, EcnCodepoint::NotEct);
                if let Handling::Deliver(_, inbound) = handling {
                    association.handle_packet(now, inbound);
                }
            }
            packet.clear();
        }
        std::iter::from_fn(|| association.poll_event()).collect()
    }

    #[test]
    fn a_second_association_is_refused_with_an_abort() {
        let now = Timestamp::ZERO;
        let mut stack = Stack::new(Config::default()).unwrap();
        let first = connect(&mut stack, now, 5000);
        assert!(matches!(first[0], Event::Established { .. }), "{first:?}");
        let second = connect(&mut stack, now, 5001);
        let is_end = |event: &Event| matches!(event, Event::Closed(_));
        assert!(second.iter().any(is_end), "{second:?}");
    }
}
