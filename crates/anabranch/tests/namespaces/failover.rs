//! A path is cut during a transfer (RFC 9260 §8.2, RFC 7829), and restored.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch::{Association, Config, Endpoint, Failover, PathState};

use crate::bed::{Bed, LIMIT, expect_pause_below, wait_until};
use crate::transfer::{PORT, Progress, path, receive, send, wait_for_paths};

const UDP_PORT: u16 = 9899;
const MIB: u64 = 1 << 20;
/// An endpoint on these addresses, each bound to its interface if `bound`.
pub(crate) fn endpoint(config: &Config, addresses: &[IpAddr], bound: bool, link: Option<&str>) -> Endpoint {
    let mut config = config.clone();
    config.local_addresses = addresses.to_vec();
    let locals: Vec<_> = addresses
        .iter()
        .map(|address| SocketAddr::new(*address, UDP_PORT))
        .collect();
    let mut builder = Endpoint::builder().config(config);
    for (index, address) in addresses.iter().enumerate().filter(|_| bound) {
        builder = builder.interface(*address, format!("path{index}"));
    }
    if let Some(link) = link {
        builder = builder.link(link.parse().expect("a link"), 1);
    }
    builder.bind_all(&locals).expect("bind")
}

/// Starts a receiver in namespace `z` and waits until it listens. Its thread returns the number of received messages.
pub(crate) fn receiving(
    bed: &Bed,
    progress: &Arc<Progress>,
    open: impl FnOnce() -> Endpoint + Send + 'static,
) -> JoinHandle<u64> {
    let progress = Arc::clone(progress);
    let (ready, is_ready) = mpsc::channel();
    let receiver = bed.inside("z", move || async move {
        let endpoint = open();
        endpoint.listen_on_port(PORT).expect("listen");
        ready.send(()).expect("it is awaited");
        receive(endpoint, progress).await
    });
    is_ready.recv_timeout(LIMIT).expect("it listens");
    receiver
}

/// Starts a sender in namespace `a` and waits until it is connected. It sends until the test stops it; its thread returns the
/// number of sent messages.
pub(crate) fn sending(
    bed: &Bed,
    to: SocketAddr,
    stop: &Arc<AtomicBool>,
    open: impl FnOnce() -> Endpoint + Send + 'static,
) -> (JoinHandle<u64>, Association) {
    let stop = Arc::clone(stop);
    let (told, association) = mpsc::channel();
    let sender = bed.inside("a", move || async move { send(open(), to, stop, told).await });
    (sender, association.recv_timeout(LIMIT).expect("connected"))
}

/// The settings of a test, and the interface that goes down.
struct Scene {
    test: &'static str,
    config: Config,
    subnets: [[&'static str; 2]; 2],
    /// The in-process link at the sender.
    link: Option<&'static str>,
    /// Whether each socket is bound to its interface.
    bound: bool,
    /// The namespace whose device goes down.
    cut_at: &'static str,
}

impl Scene {
    fn new(test: &'static str, config: Config) -> Self {
        Self {
            test,
            config,
            subnets: IPV4,
            link: Some("delay=40ms"),
            bound: true,
            cut_at: "z",
        }
    }
}

/// Two subnets; the first is cut during a transfer, and restored. Returns the receiver's longest pause.
fn cut_and_return(scene: Scene) -> Option<Duration> {
    let Scene {
        test,
        config,
        subnets,
        link,
        bound,
        cut_at,
    } = scene;
    let bed = Bed::build(test, &["a", "z"], &[])?.in_turn();
    let mut addresses: [Vec<IpAddr>; 2] = [Vec::new(), Vec::new()];
    for (index, subnet) in subnets.into_iter().enumerate() {
        bed.join(
            &format!("path{index}"),
            [("a", &[subnet[0]]), ("z", &[subnet[1]])],
        );
        for side in 0..2 {
            let (address, _) = subnet[side].split_once('/').expect("a prefix");
            addresses[side].push(address.parse().expect("an address"));
        }
    }
    let progress = Arc::new(Progress::default());
    let stop = Arc::new(AtomicBool::new(false));
    let remote = SocketAddr::new(addresses[1][0], UDP_PORT);
    let [ours, theirs] = addresses;
    let (own, of_receiver) = (config.clone(), config);
    let receiver = receiving(&bed, &progress, move || {
        endpoint(&of_receiver, &theirs, bound, None)
    });
    let (sender, association) = sending(&bed, remote, &stop, move || endpoint(&own, &ours, bound, link));
    wait_for_paths(&association, 2);
    wait_until("4 MiB have come", || progress.bytes() > 4 * MIB);

    progress.restart();
    let cut = Instant::now();
    bed.ip(cut_at, "link set path0 down");
    wait_until("the path is in doubt", || {
        path(&association, 0).state != PathState::Active
    });
    let noticed = cut.elapsed();
    let at_cut = progress.bytes();
    wait_until("4 MiB more have come", || progress.bytes() > at_cut + 4 * MIB);
    let pause = progress.longest();
    println!("{test}: dead path noticed after {noticed:?}, the reader's longest pause {pause:?}");

    bed.ip(cut_at, "link set path0 up");
    let back = Instant::now();
    wait_until("the path is active again", || {
        path(&association, 0).state == PathState::Active
    });
    println!("{test}: in use again {:?} after it came back", back.elapsed());
    let before = path(&association, 0).data_bytes_sent;
    wait_until("data returns to the primary path", || {
        path(&association, 0).data_bytes_sent > before + MIB / 2
    });
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().expect("the sender");
    let received = receiver.join().expect("the receiver");
    assert_eq!(received, sent, "nothing is lost");
    Some(pause)
}

const IPV4: [[&str; 2]; 2] = [["10.81.1.1/24", "10.81.1.2/24"], ["10.81.2.1/24", "10.81.2.2/24"]];
const BOTH: [[&str; 2]; 2] = [["10.81.1.1/24", "10.81.1.2/24"], ["fd81:2::1/64", "fd81:2::2/64"]];

#[test]
fn fast_detection() {
    expect_pause_below(Duration::from_secs(1), || {
        cut_and_return(Scene::new("fast", Config::default()))
    });
}

#[test]
fn fast_detection_from_ipv4_to_ipv6() {
    expect_pause_below(Duration::from_secs(1), || {
        let mut scene = Scene::new("v4v6", Config::default());
        scene.subnets = BOTH;
        cut_and_return(scene)
    });
}

/// The sender's own device goes down. The system refuses the next packet, so that no timer is needed to detect the failure. But
/// if the congestion window is full, no packet leaves until T3-rtx expires.
#[test]
fn an_own_device_goes_down() {
    let mut config = Config::default();
    config.rto.min = Duration::from_millis(1500);
    config.rto.initial = config.rto.min;
    expect_pause_below(Duration::from_secs(5), || {
        let mut scene = Scene::new("own", config.clone());
        scene.cut_at = "a";
        // The in-process link would hide the error of the socket. And a socket that is bound to a device gets no error when the
        // device goes down.
        scene.link = None;
        scene.bound = false;
        cut_and_return(scene)
    });
}

/// A path with a short RTT can have a short `RTO.Min`: a failure is then detected within milliseconds.
#[test]
fn milliseconds_where_the_delay_is_none() {
    let mut config = Config::default();
    config.rto.min = Duration::from_millis(20);
    config.sack.delay = Duration::from_millis(5);
    expect_pause_below(Duration::from_millis(500), || {
        let mut scene = Scene::new("short", config.clone());
        scene.link = None;
        cut_and_return(scene)
    });
}

/// RFC 7829's recommended PFMR, with the timeouts of RFC 9260.
#[test]
fn potentially_failed_with_the_timeouts_of_rfc_9260() {
    let mut config = Config::default();
    config.retransmissions.failover = Failover::PotentiallyFailed { max_retrans: 0 };
    expect_pause_below(Duration::from_secs(10), || {
        cut_and_return(Scene::new("pf", config.clone()))
    });
}

/// RFC 8899: probes find the largest packet size. When a router then forwards only smaller packets and its ICMP messages are
/// dropped, the transfer continues with smaller packets.
#[test]
fn a_path_that_becomes_smaller() {
    let Some(bed) = Bed::build("smaller", &["a", "r", "z"], &["nft"]) else {
        return;
    };
    bed.join("near", [("a", &["10.84.1.1/24"]), ("r", &["10.84.1.2/24"])]);
    bed.join("far", [("r", &["10.84.2.1/24"]), ("z", &["10.84.2.2/24"])]);
    bed.ip("a", "route add default via 10.84.1.2");
    bed.ip("z", "route add default via 10.84.2.1");
    bed.shell("r", "echo 1 > /proc/sys/net/ipv4/ip_forward");
    let progress = Arc::new(Progress::default());
    let stop = Arc::new(AtomicBool::new(false));
    let receiver = receiving(&bed, &progress, || {
        let local = SocketAddr::from(([10, 84, 2, 2], UDP_PORT));
        Endpoint::builder().bind_all(&[local]).expect("bind")
    });
    let to = SocketAddr::from(([10, 84, 2, 2], UDP_PORT));
    let (sender, association) = sending(&bed, to, &stop, || {
        let builder = Endpoint::builder().link("rate=40mbit,delay=10ms".parse().expect("a link"), 1);
        let local = SocketAddr::from(([10, 84, 1, 1], 0));
        builder.bind_all(&[local]).expect("bind")
    });
    wait_until("1500 bytes are found", || path(&association, 0).pmtu == 1500);
    bed.shell(
        "r",
        "nft 'add table ip f; add chain ip f out { type filter hook output priority 0; }; \
         add rule ip f out ip protocol icmp drop'",
    );
    progress.restart();
    bed.ip("r", "link set far mtu 1400");
    let at = progress.bytes();
    wait_until("the path is found smaller", || path(&association, 0).pmtu < 1500);
    wait_until("1 MiB more has come", || progress.bytes() > at + MIB);
    wait_until("1400 bytes are found", || path(&association, 0).pmtu == 1400);
    let black_holes = association.stats().counters.mtu_black_holes;
    println!(
        "smaller: {black_holes} black hole, the longest pause {:?}",
        progress.longest()
    );
    assert!(black_holes >= 1);
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().expect("the sender");
    assert_eq!(receiver.join().expect("the receiver"), sent, "nothing is lost");
}

#[test]
fn an_interface_that_is_not_there_is_an_error() {
    let builder = Endpoint::builder().interface(IpAddr::from([127, 0, 0, 1]), "nosuchdevice");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = runtime.expect("a runtime").block_on(builder.bind("127.0.0.1:0"));
    assert!(
        matches!(&answer, Err(anabranch::BindError::Interface { interface, .. }) if interface == "nosuchdevice"),
        "{answer:?}"
    );
}
