//! Whole transfers: the effect of each setting, and transfers whose paths fail.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, Probability};
use anabranch_proto::{
    AckRouting, Config, CoupledControl, MultipathMode, PathScheduler, RecoveryRules, SendOptions,
};
use anabranch_testkit::{Bulk, Pair, Setup, Side, with_buffers};

use super::fixture::MS;
use super::lines::reduce_and_restore;

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = with_buffers(256 << 10);
    config.multipath.mode = MultipathMode::Eca;
    change(&mut config);
    config
}

fn link(delay: u32) -> LinkConfig {
    LinkConfig::default().with_rate(5_000_000).with_delay(delay * MS)
}

/// If packets arrive late and none is lost, one missing report makes many spurious retransmissions, and fewer once the sender
/// adapts. Three missing reports and the time rule make hardly any. The same rules have the same effect in concurrent multipath
/// transfer.
#[test]
fn spurious_retransmissions_raise_the_reordering_window() {
    let retransmissions = |mode: MultipathMode, reports: u8, backs_off: bool| {
        let links = [20, 40].map(|delay| link(delay).with_reorder(Probability::new(0.02), 30 * MS));
        let config = config(|config| {
            config.multipath.mode = mode;
            config.recovery = config.recovery.missing_reports(reports);
            config.multipath.time_rule = true;
            config.multipath.backs_off = backs_off;
        });
        let mut bulk = Bulk::over(2, &links, &config);
        bulk.run_for(20_000 * MS);
        bulk.pair.association(Side::A).counters().retransmissions_fast
    };
    for mode in [MultipathMode::Eca, MultipathMode::Cmt] {
        let hasty = retransmissions(mode, 1, false);
        let adaptive = retransmissions(mode, 1, true);
        println!(
            "{mode:?}: {hasty} retransmissions after one missing report, {adaptive} if the sender adapts"
        );
        assert!(2 * adaptive < hasty, "{mode:?}: {adaptive} of {hasty}");
    }
}

/// On bad paths [`AckRouting::Measured`] chooses a copy of each acknowledgement on every path. Fewer acknowledgements are
/// missed, so the sender has fewer timeouts.
#[test]
fn copies_on_bad_paths() {
    let policies = |loss: f64| {
        let links = [20, 40].map(|delay| link(delay).with_loss(LossModel::bernoulli(loss)));
        let mut bulk = Bulk::over(3, &links, &config(|_| {}));
        bulk.run_for(10_000 * MS);
        let data = bulk.pair.association(Side::A).counters().data_chunks_sent;
        let sacks = bulk.pair.association(Side::Z).counters().sacks_sent;
        sacks as f64 / data as f64
    };
    let (good, bad) = (policies(0.01), policies(0.2));
    println!("{good:.2} acknowledgements a packet, {bad:.2} where a fifth is lost");
    assert!(bad > 1.6 * good, "{good:.2}, {bad:.2}");
}

/// Copies of acknowledgements cause no spurious retransmissions beside a receive buffer that is often full. The acknowledgement that closes
/// the last gap and the one that opens the window again have the same timestamp, in milliseconds. So a copy of the first that arrives after
/// the second closes the window for a moment. The sender must not take the data in flight for a dropped window probe then.
#[test]
fn copies_beside_a_full_receive_buffer() {
    let links = [
        (2_000_000, 50, 0.001),
        (1_600_000, 80, 0.01),
        (800_000, 160, 0.03),
    ];
    let links = links.map(|(rate, delay, loss)| {
        LinkConfig::default()
            .with_rate(rate)
            .with_delay(delay * MS)
            .with_loss(LossModel::bernoulli(loss))
    });
    let mut config = config(|config| config.multipath.eca.ack_routing = AckRouting::EveryPath);
    config.buffers.receive = 64 << 10;
    config.recovery = RecoveryRules::RFC9260;
    config.multipath.scheduler = PathScheduler::RoundRobin;
    config.multipath.congestion = CoupledControl::Uncoupled;
    let mut bulk = Bulk::over(1, &links, &config);
    bulk.run_for(60_000 * MS);
    let sent = bulk.pair.association(Side::A).counters();
    let received = bulk.pair.association(Side::Z).counters();
    let (fast, twice) = (sent.retransmissions_fast, received.duplicates_received);
    println!(
        "{fast} fast retransmissions, {twice} duplicates, {} closed windows",
        sent.zero_windows
    );
    assert!(sent.zero_windows > 20 && fast > 20, "{fast} fast retransmissions");
    assert!(
        10 * twice < fast,
        "{twice} of {fast} fast retransmissions were spurious"
    );
}

/// With ranks, gaps are reported on the path with the lowest RTT: a loss on path 1 is known sooner than by path 1's own
/// acknowledgements.
#[test]
fn the_path_with_the_lowest_rtt_reports_first() {
    let goodput = |routing: AckRouting| {
        let links = [link(10), link(150).with_loss(LossModel::bernoulli(0.02))];
        let config = config(|config| config.multipath.eca.ack_routing = routing);
        let mut bulk = Bulk::over(5, &links, &config);
        let goodput = bulk.run_for(30_000 * MS);
        let to_a = bulk.pair.links(1).1;
        (goodput, bulk.pair.network.link_stats(to_a).delivered)
    };
    let (last, by_itself) = goodput(AckRouting::LastArrival);
    let (ranked, less) = goodput(AckRouting::Ranked);
    println!("{last:.2} Mbit/s, {by_itself} packets back by path 1; ranked {ranked:.2}, {less}");
    assert!(less < by_itself, "{less} of {by_itself}");
}

/// Takes each path down for two seconds and up again during a transfer with losses: no message is lost, and all paths are used
/// again.
#[test]
fn paths_are_cut_and_restored() {
    let setup = Setup::new(3)
        .captured(false)
        .path(link(10).with_loss(LossModel::bernoulli(0.01)))
        .path(link(30))
        .path(link(60))
        .config(Config::default())
        .adjust_both(|config| config.multipath.mode = MultipathMode::Eca);
    let mut pair = setup.connect();
    pair.run_for(3000 * MS);
    reduce_and_restore(&mut pair, &[0, 1, 2, 0]);
}

/// A reliable message with an early copy survives the failure of a path: the copy takes the other path, without waiting for T3-rtx.
#[test]
fn an_early_copy_of_a_reliable_message_takes_another_path() {
    let config = config(|config| config.recovery = RecoveryRules::RACK);
    let mut pair = Setup::new(4)
        .path(link(10))
        .path(link(20))
        .config(config)
        .connect();
    let longest = |pair: &mut Pair, times: u32, cut: Option<u32>| {
        let mut longest = Duration::ZERO;
        for no in 0..times {
            if cut == Some(no) {
                pair.cut(0, true);
            }
            let options = SendOptions::default().unordered(true).early_copies(1);
            pair.send_with(Side::A, 0, "alarm", options);
            let sent = pair.now();
            while pair.messages(Side::Z).is_empty() {
                pair.run_ms(1);
            }
            longest = longest.max(pair.now().saturating_duration_since(sent));
            pair.run_ms(100);
        }
        longest
    };
    assert!(longest(&mut pair, 50, None) < 25 * MS);
    let cut = longest(&mut pair, 20, Some(10));
    assert!(cut < 25 * MS, "{cut:?}");
}
