//! Path MTU discovery by probes (RFC 8899, §6.2 for SCTP; RFC 9260 §7.3), and paths whose MTU decreases.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, SendOptions, StreamId};
use anabranch_testkit::{Ledger, Pair, Script, Setup, Side, with};
use anabranch_wire::chunk::{Chunk, HeartbeatAck, Pad, Sack, TsnList};

const SECOND: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_millis(40);

fn link(mtu: u16) -> LinkConfig {
    LinkConfig::default()
        .with_rate(100_000_000)
        .with_delay(DELAY)
        .with_mtu(mtu)
}

fn pmtu(pair: &Pair) -> u16 {
    pair.association(Side::A).stats().paths[0].pmtu
}

/// Sends `mib` MiB from A to Z. All messages must arrive once and in order.
fn carry(pair: &mut Pair, ledger: &mut Ledger, mib: usize) {
    let parcels: Vec<_> = (0..mib * 16).map(|_| ledger.parcel(0, 1 << 16, false)).collect();
    pair.post(Side::A, parcels);
    let limit = pair.now() + 600 * SECOND;
    let arrived = pair.run_to(limit, |pair| {
        for message in pair.messages(Side::Z) {
            ledger.check(&message).expect("as it was sent");
        }
        ledger.arrived() == ledger.sent()
    });
    assert!(arrived, "{} of {} arrived", ledger.arrived(), ledger.sent());
}

// A → HEARTBEAT, PAD (1,400 bytes) → Z
// A ← HEARTBEAT ACK ← Z
// A → HEARTBEAT, PAD (1,420 bytes) → Z    … until one is not answered
/// RFC 8899 §5.3: path MTU discovery ends at the largest size that passes, and data uses this size.
#[test]
fn probes_find_the_path_mtu() {
    for (mtu, found) in [
        (1280, 1280),
        (1400, 1400),
        (1500, 1500),
        (9000, 9000),
        (65_535, 65_535),
    ] {
        let mut pair = Setup::new(1).path(link(mtu)).connect();
        carry(&mut pair, &mut Ledger::new(1), 16);
        assert_eq!(pmtu(&pair), found, "on a path of {mtu}");
        let counters = *pair.association(Side::A).counters();
        assert_eq!(counters.timeouts, 0, "a probe that is lost is no loss of data");
        assert_eq!(counters.retransmissions_fast, 0);
    }
}

/// A sender of small messages sends no probes.
#[test]
fn no_probes_for_small_messages() {
    let mut pair = Setup::new(1).path(link(1500)).connect();
    for _ in 0..200 {
        pair.send(Side::A, 0, vec![1; 100]);
        pair.run_ms(20);
    }
    assert_eq!(pair.association(Side::A).counters().mtu_probes_sent, 0);
}

// A → DATA (9,000 bytes) → (the path carries 1,400 from now on)
// A → DATA (9,000 bytes, T3-rtx, alone, IP may fragment it) → Z
// A → DATA (1,280 bytes) … HEARTBEAT, PAD (1,400) → Z
/// RFC 8899 §4.3: if large packets vanish, the path MTU is reduced. A chunk that has its TSN already is sent in IP fragments
/// (RFC 9260 §7.3), and no message is lost.
#[test]
fn the_path_mtu_decreases_during_a_transfer() {
    let mut pair = Setup::new(2).path(link(9000)).connect();
    let mut ledger = Ledger::new(1);
    carry(&mut pair, &mut ledger, 8);
    assert_eq!(pmtu(&pair), 9000);
    let parcels: Vec<_> = (0..64).map(|_| ledger.parcel(0, 1 << 16, false)).collect();
    pair.post(Side::A, parcels);
    pair.run_ms(100);
    pair.set_path(0, &link(1400));
    let cut = pair.now();
    carry(&mut pair, &mut ledger, 8);
    let counters = *pair.association(Side::A).counters();
    assert_eq!(counters.mtu_black_holes, 1);
    assert_eq!(pmtu(&pair), 1400, "found again");
    let took = pair.now().saturating_duration_since(cut);
    assert!(took < 60 * SECOND, "{took:?}");
}

// A → DATA (1,280 bytes) → (the path carries 1,000), twice more after T3-rtx
// A → DATA (1,280 bytes, may be fragmented by IP) → Z
// A → DATA (576 bytes) … HEARTBEAT, PAD (1,280; three times, lost), HEARTBEAT, PAD (768) → Z
/// RFC 8899 §5.2: if packets of the base size do not pass, the size is reduced to the minimum, and the probes start there.
#[test]
fn a_path_mtu_below_the_base() {
    for (mtu, found) in [(1000, 768), (1200, 1200), (576, 576)] {
        let mut pair = Setup::new(3).path(link(mtu)).connect();
        carry(&mut pair, &mut Ledger::new(1), 2);
        let counters = *pair.association(Side::A).counters();
        assert_eq!(counters.mtu_black_holes, 1, "on a path of {mtu}");
        // Probes continue while packets are full, and lost probes take some time.
        let mut ledger = Ledger::new(2);
        for _ in 0..30 {
            carry(&mut pair, &mut ledger, 1);
            pair.run_for(10 * SECOND);
        }
        assert_eq!(pmtu(&pair), found, "on a path of {mtu}");
        let later = *pair.association(Side::A).counters();
        assert_eq!(later.timeouts, counters.timeouts, "no data is lost any more");
    }
}

/// The path is down for this many seconds during a transfer. Returns the packet sizes during the outage, at the first probe
/// that is answered, and at the end.
fn through_an_outage(seconds: u32) -> [u16; 3] {
    let mut pair = Setup::new(4)
        .path(link(1500))
        .adjust_both(|config| {
            config.retransmissions.association_max_retrans = 50;
            config.retransmissions.path_max_retrans = 50;
        })
        .connect();
    let mut ledger = Ledger::new(1);
    pair.cut(0, true);
    let parcels: Vec<_> = (0..16).map(|_| ledger.parcel(0, 1 << 16, false)).collect();
    pair.post(Side::A, parcels);
    pair.run_for(seconds * SECOND);
    let during = pmtu(&pair);
    pair.cut(0, false);
    let limit = pair.now() + 120 * SECOND;
    assert!(pair.run_to(limit, |pair| pmtu(pair) != during));
    let first = pmtu(&pair);
    carry(&mut pair, &mut ledger, 4);
    [during, first, pmtu(&pair)]
}

// A → DATA → (the path is down for 6 s), again after each T3-rtx
// A → DATA → Z, HEARTBEAT, PAD (1,280) → Z
/// A loss for another reason than the packet size leaves the path MTU unchanged in the end.
#[test]
fn an_outage_does_not_reduce_the_path_mtu() {
    assert_eq!(
        through_an_outage(6),
        [576, 1280, 1500],
        "suspected, and not confirmed"
    );
}

/// The same if all probes of the base size were lost in the outage too.
#[test]
fn a_long_outage_does_not_reduce_the_path_mtu() {
    assert_eq!(through_an_outage(200), [576, 1280, 1500]);
}

// A → HEARTBEAT, PAD → Z (no answer), three times
/// RFC 8899 §5.1.1: PROBE_TIMER is at least 1 s, and should be more than 15 s, for any RTT.
#[test]
fn probes_wait_for_probe_timer() {
    let mut pair = Setup::new(5).path(link(1300)).connect();
    let mut ledger = Ledger::new(1);
    let probes = |pair: &Pair| pair.association(Side::A).counters().mtu_probes_sent;
    let mut at = Vec::new();
    for _ in 0..60 {
        let before = probes(&pair);
        carry(&mut pair, &mut ledger, 1);
        pair.run_ms(1000);
        at.extend((before..probes(&pair)).map(|_| pair.now()));
    }
    assert_eq!(at.len(), 3, "three of 1,400 bytes");
    for pair in at.windows(2) {
        let apart = pair[1].saturating_duration_since(pair[0]);
        assert!(apart > 14 * SECOND, "{apart:?}");
    }
}

/// A limit below the size of the first packets reduces that size: an application sets the limit alone.
#[test]
fn a_limit_below_the_first_size() {
    let mut config = Config::default();
    config.path_mtu_limit = 1000;
    assert_eq!(config.validate(), Ok(()));
    let mut script = Script::new(config, 1);
    script.set_up();
    assert_eq!(script.association().stats().paths[0].pmtu, 1000);
}

// A → HEARTBEAT, PAD → Z
/// The probe of RFC 8899 §6.2.1.1: its size in the network, its chunks, and the answer that is accepted.
#[test]
fn a_probe_and_its_answer() {
    let mut script = Script::new(with(Config::default(), |config| config.path_mtu_limit = 1500), 1);
    script.a_rwnd = 1 << 20;
    script.set_up();
    script.act(|association, now| {
        let options = SendOptions::default();
        association
            .send(now, StreamId(0), vec![1; 8000].into(), options)
            .expect("send");
    });
    let mut tsns = 0;
    let mut probe = None;
    for round in 0..10 {
        while let Some(answer) = script.next_answer() {
            tsns += answer.data().count() as u32;
            if let [Chunk::Heartbeat(heartbeat), Chunk::Pad(Pad { len })] = &answer.chunks[..] {
                // 20 IPv4, 8 UDP, 12 common header, 28 HEARTBEAT, 4 of PAD.
                assert_eq!(usize::from(*len), 1400 - 20 - 8 - 12 - 28 - 4);
                probe = heartbeat.info();
            }
        }
        if probe.is_some() {
            break;
        }
        assert!(round < 9, "a probe after some full packets");
        let sack = Sack {
            cumulative_tsn_ack: script.endpoint_tsn.plus(tsns).minus(1),
            a_rwnd: 1 << 20,
            gap_ack_blocks: Default::default(),
            duplicate_tsns: TsnList::default(),
        };
        script.send(&[Chunk::Sack(sack)]);
    }
    let right = probe.expect("a probe");
    let mut wrong = right.to_vec();
    *wrong.last_mut().expect("not empty") ^= 1;
    let mtu = |script: &Script| script.association().stats().paths[0].pmtu;
    script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(wrong))]);
    assert_eq!(mtu(&script), 1280, "an answer that nobody was asked for");
    script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(right.clone()))]);
    assert_eq!(mtu(&script), 1400);
    script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(right))]);
    assert_eq!(mtu(&script), 1400, "the same answer again");
}

// A → DATA (1,500 bytes, beyond the window of 100 bytes)
// A ← SACK (nothing new, a_rwnd 100) ← Z, again after each T3-rtx
// A → HEARTBEAT, PAD (1,500) → Z
/// RFC 8899 §4.3: if the peer may have dropped the data because its window is too small, a probe of the current size shows whether the path
/// lost it. An answer leaves the size as it is; three lost probes reduce it.
#[test]
fn a_closed_window_hides_no_black_hole() {
    for passes in [true, false] {
        let mut config = Config::default();
        config.path_mtu_limit = 1500;
        config.heartbeat.interval = None;
        let mut script = Script::new(config, 1);
        script.a_rwnd = 1 << 20;
        script.set_up();
        let sack = |tsn, a_rwnd| {
            Chunk::Sack(Sack {
                cumulative_tsn_ack: tsn,
                a_rwnd,
                gap_ack_blocks: Default::default(),
                duplicate_tsns: TsnList::default(),
            })
        };
        let send = |script: &mut Script, len| {
            script.act(|association, now| {
                let options = SendOptions::default();
                association
                    .send(now, StreamId(0), vec![1; len].into(), options)
                    .expect("send");
            });
        };
        let mtu = |script: &Script| script.association().stats().paths[0].pmtu;
        // Discovery finds 1,500 bytes.
        send(&mut script, 20_000);
        let mut tsn = script.endpoint_tsn.minus(1);
        while let Some(answer) = script.next_answer() {
            let probe = answer.chunks.iter().find_map(|chunk| match chunk {
                Chunk::Heartbeat(heartbeat) => heartbeat.info(),
                _ => None,
            });
            if let Some(info) = probe {
                script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
            }
            let arrived = answer.data().count() as u32;
            tsn = tsn.plus(arrived);
            if arrived > 0 {
                script.send(&[sack(tsn, 1 << 20)]);
            }
        }
        assert_eq!(mtu(&script), 1500);
        // The peer accepts nothing more. If the path does not pass this size, what arrives are other packets, which have the same answer.
        script.send(&[sack(tsn, 100)]);
        send(&mut script, 20_000);
        let probes = script.association().counters().mtu_probes_sent;
        for _ in 0..40 {
            while let Some(answer) = script.next_answer() {
                for chunk in &answer.chunks {
                    match chunk {
                        Chunk::Heartbeat(heartbeat) if passes => {
                            let info = heartbeat.info().expect("the information of the sender");
                            script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
                        }
                        Chunk::Pad(Pad { len }) => assert_eq!(usize::from(*len), 1500 - 20 - 8 - 12 - 28 - 4),
                        _ => script.send(&[sack(tsn, 100)]),
                    }
                }
            }
            if mtu(&script) != 1500 {
                break;
            }
            script.advance_to_timeout();
        }
        let counters = *script.association().counters();
        let sent = counters.mtu_probes_sent - probes;
        if passes {
            assert_eq!((mtu(&script), counters.mtu_black_holes), (1500, 0));
            assert!(sent > 3, "asked again and again: {sent}");
        } else {
            assert_eq!((mtu(&script), counters.mtu_black_holes, sent), (1280, 1, 3));
        }
        assert_eq!(script.association().stats().paths[0].error_count, 0);
    }
}
