//! The potentially failed state (RFC 7829) and the settings for a fast failover, with the packets of each test drawn.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, Event, Failover, PathError, PathId, PathState, PathStats, Timestamp};
use anabranch_testkit::{Ledger, Pair, Script, Setup, Side};
use anabranch_wire::chunk::{Chunk, HeartbeatAck};

use PathState::{Active, Inactive, PotentiallyFailed};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A one-way delay of 40 ms.
fn link() -> LinkConfig {
    LinkConfig::default().with_rate(10_000_000).with_delay(40 * MS)
}

fn pair(seed: u64, count: usize, change: impl Fn(&mut Config)) -> Pair {
    let setup = (0..count).fold(Setup::new(seed), |setup, _| setup.path(link()));
    let setup = setup.adjust_both(|config| {
        *config = config.clone().with_fast_failover();
        change(config);
    });
    let mut pair = setup.connect();
    pair.run_for(5 * SECOND);
    pair.events(Side::A);
    pair
}

fn path(pair: &Pair, index: usize) -> PathStats {
    pair.association(Side::A).stats().paths.swap_remove(index)
}

fn potentially_failed(max_retrans: u32) -> Failover {
    Failover::PotentiallyFailed { max_retrans }
}

/// The sequence of states of a path of A.
fn states(pair: &mut Pair, id: PathId) -> Vec<PathState> {
    let of = |event| match event {
        Event::PathChanged { path, state, .. } if path == id => Some(state),
        _ => None,
    };
    pair.events(Side::A).into_iter().filter_map(of).collect()
}

// A → DATA (path 0) → (cut); A: T3-rtx, path 0 is potentially failed
// A → HEARTBEAT (path 0) → (cut), and A → DATA (path 1) → Z at the same time
// A → DATA (new, path 1) → Z
// A → HEARTBEAT (path 0) → (cut), every RTO, which doubles; then path 0 is inactive, and HEARTBEATs are rarer
/// RFC 7829 §3.2 items 2, 3, 5, 6, 8: after the first timeout the data uses the other path. The failed path gets HEARTBEATs at
/// once and every RTO.
#[test]
fn the_first_timeout_moves_the_data() {
    let mut pair = pair(1, 2, |_| ());
    pair.cut(0, true);
    pair.send(Side::A, 0, vec![1; 100]);
    let since = pair.now();
    let limit = since + SECOND;
    let heartbeats = |pair: &Pair| pair.association(Side::A).counters().heartbeats_sent;
    let mut before = 0;
    assert!(pair.run_to(limit, |pair| {
        let noticed = path(pair, 0).state == PotentiallyFailed;
        if !noticed {
            before = heartbeats(pair);
        }
        noticed
    }));
    let noticed = pair.now().saturating_duration_since(since);
    assert!(noticed <= 300 * MS, "{noticed:?}");
    assert_eq!(heartbeats(&pair), before + 1, "at once");
    pair.run_ms(100);
    assert_eq!(pair.messages(Side::Z).len(), 1, "retransmitted on path 1");
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_ms(100);
    assert_eq!(pair.messages(Side::Z).len(), 1, "new data takes path 1 at once");
    assert_eq!(path(&pair, 1).data_bytes_sent, 200);
    assert_eq!(pair.association(Side::A).counters().failovers, 1);
    pair.run_for(12 * SECOND);
    assert_eq!(states(&mut pair, PathId(0)), [PotentiallyFailed, Inactive]);
    assert_eq!(path(&pair, 1).state, Active);
    assert_eq!(path(&pair, 1).error_count, 0);
}

// A → DATA (path 0) → (cut); A: path 0 is potentially failed, DATA uses path 1; path 0 works again
// A → HEARTBEAT (path 0) → Z, A ← HEARTBEAT ACK ← Z
// A → DATA (path 0) → Z
/// §3.2 item 7: one HEARTBEAT ACK makes the path active again, and the primary path carries the data again.
#[test]
fn one_heartbeat_ack_makes_the_path_active() {
    let mut pair = pair(2, 2, |_| ());
    pair.cut(0, true);
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_ms(500);
    assert_eq!(path(&pair, 0).state, PotentiallyFailed);
    assert!(path(&pair, 0).error_count >= 1);
    pair.cut(0, false);
    pair.run_for(2 * SECOND);
    assert_eq!((path(&pair, 0).state, path(&pair, 0).error_count), (Active, 0));
    let before = path(&pair, 0).data_bytes_sent;
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_for(SECOND);
    assert_eq!(path(&pair, 0).data_bytes_sent, before + 100);
    assert_eq!(states(&mut pair, PathId(0)), [PotentiallyFailed, Active]);
}

// A → DATA, as much as the window allows (path 0) → Z; path 0 is cut, and up again 20 s later
/// A stream of data over two and three paths: the receiver's longest pause is under half a second, no message is lost, and the
/// data returns to the primary path.
#[test]
fn a_cut_in_the_middle_of_a_transfer() {
    for count in [2, 3] {
        let mut pair = pair(3, count, |_| ());
        let mut ledger = Ledger::new(4);
        let mut last: Option<Timestamp> = None;
        let mut longest = Duration::ZERO;
        for round in 0..400 {
            match round {
                50 => pair.cut(0, true),
                250 => pair.cut(0, false),
                _ => {}
            }
            let parcels: Vec<_> = (0..4).map(|_| ledger.parcel(1, 3000, false)).collect();
            pair.post(Side::A, parcels);
            for _ in 0..20 {
                pair.run_ms(5);
                for message in pair.messages(Side::Z) {
                    ledger.check(&message).expect("as it was sent");
                    let now = pair.now();
                    let before = last.replace(now).unwrap_or(now);
                    longest = longest.max(now.saturating_duration_since(before));
                }
            }
        }
        pair.run_for(2 * SECOND);
        for message in pair.messages(Side::Z) {
            ledger.check(&message).expect("as it was sent");
        }
        ledger.check_complete().expect("nothing was lost");
        println!("{count} paths: the longest pause was {longest:?}");
        assert!(longest < 500 * MS, "{count} paths: {longest:?}");
        assert_eq!(path(&pair, 0).state, Active);
        // Before the end of the outage path 0 may become active for a moment: chunks that Z had received before the cut are
        // acknowledged over the other path (item 10).
        let changes = states(&mut pair, PathId(0));
        assert_eq!(changes[0], PotentiallyFailed, "{changes:?}");
        assert_eq!(changes[changes.len() - 2..], [Inactive, Active], "{changes:?}");
        let back = path(&pair, 0).data_bytes_sent;
        assert!(back > 15 * 12_000, "the data returned: {back}");
    }
}

/// A pair that knows the RTT of packets with data: so long that the probe timeout is below T3-rtx, and the answer to a probe would come after
/// T3-rtx.
fn pair_with_late_answers(seed: u64) -> Pair {
    let mut pair = pair(seed, 2, |_| ());
    for _ in 0..20 {
        pair.send(Side::A, 0, vec![1; 1000]);
        pair.run_ms(500);
    }
    pair.messages(Side::Z);
    let path = path(&pair, 0);
    let srtt = path.srtt.expect("it was measured");
    assert!(2 * srtt < path.rto && path.rto < 3 * srtt, "{path:?}");
    pair
}

// A → DATA, eight packets (path 0) → (cut); A: T3-rtx, path 0 is potentially failed, A → DATA (path 1) → Z
/// RFC 8985 §7.3 has T3-rtx wait for the probe. If a whole window is unanswered, another path takes the data when T3-rtx expires.
#[test]
fn a_silent_window_does_not_wait_for_a_probe() {
    let mut pair = pair_with_late_answers(9);
    pair.cut(0, true);
    let before = path(&pair, 0);
    for _ in 0..8 {
        pair.send(Side::A, 0, vec![1; 1000]);
    }
    let since = pair.now();
    assert!(pair.run_to(since + SECOND, |pair| path(pair, 0).state == PotentiallyFailed));
    let noticed = pair.now().saturating_duration_since(since);
    assert!(noticed <= before.rto + 10 * MS, "{noticed:?}: {before:?}");
    assert_eq!(pair.association(Side::A).counters().tail_loss_probes, 0);
}

// A → DATA, two packets (path 0) → Z, and eight → (cut); A ← SACK ← Z; A → DATA (probe, path 0) → (cut); A: T3-rtx
/// A probe leaves if its answer may come before T3-rtx. Although the RTT varies much, T3-rtx waits no longer for it.
#[test]
fn t3_rtx_of_a_silent_window_does_not_wait_for_a_probe_that_left() {
    let mut pair = pair(11, 2, |_| ());
    for round in 0..20 {
        let delay = if round % 2 == 0 { 80 * MS } else { 20 * MS };
        pair.set_path(0, &link().with_delay(delay));
        pair.send(Side::A, 0, vec![1; 1000]);
        pair.run_ms(500);
    }
    for _ in 0..2 {
        pair.send(Side::A, 0, vec![1; 1000]);
    }
    pair.run_ms(25);
    pair.cut_there(0, true);
    for _ in 0..8 {
        pair.send(Side::A, 0, vec![1; 1000]);
    }
    // The two are acknowledged.
    pair.run_ms(20);
    let probes = |pair: &Pair| pair.association(Side::A).counters().tail_loss_probes;
    let (since, before, probes_before) = (pair.now(), path(&pair, 0), probes(&pair));
    assert!(before.flight_size > 3 * 1100, "more than a tail: {before:?}");
    assert!(pair.run_to(since + 2 * SECOND, |pair| path(pair, 0).state
        == PotentiallyFailed));
    let noticed = pair.now().saturating_duration_since(since);
    assert!(noticed <= before.rto + 10 * MS, "{noticed:?}: {before:?}");
    assert_eq!(probes(&pair), probes_before + 1);
}

// A → DATA, three packets (path 0) → (cut); path 0 works again; A → DATA (probe, path 0) → Z; A ← SACK ← Z
/// The loss of a tail is no failure of the path.
#[test]
fn a_lost_tail_is_probed() {
    let mut pair = pair_with_late_answers(10);
    pair.cut(0, true);
    for _ in 0..3 {
        pair.send(Side::A, 0, vec![1; 1000]);
    }
    pair.run_ms(50);
    pair.cut(0, false);
    pair.run_for(SECOND);
    assert_eq!(pair.messages(Side::Z).len(), 3);
    assert_eq!(pair.association(Side::A).counters().tail_loss_probes, 1);
    assert_eq!(path(&pair, 0).timeouts, 0);
}

// A → HEARTBEAT (path 1) → (cut)
// A: an RTO later path 1 is potentially failed; A → HEARTBEAT (path 1) → (cut), every RTO
/// §3.2 item 2: HEARTBEATs find that a path without data has failed, an RTO after one left.
#[test]
fn a_failed_idle_path_is_found_by_heartbeats() {
    let mut pair = pair(4, 2, |_| ());
    pair.cut(1, true);
    let since = pair.now();
    assert!(pair.run_to(since + 3 * SECOND, |pair| path(pair, 1).state
        == PotentiallyFailed));
    let noticed = pair.now().saturating_duration_since(since);
    assert!(noticed < 1200 * MS, "{noticed:?}");
    pair.run_for(60 * SECOND);
    assert_eq!(path(&pair, 1).state, Inactive);
    assert!(
        pair.state(Side::A).is_some(),
        "the other path keeps the association"
    );
    pair.cut(1, false);
    pair.run_for(5 * SECOND);
    assert_eq!(path(&pair, 1).state, Active);
}

// A → HEARTBEAT (path 0) → (lost); A → DATA (path 0) → Z
/// §3.2 item 6: a HEARTBEAT without answer does not count as an error while data is in flight.
#[test]
fn a_lost_heartbeat_during_data_is_no_error() {
    let mut pair = pair(11, 2, |_| ());
    pair.cut(0, true);
    let now = pair.now();
    let asked = pair.association_mut(Side::A).request_heartbeat(now, PathId(0));
    asked.expect("there is such a path");
    pair.run_ms(1);
    pair.cut(0, false);
    let until = pair.now() + 600 * MS;
    while pair.now() < until {
        pair.send(Side::A, 0, vec![1; 1000]);
        pair.run_ms(10);
    }
    assert_eq!(states(&mut pair, PathId(0)), []);
    assert_eq!(path(&pair, 0).error_count, 0);
}

// A → DATA (path 0) → Z, A ← SACK ← (late): the timeout was spurious
/// §3.2 item 10: the acknowledgement of a chunk that was sent only on this path makes the path active again.
#[test]
fn a_late_acknowledgement_makes_the_path_active() {
    let mut pair = pair(5, 1, |_| ());
    pair.set_path(0, &link().with_delay(400 * MS));
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_for(3 * SECOND);
    let changes = states(&mut pair, PathId(0));
    assert_eq!(changes[..2], [PotentiallyFailed, Active], "{changes:?}");
    assert_eq!(pair.messages(Side::Z).len(), 1);
}

// A → DATA (path 0) → (late); A: T3-rtx; A → DATA (path 1) → Z
// A ← SACK ← Z
/// §3.2 item 9: the acknowledged chunk was sent on both paths, so the acknowledgement does not show that path 0 works. Path 0
/// stays potentially failed until its HEARTBEAT is answered.
#[test]
fn an_ambiguous_acknowledgement_leaves_the_path_potentially_failed() {
    let mut pair = pair(6, 2, |_| ());
    pair.cut(0, true);
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_ms(800);
    assert_eq!(pair.messages(Side::Z).len(), 1);
    assert_eq!(pair.association(Side::A).stats().outstanding_bytes, 0);
    let doubtful = path(&pair, 0);
    assert_eq!(doubtful.state, PotentiallyFailed);
    assert!(doubtful.error_count >= 1);
}

// A → DATA (path 0) → (cut); A → DATA (path 1) → (cut); both potentially failed: the one with fewer errors is used
/// §3.2 item 4 and §4.1: if all paths are cut for 20 s, the association survives and uses the paths in turn. The data arrives
/// as soon as a path works again.
#[test]
fn all_paths_potentially_failed() {
    for back in [0, 1] {
        let mut pair = pair(7, 2, |_| ());
        pair.cut(0, true);
        pair.cut(1, true);
        pair.send(Side::A, 0, vec![1; 100]);
        pair.run_ms(900);
        let in_doubt = [0, 1].map(|index| path(&pair, index).state);
        assert_eq!(in_doubt, [PotentiallyFailed; 2]);
        pair.run_for(20 * SECOND);
        let (first, second) = (path(&pair, 0), path(&pair, 1));
        assert_eq!([first.state, second.state], [Inactive; 2]);
        assert!(first.timeouts >= 2 && second.timeouts >= 2, "both are tried");
        pair.cut(back, false);
        pair.run_for(7 * SECOND);
        assert_eq!(pair.messages(Side::Z).len(), 1, "path {back} is back");
        assert_eq!(path(&pair, back).state, Active);
    }
}

// A → HEARTBEAT → Z (silent); A: potentially failed; A → HEARTBEAT → Z, at once and after each RTO
// A ← HEARTBEAT ACK ← Z
/// §3.2 items 5 and 6, packet by packet: the interval is the RTO, which doubles each time up to RTO.Max. HB.Interval is not
/// used.
#[test]
fn heartbeats_every_rto() {
    let mut config = Config::default().with_fast_failover();
    config.heartbeat.interval = Some(10 * SECOND);
    let mut script = Script::new(config, 1);
    script.set_up();
    script.events();
    // The usual HEARTBEAT, after HB.Interval.
    assert!(script.advance_to_timeout() >= 10 * SECOND);
    script.expect_chunk();
    let rto = |script: &Script| script.association().stats().paths[0].rto;
    let mut expected = rto(&script);
    // There is no other path to send data to, so the next HEARTBEAT leaves after an RTO.
    for errors in 1..=5 {
        assert_eq!(script.advance_to_timeout(), expected, "error {errors}");
        expected = (expected * 2).min(2 * SECOND);
        let now = script.association().stats().paths.swap_remove(0);
        assert_eq!(
            (now.state, now.error_count, now.rto),
            (PotentiallyFailed, errors, expected)
        );
        let Chunk::Heartbeat(_) = script.expect_chunk() else {
            panic!("a heartbeat leaves at once")
        };
    }
    script.advance_to_timeout();
    assert_eq!(script.association().stats().paths[0].state, Inactive);
    script.expect_silence();
    assert!(
        script.advance_to_timeout() >= 10 * SECOND,
        "HB.Interval counts again"
    );
    let Chunk::Heartbeat(heartbeat) = script.expect_chunk() else {
        panic!("HEARTBEAT")
    };
    let info = heartbeat.info().expect("a Heartbeat Info");
    script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
    let now = script.association().stats().paths.swap_remove(0);
    assert_eq!((now.state, now.error_count), (Active, 0));
}

// A → DATA (path 0) → (cut), T3-rtx six times, as in RFC 9260
/// Without the setting no path becomes potentially failed. With a threshold of `Path.Max.Retrans` or more it has no effect
/// (§3.2 item 1).
#[test]
fn not_potentially_failed_without_the_setting() {
    for setting in [Failover::Rfc9260, potentially_failed(5), potentially_failed(0)] {
        let mut pair = pair(8, 2, |config| {
            config.retransmissions.failover = setting;
        });
        pair.cut(0, true);
        for _ in 0..300 {
            pair.send(Side::A, 0, vec![1; 100]);
            pair.run_ms(100);
        }
        pair.run_for(5 * SECOND);
        assert_eq!(pair.messages(Side::Z).len(), 300);
        let expected = if setting == potentially_failed(0) {
            vec![PotentiallyFailed, Inactive]
        } else {
            vec![Inactive]
        };
        assert_eq!(states(&mut pair, PathId(0)), expected, "{setting:?}");
    }
}

// A → DATA (path 0) → (cut); the system: no route; A → DATA (path 1) → Z
/// If the system reports that a path is unreachable, the sender uses another path without a timeout, if the setting is on. The
/// report counts as one error.
#[test]
fn an_unreachable_path_is_left_at_once() {
    for (count, setting) in [
        (2, potentially_failed(0)),
        (2, Failover::Rfc9260),
        (1, potentially_failed(0)),
    ] {
        let mut pair = pair(10, count, |config| {
            config.retransmissions.failover = setting;
        });
        pair.cut(0, true);
        pair.send(Side::A, 0, vec![1; 100]);
        pair.run_ms(1);
        let now = pair.now();
        for _ in 0..5 {
            let association = pair.association_mut(Side::A);
            association.handle_path_error(now, PathId(0), PathError::Unreachable);
        }
        pair.run_ms(60);
        let leaves = count == 2 && setting != Failover::Rfc9260;
        assert_eq!(
            pair.messages(Side::Z).len(),
            usize::from(leaves),
            "{count} paths, {setting:?}"
        );
        let expected = if leaves {
            (PotentiallyFailed, 1)
        } else {
            (Active, 0)
        };
        assert_eq!((path(&pair, 0).state, path(&pair, 0).error_count), expected);
    }
}

// A → DATA (path 0) → (cut); A: path 0 is potentially failed; no HEARTBEAT leaves
/// §3.2 item 5: HEARTBEATs that are turned off stay off.
#[test]
fn heartbeats_that_are_off_stay_off() {
    let mut pair = pair(9, 2, |config| config.heartbeat.interval = None);
    let before = pair.association(Side::A).counters().heartbeats_sent;
    pair.cut(0, true);
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_for(20 * SECOND);
    assert_eq!(path(&pair, 0).state, PotentiallyFailed);
    assert_eq!(pair.association(Side::A).counters().heartbeats_sent, before);
    assert_eq!(pair.messages(Side::Z).len(), 1);
}

// A → DATA (path 0) → (cut); A: T3-rtx, path 0 is potentially failed; Z → DATA (path 0) → (cut); Z: the same
/// With several paths, and no setting at all, data of both ends leaves a failed path within 300 ms.
#[test]
fn data_leaves_a_failed_path_of_several_by_default() {
    for side in [Side::A, Side::Z] {
        let setup = Setup::new(11).path(link()).path(link());
        let mut pair = setup.connect();
        pair.run_for(5 * SECOND);
        let before = path(&pair, 0);
        assert_eq!(before.heartbeat_interval, Some(500 * MS));
        pair.cut(0, true);
        pair.send(side, 0, vec![1; 100]);
        pair.run_ms(300 + 40);
        let other = if side == Side::A { Side::Z } else { Side::A };
        assert_eq!(pair.messages(other).len(), 1, "from {side:?}");
    }
}

/// With one path the timeouts are those of RFC 9260, and with several if the application asks for them.
#[test]
fn the_timeouts_of_rfc_9260_stay_with_one_path_and_where_they_are_chosen() {
    for (count, failover) in [(1, Failover::Fast), (2, Failover::Rfc9260)] {
        let setup = (0..count).fold(Setup::new(12), |setup, _| setup.path(link()));
        let setup = setup.adjust_both(|config| config.retransmissions.failover = failover);
        let mut pair = setup.connect();
        pair.run_for(5 * SECOND);
        let now = path(&pair, 0);
        assert_eq!(now.rto, SECOND, "{count} paths");
        assert_eq!(now.heartbeat_interval, Some(30 * SECOND), "{count} paths");
    }
}
