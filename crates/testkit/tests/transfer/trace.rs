//! The trace of an association: it agrees with the counters, and names a cause for each late message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, Probability, QueueLimit};
use anabranch_proto::{
    AbandonReason, AssociationState, Blocked, Config, CopyWait, LossRule, MessageId, Reliability,
    SchedulerKind, SendOptions, StreamId, Timestamp, TraceEvent, TraceKind, TraceLevel,
};
use anabranch_testkit::{Ledger, Pair, Setup, Side};
use bytes::Bytes;

const DELAY: Duration = Duration::from_millis(20);

fn lossy(percent: f64) -> LinkConfig {
    LinkConfig::default()
        .with_delay(DELAY)
        .with_rate(5_000_000)
        .with_queue(QueueLimit::Bytes(64_000))
        .with_loss(LossModel::Bernoulli(Probability::percent(percent)))
}

fn traced(setup: Setup) -> Pair {
    let mut pair = setup.build();
    for side in Side::BOTH {
        pair.host_mut(side).set_tracing(TraceLevel::Packets);
    }
    pair.establish();
    pair
}

fn trace(pair: &mut Pair, side: Side) -> Vec<TraceEvent> {
    let events = pair.host_mut(side).take_trace();
    events.into_iter().map(|(_, event)| event).collect()
}

fn count(events: &[TraceEvent], is: impl Fn(&TraceKind) -> bool) -> u64 {
    events.iter().filter(|event| is(&event.kind)).count() as u64
}

fn setups() -> Vec<(&'static str, Config)> {
    let mut sequential = Config::default();
    sequential.interleaving.offer = false;
    let mut eca = Config::default();
    eca.multipath.mode = anabranch_proto::MultipathMode::Eca;
    let named = [
        ("defaults", Config::default()),
        ("RFC 9260", Config::rfc9260()),
        ("DATA", sequential),
        ("ECA-SCTP", eca),
    ];
    named.into()
}

#[test]
fn events_agree_with_the_counters() {
    for (name, config) in setups() {
        let mut pair = traced(Setup::new(5).path(lossy(5.0)).config(config));
        let mut ledger = Ledger::new(1).with_expendable(3);
        let parcels: Vec<_> = (0..400).map(|_| ledger.random_parcel(4, 6_000)).collect();
        pair.post(Side::A, parcels);
        pair.run_for(Duration::from_secs(120));
        let counters = *pair.association(Side::A).counters();
        let of_z = *pair.association(Side::Z).counters();
        let [a, z] = Side::BOTH.map(|side| trace(&mut pair, side));
        let sent = |again: bool| move |kind: &TraceKind| matches!(kind, TraceKind::DataSent { cause, .. } if cause.is_some() == again);
        let again = count(&a, sent(true));
        assert_eq!(
            again + count(&a, sent(false)),
            counters.data_chunks_sent + counters.early_copies,
            "{name}"
        );
        let retransmissions = counters.retransmissions_fast + counters.retransmissions_timeout;
        assert_eq!(again, retransmissions + counters.early_copies, "{name}");
        assert!(again > 0, "{name}");
        let is = |of: fn(&TraceKind) -> bool| count(&a, of);
        assert_eq!(
            is(|kind| matches!(kind, TraceKind::T3Expired { .. })),
            counters.timeouts,
            "{name}"
        );
        let probes = is(|kind| matches!(kind, TraceKind::ProbeTimeout { .. }));
        assert_eq!(probes, counters.tail_loss_probes, "{name}");
        let undone = is(|kind| matches!(kind, TraceKind::ReductionUndone { .. }));
        assert_eq!(undone, counters.reductions_undone, "{name}");
        let abandoned = is(|kind| matches!(kind, TraceKind::MessageAbandoned { .. }));
        assert_eq!(
            abandoned,
            counters.abandoned_sent + counters.abandoned_unsent,
            "{name}"
        );
        assert!(abandoned > 0, "{name}");
        let messages = is(|kind| matches!(kind, TraceKind::MessageQueued { end: true, .. }));
        assert_eq!(messages, counters.messages_sent, "{name}");
        let done = is(|kind| matches!(kind, TraceKind::MessageAcknowledged { .. }));
        assert_eq!(done + abandoned, messages, "{name}");
        let packets = is(|kind| matches!(kind, TraceKind::PacketReceived { .. }));
        assert_eq!(packets, counters.packets_received, "{name}");
        let is = |of: fn(&TraceKind) -> bool| count(&z, of);
        let received = is(|kind| matches!(kind, TraceKind::DataReceived { .. }));
        assert_eq!(received, of_z.data_chunks_received, "{name}");
        let duplicates = is(|kind| matches!(kind, TraceKind::DataReceived { new: false, .. }));
        assert_eq!(duplicates, of_z.duplicates_received, "{name}");
        let delivered = is(|kind| matches!(kind, TraceKind::MessageDelivered { .. }));
        assert_eq!(delivered, of_z.messages_received, "{name}");
        assert_eq!(
            is(|kind| matches!(kind, TraceKind::AckSent { .. })),
            of_z.sacks_sent,
            "{name}"
        );
        let blocked = is(|kind| matches!(kind, TraceKind::MessageBlocked { .. }));
        let waited = |kind: &TraceKind| matches!(kind, TraceKind::MessageDelivered { blocked, .. } if !blocked.is_zero());
        assert_eq!(blocked, count(&z, waited), "{name}");
        assert!(blocked > 10, "{name}");
    }
}

#[test]
fn each_chunk_is_lost_before_it_is_retransmitted() {
    for (name, config) in setups() {
        let mut pair = traced(Setup::new(6).path(lossy(10.0)).config(config));
        let mut ledger = Ledger::new(2);
        let parcels: Vec<_> = (0..200).map(|_| ledger.random_parcel(4, 3_000)).collect();
        pair.post(Side::A, parcels);
        pair.run_for(Duration::from_secs(120));
        let mut lost = BTreeMap::new();
        let mut transmissions: BTreeMap<u32, u32> = BTreeMap::new();
        for event in trace(&mut pair, Side::A) {
            match event.kind {
                TraceKind::ChunkLost {
                    tsn,
                    rule,
                    transmission,
                    ..
                } => {
                    assert_eq!(transmissions.get(&tsn.0), Some(&transmission), "{name}");
                    lost.insert(tsn.0, rule);
                }
                TraceKind::DataSent {
                    tsn,
                    cause,
                    transmission,
                    ..
                } => {
                    assert_eq!(lost.remove(&tsn.0), cause, "{name}: TSN {}", tsn.0);
                    let count = transmissions.entry(tsn.0).or_default();
                    *count += 1;
                    assert_eq!(*count, transmission, "{name}: TSN {}", tsn.0);
                }
                _ => {}
            }
        }
    }
}

/// A message that was delivered late, and what the traces say about it.
fn causes(pair: &mut Pair, late: Duration) -> BTreeMap<MessageId, BTreeSet<&'static str>> {
    let [a, z] = Side::BOTH.map(|side| trace(pair, side));
    let mut queued: BTreeMap<MessageId, Timestamp> = BTreeMap::new();
    let mut first: BTreeMap<u32, MessageId> = BTreeMap::new();
    let mut found: BTreeMap<MessageId, BTreeSet<&'static str>> = BTreeMap::new();
    for event in &a {
        match event.kind {
            TraceKind::MessageQueued { message, .. } => {
                queued.insert(message, event.at);
            }
            TraceKind::DataSent {
                tsn,
                message,
                waited,
                beginning,
                ..
            } => {
                if beginning {
                    first.insert(tsn.0, message);
                }
                if waited.is_some_and(|waited| waited > Duration::from_millis(5)) {
                    found.entry(message).or_default().insert("queue");
                }
            }
            TraceKind::ChunkLost { message, .. } => {
                found.entry(message).or_default().insert("loss");
            }
            _ => {}
        }
    }
    let mut late_messages = BTreeMap::new();
    for event in &z {
        if let TraceKind::MessageDelivered {
            tsn: Some(tsn),
            blocked,
            ..
        } = event.kind
        {
            let message = first[&tsn.0];
            if !blocked.is_zero() {
                found.entry(message).or_default().insert("head-of-line blocking");
            }
            if event.at.saturating_duration_since(queued[&message]) > late {
                late_messages.insert(message, found.remove(&message).unwrap_or_default());
            }
        }
    }
    late_messages
}

#[test]
fn each_late_message_has_a_cause() {
    let config = Config::default();
    let mut pair = traced(Setup::new(7).path(lossy(3.0)).config(config));
    for number in 0..1_500_u16 {
        pair.send(Side::A, number % 3, Bytes::from(vec![0; 400]));
        pair.run_ms(4);
    }
    pair.run_for(Duration::from_secs(10));
    let late = causes(&mut pair, DELAY + Duration::from_millis(15));
    assert!(late.len() > 20, "{}", late.len());
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (message, causes) in &late {
        assert!(
            !causes.is_empty(),
            "message {} is late without a cause",
            message.0
        );
        seen.extend(causes);
    }
    assert!(
        seen.contains("loss") && seen.contains("head-of-line blocking"),
        "{seen:?}"
    );
}

/// The second chunk of a packet is not reported as waiting for the first one.
#[test]
fn a_missing_chunk_is_missing_after_the_packet() {
    let mut pair = traced(Setup::new(12).path(lossy(5.0)));
    for number in 0..300_u16 {
        pair.send(Side::A, number % 3, Bytes::from(vec![0; 400]));
        pair.send(Side::A, number % 3, Bytes::from(vec![0; 400]));
        pair.run_ms(8);
    }
    pair.run_for(Duration::from_secs(10));
    let mut packet = Vec::new();
    let mut gaps = 0;
    for event in trace(&mut pair, Side::Z) {
        match event.kind {
            TraceKind::PacketReceived { chunks, .. } => packet = chunks,
            TraceKind::DataReceived {
                missing: Some(missing),
                ..
            } => {
                gaps += 1;
                assert!(packet.iter().all(|chunk| chunk.tsn != Some(missing)));
            }
            _ => {}
        }
    }
    assert!(gaps > 10, "{gaps}");
}

#[test]
fn a_full_queue_and_a_small_window_are_causes() {
    let slow = LinkConfig::default().with_delay(DELAY).with_rate(1_000_000);
    let mut pair = traced(Setup::new(8).path(slow));
    for _ in 0..100 {
        pair.send(Side::A, 0, Bytes::from(vec![0; 1_000]));
    }
    pair.run_for(Duration::from_secs(10));
    let events = trace(&mut pair, Side::A);
    let waits = |reason: fn(&Blocked) -> bool| {
        count(
            &events,
            |kind| matches!(kind, TraceKind::SendingWaits { reason: wait } if reason(wait)),
        )
    };
    assert!(waits(|wait| matches!(wait, Blocked::CongestionWindow | Blocked::Pacer(_))) > 0);
    let last = events.iter().rev().find_map(|event| match event.kind {
        TraceKind::DataSent { waited, .. } => waited,
        _ => None,
    });
    assert!(last.expect("data was sent") > Duration::from_millis(500));
}

/// Less urgent data that waits behind the sender's own delay bound does not wait for the peer's window.
#[test]
fn the_delay_bound_is_a_cause() {
    let slow = LinkConfig::default().with_delay(DELAY).with_rate(1_000_000);
    let setup = Setup::new(8).path(slow).adjust_both(|config| {
        config.scheduler = SchedulerKind::Priority;
        config.low_priority_delay = Some(Duration::from_millis(5));
    });
    let mut pair = traced(setup);
    let association = pair.association_mut(Side::A);
    association.set_stream_priority(StreamId(1), 1).expect("a stream");
    for _ in 0..300 {
        pair.send(Side::A, 1, Bytes::from(vec![0; 1_000]));
    }
    pair.run_for(Duration::from_secs(10));
    let events = trace(&mut pair, Side::A);
    let waits = |wanted| {
        count(
            &events,
            |kind| matches!(kind, TraceKind::SendingWaits { reason } if *reason == wanted),
        )
    };
    assert!(waits(Blocked::DelayBound) > 0);
    assert_eq!(waits(Blocked::ReceiveWindow), 0);
}

#[test]
fn the_states_the_paths_and_the_end_are_told() {
    let mut pair = traced(Setup::new(9));
    pair.send(Side::A, 0, "hello");
    pair.run_ms(500);
    pair.shutdown(Side::A);
    pair.run_for(Duration::from_secs(5));
    let states = |events: &[TraceEvent]| -> Vec<AssociationState> {
        let to = |event: &TraceEvent| match event.kind {
            TraceKind::StateChanged { to, .. } => Some(to),
            _ => None,
        };
        events.iter().filter_map(to).collect()
    };
    let events = trace(&mut pair, Side::A);
    assert_eq!(
        states(&events),
        [
            AssociationState::CookieWait,
            AssociationState::CookieEchoed,
            AssociationState::Established,
            AssociationState::ShutdownSent,
            AssociationState::Closed
        ]
    );
    assert_eq!(
        count(&events, |kind| matches!(kind, TraceKind::Negotiated { .. })),
        1
    );
    assert_eq!(count(&events, |kind| matches!(kind, TraceKind::Closed { .. })), 1);
    assert!(count(&events, |kind| matches!(kind, TraceKind::PathChanged { .. })) >= 2);
    assert!(count(&events, |kind| matches!(kind, TraceKind::PathMetrics(_))) >= 2);
    assert!(
        events.windows(2).all(|pair| pair[0].at <= pair[1].at),
        "time does not run backwards"
    );
}

#[test]
fn abandoned_messages_have_their_reasons() {
    let mut pair = traced(Setup::new(10));
    pair.cut(0, true);
    let reliabilities = [
        (Reliability::Retransmissions(0), AbandonReason::Retransmissions),
        (
            Reliability::Lifetime(Duration::from_millis(100)),
            AbandonReason::Lifetime,
        ),
    ];
    for (stream, (reliability, _)) in (0..).zip(reliabilities) {
        let options = SendOptions::default().reliability(reliability);
        pair.send_with(Side::A, stream, vec![0; 100], options);
    }
    pair.run_for(Duration::from_secs(3));
    pair.cut(0, false);
    pair.run_for(Duration::from_secs(20));
    let events = trace(&mut pair, Side::A);
    for (stream, (_, wanted)) in (0..).map(StreamId).zip(reliabilities) {
        let is = |kind: &TraceKind| matches!(kind, TraceKind::MessageAbandoned { stream: of, reason, sent: true, .. } if *of == stream && *reason == wanted);
        assert_eq!(count(&events, is), 1, "{wanted:?}");
    }
    let by_timer = |kind: &TraceKind| {
        let rule = match kind {
            TraceKind::ChunkLost { rule, .. } => *rule,
            _ => return false,
        };
        matches!(
            rule,
            LossRule::T3Rtx | LossRule::TailLossProbe | LossRule::ProbeTimeout
        )
    };
    assert!(count(&events, by_timer) >= 2);
}

#[test]
fn the_oldest_events_are_dropped_and_counted() {
    // Each message of a byte takes some 230 bytes of the send buffer.
    let setup = Setup::new(11).adjust_both(|config| config.buffers.send = 32 << 20);
    let mut pair = setup.connect();
    pair.association_mut(Side::A).set_tracing(TraceLevel::Events);
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    let mut refused = 0;
    for number in 0..70_000_u32 {
        let sent = association.send(now, StreamId(0), Bytes::from_static(b"x"), SendOptions::default());
        refused += u32::from(sent.is_err());
        let _ = number;
    }
    assert_eq!(refused, 0, "one byte each");
    let first = association.poll_trace().expect("an event");
    let TraceKind::EventsDropped { count } = first.kind else {
        panic!("{first:?}");
    };
    let mut left = 0;
    while let Some(event) = association.poll_trace() {
        assert!(!matches!(event.kind, TraceKind::EventsDropped { .. }));
        left += 1;
    }
    assert_eq!(left, 65_536);
    assert!((4_464..4_480).contains(&count), "{count}");
}

/// A link of 20 ms each way, that loses a part of the packets.
fn link_of_game(rate: u64, percent: f64) -> LinkConfig {
    LinkConfig::default()
        .with_delay(DELAY)
        .with_rate(rate)
        .with_queue(QueueLimit::Bytes(64_000))
        .with_loss(LossModel::Bernoulli(Probability::percent(percent)))
}

/// Sends messages with a deadline, 60 a second, for some seconds. Returns the events of the sender.
fn events_of_game(link: LinkConfig, bytes: usize, seconds: u32) -> (Pair, Vec<TraceEvent>) {
    let mut pair = traced(Setup::new(13).path(link));
    for _ in 0..60 * seconds {
        let options = SendOptions::default().deadline(Duration::from_millis(60));
        pair.send_with(Side::A, 0, vec![0; bytes], options);
        pair.run_for(Duration::from_secs(1) / 60);
    }
    pair.run_for(Duration::from_secs(2));
    let events = trace(&mut pair, Side::A);
    (pair, events)
}

#[test]
fn the_repair_chunks_of_a_large_message_are_told() {
    let (pair, events) = events_of_game(link_of_game(10_000_000, 5.0), 4_000, 10);
    let mut all = 0;
    for event in &events {
        if let TraceKind::RepairsPlanned {
            fragments,
            left,
            failure,
            repairs,
            ..
        } = event.kind
        {
            assert!((0.0..=1.0).contains(&failure), "{failure}");
            assert!((3..=4).contains(&fragments) && repairs <= fragments);
            assert!(left <= Duration::from_millis(60), "{left:?}");
            all += repairs as u64;
        }
    }
    let sent = pair.association(Side::A).counters().repair_chunks;
    assert!(sent > 0 && sent <= all, "{sent} of {all}");
}

#[test]
fn the_estimate_and_each_copy_of_a_message_with_a_deadline_are_told() {
    let (mut pair, events) = events_of_game(link_of_game(2_000_000, 5.0), 200, 20);
    let mut planned: BTreeMap<u32, u8> = BTreeMap::new();
    let mut copied: BTreeMap<u32, u32> = BTreeMap::new();
    let mut of_messages = 0;
    for event in &events {
        match event.kind {
            TraceKind::CopiesPlanned {
                tsn,
                left,
                arrives,
                failure,
                copies,
                ..
            } => {
                assert!((0.0..=1.0).contains(&failure), "{failure}");
                assert!(left <= Duration::from_millis(60), "{left:?}");
                assert!(arrives >= DELAY || planned.len() < 3, "{arrives:?}");
                assert_eq!(planned.insert(tsn.0, copies), None, "once for each chunk");
            }
            TraceKind::DataSent {
                tsn,
                copy: Some(copy),
                cause,
                ..
            } => {
                assert_eq!(cause, Some(LossRule::EarlyCopy));
                let before = copied.insert(tsn.0, copy).unwrap_or_default();
                assert_eq!(copy, before + 1, "TSN {}", tsn.0);
            }
            TraceKind::MessageAcknowledged { copies, .. } => of_messages += u64::from(copies),
            _ => {}
        }
    }
    assert_eq!(planned.len(), 20 * 60);
    let counters = *pair.association_mut(Side::A).counters();
    let sum: u32 = copied.values().sum();
    assert_eq!(u64::from(sum), counters.early_copies);
    assert!(of_messages > counters.early_copies * 9 / 10, "{of_messages}");
    assert!(copied.iter().all(|(tsn, copies)| *copies <= planned[tsn].into()));
    assert!(sum > 20 * 60, "{sum}: at a loss of 5 % a message needs two");
}

#[test]
fn copies_that_do_not_leave_have_a_reason() {
    let reasons = |rate, bytes| -> Vec<_> {
        let (_, events) = events_of_game(link_of_game(rate, 5.0), bytes, 20);
        let reason = |event: &TraceEvent| match event.kind {
            TraceKind::CopyWaits { reason, .. } => Some(reason),
            _ => None,
        };
        events.iter().filter_map(reason).collect()
    };
    // With its copies, data would take more than the link carries.
    let busy = reasons(900_000, 1_000);
    assert!(busy.contains(&CopyWait::Room), "{busy:?}");
    // Data takes nearly all that the link carries. (Of more data, only what will be in time leaves, and no queue stands.)
    let full = reasons(2_000_000, 3_400);
    assert!(full.contains(&CopyWait::Pause), "{full:?}");
}
