//! Fairness with abandoned messages (RFC 3758 §3.6, RFC 9260 §7.2): a flow with every extension takes no more than a TCP flow
//! on the same link, and a window with losses causes one window reduction.

use core::time::Duration;

use anabranch_netsim::{
    Application, Dumbbell, Generator, Host, HostApi, LinkConfig, LossModel, Network, Recovery, TcpConfig,
    TcpSource, Traffic,
};
use anabranch_proto::{
    AssociationId, Config, ConnectOptions, Counters, CoupledControl, Event, LowerLayer, MultipathMode,
    Reliability, SendOptions, StreamId, Timestamp,
};
use anabranch_testkit::{PORT, Setup, Side};
use bytes::Bytes;

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

/// Always has messages to send, and sends each once without retransmission.
struct Greedy {
    id: AssociationId,
}

impl Greedy {
    fn fill(&self, api: &mut HostApi<'_>) {
        let now = api.now();
        let Some(association) = api.association(self.id) else {
            return;
        };
        let options = SendOptions::default().reliability(Reliability::Retransmissions(0));
        while association.stats().queued_bytes < 50_000 {
            let message = Bytes::from_static(&[0; 1400]);
            if association.send(now, StreamId(0), message, options).is_err() {
                break;
            }
        }
    }
}

impl Application for Greedy {
    fn on_event(&mut self, _: &mut HostApi<'_>, _: AssociationId, _: Event) {}

    fn on_timer(&mut self, api: &mut HostApi<'_>) {
        self.fill(api);
        let next = api.now() + Duration::from_millis(5);
        api.set_timer(Some(next));
    }
}

/// Counts the received bytes.
#[derive(Default)]
struct Sink {
    bytes: u64,
}

impl Application for Sink {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        if let (Event::Readable, Some(association)) = (event, api.association(id)) {
            while let Some(part) = association.recv(now) {
                self.bytes += part.payload.len() as u64;
            }
        }
    }
}

const SECONDS: u64 = 150;

/// Goodput of a greedy association that shares a link with four greedy TCP flows, and the mean goodput of these flows, in
/// Mbit/s. TCP recovers with SACK and counts bytes, like the TCP of kernels. The link adds up to 0.2 ms of random delay to each
/// packet. Without it, drop-tail and equal RTTs lock the flows in phase, and the size of a packet decides which flow has the
/// losses. (RFC 9260 without extensions then gets 0.8 to 1.4 times the goodput of TCP, depending on whether the queue is
/// limited in packets or in bytes.)
fn beside_tcp(config: &Config, paths: usize, seed: u64) -> (f64, f64) {
    let mut network = Network::new(seed);
    let bottleneck: LinkConfig = "rate=10mbit,delay=40ms,queue=50p,jitter=200us"
        .parse()
        .expect("a link");
    let back: LinkConfig = "rate=10mbit,delay=40ms".parse().expect("a link");
    let mut dumbbell = Dumbbell::new(&mut network, bottleneck, back);
    let mut random = network.generator("starts");
    let flows: Vec<_> = (0..4)
        .map(|flow| {
            let start = Timestamp::from_millis(random.below(3000));
            let mut config = TcpConfig::default().with_recovery(Recovery::Sack);
            config.byte_counting = true;
            dumbbell.add_tcp(
                &mut network,
                &format!("tcp{flow}"),
                &config,
                Traffic::Greedy,
                start,
            )
        })
        .collect();
    let mut seeds = network.generator("sctp seeds");
    let mut configs = [config.clone(), config.clone()];
    if paths > 1 {
        let mut next = dumbbell.clone();
        for _ in 0..paths {
            let (left, right) = next.next_addresses();
            configs[0].local_addresses.push(left);
            configs[1].local_addresses.push(right);
            next.skip_addresses();
        }
    }
    let [left, right] = configs;
    let left = Host::new(left, 0, seeds.bytes()).expect("in range");
    let mut right = Host::new(right, 0, seeds.bytes()).expect("in range");
    right.endpoint_mut().listen(PORT).expect("not port 0");
    right.run(Sink::default(), None);
    let sctp = dumbbell.add_pair_with_paths(&mut network, "sctp", paths, left, right)[0];
    let (now, remote) = (network.now(), (sctp.right_address, 0).into());
    let host = network.host_mut(sctp.left);
    let id = host
        .connect(now, remote, PORT, ConnectOptions::default())
        .expect("connect");
    host.run(Greedy { id }, Some(Timestamp::from_millis(1000)));
    network.run_until(Timestamp::from_millis(SECONDS * 1000));
    let mbit = |bytes: u64| bytes as f64 * 8.0 / SECONDS as f64 / 1e6;
    let tcp = flows
        .iter()
        .map(|flow| network.node::<TcpSource>(flow.left).stats().bytes_acked);
    let sink = network.host(sctp.right).application::<Sink>().expect("it runs");
    (mbit(sink.bytes), mbit(tcp.sum::<u64>()) / 4.0)
}

/// Over five seeds, no variant's goodput is more than 1.1 times that of the mean TCP flow.
#[test]
fn no_more_than_tcp_on_the_same_link() {
    for (name, config) in variants() {
        let runs = (0..5).map(|seed| beside_tcp(&config, 1, seed));
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
    let runs = (0..8).map(|seed| beside_tcp(&config, paths, seed));
    let (sctp, tcp) = runs.fold((0.0, 0.0), |sums, run| (sums.0 + run.0, sums.1 + run.1));
    println!("{control:?}, {paths} paths: {:.2} of a TCP flow", sctp / tcp);
    sctp / tcp
}

/// With linked control, two or three paths through one bottleneck together take at most 1.15 times what one flow takes.
#[test]
fn linked_paths_share_a_bottleneck_as_one_flow() {
    for paths in [2, 3] {
        let share = share_of_a_flow(CoupledControl::Lia, paths);
        assert!((0.85..=1.15).contains(&share), "{paths} paths: {share:.2}");
    }
}

/// With pooled control they take no more either. One path alone, counted in the same way, takes 0.8.
#[test]
fn pooled_paths_share_a_bottleneck_as_one_flow() {
    for paths in [2, 3] {
        let share = share_of_a_flow(CoupledControl::ResourcePooling, paths);
        assert!((0.7..=1.15).contains(&share), "{paths} paths: {share:.2}");
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
