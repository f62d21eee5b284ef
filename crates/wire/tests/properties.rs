//! Properties for any bytes and any values: decoding never panics, a decoded value encodes to the same bytes, an encoded value decodes to
//! itself.

mod explore;

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Abort, AckPolicy, Asconf, AsconfAck, Auth, Chunk, CookieEcho, CoopSack, Cwr, Data, Dtls, EData, EIData,
    Ecne, EncodeChunk, ErrorChunk, ExtendedForwardTsn, ForwardPsn, ForwardTsn, GapAckBlock, GapAckBlocks,
    Heartbeat, IData, IForwardTsn, Init, MessageNumber, NrSack, NrSackWriter, Pad, PathReport, PathReports,
    PathSequence, PathSequences, ReConfig, Sack, SackWriter, SelectiveForwardTsn, Shutdown, SkippedMessage,
    SkippedStream, TsnList,
};
use anabranch_wire::parameter::{
    AddressAction, KeyManagement, Parameter, Parameters, ParametersBuilder, StreamList,
};
use anabranch_wire::{Fsn, Mid, Ppid, Psn, Ssn, StreamId, Tsn, VerificationTag};
use bytes::Bytes;
use explore::{explore_datagram, written_and_read};
use proptest::collection::vec;
use proptest::prelude::*;

/// Every chunk type that this crate decodes, and some that it does not know.
const KINDS: [u8; 34] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 64, 65, 66, 96, 97, 98, 127, 128, 130, 132,
    160, 192, 193, 194, 195, 224, 255,
];

fn bytes(len: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), len).prop_map(Bytes::from)
}

/// Type-length-value entries, mostly with the right length.
fn entries(types: impl Strategy<Value = u16>) -> impl Strategy<Value = Vec<u8>> {
    let wrong = prop_oneof![9 => Just(0_u16), 1 => 0_u16..40];
    vec((types, vec(any::<u8>(), 0..24), wrong), 0..6).prop_map(|entries| {
        let mut list = Vec::new();
        for (kind, value, wrong) in entries {
            list.extend_from_slice(&kind.to_be_bytes());
            list.extend_from_slice(&(4 + value.len() as u16).wrapping_add(wrong).to_be_bytes());
            list.extend_from_slice(&value);
            list.resize(list.len().next_multiple_of(4), 0xAA);
        }
        list
    })
}

/// A chunk value: random bytes, or the fixed fields of its type followed by a list.
fn chunk_value() -> impl Strategy<Value = Vec<u8>> {
    let parameter = prop_oneof![0_u16..20, 0x8000_u16..0x800A, 0xC000_u16..0xC008, any::<u16>()];
    let cause = prop_oneof![0_u16..15, 99_u16..105, 0x00A0_u16..0x00A6, 0x0104_u16..0x0107];
    let counted = (
        vec(any::<u8>(), 8),
        0_u8..4,
        0_u8..4,
        0_u8..4,
        vec(any::<u8>(), 0..40),
    )
        .prop_map(|(head, a, b, c, rest)| [head, vec![0, a, 0, b, 0, c, 0, 0], rest].concat());
    let behind = |skip| move |list: Vec<u8>| [vec![9; skip], list].concat();
    prop_oneof![
        vec(any::<u8>(), 0..60),
        counted,
        entries(parameter.clone()),
        entries(parameter.clone()).prop_map(behind(4)),
        entries(parameter).prop_map(behind(16)),
        entries(cause),
    ]
}

fn datagram_of_chunks() -> impl Strategy<Value = Vec<u8>> {
    let chunk = (proptest::sample::select(&KINDS[..]), any::<u8>(), chunk_value());
    vec(chunk, 1..5).prop_map(|chunks| {
        let mut datagram = vec![0; 12];
        for (kind, flags, value) in chunks {
            datagram.extend_from_slice(&[kind, flags]);
            datagram.extend_from_slice(&(4 + value.len() as u16).to_be_bytes());
            datagram.extend_from_slice(&value);
            datagram.resize(datagram.len().next_multiple_of(4), 0);
        }
        datagram
    })
}

fn any_cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        any::<u16>().prop_map(|stream| Cause::InvalidStreamIdentifier {
            stream: StreamId(stream)
        }),
        vec(any::<u16>(), 0..5).prop_map(Cause::MissingMandatoryParameter),
        any::<u32>().prop_map(|staleness_us| Cause::StaleCookie { staleness_us }),
        any::<u32>().prop_map(|tsn| Cause::NoUserData { tsn: Tsn(tsn) }),
        Just(Cause::OutOfResource),
        bytes(0..20).prop_map(Cause::UnrecognizedChunkType),
        bytes(0..20).prop_map(Cause::UserInitiatedAbort),
        (0x00A5_u16..0x00A9, bytes(0..20)).prop_map(|(code, value)| Cause::Unknown { code, value }),
        bytes(0..20).prop_map(Cause::DeleteLastAddress),
        bytes(0..20).prop_map(Cause::NoAuthorization),
        any::<u16>().prop_map(|hmac_id| Cause::UnsupportedHmac { hmac_id }),
        Just(Cause::MissingDtlsSupport),
        Just(Cause::TieBreakerCollision),
    ]
}

fn any_parameter() -> impl Strategy<Value = Parameter> {
    let streams = || {
        vec(any::<u16>(), 0..5)
            .prop_map(|streams| StreamList::from_streams(streams.into_iter().map(StreamId)))
    };
    let action = proptest::sample::select(
        &[
            AddressAction::Add,
            AddressAction::Delete,
            AddressAction::SetPrimary,
        ][..],
    );
    prop_oneof![
        any::<[u8; 4]>().prop_map(|ip| Parameter::Ipv4(ip.into())),
        any::<[u8; 16]>().prop_map(|ip| Parameter::Ipv6(ip.into())),
        bytes(0..50).prop_map(Parameter::StateCookie),
        bytes(0..9).prop_map(Parameter::SupportedExtensions),
        bytes(6..12).prop_map(|value| Parameter::KeyManagement(KeyManagement::from_value(value).unwrap())),
        bytes(0..9).prop_map(Parameter::Padding),
        vec(any::<u16>(), 0..5).prop_map(Parameter::RequestedHmacs),
        bytes(0..40).prop_map(Parameter::Random),
        bytes(0..9).prop_map(Parameter::ChunkList),
        (any::<u32>(), bytes(0..20))
            .prop_map(|(correlation, causes)| Parameter::AsconfError { correlation, causes }),
        any::<u32>().prop_map(|correlation| Parameter::AsconfSuccess { correlation }),
        any::<u32>().prop_map(Parameter::AdaptationLayer),
        any::<u32>().prop_map(|increment_ms| Parameter::CookiePreservative { increment_ms }),
        Just(Parameter::EcnCapable),
        Just(Parameter::ForwardTsnSupported),
        (any::<u32>(), streams())
            .prop_map(|(request, streams)| Parameter::IncomingReset { request, streams }),
        (any::<[u32; 3]>(), streams()).prop_map(|([request, response, tsn], streams)| {
            Parameter::OutgoingReset {
                request,
                response,
                last_tsn: Tsn(tsn),
                streams,
            }
        }),
        (any::<[u32; 2]>(), any::<Option<(u32, u32)>>()).prop_map(|([sequence, result], next)| {
            let next_tsns = next.map(|(own, peers)| (Tsn(own), Tsn(peers)));
            Parameter::ReConfigResponse {
                sequence,
                result,
                next_tsns,
            }
        }),
        (any::<u32>(), any::<u16>()).prop_map(|(request, count)| Parameter::AddIncoming { request, count }),
        (action, any::<u32>(), any::<core::net::IpAddr>()).prop_map(|(action, correlation, address)| {
            Parameter::Address {
                action,
                correlation,
                address,
            }
        }),
    ]
}

fn any_blocks() -> impl Strategy<Value = Vec<GapAckBlock>> {
    vec(
        any::<(u16, u16)>().prop_map(|(start, end)| GapAckBlock { start, end }),
        0..9,
    )
}

fn any_data() -> impl Strategy<Value = Data> {
    (
        any::<u32>(),
        any::<u16>(),
        any::<u16>(),
        any::<u32>(),
        any::<[bool; 4]>(),
        bytes(1..1400),
    )
        .prop_map(
            |(tsn, stream, ssn, ppid, [unordered, beginning, ending, immediate], payload)| Data {
                tsn: Tsn(tsn),
                stream: StreamId(stream),
                ssn: Ssn(ssn),
                ppid: Ppid(ppid),
                unordered,
                beginning,
                ending,
                immediate,
                payload,
            },
        )
}

/// The same message as I-DATA: the shared field is the PPID in the first fragment and the FSN in the others.
fn as_i_data(data: Data) -> IData {
    let (ppid, fsn) = if data.beginning {
        (data.ppid, Fsn(0))
    } else {
        (Ppid(0), Fsn(data.ppid.0))
    };
    IData {
        tsn: data.tsn,
        stream: data.stream,
        mid: Mid(u32::from(data.ssn.0) << 9),
        ppid,
        fsn,
        unordered: data.unordered,
        beginning: data.beginning,
        ending: data.ending,
        immediate: data.immediate,
        repair: data.immediate,
        payload: data.payload,
    }
}

fn any_init() -> impl Strategy<Value = Chunk> {
    (any::<[u32; 3]>(), any::<[u16; 2]>(), any_parameters()).prop_map(
        |([tag, a_rwnd, tsn], [out, inb], parameters)| {
            Chunk::Init(Init {
                initiate_tag: VerificationTag(tag),
                a_rwnd,
                outbound_streams: out,
                inbound_streams: inb,
                initial_tsn: Tsn(tsn),
                parameters,
            })
        },
    )
}

fn any_parameters() -> impl Strategy<Value = Parameters> {
    vec(any_parameter(), 0..6).prop_map(|list| {
        list.iter()
            .fold(ParametersBuilder::new(), ParametersBuilder::push)
            .finish()
    })
}

fn any_chunk() -> impl Strategy<Value = Chunk> {
    let causes = || vec(any_cause(), 0..4).prop_map(|causes| Causes::from_causes(&causes));
    let skipped_streams = vec(any::<(u16, u16)>(), 0..5).prop_map(|list| {
        list.into_iter().map(|(stream, ssn)| SkippedStream {
            stream: StreamId(stream),
            ssn: Ssn(ssn),
        })
    });
    let skipped_messages = vec(any::<(u16, bool, u32)>(), 0..5).prop_map(|list| {
        list.into_iter().map(|(stream, unordered, mid)| SkippedMessage {
            stream: StreamId(stream),
            unordered,
            mid: Mid(mid),
        })
    });
    prop_oneof![
        any_data().prop_map(Chunk::Data),
        any_data().prop_map(|data| Chunk::IData(as_i_data(data))),
        any_init(),
        any_parameters().prop_map(|parameters| Chunk::ReConfig(ReConfig { parameters })),
        (any::<u32>(), any_parameters())
            .prop_map(|(serial, parameters)| Chunk::Asconf(Asconf { serial, parameters })),
        (any::<u32>(), any_parameters())
            .prop_map(|(serial, parameters)| Chunk::AsconfAck(AsconfAck { serial, parameters })),
        (any::<bool>(), causes()).prop_map(|(tag, causes)| Chunk::Abort(Abort {
            reflected_tag: tag,
            causes
        })),
        causes().prop_map(|causes| Chunk::Error(ErrorChunk { causes })),
        bytes(0..200).prop_map(|info| Chunk::Heartbeat(Heartbeat::new(info))),
        bytes(0..200).prop_map(|cookie| Chunk::CookieEcho(CookieEcho { cookie })),
        any::<u32>().prop_map(|tsn| Chunk::Shutdown(Shutdown {
            cumulative_tsn_ack: Tsn(tsn)
        })),
        any::<(u16, u16)>().prop_flat_map(|(shared_key_id, hmac_id)| {
            bytes(0..33).prop_map(move |hmac| {
                Chunk::Auth(Auth {
                    shared_key_id,
                    hmac_id,
                    hmac,
                })
            })
        }),
        (0_u16..1400).prop_map(|len| Chunk::Pad(Pad { len })),
        (any::<bool>(), 0_u8..4, any::<[u8; 2]>(), bytes(16..60)).prop_map(
            |(restart, epoch, sequence, encrypted)| Chunk::Dtls(Dtls {
                restart,
                epoch,
                sequence,
                encrypted,
            })
        ),
        any::<(u32, Option<u32>)>().prop_map(|(tsn, marked)| Chunk::Ecne(Ecne {
            tsn: Tsn(tsn),
            marked,
        })),
        any::<(u32, bool, bool)>().prop_map(|(tsn, overrides, same_window)| {
            Chunk::Cwr(Cwr {
                tsn: Tsn(tsn),
                overrides,
                same_window,
            })
        }),
        (any::<u32>(), skipped_streams)
            .prop_map(|(tsn, skipped)| Chunk::ForwardTsn(ForwardTsn::new(Tsn(tsn), skipped))),
        (any::<u32>(), skipped_messages)
            .prop_map(|(tsn, skipped)| Chunk::IForwardTsn(IForwardTsn::new(Tsn(tsn), skipped))),
        (
            any::<u32>(),
            proptest::collection::vec(any::<(u16, u16)>(), 0..20)
        )
            .prop_map(|(tsn, blocks)| {
                let blocks = blocks.into_iter().map(|(start, end)| GapAckBlock { start, end });
                Chunk::ExtendedForwardTsn(ExtendedForwardTsn::new(Tsn(tsn), blocks))
            }),
        any::<(u32, u16, u32, bool)>().prop_map(|(tsn, stream, number, interleaved)| {
            Chunk::SelectiveForwardTsn(SelectiveForwardTsn {
                tsn: Tsn(tsn),
                stream: StreamId(stream),
                number: if interleaved {
                    MessageNumber::Mid(Mid(number))
                } else {
                    MessageNumber::Ssn(Ssn(number as u16))
                },
            })
        }),
    ]
}

fn any_transmission() -> impl Strategy<Value = PathSequence> {
    any::<(u8, u32)>().prop_map(|(path, number)| PathSequence {
        path,
        number: Psn::new(number),
    })
}

fn any_policy() -> impl Strategy<Value = AckPolicy> {
    prop_oneof![
        Just(AckPolicy::LastArrival),
        Just(AckPolicy::EveryPath),
        Just(AckPolicy::Unranked),
        (1_u8..=3).prop_map(AckPolicy::Ranked),
    ]
}

fn any_coop_sack() -> impl Strategy<Value = CoopSack> {
    let blocks = || any_blocks().prop_map(GapAckBlocks::from_blocks);
    let report =
        (any_transmission(), any::<u32>(), blocks()).prop_map(|(cumulative, rwnd, gap_ack_blocks)| {
            PathReport {
                cumulative,
                rwnd,
                gap_ack_blocks,
            }
        });
    let duplicates = vec(any_transmission(), 0..5).prop_map(PathSequences::from_list);
    let paths = vec(report, 0..5).prop_map(PathReports::from_reports);
    (
        any::<[u32; 3]>(),
        paths,
        duplicates,
        proptest::option::of(blocks()),
    )
        .prop_map(
            |([timestamp_ms, cumulative, a_rwnd], paths, duplicates, renegable)| CoopSack {
                timestamp_ms,
                cumulative_tsn_ack: Tsn(cumulative),
                a_rwnd,
                paths,
                duplicates,
                renegable,
            },
        )
}

/// A chunk of an experimental type.
fn any_experimental_chunk() -> impl Strategy<Value = Chunk> {
    prop_oneof![
        (any_transmission(), any_policy(), any_data()).prop_map(|(transmission, policy, data)| {
            Chunk::EData(EData {
                transmission,
                policy,
                data,
            })
        }),
        (any_transmission(), any_policy(), any_data()).prop_map(|(transmission, policy, data)| {
            Chunk::EIData(EIData {
                transmission,
                policy,
                data: as_i_data(data),
            })
        }),
        any_coop_sack().prop_map(Chunk::CoopSack),
        any_transmission().prop_map(|transmission| Chunk::ForwardPsn(ForwardPsn(transmission))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn noise_never_panics(datagram in vec(any::<u8>(), 0..200)) {
        explore_datagram(datagram.into());
    }

    #[test]
    fn chunks_of_noise_never_panic_and_write_back(datagram in datagram_of_chunks(), cut in any::<prop::sample::Index>()) {
        let short = datagram[..cut.index(datagram.len())].to_vec();
        explore_datagram(datagram.into());
        explore_datagram(short.into());
    }

    #[test]
    fn what_is_written_is_read(chunk in prop_oneof![2 => any_chunk(), 1 => any_experimental_chunk()]) {
        prop_assert_eq!(written_and_read(&chunk), chunk);
    }

    #[test]
    fn lists_that_stay_where_they_are_write_the_same(
        numbers in any::<[u32; 2]>(), renegable in any_blocks(), nonrenegable in any_blocks(),
        duplicates in vec(any::<u32>().prop_map(Tsn), 0..9),
    ) {
        let (cumulative_tsn_ack, a_rwnd) = (Tsn(numbers[0]), numbers[1]);
        let (mut parsed, mut hot) = (Vec::new(), Vec::new());
        let duplicate_tsns = TsnList::from_tsns(duplicates.iter().copied());
        let gap_ack_blocks = GapAckBlocks::from_blocks(renegable.iter().copied());
        let sack = Sack {
            cumulative_tsn_ack,
            a_rwnd,
            gap_ack_blocks: gap_ack_blocks.clone(),
            duplicate_tsns: duplicate_tsns.clone(),
        };
        sack.encode(&mut parsed);
        SackWriter { cumulative_tsn_ack, a_rwnd, gap_ack_blocks: &renegable, duplicate_tsns: &duplicates, packets: 0 }
            .encode(&mut hot);
        prop_assert_eq!(&parsed, &hot);
        prop_assert_eq!(written_and_read(&Chunk::Sack(sack.clone())), Chunk::Sack(sack));
        parsed.clear();
        hot.clear();
        let sack = NrSack {
            cumulative_tsn_ack,
            a_rwnd,
            renegable: gap_ack_blocks,
            nonrenegable: GapAckBlocks::from_blocks(nonrenegable.iter().copied()),
            duplicate_tsns,
        };
        sack.encode(&mut parsed);
        NrSackWriter {
            cumulative_tsn_ack,
            a_rwnd,
            renegable: &renegable,
            nonrenegable: &nonrenegable,
            duplicate_tsns: &duplicates, packets: 0,
        }
        .encode(&mut hot);
        prop_assert_eq!(&parsed, &hot);
        prop_assert_eq!(written_and_read(&Chunk::NrSack(sack.clone())), Chunk::NrSack(sack));
    }
}

/// The generator above produces chunks that can be decoded.
#[test]
fn chunks_of_noise_are_often_readable() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let strategy = datagram_of_chunks();
    let decoded: usize = (0..500)
        .map(|_| explore_datagram(strategy.new_tree(&mut runner).unwrap().current().into()))
        .sum();
    assert!(decoded > 500, "{decoded} chunks of 500 datagrams");
}
