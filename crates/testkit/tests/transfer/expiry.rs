//! Lifetimes in whole runs (RFC 7496 §3.1; RFC 3758): in any network, no message leaves after its lifetime, and no reliable
//! message is lost.
//!
//! `EXPIRY_SEEDS=100..200` (or one number) chooses the seeds; a failure names its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{Event, Reliability, SendOptions, StreamId, Timestamp, Tsn};
use anabranch_testkit::{Ledger, Pair, Setup, Side, Violation};
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::packet::Packet as SctpPacket;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("EXPIRY_SEEDS") else {
        return 0..1000;
    };
    let number = |text: &str| {
        text.trim()
            .parse::<u64>()
            .expect("EXPIRY_SEEDS is FROM..TO or one number")
    };
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

fn millis(random: &mut Generator, from: u64, to: u64) -> Duration {
    Duration::from_millis(from + random.below(to - from + 1))
}

/// A lossy link, and settings from the seed. Every packet is kept.
fn pair(random: &mut Generator, seed: u64) -> Pair {
    let link = LinkConfig::default()
        .with_delay(millis(random, 1, 80))
        .with_rate(2_000_000)
        .with_queue(QueueLimit::Bytes(30_000))
        .with_loss(LossModel::bernoulli(random.fraction() * 0.1));
    let early = random.below(2) == 0;
    let selective = [None, Some(1)][random.below(2) as usize];
    let past = random.below(2) == 0;
    let setup = Setup::new(seed)
        .path(link)
        .captured(seed < 20)
        .adjust_both(|config| {
            // Far from a wrap-around, so that TSNs can be compared as numbers.
            config.initial_tsn = Some(Tsn(1));
            config.partial_reliability.early_discard = early;
            config.partial_reliability.selective_forward_tsn = selective;
            config.nr_sack.forward_past_nonrenegable = past;
            config.buffers.send = 8 << 20;
            config.retransmissions.association_max_retrans = 1000;
        });
    let mut pair = setup.connect();
    pair.network.keep_records(1 << 20);
    pair
}

/// The latest time at which each message of A may leave.
type Deadlines = BTreeMap<u32, Timestamp>;

/// DATA of A that left after its message's lifetime: the message, and the delay after its lifetime.
fn too_late(pair: &Pair, deadlines: &Deadlines) -> Option<(u32, Duration)> {
    let z = pair.addresses(Side::Z)[0];
    let records = pair
        .network
        .records()
        .filter(|record| record.packet.destination.ip() == z);
    for record in records {
        let packet =
            SctpPacket::parse(record.packet.payload.clone().into_sctp()).expect("a packet of the core");
        let data = packet
            .chunks()
            .map_while(Result::ok)
            .filter(|raw| raw.kind == kind::DATA);
        for raw in data {
            let Ok(Chunk::Data(data)) = Chunk::decode(raw) else {
                panic!("DATA of the core")
            };
            let number = Ledger::number(data.ppid);
            if let Some(deadline) = deadlines.get(&number).filter(|deadline| record.at > **deadline) {
                return Some((number, record.at.saturating_duration_since(*deadline)));
            }
        }
    }
    None
}

/// TSNs that an acknowledgement of Z passes, but which Z did not receive and which no received FORWARD-TSN of A covers as
/// abandoned.
fn wrongly_passed(pair: &Pair, abandoned: &BTreeSet<u32>) -> Option<String> {
    let z = pair.addresses(Side::Z)[0];
    let mut transmitted: BTreeMap<u32, u32> = BTreeMap::new();
    let (mut arrived, mut told, mut checked) = (BTreeSet::new(), 0, None);
    for record in pair.network.records() {
        let to_z = record.packet.destination.ip() == z;
        let lost = record.fate.lost.is_some();
        let packet =
            SctpPacket::parse(record.packet.payload.clone().into_sctp()).expect("a packet of the core");
        for raw in packet.chunks().map_while(Result::ok) {
            let cumulative = match Chunk::decode(raw).expect("a chunk of the core") {
                Chunk::Data(data) if to_z => {
                    checked.get_or_insert(data.tsn.0);
                    transmitted.insert(data.tsn.0, Ledger::number(data.ppid));
                    if !lost {
                        arrived.insert(data.tsn.0);
                    }
                    continue;
                }
                Chunk::ForwardTsn(forward) if to_z => {
                    if !lost {
                        told = told.max(forward.new_cumulative_tsn.0);
                    }
                    continue;
                }
                Chunk::Sack(sack) if !to_z => sack.cumulative_tsn_ack.0,
                Chunk::NrSack(sack) if !to_z => sack.cumulative_tsn_ack.0,
                _ => continue,
            };
            let Some(from) = checked else { continue };
            for tsn in (from..=cumulative).filter(|tsn| !arrived.contains(tsn)) {
                // The TSN after a half-sent message is never transmitted. It belongs to the message of the TSN before it.
                let message = transmitted.range(..=tsn).next_back().map(|(_, number)| *number);
                let abandoned = message.is_some_and(|number| abandoned.contains(&number));
                if !abandoned || told < tsn {
                    return Some(format!("TSN {tsn} of message {message:?}, told up to {told}"));
                }
            }
            checked = Some(from.max(cumulative.wrapping_add(1)));
        }
    }
    None
}

/// Sends messages, some with lifetimes, some large, some reliable, during outages of one to ten seconds.
fn outages(seed: u64) -> u64 {
    let mut random = Generator::of_process(seed, "expiry");
    let mut pair = pair(&mut random, seed);
    let mut ledger = Ledger::new(seed);
    let mut deadlines = Deadlines::new();
    let mut numbers = BTreeMap::new();
    let (cut_at, outage) = (
        200 + random.below(1000) as u32,
        millis(&mut random, 1_000, 10_000),
    );
    for number in 0..150_u32 {
        if number * 10 >= cut_at {
            pair.cut(0, true);
        }
        let reliable = random.below(4) == 0;
        let len = [72, 700, 5_000][random.below(3) as usize];
        let parcel = ledger.parcel(random.below(4) as u16, len, random.below(3) == 0);
        let parcel = if reliable {
            parcel
        } else {
            let lifetime = millis(&mut random, 0, 3_000);
            deadlines.insert(number, pair.now() + lifetime);
            ledger.expend(parcel, Reliability::Lifetime(lifetime))
        };
        let now = pair.now();
        let id = pair
            .association_mut(Side::A)
            .send(now, parcel.stream, parcel.bytes, parcel.options)
            .expect("there is room");
        numbers.insert(id, number);
        pair.run_ms(10);
    }
    pair.run_for(outage);
    pair.cut(0, false);
    let limit = pair.now() + Duration::from_secs(300);
    let complete = |pair: &mut Pair| {
        for message in pair.messages(Side::Z) {
            if let Err(violation) = ledger.check(&message) {
                panic!("seed {seed}: {violation}");
            }
        }
        let missing = matches!(ledger.check_complete(), Err(Violation::Missing { .. }));
        !missing && pair.association(Side::A).stats().outstanding_bytes == 0
    };
    assert!(
        pair.run_to(limit, complete),
        "seed {seed}: {:?}",
        pair.association(Side::A).stats()
    );
    if let Some((number, late)) = too_late(&pair, &deadlines) {
        panic!("seed {seed}: message {number} left {late:?} after its lifetime");
    }
    let events = pair.events(Side::A).into_iter();
    let abandoned = events.filter_map(|event| match event {
        Event::Abandoned(undelivered) => Some(numbers[&undelivered.message]),
        _ => None,
    });
    if let Some(passed) = wrongly_passed(&pair, &abandoned.collect()) {
        panic!("seed {seed}: the cumulative TSN ack passed {passed}");
    }
    let counters = pair.association(Side::A).counters();
    counters.abandoned_sent + counters.abandoned_unsent
}

/// For every seed: no message is transmitted for the first time or retransmitted after its lifetime. The receiver's cumulative
/// TSN passes only TSNs that were received or abandoned. After an outage there is no burst of stale messages. Reliable messages
/// arrive, and each stream is in order.
#[test]
fn nothing_leaves_after_its_lifetime() {
    let abandoned: u64 = seeds().map(outages).sum();
    println!("{abandoned} messages abandoned");
    assert!(abandoned > 0);
}

/// Bytes and FORWARD-TSNs on a path without loss in three seconds. The messages fill one packet each and have this reliability.
fn greedy(reliability: Reliability) -> (u64, u64) {
    let link = LinkConfig::default()
        .with_delay(Duration::from_millis(50))
        .with_rate(20_000_000);
    let mut pair = Setup::new(7).path(link).captured(false).connect();
    let end = pair.now() + Duration::from_secs(3);
    while pair.now() < end {
        let now = pair.now();
        let association = pair.association_mut(Side::A);
        while association.stats().queued_bytes < 200_000 {
            let options = SendOptions::default().reliability(reliability);
            association
                .send(now, StreamId(0), vec![1; 1200].into(), options)
                .expect("there is room");
        }
        pair.run_ms(5);
    }
    let counters = pair.association(Side::A).counters();
    (counters.data_bytes_sent, counters.forward_tsns_sent)
}

/// A lifetime of half an RTT without loss: no FORWARD-TSN, and no more bytes than with reliable messages.
#[test]
fn a_lifetime_below_the_rtt_sends_no_more_bytes() {
    let (reliable, _) = greedy(Reliability::Reliable);
    let (timed, forward_tsns) = greedy(Reliability::Lifetime(Duration::from_millis(50)));
    assert_eq!(forward_tsns, 0);
    assert!(timed <= reliable, "{timed} bytes, {reliable} without a lifetime");
    assert!(
        timed > reliable / 2,
        "{timed} bytes, {reliable} without a lifetime"
    );
}

/// A greedy sender over a path with this loss: bytes of user data delivered, window reductions, FORWARD-TSNs and packets.
fn lossy(loss: f64, change: impl Fn(&mut anabranch_proto::Config)) -> (u64, anabranch_proto::Counters) {
    let link = LinkConfig::default()
        .with_delay(Duration::from_millis(20))
        .with_rate(5_000_000)
        .with_queue(QueueLimit::Bytes(50_000))
        .with_loss(LossModel::bernoulli(loss));
    let clean = LinkConfig::default().with_delay(Duration::from_millis(20));
    let setup = Setup::new(11).path_of(link, clean).captured(false);
    let mut pair = setup.adjust_both(&change).connect();
    let end = pair.now() + Duration::from_secs(60);
    let mut delivered = 0;
    while pair.now() < end {
        let now = pair.now();
        let association = pair.association_mut(Side::A);
        while association.stats().queued_bytes < 100_000 {
            let options = SendOptions::default()
                .reliability(Reliability::Retransmissions(0))
                .unordered(true);
            if association
                .send(now, StreamId(0), vec![1; 1000].into(), options)
                .is_err()
            {
                break;
            }
        }
        pair.run_ms(5);
        delivered += pair
            .messages(Side::Z)
            .iter()
            .map(|message| message.bytes.len() as u64)
            .sum::<u64>();
    }
    (delivered, *pair.association(Side::A).counters())
}

/// FORWARD-TSNs are few: with loss about one for each loss, and none without loss. Every variant still reduces its window for
/// losses. Losses found by early discard reduce it as well.
#[test]
fn forward_tsns_are_few_and_losses_are_reductions() {
    let early = |config: &mut anabranch_proto::Config| config.partial_reliability.early_discard = true;
    type Change<'a> = &'a dyn Fn(&mut anabranch_proto::Config);
    let variants: [(&str, Change<'_>); 3] = [
        ("RFC 3758", &|config| {
            config.nr_sack.forward_past_nonrenegable = false
        }),
        ("NR-SACK", &|_| {}),
        ("early discard", &early),
    ];
    for (name, change) in variants {
        let (_, clean) = lossy(0.0, change);
        let (delivered, lost) = lossy(0.03, change);
        println!(
            "{name}: {delivered} bytes, {} reductions, {} timeouts, {} abandoned, {} FORWARD-TSNs in {} packets; no loss: {}",
            lost.fast_recoveries,
            lost.timeouts,
            lost.abandoned_sent,
            lost.forward_tsns_sent,
            lost.packets_sent,
            clean.forward_tsns_sent,
        );
        // The link's queue overflows without random loss too: one FORWARD-TSN for each loss, and a few retransmissions of it.
        for counters in [clean, lost] {
            assert!(
                4 * counters.forward_tsns_sent <= 5 * counters.abandoned_sent + 4 * counters.timeouts,
                "{name}: {counters:?}"
            );
        }
        // With a loss of 3 % and about eight packets in a window, about every second window has a loss.
        let cuts = lost.fast_recoveries + lost.timeouts;
        assert!(cuts * 4 >= lost.abandoned_sent, "{name}: {lost:?}");
    }
}
