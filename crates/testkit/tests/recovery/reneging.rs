//! A receiver that reneges on chunks that it acknowledged in gap ack blocks (RFC 9260 §6.2.1), or seems to: reordered SACKs
//! look the same. A is the sender, M its peer.

use anabranch_proto::Reliability;
use anabranch_testkit::fixture::{FULL, Fixture, MS};

fn reneged(fixture: &Fixture) -> u64 {
    fixture.script.association().counters().reneged
}

/// Ten chunks are in flight.
fn ten() -> Fixture {
    let mut fixture = Fixture::usual();
    fixture.send(&[Reliability::Reliable; 10], FULL);
    assert_eq!(fixture.sent().len(), 10);
    fixture
}

// A → DATA 0 to 9 → M; M → SACK (2 to 9); M → SACK (nothing), SACK (2 to 9), SACK (nothing); 100 ms later M → SACK (nothing)
/// The first SACK that omits chunks is processed as reneging, the next one only after 100 ms. Otherwise a peer could make A
/// visit all chunks for each SACK of 16 bytes.
#[test]
fn the_rest_is_reneged_every_100_ms_at_most() {
    let mut fixture = ten();
    fixture.sack(0, &[(2, 9)]);
    fixture.sack(0, &[]);
    assert_eq!(reneged(&fixture), 8);
    fixture.sack(0, &[(2, 9)]);
    fixture.sack(0, &[]);
    assert_eq!(reneged(&fixture), 8, "too soon");
    fixture.script.advance(99 * MS);
    fixture.sack(0, &[]);
    assert_eq!(reneged(&fixture), 8, "too soon");
    fixture.script.advance(MS);
    fixture.sack(0, &[]);
    assert_eq!(
        reneged(&fixture),
        16,
        "chunks that are still not listed were reneged"
    );
}

// A → DATA 0 to 9 → M; M → SACK (2 to 9); M → SACK (3 to 9); M → SACK (up to 2)
/// If the cumulative TSN ack stops before a chunk that was acknowledged, that chunk was reneged, at any time: M waits for its
/// retransmission.
#[test]
fn chunks_after_the_cumulative_tsn_ack_are_reneged_at_once() {
    let mut fixture = ten();
    fixture.sack(0, &[(2, 9)]);
    fixture.sack(0, &[(3, 9)]);
    assert_eq!(reneged(&fixture), 1, "2");
    fixture.sack(3, &[]);
    assert_eq!(
        reneged(&fixture),
        2,
        "3, directly after the cumulative TSN ack, and no other yet"
    );
}

/// Every second TSN from the first to the last, each a block.
fn alternate(first: u32, last: u32) -> Vec<(u32, u32)> {
    (first..=last).step_by(2).map(|tsn| (tsn, tsn)).collect()
}

// A → DATA 0 to 59 → M; M → SACK (1, 3, 5 … 39); M → SACK (1, 3, 5 … 35): no space to list 37 and 39; M → SACK (3, 5 … 35)
/// A receiver lists the lowest TSNs, as many as fit a packet (RFC 9260 §6.2). It has not reneged on chunks above the last one
/// listed.
#[test]
fn chunks_that_do_not_fit_a_sack_are_not_reneged() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Reliability::Reliable; 60], 10);
    fixture.sent();
    fixture.sack(0, &alternate(1, 39));
    fixture.sack(0, &alternate(1, 35));
    assert_eq!(reneged(&fixture), 0);
    fixture.sack(0, &alternate(3, 35));
    assert_eq!(reneged(&fixture), 1, "what it had room for, and lists no more");
    fixture.script.advance(100 * MS);
    fixture.sack(0, &alternate(15, 35));
    assert_eq!(reneged(&fixture), 1 + 6 + 2, "few blocks are all there are");
}
