//! The consequences of what a call does: whichever entry point empties the queue, a shutdown, a request that waits for data, and the events
//! of the application follow at once. Calls that fail have none. No event follows `Closed`. T3-rtx runs only while data is in flight.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{
    Association, AssociationState, CloseReason, Config, Event, MultipathMode, PathError, PathId,
    RecoveryRules, Reliability, ResetDirection, RetransmissionPolicy, SchedulerKind, SendError, SendOptions,
    StreamId, StreamSelection, Timestamp, TraceKind, TraceLevel,
};
use anabranch_testkit::fixture::lists;
use anabranch_testkit::{Pair, Script, Setup, Side, quiet, sack};
use anabranch_wire::chunk::kind;
use anabranch_wire::packet::Packet;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn lifetime() -> SendOptions {
    SendOptions::default().reliability(Reliability::Lifetime(10 * MS))
}

fn send(
    of: &mut Association,
    now: Timestamp,
    stream: u16,
    len: usize,
    options: SendOptions,
) -> Result<(), SendError> {
    of.send(now, StreamId(stream), vec![7; len].into(), options)
        .map(drop)
}

fn events(of: &mut Association) -> Vec<Event> {
    core::iter::from_fn(|| of.poll_event()).collect()
}

/// The chunk types of all packets that leave now.
fn leaves(of: &mut Association, now: Timestamp) -> Vec<u8> {
    let mut kinds = Vec::new();
    let mut buffer = Vec::new();
    while let Some(transmit) = of.poll_transmit(now, &mut buffer, 1) {
        let packet = Packet::parse(buffer[buffer.len() - transmit.len..].to_vec().into()).expect("a packet");
        kinds.extend(packet.chunks().map(|raw| raw.expect("a chunk").kind));
    }
    kinds
}

fn script(config: Config) -> Script {
    let mut script = Script::new(config, 1);
    script.set_up_with(lists(&[kind::RE_CONFIG]));
    script.act(|association, _| drop(events(association)));
    script.events();
    script
}

/// A message expires unsent, and the driver asks for packets before it handles the timeout: the shutdown goes on in the same call.
#[test]
fn a_message_dropped_while_packets_are_built_holds_up_no_shutdown() {
    let mut script = script(quiet());
    script.act(|association, now| {
        send(association, now, 0, 100, lifetime()).expect("room");
        association.shutdown(now);
        assert_eq!(association.state(), AssociationState::ShutdownPending);
        assert_eq!(leaves(association, now + SECOND), [kind::SHUTDOWN]);
        assert_eq!(association.state(), AssociationState::ShutdownSent);
    });
}

#[test]
fn a_message_dropped_while_packets_are_built_is_told_and_so_is_dry() {
    let mut script = script(quiet());
    script.act(|association, now| {
        send(association, now, 0, 100, lifetime()).expect("room");
        assert_eq!(leaves(association, now + SECOND), []);
        let events = events(association);
        assert!(
            matches!(events[..], [Event::Abandoned(_), Event::Dry]),
            "{events:?}"
        );
    });
}

#[test]
fn a_message_dropped_while_packets_are_built_makes_room() {
    let mut config = quiet();
    config.buffers.send = 1000;
    config.buffers.stream_shares = false;
    let mut script = script(config);
    script.act(|association, now| {
        send(association, now, 0, 1000, lifetime()).expect("room");
        let refused = send(association, now, 1, 1000, SendOptions::default());
        assert_eq!(refused, Err(SendError::BufferFull));
        assert_eq!(leaves(association, now + SECOND), []);
        assert!(events(association).contains(&Event::Writable(StreamId(1))));
    });
}

#[test]
fn a_reset_waits_for_no_message_that_was_dropped_while_packets_were_built() {
    let mut config = quiet();
    config.reconfiguration.offer = true;
    let mut script = script(config);
    script.act(|association, now| {
        send(association, now, 1, 100, lifetime()).expect("room");
        let streams = StreamSelection::Listed(vec![StreamId(1)]);
        let ask = association.reconfigure(now);
        ask.reset_streams(streams, ResetDirection::Outgoing)
            .expect("supported");
        assert_eq!(leaves(association, now + SECOND), [kind::RE_CONFIG]);
    });
}

/// A message abandoned for another one: a reset of its stream, and the room in the buffer, wait for nothing any more.
#[test]
fn a_message_dropped_for_another_one_has_consequences_too() {
    let mut config = quiet();
    config.reconfiguration.offer = true;
    config.buffers.send = 1000;
    config.buffers.stream_shares = false;
    let mut script = script(config);
    script.act(|association, now| {
        let priority = SendOptions::default().reliability(Reliability::Priority(9));
        send(association, now, 1, 5000, priority).expect("room");
        let ask = association.reconfigure(now);
        let streams = StreamSelection::Listed(vec![StreamId(1)]);
        ask.reset_streams(streams, ResetDirection::Outgoing)
            .expect("supported");
        assert_eq!(
            send(association, now, 2, 100, priority),
            Err(SendError::BufferFull)
        );
        events(association);
        send(association, now, 0, 100, SendOptions::default()).expect("room is made");
        let events = events(association);
        assert!(events.contains(&Event::Writable(StreamId(2))), "{events:?}");
        assert!(leaves(association, now).contains(&kind::RE_CONFIG));
    });
}

/// The rest of a message that was abandoned is dropped: it is no data after which *dry* would have to be told again.
#[test]
fn the_rest_of_an_abandoned_message_is_no_data() {
    let mut script = script(quiet());
    let part = |association: &mut Association, now, end| {
        let sent = association.send_part(now, StreamId(0), vec![7; 10].into(), lifetime(), end);
        sent.expect("it is taken");
    };
    // The Nagle algorithm keeps the message in the queue until it expires.
    script.act(|association, now| {
        send(association, now, 1, 10, SendOptions::default()).expect("it is taken");
        leaves(association, now);
        part(association, now, false);
    });
    script.advance(20 * MS);
    let tsn = script.endpoint_tsn;
    script.send(&[sack(tsn)]);
    script.act(|association, now| {
        assert_eq!(leaves(association, now), []);
        part(association, now, true);
        assert_eq!(leaves(association, now), []);
    });
    let events = script.events();
    assert!(
        matches!(events[..], [Event::Abandoned(_), Event::Dry]),
        "{events:?}"
    );
}

/// Streams of a class that became less urgent leave room for the others.
#[test]
fn a_change_of_class_makes_room() {
    let mut config = quiet();
    config.buffers.send = 100_000;
    config.buffers.stream_shares = true;
    config.scheduler = SchedulerKind::Priority;
    let mut script = script(config);
    script.act(|association, now| {
        for stream in [1, 0] {
            while send(association, now, stream, 1000, SendOptions::default()).is_ok() {}
        }
        assert!(!association.has_room(StreamId(0)));
        events(association);
        association.set_stream_priority(StreamId(1), 1).expect("a stream");
        assert!(association.has_room(StreamId(0)));
        assert_eq!(events(association), [Event::Writable(StreamId(0))]);
    });
}

/// With `discard_hopeless` messages are abandoned only while packets are built.
#[test]
fn a_hopeless_message_holds_up_no_shutdown() {
    let link = LinkConfig::default().with_rate(1_000_000).with_delay(20 * MS);
    let mut pair = Setup::new(1)
        .path(link)
        .adjust_both(|config| {
            *config = quiet();
            config.congestion_control = CongestionControl::Bbr(BbrConfig::default());
            config.partial_reliability.discard_hopeless = true;
        })
        .connect();
    // Long enough for BBR to learn the rate.
    pair.send(Side::A, 0, vec![1; 2_000_000]);
    pair.run_for(30 * SECOND);
    pair.events(Side::A);
    let hopeless = SendOptions::default().reliability(Reliability::Lifetime(500 * MS));
    pair.send_with(Side::A, 0, vec![2; 1 << 20], hopeless);
    pair.shutdown(Side::A);
    let since = pair.now();
    assert!(pair.run_to(since + 400 * SECOND, |pair| pair.state(Side::A)
        == Some(AssociationState::Closed)));
    let took = pair.now().saturating_duration_since(since);
    let events = pair.events(Side::A);
    assert!(
        matches!(
            events[..],
            [
                Event::Abandoned(_),
                Event::Dry,
                Event::Closed(CloseReason::Shutdown)
            ]
        ),
        "{events:?}"
    );
    assert!(took < SECOND, "{took:?}");
}

/// Two paths, the second one so slow that T3-rtx of the first expires before anything is acknowledged over the second.
fn two_paths(change: impl Fn(&mut Config)) -> Pair {
    let link = |delay| LinkConfig::default().with_rate(10_000_000).with_delay(delay);
    let setup = Setup::new(1).path(link(5 * MS)).path(link(300 * MS));
    let mut pair = setup
        .adjust_both(|config| {
            *config = config.clone().with_fast_failover();
            config.heartbeat.interval = Some(60 * SECOND);
            change(config);
        })
        .connect();
    pair.run_for(5 * SECOND);
    pair
}

fn timeouts(pair: &Pair, path: usize) -> u64 {
    pair.association(Side::A).stats().paths[path].timeouts
}

/// An error of a path counts as one timeout: its data takes another path, and T3-rtx does not expire for what is no longer in flight.
#[test]
fn an_unreachable_path_has_no_second_timeout() {
    for rules in [RecoveryRules::RFC9260, RecoveryRules::RACK] {
        let mut pair = two_paths(|config| config.recovery = rules);
        pair.cut(0, true);
        pair.send(Side::A, 0, vec![1; 5000]);
        pair.run_ms(1);
        let now = pair.now();
        pair.association_mut(Side::A)
            .handle_path_error(now, PathId(0), PathError::Unreachable);
        assert_eq!(timeouts(&pair, 0), 1);
        pair.run_ms(500);
        assert_eq!(pair.messages(Side::Z).len(), 1);
        assert_eq!(timeouts(&pair, 0), 1, "{rules:?}");
    }
}

/// A tail loss probe takes the last chunk in flight on a path to another path: T3-rtx of the first path stops.
#[test]
fn a_probe_on_another_path_leaves_no_timer() {
    let mut pair = two_paths(|config| {
        config.recovery = RecoveryRules::RACK;
        config.multipath.mode = MultipathMode::Cmt;
        config.multipath.retransmission = RetransmissionPolicy::SmallestRtt;
    });
    for path in [0, 1, 0, 1] {
        pair.send_with(
            Side::A,
            0,
            vec![1; 100],
            SendOptions::default().path(PathId(path)),
        );
        pair.run_for(SECOND);
    }
    pair.cut(0, true);
    pair.send_with(Side::A, 0, vec![2; 100], SendOptions::default().path(PathId(0)));
    pair.run_ms(1);
    pair.cut(0, false);
    pair.run_for(10 * SECOND);
    let counters = *pair.association(Side::A).counters();
    assert_eq!((counters.tail_loss_probes, counters.timeouts), (1, 0));
    assert_eq!(pair.messages(Side::Z).len(), 5);
}

/// A message that `send` refuses displaces no others.
#[test]
fn a_refused_message_displaces_no_others() {
    let mut config = quiet();
    config.buffers.send = 10_000;
    config.buffers.stream_shares = false;
    let mut script = script(config);
    script.act(|association, now| {
        let part = association.send_part(
            now,
            StreamId(0),
            vec![1; 10].into(),
            SendOptions::default(),
            false,
        );
        part.expect("room");
        let priority = SendOptions::default().reliability(Reliability::Priority(9));
        while send(association, now, 1, 1000, priority).is_ok() {}
        let queued = association.stats().queued_bytes;
        let open = send(association, now, 0, 9000, SendOptions::default());
        assert_eq!(open, Err(SendError::MessageOpen(StreamId(0))));
        let unknown = send(association, now, 10, 9000, SendOptions::default());
        assert!(
            matches!(unknown, Err(SendError::InvalidStream { .. })),
            "{unknown:?}"
        );
        assert_eq!(association.stats().queued_bytes, queued);
        assert_eq!(events(association), []);
        send(association, now, 2, 9000, SendOptions::default())
            .expect("a message that is right displaces them");
    });
}

/// The queued messages of an association that ends are dropped, which tells nothing but that they are undelivered.
#[test]
fn no_event_follows_the_end() {
    let mut script = script(quiet());
    let data = script.data(3, 0, "unread");
    script.talker().reading = false;
    script.send(&[data]);
    script.act(|association, now| {
        let low = association
            .stream(now, StreamId(0))
            .set_buffered_amount_low_threshold(Some(10));
        low.expect("a stream");
        send(association, now, 0, 100, SendOptions::default()).expect("room");
        events(association);
        association.abort(now, "over".into());
        assert_eq!(leaves(association, now), [kind::ABORT]);
        let events = events(association);
        assert!(
            matches!(
                events[..],
                [Event::Undelivered(_), Event::Closed(CloseReason::Aborted)]
            ),
            "{events:?}"
        );
        association.stream(now, StreamId(3)).set_separate(true);
        assert!(association.recv(now).is_none());
        association.stream(now, StreamId(3)).set_separate(false);
        assert_eq!(leaves(association, now), []);
        assert_eq!(association.poll_event(), None);
        assert!(association.recv(now).is_some(), "the message can still be read");
    });
}

/// The trace tells the end of an association whose code panicked.
#[test]
fn the_end_by_a_panic_is_traced() {
    let mut script = script(quiet());
    script.act(|association, now| {
        association.set_tracing(TraceLevel::Events);
        assert_eq!(leaves(association, now), []);
        association.fail();
        assert_eq!(leaves(association, now), [kind::ABORT]);
        let trace: Vec<_> = core::iter::from_fn(|| association.poll_trace()).collect();
        let closed = TraceKind::Closed {
            reason: CloseReason::InternalError,
        };
        assert!(trace.iter().any(|event| event.kind == closed), "{trace:?}");
    });
}
