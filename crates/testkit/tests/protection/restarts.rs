//! Restarts with restart keys (§5.4): an endpoint that lost its state restarts the association, and nobody else can.

use anabranch_netsim::Packet;
use anabranch_proto::{
    Agreement, AssociationState, CloseReason, Config, ConnectOptions, Event, FIRST_EPOCH, KeyError,
    PathState, VerificationTag,
};
use anabranch_testkit::{Pair, Setup, Side, ToyRestartKeys, protect_with_restarts, quiet, with};
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Chunk, CookieEcho, Dtls, Init, RawChunk, kind};
use anabranch_wire::packet::{CommonHeader, Packet as SctpPacket};
use bytes::Bytes;

use super::attacks::{bytes_of, inject, last_from};
use super::{MS, config, connected, has, is_protected, link, protection};

fn restarting() -> Config {
    with(quiet(), protect_with_restarts)
}

/// The ports and the stored restart keys of a side.
#[derive(Clone, Copy)]
struct Stored {
    ports: (u16, u16),
    keys: ToyRestartKeys,
}

fn stored(pair: &mut Pair, side: Side) -> Stored {
    Stored {
        ports: pair.association(side).ports(),
        keys: pair.talker(side).keys.stored.expect("both endpoints keep them"),
    }
}

/// A side that has lost its state sends an INIT with the same ports as before.
fn connect_again(pair: &mut Pair, side: Side, (local, remote): (u16, u16)) {
    pair.begin_to(side, remote, ConnectOptions::default().local_port(local));
}

/// A side loses its state, and restarts its association with the stored keys.
fn restart(pair: &mut Pair, side: Side, stored: &Stored) {
    pair.reboot(side);
    connect_again(pair, side, stored.ports);
    let association = pair.association_mut(side);
    stored
        .keys
        .restart(&mut association.key_manager())
        .expect("it has sent an INIT alone");
}

fn forget_events(pair: &mut Pair) {
    for side in Side::BOTH {
        pair.events(side);
    }
}

/// A pair with restart keys at both ends, and what each side stored.
fn with_keys(seed: u64) -> (Pair, [Stored; 2]) {
    let mut pair = connected(Setup::new(seed).config(restarting()).path(link()));
    pair.network.keep_records(200);
    pair.run_ms(100);
    let both = Side::BOTH.map(|side| stored(&mut pair, side));
    forget_events(&mut pair);
    (pair, both)
}

fn restarts(pair: &Pair, side: Side) -> u64 {
    pair.association(side).counters().restarts
}

/// Whether the causes of an ABORT say that the association needs its keys.
fn is_refusal(causes: &Causes) -> bool {
    let first = causes.iter().next();
    let Some(Ok(Cause::UserInitiatedAbort(text))) = first else {
        return false;
    };
    String::from_utf8_lossy(&text).contains("cannot be restarted")
}

/// Z refused to restart the association, and told A so.
fn check_refused(pair: &mut Pair) {
    let events = pair.events(Side::A);
    let Some(Event::Closed(CloseReason::AbortedByPeer(causes))) = events.last() else {
        panic!("{events:?}");
    };
    assert!(is_refusal(causes), "{causes:?}");
}

fn agreement(pair: &mut Pair, side: Side) -> Agreement {
    let manager = pair.association_mut(side);
    manager
        .key_manager()
        .agreement()
        .cloned()
        .expect("set-up is complete")
}

/// Both sides exchange a message on the association as it is now.
fn exchange(pair: &mut Pair) {
    for side in Side::BOTH {
        pair.send(side, 1, "after");
    }
    pair.run_ms(500);
    for side in Side::BOTH {
        let messages = pair.messages(side);
        assert_eq!(messages.len(), 1, "{side:?}: {}", pair.draw());
        assert_eq!(&messages[0].bytes[..], b"after");
    }
}

/// Each packet since a record: the types of its chunks, and the R bit of a DTLS chunk.
fn kinds_since(pair: &Pair, first: usize) -> Vec<(u8, bool)> {
    let records = pair.network.records().skip(first);
    let all = records.map(|record| {
        let packet = super::sctp(record);
        let raw = packet.chunks().next().expect("a chunk").expect("whole");
        (raw.kind, raw.kind == kind::DTLS && Dtls::is_restart(&raw))
    });
    all.collect()
}

#[test]
fn a_restart_of_either_side_loses_no_acknowledged_message() {
    for side in Side::BOTH {
        let (mut pair, stored) = with_keys(21);
        let survivor = side.other();
        pair.set_reading(survivor, false);
        for number in 0..20_u8 {
            pair.send(side, u16::from(number % 16), vec![number; 3000]);
        }
        pair.run_ms(1000);
        assert!(
            has(&pair.events(side), &Event::Dry),
            "all messages are acknowledged"
        );
        let first = pair.network.records().count();
        let agreements = Side::BOTH.map(|side| agreement(&mut pair, side));
        restart(&mut pair, side, &stored[side as usize]);
        pair.run_ms(1000);
        for (side, before) in Side::BOTH.iter().zip(agreements) {
            let after = agreement(&mut pair, *side);
            let same =
                [&after.client, &after.server].map(|new| *new == before.client || *new == before.server);
            assert_eq!(same, [false; 2], "each parameter has a new tie breaker");
            assert!(after.permits_restart());
        }
        let kinds = kinds_since(&pair, first);
        assert_eq!(kinds[..2], [(kind::INIT, false), (kind::INIT_ACK, false)]);
        assert!(
            kinds[2..].iter().all(|(kind, _)| *kind == kind::DTLS),
            "{kinds:?}"
        );
        assert!(
            kinds[2].1 && kinds[3].1,
            "COOKIE ECHO and COOKIE ACK have the R bit"
        );
        assert!(!kinds[kinds.len() - 1].1, "the next keys are primary keys");
        let events = pair.events(survivor);
        assert!(
            has(&events, &Event::Restarted) && !has(&events, &Event::Protected),
            "{events:?}"
        );
        let events = pair.events(side);
        let protected = events.iter().filter(|event| **event == Event::Protected);
        assert_eq!(protected.count(), 1, "{events:?}");
        assert_eq!(restarts(&pair, survivor), 1);
        pair.set_reading(survivor, true);
        let messages = pair.messages(survivor);
        assert_eq!(messages.len(), 20, "{}", pair.draw());
        for message in messages {
            assert!(
                message
                    .bytes
                    .iter()
                    .all(|byte| u16::from(*byte % 16) == message.stream.0)
            );
        }
        for side in Side::BOTH {
            assert_eq!(protection(&pair, side).epoch, Some(FIRST_EPOCH));
            assert!(protection(&pair, side).is_restarted);
        }
        exchange(&mut pair);
        // The restart keys of the new epoch serve for the next restart.
        for round in 0..3 {
            let stored = self::stored(&mut pair, side);
            restart(&mut pair, side, &stored);
            pair.run_ms(1000);
            assert_eq!(restarts(&pair, survivor), 2 + round);
            exchange(&mut pair);
        }
    }
}

/// A restart over two paths: it may come from either address, and both paths are used after it.
#[test]
fn a_restart_keeps_both_paths() {
    let mut pair = connected(Setup::new(33).config(restarting()).path(link()).path(link()));
    pair.run_ms(5000);
    let stored = stored(&mut pair, Side::A);
    restart(&mut pair, Side::A, &stored);
    pair.run_ms(10_000);
    assert_eq!(restarts(&pair, Side::Z), 1);
    for side in Side::BOTH {
        let paths = pair.association(side).stats().paths;
        let active = paths.iter().filter(|path| path.state == PathState::Active);
        assert_eq!(active.count(), 2, "{side:?}");
    }
    exchange(&mut pair);
}

/// Losses at any moment of the restart: T1 and the key management retransmit.
#[test]
fn losses_delay_a_restart_alone() {
    for (seed, cut) in (0..12).zip((0..60).step_by(5)) {
        let (mut pair, stored) = with_keys(seed);
        restart(&mut pair, Side::A, &stored[0]);
        pair.run_ms(cut);
        pair.cut(0, true);
        pair.run_ms(15);
        pair.cut(0, false);
        pair.run_ms(20_000);
        assert_eq!(restarts(&pair, Side::Z), 1, "after {cut} ms: {}", pair.draw());
        exchange(&mut pair);
    }
}

/// A cookie that is too old: the ERROR that says so is in clear, and so is the INIT that asks for another cookie.
#[test]
fn a_stale_cookie_is_replaced() {
    let (mut pair, stored) = with_keys(22);
    let slow = link().with_delay(61_000 * MS);
    restart(&mut pair, Side::A, &stored[0]);
    let limit = pair.now() + 1000 * MS;
    let asked = pair.network.records().count() + 1;
    assert!(pair.run_to(limit, |pair| pair.network.records().count() > asked));
    pair.set_path(0, &slow);
    pair.run_ms(61_100);
    pair.set_path(0, &link());
    pair.run_ms(400_000);
    assert!(
        kinds_since(&pair, asked).contains(&(kind::ERROR, false)),
        "{}",
        pair.draw()
    );
    assert_eq!(restarts(&pair, Side::Z), 1, "{}", pair.draw());
    exchange(&mut pair);
}

/// §5.4: another restart before there are new restart keys is refused, whatever keys the peer has.
#[test]
fn restart_keys_are_used_once() {
    let (mut pair, stored) = with_keys(23);
    restart_twice(&mut pair, &stored[0], &stored[0]);
}

/// A restarts the association, and again before there are new keys, which is refused.
fn restart_twice(pair: &mut Pair, first: &Stored, second: &Stored) {
    restart(pair, Side::A, first);
    let limit = pair.now() + 1000 * MS;
    assert!(pair.run_to(limit, |pair| restarts(pair, Side::Z) == 1));
    restart(pair, Side::A, second);
    pair.run_ms(1000);
    check_refused(pair);
    assert_eq!(restarts(pair, Side::Z), 1);
}

/// Keys that restarted the association do not restart it again when there are others of the same epoch.
#[test]
fn used_keys_do_not_serve_beside_new_ones() {
    let (mut pair, stored) = with_keys(24);
    restart(&mut pair, Side::A, &stored[0]);
    pair.run_ms(1000);
    exchange(&mut pair);
    let before = protection(&pair, Side::Z).packets_unauthentic;
    restart(&mut pair, Side::A, &stored[0]);
    pair.run_ms(1000);
    assert_eq!(restarts(&pair, Side::Z), 1);
    assert!(protection(&pair, Side::Z).packets_unauthentic > before);
    assert!(protection(&pair, Side::Z).is_protected);
    assert_eq!(pair.state(Side::A), Some(AssociationState::CookieEchoed));
}

/// A replay of all packets of a restart changes nothing, before and after there are new keys.
#[test]
fn a_replayed_restart_changes_nothing() {
    for after in [60, 1000] {
        let (mut pair, stored) = with_keys(25);
        let first = pair.network.records().count();
        restart(&mut pair, Side::A, &stored[0]);
        pair.run_ms(after);
        let there = pair.links(0).0;
        let records = pair.network.records().skip(first);
        let packets: Vec<_> = records
            .filter(|record| record.link == there)
            .map(|record| record.packet.clone())
            .collect();
        pair.run_ms(1000);
        exchange(&mut pair);
        let counters = |pair: &Pair| {
            let mut counters = *pair.association(Side::Z).counters();
            // INITs are answered without state.
            counters.packets_received = 0;
            counters.packets_sent = 0;
            counters.init_collisions = 0;
            counters
        };
        let before = (counters(&pair), protection(&pair, Side::Z), pair.events(Side::Z));
        assert!(packets.len() >= 2, "an INIT and a COOKIE ECHO");
        for packet in packets {
            inject(&mut pair, Side::Z, packet);
        }
        pair.run_ms(1000);
        assert_eq!(counters(&pair), before.0);
        assert_eq!(protection(&pair, Side::Z).packets_opened, before.1.packets_opened);
        assert!(pair.events(Side::Z).is_empty() && pair.messages(Side::Z).is_empty());
        exchange(&mut pair);
    }
}

/// The packet with these chunks from A's address and port.
fn from_a(pair: &Pair, tag: VerificationTag, chunks: &[Chunk]) -> Packet {
    let (local, remote) = pair.association(Side::Z).ports();
    let header = CommonHeader {
        source_port: remote,
        destination_port: local,
        verification_tag: tag,
    };
    Packet {
        payload: Bytes::from(anabranch_testkit::packet_of(header, chunks)).into(),
        ..last_from(pair, Side::A)
    }
}

/// The INIT of a pair's set-up, with another tag and the R bit as in its parameter.
fn recorded_init(pair: &Pair) -> Init {
    let inits = pair.network.records().filter_map(|record| {
        let packet = super::sctp(record);
        match Chunk::decode(packet.chunks().next()?.ok()?).ok()? {
            Chunk::Init(init) => Some(init),
            _ => None,
        }
    });
    Init {
        initiate_tag: VerificationTag(77),
        ..inits.last().expect("recorded")
    }
}

/// An attacker between the endpoints, without keys: it gets a cookie, and nothing more.
#[test]
fn nobody_restarts_without_keys() {
    let mut pair = Setup::new(26).config(restarting()).path(link()).build();
    pair.network.keep_records(200);
    super::become_protected(&mut pair);
    pair.run_ms(100);
    forget_events(&mut pair);
    let init = recorded_init(&pair);
    let packet = from_a(&pair, VerificationTag(0), &[Chunk::Init(init)]);
    inject(&mut pair, Side::Z, packet);
    let answer = SctpPacket::parse(bytes_of(&last_from(&pair, Side::Z)).clone()).unwrap();
    let Ok(Chunk::InitAck(ack)) = Chunk::decode(answer.chunks().next().unwrap().unwrap()) else {
        panic!("an INIT ACK");
    };
    let tag = ack.initiate_tag;
    let cookie = anabranch_testkit::state_cookie(&ack);
    let before = protection(&pair, Side::Z);
    let counters = *pair.association(Side::Z).counters();
    // In clear, alone and with a chunk after it, and under another tag.
    let echo = Chunk::CookieEcho(CookieEcho { cookie });
    let packet = from_a(&pair, tag, std::slice::from_ref(&echo));
    inject(&mut pair, Side::Z, packet);
    let answer = SctpPacket::parse(bytes_of(&last_from(&pair, Side::Z)).clone()).unwrap();
    assert_eq!(answer.header.verification_tag, VerificationTag(77));
    assert_eq!(answer.chunks().next().unwrap().unwrap().kind, kind::ABORT);
    let other = VerificationTag(tag.0 ^ 1);
    for (tag, chunks) in [(tag, vec![echo.clone(), Chunk::CookieAck]), (other, vec![echo])] {
        let packet = from_a(&pair, tag, &chunks);
        inject(&mut pair, Side::Z, packet);
    }
    assert_eq!(
        protection(&pair, Side::Z).packets_unprotected,
        before.packets_unprotected + 2
    );
    // In a record with other keys, and in a record of the peer with the primary key.
    pair.send(Side::A, 1, "seen by the attacker");
    pair.run_ms(1);
    let seen = SctpPacket::parse(bytes_of(&last_from(&pair, Side::A)).clone()).unwrap();
    let raw: RawChunk<'_> = seen.chunks().next().unwrap().unwrap();
    let seen = Dtls::decode(&raw).unwrap();
    pair.run_ms(100);
    assert_eq!(pair.messages(Side::Z).len(), 1);
    let forged = Dtls {
        restart: true,
        ..seen.clone()
    };
    let decryptions = |pair: &Pair| {
        let stats = protection(pair, Side::Z);
        stats.packets_unauthentic + stats.packets_opened
    };
    let opened = decryptions(&pair);
    for wrong in [VerificationTag(5), VerificationTag(0), VerificationTag(tag.0 ^ 1)] {
        let packet = from_a(&pair, wrong, &[Chunk::Dtls(forged.clone())]);
        inject(&mut pair, Side::Z, packet);
        assert_eq!(
            decryptions(&pair),
            opened,
            "without the tag of the INIT ACK nothing is decrypted"
        );
    }
    for dtls in [forged, seen] {
        let packet = from_a(&pair, tag, &[Chunk::Dtls(dtls)]);
        inject(&mut pair, Side::Z, packet);
    }
    pair.run_ms(100);
    assert_eq!(decryptions(&pair), opened + 2);
    let after = *pair.association(Side::Z).counters();
    assert_eq!(
        (after.restarts, after.data_chunks_received),
        (0, counters.data_chunks_received + 1)
    );
    assert!(!has(&pair.events(Side::Z), &Event::Restarted));
    pair.run_ms(1000);
    exchange(&mut pair);
}

/// An INIT whose parameter has no R bit is refused as without restart keys, and so is each INIT if this side keeps none.
#[test]
fn both_endpoints_have_to_keep_keys() {
    for (a, z) in [(restarting(), config()), (config(), restarting())] {
        let offers = a.protection.as_ref().is_some_and(|protection| protection.restart);
        let mut pair = connected(Setup::new(27).configs(a, z).path(link()));
        pair.run_ms(100);
        assert!(
            Side::BOTH
                .iter()
                .all(|side| pair.talker(*side).keys.stored.is_none())
        );
        assert!(!agreement(&mut pair, Side::A).permits_restart());
        let nothing = || Box::new(anabranch_testkit::ToyKey::new(1));
        let manager = pair.association_mut(Side::Z);
        let kept = manager
            .key_manager()
            .install_restart(FIRST_EPOCH, nothing(), nothing());
        assert_eq!(kept, Err(KeyError::NoRestart));
        let ports = pair.association(Side::A).ports();
        pair.reboot(Side::A);
        connect_again(&mut pair, Side::A, ports);
        let manager = pair.association_mut(Side::A);
        let restarted = manager.key_manager().restart(FIRST_EPOCH, nothing(), nothing());
        assert_eq!(restarted.is_ok(), offers);
        pair.run_ms(1000);
        check_refused(&mut pair);
        assert_eq!(restarts(&pair, Side::Z), 0);
    }
}

/// The keys were recorded as used, and then the program failed before its INIT: the next run has no keys, and is not let in with new ones.
#[test]
fn without_stored_keys_the_association_is_not_restarted() {
    let (mut pair, stored) = with_keys(28);
    pair.reboot(Side::A);
    connect_again(&mut pair, Side::A, stored[0].ports);
    pair.run_ms(1000);
    check_refused(&mut pair);
    assert_eq!(restarts(&pair, Side::Z), 0);
    assert!(protection(&pair, Side::Z).is_protected);
}

/// The peer has lost its state too, and says so in clear: the next set-up, without restart keys, succeeds.
#[test]
fn a_peer_without_the_association_says_so() {
    let (mut pair, stored) = with_keys(29);
    pair.reboot(Side::Z);
    restart(&mut pair, Side::A, &stored[0]);
    pair.run_ms(1000);
    let events = pair.events(Side::A);
    assert!(
        matches!(events.last(), Some(Event::Closed(CloseReason::AbortedByPeer(_)))),
        "{events:?}"
    );
    connect_again(&mut pair, Side::A, stored[0].ports);
    pair.run_ms(1000);
    assert!(is_protected(&pair));
    exchange(&mut pair);
}

/// Both endpoints lost their state, and both restart the association at once.
#[test]
fn both_endpoints_restart_at_once() {
    for delay in [0, 5, 9] {
        let (mut pair, stored) = with_keys(30);
        pair.reboot(Side::Z);
        restart(&mut pair, Side::A, &stored[0]);
        pair.run_ms(delay);
        connect_again(&mut pair, Side::Z, stored[1].ports);
        let association = pair.association_mut(Side::Z);
        stored[1]
            .keys
            .restart(&mut association.key_manager())
            .expect("an INIT alone was sent");
        pair.run_ms(3000);
        assert!(is_protected(&pair), "{}", pair.draw());
        for side in Side::BOTH {
            assert!(protection(&pair, side).is_restarted);
        }
        exchange(&mut pair);
    }
}

/// A pair with the restart keys of two epochs, and what A stored of each.
fn with_two_epochs() -> (Pair, [Stored; 2]) {
    let (mut pair, stored) = with_keys(31);
    let now = pair.now();
    let mut keys = std::mem::take(&mut pair.talker(Side::A).keys);
    let next = FIRST_EPOCH + 1;
    keys.begin(now, &mut pair.association_mut(Side::A).key_manager(), next);
    pair.talker(Side::A).keys = keys;
    pair.run_ms(500);
    let newest = self::stored(&mut pair, Side::A);
    assert_eq!(newest.keys.epoch, next);
    forget_events(&mut pair);
    (pair, [stored[0], newest])
}

/// §5.4: an endpoint that lost its state before it stored the newest keys has those of the epoch before.
#[test]
fn the_former_keys_serve_until_they_are_removed() {
    for removed in [false, true] {
        let (mut pair, stored) = with_two_epochs();
        if removed {
            let association = pair.association_mut(Side::Z);
            association.key_manager().remove_receiving(FIRST_EPOCH);
        }
        restart(&mut pair, Side::A, &stored[0]);
        pair.run_ms(1000);
        assert_eq!(restarts(&pair, Side::Z), u64::from(!removed));
        if !removed {
            exchange(&mut pair);
        }
    }
}

/// After a restart with the keys of one epoch, those of the other epoch do not restart the association again.
#[test]
fn a_restart_uses_up_the_keys_of_all_epochs() {
    for first in [0, 1] {
        let (mut pair, stored) = with_two_epochs();
        restart_twice(&mut pair, &stored[first], &stored[1 - first]);
    }
}

/// The restart keys protect the association until there are others, and are forgotten after that.
#[test]
fn messages_need_no_new_keys() {
    let (mut pair, stored) = with_keys(32);
    restart(&mut pair, Side::A, &stored[0]);
    let limit = pair.now() + 1000 * MS;
    let protected = |pair: &mut Pair| has(&pair.events(Side::A), &Event::Protected);
    assert!(pair.run_to(limit, protected));
    let first = pair.network.records().count();
    for side in Side::BOTH {
        pair.send(side, 1, "under restart keys");
    }
    pair.run_ms(11);
    assert!(kinds_since(&pair, first).contains(&(kind::DTLS, true)));
    assert!(Side::BOTH.iter().all(|side| pair.messages(*side).len() == 1));
    let old = last_from(&pair, Side::A);
    pair.run_ms(1000);
    for side in Side::BOTH {
        pair.association_mut(side).key_manager().end_restart();
    }
    let before = protection(&pair, Side::Z).packets_unauthentic;
    inject(&mut pair, Side::Z, old);
    assert_eq!(protection(&pair, Side::Z).packets_unauthentic, before + 1);
    exchange(&mut pair);
}
