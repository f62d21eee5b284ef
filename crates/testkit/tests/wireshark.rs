//! The script for Wireshark (`wireshark/anabranch.lua`) with the real tshark: the fields of the experimental chunks, and SCTP over UDP on
//! any port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch_netsim::PcapngWriter;
use anabranch_proto::Timestamp;
use anabranch_wire::chunk::{
    AckPolicy, CoopSack, Data, EData, EIData, EncodeChunk, ForwardPsn, GapAckBlock, GapAckBlocks, IData,
    MessageNumber, PathReport, PathReports, PathSequence, PathSequences, SelectiveForwardTsn,
};
use anabranch_wire::packet::{CommonHeader, PacketWriter};
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

struct Capture(PathBuf);

impl Capture {
    /// A capture of these datagrams, on UDP ports that no program has as its default.
    fn new(name: &str, datagrams: &[Vec<u8>]) -> Self {
        let path = std::env::temp_dir().join(format!("anabranch-{name}-{}.pcapng", std::process::id()));
        let mut writer = PcapngWriter::new(std::fs::File::create(&path).unwrap(), 0).unwrap();
        let interface = writer.add_interface("test").unwrap();
        let [source, destination] =
            [(1, 40_123), (2, 33_071)].map(|(host, port)| SocketAddr::from(([10, 0, 0, host], port)));
        for datagram in datagrams {
            writer
                .write(interface, Timestamp::ZERO, source, destination, datagram, None)
                .unwrap();
        }
        writer.flush().unwrap();
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
        let output = command
            .output()
            .expect("tshark is there: scripts/setup installs it");
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
fn chunks_whose_lengths_do_not_agree_are_malformed() {
    let whole = packet(&coop_sack(), None);
    // The chunk says that it has 60,000 path reports; a FORWARD-PSN has four bytes too many.
    let mut many = whole;
    many[12 + 16] = 0xEA;
    let long = [224, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0];
    let mut surplus = packet(&ForwardPsn(transmission(0, 1)), None);
    surplus.truncate(12);
    surplus.extend_from_slice(&long);
    for datagram in [&mut many, &mut surplus] {
        datagram[8..12].fill(0);
        let checksum = anabranch_wire::crc32c(datagram);
        datagram[8..12].copy_from_slice(&checksum.to_le_bytes());
    }
    let capture = Capture::new("malformed", &[many, surplus]);
    let flaws = capture.fields(&["-Y", "anabranch.malformed"], &["frame.number"]);
    assert_eq!(flaws, ["1", "2"]);
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
    let other: Vec<u8> = (0..200_u32).map(|number| ((number * 7919) >> 3) as u8).collect();
    let capture = Capture::new("guess", &[good, zero, wrong, short, short_zero, dns, dtls, other]);
    let shown = capture.fields(&[], &["frame.number", "sctp.verification_tag"]);
    assert_eq!(
        shown,
        ["1|0x12345678", "2|0x12345678", "3|", "4|", "5|", "6|", "7|", "8|"]
    );
}
