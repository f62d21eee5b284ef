//! Early copies (`SendOptions::early_copies`) with hand-made packets. The packets of each test are drawn. TSNs count from the sender's initial
//! TSN, which is 0; the RTT is 30 ms, so copies are 10 ms apart.

use anabranch_testkit::with;
use std::time::Duration;

use anabranch_proto::controller::CongestionControl;
use anabranch_proto::{
    Association, Config, RecoveryRules, Reliability, SchedulerKind, SendOptions, StreamId,
};
use anabranch_testkit::fixture::{ALL, FULL, Fixture, MS, config};
use bytes::Bytes;

const SMALL: usize = 100;

fn rack() -> Config {
    with(config(), |config| config.recovery = RecoveryRules::RACK)
}

/// DATA 0 was sent and acknowledged: the path has an RTT of 30 ms.
fn begun(config: Config) -> Fixture {
    let mut fixture = Fixture::new(config, &ALL);
    send(&mut fixture, SMALL, SendOptions::default());
    assert_eq!(fixture.sent(), ["DATA 0"]);
    fixture.script.advance(30 * MS);
    fixture.sack(1, &[]);
    fixture
}

fn copied(copies: u8) -> SendOptions {
    SendOptions::default().unordered(true).early_copies(copies)
}

fn send(fixture: &mut Fixture, len: usize, options: SendOptions) {
    let message = Bytes::from(vec![1; len]);
    fixture
        .script
        .act(|association, now| association.send(now, StreamId(0), message, options))
        .expect("the send buffer has room");
}

/// Sends a message with copies; returns what leaves.
fn sent(fixture: &mut Fixture, copies: u8) -> Vec<String> {
    send(fixture, SMALL, copied(copies));
    fixture.sent()
}

/// The packets that leave in these milliseconds.
fn within(fixture: &mut Fixture, millis: u32) -> Vec<String> {
    fixture.script.advance(millis * MS);
    fixture.sent()
}

/// Copies sent, and those that the peer did not need.
fn copies(fixture: &Fixture) -> (u64, u64) {
    let counters = fixture.counters();
    (counters.early_copies, counters.early_copies_unnecessary)
}

// A → DATA 1 → Z
// A → DATA 1 (10 ms later), DATA 1 (20 ms later), and no more
#[test]
fn copies_leave_a_third_of_a_round_trip_apart() {
    let mut fixture = begun(rack());
    assert_eq!(sent(&mut fixture, 2), ["DATA 1"]);
    assert_eq!(within(&mut fixture, 9), [""; 0]);
    assert_eq!(within(&mut fixture, 1), ["DATA 1"]);
    assert_eq!(within(&mut fixture, 9), [""; 0]);
    assert_eq!(within(&mut fixture, 1), ["DATA 1"]);
    assert_eq!(within(&mut fixture, 19), [""; 0]);
    assert_eq!(copies(&fixture), (2, 0));
}

// A → DATA 1 → Z
// A → DATA 2 (6 ms later) → Z; A → DATA 1 (4 ms later) → Z
/// A packet that leaves before the copy's time has room for it, but losses come in bursts.
#[test]
fn a_copy_does_not_leave_early() {
    let mut fixture = begun(rack());
    sent(&mut fixture, 1);
    fixture.script.advance(6 * MS);
    assert_eq!(sent(&mut fixture, 0), ["DATA 2"]);
    assert_eq!(within(&mut fixture, 4), ["DATA 1"]);
}

// A → DATA 1 to 5 → Z: the window is full, and DATA 6 waits
// Z → SACK 2 → A → DATA 6, DATA 1 (copy)
#[test]
fn a_copy_shares_a_packet_with_data() {
    let mut settings = rack();
    settings.initial_window = Some(4);
    let mut fixture = begun(settings);
    sent(&mut fixture, 1);
    for _ in 0..4 {
        send(&mut fixture, FULL, SendOptions::default());
    }
    assert_eq!(fixture.sent().len(), 4);
    send(&mut fixture, SMALL, SendOptions::default());
    assert_eq!(within(&mut fixture, 12), [""; 0]);
    fixture.sack(1, &[(2, 2)]);
    assert_eq!(fixture.sent(), ["DATA 6, DATA 1"]);
}

// A → DATA 1 → Z → SACK 1
/// An acknowledged chunk is not copied.
#[test]
fn an_acknowledgement_ends_the_copies() {
    let mut fixture = begun(rack());
    sent(&mut fixture, 3);
    assert_eq!(within(&mut fixture, 10), ["DATA 1"]);
    fixture.sack(2, &[]);
    assert_eq!(within(&mut fixture, 30), [""; 0]);
}

// A → DATA 1, 2 → Z → SACK 2 (gap: 1 is missing)
#[test]
fn a_chunk_that_a_gap_ack_block_lists_is_not_copied() {
    let mut fixture = begun(rack());
    sent(&mut fixture, 0);
    sent(&mut fixture, 2);
    fixture.sack(1, &[(2, 2)]);
    within(&mut fixture, 9);
    assert_eq!(copies(&fixture), (0, 0));
    fixture.script.advance(30 * MS);
    assert_eq!(copies(&fixture), (0, 0));
}

// A → DATA 1 → Z; a copy arrives 15 ms after it leaves
/// Copies leave so close together that they arrive before the deadline, and not at all if they cannot.
#[test]
fn a_copy_that_would_be_late_is_not_sent() {
    for (lifetime, expected) in [(15, 0), (16, 1), (35, 3)] {
        let mut fixture = begun(rack());
        let reliability = Reliability::Lifetime(lifetime * MS);
        send(&mut fixture, SMALL, copied(3).reliability(reliability));
        fixture.sent();
        fixture.script.advance(39 * MS);
        assert_eq!(copies(&fixture).0, expected, "{lifetime} ms");
    }
}

// A → DATA 1 → lost
// A → DATA 2, DATA 1 → Z → SACK 1, 2
/// The peer got the chunk once: the original was lost. The window is reduced as for any other loss, although nothing is retransmitted.
#[test]
fn a_copy_hides_no_loss() {
    let mut fixture = begun(rack());
    sent(&mut fixture, 1);
    fixture.script.advance(10 * MS);
    assert_eq!(fixture.sent(), ["DATA 1"]);
    sent(&mut fixture, 0);
    let before = fixture.path();
    fixture.script.advance(40 * MS);
    fixture.sack(3, &[]);
    let after = fixture.path();
    assert_eq!(after.fast_recoveries, before.fast_recoveries + 1);
    assert!(after.cwnd < before.cwnd, "{} of {}", after.cwnd, before.cwnd);
    assert_eq!(copies(&fixture), (1, 0));
    assert_eq!(fixture.counters().retransmissions_fast, 0);
    // A late duplicate does not restore the window, and nothing was retransmitted.
    fixture.sack_with_duplicates(3, &[1]);
    assert_eq!(fixture.path().cwnd, after.cwnd);
    assert_eq!(copies(&fixture), (1, 1));
    assert_eq!(fixture.counters().retransmissions_spurious, 0);
}

// A → DATA 1 → lost; A → DATA 1 (copy, late); A → DATA 2, 3, 4 → Z → SACK 2, 3, 4 (gap: 1 is missing)
// A → DATA 5; A → DATA 5 (copy); A → DATA 1 (retransmitted)
// the late copy of DATA 1 → Z → SACK 4; the copy of DATA 5, the retransmission → Z → SACK 5, duplicates 1, 5
/// DATA 1 is acknowledged, and nobody knows by which transmission. The retransmission left after the copy of DATA 5, but it may not have
/// arrived: nothing shows that this copy was lost.
#[test]
fn an_acknowledged_retransmission_shows_nothing_about_copies() {
    let mut fixture = begun(rack());
    sent(&mut fixture, 1);
    for _ in 0..3 {
        sent(&mut fixture, 0);
    }
    assert_eq!(within(&mut fixture, 10), ["DATA 1"]);
    fixture.script.advance(20 * MS);
    assert_eq!(sent(&mut fixture, 1), ["DATA 5"]);
    assert_eq!(within(&mut fixture, 10), ["DATA 5"], "its copy");
    fixture.script.advance(5 * MS);
    fixture.sack(1, &[(2, 4)]);
    assert_eq!(within(&mut fixture, 10), ["DATA 1"], "the retransmission");
    let before = fixture.path();
    fixture.sack(5, &[]);
    fixture.script.advance(10 * MS);
    fixture.sack_with_duplicates(6, &[1, 5]);
    let after = fixture.path();
    assert_eq!(after.fast_recoveries, before.fast_recoveries);
    assert!(after.cwnd >= before.cwnd, "{} of {}", after.cwnd, before.cwnd);
    assert_eq!(copies(&fixture), (2, 2));
    assert_eq!(fixture.counters().retransmissions_spurious, 0);
}

// A → DATA 1 → lost; A → DATA 1 (copy, late) → Z; A → DATA 2, 3, 4 → Z → SACK 2, 3, 4 (gap: 1 is missing)
// A → DATA 1 (retransmitted) → Z → SACK 4, duplicate 1
/// RACK declared the chunk lost, and it was: the duplicate is explained by the copy, and the reduction of the window stays. With a second
/// duplicate all three transmissions arrived.
#[test]
fn a_duplicate_of_a_copied_chunk_disproves_no_loss() {
    for (duplicates, undone) in [(1, 0), (2, 1)] {
        let mut fixture = begun(rack());
        sent(&mut fixture, 1);
        for _ in 0..3 {
            sent(&mut fixture, 0);
        }
        assert_eq!(within(&mut fixture, 10), ["DATA 1"]);
        fixture.script.advance(35 * MS);
        fixture.sack(1, &[(2, 4)]);
        fixture.script.advance(10 * MS);
        assert_eq!(fixture.sent(), ["DATA 1"], "the retransmission");
        for _ in 0..duplicates {
            fixture.sack_with_duplicates(5, &[1]);
        }
        assert_eq!(fixture.counters().reductions_undone, undone, "{duplicates}");
    }
}

// A → DATA 1 → Z → SACK 1
// A → DATA 2, DATA 1 → Z → SACK 2, duplicate 1
/// The peer got the chunk twice: nothing was lost, and nothing was retransmitted without need.
#[test]
fn a_duplicate_shows_that_nothing_was_lost() {
    let mut fixture = begun(rack());
    sent(&mut fixture, 1);
    fixture.script.advance(10 * MS);
    fixture.sent();
    sent(&mut fixture, 0);
    let before = fixture.path();
    fixture.script.advance(30 * MS);
    fixture.sack(2, &[]);
    fixture.script.advance(10 * MS);
    fixture.sack_with_duplicates(3, &[1]);
    let after = fixture.path();
    assert_eq!(after.fast_recoveries, before.fast_recoveries);
    assert!(after.cwnd >= before.cwnd);
    assert_eq!(copies(&fixture), (1, 1));
    assert_eq!(fixture.counters().retransmissions_spurious, 0);
}

// A → DATA 1 → Z; A → DATA 1 (10 ms later) → Z → SACK 1 after 45 ms
/// Nothing that left with the copy, or later, is acknowledged: the chunk itself arrived, and gives an RTT sample. Otherwise, messages with copies
/// alone would never measure the RTT.
#[test]
fn a_chunk_that_arrived_before_its_copy_gives_a_sample() {
    let mut fixture = begun(rack());
    let before = fixture.path().srtt;
    sent(&mut fixture, 1);
    assert_eq!(within(&mut fixture, 10), ["DATA 1"]);
    fixture.script.advance(35 * MS);
    fixture.sack(2, &[]);
    assert!(fixture.path().srtt > before);
}

// A → DATA 1 to 4 → Z: the window is full, and no data waits
// Z → SACK 1 → A → DATA 2 (copy) and as many as fit
#[test]
fn copies_wait_for_the_congestion_window() {
    let mut settings = rack();
    settings.initial_window = Some(4);
    let mut fixture = begun(settings);
    for _ in 0..4 {
        send(&mut fixture, FULL, copied(1));
    }
    assert_eq!(fixture.sent().len(), 4);
    assert!(fixture.path().flight_size >= fixture.path().cwnd);
    assert_eq!(within(&mut fixture, 20), [""; 0]);
    fixture.sack(2, &[]);
    assert_eq!(
        fixture.sent(),
        ["DATA 2", "DATA 3"],
        "one packet left the network, and slow start adds one"
    );
}

/// Copies count as in flight: they leave less room for data.
#[test]
fn copies_take_room_in_the_congestion_window() {
    let mut settings = rack();
    settings.initial_window = Some(6);
    let mut fixture = begun(settings);
    let window = fixture.path().cwnd;
    for _ in 0..2 {
        send(&mut fixture, FULL, copied(1));
    }
    fixture.sent();
    assert_eq!(within(&mut fixture, 10).len(), 2);
    for _ in 0..12 {
        send(&mut fixture, FULL, SendOptions::default());
    }
    let packets = fixture.sent().len();
    let with_copies = (packets + 4) * (FULL + 16);
    assert!(
        with_copies >= window && with_copies < window + FULL + 16,
        "{packets} in {window}"
    );
}

// A → DATA 1, DATA 2 to 36 → Z, as fast as the pacer allows
// A → DATA 1 (copy), after all data
/// Data waits for the pacer when the copy is due: the copy waits until none is left.
#[test]
fn copies_leave_the_window_to_data_as_urgent() {
    let mut settings = rack();
    settings.congestion_control = CongestionControl::Cubic;
    let mut fixture = begun(settings);
    send(&mut fixture, SMALL, copied(1));
    for _ in 0..35 {
        send(&mut fixture, FULL, SendOptions::default());
    }
    let mut packets = fixture.sent();
    let at_once = packets.len();
    fixture.script.advance(10 * MS);
    packets.extend(fixture.sent());
    assert!(
        packets.len() > at_once && packets.len() < 36,
        "{} of 36 left",
        packets.len()
    );
    packets.extend(within(&mut fixture, 25));
    assert_eq!(copies(&fixture).0, 1);
    let last = packets.last().map(String::as_str);
    assert!(matches!(last, Some("DATA 1" | "DATA 36, DATA 1")), "{packets:?}");
}

// A → DATA 1 to 6 (a file), DATA 7 (urgent), DATA 8 → Z → SACK 6 after 10 ms
// A → DATA 7 (copy), before more of the file
#[test]
fn a_copy_leaves_before_less_urgent_data() {
    let mut settings = rack();
    settings.initial_window = Some(7);
    settings.scheduler = SchedulerKind::Priority;
    let mut fixture = begun(settings);
    let set = |association: &mut Association, _| association.set_stream_priority(StreamId(1), 1);
    fixture.script.act(set).expect("there are priorities");
    let send_parts = |fixture: &mut Fixture, count| {
        for _ in 0..count {
            let part = Bytes::from(vec![1; FULL]);
            let send = |association: &mut Association, now| {
                association.send(now, StreamId(1), part, SendOptions::default())
            };
            fixture.script.act(send).expect("there is room");
        }
    };
    send_parts(&mut fixture, 6);
    assert_eq!(fixture.sent().len(), 6);
    assert_eq!(sent(&mut fixture, 1), ["DATA 7"]);
    send_parts(&mut fixture, 6);
    assert_eq!(fixture.sent(), ["DATA 8"], "the rest waits for the window");
    // The SACK opens the window at the time at which the copy is due.
    fixture.script.advance(9 * MS);
    fixture.sack(1, &[]);
    fixture.script.advance(MS);
    assert_eq!(fixture.sent(), [""; 0], "the copy waits for the window too");
    fixture.sack(7, &[]);
    let next = fixture.sent();
    assert_eq!(next[..2], ["DATA 7", "DATA 9"], "{next:?}");
}

// A → DATA 1, DATA 2 (with copies) → lost, and no acknowledgement
/// Two round-trip times later the copies are no longer in the network, whatever became of them: they keep no data from leaving.
#[test]
fn lost_copies_do_not_close_the_window() {
    let mut settings = rack();
    settings.initial_window = Some(4);
    let mut fixture = begun(settings);
    let window = fixture.path().cwnd;
    let full = window / (FULL + 16);
    send(&mut fixture, FULL, copied(2));
    within(&mut fixture, 70);
    for _ in 0..full {
        send(&mut fixture, FULL, SendOptions::default());
    }
    let early = fixture.sent().len();
    assert_eq!(early, full - 3, "the chunk and its copies take room");
    fixture.script.advance(35 * MS);
    send(&mut fixture, FULL, SendOptions::default());
    assert_eq!(fixture.sent().len(), 2, "the room of two copies");
}

/// Copies need RACK: nothing else tells losses and duplicates apart.
#[test]
fn there_are_no_copies_without_rack() {
    let mut fixture = begun(config());
    sent(&mut fixture, 2);
    assert_eq!(within(&mut fixture, 30), [""; 0]);
    assert_eq!(copies(&fixture), (0, 0));
}

/// No timer is left behind if the association ends while copies are planned.
#[test]
fn copies_end_with_the_association() {
    let mut fixture = begun(rack());
    sent(&mut fixture, 3);
    fixture
        .script
        .act(|association, now| association.abort(now, Bytes::new()));
    fixture.script.skip_answers();
    fixture.script.advance(Duration::from_secs(1));
    assert_eq!(fixture.counters().early_copies, 0);
}

// A → DATA 1 → Z; A → DATA 1 (copy) → Z → SACK 1, without the duplicate; and so on
/// Some stacks drop duplicates in silence. Each copy then counts as a loss, so they end after 32.
#[test]
fn a_peer_that_reports_no_duplicates_gets_no_more_copies() {
    let mut fixture = begun(rack());
    for number in 1..=40 {
        sent(&mut fixture, 1);
        fixture.script.advance(10 * MS);
        fixture.sent();
        fixture.script.advance(20 * MS);
        fixture.sack(1 + 2 * number - 1, &[]);
        // Something that left after the copy is acknowledged.
        sent(&mut fixture, 0);
        fixture.script.advance(30 * MS);
        fixture.sack(1 + 2 * number, &[]);
    }
    assert_eq!(copies(&fixture), (32, 0));
}
