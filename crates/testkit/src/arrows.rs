//! Draws packets as lines of text, which help to find the cause of a failed test:
//!
//! ```text
//! 12.040000s A → Z  10.0.0.2  DATA tsn=5 stream=0 ssn=1 100B be, SACK cum=9 rwnd=65536 gaps=2-3   ✗ lost
//! ```

use std::fmt::Write;

use anabranch_netsim::{Network, Payload, Record, describe};
use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::{Chunk, CoopSack, Data, EncodeChunk, GapAckBlock, IData, PathSequence};
use anabranch_wire::packet::Packet;
use anabranch_wire::parameter::Parameters;
use bytes::Bytes;

/// The network's records, oldest first, one per line.
#[must_use]
pub fn draw(network: &Network) -> String {
    let mut text = String::new();
    for record in network.records() {
        text.push_str(&draw_record(network, record));
        text.push('\n');
    }
    text
}

fn draw_record(network: &Network, record: &Record) -> String {
    let (from, to) = network.link_ends(record.link);
    let mut line = format!(
        "{} {} → {}  {:<10}  {}",
        record.at,
        network.node_name(from),
        network.node_name(to),
        record.packet.destination.ip(),
        describe_payload(&record.packet.payload),
    );
    if let Some(fate) = describe(record.fate) {
        let _ = write!(line, "   ✗ {fate}");
    }
    line
}

fn describe_payload(payload: &Payload) -> String {
    match payload {
        Payload::Sctp(datagram) => describe_packet(datagram),
        Payload::Tcp(segment) => format!("TCP {segment:?}"),
    }
}

/// Describes the chunks of an SCTP packet.
#[must_use]
pub fn describe_packet(datagram: &Bytes) -> String {
    match Packet::parse(datagram.clone()) {
        Ok(packet) => {
            let chunks = packet.chunks().map(|raw| match raw.map(Chunk::decode) {
                Ok(Ok(chunk)) => describe_chunk(&chunk),
                Ok(Err(error)) => format!("({error})"),
                Err(error) => format!("({error})"),
            });
            chunks.collect::<Vec<_>>().join(", ")
        }
        Err(error) => format!("({error}, {}B)", datagram.len()),
    }
}

/// Describes a chunk on one line.
#[must_use]
pub fn describe_chunk(chunk: &Chunk) -> String {
    match chunk {
        Chunk::Data(data) => describe_data(data),
        Chunk::IData(data) => describe_i_data(data),
        Chunk::EData(chunk) => format!(
            "E-{} {} {:?}",
            describe_data(&chunk.data),
            describe_transmission(chunk.transmission),
            chunk.policy
        ),
        Chunk::EIData(chunk) => format!(
            "E-{} {} {:?}",
            describe_i_data(&chunk.data),
            describe_transmission(chunk.transmission),
            chunk.policy
        ),
        Chunk::Dtls(chunk) => format!("DTLS epoch={} {}B", chunk.epoch, chunk.encrypted.len()),
        Chunk::CoopSack(sack) => describe_coop_sack(sack),
        Chunk::ForwardPsn(point) => format!("FORWARD-PSN {}", describe_transmission(point.0)),
        Chunk::Init(init) => {
            let streams = (init.outbound_streams, init.inbound_streams);
            let parameters = describe_parameters(&init.parameters);
            describe_init(
                "INIT",
                init.initiate_tag.0,
                init.a_rwnd,
                streams,
                init.initial_tsn.0,
            ) + &parameters
        }
        Chunk::InitAck(init) => {
            let streams = (init.outbound_streams, init.inbound_streams);
            let parameters = describe_parameters(&init.parameters);
            describe_init(
                "INIT-ACK",
                init.initiate_tag.0,
                init.a_rwnd,
                streams,
                init.initial_tsn.0,
            ) + &parameters
        }
        Chunk::Sack(sack) => {
            let mut text = format!("SACK cum={} rwnd={}", sack.cumulative_tsn_ack.0, sack.a_rwnd);
            text += &describe_blocks("gaps", sack.gap_ack_blocks.iter());
            if !sack.duplicate_tsns.is_empty() {
                let tsns: Vec<_> = sack.duplicate_tsns.iter().map(|tsn| tsn.0.to_string()).collect();
                let _ = write!(text, " dup={}", tsns.join(","));
            }
            text
        }
        Chunk::Heartbeat(heartbeat) => format!("HEARTBEAT {}B", heartbeat.tlvs.len()),
        Chunk::HeartbeatAck(heartbeat) => format!("HEARTBEAT-ACK {}B", heartbeat.tlvs.len()),
        Chunk::Abort(abort) => {
            format!(
                "ABORT{}{}",
                describe_t_bit(abort.reflected_tag),
                describe_causes(&abort.causes)
            )
        }
        Chunk::Shutdown(shutdown) => format!("SHUTDOWN cum={}", shutdown.cumulative_tsn_ack.0),
        Chunk::ShutdownAck => "SHUTDOWN-ACK".to_owned(),
        Chunk::Error(error) => format!("ERROR{}", describe_causes(&error.causes)),
        Chunk::CookieEcho(echo) => format!("COOKIE-ECHO {}B", echo.cookie.len()),
        Chunk::CookieAck => "COOKIE-ACK".to_owned(),
        Chunk::ShutdownComplete(complete) => {
            format!("SHUTDOWN-COMPLETE{}", describe_t_bit(complete.reflected_tag))
        }
        Chunk::Ecne(ecne) => format!("ECNE tsn={} marked={}", ecne.tsn.0, ecne.marked.unwrap_or(1)),
        Chunk::Cwr(cwr) => format!("CWR tsn={}", cwr.tsn.0),
        Chunk::ForwardTsn(forward) => format!("FORWARD-TSN cum={}", forward.new_cumulative_tsn.0),
        Chunk::IForwardTsn(forward) => format!("I-FORWARD-TSN cum={}", forward.new_cumulative_tsn.0),
        Chunk::Unknown(unknown) => format!("chunk type {} {}B", unknown.kind(), unknown.encoded_len()),
        other => format!("{other:?}"),
    }
}

fn describe_data(data: &Data) -> String {
    let flags = describe_flags(data.unordered, data.beginning, data.ending, data.immediate);
    let (tsn, stream, ssn) = (data.tsn.0, data.stream.0, data.ssn.0);
    format!(
        "DATA tsn={tsn} stream={stream} ssn={ssn} {}B {flags}",
        data.payload.len()
    )
}

fn describe_i_data(data: &IData) -> String {
    let flags = describe_flags(data.unordered, data.beginning, data.ending, data.immediate);
    let (tsn, stream, mid, fsn) = (data.tsn.0, data.stream.0, data.mid.0, data.fsn.0);
    format!(
        "I-DATA tsn={tsn} stream={stream} mid={mid} fsn={fsn} {}B {flags}",
        data.payload.len()
    )
}

/// The path and the transmission number.
fn describe_transmission(transmission: PathSequence) -> String {
    format!("psn={}:{}", transmission.path, transmission.number.get())
}

fn describe_coop_sack(sack: &CoopSack) -> String {
    let (cumulative, rwnd) = (sack.cumulative_tsn_ack.0, sack.a_rwnd);
    let mut text = format!("COOP-SACK t={} cum={cumulative} rwnd={rwnd}", sack.timestamp_ms);
    for report in sack.paths.iter() {
        let _ = write!(text, " {}", describe_transmission(report.cumulative));
        text += &describe_blocks("gaps", report.gap_ack_blocks.iter());
    }
    for duplicate in sack.duplicates.iter() {
        let _ = write!(text, " dup {}", describe_transmission(duplicate));
    }
    if let Some(renegable) = &sack.renegable {
        text += " kept";
        text += &describe_blocks("but", renegable.iter());
    }
    text
}

/// The flags that are set: i (immediate), u (unordered), b (beginning), e (end).
fn describe_flags(unordered: bool, beginning: bool, ending: bool, immediate: bool) -> String {
    let flags = [
        (immediate, 'i'),
        (unordered, 'u'),
        (beginning, 'b'),
        (ending, 'e'),
    ];
    flags
        .into_iter()
        .filter(|(set, _)| *set)
        .map(|(_, letter)| letter)
        .collect()
}

fn describe_init(name: &str, tag: u32, a_rwnd: u32, (outbound, inbound): (u16, u16), tsn: u32) -> String {
    format!("{name} tag={tag:08x} rwnd={a_rwnd} streams={outbound}/{inbound} tsn={tsn}")
}

fn describe_t_bit(reflected: bool) -> &'static str {
    if reflected { " T" } else { "" }
}

fn describe_blocks(name: &str, blocks: impl Iterator<Item = GapAckBlock>) -> String {
    let blocks: Vec<_> = blocks
        .map(|block| format!("{}-{}", block.start, block.end))
        .collect();
    if blocks.is_empty() {
        String::new()
    } else {
        format!(" {name}={}", blocks.join(","))
    }
}

/// The types of the parameters only, so that a line stays short.
fn describe_parameters(parameters: &Parameters) -> String {
    let kinds: Vec<_> = parameters
        .iter()
        .map(|raw| raw.map_or_else(|error| format!("({error})"), |raw| format!("{:#x}", raw.kind)))
        .collect();
    if kinds.is_empty() {
        String::new()
    } else {
        format!(" parameters={}", kinds.join(","))
    }
}

fn describe_causes(causes: &Causes) -> String {
    let causes: Vec<_> = causes
        .iter()
        .map(|cause| cause.map_or_else(|error| format!("({error})"), |cause| format!("{cause:?}")))
        .collect();
    if causes.is_empty() {
        String::new()
    } else {
        format!(" {}", causes.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_netsim::{Ecn, Packet, Router};
    use anabranch_proto::{Dscp, Ppid, StreamId, Timestamp, Tsn, VerificationTag};
    use anabranch_wire::Ssn;
    use anabranch_wire::chunk::{GapAckBlocks, Sack, TsnList};
    use anabranch_wire::packet::{CommonHeader, PacketWriter};

    use super::*;

    fn datagram() -> Vec<u8> {
        let header = CommonHeader {
            source_port: 1,
            destination_port: 2,
            verification_tag: VerificationTag(3),
        };
        let mut buffer = Vec::new();
        let mut writer = PacketWriter::new(&mut buffer, header, 1000);
        writer.push(&Chunk::Sack(Sack {
            cumulative_tsn_ack: Tsn(9),
            a_rwnd: 65_536,
            gap_ack_blocks: GapAckBlocks::from_blocks([GapAckBlock { start: 2, end: 3 }]),
            duplicate_tsns: TsnList::from_tsns([Tsn(7)]),
        }));
        writer.push(&Data {
            tsn: Tsn(5),
            stream: StreamId(0),
            ssn: Ssn(1),
            ppid: Ppid(0),
            unordered: true,
            beginning: true,
            ending: false,
            immediate: false,
            payload: Bytes::from_static(b"four"),
        });
        let _ = writer.finish();
        buffer
    }

    #[test]
    fn chunks_are_described() {
        let text = describe_packet(&datagram().into());
        assert_eq!(
            text,
            "SACK cum=9 rwnd=65536 gaps=2-3 dup=7, DATA tsn=5 stream=0 ssn=1 4B ub"
        );
        let mut damaged = datagram();
        damaged[20] ^= 1;
        assert!(describe_packet(&damaged.into()).contains("checksum"));
    }

    #[test]
    fn a_record_is_drawn_with_its_ends_and_its_outcome() {
        let mut network = Network::new(1);
        let a = network.add_node("A", &[], Router);
        let z = network.add_node("Z", &[], Router);
        let link = network.add_link(a, z, Default::default());
        let packet = Packet {
            source: "10.0.0.1:0".parse().unwrap(),
            destination: "10.0.0.2:0".parse().unwrap(),
            payload: datagram().into(),
            may_fragment: false,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
        };
        let fate = anabranch_netsim::Fate {
            late: true,
            ..Default::default()
        };
        let line = draw_record(
            &network,
            &Record {
                at: Timestamp::from_millis(12_040),
                link,
                packet,
                fate,
            },
        );
        assert!(
            line.starts_with("12.040000s A → Z  10.0.0.2    SACK cum=9"),
            "{line}"
        );
        assert!(line.ends_with("✗ late"), "{line}");
    }
}
