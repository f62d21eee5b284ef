//! Each mechanism of concurrent multipath transfer (draft-tuexen-tsvwg-sctp-multipath), with its packets drawn. Path 0 and path
//! 1 are between A and Z.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, Probability};
use anabranch_proto::{
    Config, CoupledControl, MultipathMode, PathScheduler, PathState, PathStats, RetransmissionPolicy,
};
use anabranch_testkit::{Bulk, Ledger, Pair, Setup, Side, quiet, with_buffers};

use super::lines::reduce_and_restore;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn link(delay: u64) -> LinkConfig {
    LinkConfig::default()
        .with_rate(10_000_000)
        .with_delay(delay as u32 * MS)
}

/// The same link, which loses these packets, counted from its first one.
fn losing(delay: u64, packets: impl IntoIterator<Item = u64>) -> LinkConfig {
    link(delay).with_loss(LossModel::Script(packets.into_iter().collect()))
}

fn config(scheduler: PathScheduler) -> Config {
    let mut config = quiet();
    config.multipath.mode = MultipathMode::Cmt;
    config.multipath.scheduler = scheduler;
    config.multipath.congestion = CoupledControl::Uncoupled;
    config
}

fn path(pair: &Pair, index: usize) -> PathStats {
    pair.association(Side::A).stats().paths.swap_remove(index)
}

/// Set up, with every path confirmed.
fn established(setup: Setup) -> Pair {
    let mut pair = setup.connect();
    pair.run_for(3 * SECOND);
    for side in Side::BOTH {
        let stats = pair.association(side).stats();
        assert!(stats.paths.iter().all(|path| path.state == PathState::Active));
    }
    pair
}

fn two(delays: [u64; 2], scheduler: PathScheduler) -> Setup {
    let setup = delays
        .into_iter()
        .fold(Setup::new(1), |setup, delay| setup.path(link(delay)));
    setup.config(config(scheduler))
}

/// Sends this many full messages from A, and returns the bytes sent on each path.
fn send(pair: &mut Pair, count: u64) -> [u64; 2] {
    let before = [0, 1].map(|index| path(pair, index).data_bytes_sent);
    let mut ledger = Ledger::new(9);
    let parcels: Vec<_> = (0..count).map(|_| ledger.parcel(0, 1200, false)).collect();
    pair.post(Side::A, parcels);
    pair.run_for(10 * SECOND);
    for message in pair.messages(Side::Z) {
        ledger.check(&message).expect("once and in order");
    }
    ledger.check_complete().expect("all of it");
    [0, 1].map(|index| path(pair, index).data_bytes_sent - before[index])
}

// A → DATA 1 (path 0), DATA 2 (path 1), DATA 3 (path 0), DATA 4 (path 1), … → Z
/// Round robin: the paths take turns, packet by packet.
#[test]
fn round_robin_takes_turns() {
    let mut pair = established(two([10, 10], PathScheduler::RoundRobin));
    assert_eq!(send(&mut pair, 6), [3600, 3600]);
}

// A → DATA 1, 2, 3, 4 (path 0) → Z
/// Earliest delivery first: four packets leave on the fast path. Each would arrive later on the slow path than after a wait for
/// the fast one.
#[test]
fn a_packet_waits_for_the_fast_path() {
    let mut pair = established(two([10, 200], PathScheduler::EarliestDeliveryFirst));
    assert_eq!(send(&mut pair, 8), [9600, 0]);
    // Round robin does not wait.
    let mut pair = established(two([10, 200], PathScheduler::RoundRobin));
    assert_eq!(send(&mut pair, 8), [4800, 4800]);
}

// A → HEARTBEAT (path 2) → (cut)
// A → DATA (path 0), DATA (path 1) → Z
/// New data only on paths that are confirmed and active (RFC 9260 §5.4).
#[test]
fn an_unconfirmed_path_carries_nothing() {
    let mut pair = two([10, 10], PathScheduler::RoundRobin).path(link(10)).build();
    pair.cut(2, true);
    pair.establish();
    pair.run_for(SECOND);
    assert_eq!(path(&pair, 2).state, PathState::Unconfirmed);
    assert_eq!(send(&mut pair, 6), [3600, 3600]);
    assert_eq!(path(&pair, 2).data_bytes_sent, 0);
}

// A → DATA 1, 3, 5, 7 (path 0: 10 ms), DATA 2, 4, 6, 8 (path 1: 60 ms) → Z
// A ← SACK 1, gaps 3, 5, 7 ← Z
/// Split fast retransmit (§3.1): packets that arrive earlier on a fast path make no missing reports for a slow path. RFC 9260's
/// count, kept for all paths together, would cause a spurious retransmission of DATA 2.
#[test]
fn reordering_between_paths_is_no_loss() {
    let setup = two([10, 60], PathScheduler::RoundRobin).adjust_both(|config| {
        config.initial_window = Some(20);
        config.max_burst = 20;
    });
    let mut pair = established(setup);
    let [fast, slow] = send(&mut pair, 40);
    assert!(fast + slow == 48_000 && slow >= 4800, "{fast} and {slow} bytes");
    let counters = pair.association(Side::A).counters();
    assert_eq!(counters.retransmissions_fast + counters.timeouts, 0);
    assert_eq!(counters.fast_recoveries, 0);
}

// A → DATA (path 0) → Z, DATA (path 1) → lost
// A ← SACKs for later packets of path 1 ← Z
/// Later packets of the same path detect a loss on a path, and it reduces the window of that path only.
#[test]
fn a_loss_reduces_the_window_of_its_path_only() {
    for policy in [
        RetransmissionPolicy::SamePath,
        RetransmissionPolicy::EarliestDelivery,
    ] {
        let setup = Setup::new(1)
            .path(link(10))
            // The HEARTBEAT is first, then data. The third packet with data is lost.
            .path_of(losing(20, [4]), link(20))
            .config(config(PathScheduler::RoundRobin))
            .adjust_both(|config| {
                config.initial_window = Some(12);
                config.max_burst = 20;
                config.multipath.retransmission = policy;
            });
        let mut pair = established(setup);
        send(&mut pair, 24);
        let counters = *pair.association(Side::A).counters();
        assert_eq!(counters.retransmissions_fast, 1, "{policy:?}");
        assert_eq!(counters.timeouts, 0, "{policy:?}");
        let cuts = [0, 1].map(|index| path(&pair, index).fast_recoveries);
        assert_eq!(cuts, [0, 1], "{policy:?}");
    }
}

// A → DATA 1 (late), DATA 2, DATA 3 (path 0), … → Z
// A ← SACK, gap 2, ← Z; A ← SACK, gap 2, 3 ← Z; A ← SACK 3 ← Z
/// Fewer than three missing reports by later packets of the path make no loss. Here packets arrive up to 2.5 ms late, and one
/// packet leaves each millisecond.
#[test]
fn two_missing_reports_are_no_loss() {
    let links = [10, 20].map(|delay| link(delay).with_reorder(Probability::new(0.02), 5 * MS / 2));
    let mut config = with_buffers(64 << 10);
    config.path_mtu = 1280;
    config.multipath.mode = MultipathMode::Cmt;
    let mut bulk = Bulk::over(2, &links, &config);
    bulk.run_for(10 * SECOND);
    let late = [0, 1].map(|index| bulk.pair.network.link_stats(bulk.pair.links(index).0).reordered);
    assert!(late.iter().sum::<u64>() > 100, "{late:?}");
    let counters = bulk.pair.association(Side::A).counters();
    assert_eq!((counters.retransmissions_fast, counters.timeouts), (0, 0));
}

// A → DATA 1, 3, 5, … (path 0), DATA 2, 4, 6, … (path 1, slower) → Z
// A ← SACK that moves no cumulative ack ← Z
/// Window growth (§3.2): the window of the fast path grows by the chunks that arrive in order on that path, although the
/// cumulative TSN ack waits for the slow path.
#[test]
fn a_window_grows_while_the_cumulative_ack_stands() {
    let setup = two([5, 300], PathScheduler::RoundRobin).adjust_both(|config| config.max_burst = 1);
    let mut pair = established(setup);
    let before = path(&pair, 0).cwnd;
    let parcels: Vec<_> = {
        let mut ledger = Ledger::new(3);
        (0..200).map(|_| ledger.parcel(0, 1200, false)).collect()
    };
    pair.post(Side::A, parcels);
    // The first packet of the slow path has not arrived yet.
    pair.run_for(250 * MS);
    assert!(path(&pair, 0).cwnd >= 3 * before, "{} bytes", path(&pair, 0).cwnd);
    assert_eq!(path(&pair, 1).cwnd, before);
}

/// Delayed acknowledgements (§3.3): with this extension every second packet of a sender with two paths is acknowledged, though
/// nearly all arrive out of order; without it nearly every packet is. Losses are detected in both cases.
#[test]
fn every_second_packet_is_acknowledged() {
    let acks = |delayed: bool| {
        let links = [link(10), link(40)].map(|link| link.with_loss(LossModel::bernoulli(0.002)));
        let mut config = with_buffers(1 << 20);
        config.multipath.mode = MultipathMode::Cmt;
        config.multipath.delayed_acks = delayed;
        let mut bulk = Bulk::over(5, &links, &config);
        let goodput = bulk.run_for(10 * SECOND);
        let data = bulk.pair.association(Side::A).counters().data_chunks_sent;
        let sacks = bulk.pair.association(Side::Z).counters().sacks_sent;
        assert!(bulk.pair.association(Side::A).counters().fast_recoveries > 0);
        (sacks as f64 / data as f64, goodput)
    };
    let (often, fast) = acks(false);
    let (seldom, as_fast) = acks(true);
    println!("{often:.2} and {seldom:.2} acknowledgements a packet, {fast:.2} and {as_fast:.2} Mbit/s");
    assert!(often > 0.8 && seldom < 0.6, "{often:.2}, {seldom:.2}");
    assert!(as_fast > 0.9 * fast, "{as_fast:.2} of {fast:.2} Mbit/s");
}

/// Buffers (§5): round robin with a receive window that is too small for the slow path. Three settings: no mechanism; buffer
/// splitting, which limits each path to its share; chunk rescheduling, which retransmits the chunks that block the window on
/// the fast path.
#[test]
fn splitting_and_rescheduling_help_when_the_window_blocks() {
    let links = [link(10), link(100).with_rate(2_000_000)];
    // Goodput in Mbit/s, the maximum of the slow path's bytes in flight, and the number of rescheduled chunks.
    let run = |change: fn(&mut Config)| {
        let mut config = with_buffers(64 << 10);
        config.multipath.mode = MultipathMode::Cmt;
        config.multipath.scheduler = PathScheduler::RoundRobin;
        config.multipath.congestion = CoupledControl::Uncoupled;
        change(&mut config);
        let mut bulk = Bulk::over(5, &links, &config);
        let mut most = 0;
        let mut goodput = 0.0;
        for _ in 0..200 {
            goodput += bulk.run_for(100 * MS) / 200.0;
            most = most.max(path(&bulk.pair, 1).flight_size);
        }
        let chunks = bulk.pair.association(Side::A).counters().chunks_rescheduled;
        (goodput, most, chunks)
    };
    let (nothing, much, none) = run(|_| {});
    let (split, less, _) = run(|config| {
        config.multipath.split_send_buffer = true;
        config.multipath.split_receive_buffer = true;
    });
    let (rescheduled, _, chunks) = run(|config| config.multipath.reschedule = true);
    let (earliest, least, _) =
        run(|config| config.multipath.scheduler = PathScheduler::EarliestDeliveryFirst);
    println!(
        "round robin {nothing:.2} Mbit/s, {much} bytes in flight on the slow path; split {split:.2}, {less}"
    );
    println!(
        "rescheduled {rescheduled:.2} Mbit/s, {chunks} chunks; earliest delivery {earliest:.2}, {least}"
    );
    assert_eq!(none, 0);
    assert!(much > 32 << 10 && less <= 32 << 10);
    assert!(chunks > 0 && rescheduled > 1.2 * nothing);
    assert!(earliest > rescheduled && earliest > split);
}

/// Takes each path down for two seconds and up again during a transfer with each scheduler: the pauses are short, and no
/// message is lost.
#[test]
fn paths_are_cut_and_restored() {
    let setup = Setup::new(3)
        .captured(false)
        .path(link(10))
        .path(link(30))
        .path(link(60))
        .config(Config::default())
        .adjust_both(|config| config.multipath.mode = MultipathMode::Cmt);
    let mut pair = setup.connect();
    pair.run_for(3 * SECOND);
    reduce_and_restore(&mut pair, &[0, 1, 2, 0]);
}
