//! FQ-CoDel alone: the order in which the flows' packets leave, and which packets it drops.

use core::time::Duration;
use std::net::SocketAddr;

use anabranch_proto::Timestamp;

use super::*;
use crate::flow::FiveTuple;
use crate::link::{Fate, LinkStats};
use crate::random::Generator;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TestPacket {
    flow: u16,
    len: usize,
}

impl LinkPacket for TestPacket {
    fn wire_len(&self) -> usize {
        self.len
    }

    fn five_tuple(&self) -> Option<FiveTuple> {
        Some(FiveTuple {
            source: SocketAddr::from(([10, 0, 0, 1], self.flow)),
            destination: SocketAddr::from(([10, 0, 0, 2], 80)),
            protocol: 6,
        })
    }

    fn corrupt(&mut self, _: &mut Generator) {}
}

struct Bench {
    queues: FqCoDel<TestPacket>,
    stats: LinkStats,
    index: u64,
}

impl Bench {
    fn new(quantum: u32) -> Self {
        let config = FqCoDelConfig {
            quantum,
            ..FqCoDelConfig::default()
        };
        Self {
            queues: FqCoDel::new(config, 7),
            stats: LinkStats::default(),
            index: 0,
        }
    }

    fn put(&mut self, flow: u16, len: usize, count: usize) {
        for _ in 0..count {
            self.queues.enqueue(Waiting {
                packet: TestPacket { flow, len },
                len: len as u64,
                since: Timestamp::ZERO,
                index: self.index,
                fate: Fate::default(),
                delay: Duration::ZERO,
            });
            self.index += 1;
        }
    }

    /// The flows of the next packets. All packets leave at once, so no delay is above the target.
    fn take(&mut self, count: usize) -> Vec<u16> {
        let mut service = Service {
            now: Timestamp::ZERO,
            mtu: 1500,
            stats: &mut self.stats,
        };
        let next = || self.queues.dequeue(&mut service).map(|head| head.packet.flow);
        std::iter::from_fn(next).take(count).collect()
    }

    fn drop_from_longest(&mut self, index: u64) -> (u64, bool) {
        let before = self.stats.lost_queue;
        let mut service = Service {
            now: Timestamp::ZERO,
            mtu: 1500,
            stats: &mut self.stats,
        };
        let dropped_it = self.queues.drop_from_longest(index, &mut service);
        (self.stats.lost_queue - before, dropped_it)
    }
}

#[test]
fn flows_take_turns_of_a_quantum_in_bytes() {
    let mut bench = Bench::new(1000);
    bench.put(1, 1000, 6);
    bench.put(2, 500, 12);
    assert_eq!(bench.take(9), [1, 2, 2, 1, 2, 2, 1, 2, 2]);
    // A packet may be longer than the remaining credits: the deficit counts in the next round.
    let mut bench = Bench::new(1000);
    bench.put(1, 1500, 4);
    bench.put(2, 1500, 4);
    assert_eq!(bench.take(8), [1, 2, 1, 2, 1, 2, 1, 2]);
    let mut bench = Bench::new(300);
    bench.put(1, 900, 3);
    bench.put(2, 300, 9);
    let sent = bench.take(8);
    assert_eq!(sent, [1, 2, 2, 2, 1, 2, 2, 2], "three turns for one packet");
}

#[test]
fn a_flow_that_comes_anew_goes_before_those_that_wait() {
    let mut bench = Bench::new(1514);
    bench.put(1, 1514, 10);
    bench.put(2, 1514, 10);
    assert_eq!(bench.take(4), [1, 2, 1, 2]);
    bench.put(3, 100, 1);
    assert_eq!(bench.take(3), [3, 1, 2]);
}

#[test]
fn a_new_flow_that_was_served_passes_the_old_ones_before_it_is_new_again() {
    let mut bench = Bench::new(1514);
    bench.put(1, 1514, 10);
    assert_eq!(bench.take(2), [1, 1]);
    bench.put(3, 100, 1);
    assert_eq!(
        bench.take(2),
        [3, 1],
        "its queue is found empty, and becomes an old one"
    );
    // Flow 3 sends again while its queue is in the list of old queues: it has no precedence.
    bench.put(3, 100, 2);
    assert_eq!(bench.take(4), [3, 3, 1, 1], "the turn of 1 was over");
    bench.put(3, 100, 2);
    assert_eq!(bench.take(2), [3, 3], "its turn had ended, and it is new again");
}

#[test]
fn the_credits_of_a_new_flow_are_one_quantum_too() {
    let mut bench = Bench::new(1000);
    bench.put(1, 1000, 5);
    assert_eq!(bench.take(1), [1]);
    bench.put(2, 500, 5);
    assert_eq!(bench.take(6), [2, 2, 1, 2, 2, 1], "then it is an old one");
}

#[test]
fn the_flow_with_the_most_bytes_loses_half_from_its_head() {
    let mut bench = Bench::new(1514);
    bench.put(1, 100, 20);
    bench.put(2, 1000, 10);
    bench.put(3, 1000, 3);
    assert_eq!(bench.drop_from_longest(0), (5, false));
    assert_eq!((bench.queues.packets(), bench.queues.bytes()), (28, 10_000));
    let rest: Vec<_> = bench
        .queues
        .take_all()
        .into_iter()
        .filter(|waiting| waiting.packet.flow == 2)
        .map(|waiting| waiting.index)
        .collect();
    assert_eq!(rest, [25, 26, 27, 28, 29], "the oldest went");
    bench.put(2, 10, 1000);
    assert_eq!(bench.drop_from_longest(0).0, 64, "no more than 64 at once");
    let mut bench = Bench::new(1514);
    bench.put(5, 100, 1);
    assert_eq!(
        bench.drop_from_longest(0),
        (1, true),
        "the packet that was asked about"
    );
}

#[test]
fn flows_are_spread_over_the_queues_by_the_perturbation() {
    let places = |perturbation| -> Vec<usize> {
        let queues = FqCoDel::<TestPacket>::new(FqCoDelConfig::default(), perturbation);
        (0..1000)
            .map(|flow| queues.classify(&TestPacket { flow, len: 1 }))
            .collect()
    };
    assert_eq!(places(1), places(1));
    assert_ne!(places(1), places(2));
    let mut distinct = places(1);
    distinct.sort_unstable();
    distinct.dedup();
    // Of 1,024 queues, 1,000 flows drawn at random use 1024 (1 - (1 - 1/1024)^1000) = 638.
    assert!((600..680).contains(&distinct.len()), "{}", distinct.len());
}

#[test]
fn without_a_five_tuple_all_packets_are_of_one_flow() {
    let queues = FqCoDel::<Vec<u8>>::new(FqCoDelConfig::default(), 7);
    assert_eq!(queues.classify(&vec![1]), queues.classify(&vec![2]));
}
