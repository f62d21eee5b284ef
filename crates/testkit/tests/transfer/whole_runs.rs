//! User data transfer (RFC 9260 §6), with the packets of each test drawn.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{
    AssociationState, Config, Event, MessageId, Ppid, SendError, SendOptions, StreamId, Tsn,
};
use anabranch_testkit::{Ledger, Pair, Script, Setup, Side, quiet};
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Chunk, ErrorChunk, GapAckBlock, GapAckBlocks, Heartbeat, HeartbeatAck, Sack, TsnList,
};
use bytes::Bytes;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// User data of a chunk that fills a packet of 1,280 bytes (20 IPv4, 8 UDP, 12 common header, 16 DATA).
const FULL: usize = 1224;

fn established(config: Config) -> Script {
    let mut script = Script::new(config, 1);
    script.set_up();
    script.events();
    script
}

fn ack(cumulative_tsn_ack: Tsn, a_rwnd: u32) -> Chunk {
    Chunk::Sack(Sack {
        cumulative_tsn_ack,
        a_rwnd,
        gap_ack_blocks: GapAckBlocks::from_blocks([]),
        duplicate_tsns: TsnList::from_tsns([]),
    })
}

fn send(script: &mut Script, stream: u16, len: usize) -> Result<MessageId, SendError> {
    script.act(|association, now| {
        association.send(now, StreamId(stream), vec![7; len].into(), SendOptions::default())
    })
}

/// The peer acknowledges a message and closes its window to `a_rwnd` bytes; then a message of `len` bytes is sent, of which one chunk leaves as
/// a probe. Also returns the SACK.
fn probed(a_rwnd: u32, len: usize) -> (Script, Chunk) {
    let mut script = established(quiet());
    send(&mut script, 0, 100).expect("send");
    script.expect();
    let closed = ack(script.endpoint_tsn, a_rwnd);
    script.send(core::slice::from_ref(&closed));
    send(&mut script, 0, len).expect("send");
    assert_eq!(script.sent_tsns(), [script.endpoint_tsn.next()]);
    (script, closed)
}

/// The SACK that is the only chunk of the next packet.
#[track_caller]
fn expect_sack(script: &mut Script) -> Sack {
    match script.expect_chunk() {
        Chunk::Sack(sack) => sack,
        other => panic!("SACK, not {other:?}"),
    }
}

/// Sends the first DATA, which is acknowledged at once (§5.1).
fn first_data(script: &mut Script) {
    let data = script.data(0, 0, "first");
    script.send(&[data]);
    assert_eq!(expect_sack(script).cumulative_tsn_ack, script.tsn.minus(1));
}

// A → DATA (B E)    1,224 bytes → Z
// A → DATA (B), DATA (E)    1,225 bytes, in 1,224 and 1 → Z
/// §6.9: fragments are as large as the PMTU allows, with consecutive TSNs and one SSN.
#[test]
fn fragmentation_at_the_edge() {
    for (len, expected) in [
        (1, vec![1]),
        (FULL, vec![FULL]),
        (FULL + 1, vec![FULL, 1]),
        (2 * FULL, vec![FULL, FULL]),
        (2 * FULL + 1, vec![FULL, FULL, 1]),
    ] {
        let mut script = established(quiet());
        send(&mut script, 3, len).expect("send");
        let chunks: Vec<_> = core::iter::from_fn(|| script.next_answer())
            .flat_map(|answer| answer.data().cloned().collect::<Vec<_>>())
            .collect();
        let last = chunks.len() - 1;
        assert_eq!(
            chunks.iter().map(|data| data.payload.len()).collect::<Vec<_>>(),
            expected
        );
        for (index, data) in chunks.iter().enumerate() {
            assert_eq!(data.tsn, script.endpoint_tsn.plus(index as u32));
            assert_eq!((data.stream, data.ssn.0), (StreamId(3), 0));
            assert_eq!((data.beginning, data.ending), (index == 0, index == last));
        }
    }
}

// A ← HEARTBEAT, SACK (opens the window), DATA (I) ← Z
// A → HEARTBEAT ACK, SACK, DATA, DATA → Z
/// §6.10: control chunks first, then SACK, then data, in one packet.
#[test]
fn the_order_in_a_packet() {
    let mut script = Script::new(quiet(), 1);
    script.a_rwnd = 1500;
    script.set_up();
    first_data(&mut script);
    send(&mut script, 0, 1200).expect("send");
    script.expect();
    script.act(|association, now| {
        for stream in [1, 2] {
            let options = SendOptions::default();
            association
                .send(now, StreamId(stream), vec![1; 400].into(), options)
                .expect("send");
        }
    });
    script.expect_silence();
    let mut data = script.data(0, 1, "now");
    if let Chunk::Data(data) = &mut data {
        data.immediate = true;
    }
    let info = Bytes::from_static(b"who are you");
    let heartbeat = Chunk::Heartbeat(Heartbeat::new(info.clone()));
    let opens = ack(script.endpoint_tsn, 100_000);
    script.send(&[heartbeat, opens, data]);
    let chunks = script.expect().chunks;
    assert_eq!(chunks[0], Chunk::HeartbeatAck(HeartbeatAck::new(info)));
    assert!(matches!(chunks[1], Chunk::Sack(_)), "{chunks:?}");
    let streams: Vec<_> = chunks[2..]
        .iter()
        .map(|chunk| match chunk {
            Chunk::Data(data) => data.stream.0,
            other => panic!("DATA, not {other:?}"),
        })
        .collect();
    assert_eq!(streams, [1, 2]);
    script.expect_silence();
}

// A ← DATA 1 ← Z;  A → SACK after 200 ms → Z
// A ← DATA 2, DATA 3 (a packet each) ← Z;  A → SACK at once → Z
/// §6.2: a SACK for every second packet, or after 200 ms; for the first DATA at once (§5.1).
#[test]
fn acknowledgements_are_delayed() {
    let mut script = established(quiet());
    first_data(&mut script);
    let data = script.data(0, 1, "second");
    script.send(&[data]);
    script.expect_silence();
    script.advance(199 * MS);
    script.expect_silence();
    script.advance(MS);
    assert_eq!(expect_sack(&mut script).cumulative_tsn_ack, script.tsn.minus(1));
    for ssn in [2, 3] {
        script.expect_silence();
        let data = script.data(0, ssn, "more");
        script.send(&[data]);
    }
    assert_eq!(expect_sack(&mut script).cumulative_tsn_ack, script.tsn.minus(1));
    script.expect_silence();
}

// A ← DATA (I) ← Z;  A → SACK at once → Z
/// RFC 7053 §5.2: DATA with the I bit is acknowledged at once.
#[test]
fn the_i_bit_is_answered_at_once() {
    let mut script = established(quiet());
    first_data(&mut script);
    let mut data = script.data(0, 1, "now");
    if let Chunk::Data(data) = &mut data {
        data.immediate = true;
    }
    script.send(&[data]);
    expect_sack(&mut script);
}

// A ← DATA 2 (1 is missing), 5, 2 again ← Z
// A → SACK with gap blocks at once, each time; the duplicate is reported once → Z
/// §6.2, §3.3.4: gaps and duplicates.
#[test]
fn gaps_and_duplicates_are_reported_at_once() {
    let mut script = established(quiet());
    first_data(&mut script);
    let base = script.tsn.minus(1);
    let chunks: Vec<_> = (1..=5).map(|ssn| script.data(0, ssn, "x")).collect();
    let block = |start, end| GapAckBlock { start, end };
    for (index, blocks, duplicates) in [
        (1, vec![block(2, 2)], vec![]),
        (4, vec![block(2, 2), block(5, 5)], vec![]),
        (1, vec![block(2, 2), block(5, 5)], vec![base.plus(2)]),
        (2, vec![block(2, 3), block(5, 5)], vec![]),
    ] {
        script.send(core::slice::from_ref(&chunks[index]));
        let sack = expect_sack(&mut script);
        assert_eq!(sack.cumulative_tsn_ack, base);
        assert_eq!(sack.gap_ack_blocks.iter().collect::<Vec<_>>(), blocks);
        assert_eq!(sack.duplicate_tsns.iter().collect::<Vec<_>>(), duplicates);
    }
    script.send(&[chunks[0].clone(), chunks[3].clone()]);
    let sack = expect_sack(&mut script);
    assert_eq!(sack.cumulative_tsn_ack, base.plus(5));
    assert!(sack.gap_ack_blocks.is_empty());
    assert_eq!(script.association().counters().duplicates_received, 1);
    assert_eq!(script.messages().len(), 6);
}

// A ← DATA ← Z
// A → SACK, DATA → Z
/// §6.2: a delayed SACK is bundled with data.
#[test]
fn a_sack_is_bundled_with_data() {
    let mut script = established(quiet());
    first_data(&mut script);
    let data = script.data(0, 1, "question");
    script.send(&[data]);
    script.expect_silence();
    send(&mut script, 0, 10).expect("send");
    let chunks = script.expect().chunks;
    assert!(
        matches!(chunks[..], [Chunk::Sack(_), Chunk::Data(_)]),
        "{chunks:?}"
    );
}

// A ← DATA ssn 2, ssn 1 (U), … ← Z
/// §6.5, §6.6: ordered messages wait for earlier ones of their stream. Unordered messages and other streams do not.
#[test]
fn ordered_and_unordered_messages() {
    let mut script = established(quiet());
    let first = script.data(1, 0, "a");
    let second = script.data(1, 1, "b");
    let mut third = script.data(1, 0, "c");
    if let Chunk::Data(data) = &mut third {
        data.unordered = true;
        data.ppid = Ppid(0xdead_beef);
    }
    let fourth = script.data(2, 0, "d");
    for chunk in [second, third, fourth, first] {
        script.send(&[chunk]);
    }
    let read: Vec<_> = script.messages();
    let bytes: Vec<_> = read.iter().map(|message| &message.bytes[..]).collect();
    assert_eq!(bytes, [b"c", b"d", b"a", b"b"]);
    assert_eq!((read[0].ppid, read[0].unordered), (Ppid(0xdead_beef), true));
    assert!(!read[2].unordered);
}

// A → DATA (U, PPID) → Z
/// §3.3.1: the flags and the identifier are sent as the application set them. Unordered messages take no SSN.
#[test]
fn options_are_carried() {
    let mut script = established(quiet());
    script.act(|association, now| {
        let options = SendOptions::default()
            .ppid(Ppid(51))
            .unordered(true)
            .immediate(true);
        association
            .send(now, StreamId(4), "x".into(), options)
            .expect("send");
    });
    send(&mut script, 4, 1).expect("send");
    let answer = script.expect();
    let data = answer.data().next().expect("DATA");
    assert_eq!(
        (data.ppid, data.unordered, data.immediate),
        (Ppid(51), true, true)
    );
    let answer = script.expect();
    let data = answer.data().next().expect("DATA");
    assert_eq!(
        (data.ppid, data.unordered, data.immediate, data.ssn.0),
        (Ppid(0), false, false, 0)
    );
}

// A → DATA 0 → Z
// A: 1 and 2 are bundled (Nagle) or leave alone
/// RFC 6458 §8.1.5.
#[test]
fn nagle_and_no_delay() {
    for no_delay in [true, false] {
        let mut config = quiet();
        config.no_delay = no_delay;
        let mut script = established(config);
        for _ in 0..3 {
            send(&mut script, 0, 100).expect("send");
        }
        let packets: Vec<_> = core::iter::from_fn(|| script.next_answer())
            .map(|a| a.data().count())
            .collect();
        if no_delay {
            assert_eq!(packets, [1, 1, 1]);
        } else {
            assert_eq!(packets, [1]);
            let sack = ack(script.endpoint_tsn, 100_000);
            script.send(&[sack]);
            assert_eq!(
                script.expect().data().count(),
                2,
                "together once nothing is outstanding"
            );
        }
    }
}

// A ← SACK (a_rwnd 0) ← Z
// A → DATA (a probe) → Z at once, since the SACK acknowledged new data; then after one RTO, and twice as long each time
// A ← SACK (nothing new, a_rwnd 0) ← Z, for an hour
// A ← SACK (a_rwnd 100,000) ← Z
// A → DATA → Z
/// §6.1 A: a closed window is probed without end while the peer answers, and opens again.
#[test]
fn a_zero_window_for_an_hour() {
    let (mut script, closed) = probed(0, 100);
    assert_eq!(script.association().counters().zero_windows, 1);
    let begin = script.now();
    script.send(core::slice::from_ref(&closed));
    let mut waits = Vec::new();
    while script.now().saturating_duration_since(begin) < 3600 * SECOND {
        waits.push(script.advance_to_timeout());
        while let Some(probe) = script.next_answer() {
            let tsns: Vec<_> = probe.data().map(|data| data.tsn).collect();
            assert_eq!(tsns, [script.endpoint_tsn.next()], "always the same chunk");
            script.send(core::slice::from_ref(&closed));
        }
    }
    assert_eq!(
        waits[..5],
        [1, 2, 4, 8, 16].map(|wait| wait * SECOND),
        "{waits:?}"
    );
    assert_eq!(waits.last(), Some(&(60 * SECOND)));
    assert_eq!(script.association().state(), AssociationState::Established);
    assert_eq!(script.association().stats().paths[0].error_count, 0);
    send(&mut script, 0, 100).expect("send");
    let opened = ack(script.endpoint_tsn.next(), 100_000);
    script.send(&[opened]);
    assert_eq!(
        script.expect().data().next().map(|data| data.tsn),
        Some(script.endpoint_tsn.plus(2))
    );
}

// A ← SACK (all, a_rwnd 8) ← Z
// A → DATA (a full chunk) → Z, at once, and so on
/// For a message larger than its buffer, Linux advertises an a_rwnd of a few bytes, and delivers a part only when the next
/// chunk arrives. With an RTO before each probe (§6.1 A) it would get one buffer per second.
#[test]
fn a_window_of_a_few_bytes_costs_no_rto_while_data_is_acknowledged() {
    for a_rwnd in [0, 8, 1000, 2000] {
        let mut script = established(quiet());
        send(&mut script, 0, 50_000).expect("send");
        let begin = script.now();
        let mut tsns = 0;
        // The first flight fitted the window of the INIT.
        while let Some(packet) = script.next_answer() {
            tsns += packet.data().count() as u32;
        }
        while script.association().stats().queued_bytes > 0 {
            script.send(&[ack(script.endpoint_tsn.plus(tsns).minus(1), a_rwnd)]);
            let probe = script.expect();
            assert_eq!(probe.data().count(), 1);
            assert!(probe.data().all(|data| data.payload.len() > 1000 || data.ending));
            tsns += 1;
            script.expect_silence();
        }
        assert_eq!(script.now(), begin);
    }
}

// A ← SACK (all, a_rwnd 8) ← Z;  A → DATA 1 → Z
// A ← SACK (nothing new, a_rwnd 8) ← Z, many times
// A → nothing, until T3-rtx
/// One chunk at a time, and only after an acknowledgement of new data.
#[test]
fn a_window_update_without_new_acknowledgement_causes_no_probe() {
    let (mut script, closed) = probed(8, 20_000);
    for _ in 0..10 {
        script.send(core::slice::from_ref(&closed));
        script.expect_silence();
    }
    script.advance_to_timeout();
    let tsns: Vec<_> = script.expect().data().map(|data| data.tsn).collect();
    assert_eq!(tsns, [script.endpoint_tsn.next()], "the same one again");
}

// A ← SACK (all, a_rwnd 8) ← Z;  A → DATA 1 → Z
// A ← SACK (nothing new, a_rwnd 8) ← Z;  A → DATA 1 (T3-rtx) → Z, and so on
// A ← SACK (nothing new, a_rwnd 100,000) ← Z
// A → DATA 1, DATA 2, … → Z, at once
/// The peer had no room for the probe. When its window opens, T3-rtx has backed off, and the window must not wait for it.
#[test]
fn a_probe_that_was_dropped_leaves_again_when_the_window_opens() {
    let (mut script, closed) = probed(8, 20_000);
    let probe = script.endpoint_tsn.next();
    for _ in 0..4 {
        script.send(core::slice::from_ref(&closed));
        script.expect_silence();
        script.advance_to_timeout();
        assert_eq!(script.sent_tsns(), [probe], "T3-rtx");
    }
    script.send(core::slice::from_ref(&closed));
    script.expect_silence();
    let cwnd = script.association().stats().paths[0].cwnd;
    let opened = ack(script.endpoint_tsn, 100_000);
    script.send(core::slice::from_ref(&opened));
    let sent = script.sent_tsns();
    assert_eq!(sent.first(), Some(&probe));
    assert!(sent.len() > 1, "and new data with it: {sent:?}");
    assert_eq!(script.association().stats().paths[0].cwnd, cwnd, "no loss");
    script.send(&[opened]);
    script.expect_silence();
}

/// A pair over a fast link, Z with a receive window of 64 KiB.
fn narrow(seed: u64) -> Pair {
    let link = LinkConfig::default().with_rate(1_000_000_000).with_delay(MS);
    let mut pair = Setup::new(seed)
        .path(link)
        .adjust(Side::Z, |config| config.buffers.receive = 64 << 10)
        .connect();
    pair.events(Side::A);
    pair
}

/// §6.9: a message of 16 MiB, sent whole, passes a window of 64 KiB.
#[test]
fn a_large_message_through_a_small_window() {
    let mut pair = narrow(1);
    let mut ledger = Ledger::new(1);
    pair.post(Side::A, [ledger.parcel(2, 16 << 20, false)]);
    pair.run_for(600 * SECOND);
    let messages = pair.messages(Side::Z);
    assert_eq!(messages.len(), 1);
    ledger.check(&messages[0]).expect("as it was sent");
    assert!(
        pair.talker(Side::Z).parts_read > 16 << 5,
        "in parts of at most half the window"
    );
    assert!(pair.events(Side::A).contains(&Event::Dry));
}

/// RFC 6458 §8.1.26: the same message, sent in parts.
#[test]
fn a_large_message_in_parts_through_a_small_window() {
    let mut pair = narrow(2);
    let parts = 16 * 16;
    let mut given = 0_u64;
    let limit = pair.now() + 600 * SECOND;
    let whole = pair.run_to(limit, |pair| {
        let now = pair.now();
        while given < parts {
            let part = Bytes::from(vec![given as u8; 64 << 10]);
            let (options, end) = (SendOptions::default(), given + 1 == parts);
            match pair
                .association_mut(Side::A)
                .send_part(now, StreamId(2), part, options, end)
            {
                Ok(_) => given += 1,
                Err(SendError::BufferFull) => break,
                Err(error) => panic!("{error}"),
            }
        }
        !pair.talker(Side::Z).inbox.is_empty()
    });
    assert!(whole);
    let message = pair.messages(Side::Z).remove(0).bytes;
    assert_eq!(message.len(), 16 << 20);
    assert!(
        message
            .chunks(64 << 10)
            .zip(0_u64..)
            .all(|(part, n)| part.iter().all(|&byte| byte == n as u8))
    );
}

/// §1.6, §6.5: TSN and SSN wrap around in the middle of a transfer.
#[test]
fn tsn_and_ssn_wrap_around() {
    let link = LinkConfig::default().with_rate(1_000_000_000).with_delay(MS);
    let mut pair = Setup::new(3)
        .path(link)
        .adjust_both(|config| config.initial_tsn = Some(Tsn(u32::MAX - 500)))
        .connect();
    let mut ledger = Ledger::new(3);
    let count = 66_000;
    let parcels: Vec<_> = (0..count).map(|_| ledger.parcel(1, 40, false)).collect();
    pair.post(Side::A, parcels);
    let limit = pair.now() + 3600 * SECOND;
    pair.run_to(limit, |pair| {
        for message in pair.messages(Side::Z) {
            ledger.check(&message).expect("in order");
        }
        ledger.arrived() == count
    });
    ledger.check_complete().expect("all of it");
}

// A → DATA (stream 65,534) → Z
/// §3.3.1: the highest stream number.
#[test]
fn the_last_stream() {
    let mut pair = Setup::new(4)
        .adjust_both(|config| config.streams.outbound = u16::MAX)
        .connect();
    assert_eq!(pair.association(Side::A).outbound_streams(), u16::MAX);
    pair.send(Side::A, 65_534, "the last");
    pair.run_ms(100);
    let messages = pair.messages(Side::Z);
    assert_eq!(
        (messages[0].stream, &messages[0].bytes[..]),
        (StreamId(65_534), &b"the last"[..])
    );
}

// A ← DATA (stream 9,999) ← Z
// A → ERROR (Invalid Stream Identifier), and a SACK that acknowledges it → Z
/// §6.5, §3.3.10.1.
#[test]
fn a_stream_that_does_not_exist() {
    let mut config = quiet();
    config.streams.max_inbound = 4;
    let mut script = established(config);
    let data = script.data(4, 0, "lost");
    script.send(&[data]);
    let chunks: Vec<_> = core::iter::from_fn(|| script.next_answer())
        .flat_map(|a| a.chunks)
        .collect();
    let causes = Causes::from_causes(&[Cause::InvalidStreamIdentifier { stream: StreamId(4) }]);
    assert_eq!(chunks[0], Chunk::Error(ErrorChunk { causes }));
    assert!(
        matches!(&chunks[1], Chunk::Sack(sack) if sack.cumulative_tsn_ack == script.tsn.minus(1)),
        "{chunks:?}"
    );
    assert!(script.messages().is_empty());
}

/// The errors of `send`, and the events [`Event::Writable`] and [`Event::Dry`] after them.
#[test]
fn refusals_and_back_pressure() {
    let mut config = quiet();
    config.buffers.send = 3000;
    config.buffers.max_message = 2000;
    let mut script = established(config);
    assert_eq!(send(&mut script, 0, 0), Err(SendError::Empty));
    let limit = SendError::TooLarge {
        size: 2001,
        limit: 2000,
    };
    assert_eq!(send(&mut script, 0, 2001), Err(limit));
    let stream = StreamId(10);
    let refused = send(&mut script, 10, 1).expect_err("there are 10 streams");
    assert_eq!(refused, SendError::InvalidStream { stream, streams: 10 });
    assert_eq!(
        refused.to_string(),
        "stream 10 does not exist: the association has 10 outbound streams"
    );
    script.act(|association, now| {
        let options = SendOptions::default();
        association
            .send_part(now, StreamId(5), "begun".into(), options, false)
            .expect("send");
        let refused = association.send(now, StreamId(5), "x".into(), options);
        assert_eq!(refused, Err(SendError::MessageOpen(StreamId(5))));
        association
            .send_part(now, StreamId(5), Bytes::new(), options, true)
            .expect("its end");
    });
    send(&mut script, 0, 2000).expect("there is room");
    send(&mut script, 0, 2000).expect("there is some room");
    assert_eq!(send(&mut script, 0, 1), Err(SendError::BufferFull));
    let id = script.id().expect("an association");
    let poll = |script: &mut Script| {
        let association = script.host_mut().association_mut(id).expect("it is there");
        core::iter::from_fn(|| association.poll_event()).collect::<Vec<_>>()
    };
    let before = poll(&mut script);
    assert!(!before.contains(&Event::Dry), "{before:?}");
    let count = core::iter::from_fn(|| script.next_answer())
        .map(|a| a.data().count())
        .sum::<usize>();
    let all = ack(script.endpoint_tsn.plus(count as u32).minus(1), 100_000);
    script.send(&[all]);
    assert!(script.events().contains(&Event::Dry));
    send(&mut script, 0, 1).expect("there is room again");
}
