//! An endpoint after a valid set-up, and chunks written byte by byte: for hostile peers that send a great many packets. In contrast to
//! [`Script`], the packets are neither logged nor parsed.

use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{
    Association, AssociationId, Config, EcnCodepoint, Event, Handling, SendOptions, StreamId,
};
use anabranch_wire::chunk::{
    Chunk, EncodeChunk, GapAckBlock, NrSackWriter, ReConfig, SackWriter, experimental_kind, kind,
};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder, StreamList};
use anabranch_wire::{Tsn, VerificationTag};
use bytes::Bytes;

use crate::script::Script;
use crate::signature::{Signature, authentication_parameters};

/// The maximum length of the chunks of a packet, unless a single chunk is longer.
const PACKET: usize = 1200;

/// All extensions, but for those of [`FAMILY`].
const EXTENSIONS: [u8; 6] = [
    kind::FORWARD_TSN,
    kind::NR_SACK,
    kind::I_DATA,
    kind::I_FORWARD_TSN,
    experimental_kind::SELECTIVE_FORWARD_TSN,
    experimental_kind::FORWARD_PSN,
];

/// The identifier of a shared key, and its secret.
pub type Key<'a> = (u16, &'a [u8]);

/// Authenticated chunks, dynamic addresses and stream reconfiguration.
const FAMILY: [u8; 4] = [kind::AUTH, kind::ASCONF, kind::ASCONF_ACK, kind::RE_CONFIG];

/// The endpoint, with one association unless a shape makes more.
pub struct Victim {
    /// The endpoint, and what the peer knows of it.
    pub script: Script,
    /// Whether the application reads all messages at each [`Victim::drain`].
    pub reads: bool,
    /// Whether the application takes its events.
    pub polls: bool,
    /// The ECN codepoint of the peer's packets.
    pub ecn: EcnCodepoint,
    /// The peer's packets are signed.
    pub signature: Option<Signature>,
    /// Each packet comes from another address that is none of the peer's.
    pub wanders: bool,
    /// The number of packets that arrived.
    arrived: u32,
    buffer: Vec<u8>,
    /// Bytes that the endpoint sent since the last call.
    pub sent: usize,
    /// Addresses that the peer added, deleted or made primary.
    pub addresses_changed: u32,
}

impl Victim {
    /// Sets up an association with a peer that also offers these chunk types.
    pub fn with(config: Config, more: &[u8]) -> Self {
        Self::with_addresses(config, more, &[])
    }

    /// The same with a peer that has more addresses.
    pub fn with_addresses(config: Config, more: &[u8], addresses: &[[u8; 4]]) -> Self {
        Self::set_up(config, more, addresses, 1000, None)
    }

    /// The same with a peer that has all extensions and the most streams, demands signatures of these chunk types, and signs its packets
    /// with this key.
    pub fn with_family(config: Config, addresses: &[[u8; 4]], signed: &[u8], key: Key<'_>) -> Self {
        Self::set_up(config, &FAMILY, addresses, u16::MAX, Some((signed, key)))
    }

    /// Sets up an association with a peer that also offers these chunk types, has these further addresses and this many streams, and, if
    /// `signed` is given, demands signatures of these chunk types and signs its own packets with this key.
    ///
    /// # Panics
    /// If the endpoint does not answer as RFC 9260 says.
    pub fn set_up(
        config: Config,
        more: &[u8],
        addresses: &[[u8; 4]],
        streams: u16,
        signed: Option<(&[u8], Key<'_>)>,
    ) -> Self {
        let mut parameters = ParametersBuilder::new();
        for address in addresses {
            parameters = parameters.push(&Parameter::Ipv4((*address).into()));
        }
        let kinds = [&EXTENSIONS, more].concat();
        parameters = parameters.push(&Parameter::SupportedExtensions(kinds.into()));
        if let Some((types, _)) = signed {
            parameters = authentication_parameters(parameters, types);
        }
        let parameters = parameters.finish();
        let mut victim = Self::with_parameters(config, streams, parameters.clone());
        let answered = &victim.script.endpoint_parameters;
        victim.signature = signed.map(|(_, (id, secret))| Signature::new(&parameters, answered, id, secret));
        victim
    }

    /// Sets up an association with a peer that has this many streams and sends these parameters.
    ///
    /// # Panics
    /// If the endpoint does not answer as RFC 9260 says.
    #[must_use]
    pub fn with_parameters(config: Config, streams: u16, parameters: Parameters) -> Self {
        let mut script = Script::new(config, 1);
        script.a_rwnd = 100_000_000;
        script.streams = streams;
        script.set_up_with(parameters);
        script.talker().reading = false;
        Self {
            script,
            reads: false,
            polls: true,
            ecn: EcnCodepoint::NotEct,
            signature: None,
            wanders: false,
            arrived: 0,
            buffer: Vec::new(),
            sent: 0,
            addresses_changed: 0,
        }
    }

    fn id(&self) -> AssociationId {
        self.script.id().expect("there is an association")
    }

    /// The association.
    #[must_use]
    pub fn association(&self) -> &Association {
        self.script.association()
    }

    /// The association.
    ///
    /// # Panics
    /// If it has ended.
    pub fn association_mut(&mut self) -> &mut Association {
        let id = self.id();
        self.script.host_mut().association_mut(id).expect("it is there")
    }

    /// A datagram arrives.
    pub fn handle(&mut self, datagram: Bytes) {
        let (now, mut remote, local) = (self.script.now(), self.script.remote, self.script.local.ip());
        let ecn = self.ecn;
        self.arrived += 1;
        if self.wanders {
            remote.set_ip(IpAddr::V4((0x0b00_0000 + self.arrived).into()));
        }
        let host = self.script.host_mut();
        match host
            .endpoint_mut()
            .handle_datagram(now, Some(local), remote, datagram, ecn)
        {
            Handling::Deliver(id, inbound) => {
                host.association_mut(id)
                    .expect("it is there")
                    .handle_packet(now, inbound);
            }
            Handling::Done | Handling::Reply(_) => {}
            Handling::Accept(..) => panic!("no shape sets up an association"),
        }
    }

    /// Takes the association's packets and events.
    pub fn drain(&mut self) {
        let now = self.script.now();
        let id = self.id();
        let mut events = Vec::new();
        let mut buffer = core::mem::take(&mut self.buffer);
        let (reads, polls) = (self.reads, self.polls);
        let association = self.association_mut();
        while reads && association.recv(now).is_some() {}
        let mut sent = 0;
        while let Some(transmit) = association.poll_transmit(now, &mut buffer, 8) {
            sent += transmit.len;
            buffer.clear();
        }
        let mut changed = 0;
        while polls && let Some(event) = association.poll_event() {
            changed += u32::from(matches!(event, Event::Addresses(_)));
        }
        while let Some(event) = association.poll_endpoint_event() {
            events.push(event);
        }
        for event in events {
            self.script.host_mut().endpoint_mut().handle_event(now, id, event);
        }
        self.buffer = buffer;
        self.sent += sent;
        self.addresses_changed += changed;
    }

    /// Hands over the packets that prepare a shape.
    pub fn play(&mut self, chunks: Vec<Vec<u8>>) {
        for datagram in self.packets(chunks) {
            self.handle(datagram);
            self.drain();
        }
    }

    /// The application sends this many messages of this length, and they leave.
    pub fn send(&mut self, count: usize, len: usize) {
        self.send_on(count, len, |_| 0);
    }

    /// The same, each message on a stream that its number gives.
    pub fn send_on(&mut self, count: usize, len: usize, stream: impl Fn(usize) -> u16) {
        let now = self.script.now();
        let message = Bytes::from(vec![7; len]);
        for number in 0..count {
            let stream = StreamId(stream(number));
            let association = self.association_mut();
            let sent = association.send(now, stream, message.clone(), SendOptions::default());
            sent.expect("the buffer has room");
        }
        self.drain();
        let stats = self.association().stats();
        assert_eq!(
            (stats.queued_bytes, stats.outstanding_bytes),
            (0, count * len),
            "all of it left"
        );
    }

    /// Sends these chunks, as many per packet as fit.
    #[must_use]
    pub fn packets(&self, chunks: Vec<Vec<u8>>) -> Vec<Bytes> {
        let mut packets = Vec::new();
        let mut waiting: Vec<u8> = Vec::new();
        for chunk in chunks {
            if !waiting.is_empty() && waiting.len() + chunk.len() > PACKET {
                packets.push(self.packet(&core::mem::take(&mut waiting)));
            }
            waiting.extend_from_slice(&chunk);
        }
        packets.push(self.packet(&waiting));
        packets
    }

    /// Sends these chunks, one per packet.
    #[must_use]
    pub fn alone(&self, chunks: Vec<Vec<u8>>) -> Vec<Bytes> {
        chunks.iter().map(|chunk| self.packet(chunk)).collect()
    }

    /// A packet with these chunks, signed if the peer signs.
    #[must_use]
    pub fn packet(&self, chunks: &[u8]) -> Bytes {
        let signed = self.signature.as_ref().map(|signature| signature.before(chunks));
        let chunks = signed.as_deref().unwrap_or(chunks);
        self.script
            .packet_of_bytes(self.script.endpoint_tag, chunks)
            .into()
    }

    /// A TSN of the peer: number 0 is its initial TSN.
    #[must_use]
    pub fn tsn(&self, number: u32) -> Tsn {
        self.script.tsn.plus(number)
    }

    /// A SACK of the first `taken` TSNs, with gap ack blocks of these offsets.
    #[must_use]
    pub fn sack(&self, taken: u32, blocks: &[(u16, u16)]) -> Vec<u8> {
        let mut sack = Vec::new();
        SackWriter {
            cumulative_tsn_ack: self.script.endpoint_tsn.plus(taken).minus(1),
            a_rwnd: 100_000_000,
            gap_ack_blocks: &gap_blocks(blocks),
            duplicate_tsns: &[],
            packets: 0,
        }
        .encode(&mut sack);
        padded(sack)
    }

    /// An NR-SACK of the first `taken` TSNs, with these non-renegable blocks.
    #[must_use]
    pub fn nr_sack(&self, taken: u32, blocks: &[(u16, u16)]) -> Vec<u8> {
        let mut sack = Vec::new();
        NrSackWriter {
            cumulative_tsn_ack: self.script.endpoint_tsn.plus(taken).minus(1),
            a_rwnd: 100_000_000,
            renegable: &[],
            nonrenegable: &gap_blocks(blocks),
            duplicate_tsns: &[],
            packets: 0,
        }
        .encode(&mut sack);
        padded(sack)
    }

    /// Sets up another association from this address.
    pub fn set_up_from(&mut self, remote: SocketAddr) {
        self.script.remote = remote;
        self.script.set_up();
    }

    /// An INIT that lists the peer's address this many times.
    #[must_use]
    pub fn init_listing(&self, address: [u8; 4], times: usize) -> Bytes {
        self.init_with(&vec![Parameter::Ipv4(address.into()); times])
    }

    /// An INIT with these parameters.
    #[must_use]
    pub fn init_with(&self, parameters: &[Parameter]) -> Bytes {
        let init = Chunk::Init(self.script.init(list(parameters)));
        self.script.packet(VerificationTag(0), &[init]).into()
    }
}

/// Encoded parameters.
#[must_use]
pub fn list(parameters: &[Parameter]) -> Parameters {
    let builder = parameters
        .iter()
        .fold(ParametersBuilder::new(), ParametersBuilder::push);
    builder.finish()
}

/// Gap ack blocks with these offsets.
#[must_use]
pub fn gap_blocks(blocks: &[(u16, u16)]) -> Vec<GapAckBlock> {
    let block = |&(start, end): &(u16, u16)| GapAckBlock { start, end };
    blocks.iter().map(block).collect()
}

fn padded(mut chunk: Vec<u8>) -> Vec<u8> {
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

/// A chunk with its header and padding.
#[must_use]
pub fn chunk(kind: u8, flags: u8, value: &[&[u8]]) -> Vec<u8> {
    let value = value.concat();
    let mut chunk = vec![kind, flags];
    chunk.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
    chunk.extend_from_slice(&value);
    padded(chunk)
}

/// DATA; `flags`: 1 ends its message, 2 begins it, 4 is unordered.
#[must_use]
pub fn data(tsn: Tsn, stream: u16, ssn: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let numbers = [stream.to_be_bytes(), ssn.to_be_bytes()].concat();
    chunk(
        kind::DATA,
        flags,
        &[&tsn.0.to_be_bytes(), &numbers, &[0; 4], payload],
    )
}

/// I-DATA of one byte: fragment `fsn` of message `mid`.
#[must_use]
pub fn i_data(tsn: Tsn, stream: u16, mid: u32, fsn: u32, flags: u8) -> Vec<u8> {
    let numbers = [tsn.0, u32::from(stream) << 16, mid, fsn].map(u32::to_be_bytes);
    chunk(kind::I_DATA, flags, &[&numbers.concat(), b"x"])
}

/// FORWARD-TSN with streams and SSNs.
#[must_use]
pub fn forward_tsn(tsn: Tsn, streams: &[(u16, u16)]) -> Vec<u8> {
    let listed = streams
        .iter()
        .flat_map(|(stream, ssn)| [stream.to_be_bytes(), ssn.to_be_bytes()]);
    let listed: Vec<u8> = listed.flatten().collect();
    chunk(kind::FORWARD_TSN, 0, &[&tsn.0.to_be_bytes(), &listed])
}

/// I-FORWARD-TSN with one unordered message of a stream.
#[must_use]
pub fn i_forward_tsn(tsn: Tsn, stream: u16, mid: u32) -> Vec<u8> {
    let entry = [u32::from(stream) << 16 | 1, mid].map(u32::to_be_bytes).concat();
    chunk(kind::I_FORWARD_TSN, 0, &[&tsn.0.to_be_bytes(), &entry])
}

/// A chunk in bytes, with its padding.
#[must_use]
pub fn encoded(chunk: &Chunk) -> Vec<u8> {
    let mut bytes = Vec::new();
    chunk.encode(&mut bytes);
    padded(bytes)
}

/// A RE-CONFIG with these parameters.
#[must_use]
pub fn reconfig(parameters: &[Parameter]) -> Vec<u8> {
    encoded(&Chunk::ReConfig(ReConfig {
        parameters: list(parameters),
    }))
}

/// The peer's request number `number` for a reset of its streams, with all data before this TSN.
#[must_use]
pub fn outgoing(victim: &Victim, number: u32, next: Tsn, streams: StreamList) -> Parameter {
    Parameter::OutgoingReset {
        request: victim.tsn(number).0,
        response: victim.script.endpoint_tsn.minus(1).0,
        last_tsn: next.minus(1),
        streams,
    }
}
