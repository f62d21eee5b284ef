//! The sender's rules, each with its packets drawn: A sends by paths 0 and 1, Z is a peer of paper. `(1:3)` is transmission 3 of
//! path 1.

use anabranch_proto::{Config, Reliability};
use anabranch_wire::chunk::{AckPolicy, GapAckBlock, GapAckBlocks, PathSequences};

use super::desk::{Desk, FULL, MS, config};

/// Ten milliseconds each way on path 1, twenty on path 0.
fn desk(change: impl FnOnce(&mut Config)) -> Desk {
    let mut config = config();
    change(&mut config);
    Desk::usual(config, [40, 20])
}

/// Six more packets: TSNs 2, 4, 6 as 1:1 to 1:3, and 3, 5, 7 as 0:1 to 0:3.
fn six(desk: &mut Desk) {
    desk.send(6, FULL);
    assert_eq!(
        desk.sent(),
        [
            "1 E-DATA 2 (1:1)",
            "0 E-DATA 3 (0:1)",
            "1 E-DATA 4 (1:2)",
            "0 E-DATA 5 (0:2)",
            "1 E-DATA 6 (1:3)",
            "0 E-DATA 7 (0:3)",
        ]
    );
}

// A → 2 (1:1) ✗, 4 (1:2), 6 (1:3), 8 (1:4) → Z
// A ← COOP-SACK 1:0, 1:2 … 1:4 ← Z
// A → FORWARD-PSN 1:1, 2 (0:5) → Z
/// Rule 1: a repeat keeps its TSN and takes the next number of the path it leaves on. Rule 2: three later packets of the path make
/// it. Rule 10: the repeat leaves by another path than the one that lost it.
#[test]
fn a_retransmission_has_a_number_of_its_own() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.send(2, FULL);
    assert_eq!(desk.sent(), ["1 E-DATA 8 (1:4)", "0 E-DATA 9 (0:4)"]);
    desk.pass(5);
    desk.ack(2, &[(1, 1, &[(2, 3)])]);
    assert_eq!(desk.sent(), [""; 0], "two packets");
    desk.ack(2, &[(1, 1, &[(2, 4)])]);
    assert_eq!(desk.sent(), ["0 E-DATA 2 (0:5)"]);
    assert_eq!(desk.counters().losses_by_time, 0);
    assert_eq!([1, 0].map(|path| desk.path(path).fast_recoveries), [1, 0]);
}

// A → 3 (0:1), 5 (0:2), 7 (0:3) under way;  A ← COOP-SACK 1:3 ← Z
/// Rule 2: what arrives by one path says nothing of another.
#[test]
fn losses_are_of_one_path_only() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    for last in 1..=3 {
        desk.pass(60);
        desk.ack(3, &[(1, last + 1, &[]), (0, 1, &[])]);
    }
    assert_eq!(desk.sent(), [""; 0]);
    assert_eq!(desk.counters().retransmissions_fast, 0);
    assert_eq!(desk.path(1).flight_size, 0);
}

// A → 2 (1:1) ✗ → Z;  A → 3, 4, 5 (1:2 … 1:4) in one packet → Z;  A ← COOP-SACK 1:2 … 1:4 ← Z
/// Rule 2: chunks are not packets. Three chunks of one packet that was not lost look like three reports, and are one.
#[test]
fn reports_are_packets() {
    let mut config = config();
    config.local_addresses.clear();
    config.multipath.eca.time_rule = false;
    config.no_delay = false;
    let mut desk = Desk::usual(config, [40, 20]);
    // Small messages wait for each other.
    desk.send(1, FULL);
    desk.send(6, 300);
    let sent = desk.sent();
    assert_eq!(sent[0], "1 E-DATA 2 (1:1)");
    assert_eq!(sent[1], "0 E-DATA 3 (0:1), E-DATA 4 (0:2), E-DATA 5 (0:3)");
    desk.send(2, FULL);
    let sent = desk.sent();
    assert_eq!(
        sent[0], "1 E-DATA 6 (1:2), E-DATA 7 (1:3), E-DATA 8 (1:4)",
        "{sent:?}"
    );
    desk.ack(2, &[(1, 1, &[(2, 4)]), (0, 1, &[])]);
    assert_eq!(desk.sent(), [""; 0]);
    assert_eq!(desk.counters().retransmissions_fast, 0);
}

// A → 2 (1:1) ✗, 4 (1:2) → Z;  A ← COOP-SACK 1:2, 20 ms after they left;  … 25 ms after;  A → 2 again → Z
/// Rule 2: one later packet and 1.25 round trips make a loss, by a timer of its own.
#[test]
fn lost_for_the_time_that_passed() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.pass(20);
    desk.ack(2, &[(1, 1, &[(2, 2)])]);
    assert_eq!(desk.sent(), [""; 0]);
    // 1.25 × 20 ms.
    assert_eq!(desk.script.advance_to_timeout(), 5 * MS);
    assert_eq!(desk.sent(), ["0 E-DATA 2 (0:4)"]);
    assert_eq!(desk.counters().losses_by_time, 1);
    assert_eq!([1, 0].map(|path| desk.path(path).fast_recoveries), [1, 0]);
}

// The same without a later packet: nothing says that anything is missing.
/// Rule 2: time alone makes no loss, and without the time rule one later packet makes none.
#[test]
fn neither_time_nor_one_report_alone() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.pass(200);
    assert_eq!(desk.sent(), [""; 0], "no later packet arrived");
    let mut desk = self::desk(|config| config.multipath.eca.time_rule = false);
    six(&mut desk);
    desk.pass(20);
    desk.ack(2, &[(1, 1, &[(2, 2)])]);
    desk.pass(200);
    assert_eq!(desk.sent(), [""; 0], "the time rule is off");
}

// A → 2 (1:1), 4 (1:2) overtakes;  A ← COOP-SACK 1:2 ← Z;  A → 2 (0:4) → Z;  A ← COOP-SACK 1:1, 1:2; dup 0:4 ← Z
// A → 8 (1:4), 10 (1:5), 12 (1:6) → Z;  A ← COOP-SACK 1:5, then 1:6 ← Z
/// Rule 2: a needless repeat makes its path more patient: where one report made a loss, two do. Rule 6: the duplicate is known by
/// its transmission.
#[test]
fn spurious_retransmissions_raise_the_reordering_window() {
    let mut desk = desk(|config| {
        config.recovery.missing_reports = 1;
        config.multipath.eca.time_rule = false;
    });
    six(&mut desk);
    desk.ack(2, &[(1, 1, &[(2, 2)])]);
    assert_eq!(desk.sent(), ["0 E-DATA 2 (0:4)"]);
    desk.pass(1);
    desk.ack_with(8, &[(1, 4, &[]), (0, 5, &[])], |sack| {
        sack.duplicates = PathSequences::from_list([Desk::at(0, 4)]);
    });
    assert_eq!(desk.counters().retransmissions_spurious, 1);
    desk.sent();
    desk.send(6, FULL);
    let sent = desk.sent();
    assert_eq!(
        (sent[0].as_str(), sent.len()),
        ("1 E-DATA 8 (1:4)", 6),
        "{sent:?}"
    );
    desk.pass(1);
    desk.ack(8, &[(1, 4, &[(5, 5)]), (0, 5, &[])]);
    assert_eq!(
        desk.counters().retransmissions_fast,
        1,
        "one report is not enough"
    );
    desk.ack(8, &[(1, 4, &[(5, 6)]), (0, 5, &[])]);
    assert_eq!(desk.counters().retransmissions_fast, 2);
}

// A → 2 (1:1) late;  A → 2 (0:4) → Z;  A ← COOP-SACK 1:1 ← Z
/// Rule 3: once the chunk is known to have arrived by its first transmission, the repeat is of no interest: path 0 has nothing
/// of it in flight, and what is acknowledged counts for path 1.
#[test]
fn the_original_cancels_the_retransmission() {
    let mut desk = desk(|config| {
        config.recovery.missing_reports = 1;
        config.multipath.eca.time_rule = false;
    });
    six(&mut desk);
    desk.pass(5);
    desk.ack(2, &[(1, 1, &[(2, 2)])]);
    assert_eq!(desk.sent(), ["0 E-DATA 2 (0:4)"]);
    let chunk = FULL + 20;
    assert_eq!([1, 0].map(|path| desk.path(path).flight_size), [chunk, 4 * chunk]);
    desk.ack(3, &[(1, 3, &[])]);
    assert_eq!([1, 0].map(|path| desk.path(path).flight_size), [chunk, 3 * chunk]);
    // It is no report of what left before it.
    assert_eq!(desk.sent(), [""; 0]);
    assert_eq!(desk.counters().retransmissions_fast, 1);
}

// A → FORWARD-PSN 1:1 with the next packet on path 1 → Z;  A ← COOP-SACK that lags ← Z;  … two round trips;  A → FORWARD-PSN again
/// Rule 4: what is lost is closed by FORWARD-PSN with the next packet on its path, and again while the receiver lags.
#[test]
fn gaps_are_closed() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.pass(30);
    desk.ack(2, &[(1, 1, &[(2, 2)])]);
    assert_eq!(desk.sent(), ["0 E-DATA 2 (0:4)"], "path 1 carries nothing now");
    desk.send(1, FULL);
    assert_eq!(desk.sent(), ["1 FORWARD-PSN 1:1", "1 E-DATA 8 (1:4)"]);
    desk.send(2, 100);
    assert_eq!(
        desk.sent(),
        ["0 E-DATA 9 (0:5)", "1 E-DATA 10 (1:5)"],
        "not at once"
    );
    desk.pass(60);
    desk.ack(2, &[(1, 1, &[(2, 2)])]);
    desk.send(2, 100);
    assert_eq!(
        desk.sent(),
        ["0 E-DATA 11 (0:6)", "1 FORWARD-PSN 1:1, E-DATA 12 (1:6)"]
    );
    desk.ack(2, &[(1, 3, &[])]);
    desk.pass(60);
    desk.send(2, 100);
    let sent = desk.sent();
    assert!(sent.iter().all(|packet| !packet.contains("FORWARD")), "{sent:?}");
}

// A → FORWARD-PSN 1:2 → Z;  A ← COOP-SACK 1:3 (CumPSN), cumulative TSN 2 ← Z
/// Rule 4: a CumPSN that runs over what was given up acknowledges nothing: the repeat stays in flight.
#[test]
fn abandoned_chunks_are_not_acknowledged() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.pass(30);
    desk.ack(3, &[(1, 2, &[(3, 3)])]);
    assert_eq!(desk.sent(), ["0 E-DATA 4 (0:4)"]);
    desk.send(1, FULL);
    assert_eq!(desk.sent(), ["1 FORWARD-PSN 1:2", "1 E-DATA 8 (1:4)"]);
    let chunk = FULL + 20;
    assert_eq!(desk.path(0).flight_size, 4 * chunk);
    desk.ack(3, &[(1, 4, &[])]);
    assert_eq!(desk.path(0).flight_size, 4 * chunk, "4 (0:4) is under way");
    desk.ack(3, &[(1, 4, &[]), (0, 1, &[(4, 4)])]);
    assert_eq!(desk.path(0).flight_size, 3 * chunk);
}

/// Rule 4, for comparison: without FORWARD-PSN the gap stays.
#[test]
fn without_forward_psn() {
    let mut desk = desk(|config| config.multipath.eca.forward_psn = false);
    six(&mut desk);
    desk.pass(30);
    desk.ack(2, &[(1, 1, &[(2, 2)])]);
    desk.send(4, FULL);
    assert!(desk.sent().iter().all(|packet| !packet.contains("FORWARD")));
    assert_eq!(desk.counters().forward_psns_sent, 0);
}

// A ← COOP-SACK t=9: 1:1 … 1:3, window 0 ← Z;  A ← COOP-SACK t=5: 0:1 … 0:3, window 99 ← Z
/// Rule 7: of an acknowledgement that was overtaken by a newer one, only what it says arrived counts.
#[test]
fn an_older_one_says_only_what_arrived() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.pass(9);
    desk.a_rwnd = 5000;
    desk.ack(2, &[(1, 4, &[])]);
    desk.a_rwnd = 900_000;
    let rwnd = |desk: &Desk| desk.script.association().stats().peer_rwnd;
    let before = rwnd(&desk);
    desk.ack_with(8, &[(0, 1, &[(2, 3)])], |sack| sack.timestamp_ms -= 4);
    assert_eq!(desk.path(0).flight_size, FULL + 20, "3 (0:1) is in flight");
    assert_eq!(rwnd(&desk), before + 2 * FULL, "as much as left the flight");
    assert_eq!(
        desk.script.association().stats().outstanding_bytes,
        6 * FULL,
        "the cumulative TSN ack did not move"
    );
    assert_eq!(desk.counters().sacks_stale, 1);
    desk.ack(8, &[(1, 4, &[]), (0, 4, &[])]);
    assert_eq!(desk.script.association().stats().outstanding_bytes, 0);
}

// A → 3 (0:1) → Z;  A ← COOP-SACK 0:1, by path 1 ← Z
/// Rule 8: an acknowledgement gives a sample of a path though it returns by another one, and of a repeat too (rule 1).
#[test]
fn any_acknowledgement_gives_a_sample() {
    for any in [true, false] {
        let mut config = config();
        config.multipath.eca.sample_any_ack = any;
        let mut desk = Desk::new(config, &super::desk::ECA);
        desk.send(2, FULL);
        desk.sent();
        desk.pass(30);
        let before = desk.path(1).srtt;
        desk.ack(2, &[(1, 1, &[]), (0, 1, &[])]);
        assert_eq!(desk.path(0).srtt.map(|srtt| srtt > 3 * MS), Some(true));
        assert_eq!(desk.path(1).srtt != before, any);
    }
}

// A ← COOP-SACK, a_rwnd 3000, of it 1500 for each path ← Z
/// Rule 9: the association's window governs; what is said of a path is advice.
#[test]
fn one_window_for_all_paths() {
    let mut desk = desk(|_| {});
    desk.a_rwnd = 3000;
    desk.pass(1);
    desk.ack(2, &[(1, 1, &[]), (0, 1, &[])]);
    desk.send(6, FULL);
    assert_eq!(desk.sent().len(), 2, "two of 1,220 bytes");
}

// A → 2 … (cwnd of path 0 is full) → Z;  A ← three reports for 2 (1:1) ← Z;  A → 2 (1:n) → Z
/// Rule 10: the first repeat of an acknowledgement ignores the congestion window, even of a path that is full; while others wait no
/// new data leaves.
#[test]
fn the_first_retransmission_does_not_wait() {
    let mut desk = desk(|config| config.multipath.eca.time_rule = false);
    // Both windows, of 20 packets and what slow start added, are full.
    desk.send(60, FULL);
    let next = desk.sent().len() + 2;
    let is_full = |desk: &Desk, path: usize| desk.path(path).flight_size >= desk.path(path).cwnd;
    assert!(is_full(&desk, 0) && is_full(&desk, 1));
    desk.pass(5);
    desk.ack(2, &[(1, 1, &[(3, 5)])]);
    let sent = desk.sent();
    // 4 waits, and new data with it.
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].starts_with("0 E-DATA 2 (0:"), "{sent:?}");
    assert!(is_full(&desk, 0) && is_full(&desk, 1));
    // Another loss of the same window, which cuts no more.
    desk.ack(2, &[(1, 1, &[(3, 5), (7, 9)])]);
    let sent = desk.sent();
    assert!(sent[0].starts_with("0 E-DATA 4 (0:"), "{sent:?}");
    assert!(
        sent.iter()
            .all(|packet| !packet.contains(&format!("E-DATA {next} "))),
        "{sent:?}"
    );
    assert_eq!(desk.path(1).fast_recoveries, 1);
}

// A → 2 (1:1, rank 1), 3 (0:1, rank 2) → Z
/// Rule 11: the path with the shortest round trip has the first rank.
#[test]
fn the_shortest_path_has_the_first_rank() {
    let mut desk = desk(|_| {});
    desk.send(2, FULL);
    assert_eq!(
        desk.policies(),
        [(1, AckPolicy::Ranked(1)), (0, AckPolicy::Ranked(2))]
    );
}

// A ← COOP-SACK 1: 2 (1:1), 4 (1:2); renegable: 4 ← Z
/// Rule 12: with NR-SACK, what is acknowledged and not listed as renegable is freed; without, nothing is promised.
#[test]
fn what_is_not_renegable_is_freed() {
    for nr_sack in [true, false] {
        let mut config = config();
        config.nr_sack.offer = true;
        let mut kinds = super::desk::ECA.to_vec();
        if nr_sack {
            kinds.push(anabranch_wire::chunk::kind::NR_SACK);
        }
        let mut desk = Desk::new(config, &kinds);
        desk.send(6, FULL);
        desk.sent();
        desk.pass(1);
        // TSNs 2 and 4; of these 4 may be dropped: it is the fifth, offset 5 from the cumulative TSN ack.
        desk.ack_with(0, &[(1, 0, &[(1, 2)])], |sack| {
            let block = GapAckBlock { start: 5, end: 5 };
            sack.renegable = nr_sack.then(|| GapAckBlocks::from_blocks([block]));
        });
        let freed = if nr_sack { FULL } else { 0 };
        assert_eq!(desk.counters().freed_early_bytes, freed as u64);
    }
}

// A ← COOP-SACK 1 (cum), 1:1 … ← Z, though 2 (1:1) had arrived
/// What had arrived and follows the cumulative TSN ack was taken back: it would have moved. The chunk is sent again.
#[test]
fn reneged_chunks_are_retransmitted() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.pass(5);
    desk.ack(2, &[(0, 4, &[])]);
    assert_eq!(desk.counters().reneged, 0);
    desk.pass(5);
    // 2 arrived, 3 is there, and yet nothing moves.
    desk.ack(2, &[(1, 1, &[]), (0, 4, &[])]);
    desk.pass(5);
    desk.ack(3, &[(1, 2, &[]), (0, 4, &[])]);
    assert_eq!(desk.counters().reneged, 1, "3 (0:1)");
    desk.pass(3000);
    let sent = desk.sent();
    assert!(sent.iter().any(|packet| packet.contains("E-DATA 3 ")), "{sent:?}");
}

// A → 2 (1:1, once only) ✗ → Z;  A → FORWARD-TSN 2, FORWARD-PSN 1:1 → Z
/// With partial reliability: what is given up is passed by FORWARD-TSN, and its transmission by FORWARD-PSN.
#[test]
fn what_is_abandoned_is_closed_too() {
    let mut config = config();
    config.partial_reliability.offer = true;
    let mut kinds = super::desk::ECA.to_vec();
    kinds.push(anabranch_wire::chunk::kind::FORWARD_TSN);
    let mut desk = Desk::new(config, &kinds);
    desk.send_as(FULL, Reliability::Retransmissions(0));
    desk.send(7, FULL);
    desk.sent();
    desk.pass(5);
    desk.ack(0, &[(1, 0, &[(1, 3)]), (0, 4, &[])]);
    desk.send(2, 100);
    let sent = desk.sent().join("; ");
    assert!(
        sent.contains("FORWARD-TSN") && sent.contains("FORWARD-PSN 1:0"),
        "{sent}"
    );
    assert_eq!(desk.counters().abandoned_sent, 1);
    assert_eq!(desk.counters().retransmissions_fast, 0);
}

// A ← COOP-SACK of paths 0, 1 and 77 ← Z
/// Rule 13: a path that there is not may have been, and what is said of it is passed over.
#[test]
fn an_unknown_path_is_passed_over() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.pass(5);
    desk.ack(8, &[(1, 4, &[]), (77, 9, &[(12, 13)]), (0, 4, &[])]);
    assert_eq!(desk.script.association().stats().outstanding_bytes, 0);
    assert!(!desk.is_closed());
    desk.send(1, FULL);
    assert_eq!(desk.sent(), ["1 E-DATA 8 (1:4)"]);
}

// A ← COOP-SACK of a transmission that never left; of a TSN that never left ← Z;  A → ABORT → Z
/// An acknowledgement of what was never sent ends the association, as a SACK of a TSN that was never sent does.
#[test]
fn never_sent() {
    for (count, report) in [
        (2, (1, 5, &[][..])),
        (2, (1, 1, &[(4, 4)][..])),
        (2, (1, 4, &[(6, 6)][..])),
        (9, (1, 4, &[][..])),
    ] {
        let mut desk = desk(|_| {});
        six(&mut desk);
        desk.ack(count, &[report]);
        assert!(desk.sent().concat().contains("ABORT"), "{count}, {report:?}");
        assert!(desk.is_closed());
    }
    // The same a little less is fine.
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.ack(8, &[(1, 1, &[(3, 3)]), (0, 4, &[])]);
    assert!(!desk.is_closed());
}

// A → 2 (1:1) … (silence);  T3;  A → 2, 4 (0:4, …) → Z;  A → FORWARD-PSN 1:3 with the next on path 1
/// After T3-rtx nothing of the path is waited for, and its receiver is told so.
#[test]
fn a_timeout_gives_all_of_the_path_up() {
    let mut desk = desk(|_| {});
    six(&mut desk);
    desk.pass(30);
    desk.ack(2, &[(0, 4, &[])]);
    desk.pass(1500);
    let sent = desk.sent();
    assert!(
        sent.iter().any(|packet| packet.contains("E-DATA 2 (0:4)")),
        "{sent:?}"
    );
    assert_eq!(desk.counters().timeouts, 1);
    desk.ack(8, &[(1, 1, &[]), (0, 7, &[])]);
    desk.sent();
    desk.send(2, 100);
    let sent = desk.sent().join("; ");
    assert!(sent.contains("1 FORWARD-PSN 1:3"), "{sent}");
}
