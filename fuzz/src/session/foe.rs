//! The hostile peer of a session. It has the right keys: its ICE and its DTLS are genuine, and the input chooses the SCTP packets in them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anabranch_datachannel::Datagram;
use anabranch_dtls::{Certificate, DtlsConfig, Effects, Peers};
use anabranch_proto::Timestamp;
use anabranch_wire::Tsn;
use anabranch_wire::chunk::kind;
use bytes::Bytes;
use is::stun::{StunMessage, StunPacket};
use is::{Candidate, IceAgent, IceAgentEvent, IceCreds, Protocol};

use super::stun::{self, Context, Transaction};
use crate::input::Input;
use crate::node::Sent;
use crate::peer::{Peer, as_nr_sack, chunk};

/// The payload protocol identifier of DCEP (RFC 8832).
const DCEP: u32 = 50;
/// The most streams of one flood.
const MOST_STREAMS: u16 = 512;
/// The longest packet of several chunks.
const PACKET: usize = 1200;

/// The next message of a stream, and the next fragment of it.
#[derive(Clone, Copy, Default)]
struct Next {
    message: u32,
    fragment: u32,
}

/// See the [module's documentation](self).
pub(super) struct Foe {
    ice: IceAgent,
    credentials: IceCreds,
    /// The credentials of the victim.
    theirs: IceCreds,
    /// The addresses of the victim and of this peer.
    addresses: [SocketAddr; 2],
    dtls: Peers<()>,
    /// A second DTLS client at the same address, with a certificate that the victim does not expect.
    other: Option<Peers<()>>,
    pub(super) is_client: bool,
    /// Whether DTLS is complete.
    is_connected: bool,
    sctp: Peer,
    choice: u8,
    next: BTreeMap<(u16, bool), Next>,
    /// Whether it acknowledges data, and answers checks.
    pub(super) acknowledges: bool,
    pub(super) answers_checks: bool,
    /// The result that it returns to requests for resets.
    pub(super) result: Option<u32>,
    /// The latest transactions of the victim's checks.
    transactions: VecDeque<Transaction>,
    /// The number of the next stranger's address.
    stranger: u32,
    /// The last packet, for retransmissions.
    last: Vec<u8>,
    pub(super) sent: Vec<Datagram>,
    /// Streams that it used, and bytes of labels, protocols and fragments that it sent.
    pub(super) streams: BTreeSet<u16>,
    pub(super) texts: usize,
    pub(super) parts: usize,
}

/// The origin of the ICE library's time.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn instant(time: Timestamp) -> Instant {
    *ORIGIN + Duration::from_nanos(time.0)
}

impl Foe {
    pub(super) fn new(
        now: Timestamp,
        credentials: IceCreds,
        certificate: &Certificate,
        addresses: [SocketAddr; 2],
        choice: u8,
    ) -> Self {
        let mut ice = IceAgent::new(credentials.clone());
        let candidate = Candidate::host(addresses[1], "udp").expect("an address");
        ice.add_local_candidate(candidate);
        ice.handle_timeout(instant(now));
        let mut sctp = Peer::new(5000, Tsn(1000));
        sctp.interleaves = choice & 0x40 != 0;
        Self {
            ice,
            theirs: credentials.clone(),
            credentials,
            addresses,
            dtls: Peers::new(DtlsConfig::new(certificate.clone())),
            other: None,
            is_client: false,
            is_connected: false,
            sctp,
            choice,
            next: BTreeMap::new(),
            acknowledges: true,
            answers_checks: true,
            result: Some(1),
            transactions: VecDeque::new(),
            stranger: 0,
            last: Vec::new(),
            sent: Vec::new(),
            streams: BTreeSet::new(),
            texts: 0,
            parts: 0,
        }
    }

    /// Both descriptions are known.
    pub(super) fn begin(&mut self, now: Timestamp, theirs: IceCreds, controlling: bool) {
        self.ice.set_controlling(controlling);
        self.ice.set_remote_credentials(theirs.clone());
        self.theirs = theirs;
        let candidate = Candidate::host(self.addresses[0], "udp").expect("an address");
        self.ice.add_remote_candidate(candidate);
        self.ice.handle_timeout(instant(now));
        self.after_ice(now);
    }

    /// ICE begins again, with new credentials if there are some.
    pub(super) fn restart(&mut self, now: Timestamp, own: Option<IceCreds>, theirs: IceCreds) {
        let controlling = self.ice.controlling();
        if let Some(own) = own {
            self.ice.ice_restart(own.clone(), true);
            self.credentials = own;
        }
        self.begin(now, theirs, controlling);
    }

    pub(super) fn credentials(&self) -> IceCreds {
        self.credentials.clone()
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Timestamp> {
        let ice = self.ice.poll_timeout().filter(|_| self.answers_checks);
        let ice = ice.map(|at| Timestamp::ZERO + at.saturating_duration_since(*ORIGIN));
        ice.into_iter().chain(self.dtls.timeout()).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.answers_checks {
            self.ice.handle_timeout(instant(now));
            self.after_ice(now);
        }
        self.on_dtls(now, |dtls, effects| dtls.handle_timeout(now, effects));
    }

    pub(super) fn handle(&mut self, now: Timestamp, datagram: &Datagram) {
        let (source, destination) = (datagram.source, datagram.destination);
        let bytes = &datagram.bytes;
        let Some(first) = bytes.first() else { return };
        if *first <= 3 {
            if let Some(transaction) = stun::transaction(bytes).filter(|_| bytes.starts_with(&[0, 1])) {
                self.transactions.truncate(7);
                self.transactions.push_front(transaction);
            }
            if let Ok(message) = StunMessage::parse(bytes)
                && self.answers_checks
            {
                let packet = StunPacket {
                    proto: Protocol::Udp,
                    source,
                    destination,
                    message,
                };
                self.ice.handle_packet(instant(now), packet);
                self.after_ice(now);
            }
            return;
        }
        self.on_dtls(now, |dtls, effects| dtls.handle_datagram(now, (), bytes, effects));
        if let Some(other) = &mut self.other {
            let mut effects = Effects::default();
            other.handle_datagram(now, (), bytes, &mut effects);
            self.put(&effects);
        }
    }

    fn after_ice(&mut self, now: Timestamp) {
        while let Some(transmit) = self.ice.poll_transmit() {
            self.sent.push(Datagram {
                source: transmit.source,
                destination: transmit.destination,
                bytes: transmit.contents.into(),
            });
        }
        while let Some(event) = self.ice.poll_event() {
            if matches!(event, IceAgentEvent::NominatedSend { .. }) && self.is_client {
                self.on_dtls(now, |dtls, effects| dtls.connect(now, (), effects));
            }
        }
    }

    fn put(&mut self, effects: &Effects<()>) {
        let [destination, source] = self.addresses;
        self.sent.extend(effects.datagrams().map(|(_, bytes)| Datagram {
            source,
            destination,
            bytes: bytes.to_vec(),
        }));
    }

    fn on_dtls(&mut self, now: Timestamp, call: impl FnOnce(&Peers<()>, &mut Effects<()>)) {
        let mut effects = Effects::default();
        call(&self.dtls, &mut effects);
        self.put(&effects);
        if !effects.established.is_empty()
            && !std::mem::replace(&mut self.is_connected, true)
            && self.is_client
        {
            self.send_init(now);
        }
        let packets: Vec<Bytes> = effects
            .packets()
            .map(|(_, packet)| Bytes::copy_from_slice(packet))
            .collect();
        for packet in packets {
            self.on_packet(now, packet);
        }
    }

    fn send_init(&mut self, now: Timestamp) {
        let init = self.init(kind::INIT);
        let packet = self.sctp.packet(0, &init);
        self.send_packet(now, &packet);
    }

    fn init(&self, kind: u8) -> Vec<u8> {
        let streams = [1024, u16::MAX, 10, 1024][usize::from(self.choice & 3)];
        let a_rwnd = [100_000, 1500, 10_000_000, 100_000][usize::from(self.choice >> 2 & 3)];
        self.sctp.init(kind, 0, streams, a_rwnd, &[])
    }

    /// A packet of the victim arrived.
    fn on_packet(&mut self, now: Timestamp, packet: Bytes) {
        self.sctp.seen.clear();
        self.sctp.observe(Sent {
            source: None,
            destination: self.addresses[1],
            datagram: packet,
        });
        let mut seen = std::mem::take(&mut self.sctp.seen);
        seen.dedup();
        for kind in seen {
            let mut zero = Input(&[0]);
            let answer = match kind {
                kind::INIT => self.init(kind::INIT_ACK),
                kind::INIT_ACK => chunk(kind::COOKIE_ECHO, 0, &self.sctp.cookie),
                kind::COOKIE_ECHO => chunk(kind::COOKIE_ACK, 0, &[]),
                kind::DATA | kind::I_DATA if self.acknowledges => self.sctp.sack(&mut zero),
                kind::HEARTBEAT if self.acknowledges => self.sctp.heartbeat_ack(&mut zero),
                kind::RE_CONFIG => match self.result {
                    Some(result) => self.sctp.family.answer(result),
                    None => continue,
                },
                kind::SHUTDOWN if self.acknowledges => chunk(kind::SHUTDOWN_ACK, 0, &[]),
                kind::SHUTDOWN_ACK if self.acknowledges => chunk(kind::SHUTDOWN_COMPLETE, 0, &[]),
                _ => continue,
            };
            self.send(now, &answer);
        }
    }

    /// Sends chunks in one packet.
    pub(super) fn send(&mut self, now: Timestamp, chunks: &[u8]) {
        let packet = self.sctp.packet(self.sctp.endpoint_tag, chunks);
        self.send_packet(now, &packet);
    }

    /// Sends chunks, as many in each packet as fit.
    fn send_all(&mut self, now: Timestamp, chunks: Vec<Vec<u8>>) {
        let mut waiting: Vec<u8> = Vec::new();
        for chunk in chunks {
            if !waiting.is_empty() && waiting.len() + chunk.len() > PACKET {
                self.send(now, &waiting);
                waiting.clear();
            }
            waiting.extend_from_slice(&chunk);
        }
        self.send(now, &waiting);
    }

    fn send_packet(&mut self, now: Timestamp, packet: &[u8]) {
        self.last = packet.to_vec();
        let mut effects = Effects::default();
        self.dtls.send(now, (), packet, &mut effects);
        self.put(&effects);
    }

    /// A fragment of user data. `flags`: 1 ends its message, 2 begins it, 4 is unordered.
    fn data(&mut self, stream: u16, ppid: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let unordered = flags & 4 != 0;
        let next = self.next.entry((stream, unordered)).or_default();
        if flags & 2 != 0 {
            next.fragment = 0;
        }
        let numbers = *next;
        if flags & 1 != 0 {
            next.message = next.message.wrapping_add(1);
        }
        next.fragment += 1;
        let mut value = self.sctp.tsn.0.to_be_bytes().to_vec();
        self.sctp.tsn = self.sctp.tsn.next();
        value.extend_from_slice(&stream.to_be_bytes());
        let kind = if self.sctp.interleaves {
            value.extend_from_slice(&[0; 2]);
            value.extend_from_slice(&numbers.message.to_be_bytes());
            let last = if flags & 2 != 0 { ppid } else { numbers.fragment };
            value.extend_from_slice(&last.to_be_bytes());
            kind::I_DATA
        } else {
            value.extend_from_slice(&(numbers.message as u16).to_be_bytes());
            value.extend_from_slice(&ppid.to_be_bytes());
            kind::DATA
        };
        value.extend_from_slice(payload);
        self.streams.insert(stream);
        if flags & 3 != 3 {
            self.parts += payload.len();
        }
        chunk(kind, flags & 7, &value)
    }

    fn dcep_open(&mut self, stream: u16, bits: u8, label: &[u8]) -> Vec<u8> {
        let kind = [0, 1, 2, 0x80, 0x81, 0x82, 3, 0][usize::from(bits & 7)];
        let mut message = vec![3, kind, 0, bits, 0, 0, 0, bits >> 3];
        let protocol: &[u8] = if bits & 0x40 != 0 { b"protocol" } else { b"" };
        let wrong = u16::from(bits & 0xb8 == 0x98);
        message.extend_from_slice(&(label.len() as u16 + wrong).to_be_bytes());
        message.extend_from_slice(&(protocol.len() as u16).to_be_bytes());
        message.extend_from_slice(label);
        message.extend_from_slice(protocol);
        self.texts += message.len();
        self.data(stream, DCEP, 3 | bits >> 5 & 4, &message)
    }
}

/// A stream: one of the first ones, or any.
fn stream(input: &mut Input<'_>) -> u16 {
    match input.u8() {
        few @ 0..0xf0 => u16::from(few & 15),
        _ => input.u16(),
    }
}

/// The commands of the input.
impl Foe {
    pub(super) fn command(&mut self, now: Timestamp, command: u8, input: &mut Input<'_>) {
        let more = command >> 5;
        match command & 15 {
            0 => {
                let (stream, bits) = (stream(input), input.u8());
                let len = [0, 1, 20, 1100][usize::from(more & 3)];
                let label = if more & 4 != 0 {
                    input.take(len)
                } else {
                    &[b'x'; 1100][..len]
                };
                let open = self.dcep_open(stream, bits, label);
                self.send(now, &open);
            }
            1 => {
                // Any message of DCEP.
                let stream = stream(input);
                let len = usize::from(input.u8() & 31);
                let message = if more & 1 == 0 { &[2][..] } else { input.take(len) };
                let message = if message.is_empty() { &[0] } else { message };
                self.texts += message.len();
                let data = self.data(stream, DCEP, 3 | more & 4, message);
                self.send(now, &data);
            }
            2 => self.messages(now, more, input),
            3 => self.fragments(now, more, input),
            4 => self.flood(now, more, input),
            5 => {
                let count = [0, 1, 2, 40][usize::from(more & 3)];
                let first = stream(input);
                let streams: Vec<u16> = (0..count).map(|number| first.wrapping_add(number)).collect();
                let last = self.sctp.tsn.minus(1);
                let reset = self.sctp.family.reset(last, more & 4 == 0, &streams);
                if streams.is_empty() {
                    self.next.clear();
                }
                for stream in streams {
                    self.next.remove(&(stream, false));
                    self.next.remove(&(stream, true));
                }
                self.send(now, &reset);
            }
            6 => {
                let last = self.sctp.tsn.minus(1);
                let reconfig = self.sctp.family.reconfig(last, input);
                self.send(now, &reconfig);
            }
            7 => match more {
                0 => self.acknowledges ^= true,
                1 => self.answers_checks ^= true,
                2 => self.result = None,
                _ => self.result = Some(u32::from(input.u8() & 7)),
            },
            8 => {
                let (kind, flags, len) = (input.u8(), input.u8(), input.u8());
                self.note(len.into());
                let any = chunk(kind, flags, input.take(len.into()));
                self.send(now, &any);
            }
            9 => {
                let sack = if more & 1 == 0 {
                    self.sctp.sack(input)
                } else {
                    self.sctp.gap_sack(input)
                };
                self.send(now, &as_nr_sack(sack, self.choice));
            }
            10 => {
                let forward = self.sctp.forward(input);
                self.send(now, &forward);
            }
            11 => {
                let data = self.sctp.data(input);
                self.note(data.len());
                self.send(now, &data);
            }
            12 => self.on_control(now, more, input),
            13 => self.on_connection(now, more, input),
            14 => {
                // The last packet again, or any plaintext.
                let packet = match more {
                    0 => self.last.clone(),
                    _ => input.take(usize::from(more) * 8).to_vec(),
                };
                self.send_packet(now, &packet);
            }
            _ => {
                let heartbeat = self.sctp.heartbeat_ack(input);
                self.send(now, &heartbeat);
            }
        }
    }

    /// Bytes that may be text or parts of messages.
    fn note(&mut self, len: usize) {
        self.texts += len;
        self.parts += len;
    }

    fn messages(&mut self, now: Timestamp, more: u8, input: &mut Input<'_>) {
        let (stream, bits) = (stream(input), input.u8());
        let ppid = [51, 53, 56, 57, 0, 54, 52, 53][usize::from(bits & 7)];
        let len = [1, 100, 1000, 5000][usize::from(bits >> 3 & 3)];
        let count = [1, 1, 10, 60][usize::from(more & 3)];
        let data = (0..count)
            .map(|_| self.data(stream, ppid, 3 | more & 4, &vec![bits; len]))
            .collect();
        self.send_all(now, data);
    }

    /// Fragments of one message, most often without its end.
    fn fragments(&mut self, now: Timestamp, more: u8, input: &mut Input<'_>) {
        let (stream, bits) = (stream(input), input.u8());
        let ppid = [DCEP, 51, 53, DCEP][usize::from(bits & 3)];
        let len = [1, 1000, 1150, 8000][usize::from(bits >> 2 & 3)];
        let count = [1, 2, 10, 60][usize::from(bits >> 4 & 3)];
        let begins = bits & 0x40 == 0;
        let ends = bits & 0x80 != 0;
        let data = (0..count)
            .map(|number| {
                let flags = u8::from(begins && number == 0) * 2 + u8::from(ends && number + 1 == count);
                self.data(stream, ppid, flags | more & 4, &vec![3; len])
            })
            .collect();
        self.send_all(now, data);
    }

    /// The same on many streams.
    fn flood(&mut self, now: Timestamp, more: u8, input: &mut Input<'_>) {
        let first = stream(input);
        let (count, step) = (u16::from(input.u8()) * 2, 1 + u16::from(input.u8() & 3));
        let streams = (0..count.min(MOST_STREAMS)).map(|number| first.wrapping_add(number * step));
        let mut chunks = Vec::new();
        for stream in streams.clone() {
            chunks.push(match more {
                0 | 1 => self.dcep_open(stream, more << 6, b"label"),
                2 => self.data(stream, 51, 3, b"text"),
                3 => self.data(stream, DCEP, 2, &[3, 0, 1, 0]),
                4 => self.data(stream, DCEP, 3, &[2]),
                5 => self.data(stream, 53, 2, &[7; 900]),
                6 => self.data(stream, DCEP, 7, &[3]),
                _ => self.dcep_open(stream, 0, &[b'l'; 1000]),
            });
        }
        if more & 1 != 0 {
            let listed: Vec<u16> = streams.take(250).collect();
            let last = self.sctp.tsn.minus(1);
            for stream in &listed {
                self.next.remove(&(*stream, false));
                self.next.remove(&(*stream, true));
            }
            chunks.push(self.sctp.family.reset(last, true, &listed));
        }
        self.send_all(now, chunks);
    }

    /// Chunks that set up, restart or end an association.
    fn on_control(&mut self, now: Timestamp, more: u8, input: &mut Input<'_>) {
        let before = self.sctp.tag;
        match more {
            0 => self.send(now, &chunk(kind::SHUTDOWN, 0, &self.sctp.highest.0.to_be_bytes())),
            1 => self.send(now, &chunk(kind::SHUTDOWN_ACK, 0, &[])),
            2 => self.send(now, &chunk(kind::ABORT, 0, &[])),
            3 => self.send(now, &chunk(kind::COOKIE_ECHO, 0, &self.sctp.cookie)),
            4 => self.send(now, &chunk(kind::ERROR, 0, input.take(12))),
            5 => {
                // Another association beside the first.
                let port = self.sctp.port;
                self.sctp.port = 5001;
                self.send_init(now);
                self.sctp.port = port;
            }
            _ => {
                // A restart, or the same INIT again.
                if more == 6 {
                    self.sctp.tag = self.sctp.tag.wrapping_add(1);
                    self.next.clear();
                }
                self.send_init(now);
                if input.u8() & 1 != 0 {
                    self.sctp.tag = before;
                }
            }
        }
    }

    /// Ends and beginnings of DTLS connections, and records in clear text.
    fn on_connection(&mut self, now: Timestamp, more: u8, input: &mut Input<'_>) {
        match more {
            0 => self.on_dtls(now, |dtls, effects| dtls.close_all(now, effects)),
            1 | 2 => self.on_dtls(now, |dtls, effects| dtls.renew(now, (), None, effects)),
            3 | 4 => {
                let certificate = super::certificate(2);
                let other = self
                    .other
                    .get_or_insert_with(|| Peers::new(DtlsConfig::new(certificate)));
                let mut effects = Effects::default();
                other.connect(now, (), &mut effects);
                self.put(&effects);
            }
            _ => {
                // A record in clear text (RFC 9147 §4).
                let kind = 20 + (input.u8() & 7);
                let len = usize::from(input.u8() & 63);
                let value = input.take(len);
                let mut bytes = vec![
                    kind,
                    254,
                    253,
                    0,
                    more & 1,
                    0,
                    0,
                    0,
                    0,
                    0,
                    more,
                    0,
                    value.len() as u8,
                ];
                bytes.extend_from_slice(value);
                let [destination, source] = self.addresses;
                self.sent.push(Datagram {
                    source,
                    destination,
                    bytes,
                });
            }
        }
    }

    /// STUN messages with the right credentials, from one address or from many.
    pub(super) fn checks(&mut self, more: u8, input: &mut Input<'_>) {
        let username = format!("{}:{}", self.theirs.ufrag, self.credentials.ufrag);
        let bits = input.u8();
        let count = [1, 1, 1, 200][usize::from(bits & 3)];
        let [destination, own] = self.addresses;
        for _ in 0..count {
            self.stranger = self.stranger.wrapping_add(1);
            let fresh = SocketAddr::new(
                IpAddr::V4((0x0b00_0000 + self.stranger).into()),
                9 + (bits >> 6) as u16,
            );
            let at = usize::from(bits >> 3 & 7);
            let known = self.transactions.get(at).or(self.transactions.front());
            let context = Context {
                username: &username,
                passwords: [&self.theirs.pass, &self.credentials.pass],
                transaction: known.copied().unwrap_or([bits; 12]),
                fresh,
            };
            let bytes = match more {
                0 | 1 => stun::usual(stun::REQUEST, more == 1, &context),
                2 => stun::usual(stun::SUCCESS, false, &context),
                _ => stun::any(input, &context),
            };
            let source = if bits & 4 == 0 { fresh } else { own };
            self.sent.push(Datagram {
                source,
                destination,
                bytes,
            });
        }
    }
}
