//! The sender: numbers, stream turns and abandoned messages (RFC 8260 §2.1, §2.2.2, §2.3.1, §3).

use anabranch_proto::Reliability::{Lifetime, Reliable};
use anabranch_proto::{Event, SchedulerKind, SendOptions, StreamId};
use anabranch_testkit::fixture::{Fixture, MS, NEVER_AGAIN};
use anabranch_wire::Ppid;
use anabranch_wire::chunk::{Chunk, IData};

use crate::{begin, begin_with, config};

/// User data that fills a packet of the default PMTU: 4 bytes less than with DATA.
const FULL: usize = anabranch_testkit::fixture::FULL - 4;

fn round_robin() -> Fixture {
    let mut config = config();
    config.scheduler = SchedulerKind::RoundRobin;
    begin_with(config).0
}

// A → I-DATA 0 (0:0.0b), 1 (0:0.1), 2 (0:0.2e), 3 (0:u0.0be), 4 (0:1.0be), 5 (1:0.0be) → Z
/// §2.1: ordered and unordered messages have separate MIDs on each stream. FSNs count fragments. The first fragment has the
/// PPID.
#[test]
fn mids_fsns_and_ppids() {
    let (mut fixture, _) = begin();
    let options = SendOptions::default().ppid(Ppid(51));
    fixture.script.act(|association, now| {
        let message = vec![7; 2 * FULL + 1].into();
        association
            .send(now, StreamId(0), message, options)
            .expect("send");
    });
    let mut chunks: Vec<IData> = Vec::new();
    while let Some(answer) = fixture.script.next_answer() {
        chunks.extend(answer.chunks.into_iter().filter_map(|chunk| match chunk {
            Chunk::IData(data) => Some(data),
            _ => None,
        }));
    }
    let lens: Vec<_> = chunks
        .iter()
        .map(|data| (data.payload.len(), data.ppid.0, data.fsn.0))
        .collect();
    assert_eq!(lens, [(FULL, 51, 0), (FULL, 0, 1), (1, 0, 2)]);
    for (stream, unordered) in [(0, true), (0, false), (1, false), (0, true)] {
        fixture.send_on(stream, 1000, Reliable, unordered);
    }
    let expected = [
        "I-DATA 3 (0:u0.0be)",
        "I-DATA 4 (0:1.0be)",
        "I-DATA 5 (1:0.0be)",
        "I-DATA 6 (0:u1.0be)",
    ];
    assert_eq!(fixture.sent(), expected);
}

// A → I-DATA 0 (0:0.0b), 1 (1:0.0b), 2 (0:0.1), 3 (1:0.1), 4 (0:0.2e), 5 (1:0.2e) → Z
/// §3.2: streams take turns fragment by fragment. Messages of one stream follow each other (§2.2.2).
#[test]
fn streams_take_turns() {
    let mut fixture = round_robin();
    fixture.script.act(|association, now| {
        for stream in [0, 1, 1] {
            let message = vec![7; 2 * FULL + 1000].into();
            let options = SendOptions::default();
            association
                .send(now, StreamId(stream), message, options)
                .expect("send");
        }
    });
    let expected = [
        "I-DATA 0 (0:0.0b)",
        "I-DATA 1 (1:0.0b)",
        "I-DATA 2 (0:0.1)",
        "I-DATA 3 (1:0.1)",
        "I-DATA 4 (0:0.2e)",
        "I-DATA 5 (1:0.2e), I-DATA 6 (1:1.0b)",
        "I-DATA 7 (1:1.1)",
        "I-DATA 8 (1:1.2)",
        "I-DATA 9 (1:1.3e)",
    ];
    assert_eq!(fixture.sent(), expected);
}

// A → I-DATA 0 (1:0.0b), 1 (1:0.1), … the window is full;  an urgent message is given;  A → I-DATA 40 (0:0.0be) → Z
/// §3.4: a large message does not delay a more urgent one that is sent later.
#[test]
fn an_urgent_message_overtakes_a_large_one() {
    let mut config = config();
    config.scheduler = SchedulerKind::Priority;
    config.buffers.send = 4 << 20;
    let (mut fixture, _) = begin_with(config);
    fixture.script.act(|association, now| {
        association
            .set_stream_priority(StreamId(1), 5)
            .expect("priorities");
        let message = vec![7; 1 << 20].into();
        association
            .send(now, StreamId(1), message, SendOptions::default())
            .expect("send");
    });
    let sent = fixture.sent().len() as u32;
    assert!(sent < 60, "the window holds {sent}");
    fixture.send_on(0, 100, Reliable, false);
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.nr_sack(2, &[], &[]);
    let next = fixture.sent();
    assert!(
        next[0].starts_with(&format!("I-DATA {sent} (0:0.0be)")),
        "{next:?}"
    );
}

// A → I-DATA 0 (0:0.0b), 1 (1:0.0b), 2 (0:0.1), 3 (1:0.1), 4 (0:0.2e), 5 (1:0.2e);  0 is lost and abandoned
// A → I-FORWARD-TSN 4 (0:0) → Z
/// RFC 3758 §3.5 A3, RFC 8260 §2.3.1: all fragments of a message are abandoned together, wherever their TSNs are. Fragments of
/// other messages between them are passed only once they are non-renegable.
#[test]
fn a_message_is_abandoned_whole() {
    let mut fixture = round_robin();
    fixture.script.act(|association, now| {
        for (stream, reliability) in [(0, NEVER_AGAIN), (1, Reliable)] {
            let options = SendOptions::default().reliability(reliability);
            let message = vec![7; 2 * FULL + 1000].into();
            association
                .send(now, StreamId(stream), message, options)
                .expect("send");
        }
    });
    fixture.sent();
    fixture.nr_sack(0, &[], &[(1, 1)]);
    fixture.nr_sack(0, &[], &[(1, 1), (3, 3)]);
    fixture.nr_sack(0, &[], &[(1, 1), (3, 3), (5, 5)]);
    assert_eq!(fixture.abandoned(), [(0, true)]);
    assert_eq!(
        fixture.script.association().stats().outstanding_bytes,
        FULL + 1000,
        "only 2 and 4 may still come"
    );
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["I-FORWARD-TSN 4 (0:0)"]);
}

// A → I-DATA 0 (0:0.0b), 1 (1:0.0b), 2 (0:0.1), 3 (1:0.1), 4 (0:0.2e), 5 (1:0.2e);  0 is lost, and message 0 abandoned
// A ← NR-SACK of 1, 2, 4, 5;  A → I-FORWARD-TSN 2 (0:0);  A → I-DATA 3 (1:0.1), lost too → Z
/// A message is passed once none of its fragments is in flight: usrsctp treats a fragment that arrives later as a violation.
#[test]
fn not_passed_while_a_fragment_is_in_flight() {
    let mut fixture = round_robin();
    fixture.script.act(|association, now| {
        for (stream, reliability) in [(0, NEVER_AGAIN), (1, Reliable)] {
            let options = SendOptions::default().reliability(reliability);
            let message = vec![7; 2 * FULL + 1000].into();
            association
                .send(now, StreamId(stream), message, options)
                .expect("send");
        }
    });
    fixture.send_on(2, FULL, Reliable, false);
    fixture.sent();
    fixture.nr_sack(0, &[], &[(1, 1)]);
    fixture.nr_sack(0, &[], &[(1, 1), (5, 5)]);
    fixture.nr_sack(0, &[], &[(1, 1), (5, 6)]);
    assert_eq!(fixture.abandoned(), [(0, true)]);
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.nr_sack(0, &[], &[(1, 2), (4, 6)]);
    assert_eq!(fixture.sent(), ["I-FORWARD-TSN 2 (0:0)", "I-DATA 3 (1:0.1)"]);
}

/// Each stream is listed with its highest abandoned ordered message and its highest abandoned unordered message, in separate
/// entries.
#[test]
fn the_highest_abandoned_messages_of_each_stream_are_listed() {
    let (mut fixture, _) = begin();
    for (stream, unordered) in [(1, false), (1, true), (1, true), (2, true), (1, false)] {
        fixture.send_on(stream, FULL, NEVER_AGAIN, unordered);
    }
    fixture.send_on(3, FULL, Reliable, false);
    fixture.sent();
    fixture.nr_sack(0, &[], &[(5, 5)]);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["I-FORWARD-TSN 4 (1:1 1:u1 2:u0)"]);
}

// A → I-DATA 0 (0:0.0b), 1 (1:0.0b), … of a message with a lifetime and of another;  time passes
// A ← NR-SACK of all;  A → I-FORWARD-TSN of the TSN that was never sent, and the other's fragments → Z
/// A message that is abandoned half-sent ends in a TSN that is never sent, and delays no other message.
#[test]
fn a_half_sent_message_ends_in_a_tsn_never_sent() {
    let mut fixture = round_robin();
    fixture.script.act(|association, now| {
        for (stream, reliability) in [(0, Lifetime(50 * MS)), (1, Reliable)] {
            let options = SendOptions::default().reliability(reliability);
            let message = vec![7; 100 * FULL].into();
            association
                .send(now, StreamId(stream), message, options)
                .expect("send");
        }
    });
    let sent = fixture.sent().len() as u32;
    fixture.script.advance(60 * MS);
    assert_eq!(fixture.abandoned(), [(0, true)]);
    assert_eq!(fixture.sent(), [""; 0], "what is in flight may still come");
    for acked in 1..sent {
        fixture.nr_sack(acked, &[], &[]);
    }
    assert_eq!(fixture.counters().forward_tsns_sent, 0);
    fixture.sent();
    fixture.nr_sack(sent, &[], &[]);
    assert!(fixture.sent()[0].starts_with(&format!("I-FORWARD-TSN {sent} (0:0)")));
    // The next message of the stream has the next MID.
    fixture.send_on(0, 100, Reliable, false);
    let used = fixture.counters().data_chunks_sent as u32 + 1;
    fixture.nr_sack(used, &[], &[]);
    let next = fixture.sent();
    assert!(next.iter().any(|packet| packet.contains("(0:1.0be)")), "{next:?}");
}

// A → a hundred messages on as many streams, all lost and abandoned;  A → I-FORWARD-TSNs that fit their packets → Z
/// RFC 3758 §3.5 C4: if the list is too long, the I-FORWARD-TSN advances less far.
#[test]
fn a_list_fits_a_packet() {
    let mut config = config();
    config.streams.outbound = 300;
    config.path_mtu = 576;
    config.initial_window = Some(400);
    config.max_burst = 1000;
    let mut fixture = Fixture::with_streams_of(config, 300, &crate::ALL);
    for stream in 0..150 {
        fixture.send_on(stream, 500, NEVER_AGAIN, false);
    }
    fixture.sent();
    fixture.script.advance_to_timeout();
    let sent = fixture.sent();
    let entries = |packet: &String| packet.matches(':').count() as u32;
    assert_eq!(sent.len(), 1);
    let listed = entries(&sent[0]);
    assert!((50..75).contains(&listed), "{listed} in 576 bytes");
    fixture.nr_sack(listed, &[], &[]);
    assert!(fixture.sent()[0].starts_with("I-FORWARD-TSN"));
}

/// A burst has at most what the window allows in a millisecond, or in the configured time, but at least one packet. More urgent
/// messages wait for no more than that.
#[test]
fn bursts_are_bounded() {
    for (burst_time, datagrams) in [(MS, 1..=1), (50 * MS, 10..=25)] {
        let mut config = config();
        config.burst_time = burst_time;
        let (mut fixture, _) = begin_with(config);
        let unknown = fixture.script.association().burst_limit();
        assert!(
            unknown.datagrams > 1000,
            "no round trip was measured: {unknown:?}"
        );
        fixture.send(&[Reliable], 1000);
        fixture.script.advance(100 * MS);
        fixture.nr_sack(1, &[], &[]);
        let limit = fixture.script.association().burst_limit();
        assert!(datagrams.contains(&limit.datagrams), "{limit:?}");
        assert!(limit.bytes >= 1252 && limit.bytes < 50_000, "{limit:?}");
    }
}

/// The application is told once that a message was not delivered, even if fragments of others lie between its fragments.
#[test]
fn an_abandoned_message_is_reported_once() {
    let mut fixture = round_robin();
    fixture.script.act(|association, now| {
        for stream in [0, 1] {
            let message = vec![7; 200 * FULL].into();
            let options = SendOptions::default();
            association
                .send(now, StreamId(stream), message, options)
                .expect("send");
        }
    });
    fixture
        .script
        .act(|association, now| association.abort(now, "enough".into()));
    let told = fixture
        .script
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Undelivered(undelivered) => Some((undelivered.message.0, undelivered.sent)),
            _ => None,
        });
    assert_eq!(told.collect::<Vec<_>>(), [(0, true), (1, true)]);
}

// A → I-DATA 0, acknowledged after 40 ms;  A → I-DATA 1 (0:1.0b), 2 (0:1.1), 3 (0:1.2e), sent once → lost
// A → I-FORWARD-TSN 3 (0:1) when the probe timeout expires
/// RFC 8985 §7.3 with RFC 8260: no fragment may be retransmitted. All count as lost, so that the point can pass the message.
#[test]
fn a_forward_tsn_is_the_probe_of_a_message_of_several_fragments() {
    let mut config = config();
    config.recovery = anabranch_proto::RecoveryRules::RACK;
    let (mut fixture, _) = begin_with(config);
    fixture.send_on(0, FULL, Reliable, false);
    fixture.script.advance(40 * MS);
    fixture.sack(1, &[]);
    fixture.send_on(0, 3 * FULL, NEVER_AGAIN, false);
    assert_eq!(fixture.sent().len(), 4);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["I-FORWARD-TSN 3 (0:1)"]);
    assert_eq!(fixture.counters().timeouts, 0);
}
