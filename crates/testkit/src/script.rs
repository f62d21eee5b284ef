//! Hand-made packets against one endpoint: the test plays the peer, chunk by chunk, and checks every answer.
//!
//! ```no_run
//! # use anabranch_testkit::Script;
//! # use anabranch_wire::chunk::Chunk;
//! let mut script = Script::new(Default::default(), 1);
//! script.set_up(); // The four packets of RFC 9260 §5.1, the peer beginning.
//! script.send(&[Chunk::ShutdownAck]);
//! script.expect_silence();
//! ```

use core::time::Duration;
use std::collections::VecDeque;
use std::fmt::Write;
use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, SocketAddr};

use anabranch_netsim::{Ecn, Generator, Host, InterfaceId, Node, Packet, PcapngWriter};
use anabranch_proto::{
    Association, AssociationId, Config, ConnectOptions, Dscp, Event, LowerLayer, Timestamp, Tsn,
    VerificationTag,
};
use anabranch_wire::chunk::{Chunk, CookieEcho, Data, EncodeChunk, Init, InitAck};
use anabranch_wire::packet::{CommonHeader, Packet as SctpPacket, PacketWriter};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use anabranch_wire::{Ppid, Ssn, StreamId, crc32c};
use bytes::Bytes;

use crate::arrows::{describe_chunk, describe_packet};
use crate::capture::capture_file;
use crate::pair::PORT;
use crate::talker::{Message, Talker};

/// The maximum length of a hand-made packet.
const MAX_PACKET: usize = 65_000;

/// A packet that the endpoint sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromEndpoint {
    /// When the packet left.
    pub at: Timestamp,
    /// The local address that the packet leaves from; unspecified if routing chooses.
    pub source: IpAddr,
    /// The destination.
    pub destination: SocketAddr,
    /// The ports and the verification tag.
    pub header: CommonHeader,
    /// Whether the checksum is zero, with [`LowerLayer::Dtls`] (RFC 9653).
    pub zero_checksum: bool,
    /// The ECN codepoint.
    pub ecn: Ecn,
    /// The Differentiated Services codepoint.
    pub dscp: Dscp,
    /// All chunks of the packet.
    pub chunks: Vec<Chunk>,
}

impl FromEndpoint {
    /// The only chunk of the packet.
    ///
    /// # Panics
    /// If there are several chunks.
    #[must_use]
    pub fn only(self) -> Chunk {
        assert_eq!(self.chunks.len(), 1, "one chunk, not {:?}", self.chunks);
        self.chunks.into_iter().next().expect("there is one")
    }

    /// The user data of the packet.
    pub fn data(&self) -> impl Iterator<Item = &Data> {
        self.chunks.iter().filter_map(|chunk| {
            if let Chunk::Data(data) = chunk {
                Some(data)
            } else {
                None
            }
        })
    }
}

/// One endpoint and a hand-made peer. See the [module's documentation](self).
pub struct Script {
    host: Host,
    now: Timestamp,
    /// The endpoint's address and UDP port, the destination of the peer's packets.
    pub local: SocketAddr,
    /// The peer's address and UDP port, the source of the peer's packets.
    pub remote: SocketAddr,
    /// The peer's SCTP port.
    pub port: u16,
    /// The endpoint's SCTP port.
    pub endpoint_port: u16,
    /// The tag that the peer chose. The endpoint has to put it into its packets.
    pub tag: VerificationTag,
    /// The tag that the endpoint chose. The peer puts it into its packets.
    pub endpoint_tag: VerificationTag,
    /// The TSN of the next chunk of [`Script::data`].
    pub tsn: Tsn,
    /// The endpoint's initial TSN.
    pub endpoint_tsn: Tsn,
    /// The parameters of the endpoint's INIT ACK.
    pub endpoint_parameters: Parameters,
    /// The a_rwnd of the peer's INIT or INIT ACK, in bytes.
    pub a_rwnd: u32,
    /// The ECN codepoint of the peer's packets.
    pub ecn: Ecn,
    /// The number of outbound and of inbound streams in the peer's INIT or INIT ACK.
    pub streams: u16,
    answers: VecDeque<FromEndpoint>,
    log: Option<String>,
    capture: Option<(PcapngWriter<BufWriter<File>>, InterfaceId)>,
}

impl Script {
    /// An endpoint that listens on [`PORT`], and a peer at another address.
    ///
    /// # Panics
    /// If a setting is out of range.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        let udp_port = if config.lower_layer.is_over_udp() { 9899 } else { 0 };
        let accepts_zero = matches!(config.lower_layer, LowerLayer::Dtls { .. });
        let random = Generator::of_process(seed, "script").bytes();
        let mut host = Host::new(config, udp_port, random).expect("the settings are in range");
        host.endpoint_mut().listen(PORT).expect("not port 0");
        host.run(Talker::default(), None);
        Self {
            host,
            now: Timestamp::from_millis(1000),
            local: SocketAddr::new(IpAddr::from([10, 0, 0, 1]), udp_port),
            remote: SocketAddr::new(IpAddr::from([10, 0, 0, 2]), udp_port),
            port: 7000,
            endpoint_port: PORT,
            tag: VerificationTag(0x00c0_ffee),
            endpoint_tag: VerificationTag(0),
            tsn: Tsn(1000),
            endpoint_tsn: Tsn(0),
            endpoint_parameters: Parameters::empty(),
            a_rwnd: 100_000,
            ecn: Ecn::NotEct,
            streams: 10,
            answers: VecDeque::new(),
            log: Some(String::new()),
            // The judge of the captures knows no zero checksums.
            capture: capture_file(seed).filter(|_| !accepts_zero).map(|file| {
                let mut writer = PcapngWriter::new(file, 0).expect("a capture can be written");
                let interface = writer
                    .add_interface("endpoint")
                    .expect("a capture can be written");
                (writer, interface)
            }),
        }
    }

    /// The same without a log, for tests with very many packets.
    #[must_use]
    pub fn without_log(mut self) -> Self {
        self.log = None;
        self
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The endpoint's host.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The newest association of the endpoint, if there is one.
    #[must_use]
    pub fn id(&self) -> Option<AssociationId> {
        self.host.association_ids().last()
    }

    /// The newest association of the endpoint.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn association(&self) -> &Association {
        self.id()
            .and_then(|id| self.host.association(id))
            .expect("there is an association")
    }

    /// Calls `act` with the newest association, and collects the packets that it sends.
    ///
    /// # Panics
    /// If there is none.
    pub fn act<T>(&mut self, act: impl FnOnce(&mut Association, Timestamp) -> T) -> T {
        let id = self.id().expect("there is an association");
        let result = act(self.host.association_mut(id).expect("it is there"), self.now);
        self.collect();
        result
    }

    /// The events since the last call, without `Readable` and `Writable`.
    pub fn events(&mut self) -> Vec<Event> {
        self.talker()
            .events
            .drain(..)
            .map(|(_, _, event)| event)
            .collect()
    }

    /// The complete messages that arrived since the last call.
    pub fn messages(&mut self) -> Vec<Message> {
        self.talker().inbox.drain(..).collect()
    }

    /// The endpoint's application.
    ///
    /// # Panics
    /// If the test gave the host another application.
    pub fn talker(&mut self) -> &mut Talker {
        self.host.application_mut().expect("the host runs a talker")
    }
}

/// Packets of the peer.
impl Script {
    /// Sends a packet with these chunks and the endpoint's tag.
    pub fn send(&mut self, chunks: &[Chunk]) {
        self.send_tagged(self.endpoint_tag, chunks);
    }

    /// Sends a packet with these chunks and this tag.
    pub fn send_tagged(&mut self, tag: VerificationTag, chunks: &[Chunk]) {
        let packet = self.packet(tag, chunks);
        self.send_raw(packet);
    }

    /// Sends these bytes unchanged.
    pub fn send_raw(&mut self, datagram: impl Into<Bytes>) {
        let datagram = datagram.into();
        self.note("peer → endpoint", &describe_packet(&datagram));
        let packet = Packet {
            source: self.remote,
            destination: self.local,
            payload: datagram.into(),
            may_fragment: true,
            ecn: self.ecn,
            dscp: Dscp::default(),
        };
        self.host.handle_packet(self.now, packet);
        self.collect();
    }

    /// A packet with these chunks, this tag and a correct checksum.
    #[must_use]
    pub fn packet(&self, tag: VerificationTag, chunks: &[impl EncodeChunk]) -> Vec<u8> {
        let header = CommonHeader {
            source_port: self.port,
            destination_port: self.endpoint_port,
            verification_tag: tag,
        };
        packet_of(header, chunks)
    }

    /// A packet with these bytes, valid or not, after its common header, and a correct checksum.
    #[must_use]
    pub fn packet_of_bytes(&self, tag: VerificationTag, bytes: &[u8]) -> Vec<u8> {
        let mut packet = self.packet(tag, &[] as &[Chunk]);
        packet.extend_from_slice(bytes);
        let checksum = crc32c(&packet);
        packet[8..12].copy_from_slice(&checksum.to_le_bytes());
        packet
    }

    /// A complete ordered message in one DATA chunk with the next TSN.
    pub fn data(&mut self, stream: u16, ssn: u16, payload: impl Into<Bytes>) -> Chunk {
        let tsn = self.tsn;
        self.tsn = tsn.next();
        Chunk::Data(Data {
            tsn,
            stream: StreamId(stream),
            ssn: Ssn(ssn),
            ppid: Ppid(0),
            unordered: false,
            beginning: true,
            ending: true,
            immediate: false,
            payload: payload.into(),
        })
    }

    /// The peer's INIT with these parameters.
    #[must_use]
    pub fn init(&self, parameters: Parameters) -> Init {
        Init {
            initiate_tag: self.tag,
            a_rwnd: self.a_rwnd,
            outbound_streams: self.streams,
            inbound_streams: self.streams,
            initial_tsn: self.tsn,
            parameters,
        }
    }

    /// The peer's INIT ACK with this cookie.
    #[must_use]
    pub fn init_ack(&self, cookie: &'static [u8]) -> InitAck {
        let parameters = ParametersBuilder::new()
            .push(&Parameter::StateCookie(Bytes::from_static(cookie)))
            .finish();
        let Init {
            initiate_tag,
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn,
            ..
        } = self.init(Parameters::empty());
        InitAck {
            initiate_tag,
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn,
            parameters,
        }
    }
}

/// Answers of the endpoint, and virtual time.
impl Script {
    /// The next packet that the endpoint sent, if there is one.
    pub fn next_answer(&mut self) -> Option<FromEndpoint> {
        self.answers.pop_front()
    }

    /// The next packet that the endpoint sent.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn expect(&mut self) -> FromEndpoint {
        self.answers.pop_front().expect("an answer from the endpoint")
    }

    /// The TSNs of the DATA that the endpoint sent since the answers were last taken, in order.
    pub fn sent_tsns(&mut self) -> Vec<Tsn> {
        let packets = self.answers.drain(..);
        packets
            .flat_map(|packet| packet.data().map(|data| data.tsn).collect::<Vec<_>>())
            .collect()
    }

    /// The only chunk of the next packet that the endpoint sent.
    ///
    /// # Panics
    /// If there is none, or more than one in the packet.
    #[track_caller]
    pub fn expect_chunk(&mut self) -> Chunk {
        self.expect().only()
    }

    /// Checks that the endpoint has not sent anything more.
    ///
    /// # Panics
    /// If it has.
    #[track_caller]
    pub fn expect_silence(&mut self) {
        if let Some(answer) = self.answers.front() {
            let chunks: Vec<_> = answer.chunks.iter().map(describe_chunk).collect();
            panic!("silence, not {}", chunks.join(", "));
        }
    }

    /// Discards the packets that the endpoint has sent so far.
    pub fn skip_answers(&mut self) {
        self.answers.clear();
    }

    /// Advances the time and handles the timeouts in between.
    ///
    /// # Panics
    /// If a timer fires without effect.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.host.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.host.handle_timeout(self.now);
            self.collect();
            let next = self.host.poll_timeout();
            assert!(
                next.is_none_or(|next| next > self.now),
                "due at {}, handled, due at {next:?}",
                self.now
            );
        }
        self.now = end;
    }

    /// Advances the time to the endpoint's next timeout, handles it, and returns the time that passed.
    ///
    /// # Panics
    /// If no timer is running.
    pub fn advance_to_timeout(&mut self) -> Duration {
        let due = self.host.poll_timeout().expect("a timer is running");
        let duration = due.saturating_duration_since(self.now);
        self.advance(duration);
        duration
    }

    /// The packets sent so far in both directions, one per line.
    #[must_use]
    pub fn log(&self) -> &str {
        self.log.as_deref().unwrap_or_default()
    }

    fn collect(&mut self) {
        let layer = self.host.endpoint_mut().config().lower_layer;
        let accepts_zero = matches!(layer, LowerLayer::Dtls { .. });
        while let Some(packet) = self.host.poll_transmit(self.now) {
            let datagram = packet.payload.into_sctp();
            self.note("endpoint → peer", &describe_packet(&datagram));
            if let Some((writer, interface)) = &mut self.capture {
                writer
                    .write(
                        *interface,
                        self.now,
                        packet.source,
                        packet.destination,
                        &datagram,
                        None,
                    )
                    .expect("a capture can be written");
            }
            let zero_checksum = accepts_zero && datagram[8..12] == [0; 4];
            let parsed = if zero_checksum {
                SctpPacket::parse_unchecked(datagram)
            } else {
                SctpPacket::parse(datagram)
            };
            let parsed = parsed.expect("the endpoint's packets are right");
            let chunks = parsed.chunks().map(|raw| {
                Chunk::decode(raw.expect("the endpoint's chunks have their length")).expect("and can be read")
            });
            self.answers.push_back(FromEndpoint {
                at: self.now,
                source: packet.source.ip(),
                destination: packet.destination,
                header: parsed.header,
                zero_checksum,
                ecn: packet.ecn,
                dscp: packet.dscp,
                chunks: chunks.collect(),
            });
        }
    }

    fn note(&mut self, direction: &str, what: &str) {
        if let Some(log) = &mut self.log {
            let _ = writeln!(log, "{} {direction}  {what}", self.now);
        }
    }
}

/// Set-up with hand-made packets (RFC 9260 §5.1).
impl Script {
    /// Sets up an association that the peer starts.
    ///
    /// # Panics
    /// If the endpoint does not answer as RFC 9260 says.
    pub fn set_up(&mut self) {
        self.set_up_with(Parameters::empty());
    }

    /// Sets up an association that the peer starts, with these parameters in its INIT.
    ///
    /// # Panics
    /// If the endpoint does not answer as RFC 9260 says.
    pub fn set_up_with(&mut self, parameters: Parameters) {
        // peer → INIT → endpoint
        self.send_tagged(VerificationTag(0), &[Chunk::Init(self.init(parameters))]);
        // endpoint → INIT ACK → peer
        let answer = self.expect();
        assert_eq!(answer.header.verification_tag, self.tag);
        let Chunk::InitAck(ack) = answer.only() else {
            panic!("INIT ACK")
        };
        self.endpoint_tag = ack.initiate_tag;
        self.endpoint_tsn = ack.initial_tsn;
        self.endpoint_parameters = ack.parameters.clone();
        // peer → COOKIE ECHO → endpoint
        self.send(&[Chunk::CookieEcho(CookieEcho {
            cookie: state_cookie(&ack),
        })]);
        // endpoint → COOKIE ACK → peer
        assert_eq!(self.expect_chunk(), Chunk::CookieAck);
        self.expect_silence();
    }

    /// Starts an association from the endpoint to the peer, and returns its INIT.
    ///
    /// # Panics
    /// If the endpoint refuses, or sends a different chunk.
    pub fn connect(&mut self) -> Init {
        self.connect_with(ConnectOptions::default())
    }

    /// As [`Script::connect`], with these options.
    ///
    /// # Panics
    /// If the endpoint refuses, or sends a different chunk.
    pub fn connect_with(&mut self, options: ConnectOptions) -> Init {
        let (now, remote, port) = (self.now, self.remote, self.port);
        self.host.connect(now, remote, port, options).expect("connect");
        self.collect();
        let answer = self.expect();
        assert_eq!(
            answer.header.verification_tag,
            VerificationTag(0),
            "INIT has tag 0 (§8.5.1)"
        );
        self.endpoint_port = answer.header.source_port;
        let Chunk::Init(init) = answer.only() else {
            panic!("INIT")
        };
        self.endpoint_tag = init.initiate_tag;
        self.endpoint_tsn = init.initial_tsn;
        init
    }

    /// Sets up an association that the endpoint starts.
    ///
    /// # Panics
    /// If the endpoint does not answer as RFC 9260 says.
    pub fn set_up_from_endpoint(&mut self) {
        // endpoint → INIT → peer
        self.connect();
        // peer → INIT ACK → endpoint
        self.send(&[Chunk::InitAck(self.init_ack(b"a cookie"))]);
        // endpoint → COOKIE ECHO → peer
        let answer = self.expect();
        assert_eq!(answer.header.verification_tag, self.tag);
        let expected = Chunk::CookieEcho(CookieEcho {
            cookie: Bytes::from_static(b"a cookie"),
        });
        assert_eq!(answer.only(), expected);
        // peer → COOKIE ACK → endpoint
        self.send(&[Chunk::CookieAck]);
        self.expect_silence();
    }
}

/// A packet with this header, these chunks and a correct checksum.
#[must_use]
pub fn packet_of(header: CommonHeader, chunks: &[impl EncodeChunk]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut writer = PacketWriter::new(&mut buffer, header, MAX_PACKET);
    for chunk in chunks {
        writer.push(chunk);
    }
    let _ = writer.finish();
    buffer
}

/// The state cookie in an INIT ACK.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn state_cookie(ack: &InitAck) -> Bytes {
    let parameters = ack
        .parameters
        .iter()
        .map(|raw| Parameter::decode(raw.expect("a parameter")));
    let cookie = parameters
        .filter_map(Result::ok)
        .find_map(|parameter| match parameter {
            Parameter::StateCookie(cookie) => Some(cookie),
            _ => None,
        });
    cookie.expect("a state cookie")
}

impl Drop for Script {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the packets:\n{}", self.log());
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::AssociationState;

    use super::*;

    #[test]
    fn both_sides_can_connect() {
        let mut script = Script::new(Config::default(), 1);
        script.set_up();
        assert_eq!(script.association().state(), AssociationState::Established);
        let mut script = Script::new(Config::default(), 1);
        script.set_up_from_endpoint();
        assert_eq!(script.association().state(), AssociationState::Established);
        let events = script.events();
        let established = |event: &Event| {
            matches!(
                event,
                Event::Established {
                    outbound_streams: 10,
                    ..
                }
            )
        };
        assert!(events.iter().any(established), "{events:?}");
    }

    #[test]
    fn data_is_acknowledged_and_read() {
        let mut script = Script::new(Config::default(), 1);
        script.set_up();
        let (first, second) = (script.data(0, 0, "one"), script.data(0, 1, "two"));
        script.send(&[first]);
        script.send(&[second]);
        script.advance(Duration::from_millis(500));
        let answers: Vec<_> = core::iter::from_fn(|| script.next_answer())
            .flat_map(|answer| answer.chunks)
            .collect();
        let Some(Chunk::Sack(sack)) = answers.last() else {
            panic!("a SACK, not {answers:?}")
        };
        assert_eq!(sack.cumulative_tsn_ack, Tsn(1001));
        let read: Vec<_> = script
            .messages()
            .into_iter()
            .map(|message| message.bytes)
            .collect();
        assert_eq!(read, ["one", "two"]);
    }

    #[test]
    fn timeouts_are_handled_as_time_advances() {
        let mut script = Script::new(Config::default(), 1);
        script.connect();
        let waited = script.advance_to_timeout();
        assert_eq!(waited, Config::default().rto.initial, "T1-init");
        assert!(matches!(script.expect_chunk(), Chunk::Init(_)));
        script.advance(Duration::from_millis(10));
        script.expect_silence();
        assert!(script.log().contains("endpoint → peer  INIT tag="));
    }
}
