//! Attackers that see, change, replay and forge packets.

use anabranch_netsim::{Node, Packet};
use anabranch_proto::{AssociationState, CloseReason, Config, Event, KeyLimits, Tsn, VerificationTag};
use anabranch_testkit::{Pair, Setup, Side, packet_of, protect, with};
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk, Data, ForwardTsn, kind};
use anabranch_wire::packet::{CommonHeader, Packet as SctpPacket};
use anabranch_wire::{Ppid, Ssn, StreamId};
use bytes::Bytes;

use super::{MS, become_protected, config, connected, has, is_protected, link, protection, sctp};

/// A copy of the last packet from this side to the other one.
pub(super) fn last_from(pair: &Pair, side: Side) -> Packet {
    let link = match side {
        Side::A => pair.links(0).0,
        Side::Z => pair.links(0).1,
    };
    let record = pair.network.records().filter(|record| record.link == link).last();
    record.expect("a packet was sent").packet.clone()
}

/// The attacker sends a packet to this side.
pub(super) fn inject(pair: &mut Pair, to: Side, packet: Packet) {
    let now = pair.now();
    pair.host_mut(to).handle_packet(now, packet);
    pair.run_ms(0);
}

/// A packet in clear with these chunks, as if the peer of that side had sent it.
fn forged(pair: &Pair, to: Side, chunks: &[Chunk]) -> Packet {
    let (local, remote) = pair.association(to).ports();
    let header = CommonHeader {
        source_port: remote,
        destination_port: local,
        verification_tag: pair.association(to).tags().0,
    };
    Packet {
        payload: Bytes::from(packet_of(header, chunks)).into(),
        ..last_from(pair, to.other())
    }
}

fn abort() -> Chunk {
    Chunk::Abort(Abort {
        reflected_tag: false,
        causes: Causes::empty(),
    })
}

fn data(tsn: Tsn, stream: u16, ssn: u16, ppid: u32) -> Chunk {
    Chunk::Data(Data {
        tsn,
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        ppid: Ppid(ppid),
        unordered: false,
        beginning: true,
        ending: true,
        immediate: false,
        payload: Bytes::from_static(b"forged"),
    })
}

/// A pair whose packets are protected, after a message in each direction.
fn after_messages() -> Pair {
    let mut pair = connected(Setup::new(5).config(config()).path(link()));
    for side in Side::BOTH {
        pair.send(side, 1, "message");
    }
    pair.run_ms(500);
    for side in Side::BOTH {
        assert_eq!(pair.messages(side).len(), 1);
        pair.events(side);
    }
    pair
}

#[test]
fn a_replayed_packet_changes_nothing_whatever_its_source() {
    let mut pair = after_messages();
    pair.send(Side::A, 1, "once");
    pair.run_ms(500);
    assert_eq!(pair.messages(Side::Z).len(), 1);
    let before = (protection(&pair, Side::Z), *pair.association(Side::Z).counters());
    let packet = last_from(&pair, Side::A);
    for source in [packet.source, "192.0.2.9:9899".parse().unwrap()] {
        inject(
            &mut pair,
            Side::Z,
            Packet {
                source,
                ..packet.clone()
            },
        );
    }
    let after = protection(&pair, Side::Z);
    assert_eq!(after.packets_replayed, before.0.packets_replayed + 2);
    assert_eq!(after.packets_opened, before.0.packets_opened);
    assert_eq!(*pair.association(Side::Z).counters(), before.1);
    assert!(pair.messages(Side::Z).is_empty() && pair.events(Side::Z).is_empty());
}

/// A pair, and a protected packet of A that Z did not receive.
fn with_packet_that_was_cut_off() -> (Pair, Packet) {
    let mut pair = after_messages();
    pair.cut(0, true);
    pair.send(Side::A, 1, "cut off");
    pair.run_ms(1);
    let packet = last_from(&pair, Side::A);
    (pair, packet)
}

/// The bytes of the packet's SCTP packet.
pub(super) fn bytes_of(packet: &Packet) -> &Bytes {
    let anabranch_netsim::Payload::Sctp(bytes) = &packet.payload else {
        panic!("SCTP");
    };
    bytes
}

/// The packet with other bytes, and their checksum.
fn changed(packet: &Packet, change: impl FnOnce(&mut [u8])) -> Packet {
    let mut bytes = bytes_of(packet).to_vec();
    change(&mut bytes);
    bytes[8..12].fill(0);
    let checksum = anabranch_wire::crc32c(&bytes);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    Packet {
        payload: Bytes::from(bytes).into(),
        ..packet.clone()
    }
}

#[test]
fn no_changed_bit_is_accepted() {
    let (mut pair, packet) = with_packet_that_was_cut_off();
    let before = protection(&pair, Side::Z).packets_opened;
    // The header is not encrypted. Of the chunk header, the reserved bits, the pre-padding and the padding may be changed.
    for bit in 8 * 17..8 * (bytes_of(&packet).len() - 3) {
        let flipped = changed(&packet, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        inject(&mut pair, Side::Z, flipped);
        assert_eq!(protection(&pair, Side::Z).packets_opened, before, "bit {bit}");
    }
    inject(&mut pair, Side::Z, packet);
    assert_eq!(protection(&pair, Side::Z).packets_opened, before + 1);
    assert_eq!(pair.messages(Side::Z).len(), 1);
}

/// §5.2: after enforcement a packet in clear is discarded, even an ABORT.
#[test]
fn nothing_in_clear_is_believed() {
    let mut pair = after_messages();
    for (side, chunk) in [
        (Side::A, abort()),
        (Side::Z, Chunk::CookieAck),
        (Side::Z, abort()),
    ] {
        let packet = forged(&pair, side, &[chunk]);
        let before = protection(&pair, side).packets_unprotected;
        inject(&mut pair, side, packet);
        assert_eq!(protection(&pair, side).packets_unprotected, before + 1);
        assert_eq!(pair.state(side), Some(AssociationState::Established));
    }
}

/// §5.2: a DTLS chunk must be alone.
#[test]
fn a_bundled_dtls_chunk_is_discarded() {
    let mut pair = after_messages();
    pair.cut(0, true);
    pair.send(Side::A, 1, "cut off");
    pair.run_ms(1);
    let packet = last_from(&pair, Side::A);
    let record = pair.network.records().last().expect("recorded").clone();
    let dtls = sctp(&record)
        .chunks()
        .next()
        .unwrap()
        .map(|raw| Chunk::decode(raw).unwrap())
        .unwrap();
    assert_eq!(dtls.kind(), kind::DTLS);
    for chunks in [[dtls.clone(), Chunk::CookieAck], [Chunk::CookieAck, dtls]] {
        let bundled = forged(&pair, Side::Z, &chunks);
        inject(
            &mut pair,
            Side::Z,
            Packet {
                payload: bundled.payload,
                ..packet.clone()
            },
        );
        assert!(pair.messages(Side::Z).is_empty());
    }
    inject(&mut pair, Side::Z, packet);
    assert_eq!(pair.messages(Side::Z).len(), 1, "alone it is read");
}

/// §5.4: keys for a restart are not kept, so that a restart is refused.
#[test]
fn a_restart_is_refused_and_told() {
    let mut pair = after_messages();
    let port = pair.association(Side::A).ports().0;
    pair.reboot(Side::A);
    let options = anabranch_proto::ConnectOptions::default().local_port(port);
    pair.begin_from(Side::A, options);
    pair.run_ms(1000);
    let events = pair.events(Side::A);
    let Some(Event::Closed(CloseReason::AbortedByPeer(causes))) = events.last() else {
        panic!("{events:?}");
    };
    let Some(Ok(Cause::UserInitiatedAbort(text))) = causes.iter().next() else {
        panic!("{causes:?}");
    };
    assert!(String::from_utf8_lossy(&text).contains("cannot be restarted"));
    assert_eq!(pair.association(Side::Z).counters().restarts, 0);
    assert!(protection(&pair, Side::Z).is_protected);
}

/// §5.4: without keys for restarts, a record with the R bit is discarded.
#[test]
fn a_record_with_the_restart_bit_is_discarded() {
    let (mut pair, packet) = with_packet_that_was_cut_off();
    let before = protection(&pair, Side::Z).packets_opened;
    let restarting = changed(&packet, |bytes| bytes[13] |= 1);
    inject(&mut pair, Side::Z, restarting);
    assert_eq!(protection(&pair, Side::Z).packets_opened, before);
    inject(&mut pair, Side::Z, packet);
    assert_eq!(protection(&pair, Side::Z).packets_opened, before + 1);
}

/// Packets in clear before the keys: user messages and chunks that key management does not need are ignored.
#[test]
fn clear_packets_bring_key_management_alone() {
    let mut pair = Setup::new(6).config(config()).path(link()).build();
    pair.begin();
    let limit = pair.now() + 10_000 * MS;
    assert!(pair.run_to(limit, |pair| pair.id(Side::Z).is_some()));
    let tsn = pair.association(Side::A).tags().0;
    assert_ne!(tsn, VerificationTag(0));
    let counters = *pair.association(Side::Z).counters();
    let first = data(Tsn(1), 1, 0, 0);
    for chunk in [first, data(Tsn(1), 0, 0, 7)] {
        let packet = forged(&pair, Side::Z, &[chunk]);
        inject(&mut pair, Side::Z, packet);
    }
    let after = pair.association(Side::Z).counters();
    assert_eq!(after.data_chunks_received, counters.data_chunks_received);
    assert_eq!(after.dropped_no_room, counters.dropped_no_room);
    pair.run_ms(2000);
    assert!(is_protected(&pair));
    assert!(pair.messages(Side::Z).is_empty());
}

/// The Initial TSN of a side, from its INIT or INIT ACK.
fn initial_tsn(pair: &Pair, side: Side) -> Tsn {
    let found = pair.network.records().find_map(|record| {
        let packet = sctp(record);
        let chunk = Chunk::decode(packet.chunks().next()?.ok()?).ok()?;
        match (chunk, side) {
            (Chunk::Init(init), Side::A) => Some(init.initial_tsn),
            (Chunk::InitAck(init), Side::Z) => Some(init.initial_tsn),
            _ => None,
        }
    });
    found.expect("recorded")
}

/// An attacker on the path puts chunks in clear where the peer will have its own later: data of the peer would count as a duplicate and be
/// lost. The association ends before it is protected, at one of the endpoints first.
#[test]
fn forged_chunks_never_replace_those_of_the_peer() {
    for side in Side::BOTH {
        for (at, ssn) in [(1, 1), (2, 2), (2, 0), (2, 9), (3, 3), (4, 0), (20, 0)] {
            let mut pair = Setup::new(7).config(config()).path(link()).build();
            pair.network.keep_records(100);
            pair.begin();
            let limit = pair.now() + 10_000 * MS;
            let established = |pair: &mut Pair| {
                let state = pair.state(side);
                state == Some(AssociationState::Established)
            };
            assert!(pair.run_to(limit, established));
            let first = initial_tsn(&pair, side.other());
            let packet = forged(&pair, side, &[data(first.plus(at), 0, ssn, 4242)]);
            inject(&mut pair, side, packet);
            pair.run_ms(30_000);
            let (protected, events) = (is_protected(&pair), pair.events(side));
            let ended = |event: &Event| matches!(event, Event::Closed(why) if *why != CloseReason::Shutdown);
            assert!(
                !protected && events.iter().any(ended),
                "{side:?}, {at}, {ssn}: {events:?}"
            );
        }
    }
}

/// The forged chunk arrives so late that the peer learns of it, by a gap ack block, when this endpoint has received the last message before
/// protection: this endpoint itself ends the association.
#[test]
fn a_forged_chunk_is_told_by_the_endpoint_that_received_it() {
    for (side, before) in [(Side::Z, 15), (Side::A, 25)] {
        let mut pair = Setup::new(7).config(config()).path(link()).build();
        pair.network.keep_records(100);
        pair.begin();
        let limit = pair.now() + 10_000 * MS;
        let answered = |pair: &mut Pair| pair.talker(Side::Z).keys.messages.len() == 1;
        assert!(pair.run_to(limit, answered));
        pair.run_ms(before);
        let first = initial_tsn(&pair, side.other());
        let packet = forged(&pair, side, &[data(first.plus(20), 0, 0, 4242)]);
        inject(&mut pair, side, packet);
        pair.run_ms(1000);
        let events = pair.events(side);
        let Some(Event::Closed(CloseReason::ProtectionFailed(why))) = events.last() else {
            panic!("{side:?}: {events:?}");
        };
        assert!(why.contains("forged"), "{why}");
    }
}

// A → DATA (the last message of the client) → Z, lost; M → the same packet from another UDP port → Z
// Z → DTLS → M's port; Z → DTLS (T3-rtx) → A
/// The server enforces protection when the last message of the client has arrived, and the client retransmits it in clear until it has the
/// answer. So nothing that counts arrives from the client's port: the server tries that port again by itself.
#[test]
fn a_replay_from_another_port_does_not_stop_the_keys() {
    let mut pair = Setup::new(9).config(config()).path(link()).build();
    pair.network.keep_records(100);
    pair.begin();
    let limit = pair.now() + 10_000 * MS;
    assert!(pair.run_to(limit, |pair| pair.talker(Side::Z).keys.messages.len() == 1));
    let there = pair.links(0).0;
    pair.network.cut(there, true);
    assert!(pair.run_to(limit, |pair| pair.talker(Side::A).keys.messages.len() == 1));
    let mut packet = last_from(&pair, Side::A);
    let types: Vec<_> = SctpPacket::parse(bytes_of(&packet).clone())
        .expect("the checksum is right")
        .chunks()
        .map(|raw| raw.expect("a chunk").kind)
        .collect();
    assert!(types.contains(&kind::DATA), "{types:?}");
    packet.source.set_port(4242);
    inject(&mut pair, Side::Z, packet);
    assert_eq!(pair.talker(Side::Z).keys.messages.len(), 2);
    assert_eq!(pair.association(Side::Z).remote_address().port(), 4242);
    pair.network.cut(there, false);
    pair.run_ms(5_000);
    assert!(is_protected(&pair));
}

/// Chunks that change streams or skip data are ignored in clear, and so is the loss of data that they pretend.
#[test]
fn nothing_is_skipped_in_clear() {
    let config = with(Config::default(), protect);
    let mut pair = Setup::new(7).config(config).path(link()).build();
    pair.network.keep_records(100);
    pair.begin();
    let limit = pair.now() + 10_000 * MS;
    assert!(pair.run_to(limit, |pair| pair.id(Side::Z).is_some()));
    let first = initial_tsn(&pair, Side::A);
    let skip = Chunk::ForwardTsn(ForwardTsn::new(first.plus(4), std::iter::empty()));
    let packet = forged(&pair, Side::Z, &[skip]);
    inject(&mut pair, Side::Z, packet);
    pair.run_ms(3000);
    assert!(is_protected(&pair));
}

/// An authentic packet from an address that is not the peer's is discarded: an attacker may have sent it on from there.
#[test]
fn a_packet_from_elsewhere_is_discarded() {
    let mut pair = after_messages();
    pair.cut(0, true);
    pair.send(Side::A, 1, "sent on");
    pair.run_ms(1);
    let packet = last_from(&pair, Side::A);
    let source = "192.0.2.9:9899".parse().unwrap();
    inject(&mut pair, Side::Z, Packet { source, ..packet });
    assert!(pair.messages(Side::Z).is_empty());
    assert_eq!(pair.association(Side::Z).stats().paths.len(), 1);
    pair.cut(0, false);
    pair.run_ms(10_000);
    assert_eq!(pair.messages(Side::Z).len(), 1, "the retransmission arrives");
}

fn with_limits(sealed: u64) -> Pair {
    let mut pair = Setup::new(8).config(config()).path(link()).build();
    let limits = KeyLimits { sealed, failed: 3 };
    for side in Side::BOTH {
        pair.talker(side).keys.limits = Some(limits);
    }
    become_protected(&mut pair);
    pair
}

#[test]
fn an_exhausted_key_ends_the_association() {
    let mut pair = with_limits(40);
    for number in 0..100_u8 {
        let now = pair.now();
        let _ = pair.association_mut(Side::A).send(
            now,
            StreamId(0),
            vec![number; 1000].into(),
            Default::default(),
        );
    }
    pair.run_ms(5000);
    let events = pair.events(Side::A);
    let used = |event: &Event| matches!(event, Event::Closed(CloseReason::ProtectionFailed(why)) if why.contains("too often"));
    assert!(events.iter().any(used), "{events:?}");
    assert_eq!(protection(&pair, Side::A).packets_sealed, 40);
}

#[test]
fn a_key_that_failed_too_often_is_not_used() {
    let mut pair = with_limits(u64::MAX);
    pair.send(Side::A, 1, "message");
    pair.run_ms(100);
    let packet = last_from(&pair, Side::A);
    let epoch = 3;
    for number in 0..10_u8 {
        let damaged = changed(&packet, |bytes| {
            let last = bytes.len() - 5;
            bytes[last] ^= number + 1;
            // Another sample gives another sequence number, so that the replay window does not spare the decryption.
            bytes[25] ^= number + 1;
        });
        inject(&mut pair, Side::Z, damaged);
    }
    assert_eq!(pair.association_mut(Side::Z).key_manager().usage(epoch).failed, 3);
    pair.messages(Side::Z);
    pair.send(Side::A, 1, "lost");
    pair.run_ms(100);
    assert!(pair.messages(Side::Z).is_empty());
    assert!(!has(&pair.events(Side::Z), &Event::Closed(CloseReason::Shutdown)));
}

/// The settings of the tests have no heartbeats.
#[test]
fn a_window_follows_the_settings() {
    let config = with(config(), |config| {
        let mut protection = anabranch_proto::ProtectionConfig::default();
        protection.replay_window = 63;
        config.require_protection(protection);
    });
    assert_eq!(config.validate().unwrap_err().setting, "protection.replay_window");
}
