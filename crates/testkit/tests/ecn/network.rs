//! Transfers over links that mark packets, or drop those that are ECN-capable.

use core::time::Duration;

use anabranch_netsim::{Ecn, LinkConfig, LinkStats};
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{Config, EcnPathStats, EcnState, MultipathMode, RecoveryRules};
use anabranch_testkit::{Bulk, Greedy, Pair, Setup, Side};

use super::with_ecn;

const SECOND: Duration = Duration::from_secs(1);

/// Each pair of congestion control and loss detection, with a seed.
fn profiles() -> impl Iterator<Item = (u64, Config)> {
    let controls = [
        CongestionControl::Rfc9260,
        CongestionControl::Cubic,
        CongestionControl::Bbr(BbrConfig::default()),
    ];
    let recoveries = [RecoveryRules::RFC9260, RecoveryRules::RACK];
    let all = controls
        .into_iter()
        .flat_map(move |control| recoveries.map(|recovery| (control.clone(), recovery)));
    all.enumerate().map(|(index, (congestion_control, recovery))| {
        let mut config = with_ecn();
        config.congestion_control = congestion_control;
        config.recovery = recovery;
        (index as u64 + 1, config)
    })
}

/// 10 Mbit/s, 20 ms each way.
fn link(settings: &str) -> LinkConfig {
    format!("rate=10mbit,delay=20ms,queue=100p,{settings}")
        .parse()
        .expect("a link")
}

fn ecn(pair: &Pair, side: Side) -> EcnPathStats {
    pair.association(side).stats().paths[0].ecn
}

fn name(config: &Config) -> String {
    format!(
        "{:?} {:?}",
        config.congestion_control,
        config.recovery.loss_detection()
    )
}

/// The link of a path in the direction of the data.
fn there(bulk: &Bulk, path: usize) -> LinkStats {
    *bulk.pair.network.link_stats(bulk.pair.links(path).0)
}

#[test]
fn marks_reduce_the_window_before_the_queue_is_full() {
    for (seed, config) in profiles() {
        let mut bulk = Bulk::over(seed, &[link("ecn-mark=20p")], &config);
        bulk.run_for(SECOND);
        let goodput = bulk.run_for(20 * SECOND);
        let (stats, ecn) = (there(&bulk, 0), ecn(&bulk.pair, Side::A));
        let what = format!("{}: {stats:?}, {ecn:?}", name(&config));
        assert!(goodput > 8.5, "{goodput}, {what}");
        assert_eq!((ecn.state, stats.lost_queue), (EcnState::Capable, 0), "{what}");
        assert!(
            stats.marked > 0 && ecn.packets_marked > 0 && ecn.reductions > 0,
            "{what}"
        );
        // The minimum RTT is 40 ms.
        assert!(ecn.reductions <= 21 * 25, "{what}");
        assert!(
            ecn.reductions <= ecn.packets_marked && ecn.packets_marked <= stats.marked,
            "{what}"
        );
        let [ours, theirs] = [Side::A, Side::Z].map(|side| *bulk.pair.association(side).counters());
        let repeated = ours.retransmissions_fast + ours.retransmissions_timeout;
        assert_eq!((repeated, ours.reductions_undone), (0, 0), "{what}");
        assert!(
            stats.marked - theirs.ce_packets_received < 50,
            "{theirs:?}, {what}"
        );
        assert!(theirs.ecnes_sent >= ours.ecnes_received && ours.ecnes_received >= ecn.reductions);
    }
}

#[test]
fn codel_marks_instead_of_dropping() {
    for (seed, config) in profiles() {
        // BBR keeps the queue so short that CoDel may have nothing to do.
        let fills = !matches!(config.congestion_control, CongestionControl::Bbr(_));
        for ecn_on in [false, true] {
            let mut config = config.clone();
            config.ecn = ecn_on;
            let mut bulk = Bulk::over(
                seed,
                &["rate=10mbit,delay=20ms,queue=1000p,aqm=codel"
                    .parse()
                    .expect("a link")],
                &config,
            );
            let goodput = bulk.run_for(20 * SECOND);
            let (stats, ecn) = (there(&bulk, 0), ecn(&bulk.pair, Side::A));
            let what = format!("{}: {goodput}, {stats:?}, {ecn:?}", name(&config));
            let (acted, other) = if ecn_on {
                (stats.marked, stats.lost_aqm)
            } else {
                (stats.lost_aqm, stats.marked)
            };
            assert!(!fills || acted > 20, "{what}");
            // Path MTU probes, and data while the path is tested, are not ECN-capable.
            assert!(other <= 3, "{what}");
            assert!(goodput > 7.0, "{what}");
            assert_eq!(ecn.reductions > 0, stats.marked > 0, "{what}");
        }
    }
}

#[test]
fn losses_and_marks_together_are_repaired() {
    for (seed, config) in profiles() {
        let mut bulk = Bulk::over(seed, &[link("ecn-mark=10p,loss=1%")], &config);
        let goodput = bulk.run_for(20 * SECOND);
        let ecn = ecn(&bulk.pair, Side::A);
        assert!(goodput > 2.0, "{}: {goodput}", name(&config));
        assert_eq!(ecn.state, EcnState::Capable, "{}", name(&config));
    }
}

#[test]
fn both_endpoints_must_ask_for_ecn() {
    for (a, z) in [(false, false), (true, false), (false, true)] {
        let mut pair = Setup::new(3)
            .path(link("ecn-mark=2p"))
            .adjust(Side::A, |config| config.ecn = a)
            .adjust(Side::Z, |config| config.ecn = z)
            .connect();
        for side in [Side::A, Side::Z] {
            pair.send(side, 0, vec![1; 100_000]);
        }
        pair.run_for(5 * SECOND);
        for side in [Side::A, Side::Z] {
            assert_eq!(pair.messages(side).len(), 1);
            assert!(!pair.association(side).stats().extensions.ecn);
            assert_eq!(ecn(&pair, side), EcnPathStats::default());
            let received = pair.host(side).ecn_received();
            assert_eq!((received.of(Ecn::Ect0), received.of(Ecn::Ce)), (0, 0));
        }
    }
}

#[test]
fn a_path_that_drops_capable_packets_carries_data() {
    for (seed, config) in profiles() {
        let mut bulk = Bulk::over(seed, &[link("ect-loss=100%")], &config);
        bulk.run_for(20 * SECOND);
        let ecn = ecn(&bulk.pair, Side::A);
        assert_eq!(ecn.state, EcnState::Failed, "{}", name(&config));
        assert!(ecn.packets_sent <= 10, "{}: {ecn:?}", name(&config));
        let goodput = bulk.run_for(20 * SECOND);
        assert!(goodput > 8.5, "{}: {goodput}", name(&config));
    }
}

/// Each message waits for the answer to the message before.
#[test]
fn a_path_that_drops_capable_packets_delays_few_messages() {
    for (seed, config) in profiles() {
        let mut pair = Setup::new(seed)
            .path(link("ect-loss=100%"))
            .config(config)
            .connect();
        let begin = pair.now();
        for _ in 0..100 {
            for (from, to) in [(Side::A, Side::Z), (Side::Z, Side::A)] {
                pair.send(from, 0, vec![1; 100]);
                let limit = pair.now() + 60 * SECOND;
                assert!(pair.run_to(limit, |pair| !pair.messages(to).is_empty()));
            }
        }
        let took = pair.now().saturating_duration_since(begin);
        assert!(took < 25 * SECOND, "{took:?}");
        for side in [Side::A, Side::Z] {
            assert_eq!(ecn(&pair, side).state, EcnState::Failed);
        }
    }
}

#[test]
fn a_path_that_begins_to_drop_capable_packets_is_detected() {
    for (seed, config) in profiles() {
        let mut bulk = Bulk::of(
            Setup::new(seed).path(link("ecn-mark=20p")).config(config.clone()),
            Greedy::new(1000),
        );
        bulk.run_for(2 * SECOND);
        assert_eq!(ecn(&bulk.pair, Side::A).state, EcnState::Capable);
        bulk.pair.set_path(0, &link("ect-loss=100%"));
        bulk.run_for(40 * SECOND);
        let goodput = bulk.run_for(20 * SECOND);
        let ecn = ecn(&bulk.pair, Side::A);
        assert!(goodput > 8.0, "{}: {goodput}, {ecn:?}", name(&config));
        assert_eq!(ecn.state, EcnState::Failed, "{}", name(&config));
    }
}

#[test]
fn reports_that_are_lost_are_retransmitted() {
    for (seed, config) in profiles() {
        let setup = Setup::new(seed)
            .path_of(link("ecn-mark=20p"), link("loss=30%"))
            .config(config.clone());
        let mut bulk = Bulk::of(setup, Greedy::new(1000));
        let goodput = bulk.run_for(20 * SECOND);
        let (stats, ecn) = (there(&bulk, 0), ecn(&bulk.pair, Side::A));
        assert!(
            ecn.reductions > 0 && stats.lost_queue == 0,
            "{}: {stats:?}, {ecn:?}",
            name(&config)
        );
        // CUBIC with missing reports has 4.8 without ECN, too: so many SACKs are lost that T3-rtx expires.
        assert!(goodput > 4.5, "{}: {goodput}", name(&config));
    }
}

/// Two paths at once: marks on one path reduce the window of that path only.
#[test]
fn marks_count_for_their_own_path() {
    let fast = |more: &str| {
        format!("rate=10mbit,delay=20ms,queue=400p{more}")
            .parse()
            .expect("a link")
    };
    for mode in [MultipathMode::Cmt, MultipathMode::Eca] {
        let mut config = with_ecn();
        config.multipath.mode = mode;
        let links = [fast(""), fast(",ecn-mark=20p")];
        let mut bulk = Bulk::over(7, &links, &config);
        let goodput = bulk.run_for(20 * SECOND);
        assert!(goodput > 12.0, "{mode:?}: {goodput}");
        let stats = bulk.pair.association(Side::A).stats();
        let [first, second] = [0, 1].map(|path| stats.paths[path].ecn);
        assert_eq!(
            (first.packets_marked, first.reductions),
            (0, 0),
            "{mode:?}: {first:?}"
        );
        assert_eq!(
            (first.state, second.state),
            (EcnState::Capable, EcnState::Capable)
        );
        assert!(second.reductions > 0, "{mode:?}: {second:?}");
        assert!(
            second.packets_marked <= there(&bulk, 1).marked,
            "{mode:?}: {second:?}"
        );
    }
}
