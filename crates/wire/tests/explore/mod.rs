//! Properties of every datagram: decoding never panics, and a decoded value encodes to bytes that decode to the same value. The property
//! tests and the fuzz target `parse` share this check.

use anabranch_wire::VerificationTag;
use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::{Chunk, EncodeChunk, ForwardTsn, IForwardTsn, PathReports};
use anabranch_wire::packet::{CommonHeader, Packet, PacketWriter};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

/// Decodes the whole content of a chunk, and checks that every decoded value encodes to bytes that decode to the same value.
fn explore(chunk: &Chunk) {
    match chunk {
        Chunk::Init(init) => explore_parameters(&init.parameters),
        Chunk::InitAck(init_ack) => explore_parameters(&init_ack.parameters),
        Chunk::Asconf(asconf) => {
            let _ = asconf.address();
            // A parameter without a correlation ID is a request too: the core refuses it.
            assert!(4 * asconf.requests().count() <= asconf.encoded_len());
            explore_parameters(&asconf.parameters);
        }
        Chunk::AsconfAck(asconf_ack) => explore_parameters(&asconf_ack.parameters),
        Chunk::ReConfig(re_config) => {
            explore_parameters(&re_config.parameters);
            if let Ok(contents) = re_config.contents() {
                assert!(contents.parameters.len() <= 2);
                assert!(contents.unrecognized.len() <= re_config.encoded_len() + 3);
            }
        }
        Chunk::Abort(abort) => explore_causes(&abort.causes),
        Chunk::Error(error) => explore_causes(&error.causes),
        Chunk::Sack(sack) => {
            assert_eq!(sack.gap_ack_blocks.iter().count(), sack.gap_ack_blocks.len());
            assert_eq!(sack.duplicate_tsns.iter().count(), sack.duplicate_tsns.len());
        }
        Chunk::NrSack(sack) => {
            assert_eq!(sack.renegable.iter().count(), sack.renegable.len());
            assert_eq!(sack.nonrenegable.iter().count(), sack.nonrenegable.len());
            assert_eq!(sack.duplicate_tsns.iter().count(), sack.duplicate_tsns.len());
        }
        Chunk::CoopSack(sack) => {
            assert_eq!(sack.paths.iter().count(), sack.paths.len());
            assert_eq!(
                PathReports::from_reports(sack.paths.iter()).len(),
                sack.paths.len()
            );
            assert_eq!(sack.duplicates.iter().count(), sack.duplicates.len());
        }
        Chunk::ForwardTsn(forward) => {
            assert_eq!(
                ForwardTsn::new(forward.new_cumulative_tsn, forward.skipped()),
                *forward
            );
        }
        Chunk::IForwardTsn(forward) => {
            let again = IForwardTsn::new(forward.new_cumulative_tsn, forward.skipped());
            assert!(again.skipped().eq(forward.skipped()));
        }
        _ => {}
    }
}

fn explore_parameters(list: &Parameters) {
    for raw in list.iter().filter_map(Result::ok) {
        let Ok(parameter) = Parameter::decode(raw.clone()) else {
            continue;
        };
        assert_eq!(parameter.kind(), raw.kind);
        explore_nested(&parameter);
        let written = ParametersBuilder::new().push(&parameter).finish();
        assert_eq!(written.as_bytes().len(), raw.whole().len());
        assert_eq!(
            Parameter::decode(written.iter().next().unwrap().unwrap()),
            Ok(parameter)
        );
    }
}

/// Also the causes in the parameters of an ASCONF-ACK.
fn explore_nested(parameter: &Parameter) {
    if let Parameter::AsconfError { causes, .. } = parameter {
        explore_causes(&Causes::from_bytes(causes.clone()));
    }
}

fn explore_causes(list: &Causes) {
    for cause in list.iter().filter_map(Result::ok) {
        let written = Causes::from_causes(std::slice::from_ref(&cause));
        assert_eq!(written.iter().collect::<Vec<_>>(), [Ok(cause)]);
    }
}

/// Decodes a datagram and its whole content, whatever the checksum; returns how many chunks could be decoded.
pub(crate) fn explore_datagram(datagram: Bytes) -> usize {
    let _ = Packet::parse(datagram.clone());
    let Ok(packet) = Packet::parse_unchecked(datagram) else {
        return 0;
    };
    let decoded = packet.chunks().filter_map(Result::ok).filter_map(|raw| {
        let (kind, len) = (raw.kind, raw.whole().len());
        let chunk = Chunk::decode(raw).ok()?;
        assert_eq!(chunk.kind(), kind);
        explore(&chunk);
        // Some senders count padding in the length, and some chunk types ignore bytes after their fields. The encoded chunk is never longer
        // than the original.
        assert!(chunk.encoded_len() <= len);
        assert_eq!(written_and_read(&chunk), chunk);
        Some(())
    });
    decoded.count()
}

const HEADER: CommonHeader = CommonHeader {
    source_port: 1,
    destination_port: 2,
    verification_tag: VerificationTag(3),
};

/// Encodes a chunk in a packet of its own and decodes it again.
pub(crate) fn written_and_read(chunk: &Chunk) -> Chunk {
    let mut buffer = Vec::new();
    let mut writer = PacketWriter::new(&mut buffer, HEADER, 70_000);
    writer.push(chunk);
    let len = writer.finish();
    assert_eq!(len, buffer.len());
    let packet = Packet::parse(buffer.into()).unwrap();
    let mut chunks = packet.chunks();
    let read = Chunk::decode(chunks.next().unwrap().unwrap()).unwrap();
    assert!(chunks.next().is_none());
    read
}
