//! Helpers for tests with hand-made SACKs. TSNs count from the endpoint's initial TSN.

use anabranch_proto::{Config, Counters, PathStats, SendOptions, StreamId};
use anabranch_testkit::Script;
use anabranch_wire::chunk::{Chunk, GapAckBlock, GapAckBlocks, Sack, TsnList};
use bytes::Bytes;

/// User data of a chunk that fills a packet of the default PMTU of 1,280 bytes: without 28 bytes of IPv4 and UDP, 12
/// of the common header and 16 of DATA.
pub(crate) const FULL: usize = 1224;
/// PMDCS: with the header of DATA.
pub(crate) const PMDCS: usize = FULL + 16;

pub(crate) fn quiet() -> Config {
    let mut config = anabranch_testkit::quiet();
    config.buffers.send = 8 << 20;
    config
}

pub(crate) fn established(config: Config) -> Script {
    let mut script = Script::new(config, 1);
    script.a_rwnd = 10_000_000;
    script.set_up();
    script
}

/// A SACK of `cumulative` TSNs. TSNs count from the endpoint's initial TSN.
pub(crate) fn sack(script: &Script, cumulative: u32, blocks: &[(u16, u16)], duplicates: &[u32]) -> Chunk {
    let first = script.endpoint_tsn;
    let blocks = blocks.iter().map(|&(start, end)| GapAckBlock { start, end });
    Chunk::Sack(Sack {
        cumulative_tsn_ack: first.plus(cumulative).minus(1),
        a_rwnd: 10_000_000,
        gap_ack_blocks: GapAckBlocks::from_blocks(blocks),
        duplicate_tsns: TsnList::from_tsns(duplicates.iter().map(|&number| first.plus(number))),
    })
}

/// Sends messages of `len` bytes.
pub(crate) fn send(script: &mut Script, count: usize, len: usize) {
    script.act(|association, now| {
        for _ in 0..count {
            association
                .send(
                    now,
                    StreamId(0),
                    Bytes::from(vec![7; len]),
                    SendOptions::default(),
                )
                .expect("send");
        }
    });
}

/// The DATA that the endpoint has sent since the last call: a list of TSNs for each packet, counted from its initial TSN.
pub(crate) fn sent(script: &mut Script) -> Vec<Vec<u32>> {
    let first = script.endpoint_tsn;
    core::iter::from_fn(|| script.next_answer())
        .map(|answer| answer.data().map(|data| data.tsn.distance_from(first)).collect())
        .collect()
}

/// Like [`sent`], with all packets in one list.
pub(crate) fn sent_flat(script: &mut Script) -> Vec<u32> {
    sent(script).into_iter().flatten().collect()
}

pub(crate) fn path(script: &Script) -> PathStats {
    script.association().stats().paths.swap_remove(0)
}

pub(crate) fn counters(script: &Script) -> Counters {
    *script.association().counters()
}
