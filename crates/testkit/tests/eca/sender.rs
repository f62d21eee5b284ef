//! The sender's rules, with the packets drawn: A sends on paths 0 and 1, Z is a hand-made peer. `(1:3)` is transmission 3 of
//! path 1.

use anabranch_proto::{AckRouting, Config, Reliability};
use anabranch_wire::chunk::{AckPolicy, GapAckBlock, GapAckBlocks, PathSequences};

use super::fixture::{FULL, Fixture, MS, config};

/// A one-way delay of 10 ms on path 1 and of 20 ms on path 0.
fn fixture(change: impl FnOnce(&mut Config)) -> Fixture {
    let mut config = config();
    change(&mut config);
    Fixture::usual(config, [40, 20])
}

/// Six more packets: TSNs 2, 4, 6 as 1:1 to 1:3, and 3, 5, 7 as 0:1 to 0:3.
fn six(fixture: &mut Fixture) {
    fixture.send(6, FULL);
    assert_eq!(
        fixture.sent(),
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
/// Rule 1: a retransmission keeps its TSN and gets the next number of the path on which it leaves. Rule 2: three later packets
/// of the path make a loss. Rule 10: the retransmission uses another path than the one that lost the chunk.
#[test]
fn a_retransmission_has_a_number_of_its_own() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.send(2, FULL);
    assert_eq!(fixture.sent(), ["1 E-DATA 8 (1:4)", "0 E-DATA 9 (0:4)"]);
    fixture.pass(5);
    fixture.ack(2, &[(1, 1, &[(2, 3)])]);
    assert_eq!(fixture.sent(), [""; 0], "two packets");
    fixture.ack(2, &[(1, 1, &[(2, 4)])]);
    assert_eq!(fixture.sent(), ["0 E-DATA 2 (0:5)"]);
    assert_eq!(fixture.counters().losses_by_time, 0);
    assert_eq!([1, 0].map(|path| fixture.path(path).fast_recoveries), [1, 0]);
}

// A → 3 (0:1), 5 (0:2), 7 (0:3) in flight;  A ← COOP-SACK 1:3 ← Z
/// Rule 2: arrivals on one path make no missing reports for another.
#[test]
fn losses_are_of_one_path_only() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    for last in 1..=3 {
        fixture.pass(60);
        fixture.ack(3, &[(1, last + 1, &[]), (0, 1, &[])]);
    }
    assert_eq!(fixture.sent(), [""; 0]);
    assert_eq!(fixture.counters().retransmissions_fast, 0);
    assert_eq!(fixture.path(1).flight_size, 0);
}

// A → 2 (1:1) ✗ → Z;  A → 3, 4, 5 (1:2 … 1:4) in one packet → Z;  A ← COOP-SACK 1:2 … 1:4 ← Z
/// Rule 2: packets count, not chunks. Three chunks of one packet look like three missing reports but are one.
#[test]
fn missing_reports_count_packets() {
    let mut config = config();
    config.local_addresses.clear();
    config.multipath.eca.time_rule = false;
    config.no_delay = false;
    let mut fixture = Fixture::usual(config, [40, 20]);
    // Small messages wait to be bundled.
    fixture.send(1, FULL);
    fixture.send(6, 300);
    let sent = fixture.sent();
    assert_eq!(sent[0], "1 E-DATA 2 (1:1)");
    assert_eq!(sent[1], "0 E-DATA 3 (0:1), E-DATA 4 (0:2), E-DATA 5 (0:3)");
    fixture.send(2, FULL);
    let sent = fixture.sent();
    assert_eq!(
        sent[0], "1 E-DATA 6 (1:2), E-DATA 7 (1:3), E-DATA 8 (1:4)",
        "{sent:?}"
    );
    fixture.ack(2, &[(1, 1, &[(2, 4)]), (0, 1, &[])]);
    assert_eq!(fixture.sent(), [""; 0]);
    assert_eq!(fixture.counters().retransmissions_fast, 0);
}

// A → 2 (1:1) ✗, 4 (1:2) → Z;  A ← COOP-SACK 1:2, 20 ms after they left;  … 25 ms after;  A → 2 again → Z
/// Rule 2: one later packet and 1.25 RTTs make a loss, found by a timer of its own.
#[test]
fn one_later_packet_and_a_timer_make_a_loss() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.pass(20);
    fixture.ack(2, &[(1, 1, &[(2, 2)])]);
    assert_eq!(fixture.sent(), [""; 0]);
    // 1.25 × 20 ms.
    assert_eq!(fixture.script.advance_to_timeout(), 5 * MS);
    assert_eq!(fixture.sent(), ["0 E-DATA 2 (0:4)"]);
    assert_eq!(fixture.counters().losses_by_time, 1);
    assert_eq!([1, 0].map(|path| fixture.path(path).fast_recoveries), [1, 0]);
}

// The same without a later packet: there is no sign of a missing packet.
/// Rule 2: time alone makes no loss. Without the time rule one later packet makes none.
#[test]
fn neither_time_nor_one_report_alone_makes_a_loss() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.pass(200);
    assert_eq!(fixture.sent(), [""; 0], "no later packet arrived");
    let mut fixture = self::fixture(|config| config.multipath.eca.time_rule = false);
    six(&mut fixture);
    fixture.pass(20);
    fixture.ack(2, &[(1, 1, &[(2, 2)])]);
    fixture.pass(200);
    assert_eq!(fixture.sent(), [""; 0], "the time rule is off");
}

// A → 2 (1:1), 4 (1:2) overtakes;  A ← COOP-SACK 1:2 ← Z;  A → 2 (0:4) → Z;  A ← COOP-SACK 1:1, 1:2; dup 0:4 ← Z
// A → 8 (1:4), 10 (1:5), 12 (1:6) → Z;  A ← COOP-SACK 1:5, then 1:6 ← Z
/// Rule 2: a spurious retransmission raises its path's reordering threshold: one missing report made a loss before, two are
/// needed after it. Rule 6: the transmission number identifies the duplicate.
#[test]
fn spurious_retransmissions_raise_the_reordering_window() {
    let mut fixture = fixture(|config| {
        config.recovery = config.recovery.missing_reports(1);
        config.multipath.eca.time_rule = false;
    });
    six(&mut fixture);
    fixture.ack(2, &[(1, 1, &[(2, 2)])]);
    assert_eq!(fixture.sent(), ["0 E-DATA 2 (0:4)"]);
    fixture.pass(1);
    fixture.ack_with(8, &[(1, 4, &[]), (0, 5, &[])], |sack| {
        sack.duplicates = PathSequences::from_list([Fixture::at(0, 4)]);
    });
    assert_eq!(fixture.counters().retransmissions_spurious, 1);
    fixture.sent();
    fixture.send(6, FULL);
    let sent = fixture.sent();
    assert_eq!(
        (sent[0].as_str(), sent.len()),
        ("1 E-DATA 8 (1:4)", 6),
        "{sent:?}"
    );
    fixture.pass(1);
    fixture.ack(8, &[(1, 4, &[(5, 5)]), (0, 5, &[])]);
    assert_eq!(
        fixture.counters().retransmissions_fast,
        1,
        "one report is not enough"
    );
    fixture.ack(8, &[(1, 4, &[(5, 6)]), (0, 5, &[])]);
    assert_eq!(fixture.counters().retransmissions_fast, 2);
}

// A → 2 (1:1) late;  A → 2 (0:4) → Z;  A ← COOP-SACK 1:1 ← Z
/// Rule 3: if the original transmission turns out to have arrived, the retransmission is no longer counted: path 0 has no bytes
/// of it in flight, and the acknowledged bytes count for path 1.
#[test]
fn the_original_cancels_the_retransmission() {
    let mut fixture = fixture(|config| {
        config.recovery = config.recovery.missing_reports(1);
        config.multipath.eca.time_rule = false;
    });
    six(&mut fixture);
    fixture.pass(5);
    fixture.ack(2, &[(1, 1, &[(2, 2)])]);
    assert_eq!(fixture.sent(), ["0 E-DATA 2 (0:4)"]);
    let chunk = FULL + 20;
    assert_eq!(
        [1, 0].map(|path| fixture.path(path).flight_size),
        [chunk, 4 * chunk]
    );
    fixture.ack(3, &[(1, 3, &[])]);
    assert_eq!(
        [1, 0].map(|path| fixture.path(path).flight_size),
        [chunk, 3 * chunk]
    );
    // It is no missing report for packets that left before it.
    assert_eq!(fixture.sent(), [""; 0]);
    assert_eq!(fixture.counters().retransmissions_fast, 1);
}

// A → FORWARD-PSN 1:1 with the next packet on path 1 → Z;  A ← COOP-SACK that lags ← Z;  … two round trips;  A → FORWARD-PSN again
/// Rule 4: FORWARD-PSN leaves with the next packet on the path and closes the gap of a lost transmission. It is sent again
/// while the receiver lags.
#[test]
fn gaps_are_closed() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.pass(30);
    fixture.ack(2, &[(1, 1, &[(2, 2)])]);
    assert_eq!(fixture.sent(), ["0 E-DATA 2 (0:4)"], "path 1 carries nothing now");
    fixture.send(1, FULL);
    assert_eq!(fixture.sent(), ["1 FORWARD-PSN 1:1", "1 E-DATA 8 (1:4)"]);
    fixture.send(2, 100);
    assert_eq!(
        fixture.sent(),
        ["0 E-DATA 9 (0:5)", "1 E-DATA 10 (1:5)"],
        "not at once"
    );
    fixture.pass(60);
    fixture.ack(2, &[(1, 1, &[(2, 2)])]);
    fixture.send(2, 100);
    assert_eq!(
        fixture.sent(),
        ["0 E-DATA 11 (0:6)", "1 FORWARD-PSN 1:1, E-DATA 12 (1:6)"]
    );
    fixture.ack(2, &[(1, 3, &[])]);
    fixture.pass(60);
    fixture.send(2, 100);
    let sent = fixture.sent();
    assert!(sent.iter().all(|packet| !packet.contains("FORWARD")), "{sent:?}");
}

// A → FORWARD-PSN 1:2 → Z;  A ← COOP-SACK 1:3 (CumPSN), cumulative TSN 2 ← Z
/// Rule 4: a CumPSN that passes skipped transmissions acknowledges none of them. The retransmission stays in flight.
#[test]
fn abandoned_chunks_are_not_acknowledged() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.pass(30);
    fixture.ack(3, &[(1, 2, &[(3, 3)])]);
    assert_eq!(fixture.sent(), ["0 E-DATA 4 (0:4)"]);
    fixture.send(1, FULL);
    assert_eq!(fixture.sent(), ["1 FORWARD-PSN 1:2", "1 E-DATA 8 (1:4)"]);
    let chunk = FULL + 20;
    assert_eq!(fixture.path(0).flight_size, 4 * chunk);
    fixture.ack(3, &[(1, 4, &[])]);
    assert_eq!(fixture.path(0).flight_size, 4 * chunk, "4 (0:4) is in flight");
    fixture.ack(3, &[(1, 4, &[]), (0, 1, &[(4, 4)])]);
    assert_eq!(fixture.path(0).flight_size, 3 * chunk);
}

/// Rule 4, for comparison: without FORWARD-PSN the gap stays.
#[test]
fn without_forward_psn() {
    let mut fixture = fixture(|config| config.multipath.eca.forward_psn = false);
    six(&mut fixture);
    fixture.pass(30);
    fixture.ack(2, &[(1, 1, &[(2, 2)])]);
    fixture.send(4, FULL);
    assert!(fixture.sent().iter().all(|packet| !packet.contains("FORWARD")));
    assert_eq!(fixture.counters().forward_psns_sent, 0);
}

// A ← COOP-SACK t=9: 1:1 … 1:3, window 0 ← Z;  A ← COOP-SACK t=5: 0:1 … 0:3, window 99 ← Z
/// Rule 7: if an acknowledgement is older than the newest one received, the sender uses only the arrivals that it reports.
#[test]
fn an_old_acknowledgement_reports_arrivals_only() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.pass(9);
    fixture.a_rwnd = 5000;
    fixture.ack(2, &[(1, 4, &[])]);
    fixture.a_rwnd = 900_000;
    let rwnd = |fixture: &Fixture| fixture.script.association().stats().peer_rwnd;
    let before = rwnd(&fixture);
    fixture.ack_with(8, &[(0, 1, &[(2, 3)])], |sack| sack.timestamp_ms -= 4);
    assert_eq!(fixture.path(0).flight_size, FULL + 20, "3 (0:1) is in flight");
    assert_eq!(rwnd(&fixture), before + 2 * FULL, "as much as left the flight");
    assert_eq!(
        fixture.script.association().stats().outstanding_bytes,
        6 * FULL,
        "the cumulative TSN ack did not move"
    );
    assert_eq!(fixture.counters().sacks_stale, 1);
    fixture.ack(8, &[(1, 4, &[]), (0, 4, &[])]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 0);
}

// A → 3 (0:1) → Z;  A ← COOP-SACK 0:1, by path 1 ← Z
/// Rule 8: an acknowledgement gives an RTT sample of a path even if it returns on another one, and also for a retransmission
/// (rule 1).
#[test]
fn any_acknowledgement_gives_a_sample() {
    for any in [true, false] {
        let mut config = config();
        config.multipath.eca.sample_any_ack = any;
        let mut fixture = Fixture::new(config, &super::fixture::ECA);
        fixture.send(2, FULL);
        fixture.sent();
        fixture.pass(30);
        let before = fixture.path(1).srtt;
        fixture.ack(2, &[(1, 1, &[]), (0, 1, &[])]);
        assert_eq!(fixture.path(0).srtt.map(|srtt| srtt > 3 * MS), Some(true));
        assert_eq!(fixture.path(1).srtt != before, any);
    }
}

// A ← COOP-SACK, a_rwnd 3000, of it 1500 for each path ← Z
/// Rule 9: the association's window is the limit. The share of a path is advice.
#[test]
fn one_window_for_all_paths() {
    let mut fixture = fixture(|_| {});
    fixture.a_rwnd = 3000;
    fixture.pass(1);
    fixture.ack(2, &[(1, 1, &[]), (0, 1, &[])]);
    fixture.send(6, FULL);
    assert_eq!(fixture.sent().len(), 2, "two of 1,220 bytes");
}

// A → 2 … (cwnd of path 0 is full) → Z;  A ← three reports for 2 (1:1) ← Z;  A → 2 (1:n) → Z
/// Rule 10: the first retransmission after an acknowledgement ignores the congestion window, even on a path whose window is
/// full. While other retransmissions wait, no new data leaves.
#[test]
fn the_first_retransmission_does_not_wait() {
    let mut fixture = fixture(|config| config.multipath.eca.time_rule = false);
    // Both windows, of 20 packets and what slow start added, are full.
    fixture.send(60, FULL);
    let next = fixture.sent().len() + 2;
    let is_full = |fixture: &Fixture, path: usize| fixture.path(path).flight_size >= fixture.path(path).cwnd;
    assert!(is_full(&fixture, 0) && is_full(&fixture, 1));
    fixture.pass(5);
    fixture.ack(2, &[(1, 1, &[(3, 5)])]);
    let sent = fixture.sent();
    // TSN 4 waits, and so does new data.
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].starts_with("0 E-DATA 2 (0:"), "{sent:?}");
    assert!(is_full(&fixture, 0) && is_full(&fixture, 1));
    // Another loss of the same window, which causes no further reduction.
    fixture.ack(2, &[(1, 1, &[(3, 5), (7, 9)])]);
    let sent = fixture.sent();
    assert!(sent[0].starts_with("0 E-DATA 4 (0:"), "{sent:?}");
    assert!(
        sent.iter()
            .all(|packet| !packet.contains(&format!("E-DATA {next} "))),
        "{sent:?}"
    );
    assert_eq!(fixture.path(1).fast_recoveries, 1);
}

// A → 2 (1:1, rank 1), 3 (0:1, rank 2) → Z
/// Rule 11: the path with the lowest RTT has the first rank, and by measurement it reports its own gaps.
#[test]
fn the_path_with_the_lowest_rtt_has_the_first_rank() {
    for (routing, first) in [
        (AckRouting::Ranked, AckPolicy::Ranked(1)),
        (AckRouting::Measured, AckPolicy::LastArrival),
    ] {
        let mut fixture = fixture(|config| config.multipath.eca.ack_routing = routing);
        fixture.send(2, FULL);
        assert_eq!(fixture.policies(), [(1, first), (0, AckPolicy::Ranked(2))]);
    }
}

// A → 0 (1:0, I), 1 (0:0, I), … → Z
/// Rule 11: by measurement, paths with small windows ask for an acknowledgement of each packet.
#[test]
fn paths_with_small_windows_ask_at_once() {
    for (routing, window, asks) in [
        (AckRouting::Measured, 16, true),
        (AckRouting::Measured, 17, false),
        (AckRouting::Ranked, 16, false),
    ] {
        let mut config = config();
        config.multipath.eca.ack_routing = routing;
        config.initial_window = Some(window);
        let mut fixture = Fixture::new(config, &super::fixture::ECA);
        fixture.send(8, FULL);
        let sent = fixture.e_data_sent();
        assert_eq!(sent.len(), 8);
        // The last chunk of all asks anyway (RFC 7053).
        let usual = sent.iter().take(7).map(|chunk| chunk.data.immediate);
        assert!(
            usual.clone().all(|asked| asked == asks),
            "{routing:?}, {window} packets: {:?}",
            usual.collect::<Vec<_>>()
        );
    }
}

// A ← COOP-SACK 1: 2 (1:1), 4 (1:2); renegable: 4 ← Z
/// Rule 12: with NR-SACK, the sender frees chunks that are acknowledged and not listed as renegable. Without NR-SACK it keeps
/// them.
#[test]
fn non_renegable_chunks_are_freed() {
    for nr_sack in [true, false] {
        let mut config = config();
        config.nr_sack.offer = true;
        let mut kinds = super::fixture::ECA.to_vec();
        if nr_sack {
            kinds.push(anabranch_wire::chunk::kind::NR_SACK);
        }
        let mut fixture = Fixture::new(config, &kinds);
        fixture.send(6, FULL);
        fixture.sent();
        fixture.pass(1);
        // TSNs 2 and 4 arrived. TSN 4 may be dropped: it is the fifth, with offset 5 from the cumulative TSN ack.
        fixture.ack_with(0, &[(1, 0, &[(1, 2)])], |sack| {
            let block = GapAckBlock { start: 5, end: 5 };
            sack.renegable = nr_sack.then(|| GapAckBlocks::from_blocks([block]));
        });
        let freed = if nr_sack { FULL } else { 0 };
        assert_eq!(fixture.counters().freed_early_bytes, freed as u64);
    }
}

// A ← COOP-SACK 1 (cum), 1:1 … ← Z, though 2 (1:1) had arrived
/// A chunk that had arrived and directly follows the cumulative TSN ack was reneged: otherwise the cumulative TSN ack would
/// have moved. The chunk is retransmitted.
#[test]
fn reneged_chunks_are_retransmitted() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.pass(5);
    fixture.ack(2, &[(0, 4, &[])]);
    assert_eq!(fixture.counters().reneged, 0);
    fixture.pass(5);
    // TSN 2 had arrived and TSN 3 is listed, but the cumulative TSN ack does not move.
    fixture.ack(2, &[(1, 1, &[]), (0, 4, &[])]);
    fixture.pass(5);
    fixture.ack(3, &[(1, 2, &[]), (0, 4, &[])]);
    assert_eq!(fixture.counters().reneged, 1, "3 (0:1)");
    fixture.pass(3000);
    let sent = fixture.sent();
    assert!(sent.iter().any(|packet| packet.contains("E-DATA 3 ")), "{sent:?}");
}

// A → 2 (1:1, once only) ✗ → Z;  A → FORWARD-TSN 2, FORWARD-PSN 1:1 → Z
/// With partial reliability: FORWARD-TSN passes an abandoned chunk, and FORWARD-PSN passes its transmission.
#[test]
fn abandoned_chunks_are_passed_by_both_kinds_of_forward() {
    let mut config = config();
    config.partial_reliability.offer = true;
    let mut kinds = super::fixture::ECA.to_vec();
    kinds.push(anabranch_wire::chunk::kind::FORWARD_TSN);
    let mut fixture = Fixture::new(config, &kinds);
    fixture.send_as(FULL, Reliability::Retransmissions(0));
    fixture.send(7, FULL);
    fixture.sent();
    fixture.pass(5);
    fixture.ack(0, &[(1, 0, &[(1, 3)]), (0, 4, &[])]);
    fixture.send(2, 100);
    let sent = fixture.sent().join("; ");
    assert!(
        sent.contains("FORWARD-TSN") && sent.contains("FORWARD-PSN 1:0"),
        "{sent}"
    );
    assert_eq!(fixture.counters().abandoned_sent, 1);
    assert_eq!(fixture.counters().retransmissions_fast, 0);
}

// A ← COOP-SACK of paths 0, 1 and 77 ← Z
/// Rule 13: an acknowledgement of a path that does not exist is skipped, since the path may have existed before.
#[test]
fn an_unknown_path_is_skipped() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.pass(5);
    fixture.ack(8, &[(1, 4, &[]), (77, 9, &[(12, 13)]), (0, 4, &[])]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 0);
    assert!(!fixture.is_closed());
    fixture.send(1, FULL);
    assert_eq!(fixture.sent(), ["1 E-DATA 8 (1:4)"]);
}

// A ← COOP-SACK of a transmission that never left; of a TSN that never left ← Z;  A → ABORT → Z
/// An acknowledgement of a transmission that was never sent ends the association, like a SACK of a TSN that was never sent.
#[test]
fn acknowledgements_of_transmissions_never_sent_end_the_association() {
    for (count, report) in [
        (2, (1, 5, &[][..])),
        (2, (1, 1, &[(4, 4)][..])),
        (2, (1, 4, &[(6, 6)][..])),
        (9, (1, 4, &[][..])),
    ] {
        let mut fixture = fixture(|_| {});
        six(&mut fixture);
        fixture.ack(count, &[report]);
        assert!(fixture.sent().concat().contains("ABORT"), "{count}, {report:?}");
        assert!(fixture.is_closed());
    }
    // The same acknowledgement up to the last transmission sent is accepted.
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.ack(8, &[(1, 1, &[(3, 3)]), (0, 4, &[])]);
    assert!(!fixture.is_closed());
}

// A → 2 (1:1) … (silence);  T3;  A → 2, 4 (0:4, …) → Z;  A → FORWARD-PSN 1:3 with the next on path 1
/// After T3-rtx the sender no longer waits for any transmission of the path, and tells the receiver by FORWARD-PSN.
#[test]
fn a_timeout_skips_all_transmissions_of_the_path() {
    let mut fixture = fixture(|_| {});
    six(&mut fixture);
    fixture.pass(30);
    fixture.ack(2, &[(0, 4, &[])]);
    fixture.pass(1500);
    let sent = fixture.sent();
    assert!(
        sent.iter().any(|packet| packet.contains("E-DATA 2 (0:4)")),
        "{sent:?}"
    );
    assert_eq!(fixture.counters().timeouts, 1);
    fixture.ack(8, &[(1, 1, &[]), (0, 7, &[])]);
    fixture.sent();
    fixture.send(2, 100);
    let sent = fixture.sent().join("; ");
    assert!(sent.contains("1 FORWARD-PSN 1:3"), "{sent}");
}
