//! Faults that the fuzz targets found (`scripts/fuzz`), as readable scenarios.

use anabranch_proto::{AssociationState, Config, Event, SendOptions, StreamId};
use anabranch_testkit::Script;
use anabranch_wire::Tsn;
use anabranch_wire::chunk::{Chunk, GapAckBlock, GapAckBlocks, Sack, TsnList};

fn sack(cumulative_tsn_ack: Tsn, blocks: &[(u16, u16)]) -> Chunk {
    let blocks = blocks.iter().map(|&(start, end)| GapAckBlock { start, end });
    Chunk::Sack(Sack {
        cumulative_tsn_ack,
        a_rwnd: 100_000,
        gap_ack_blocks: GapAckBlocks::from_blocks(blocks),
        duplicate_tsns: TsnList::from_tsns([]),
    })
}

/// §6.2.1, §7.2.4: one SACK reneges on a chunk that an earlier SACK acknowledged, and is the third missing report of that
/// chunk. The chunk returns to the bytes in flight and leaves them at once.
#[test]
fn reneged_and_lost_by_one_sack() {
    let mut script = Script::new(Config::rfc9260(), 1);
    script.set_up();
    // endpoint → DATA 1, 2, 3, 4, … → peer, as many as the first window holds.
    script.act(|association, now| {
        let message = vec![7; 9000].into();
        association
            .send(now, StreamId(0), message, SendOptions::default())
            .expect("send");
    });
    let mut highest = *script.sent_tsns().last().expect("a few chunks");
    let before = script.endpoint_tsn.minus(1);
    let offset = |tsn: Tsn| u16::try_from(tsn.distance_from(before)).expect("a few chunks");
    let first_window = offset(highest);
    assert!(first_window >= 4, "{first_window} chunks");
    // peer → SACK 4 to the last → endpoint: 1, 2 and 3 are missing. The acknowledged bytes leave the flight, so new chunks can
    // leave.
    script.send(&[sack(before, &[(4, first_window)])]);
    highest = *script.sent_tsns().last().expect("a new chunk");
    // peer → SACK 4 to the last → endpoint: 1, 2 and 3 are missing for the second time.
    script.send(&[sack(before, &[(4, offset(highest))])]);
    let reneged = offset(highest) - 3;
    highest = *script.sent_tsns().last().expect("a new chunk");
    // peer → SACK 2 → endpoint: 4 and more are reneged; 1 is missing for the third time.
    script.send(&[sack(before, &[(2, 2)])]);
    // endpoint → DATA 1 → peer, by fast retransmit.
    assert_eq!(script.sent_tsns(), [before.plus(1)]);
    // As soon as the peer may renege on more:
    script.advance(core::time::Duration::from_millis(100));
    // peer → SACK 3 to the last → endpoint: 2 is reneged, and missing for the third time.
    script.send(&[sack(before, &[(3, offset(highest))])]);
    let counters = *script.association().counters();
    assert_eq!(
        (counters.fast_recoveries, counters.reneged),
        (1, u64::from(reneged) + 1)
    );
    // endpoint → DATA 2, … → peer.
    let mut answer = script.sent_tsns();
    assert_eq!(answer[0], before.plus(2));
    // peer → SACK of everything, until all is sent.
    while let Some(last) = answer.last() {
        highest = if last.is_after(highest) { *last } else { highest };
        script.send(&[sack(highest, &[])]);
        answer = script.sent_tsns();
    }
    assert!(script.events().contains(&Event::Dry));
    assert_eq!(script.association().stats().paths[0].flight_size, 0);
    assert_eq!(script.association().state(), AssociationState::Established);
}
