//! Queue management of links: RFC 8289 (CoDel), RFC 8290 (FQ-CoDel), and a threshold for CE marks. The tests check the packets
//! that are dropped, marked and served first.

use core::time::Duration;

use anabranch_netsim::{
    Dumbbell, Ecn, Link, LinkConfig, LinkStats, Network, Packet, Payload, Recovery, TcpConfig, TcpSource,
    Traffic,
};
use anabranch_proto::{Dscp, Timestamp};

/// The length of a full packet.
const LEN: usize = 1000;

/// 8 Mbit/s, so that a full packet takes a millisecond, and no delay.
fn link(settings: &str) -> Link<Packet> {
    let config = format!("rate=8mbit,{settings}");
    Link::new(config.parse().unwrap(), 7, "queue")
}

/// A packet of a flow, in UDP. Its content is its number.
fn packet(flow: u16, len: usize, ecn: Ecn, number: u32) -> Packet {
    let mut payload = vec![0; len - 28];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    Packet {
        source: ([10, 0, 0, 1], flow).into(),
        destination: ([10, 0, 0, 2], 9899).into(),
        payload: payload.into(),
        may_fragment: false,
        ecn,
        dscp: Dscp::default(),
    }
}

/// Takes all packets that have arrived by `now`.
fn take(link: &mut Link<Packet>, now: Timestamp) -> Vec<Packet> {
    std::iter::from_fn(|| link.poll(now)).collect()
}

fn number(packet: &Packet) -> u32 {
    let Payload::Sctp(payload) = &packet.payload else {
        panic!("no number in it");
    };
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}

/// Keeps a standing queue of this many packets, with equal rates of arrival and departure. Returns the milliseconds in which
/// packets were dropped or marked.
fn standing(link: &mut Link<Packet>, held: u32, ecn: Ecn, milliseconds: u64) -> Vec<u64> {
    let mut times = Vec::new();
    let count = |stats: &LinkStats| stats.lost_aqm + stats.marked;
    for _ in 0..held {
        link.enqueue(Timestamp::ZERO, packet(1, LEN, ecn, 0));
    }
    let mut acted = 0;
    for at in 1..milliseconds {
        let now = Timestamp::from_millis(at);
        take(link, now);
        if count(link.stats()) > acted {
            times.push(at);
        }
        // Dropped packets are replaced, so that the delay stays.
        while link.queued_bytes(now) < u64::from(held) * LEN as u64 {
            link.enqueue(now, packet(1, LEN, ecn, 0));
        }
        acted = count(link.stats());
    }
    times
}

#[test]
fn codel_interval_shrinks_with_the_square_root_of_the_drops() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let mut link = link("aqm=codel");
        let times = standing(&mut link, 20, ecn, 1000);
        // The first packet that waited for 5 ms left at 5 ms.
        assert_eq!(times[0], 105, "{ecn:?}");
        let mut due = 105.0;
        for (count, at) in (1_u32..).zip(&times) {
            assert!((due..due + 1.001).contains(&(*at as f64)), "{ecn:?}: {times:?}");
            due += 100.0 / f64::from(count).sqrt();
        }
        assert!(times.len() > 15, "{times:?}");
    }
}

#[test]
fn codel_drops_nothing_below_the_target_delay() {
    let mut short = link("aqm=codel");
    assert_eq!(
        standing(&mut short, 5, Ecn::NotEct, 5000),
        [],
        "4 ms of packets are before each"
    );
    let mut long = link("aqm=codel");
    assert!(!standing(&mut long, 7, Ecn::NotEct, 5000).is_empty());
}

#[test]
fn codel_marks_a_capable_packet_where_it_would_drop_it() {
    for (ecn, capable) in [(Ecn::NotEct, false), (Ecn::Ect0, true), (Ecn::Ect1, true)] {
        let mut link = link("aqm=codel");
        let acted = standing(&mut link, 20, ecn, 1000).len() as u64;
        let stats = link.stats();
        assert!(acted > 10, "{stats:?}");
        let expected = if capable { (0, acted) } else { (acted, 0) };
        assert_eq!((stats.lost_aqm, stats.marked), expected);
    }
}

#[test]
fn a_full_queue_drops_capable_packets() {
    for aqm in ["codel", "fq-codel"] {
        let mut link = link(&format!("aqm={aqm},queue=10p"));
        for number in 0..50 {
            link.enqueue(Timestamp::ZERO, packet(1, LEN, Ecn::Ect0, number));
        }
        let came = take(&mut link, Timestamp::from_millis(99));
        let stats = link.stats();
        assert_eq!((stats.marked, stats.lost_aqm), (0, 0));
        assert_eq!(came.len() as u64 + stats.lost_queue, 50);
        assert!((9..=10).contains(&came.len()), "{aqm}: {}", came.len());
    }
}

#[test]
fn fq_codel_serves_new_flows_first() {
    let mut link = link("aqm=fq-codel");
    for number in 0..40 {
        link.enqueue(Timestamp::ZERO, packet(1, LEN, Ecn::NotEct, number));
    }
    // Its quantum is used up by then, so it is an old flow.
    let now = Timestamp::from_millis(10);
    let before = take(&mut link, now).len();
    link.enqueue(now, packet(2, 100, Ecn::NotEct, 100));
    let numbers: Vec<u32> = take(&mut link, Timestamp::from_millis(99))
        .iter()
        .map(number)
        .collect();
    // The packet in transmission is completed.
    assert_eq!(numbers[..2], [before as u32, 100], "{numbers:?}");
}

#[test]
fn fq_codel_shares_the_link_by_bytes() {
    let mut link = link("aqm=fq-codel,queue=200p");
    let mut bytes = [0; 2];
    let mut count = |packets: Vec<Packet>| {
        for packet in packets {
            bytes[usize::from(packet.source.port()) - 1] += packet.payload.len() + 28;
        }
    };
    // Flow 1 offers three times the rate of the link in full packets, flow 2 the whole rate in small ones.
    for at in 0..5000 {
        let now = Timestamp::from_millis(at);
        count(take(&mut link, now));
        for _ in 0..3 {
            link.enqueue(now, packet(1, LEN, Ecn::NotEct, 0));
        }
        for _ in 0..5 {
            link.enqueue(now, packet(2, 200, Ecn::NotEct, 0));
        }
    }
    let share = bytes[1] as f64 / (bytes[0] + bytes[1]) as f64;
    assert!((0.48..0.52).contains(&share), "{share}");
}

#[test]
fn fq_codel_drops_from_the_flow_with_the_most_bytes() {
    let mut link = link("aqm=fq-codel,queue=60p");
    // Flow 2 has more packets, flow 1 more bytes.
    for number in 0..20 {
        link.enqueue(Timestamp::ZERO, packet(1, LEN, Ecn::NotEct, number));
    }
    for number in 100..141 {
        link.enqueue(Timestamp::ZERO, packet(2, 100, Ecn::NotEct, number));
    }
    let came = take(&mut link, Timestamp::from_millis(99));
    let of = |flow| came.iter().filter(|packet| packet.source.port() == flow).count();
    // Of the 19 waiting packets of flow 1 the first ten.
    assert_eq!((of(1), of(2), link.stats().lost_queue), (10, 41, 10));
    let left = came.iter().filter(|packet| packet.source.port() == 1).map(number);
    assert!(left.eq([0].into_iter().chain(11..20)));
}

#[test]
fn a_threshold_marks_packets_that_find_more_in_the_queue() {
    for settings in [
        "ecn-mark=5p",
        "ecn-mark=5kb",
        "ecn-mark=5p,aqm=codel",
        "ecn-mark=5p,aqm=fq-codel",
    ] {
        let mut link = link(settings);
        for number in 0..10 {
            link.enqueue(Timestamp::ZERO, packet(1, LEN, Ecn::Ect0, number));
        }
        let came = take(&mut link, Timestamp::from_millis(99));
        let marked: Vec<u32> = came
            .iter()
            .filter(|packet| packet.ecn == Ecn::Ce)
            .map(number)
            .collect();
        assert_eq!(marked, [6, 7, 8, 9], "{settings}");
        assert_eq!(link.stats().marked, 4);
    }
}

/// A greedy TCP flow over 10 Mbit/s and 80 ms for a minute, after 10 s: the mean queue in milliseconds, and the goodput in
/// Mbit/s.
fn tcp(settings: &str, flows: usize) -> (f64, Vec<f64>) {
    let mut network = Network::new(1);
    let line: LinkConfig = "rate=10mbit,delay=40ms".parse().unwrap();
    let bottleneck = format!("rate=10mbit,delay=40ms,{settings}").parse().unwrap();
    let mut dumbbell = Dumbbell::new(&mut network, bottleneck, line);
    let config = TcpConfig::default().with_recovery(Recovery::Sack);
    let senders: Vec<_> = (0..flows)
        .map(|flow| {
            // The first of several flows has a longer RTT.
            let access = Duration::from_millis(if flow == 0 && flows > 1 { 40 } else { 1 });
            dumbbell = dumbbell
                .clone()
                .with_access(LinkConfig::default().with_delay(access));
            let name = format!("tcp {flow}");
            dumbbell
                .add_tcp(&mut network, &name, &config, Traffic::Greedy, Timestamp::ZERO)
                .left
        })
        .collect();
    let acked = |network: &Network| -> Vec<u64> {
        let stats = senders
            .iter()
            .map(|sender| network.node::<TcpSource>(*sender).stats());
        stats.map(|stats| stats.bytes_acked).collect()
    };
    network.run_until(Timestamp::from_millis(10_000));
    let (before, queued) = (
        acked(&network),
        network.link_stats(dumbbell.forward).queue_byte_nanos,
    );
    network.run_until(Timestamp::from_millis(70_000));
    let queued = (network.link_stats(dumbbell.forward).queue_byte_nanos - queued) as f64 / 60e9;
    let after = acked(&network);
    let rates = after
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before) as f64 * 8e-6 / 60.0);
    (queued * 8.0 / 10e3, rates.collect())
}

#[test]
fn a_managed_queue_is_short_under_tcp_and_the_link_is_used() {
    let (unmanaged, _) = tcp("queue=200p", 1);
    assert!(unmanaged > 100.0, "{unmanaged} ms");
    for aqm in ["codel", "fq-codel"] {
        let (queue, rates) = tcp(&format!("queue=200p,aqm={aqm}"), 1);
        assert!(queue < 15.0, "{aqm}: {queue} ms");
        // A queue of 5 ms is too short for halved windows of 80 ms.
        assert!(rates[0] > 7.0, "{aqm}: {rates:?} Mbit/s");
    }
}

#[test]
fn fq_codel_is_fair_to_a_flow_with_a_long_round_trip() {
    let share = |settings: &str| {
        let (_, rates) = tcp(settings, 2);
        rates[0] / (rates[0] + rates[1])
    };
    let unmanaged = share("queue=100p");
    let fair = share("queue=200p,aqm=fq-codel");
    assert!(unmanaged < 0.4, "{unmanaged}");
    assert!((0.43..0.53).contains(&fair), "{fair}");
}
