//! Fairness with abandoned messages (RFC 3758 §3.6, RFC 9260 §7.2): a flow with every extension takes no more than a TCP flow
//! on the same link, and a window with losses causes one window reduction.

use core::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, LossModel};
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{
    Config, Counters, CoupledControl, LowerLayer, MultipathMode, Reliability, SendOptions, StreamId,
};
use anabranch_testkit::{BesideTcp, Setup, Side};

/// Each extension, and all at once.
fn variants() -> Vec<(&'static str, Config)> {
    let mut config = Config::rfc9260();
    config.path_mtu = 1500;
    config.path_mtu_limit = 1500;
    config.lower_layer = LowerLayer::Ip;
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        config
    };
    vec![
        ("RFC 9260", config.clone().without_extensions()),
        ("RFC 3758", with(&|config| config.nr_sack.offer = false)),
        ("NR-SACK", with(&|_| {})),
        (
            "early discard",
            with(&|config| config.partial_reliability.early_discard = true),
        ),
        (
            "all",
            with(&|config| {
                config.partial_reliability.early_discard = true;
                config.partial_reliability.selective_forward_tsn = Some(1);
            }),
        ),
    ]
}

/// The bottleneck of these tests. (Without its jitter, RFC 9260 without extensions gets 0.8 to 1.4 times the goodput of TCP, depending on
/// whether the queue is limited in packets or in bytes.)
fn beside_tcp() -> BesideTcp {
    BesideTcp::at("rate=10mbit,delay=40ms,queue=50p,jitter=200us")
}

/// Over five seeds, no variant's goodput is more than 1.1 times that of the mean TCP flow.
#[test]
fn no_more_than_tcp_on_the_same_link() {
    for (name, config) in variants() {
        let runs = (0..5).map(|seed| beside_tcp().run(&config, seed));
        let (sctp, tcp) = runs.fold((0.0, 0.0), |sums, run| {
            (sums.0 + run.0 / 5.0, sums.1 + run.1 / 5.0)
        });
        println!(
            "{name}: {sctp:.2} Mbit/s beside TCP's {tcp:.2}: {:.2}",
            sctp / tcp
        );
        assert!(
            sctp <= 1.1 * tcp,
            "{name}: {sctp:.2} Mbit/s beside TCP's {tcp:.2}"
        );
        assert!(
            sctp >= 0.3 * tcp,
            "{name}: {sctp:.2} Mbit/s beside TCP's {tcp:.2}"
        );
    }
}

/// The goodput of an association over several paths through one bottleneck, relative to the mean of four greedy TCP flows
/// there.
fn share_of_a_flow(control: CoupledControl, paths: usize) -> f64 {
    let mut config = Config::rfc9260();
    config.path_mtu = 1500;
    config.path_mtu_limit = 1500;
    config.lower_layer = LowerLayer::Ip;
    config.multipath.mode = MultipathMode::Cmt;
    config.multipath.congestion = control;
    let runs = (0..8).map(|seed| beside_tcp().paths(paths).run(&config, seed));
    let (sctp, tcp) = runs.fold((0.0, 0.0), |sums, run| (sums.0 + run.0, sums.1 + run.1));
    println!("{control:?}, {paths} paths: {:.2} of a TCP flow", sctp / tcp);
    sctp / tcp
}

/// With linked control, two or three paths through one bottleneck together take 0.7 to 1.15 times what one TCP flow takes.
#[test]
fn linked_paths_share_a_bottleneck_as_one_flow() {
    for paths in [2, 3] {
        let share = share_of_a_flow(CoupledControl::Lia, paths);
        assert!((0.7..=1.15).contains(&share), "{paths} paths: {share:.2}");
    }
}

/// With pooled control they take no more either. One path alone, counted in the same way, takes 0.76.
#[test]
fn pooled_paths_share_a_bottleneck_as_one_flow() {
    for paths in [2, 3] {
        let share = share_of_a_flow(CoupledControl::ResourcePooling, paths);
        assert!((0.7..=1.15).contains(&share), "{paths} paths: {share:.2}");
    }
}

/// Two paths through one bottleneck, with the settings that are the default and with BBR, take as much as one TCP flow, with CMT and with
/// ECA-SCTP. One path of the default takes 0.75 here, and one of BBR 2.2.
#[test]
fn groups_share_a_bottleneck_as_one_flow() {
    let cell = beside_tcp().cubic().paths(2);
    for control in [
        CongestionControl::Automatic,
        CongestionControl::Bbr(BbrConfig::default()),
    ] {
        for mode in [MultipathMode::Cmt, MultipathMode::Eca] {
            let mut config = Config::default();
            config.path_mtu = 1500;
            config.path_mtu_limit = 1500;
            config.lower_layer = LowerLayer::Ip;
            config.congestion_control = control.clone();
            config.multipath.mode = mode;
            let runs = (0..4).map(|seed| cell.run(&config, seed));
            let (sctp, tcp) = runs.fold((0.0, 0.0), |sums, run| (sums.0 + run.0, sums.1 + run.1));
            let share = sctp / tcp;
            println!("{control:?}, {mode:?}: {share:.2} of a TCP flow");
            assert!((0.7..=1.15).contains(&share), "{share:.2}");
        }
    }
}

/// Without coupling, each path takes as much as a flow.
#[test]
fn uncoupled_paths_are_flows_of_their_own() {
    let [one, two] = [1, 2].map(|paths| share_of_a_flow(CoupledControl::Uncoupled, paths));
    assert!(two > 1.5 * one, "{two:.2} after {one:.2}");
}

/// Forty messages leave at once. Some packets among the first thirty are lost.
fn one_window(config: &Config, lost: &[u64]) -> Counters {
    // INIT and COOKIE ECHO left before.
    let script = LossModel::Script(lost.iter().map(|packet| packet + 2).collect());
    let there = LinkConfig::default()
        .with_delay(Duration::from_millis(20))
        .with_rate(10_000_000)
        .with_loss(script);
    let back = LinkConfig::default().with_delay(Duration::from_millis(20));
    let mut pair = Setup::new(1)
        .captured(false)
        .path_of(there, back)
        .config(config.clone())
        .adjust_both(|config| {
            config.initial_window = Some(50);
            config.max_burst = 100;
            config.heartbeat.interval = None;
        })
        .connect();
    for _ in 0..40 {
        let now = pair.now();
        let options = SendOptions::default().reliability(Reliability::Retransmissions(0));
        pair.association_mut(Side::A)
            .send(now, StreamId(0), vec![0; 1400].into(), options)
            .expect("there is room");
    }
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.association(Side::A).stats().outstanding_bytes, 0);
    *pair.association(Side::A).counters()
}

/// In every variant a window with losses, whichever packets they are, causes one window reduction.
#[test]
fn one_window_with_losses_is_one_reduction() {
    for seed in 0..100 {
        let mut random = Generator::of_process(seed, "losses");
        let mut lost: Vec<u64> = (0..30).filter(|_| random.below(5) == 0).collect();
        lost.push(random.below(30));
        lost.sort_unstable();
        lost.dedup();
        for (name, config) in variants() {
            let counters = one_window(&config, &lost);
            assert_eq!(
                (counters.fast_recoveries, counters.timeouts),
                (1, 0),
                "seed {seed}, {name}, lost {lost:?}"
            );
        }
    }
}
