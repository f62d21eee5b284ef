//! T5-shutdown-guard (RFC 9260 §9.2): it bounds the time until an association ends, whatever the peer does. docs/LIMITS.md,
//! section *Ends*, states the bound.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{
    AssociationState as State, CloseReason, Config, Event, SendOptions, StreamId, Tsn, VerificationTag,
};
use anabranch_testkit::{Ledger, Pair, Script, Setup, Side, quiet, shutdown_chunk, state_cookie};
use anabranch_wire::chunk::{Chunk, CookieEcho, GapAckBlocks, Heartbeat, Init, Sack, TsnList};
use anabranch_wire::parameter::Parameters;
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);
const ZERO: VerificationTag = VerificationTag(0);
/// T5-shutdown-guard in these tests.
const GUARD: Duration = Duration::from_secs(20);

fn config() -> Config {
    let mut config = quiet();
    config.rto.max = 4 * SECOND;
    config.shutdown_guard = Some(GUARD);
    config
}

fn send(script: &mut Script, count: usize, len: usize) {
    script.act(|association, now| {
        for _ in 0..count {
            association
                .send(now, StreamId(0), vec![1; len].into(), SendOptions::default())
                .expect("send");
        }
    });
}

fn begin_shutdown(script: &mut Script) {
    script.act(|association, now| association.shutdown(now));
}

fn is_closed(script: &mut Script) -> bool {
    script.association().state() == State::Closed
}

/// The TSN of the last DATA that the endpoint has sent since the last call.
fn last_data(script: &mut Script) -> Option<Tsn> {
    let answers: Vec<_> = core::iter::from_fn(|| script.next_answer()).collect();
    answers
        .iter()
        .flat_map(|answer| answer.data())
        .map(|data| data.tsn)
        .last()
}

fn acknowledge(script: &mut Script, cumulative_tsn_ack: Tsn, a_rwnd: u32) {
    script.send(&[Chunk::Sack(Sack {
        cumulative_tsn_ack,
        a_rwnd,
        gap_ack_blocks: GapAckBlocks::default(),
        duplicate_tsns: TsnList::default(),
    })]);
}

/// The peer restarts, with this tag.
fn restart(script: &mut Script, tag: u32) {
    let init = Init {
        initiate_tag: VerificationTag(tag),
        initial_tsn: Tsn(tag),
        ..script.init(Parameters::empty())
    };
    script.skip_answers();
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    (script.tag, script.tsn) = (VerificationTag(tag), Tsn(tag));
    (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
    let cookie = state_cookie(&ack);
    script.send(&[Chunk::CookieEcho(CookieEcho { cookie })]);
}

#[track_caller]
fn expect_closed(script: &mut Script, reason: CloseReason) {
    let events = script.events();
    assert_eq!(events.last(), Some(&Event::Closed(reason)), "{events:?}");
}

/// Acknowledges each chunk that arrives and advertises an a_rwnd of 0, until the association is over; returns the time that
/// took.
fn take_single_chunks(script: &mut Script, mut meanwhile: impl FnMut(&mut Script)) -> Duration {
    let began = script.now();
    while !is_closed(script) {
        assert!(
            script.now() <= began + 2 * GUARD,
            "{:?}",
            script.association().state()
        );
        if let Some(tsn) = last_data(script) {
            acknowledge(script, tsn, 0);
        }
        script.advance(SECOND / 10);
        meanwhile(script);
    }
    script.now().saturating_duration_since(began)
}

// A → DATA → Z
// A: shutdown
// A → DATA (a probe of the window) → Z
// A ← SACK (a_rwnd 0) ← Z, many times
// A → ABORT → Z
/// §9.2: T5-shutdown-guard runs from the moment that the application asks for the shutdown. A peer that acknowledges one chunk
/// at a time does not delay the end.
#[test]
fn a_closed_window_does_not_delay_the_end() {
    let mut script = Script::new(config(), 1);
    script.set_up();
    send(&mut script, 1000, 10);
    begin_shutdown(&mut script);
    assert_eq!(script.association().state(), State::ShutdownPending);
    let took = take_single_chunks(&mut script, |_| ());
    assert!(took >= GUARD && took <= GUARD + SECOND, "{took:?}");
    expect_closed(&mut script, CloseReason::ShutdownTimedOut);
}

// A ← SHUTDOWN ← Z
// A → DATA (a probe of the window) → Z
// A ← SACK (a_rwnd 0) ← Z, many times
// A → ABORT → Z
/// The same if the peer asked for the shutdown and keeps its window closed, also if the application asks too.
#[test]
fn a_shutdown_of_the_peer_with_a_closed_window_does_not_delay_the_end() {
    for asks in [false, true] {
        let mut script = Script::new(config(), 1);
        script.set_up();
        send(&mut script, 1000, 10);
        script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
        assert_eq!(script.association().state(), State::ShutdownReceived);
        take_single_chunks(&mut script, |script| {
            if asks {
                begin_shutdown(script);
            }
        });
        expect_closed(&mut script, CloseReason::ShutdownTimedOut);
    }
}

// A: shutdown; A → DATA → Z over a slow link
/// A slow transfer that makes progress survives: the guard restarts for each 200 bytes/s acknowledged in its time, and for the last bytes.
#[test]
fn a_slow_transfer_survives_the_guard() {
    let link = LinkConfig::default()
        .with_rate(100_000)
        .with_delay(Duration::from_millis(50));
    let mut pair = Setup::new(1).config(config()).path(link).connect();
    let mut ledgers = Side::BOTH.map(|side| Ledger::new(side as u64));
    let parcels: Vec<_> = (0..40).map(|_| ledgers[0].parcel(1, 20_000, false)).collect();
    let began = pair.now();
    pair.post(Side::A, parcels);
    pair.shutdown(Side::A);
    let limit = began + 20 * GUARD;
    let over = |pair: &mut anabranch_testkit::Pair| pair.state(Side::A) == Some(State::Closed);
    assert!(pair.run_to(limit, over), "it ends");
    assert!(pair.now() > began + 2 * GUARD, "it was slow");
    pair.run_for(SECOND);
    pair.expect_orderly_end(&mut ledgers);
}

// A → SHUTDOWN → Z
// Z → INIT, COOKIE ECHO → A
// A → COOKIE ACK, SHUTDOWN → Z
/// §5.2.4 A, §9.2: a shutdown that the application asked for continues after a restart of the peer. A shutdown that only the
/// peer asked for does not.
#[test]
fn a_shutdown_is_asked_for_again_after_a_restart() {
    for state in [
        State::ShutdownPending,
        State::ShutdownSent,
        State::ShutdownReceived,
    ] {
        let mut script = Script::new(config(), 1);
        script.set_up();
        if state != State::ShutdownSent {
            send(&mut script, 1, 10);
        }
        if state == State::ShutdownReceived {
            script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
        } else {
            begin_shutdown(&mut script);
        }
        assert_eq!(script.association().state(), state);
        restart(&mut script, 0x5001);
        let chunks: Vec<_> = core::iter::from_fn(|| script.next_answer())
            .flat_map(|answer| answer.chunks)
            .collect();
        if state == State::ShutdownReceived {
            assert_eq!(chunks, [Chunk::CookieAck]);
            assert_eq!(script.association().state(), State::Established);
            script.advance(2 * GUARD);
            assert_eq!(
                script.association().state(),
                State::Established,
                "nobody asked for the end"
            );
        } else {
            assert_eq!(chunks, [Chunk::CookieAck, shutdown_chunk(script.tsn.minus(1))]);
            script.send(&[Chunk::ShutdownAck]);
            expect_closed(&mut script, CloseReason::Shutdown);
        }
    }
}

// A: shutdown
// Z → INIT, COOKIE ECHO → A, many times
// A → ABORT → Z
/// A peer that restarts many times does not delay the end: the guard continues.
#[test]
fn restarts_do_not_delay_the_end() {
    for pending in [false, true] {
        let mut script = Script::new(config(), 1);
        script.set_up();
        send(&mut script, usize::from(pending), 10);
        begin_shutdown(&mut script);
        let began = script.now();
        let mut tag = 0x5000;
        loop {
            script.advance(SECOND);
            if is_closed(&mut script) {
                break;
            }
            assert!(
                script.now() <= began + 2 * GUARD,
                "{:?}",
                script.association().state()
            );
            tag += 1;
            restart(&mut script, tag);
        }
        expect_closed(&mut script, CloseReason::ShutdownTimedOut);
    }
}

// A → SHUTDOWN → (lost)
// A ← HEARTBEAT ← Z, more often than T2-shutdown expires
// A → SHUTDOWN → Z
/// §9.2: a lost SHUTDOWN is retransmitted, whatever the peer sends meanwhile.
#[test]
fn heartbeats_of_the_peer_do_not_delay_a_retransmitted_shutdown() {
    let mut script = Script::new(config(), 1);
    script.set_up();
    begin_shutdown(&mut script);
    let shutdown = shutdown_chunk(script.tsn.minus(1));
    assert_eq!(script.expect_chunk(), shutdown);
    for _ in 0..10 {
        script.advance(SECOND / 2);
        script.send(&[Chunk::Heartbeat(Heartbeat {
            tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
        })]);
    }
    let sent = core::iter::from_fn(|| script.next_answer()).flat_map(|answer| answer.chunks);
    assert!(sent.filter(|chunk| *chunk == shutdown).count() >= 2);
}

// A → INIT → Z; A: shutdown
// A ← INIT ACK ← Z; A → COOKIE ECHO → Z; A ← ERROR (Stale Cookie) ← Z; … each at the last moment
/// The guard also bounds a shutdown that the application asks for during set-up.
#[test]
fn a_set_up_does_not_delay_the_end() {
    let mut settings = config();
    settings.rto.max = 60 * SECOND;
    let mut script = Script::new(settings, 1);
    script.connect();
    begin_shutdown(&mut script);
    script.advance(GUARD - SECOND);
    assert_eq!(script.association().state(), State::CookieWait);
    script.advance(2 * SECOND);
    assert!(is_closed(&mut script), "{:?}", script.association().state());
    expect_closed(&mut script, CloseReason::ShutdownTimedOut);
}

// A, Z: no message for Config::idle_timeout
// A → SHUTDOWN → Z
/// The idle timeout counts from the last message of either endpoint, and heartbeats do not count.
#[test]
fn an_idle_association_is_shut_down() {
    let link: LinkConfig = "delay=10ms".parse().expect("a link");
    let mut pair = Setup::new(1)
        .path(link)
        .adjust(Side::A, |config| {
            config.idle_timeout = Some(Duration::from_secs(60))
        })
        .adjust_both(|config| config.heartbeat.interval = Some(Duration::from_secs(5)))
        .connect();
    let idle = |pair: &mut Pair| pair.events(Side::A).contains(&Event::IdleTimeout);
    pair.run_ms(50_000);
    pair.send(Side::Z, 0, "from the peer");
    pair.run_ms(50_000);
    pair.send(Side::A, 0, "to the peer");
    pair.run_ms(59_000);
    assert!(!idle(&mut pair), "59 s without a message");
    pair.run_ms(2_000);
    let events = pair.events(Side::A);
    assert_eq!(
        events[events.len() - 2..],
        [Event::IdleTimeout, Event::Closed(CloseReason::Shutdown)]
    );
    assert!(
        pair.events(Side::Z)
            .contains(&Event::Closed(CloseReason::Shutdown))
    );
}

/// Data that the peer does not acknowledge is not idle time: the association goes on until the peer is unreachable.
#[test]
fn unacknowledged_data_is_not_idle() {
    let link: LinkConfig = "delay=10ms".parse().expect("a link");
    let mut pair = Setup::new(1)
        .path(link)
        .adjust(Side::A, |config| {
            config.idle_timeout = Some(Duration::from_secs(5))
        })
        .connect();
    pair.cut(0, true);
    pair.send(Side::A, 0, "into the void");
    pair.run_ms(20_000);
    pair.cut(0, false);
    pair.run_ms(40_000);
    assert_eq!(pair.messages(Side::Z).len(), 1);
}
