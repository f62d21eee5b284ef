//! Tests of the link alone.

use bytes::Bytes;

use super::*;
use crate::ecn::Ecn;
use crate::flow::FiveTuple;
use crate::loss::LossModel;
use crate::queue::{MarkThreshold, QueueLimit};

const MS: Duration = Duration::from_millis(1);

/// A packet of 1,000 bytes with a codepoint; the last digit of its number selects its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marked {
    number: u32,
    ecn: Ecn,
}

impl LinkPacket for Marked {
    fn wire_len(&self) -> usize {
        1000
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    fn five_tuple(&self) -> Option<FiveTuple> {
        let end = |port| ([10, 0, 0, 1], port).into();
        Some(FiveTuple {
            source: end((self.number % 10) as u16),
            destination: end(80),
            protocol: 17,
        })
    }

    fn corrupt(&mut self, _: &mut Generator) {}
}

fn packet(number: u32, len: usize) -> Bytes {
    let mut bytes = vec![0; len];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// All arrivals with their times.
fn drain(link: &mut Link<Bytes>) -> Vec<(Timestamp, u32)> {
    let mut arrivals = Vec::new();
    while let Some(at) = link.next_event() {
        while let Some(packet) = link.poll(at) {
            arrivals.push((at, u32::from_be_bytes(packet[..4].try_into().unwrap())));
        }
    }
    arrivals
}

#[test]
fn rate_and_delay_are_kept_to_the_nanosecond() {
    let config = LinkConfig::default().with_rate(10_000_000).with_delay(40 * MS);
    let mut link = Link::new(config, 1, "x");
    for number in 0..3 {
        link.enqueue(Timestamp::from_millis(1), packet(number, 1250));
    }
    // 1,250 bytes at 10 Mbit/s take 1 ms each.
    let expected: Vec<_> = (0..3)
        .map(|i| (Timestamp::from_millis(42 + u64::from(i)), i))
        .collect();
    assert_eq!(link.next_event(), Some(Timestamp::from_millis(42)));
    assert_eq!(link.poll(Timestamp(41_999_999)), None);
    assert_eq!(drain(&mut link), expected);
}

#[test]
fn a_rate_that_divides_nothing_is_still_exact_in_the_long_run() {
    let mut link = Link::new(LinkConfig::default().with_rate(7_000_000_000), 1, "x");
    for number in 0..100_000 {
        link.enqueue(Timestamp::ZERO, packet(number, 1500));
    }
    let (last, _) = *drain(&mut link).last().unwrap();
    assert_eq!(last.0, 100_000 * 1500 * 8 / 7);
}

#[test]
fn the_queue_drops_its_tail_and_empties_with_time() {
    let config = LinkConfig::default()
        .with_rate(8_000_000)
        .with_queue(QueueLimit::Bytes(3000));
    let mut link = Link::new(config, 1, "x");
    let fates: Vec<_> = (0..5)
        .map(|n| link.enqueue(Timestamp::ZERO, packet(n, 1000)).lost)
        .collect();
    assert_eq!(
        fates,
        [None, None, None, Some(LossCause::Queue), Some(LossCause::Queue)]
    );
    assert_eq!(link.queued_bytes(Timestamp::ZERO), 3000);
    // One packet has left after 1 ms.
    assert_eq!(
        link.enqueue(Timestamp::from_millis(1), packet(5, 1000)).lost,
        None
    );
    let numbers: Vec<_> = drain(&mut link).into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers, [0, 1, 2, 5]);
    let stats = *link.stats();
    assert_eq!((stats.offered, stats.delivered, stats.lost_queue), (6, 4, 2));
    assert_eq!((stats.queue_max_bytes, stats.queue_max_packets), (3000, 3));
    // The packets stay in the queue for 1, 2, 3 and 3 ms.
    assert_eq!(stats.queue_mean_bytes(4 * MS), 2250.0);
}

#[test]
fn jitter_spreads_the_delay_and_keeps_the_order() {
    let config = LinkConfig::default().with_delay(10 * MS).with_jitter(4 * MS);
    let mut link = Link::new(config, 5, "x");
    let mut delays = Vec::new();
    for number in 0..5_000 {
        // The packets are so far apart that keeping the order never delays one.
        let sent = Timestamp::from_millis(u64::from(number) * 20);
        link.enqueue(sent, packet(number, 100));
        delays.push(
            drain(&mut link)[0]
                .0
                .saturating_duration_since(sent)
                .as_secs_f64()
                * 1e3,
        );
    }
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let (least, most) = delays
        .iter()
        .fold((f64::MAX, 0.0_f64), |(a, b), &d| (a.min(d), b.max(d)));
    assert!((mean - 10.0).abs() < 0.1 && (6.0..6.1).contains(&least) && (13.9..=14.0).contains(&most));

    for number in 0..1000 {
        link.enqueue(
            Timestamp::from_millis(1_000_000) + MS / 10 * number,
            packet(number, 100),
        );
    }
    let arrivals = drain(&mut link);
    assert!(arrivals.is_sorted(), "jitter must not reorder");
    assert!(arrivals.iter().map(|&(_, number)| number).eq(0..1000));
}

#[test]
fn late_packets_are_overtaken_by_their_extra_delay() {
    let config = LinkConfig::default().with_delay(MS).with_reorder(0.1, 5 * MS);
    let mut link = Link::new(config, 5, "x");
    let late: Vec<_> = (0..10_000_u32)
        .filter(|&n| {
            link.enqueue(Timestamp::from_millis(u64::from(n)), packet(n, 100))
                .late
        })
        .collect();
    assert!((900..1100).contains(&late.len()), "{}", late.len());
    for (at, number) in drain(&mut link) {
        let extra = if late.contains(&number) { 6 } else { 1 };
        assert_eq!(at, Timestamp::from_millis(u64::from(number) + extra));
    }
    assert_eq!(link.stats().reordered, late.len() as u64);
}

#[test]
fn duplicates_and_damage_come_as_often_as_said() {
    let config = LinkConfig::default().with_duplicate(0.02).with_corrupt(0.03);
    let mut link = Link::new(config, 5, "x");
    let original = Bytes::from(vec![0xa5; 64]);
    let (mut damaged, mut arrived) = (0, 0);
    for _ in 0..20_000 {
        let fate = link.enqueue(Timestamp::ZERO, original.clone());
        let copies: Vec<_> = core::iter::from_fn(|| link.poll(Timestamp::ZERO)).collect();
        assert_eq!(copies.len(), 1 + usize::from(fate.duplicated));
        arrived += copies.len();
        for copy in &copies {
            let wrong: u32 = copy
                .iter()
                .zip(&original)
                .map(|(a, b)| (a ^ b).count_ones())
                .sum();
            assert_eq!(fate.corrupted, (1..=3).contains(&wrong));
        }
        damaged += usize::from(fate.corrupted);
    }
    assert!(
        original.iter().all(|&byte| byte == 0xa5),
        "the sender's copy is untouched"
    );
    assert!((20_340..20_460).contains(&arrived), "{arrived}");
    assert!((540..660).contains(&damaged), "{damaged}");
}

#[test]
fn a_link_that_is_down_loses_what_it_is_given_and_delivers_what_it_had() {
    let mut link = Link::new(LinkConfig::default().with_delay(MS), 1, "x");
    link.enqueue(Timestamp::ZERO, packet(1, 100));
    link.set_down(true);
    assert_eq!(
        link.enqueue(Timestamp::ZERO, packet(2, 100)).lost,
        Some(LossCause::Down)
    );
    link.set_down(false);
    link.enqueue(Timestamp::ZERO, packet(3, 100));
    assert!(drain(&mut link).into_iter().map(|(_, number)| number).eq([1, 3]));
    assert_eq!(link.stats().lost(), 1);
}

#[test]
fn one_process_does_not_disturb_another() {
    let lossy = LinkConfig::default().with_loss(LossModel::bernoulli(0.1));
    let run = |config: LinkConfig| -> Vec<bool> {
        let mut link = Link::new(config, 9, "x");
        (0..2000)
            .map(|n| link.enqueue(Timestamp::ZERO, packet(n, 100)).lost.is_some())
            .collect()
    };
    let with_everything = lossy
        .clone()
        .with_jitter(MS)
        .with_duplicate(0.3)
        .with_reorder(0.3, MS)
        .with_corrupt(0.3);
    assert_eq!(run(lossy), run(with_everything));
}

#[test]
fn lost_packets_take_their_time_on_the_link() {
    let config = LinkConfig::default()
        .with_rate(8_000_000)
        .with_loss(LossModel::Script(vec![0]));
    let mut link = Link::new(config, 1, "x");
    assert_eq!(
        link.enqueue(Timestamp::ZERO, packet(0, 1000)).lost,
        Some(LossCause::Model)
    );
    link.enqueue(Timestamp::ZERO, packet(1, 1000));
    assert_eq!(drain(&mut link), [(Timestamp::from_millis(2), 1)]);
}

#[test]
fn packets_that_find_more_than_the_threshold_are_marked_if_they_may_be() {
    for threshold in [MarkThreshold::Packets(2), MarkThreshold::Bytes(2000)] {
        let config = LinkConfig::default()
            .with_rate(8_000_000)
            .with_queue(QueueLimit::Packets(6))
            .with_ecn_mark(threshold);
        let mut link = Link::new(config, 1, "x");
        let codepoints = [
            Ecn::Ect0,
            Ecn::Ect0,
            Ecn::Ect0,
            Ecn::Ect0,
            Ecn::NotEct,
            Ecn::Ect1,
            Ecn::Ect0,
        ];
        let fates: Vec<_> = (0..)
            .zip(codepoints)
            .map(|(number, ecn)| link.enqueue(Timestamp::ZERO, Marked { number, ecn }))
            .collect();
        let marked: Vec<_> = fates.iter().map(|fate| fate.marked).collect();
        assert_eq!(
            marked,
            [false, false, false, true, false, true, false],
            "{threshold}"
        );
        assert_eq!(
            fates[6].lost,
            Some(LossCause::Queue),
            "a full queue marks nothing"
        );
        let came: Vec<_> = core::iter::from_fn(|| link.poll(Timestamp::from_millis(9)))
            .map(|packet| packet.ecn)
            .collect();
        let expected = [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::NotEct, Ecn::Ce];
        assert_eq!(came, expected);
        assert_eq!((link.stats().marked, link.stats().lost_queue), (2, 1));
    }
}

/// 8 Mbit/s: a packet takes a millisecond.
fn managed(aqm: &str) -> LinkConfig {
    format!("rate=8mbit,delay=10ms,aqm={aqm}").parse().unwrap()
}

/// Offers two packets each millisecond for this number of milliseconds; returns how long each arrived packet had waited for its
/// transmission.
fn overload(link: &mut Link<Marked>, ecn: Ecn, milliseconds: u32) -> Vec<(u32, Duration)> {
    let mut waits = Vec::new();
    let mut came = Vec::new();
    for number in 0..2 * milliseconds {
        let now = Timestamp::ZERO + MS / 2 * number;
        came.extend(core::iter::from_fn(|| link.poll_arrival(now)));
        link.enqueue(now, Marked { number, ecn });
    }
    while let Some(at) = link.next_event() {
        came.extend(core::iter::from_fn(|| link.poll_arrival(at)));
    }
    for (at, packet) in came {
        let sent = Timestamp::ZERO + MS / 2 * packet.number;
        waits.push((packet.number, at.saturating_duration_since(sent + 11 * MS)));
    }
    waits
}

#[test]
fn an_idle_managed_link_is_as_fast_as_any() {
    for aqm in ["none", "codel", "fq-codel"] {
        let mut link = Link::new(managed(aqm), 1, "x");
        for number in 0..100 {
            link.enqueue(Timestamp::from_millis(u64::from(number)), packet(number, 1000));
        }
        let expected: Vec<_> = (0..100)
            .map(|number| (Timestamp::from_millis(u64::from(number) + 11), number))
            .collect();
        assert_eq!(drain(&mut link), expected, "{aqm}");
        assert_eq!((link.in_transit(), link.bytes_in_transit()), (0, 0));
    }
}

#[test]
fn codel_marks_what_it_would_drop_and_drops_what_it_cannot_mark() {
    let mut runs = [Ecn::NotEct, Ecn::Ect0].map(|ecn| {
        let mut link = Link::new(managed("codel"), 1, "x");
        let waits = overload(&mut link, ecn, 2000);
        (*link.stats(), waits)
    });
    let [(dropping, dropped), (marking, marked)] = &mut runs;
    assert!(dropping.lost_aqm > 50 && dropping.marked == 0, "{dropping:?}");
    assert!(marking.marked > 50 && marking.lost() == 0, "{marking:?}");
    assert_eq!(dropped.len() as u64, dropping.offered - dropping.lost_aqm);
    assert_eq!(marked.len() as u64, marking.offered);
    assert!(dropped.is_sorted() && marked.is_sorted_by_key(|(number, _)| *number));
}

#[test]
fn a_full_codel_queue_refuses_and_a_full_fq_codel_queue_drops_from_the_longest() {
    let fill = |aqm: &str| {
        let mut link = Link::new(managed(&format!("{aqm},queue=8p")), 1, "x");
        let put = |link: &mut Link<Marked>, number| {
            let ecn = Ecn::Ect0;
            link.enqueue(Timestamp::ZERO, Marked { number, ecn })
        };
        // One packet is being sent and seven of flow 1 wait; then comes one of flow 2.
        for count in 0..8 {
            assert_eq!(put(&mut link, 1 + 10 * count).lost, None);
        }
        let fate = put(&mut link, 2);
        let mut came = Vec::new();
        while let Some(at) = link.next_event() {
            came.extend(link.poll(at).map(|packet| packet.number));
        }
        let stats = *link.stats();
        assert_eq!((stats.lost_queue, stats.marked), (9 - came.len() as u64, 0));
        assert_eq!(stats.offered, stats.delivered + stats.lost());
        assert_eq!(stats.queue_max_packets, 8);
        (fate.lost, came)
    };
    let all: Vec<_> = (0..8).map(|count| 1 + 10 * count).collect();
    assert_eq!(fill("codel"), (Some(LossCause::Queue), all));
    // Half of the 7,000 waiting bytes were dropped from the head: four packets.
    let (lost, came) = fill("fq-codel");
    assert_eq!((lost, came), (None, vec![1, 51, 2, 61, 71]));
}

#[test]
fn the_packet_that_comes_may_itself_be_dropped() {
    let mut link = Link::new(managed("fq-codel,queue=1p"), 1, "x");
    let [first, second] = [1, 2].map(|number| {
        let ecn = Ecn::NotEct;
        link.enqueue(Timestamp::ZERO, Marked { number, ecn })
    });
    assert_eq!((first.lost, second.lost), (None, Some(LossCause::Queue)));
}

#[test]
fn losses_on_the_way_take_their_turn_in_a_managed_queue() {
    let config = managed("codel").with_loss(LossModel::Script(vec![0]));
    let mut link = Link::new(config, 1, "x");
    assert_eq!(
        link.enqueue(Timestamp::ZERO, packet(0, 1000)).lost,
        Some(LossCause::Model)
    );
    link.enqueue(Timestamp::ZERO, packet(1, 1000));
    assert_eq!((link.queued_bytes(Timestamp::ZERO), link.in_transit()), (2000, 1));
    assert_eq!(drain(&mut link), [(Timestamp::from_millis(12), 1)]);
    // The packets stay in the queue for 1 and 2 ms.
    assert_eq!(link.stats().queue_mean_bytes(2 * MS), 1500.0);
}

#[test]
fn packets_that_wait_go_on_under_other_settings() {
    for (before, after, last) in [
        ("none", "codel", 15),
        ("codel", "none", 15),
        ("codel", "fq-codel", 15),
        ("fq-codel", "codel", 15),
        ("fq-codel", "fq-codel,rate=unlimited", 11),
    ] {
        let mut link = Link::new(managed(before), 1, "x");
        for number in 0..5 {
            link.enqueue(Timestamp::ZERO, packet(number, 1000));
        }
        let (aqm, rate) = after.split_once(',').unwrap_or((after, "rate=8mbit"));
        let rate = rate.replace("rate=", "");
        link.set_config(format!("rate={rate},delay=10ms,aqm={aqm}").parse().unwrap());
        assert_eq!(link.in_transit(), 5);
        let arrivals = drain(&mut link);
        assert!(
            arrivals.iter().map(|(_, number)| *number).eq(0..5),
            "{before} to {after}: {arrivals:?}"
        );
        assert_eq!(arrivals[4].0, Timestamp::from_millis(last), "{before} to {after}");
        assert_eq!(link.queued_bytes(Timestamp::from_millis(99)), 0);
    }
}

#[test]
fn a_link_that_is_asked_late_decides_as_one_that_is_asked_in_time() {
    let run = |step: u32| {
        let mut link = Link::new(managed("codel").with_jitter(MS), 1, "x");
        let mut came = Vec::new();
        for number in 0..4000 {
            let now = Timestamp::ZERO + MS / 2 * number;
            link.enqueue(now, packet(number, 1000));
            if number % step == 0 {
                came.extend(core::iter::from_fn(|| link.poll_arrival(now)));
            }
        }
        let end = Timestamp::from_millis(100_000);
        came.extend(core::iter::from_fn(|| link.poll_arrival(end)));
        (came, *link.stats())
    };
    let in_time = run(1);
    assert!(in_time.1.lost_aqm > 10);
    assert_eq!(run(1000), in_time);
}

/// A managed queue and a plain one use the same opportunities.
#[test]
fn packets_leave_at_the_opportunities_of_a_trace() {
    let trace = crate::RateTrace::parse("t", "4\n4\n10").unwrap();
    for aqm in ["none", "codel"] {
        let config: LinkConfig = format!("delay=1ms,aqm={aqm}").parse().unwrap();
        let mut link = Link::new(config.with_trace(trace.clone()), 1, "l");
        for number in 0..5 {
            link.enqueue(Timestamp::from_millis(1), packet(number, 1500));
        }
        link.enqueue(Timestamp::from_millis(1), packet(5, 100));
        let arrivals = drain(&mut link);
        let expected = [(5, 0), (5, 1), (11, 2), (15, 3), (15, 4), (21, 5)];
        let expected = expected.map(|(at, number)| (Timestamp::from_millis(at), number));
        assert_eq!(arrivals, expected, "{aqm}");
    }
}
