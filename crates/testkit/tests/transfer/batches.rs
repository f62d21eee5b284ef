//! Batches for segmentation offload: all packets of a batch have the same length, except the last, which may be shorter. A
//! HEARTBEAT ACK returns the content of its HEARTBEAT unchanged (RFC 9260 §8.3).

use anabranch_proto::{AssociationState, PathError, PathId, SendOptions, StreamId};
use anabranch_testkit::{FromEndpoint, Script, quiet};
use anabranch_wire::chunk::{
    CHUNK_HEADER_LEN, Chunk, EncodeChunk, GapAckBlocks, Heartbeat, HeartbeatAck, Sack, TsnList,
};
use bytes::Bytes;

/// The largest packet with IPv4 and UDP below it, at the PMTU of 1,280 bytes.
const MAX_PACKET: usize = 1280 - 28;

fn established() -> Script {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    script.events();
    script
}

fn answers(script: &mut Script) -> Vec<FromEndpoint> {
    core::iter::from_fn(|| script.next_answer()).collect()
}

fn packet_len(packet: &FromEndpoint) -> usize {
    let chunks = packet.chunks.iter();
    12 + chunks
        .map(|chunk| chunk.encoded_len().next_multiple_of(4))
        .sum::<usize>()
}

fn heartbeat(len: usize) -> Chunk {
    Chunk::Heartbeat(Heartbeat::new(vec![len as u8; len]))
}

fn heartbeat_ack(len: usize) -> Chunk {
    Chunk::HeartbeatAck(HeartbeatAck::new(vec![len as u8; len]))
}

// A ← HEARTBEAT (300 bytes), HEARTBEAT (1,100 bytes) ← Z
// A → HEARTBEAT ACK (300 bytes) → Z
// A → HEARTBEAT ACK (1,100 bytes) → Z
/// A packet that is longer than the first packet of a batch starts another batch, because segmentation would cut it at that
/// length.
/// Both HEARTBEATs of one datagram are answered.
#[test]
fn a_longer_packet_begins_another_batch() {
    for lens in [[300, 1100], [1100, 300], [1100, 1100], [16, 16]] {
        let mut script = established();
        script.send(&lens.map(heartbeat));
        let chunks: Vec<_> = answers(&mut script)
            .into_iter()
            .flat_map(|packet| packet.chunks)
            .collect();
        assert_eq!(chunks, lens.map(heartbeat_ack));
    }
}

// A → DATA 1 to 12 (4,900 bytes each) → (lost; the system says that packets of 1,280 bytes fit)
// A → DATA 1 (alone, IP may fragment it) → Z, after T3-rtx
// A ← SACK 1 ← Z
// A → DATA 2, 3, … (each alone), DATA 13, … (300 bytes each, in packets of 1,280) → Z
/// A chunk that has its TSN and no longer fits the path MTU leaves alone (RFC 9260 §7.3). Later packets fit.
#[test]
fn packets_after_an_oversized_one_fit() {
    const LARGE: usize = 12;
    let mut config = quiet();
    config.path_mtu = 5000;
    config.path_mtu_limit = 5000;
    config.initial_window = Some(64);
    config.max_burst = 64;
    let mut script = Script::new(config, 1);
    script.a_rwnd = LARGE as u32 * 4900;
    script.set_up();
    let send = |script: &mut Script, lens: &[usize]| {
        script.act(|association, now| {
            for len in lens {
                let message = vec![7; *len].into();
                association
                    .send(now, StreamId(0), message, SendOptions::default())
                    .expect("send");
            }
        });
    };
    send(&mut script, &[4900; LARGE]);
    assert_eq!(answers(&mut script).len(), LARGE);
    script.act(|association, now| {
        association.handle_path_error(now, PathId(0), PathError::TooLarge(Some(1280)));
    });
    send(&mut script, &[300; 40]);
    script.advance_to_timeout();
    let last = script.endpoint_tsn.plus(LARGE as u32 + 40).minus(1);
    let (mut highest, mut oversized) = (script.endpoint_tsn.minus(1), 0);
    while highest != last {
        let packets = answers(&mut script);
        assert!(!packets.is_empty(), "nothing follows TSN {highest}");
        for packet in packets {
            // In order, since T3-rtx declared all of them lost. A path MTU probe contains no data.
            let Some(data) = packet.data().last() else {
                continue;
            };
            highest = data.tsn;
            if packet_len(&packet) > MAX_PACKET {
                assert_eq!(packet.data().count(), 1, "an oversized chunk has company");
                oversized += 1;
            }
        }
        script.send(&[Chunk::Sack(Sack {
            cumulative_tsn_ack: highest,
            a_rwnd: 1 << 20,
            gap_ack_blocks: GapAckBlocks::default(),
            duplicate_tsns: TsnList::default(),
        })]);
    }
    assert_eq!(oversized, LARGE);
}

// A ← HEARTBEAT (a TLV of type 9, then Heartbeat Info, then one of type 200) ← Z
// A → HEARTBEAT ACK (the same bytes) → Z
/// RFC 9260 §8.3: the Heartbeat Info and all other TLVs come back unchanged, in any order, known or not. No content of a
/// HEARTBEAT ends the association.
#[test]
fn any_contents_of_a_heartbeat_come_back() {
    // A thread without a name is not captured: the returned packets are malformed, like those that were sent.
    let echo = std::thread::spawn(echo_any_contents);
    echo.join().expect("all of them come back");
}

fn echo_any_contents() {
    let contents: [&[u8]; 6] = [
        b"\0\x01\0\x0Dyoho-yoho\0\0\0\0\xc8\0\x05!",
        b"\0\x09\0\x08best\0\x01\0\x08yoho\0\xc8\0\x04",
        b"\x80\x09\0\x04",
        b"\0\x01\xff\xffyoho",
        b"\0\x01\0\x01",
        b"no",
    ];
    for tlvs in contents {
        let mut script = established();
        let heartbeat = Chunk::Heartbeat(Heartbeat {
            tlvs: Bytes::from_static(tlvs),
        });
        script.send(&[heartbeat]);
        let Chunk::HeartbeatAck(ack) = script.expect_chunk() else {
            panic!("HEARTBEAT ACK")
        };
        assert_eq!(ack.tlvs, tlvs);
        assert_eq!(ack.encoded_len(), CHUNK_HEADER_LEN + tlvs.len());
        // A HEARTBEAT ACK without a HEARTBEAT, with any content, does no harm either (RFC 9260 §8.3).
        script.send(&[Chunk::HeartbeatAck(ack)]);
        script.expect_silence();
        assert_eq!(script.association().state(), AssociationState::Established);
    }
}

// A ← 200 DATA, each behind a gap ← Z
// A ← DATA, HEARTBEAT (700 bytes) ← Z
// A → HEARTBEAT ACK → Z
// A → SACK (201 gap blocks) → Z
/// RFC 9260 §6.2: a SACK lists all received TSNs that fit a packet. The peer treats TSNs that are left out as reneged.
#[test]
fn other_chunks_do_not_shorten_a_sack() {
    let mut script = established();
    let behind_a_gap = |script: &mut Script| {
        script.data(0, 0, "lost");
        script.data(0, 0, "x")
    };
    for _ in 0..200 {
        let data = behind_a_gap(&mut script);
        script.send(&[data]);
    }
    script.skip_answers();
    let data = behind_a_gap(&mut script);
    script.send(&[data, heartbeat(700)]);
    let mut chunks = answers(&mut script).into_iter().flat_map(|packet| packet.chunks);
    assert_eq!(chunks.next(), Some(heartbeat_ack(700)));
    let Some(Chunk::Sack(sack)) = chunks.next() else {
        panic!("SACK")
    };
    assert_eq!(sack.gap_ack_blocks.iter().count(), 201);
}

// A ← 90 times HEARTBEAT (700 bytes) in one datagram ← Z
// A → at most 64 HEARTBEAT ACKs → Z
/// Answers are no longer than the chunks that they answer, and the queue of control chunks bounds their number.
#[test]
fn answers_to_many_heartbeats_are_bounded() {
    let mut script = established();
    script.send(&vec![heartbeat(700); 90]);
    let sent = answers(&mut script);
    let chunks: usize = sent.iter().map(|packet| packet.chunks.len()).sum();
    assert_eq!(chunks, 64);
    assert!(sent.iter().all(|packet| packet_len(packet) <= MAX_PACKET));
}
