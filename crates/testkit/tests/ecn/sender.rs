//! The sender's answers to ECNE chunks of a hand-made peer, and the choice of the packets that are ECN-capable
//! (draft-stewart-tsvwg-sctpecn, RFC 3168).

use core::time::Duration;

use anabranch_netsim::Ecn;
use anabranch_proto::controller::CongestionControl;
use anabranch_proto::{Config, EcnPathStats, EcnState, RecoveryRules, SendOptions, StreamId, Tsn};
use anabranch_testkit::{FromEndpoint, Script, sack, with};
use anabranch_wire::chunk::{Chunk, Cwr, Ecne, Heartbeat};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};
use bytes::Bytes;

use super::with_ecn;

const MS: Duration = Duration::from_millis(1);

/// An association with ECN, set up by the peer. Its packets are full at 1,280 bytes.
fn set_up(mut config: Config) -> Script {
    config.path_mtu_limit = config.path_mtu;
    let mut script = Script::new(config, 1);
    script.set_up_with(ParametersBuilder::new().push(&Parameter::EcnCapable).finish());
    script
}

fn send(script: &mut Script, size: usize) {
    script.act(|association, now| {
        let message = Bytes::from(vec![1; size]);
        association
            .send(now, StreamId(0), message, SendOptions::default())
            .expect("there is room");
    });
}

/// The packets that the endpoint has sent.
fn taken(script: &mut Script) -> Vec<FromEndpoint> {
    std::iter::from_fn(|| script.next_answer()).collect()
}

/// Sends data until the window is full, and returns the TSNs sent.
fn fill(script: &mut Script, size: usize) -> Vec<Tsn> {
    send(script, size);
    let mut sent = Vec::new();
    for _ in 0..15 {
        sent.extend(tsns(&taken(script)));
        script.advance(MS);
        // `Max.Burst` allows more packets in each millisecond.
        script.act(|_, _| ());
    }
    assert!(sent.len() > 6);
    sent
}

fn tsns(packets: &[FromEndpoint]) -> Vec<Tsn> {
    packets
        .iter()
        .flat_map(FromEndpoint::data)
        .map(|data| data.tsn)
        .collect()
}

fn ecne(tsn: Tsn, marked: u32) -> Chunk {
    Chunk::Ecne(Ecne {
        tsn,
        marked: Some(marked),
    })
}

fn readings(script: &Script) -> (usize, EcnPathStats) {
    let path = script.association().stats().paths.swap_remove(0);
    (path.cwnd, path.ecn)
}

/// The CWRs among these packets.
fn cwrs(packets: &[FromEndpoint]) -> Vec<Cwr> {
    let chunks = packets.iter().flat_map(|packet| &packet.chunks);
    chunks
        .filter_map(|chunk| match chunk {
            Chunk::Cwr(cwr) => Some(*cwr),
            _ => None,
        })
        .collect()
}

fn profiles() -> [Config; 3] {
    let config = |congestion_control, recovery| {
        with(with_ecn(), |config| {
            config.congestion_control = congestion_control;
            config.recovery = recovery;
        })
    };
    [
        config(CongestionControl::Rfc9260, RecoveryRules::RFC9260),
        config(CongestionControl::Cubic, RecoveryRules::RFC9260),
        config(CongestionControl::Cubic, RecoveryRules::RACK),
    ]
}

/// Sends data and has all of it acknowledged, so that the window is large; returns the last TSN.
fn grow(script: &mut Script) -> Tsn {
    send(script, 60_000);
    let mut last = Tsn(0);
    loop {
        let sent = tsns(&taken(script));
        let Some(newest) = sent.last() else {
            return last;
        };
        last = *newest;
        script.advance(20 * MS);
        script.send(&[sack(last)]);
    }
}

#[test]
fn one_reduction_for_the_outstanding_data() {
    for config in profiles() {
        let mut script = set_up(config);
        grow(&mut script);
        let sent = fill(&mut script, 20_000);
        let (before, _) = readings(&script);
        script.send(&[ecne(sent[1], 1)]);
        let (after, ecn) = readings(&script);
        assert!(after < before && after > before / 3, "{before} {after}");
        assert_eq!((ecn.reductions, ecn.packets_marked), (1, 1));
        let answer = cwrs(&taken(&mut script));
        let expected = Cwr {
            tsn: sent[1],
            overrides: false,
            same_window: false,
        };
        assert_eq!(answer, [expected]);
        // The same report again, and a report of another packet of the same window: answered once in an RTT.
        script.send(&[ecne(sent[1], 1)]);
        script.send(&[ecne(sent[4], 2)]);
        script.expect_silence();
        script.advance(20 * MS);
        script.send(&[ecne(sent[4], 2)]);
        let same = Cwr {
            tsn: sent[4],
            same_window: true,
            ..expected
        };
        assert_eq!(cwrs(&taken(&mut script)), [same]);
        assert_eq!(readings(&script).0, after);
        // Once the last packet of that window is acknowledged, new packets belong to the next window.
        script.advance(20 * MS);
        taken(&mut script);
        script.send(&[sack(*sent.last().unwrap())]);
        let next = fill(&mut script, 20_000);
        script.send(&[ecne(*sent.last().unwrap(), 3)]);
        assert_eq!(readings(&script).1.reductions, 1);
        script.send(&[ecne(next[0], 4)]);
        assert_eq!(readings(&script).1.reductions, 2);
    }
}

#[test]
fn a_flood_of_reports_reduces_once_in_a_round_trip() {
    for config in profiles() {
        let mut script = set_up(config);
        grow(&mut script);
        let sent = fill(&mut script, 20_000);
        script.send(&[ecne(sent[0], 1)]);
        let (after, _) = readings(&script);
        taken(&mut script);
        for round in 0..1000 {
            let tsn = sent[round % sent.len()];
            script.send(&vec![ecne(tsn, 1); 50]);
            let answers = taken(&mut script);
            assert!(
                cwrs(&answers).len() <= 1 && answers.len() <= 1,
                "one for a packet"
            );
        }
        let (cwnd, ecn) = readings(&script);
        assert_eq!((cwnd, ecn.reductions), (after, 1));
    }
}

/// The peer reports each packet as marked when it leaves, but acknowledges none.
#[test]
fn reports_that_come_too_early_do_not_reduce_again() {
    for config in profiles() {
        let mut script = set_up(config);
        grow(&mut script);
        let sent = fill(&mut script, 100_000);
        script.send(&[ecne(sent[0], 1)]);
        assert_eq!(readings(&script).1.reductions, 1);
        taken(&mut script);
        // Packets are acknowledged one by one. Each acknowledgement lets out at most as many bytes.
        let (last, mut seen) = (*sent.last().unwrap(), Vec::new());
        for tsn in &sent[..sent.len() - 1] {
            script.send(&[sack(*tsn)]);
            script.advance(MS);
            for new in tsns(&taken(&mut script)) {
                seen.push(new);
                script.send(&[ecne(new, seen.len() as u32 + 1)]);
                taken(&mut script);
            }
        }
        assert!(!seen.is_empty() && !seen.contains(&last));
        assert_eq!(readings(&script).1.reductions, 1);
    }
}

#[test]
fn a_report_of_a_tsn_never_sent_is_ignored() {
    let mut script = set_up(with_ecn());
    let last = grow(&mut script);
    let before = readings(&script);
    for ahead in [1, 2, 1000, 1 << 30] {
        script.send(&[ecne(Tsn(last.0.wrapping_add(ahead)), 1)]);
        script.expect_silence();
    }
    assert_eq!(readings(&script), before);
}

#[test]
fn a_report_without_a_count_is_one_mark() {
    let mut script = set_up(with_ecn());
    grow(&mut script);
    let sent = fill(&mut script, 20_000);
    for tsn in [sent[0], sent[2]] {
        script.send(&[Chunk::Ecne(Ecne { tsn, marked: None })]);
    }
    let (_, ecn) = readings(&script);
    assert_eq!((ecn.packets_marked, ecn.reductions), (2, 1));
}

#[test]
fn more_marks_than_packets_end_ecn() {
    let mut script = set_up(with_ecn());
    let last = grow(&mut script);
    let (before, ecn) = readings(&script);
    script.send(&[ecne(last, ecn.packets_sent as u32 + 1)]);
    let (after, ecn) = readings(&script);
    assert_eq!((after, ecn.state, ecn.reductions), (before, EcnState::Failed, 0));
    assert_eq!(cwrs(&taken(&mut script)).len(), 1, "else CWR would be sent again");
    send(&mut script, 1000);
    assert_eq!(script.expect().ecn, Ecn::NotEct);
}

#[test]
fn losses_after_marks_do_not_reduce_again() {
    for config in profiles() {
        let mut script = set_up(config);
        grow(&mut script);
        let sent = fill(&mut script, 20_000);
        script.send(&[ecne(sent[1], 1)]);
        let (marked, _) = readings(&script);
        // The first chunk is missing.
        for upto in 2..=5_u16 {
            script.advance(5 * MS);
            let gap = anabranch_wire::chunk::GapAckBlock { start: 2, end: upto };
            let Chunk::Sack(mut sack) = sack(Tsn(sent[0].0.wrapping_sub(1))) else {
                unreachable!()
            };
            sack.gap_ack_blocks = anabranch_wire::chunk::GapAckBlocks::from_blocks([gap]);
            script.send(&[Chunk::Sack(sack)]);
        }
        script.advance(10 * MS);
        let again = taken(&mut script);
        assert!(tsns(&again).contains(&sent[0]), "it is retransmitted");
        let first = again
            .iter()
            .find(|packet| packet.data().any(|data| data.tsn == sent[0]))
            .unwrap();
        assert_eq!(first.ecn, Ecn::NotEct, "a retransmission");
        let (after, ecn) = readings(&script);
        assert_eq!((after, ecn.reductions), (marked, 1));
        // The loss was spurious: the reduction for marks stays.
        let Chunk::Sack(mut sack) = sack(sent[5]) else {
            unreachable!()
        };
        sack.duplicate_tsns = anabranch_wire::chunk::TsnList::from_tsns([sent[0]]);
        script.send(&[Chunk::Sack(sack)]);
        assert_eq!(script.association().counters().reductions_undone, 0);
    }
}

#[test]
fn only_packets_with_new_data_are_capable() {
    let mut script = Script::new(with_ecn(), 1);
    script.set_up_with(ParametersBuilder::new().push(&Parameter::EcnCapable).finish());
    send(&mut script, 100);
    let first = script.expect();
    assert_eq!(first.ecn, Ecn::Ect0);
    let tsn = tsns(&[first])[0];
    // T3-rtx.
    script.advance_to_timeout();
    let again = script.expect();
    assert_eq!(
        (tsns(std::slice::from_ref(&again)), again.ecn),
        (vec![tsn], Ecn::NotEct)
    );
    script.send(&[sack(tsn)]);
    // Data bundled with the answer to a HEARTBEAT.
    let heartbeat = Chunk::Heartbeat(Heartbeat::new(Bytes::from_static(b"hello")));
    script.send(&[heartbeat]);
    send(&mut script, 100);
    for packet in taken(&mut script) {
        let alone = packet.chunks.iter().all(|chunk| matches!(chunk, Chunk::Data(_)));
        assert_eq!(packet.ecn == Ecn::Ect0, alone, "{packet:?}");
    }
    script.advance(60_000 * MS);
    for packet in taken(&mut script) {
        assert_eq!(packet.ecn, Ecn::NotEct, "{packet:?}");
    }
}

/// For the socket, the packets leave in one batch. Only their codepoints differ.
#[test]
fn ten_packets_test_a_path() {
    let mut script = set_up(with(with_ecn(), |config| {
        config.initial_window = Some(20);
        config.max_burst = 20;
    }));
    send(&mut script, 16_000);
    let codepoints: Vec<_> = taken(&mut script).iter().map(|packet| packet.ecn).collect();
    assert_eq!(codepoints.len(), 14);
    assert!(
        codepoints[..10].iter().all(|ecn| *ecn == Ecn::Ect0),
        "{codepoints:?}"
    );
    assert!(
        codepoints[10..].iter().all(|ecn| *ecn == Ecn::NotEct),
        "{codepoints:?}"
    );
}

#[test]
fn set_up_is_not_capable() {
    let mut script = Script::new(with_ecn(), 1);
    script.connect();
    let mut ack = script.init_ack(b"a cookie");
    let cookie = Parameter::StateCookie(Bytes::from_static(b"a cookie"));
    ack.parameters = ParametersBuilder::new()
        .push(&Parameter::EcnCapable)
        .push(&cookie)
        .finish();
    send(&mut script, 100);
    script.send(&[Chunk::InitAck(ack)]);
    let echo = script.expect();
    assert_eq!(
        (echo.chunks.len(), echo.ecn),
        (2, Ecn::NotEct),
        "COOKIE ECHO and DATA"
    );
    script.send(&[Chunk::CookieAck]);
    send(&mut script, 100);
    assert_eq!(script.expect().ecn, Ecn::Ect0);
}

#[test]
fn a_probe_of_a_closed_window_is_not_capable() {
    let mut script = set_up(with_ecn());
    send(&mut script, 100);
    let tsn = tsns(&taken(&mut script))[0];
    let Chunk::Sack(mut closed) = sack(tsn) else {
        unreachable!()
    };
    closed.a_rwnd = 0;
    script.send(&[Chunk::Sack(closed)]);
    send(&mut script, 100);
    let probe = script.expect();
    assert_eq!(
        (tsns(std::slice::from_ref(&probe)).len(), probe.ecn),
        (1, Ecn::NotEct)
    );
}
