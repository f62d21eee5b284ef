use std::sync::mpsc;

use anabranch_proto::{Config, ConnectOptions, Dscp, SendOptions, StreamId};
use bytes::Bytes;

use super::*;
use crate::dumbbell::Dumbbell;
use crate::ecn::Ecn;
use crate::loss::LossModel;
use crate::queue::{MarkThreshold, QueueLimit};

/// Sends numbered packets at a constant rate and records received ones.
struct Source {
    to: IpAddr,
    interval: Duration,
    next: Timestamp,
    left: u32,
    sent: u32,
    due: bool,
    echo: bool,
    arrivals: Vec<(Timestamp, u32)>,
    outgoing: Vec<Packet>,
}

impl Source {
    fn new(to: IpAddr, interval: Duration, packets: u32) -> Self {
        Self {
            to,
            interval,
            next: Timestamp::from_millis(1),
            left: packets,
            sent: 0,
            due: false,
            echo: false,
            arrivals: Vec::new(),
            outgoing: Vec::new(),
        }
    }
}

fn packet(to: IpAddr, number: u32) -> Packet {
    let unspecified = IpAddr::from([0, 0, 0, 0]);
    let mut payload = vec![0; 980];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    Packet {
        source: SocketAddr::new(unspecified, 0),
        destination: SocketAddr::new(to, 0),
        payload: payload.into(),
        may_fragment: false,
        ecn: Ecn::NotEct,
        dscp: Dscp::default(),
    }
}

impl Node for Source {
    fn handle_packet(&mut self, now: Timestamp, packet: Packet) {
        self.arrivals.push((
            now,
            u32::from_be_bytes(packet.payload.sctp()[..4].try_into().unwrap()),
        ));
        if self.echo {
            self.outgoing.push(Packet {
                source: packet.destination,
                destination: packet.source,
                ..packet
            });
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.left > 0 && now >= self.next {
            self.due = true;
            self.left -= 1;
            self.next += self.interval;
        }
    }

    fn poll_transmit(&mut self, _: Timestamp) -> Option<Packet> {
        if core::mem::take(&mut self.due) {
            self.sent += 1;
            return Some(packet(self.to, self.sent - 1));
        }
        self.outgoing.pop()
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        (self.left > 0).then_some(self.next)
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn two(seed: u64, config: LinkConfig, interval: Duration, packets: u32) -> (Network, NodeId, NodeId, LinkId) {
    let mut network = Network::new(seed);
    let a = network.add_node("a", &[], Source::new(ip(2), interval, packets));
    let b = network.add_node("b", &[], Source::new(ip(1), interval, 0));
    let (there, _) = network.connect((a, ip(1)), (b, ip(2)), config.clone(), config);
    (network, a, b, there)
}

#[test]
fn measured_rate_delay_and_loss_match_the_settings() {
    // 1,000-byte packets every 500 µs are 16 Mbit/s into a link of 8 Mbit/s.
    let config = LinkConfig::default()
        .with_rate(8_000_000)
        .with_delay(Duration::from_millis(40))
        .with_queue(QueueLimit::Packets(10));
    let (mut network, _, b, there) = two(1, config, Duration::from_micros(500), 20_000);
    assert!(network.run_until_idle(Timestamp::from_millis(60_000)));
    let stats = *network.link_stats(there);
    let arrivals = &network.node::<Source>(b).arrivals;
    assert_eq!(arrivals[0], (Timestamp::from_millis(1 + 1 + 40), 0));
    let seconds = arrivals
        .last()
        .unwrap()
        .0
        .saturating_duration_since(arrivals[0].0)
        .as_secs_f64();
    let rate = (arrivals.len() - 1) as f64 * 8000.0 / seconds;
    assert!((rate - 8e6).abs() < 1e4, "{rate} bit/s");
    assert_eq!((stats.queue_max_packets, stats.offered), (10, 20_000));
    assert_eq!(stats.delivered + stats.lost_queue, 20_000);

    let lossy = LinkConfig::default().with_loss(LossModel::bernoulli(0.05));
    let (mut network, _, b, there) = two(1, lossy, Duration::from_micros(500), 20_000);
    network.run_until_idle(Timestamp::from_millis(60_000));
    let lost = 20_000 - network.node::<Source>(b).arrivals.len();
    assert!((900..1100).contains(&lost), "{lost}");
    assert_eq!(network.link_stats(there).lost_model, lost as u64);
}

/// A writer that passes its bytes into a channel.
struct Out(mpsc::Sender<Vec<u8>>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .send(bytes.to_vec())
            .map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn capture(seed: u64) -> Vec<u8> {
    let config = LinkConfig::default()
        .with_rate(20_000_000)
        .with_delay(Duration::from_millis(10))
        .with_jitter(Duration::from_millis(5))
        .with_loss(LossModel::bursts(0.02, 0.3))
        .with_reorder(0.05, Duration::from_millis(3))
        .with_duplicate(0.02)
        .with_corrupt(0.02);
    let (mut network, _, b, _) = two(seed, config, Duration::from_micros(500), 500);
    network.node_mut::<Source>(b).echo = true;
    let (sender, receiver) = mpsc::channel();
    network.capture(Out(sender)).unwrap();
    assert!(network.run_until_idle(Timestamp::from_millis(10_000)));
    network.finish_capture().unwrap();
    drop(network);
    receiver.iter().flatten().collect()
}

#[test]
fn the_same_seed_gives_the_same_capture() {
    let first = capture(7);
    assert!(first.len() > 500_000, "both ways: {} bytes", first.len());
    assert!(first == capture(7));
    assert!(first != capture(8));
}

#[test]
fn a_cut_link_carries_nothing_until_it_heals() {
    let (mut network, _, b, there) = two(1, LinkConfig::default(), Duration::from_millis(1), 30);
    network.run_until(Timestamp::from_millis(10));
    network.cut(there, true);
    network.run_until(Timestamp::from_millis(20));
    network.cut(there, false);
    assert!(network.run_until_idle(Timestamp::from_millis(99)));
    let numbers: Vec<_> = network
        .node::<Source>(b)
        .arrivals
        .iter()
        .map(|&(_, number)| number)
        .collect();
    let expected: Vec<_> = (0..10).chain(20..30).collect();
    assert_eq!(numbers, expected);
    assert_eq!(network.link_stats(there).lost_down, 10);
}

#[test]
fn routers_forward_by_destination_and_by_source() {
    // a ═ two links ═ r ─ b: a's second address takes the slower link.
    let mut network = Network::new(1);
    let a = network.add_node("a", &[ip(1), ip(3)], Source::new(ip(2), Duration::ZERO, 0));
    let r = network.add_node("r", &[], Router);
    let b = network.add_node("b", &[ip(2)], Source::new(ip(1), Duration::ZERO, 0));
    let delay = |ms| LinkConfig::default().with_delay(Duration::from_millis(ms));
    let fast = network.add_link(a, r, delay(1));
    let slow = network.add_link(a, r, delay(10));
    let last = network.add_link(r, b, delay(5));
    network.add_route(
        a,
        Route {
            source: None,
            destination: None,
            link: fast,
        },
    );
    network.add_route(
        a,
        Route {
            source: Some(ip(3)),
            destination: None,
            link: slow,
        },
    );
    network.add_route(
        r,
        Route {
            source: None,
            destination: Some(ip(2)),
            link: last,
        },
    );
    let mut from_second = packet(ip(2), 1);
    from_second.source.set_ip(ip(3));
    let mut from_first = packet(ip(2), 0);
    from_first.source.set_ip(ip(1));
    let outgoing = vec![from_second, from_first, packet(ip(9), 2)];
    network.node_mut::<Source>(a).outgoing = outgoing;
    assert!(network.run_until_idle(Timestamp::from_millis(99)));
    let expected = [(Timestamp::from_millis(6), 0), (Timestamp::from_millis(15), 1)];
    assert_eq!(network.node::<Source>(b).arrivals, expected);
    assert_eq!(network.unroutable(), 1, "r has no route to 10.0.0.9");
    assert_eq!(network.now(), Timestamp::from_millis(15));
}

#[test]
fn the_last_packets_are_kept_with_their_fate() {
    let lossy = LinkConfig::default().with_loss(LossModel::Script(vec![8]));
    let (mut network, _, _, there) = two(1, lossy, Duration::from_millis(1), 10);
    network.keep_records(3);
    network.run_until_idle(Timestamp::from_millis(99));
    let records: Vec<_> = network
        .records()
        .map(|r| (r.at, r.link, r.packet.source.ip(), r.fate.lost))
        .collect();
    let at = Timestamp::from_millis;
    let model = Some(crate::link::LossCause::Model);
    assert_eq!(
        records,
        [
            (at(8), there, ip(1), None),
            (at(9), there, ip(1), model),
            (at(10), there, ip(1), None)
        ]
    );
}

#[test]
fn a_run_stops_where_it_is_told() {
    let (mut network, _, b, _) = two(1, LinkConfig::default(), Duration::from_millis(1), 10);
    assert!(
        !network.run_while(Timestamp::from_millis(50), |n| n.node::<Source>(b).arrivals.len()
            < 4)
    );
    assert_eq!(network.now(), Timestamp::from_millis(4));
    assert!(
        network.run_while(Timestamp::from_millis(6), |_| true),
        "there is more to come"
    );
    assert_eq!(network.now(), Timestamp::from_millis(6));
    network.run_for(Duration::from_millis(2));
    assert_eq!(network.node::<Source>(b).arrivals.len(), 8);
}

/// A node whose timer never moves on.
struct Stuck;

impl Node for Stuck {
    fn handle_packet(&mut self, _: Timestamp, _: Packet) {}

    fn handle_timeout(&mut self, _: Timestamp) {}

    fn poll_transmit(&mut self, _: Timestamp) -> Option<Packet> {
        None
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        Some(Timestamp(5))
    }
}

#[test]
#[should_panic(
    expected = "stuck: a timer was due at 0.000000s, was handled, and is due at Some(0.000000s) (seed 77)"
)]
fn a_timer_that_fires_for_nothing_is_found() {
    let mut network = Network::new(77);
    network.add_node("stuck", &[], Stuck);
    network.run_until(Timestamp::from_millis(1));
}

/// Measures speed and tests nothing else: run it with `--release --ignored --nocapture`.
#[test]
#[ignore = "measures speed, which a debug build has none of"]
fn three_million_events() {
    let config = LinkConfig::default()
        .with_rate(1_000_000_000)
        .with_delay(Duration::from_millis(20));
    let (mut network, _, b, _) = two(1, config, Duration::from_micros(100), 0);
    network.node_mut::<Source>(b).echo = true;
    let (a, _) = network.link_ends(LinkId(0));
    network.node_mut::<Source>(a).echo = true;
    // 500 packets circulate.
    let payload = Bytes::from(vec![0; 980]);
    let flood = (0..500)
        .map(|_| Packet {
            payload: payload.clone().into(),
            ..packet(ip(2), 0)
        })
        .collect();
    network.node_mut::<Source>(a).outgoing = flood;
    network.run_while(Timestamp(u64::MAX), |network| {
        network.events_handled() < 3_000_000
    });
    assert_eq!(network.events_handled(), 3_000_000);
}

#[test]
fn a_mark_passes_routers_and_reaches_the_endpoint_and_the_capture() {
    // Several packets at once go into a slow link, which marks each packet that finds another one in the queue.
    let slow = LinkConfig::default()
        .with_rate(1_000_000)
        .with_ecn_mark(MarkThreshold::Packets(0));
    for ecn in [Ecn::Ect0, Ecn::NotEct] {
        let mut network = Network::new(1);
        network.keep_records(1000);
        let mut hosts = [1, 2].map(|seed| Host::new(Config::default(), 0, [seed; 32]).unwrap());
        hosts[0].set_ecn(ecn);
        hosts[1].endpoint_mut().listen(5000).unwrap();
        let now = network.now();
        let [mut left, right] = hosts;
        let mut dumbbell = Dumbbell::new(&mut network, slow.clone(), LinkConfig::default());
        let remote = (dumbbell.next_addresses().1, 0).into();
        let id = left
            .connect(now, remote, 5000, ConnectOptions::default())
            .unwrap();
        let pair = dumbbell.add_pair(&mut network, "sctp", left, right);
        network.run_until(Timestamp::from_millis(1000));
        let association = network.host_mut(pair.left).association_mut(id).unwrap();
        let message = Bytes::from(vec![0; 10_000]);
        association
            .send(
                Timestamp::from_millis(1000),
                StreamId(0),
                message,
                SendOptions::default(),
            )
            .unwrap();
        network.run_until(Timestamp::from_millis(2000));
        let received = network.host(pair.right).ecn_received();
        let marked = network.link_stats(dumbbell.forward).marked;
        assert_eq!(received.of(Ecn::Ce), marked);
        assert!(
            if ecn == Ecn::Ect0 {
                marked >= 2
            } else {
                marked == 0
            },
            "{marked}"
        );
        assert!(received.of(ecn) > 0);
        let came = network
            .records()
            .filter(|record| network.link_ends(record.link).1 == pair.right && record.packet.ecn == Ecn::Ce);
        assert_eq!(came.count() as u64, marked);
        assert_eq!(network.host(pair.left).ecn_received().of(Ecn::Ce), 0);
    }
}
