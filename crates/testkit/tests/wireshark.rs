//! The script for Wireshark (`wireshark/anabranch.lua`) with the real tshark: the fields of the experimental chunks and parameters, and SCTP
//! over UDP on any port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch_netsim::{PcapngWriter, write_ip_packet};
use anabranch_proto::Timestamp;
use anabranch_wire::chunk::{
    AckPolicy, Asconf, Chunk, CoopSack, Data, Dtls, EData, EIData, EncodeChunk, ForwardPsn, GapAckBlock,
    GapAckBlocks, IData, Init, MessageNumber, PathReport, PathReports, PathSequence, PathSequences,
    SelectiveForwardTsn,
};
use anabranch_wire::packet::{CommonHeader, Packet, PacketWriter};
use anabranch_wire::parameter::{
    KeyManagement, KeyManagementFlags, PairAction, Parameter, Parameters, ParametersBuilder,
};
use anabranch_wire::{Fsn, Mid, Ppid, Psn, Ssn, StreamId, Tsn, VerificationTag};
use bytes::Bytes;

/// An SCTP packet with one chunk, whose type number may be another one.
fn packet(chunk: &impl EncodeChunk, number: Option<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = CommonHeader {
        source_port: 7,
        destination_port: 5001,
        verification_tag: VerificationTag(0x1234_5678),
    };
    let mut writer = PacketWriter::new(&mut bytes, header, 1400);
    match number {
        None => writer.push(chunk),
        Some(number) => writer.push_as(number, chunk),
    }
    let _length = writer.finish();
    bytes
}

/// The packet with these bytes in place of its chunks.
fn with_chunks(packet: &[u8], chunks: &[u8]) -> Vec<u8> {
    let mut packet = [&packet[..12], chunks].concat();
    packet[8..12].fill(0);
    let checksum = anabranch_wire::crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

fn addresses(ports: [u16; 2]) -> [SocketAddr; 2] {
    [(1, ports[0]), (2, ports[1])].map(|(host, port)| SocketAddr::from(([10, 0, 0, host], port)))
}

/// UDP ports that no program has as its default.
const PORTS: [u16; 2] = [40_123, 33_071];

/// An IPv4 packet with this payload, in UDP unless the ports are 0.
fn ip_packet(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let [source, destination] = addresses(ports);
    write_ip_packet(&mut packet, source, destination, 0, payload);
    packet
}

struct Capture(PathBuf);

impl Capture {
    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("anabranch-{name}-{}.pcapng", std::process::id()))
    }

    /// A capture of these datagrams, as an endpoint writes it.
    fn new(name: &str, datagrams: &[Vec<u8>]) -> Self {
        let path = Self::path(name);
        let mut writer = PcapngWriter::new(std::fs::File::create(&path).unwrap(), 0).unwrap();
        let interface = writer.add_interface("test").unwrap();
        let [source, destination] = addresses(PORTS);
        for datagram in datagrams {
            writer
                .write(interface, Timestamp::ZERO, source, destination, datagram, None)
                .unwrap();
        }
        writer.flush().unwrap();
        Self(path)
    }

    /// A capture of these IP packets in the older format pcap.
    fn of_ip(name: &str, packets: &[Vec<u8>]) -> Self {
        // The magic number, version 2.4, no offset of time zones, no accuracy, the longest packet, LINKTYPE_RAW.
        let mut file: Vec<u8> = [0xA1B2_C3D4_u32, 0x0002_0004, 0, 0, 65_535, 101]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        for packet in packets {
            let len = packet.len() as u32;
            file.extend([0, 0, len, len].iter().flat_map(|word| word.to_be_bytes()));
            file.extend_from_slice(packet);
        }
        let path = Self::path(name);
        std::fs::write(&path, file).unwrap();
        Self(path)
    }

    /// The values of these fields, a line for each packet.
    fn fields(&self, options: &[&str], fields: &[&str]) -> Vec<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wireshark/anabranch.lua");
        let mut command = Command::new("tshark");
        command
            .arg("-X")
            .arg(format!("lua_script:{}", script.display()))
            .args(["-n", "-T", "fields", "-E", "separator=|", "-r"])
            .arg(&self.0)
            .args(options);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output().expect("tshark runs; scripts/setup installs it");
        let [text, errors] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
        assert!(!text.contains("Lua"), "{text}");
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn transmission(path: u8, number: u32) -> PathSequence {
    PathSequence {
        path,
        number: Psn::new(number),
    }
}

fn e_data() -> EData {
    EData {
        transmission: transmission(3, 70_000),
        policy: AckPolicy::Ranked(2),
        data: Data {
            tsn: Tsn(4_000_000_000),
            stream: StreamId(17),
            ssn: Ssn(65_535),
            ppid: Ppid(51),
            unordered: false,
            beginning: true,
            ending: false,
            immediate: true,
            payload: Bytes::from_static(b"abc"),
        },
    }
}

fn e_i_data(beginning: bool) -> EIData {
    EIData {
        transmission: transmission(1, 2),
        policy: AckPolicy::EveryPath,
        data: IData {
            tsn: Tsn(5),
            stream: StreamId(6),
            mid: Mid(7),
            ppid: Ppid(if beginning { 8 } else { 0 }),
            fsn: Fsn(if beginning { 0 } else { 9 }),
            unordered: true,
            beginning,
            ending: true,
            immediate: false,
            repair: false,
            payload: Bytes::from_static(b"z"),
        },
    }
}

fn coop_sack() -> CoopSack {
    let block = |start, end| GapAckBlock { start, end };
    let report = |path, number, blocks: Vec<GapAckBlock>| PathReport {
        cumulative: transmission(path, number),
        rwnd: 1000 + u32::from(path),
        gap_ack_blocks: GapAckBlocks::from_blocks(blocks),
    };
    CoopSack {
        timestamp_ms: 99,
        cumulative_tsn_ack: Tsn(500),
        a_rwnd: 65_536,
        paths: PathReports::from_reports([
            report(0, 100, vec![block(2, 3), block(5, 9)]),
            report(1, 200, vec![]),
        ]),
        duplicates: PathSequences::from_list([transmission(1, 150)]),
        renegable: Some(GapAckBlocks::from_blocks([block(4, 6)])),
    }
}

#[test]
fn every_field_of_the_experimental_chunks_is_shown() {
    let notice = |number| SelectiveForwardTsn {
        tsn: Tsn(11),
        stream: StreamId(12),
        number,
    };
    let capture = Capture::new(
        "experimental",
        &[
            packet(&e_data(), None),
            packet(&e_i_data(true), None),
            packet(&e_i_data(false), None),
            packet(&coop_sack(), None),
            packet(&notice(MessageNumber::Ssn(Ssn(13))), None),
            packet(&notice(MessageNumber::Mid(Mid(1 << 20))), None),
            packet(&ForwardPsn(transmission(2, 77)), None),
        ],
    );
    let data = [
        "chunk", "policy", "i_bit", "u_bit", "b_bit", "e_bit", "path", "psn", "tsn", "stream", "ssn", "mid",
        "ppid", "fsn", "payload",
    ]
    .map(|field| format!("anabranch.{field}"));
    let shown = capture.fields(&[], &data.each_ref().map(String::as_str));
    assert_eq!(
        shown[0],
        "E-DATA|6|1|0|1|0|3|70000|4000000000|17|65535||51||616263"
    );
    assert_eq!(shown[1], "E-I-DATA|1|0|1|1|1|1|2|5|6||7|8||7a");
    assert_eq!(shown[2], "E-I-DATA|1|0|1|0|1|1|2|5|6||7||9|7a");
    assert_eq!(shown[4], "Selective FORWARD-TSN||||||||11|12|13||||");
    assert_eq!(shown[5], "Selective FORWARD-TSN||||||||11|12||1048576|||");
    let sack = [
        "chunk",
        "timestamp",
        "cumulative_tsn_ack",
        "a_rwnd",
        "path",
        "cum_psn",
        "share",
        "gap_start",
        "gap_end",
        "duplicate",
        "renegable_start",
        "renegable_end",
        "new_cum_psn",
    ]
    .map(|field| format!("anabranch.{field}"));
    let shown = capture.fields(&[], &sack.each_ref().map(String::as_str));
    assert_eq!(
        shown[3],
        "COOP-SACK|99|500|65536|0,1,1|100,200|1000,1001|102,105|103,109|150|504|506|"
    );
    assert_eq!(shown[6], "FORWARD-PSN||||2||||||||77");
    let flaws = capture.fields(&["-Y", "anabranch.malformed || _ws.malformed"], &["frame.number"]);
    assert!(flaws.is_empty(), "{flaws:?}");
}

#[test]
fn all_chunks_of_a_packet_are_shown() {
    let [first, second] = [packet(&e_data(), None), packet(&coop_sack(), None)];
    let both = with_chunks(&first, &[&first[12..], &second[12..], &first[12..]].concat());
    let shown = Capture::new("several", &[both]).fields(&[], &["anabranch.chunk", "anabranch.psn"]);
    assert_eq!(shown, ["E-DATA,COOP-SACK,E-DATA|70000,70000"]);
}

fn init(parameters: Parameters) -> Init {
    Init {
        initiate_tag: VerificationTag(1),
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters,
    }
}

fn pair(action: PairAction) -> Parameter {
    Parameter::Pair {
        action,
        correlation: 70_000,
        pair: 4_000_000_000,
    }
}

/// Port pairs (`docs/PATHS.md`): the parameter of set-up, and the requests of an ASCONF.
#[test]
fn the_parameters_of_port_pairs_are_shown() {
    let offer = ParametersBuilder::new()
        .push(&Parameter::EcnCapable)
        .push(&Parameter::PortPairsSupported);
    let requests = ParametersBuilder::new()
        .push(&Parameter::Ipv4([0; 4].into()))
        .push(&pair(PairAction::Renew))
        .push(&pair(PairAction::Delete));
    let asconf = Asconf {
        serial: 9,
        parameters: requests.finish(),
    };
    let capture = Capture::new(
        "parameters",
        &[packet(&init(offer.finish()), None), packet(&asconf, None)],
    );
    let fields = ["parameter", "correlation_id", "pair"].map(|field| format!("anabranch.{field}"));
    let shown = capture.fields(&[], &fields.each_ref().map(String::as_str));
    assert_eq!(
        shown,
        [
            "Port Pairs Supported||",
            "Renew Pair,Delete Pair|70000,70000|4000000000,4000000000"
        ]
    );
    let flaws = capture.fields(&["-Y", "anabranch.malformed || _ws.malformed"], &["frame.number"]);
    assert!(flaws.is_empty(), "{flaws:?}");
}

/// Silence to strangers: the INIT has a hash of 16 bytes for each public key.
#[test]
fn the_hashes_of_known_keys_are_shown() {
    let offer = |hashes: &'static [u8]| {
        let parameter = Parameter::KnownKeys(Bytes::from_static(hashes));
        packet(&init(ParametersBuilder::new().push(&parameter).finish()), None)
    };
    let whole = Capture::new("known_keys", &[offer(&[0xAB; 32])]);
    let fields = ["anabranch.parameter", "anabranch.known_key"];
    assert_eq!(
        whole.fields(&[], &fields),
        [format!("Known Keys|{0},{0}", "ab".repeat(16))]
    );
    let filter = ["-Y", "anabranch.malformed"];
    assert!(whole.fields(&filter, &["frame.number"]).is_empty());
    let short = Capture::new("known_keys_short", &[offer(&[0xAB; 20]), offer(&[])]);
    assert_eq!(short.fields(&filter, &["frame.number"]), ["1", "2"]);
}

/// The clear part of protected packets (draft-ietf-tsvwg-sctp-dtls-chunk).
#[test]
fn dtls_chunks_and_their_parameter_are_shown() {
    let flags = KeyManagementFlags {
        restart: false,
        server: true,
        client: false,
    };
    let offer = KeyManagement::new(0x0102_0304, flags, &[192, 7]);
    let offer = ParametersBuilder::new().push(&Parameter::KeyManagement(offer));
    let dtls = Dtls {
        restart: false,
        epoch: 3,
        sequence: [0xAB, 0xCD],
        encrypted: Bytes::from_static(&[9; 21]),
    };
    let packets = [packet(&init(offer.finish()), None), packet(&dtls, None)];
    let capture = Capture::new("dtls", &packets);
    let fields = [
        "keys.tie_breaker",
        "keys.s_bit",
        "keys.c_bit",
        "keys.method",
        "dtls.epoch",
        "dtls.sequence",
    ];
    let fields = fields.map(|field| format!("anabranch.{field}"));
    let shown = capture.fields(&[], &fields.each_ref().map(String::as_str));
    let shown: Vec<_> = shown
        .iter()
        .map(|line| line.replace("True", "1").replace("False", "0"))
        .collect();
    assert_eq!(shown, ["0x01020304|1|0|192,7||", "||||3|0xabcd"]);
    let flaws = capture.fields(&["-Y", "anabranch.malformed"], &["frame.number"]);
    assert!(flaws.is_empty(), "{flaws:?}");
}

/// The script must report the parameters that the decoder refuses.
#[test]
fn parameters_of_a_wrong_length_are_malformed() {
    let kinds = [Parameter::PortPairsSupported, pair(PairAction::Delete)];
    let lists = kinds.iter().flat_map(|parameter| {
        (4..=16_usize).map(|length| {
            let mut bytes = ParametersBuilder::new()
                .push(parameter)
                .finish()
                .as_bytes()
                .to_vec();
            bytes.resize(length, 0);
            bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            bytes
        })
    });
    let refused = |list: &Vec<u8>| {
        let raw = Parameters::from_bytes(list.clone().into()).iter().next();
        Parameter::decode(raw.unwrap().unwrap()).is_err()
    };
    let lists: Vec<_> = lists.collect();
    let expected = (1..).zip(&lists).filter(|(_, list)| refused(list));
    let expected: Vec<String> = expected.map(|(frame, _)| frame.to_string()).collect();
    let packets = lists
        .into_iter()
        .map(|list| packet(&init(Parameters::from_bytes(list.into())), None));
    let capture = Capture::new("lengths", &packets.collect::<Vec<_>>());
    let shown = capture.fields(&["-Y", "anabranch.parameter"], &["frame.number"]);
    assert_eq!(shown.len(), 26);
    assert_eq!(
        capture.fields(&["-Y", "anabranch.malformed"], &["frame.number"]),
        expected
    );
}

/// PSNs have 24 bits and TSNs 32.
#[test]
fn numbers_of_blocks_wrap() {
    let mut sack = coop_sack();
    sack.cumulative_tsn_ack = Tsn(u32::MAX - 4);
    sack.paths = PathReports::from_reports([PathReport {
        cumulative: transmission(0, 0x00FF_FFFD),
        rwnd: 1,
        gap_ack_blocks: GapAckBlocks::from_blocks([GapAckBlock { start: 2, end: 5 }]),
    }]);
    let shown = Capture::new("wrap", &[packet(&sack, None)]).fields(
        &[],
        &["gap_start", "gap_end", "renegable_start", "renegable_end"]
            .map(|field| format!("anabranch.{field}"))
            .each_ref()
            .map(String::as_str),
    );
    assert_eq!(shown, ["16777215|2|4294967295|1"]);
}

/// Every chunk cut at every length, and with bytes after its end: the script must report those that the decoder refuses.
#[test]
fn chunks_whose_lengths_do_not_agree_are_malformed() {
    let notice = |number| SelectiveForwardTsn {
        tsn: Tsn(11),
        stream: StreamId(12),
        number,
    };
    let mut datagrams = Vec::new();
    for whole in [
        packet(&e_data(), None),
        packet(&e_i_data(false), None),
        packet(&coop_sack(), None),
        packet(&notice(MessageNumber::Ssn(Ssn(13))), None),
        packet(&notice(MessageNumber::Mid(Mid(14))), None),
        packet(&ForwardPsn(transmission(2, 77)), None),
    ] {
        let full = usize::from(u16::from_be_bytes([whole[14], whole[15]]));
        for length in 4..=full + 5 {
            let mut chunk = whole[12..].to_vec();
            chunk.resize(length, 0);
            chunk[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            chunk.resize(length.next_multiple_of(4), 0);
            datagrams.push(with_chunks(&whole, &chunk));
        }
    }
    // The chunk says that it has 60,000 path reports.
    let mut many = packet(&coop_sack(), None);
    many[12 + 16] = 0xEA;
    datagrams.push(with_chunks(&many, &many[12..]));
    let refused = |datagram: &Vec<u8>| {
        let parsed = Packet::parse(Bytes::copy_from_slice(datagram)).unwrap();
        parsed.chunks().any(|raw| Chunk::decode(raw.unwrap()).is_err())
    };
    let expected: Vec<String> = (1..)
        .zip(&datagrams)
        .filter(|(_, datagram)| refused(datagram))
        .map(|(frame, _)| frame.to_string())
        .collect();
    let capture = Capture::new("malformed", &datagrams);
    assert_eq!(
        capture
            .fields(&["-Y", "anabranch.chunk"], &["frame.number"])
            .len(),
        datagrams.len()
    );
    assert_eq!(
        capture.fields(&["-Y", "anabranch.malformed"], &["frame.number"]),
        expected
    );
}

/// IPv4 fragments the packet: the chunks are in the bytes that tshark reassembles, at offsets that no frame has.
#[test]
fn chunks_of_a_reassembled_packet_are_shown() {
    let mut long = e_data();
    long.data.payload = Bytes::from(vec![b'z'; 300]);
    let [first, second] = [
        packet(&long, None),
        packet(&ForwardPsn(transmission(2, 77)), None),
    ];
    let whole = ip_packet(
        PORTS,
        &with_chunks(&first, &[&first[12..], &second[12..]].concat()),
    );
    let (header, content) = whole.split_at(20);
    let fragment = |more: bool, at: usize, end: usize| {
        let mut fragment = [header, &content[at..end]].concat();
        fragment[2..4].copy_from_slice(&(20 + (end - at) as u16).to_be_bytes());
        let place = (at as u16 / 8) | (u16::from(more) << 13);
        fragment[6..8].copy_from_slice(&place.to_be_bytes());
        fragment
    };
    let capture = Capture::of_ip(
        "fragments",
        &[fragment(true, 0, 160), fragment(false, 160, content.len())],
    );
    let shown = capture.fields(
        &["-Y", "sctp"],
        &[
            "anabranch.chunk",
            "anabranch.tsn",
            "anabranch.new_cum_psn",
            "anabranch.malformed",
        ],
    );
    assert_eq!(shown, ["E-DATA,FORWARD-PSN|4000000000|77|"]);
}

/// A router need not quote the whole packet, so a chunk that the quote cuts off is not malformed.
#[test]
fn a_chunk_in_an_icmp_message_may_be_cut_off() {
    let quote = |chunk_bytes: usize| {
        let inner = ip_packet([0, 0], &packet(&e_data(), None));
        // Destination unreachable, fragmentation needed (RFC 792).
        let message = [&[3, 4, 0, 0, 0, 0, 0, 0], &inner[..20 + 12 + chunk_bytes]].concat();
        let mut packet = ip_packet([0, 0], &message);
        packet[9] = 1;
        packet
    };
    let capture = Capture::of_ip("icmp", &[quote(12), quote(23)]);
    let shown = capture.fields(&[], &["anabranch.tsn", "anabranch.quoted", "anabranch.malformed"]);
    assert_eq!(shown, ["4000000000|1|", "4000000000||"]);
}

#[test]
fn the_page_about_captures_lists_every_field() {
    let read = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        std::fs::read_to_string(path).unwrap()
    };
    let (script, page) = (
        read("wireshark/anabranch.lua"),
        read("docs/how-to/read-a-capture.md"),
    );
    let names: Vec<&str> = script
        .split("(\"anabranch.")
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(name, _)| name))
        .collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let listed = [format!("`{name}`"), format!("`anabranch.{name}`")];
        assert!(listed.iter().any(|name| page.contains(name)), "{name}");
    }
}

#[test]
fn other_numbers_are_preferences() {
    let capture = Capture::new("numbers", &[packet(&ForwardPsn(transmission(2, 77)), Some(230))]);
    assert_eq!(capture.fields(&[], &["anabranch.new_cum_psn"]), [""]);
    let moved = capture.fields(&["-o", "anabranch.forward_psn:230"], &["anabranch.new_cum_psn"]);
    assert_eq!(moved, ["77"]);
}

/// A datagram is SCTP if its chunks fit and its checksum is right; zero is right too (RFC 9653).
#[test]
fn only_sctp_is_taken_for_sctp() {
    let good = packet(&e_data(), None);
    let mut zero = good.clone();
    zero[8..12].fill(0);
    let mut wrong = good.clone();
    wrong[9] ^= 1;
    let mut short = good.clone();
    short.truncate(good.len() - 4);
    let mut short_zero = zero.clone();
    short_zero.truncate(zero.len() - 3);
    // A query for example.com, and a ClientHello's record header with bytes of its own.
    let mut dns = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7];
    dns.extend_from_slice(b"example\x03com\0\0\x01\0\x01");
    let mut dtls = vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40];
    dtls.extend_from_slice(&[1; 40]);
    // The first encrypted record of DTLS 1.2: epoch 1, sequence 0, 255 bytes that begin with the nonce. Read as SCTP, it has the
    // checksum zero and one chunk that fills it.
    let mut encrypted = vec![
        23, 254, 253, 0, 1, 0, 0, 0, 0, 0, 0, 0, 255, 0, 1, 0, 0, 0, 0, 0, 0,
    ];
    encrypted.resize(13 + 255, 0x5A);
    // A long header of QUIC, versions 1 and 2, with a connection ID of 8 bytes, and a short header.
    let quic = |first: u8, version: u32| {
        let mut packet = vec![first];
        packet.extend_from_slice(&version.to_be_bytes());
        packet.extend_from_slice(&[8, 1, 2, 3, 0, 0, 0, 0, 9, 0, 0, 0x44, 0x9E]);
        packet.resize(1200, 0xA5);
        packet
    };
    let mut short_header = vec![0x41];
    short_header.resize(60, 0x33);
    let mut datagrams = vec![good, zero, wrong, short, short_zero, dns, dtls, encrypted];
    datagrams.extend([quic(0xC3, 1), quic(0xD3, 0x6B33_43CF), short_header]);
    // Random datagrams, half of them with zeros in place of the checksum, and all with a length that a chunk would need.
    let mut random = 0x9E37_79B9_u32;
    for number in 0..200_usize {
        let mut datagram: Vec<u8> = (0..16 + number)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 17;
                random ^= random << 5;
                random as u8
            })
            .collect();
        datagram[14..16].copy_from_slice(&(4 + number as u16).to_be_bytes());
        if number % 2 == 0 {
            datagram[8..12].fill(0);
            datagram[12] |= 0x88;
        }
        datagrams.push(datagram);
    }
    // Each datagram has its own port, because tshark gives all packets of a conversation to the dissector that took one of them.
    let packets: Vec<Vec<u8>> = (40_000..)
        .zip(&datagrams)
        .map(|(port, datagram)| ip_packet([port, PORTS[1]], datagram))
        .collect();
    let capture = Capture::of_ip("guess", &packets);
    let taken = capture.fields(&["-Y", "sctp"], &["frame.number", "sctp.verification_tag"]);
    assert_eq!(taken, ["1|0x12345678", "2|0x12345678"]);
    // tshark recognises DTLS as without the script.
    let records = capture.fields(&["-Y", "dtls && frame.number <= 8"], &["frame.number"]);
    assert_eq!(records, ["7", "8"]);
}

/// Ports of DNS, QUIC, STUN, SIP, RTP, VXLAN and others: their dissectors come first unless tshark tries the heuristic ones first.
#[test]
fn ports_of_other_protocols_open_as_sctp_if_heuristics_come_first() {
    let ports = [
        53, 123, 443, 853, 2152, 3478, 4433, 4500, 4789, 5004, 5060, 5353, 6081, 9899, 51_820,
    ];
    let packets = ports.map(|port| ip_packet([PORTS[0] + port % 100, port], &packet(&e_data(), None)));
    let capture = Capture::of_ip("ports", &packets);
    let first = [
        "-o",
        "udp.try_heuristic_first:TRUE",
        "-Y",
        "anabranch.tsn == 4000000000",
    ];
    let shown = capture.fields(&first, &["udp.dstport"]);
    assert_eq!(shown, ports.map(|port| port.to_string()));
}
