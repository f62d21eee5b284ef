//! Messages whose application wants to learn of the acknowledgement (`SendOptions::confirm`): once, when the peer has all fragments and cannot
//! renege on any of them.

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{Event, MessageId, Reliability, SendOptions, StreamId};
use anabranch_testkit::fixture::{ALL, FULL, Fixture, MS, NEVER_AGAIN, config};
use anabranch_testkit::{Setup, Side};

/// Sends a message that asks for a confirmation.
fn send(fixture: &mut Fixture, len: usize, reliability: Reliability) -> MessageId {
    let options = SendOptions::default().reliability(reliability).confirm(true);
    fixture.script.act(|association, now| {
        association
            .send(now, StreamId(0), vec![7; len].into(), options.context(9))
            .expect("room")
    })
}

/// The messages of events of one kind, of those since the last call.
fn fates(fixture: &mut Fixture) -> Vec<(&'static str, u64)> {
    let fate = |event| match event {
        Event::Acknowledged(which) => {
            assert_eq!(which.context, 9);
            Some(("acknowledged", which.message.0))
        }
        Event::Abandoned(which) => Some(("abandoned", which.message.0)),
        Event::Undelivered(which) => Some(("undelivered", which.message.0)),
        _ => None,
    };
    fixture.script.events().into_iter().filter_map(fate).collect()
}

// A → DATA 0 1 2 (one message), 3, 4;  A ← SACK 0;  A ← SACK 0, gap 2–4;  A ← SACK 4
#[test]
fn a_message_is_confirmed_with_its_last_fragment() {
    let mut fixture = Fixture::new(config(), &[]);
    let large = send(&mut fixture, 3 * FULL, Reliability::Reliable).0;
    let small = send(&mut fixture, 10, Reliability::Reliable).0;
    fixture.send(&[Reliability::Reliable], 10);
    fixture.sent();
    fixture.sack(1, &[]);
    assert_eq!(fates(&mut fixture), []);
    fixture.sack(1, &[(2, 4)]);
    assert_eq!(fates(&mut fixture), [], "the peer may renege");
    fixture.sack(5, &[]);
    assert_eq!(
        fates(&mut fixture),
        [("acknowledged", large), ("acknowledged", small)]
    );
    fixture.sack(5, &[]);
    assert_eq!(fates(&mut fixture), [], "each is reported once");
}

// A → DATA 0 1;  A ← NR-SACK, non-renegable 1;  A ← NR-SACK 1
#[test]
fn what_is_non_renegable_is_confirmed_beyond_a_gap() {
    let mut fixture = Fixture::new(config(), &ALL);
    let first = send(&mut fixture, FULL, Reliability::Reliable).0;
    let second = send(&mut fixture, FULL, Reliability::Reliable).0;
    fixture.sent();
    fixture.nr_sack(0, &[], &[(1, 1)]);
    assert_eq!(fates(&mut fixture), [("acknowledged", second)]);
    fixture.nr_sack(2, &[], &[]);
    assert_eq!(fates(&mut fixture), [("acknowledged", first)]);
}

// A → DATA 0 (lost), 1 2 3;  A ← gaps;  A → FORWARD-TSN 0;  A ← SACK 3
#[test]
fn an_abandoned_message_is_never_confirmed() {
    let mut fixture = Fixture::new(config(), &ALL);
    let lost = send(&mut fixture, FULL, NEVER_AGAIN).0;
    let rest: Vec<u64> = (0..3)
        .map(|_| send(&mut fixture, FULL, Reliability::Reliable).0)
        .collect();
    fixture.sent();
    fixture.report_one_by_one(0, 1, 3);
    let mut all = fates(&mut fixture);
    fixture.script.advance(3000 * MS);
    fixture.sent();
    fixture.nr_sack(4, &[], &[]);
    all.extend(fates(&mut fixture));
    all.sort_by_key(|(_, message)| *message);
    let mut expected = vec![("abandoned", lost)];
    expected.extend(rest.into_iter().map(|message| ("acknowledged", message)));
    assert_eq!(all, expected);
}

#[test]
fn an_abort_fails_what_is_not_confirmed() {
    let mut fixture = Fixture::new(config(), &ALL);
    let first = send(&mut fixture, FULL, Reliability::Reliable).0;
    let second = send(&mut fixture, FULL, Reliability::Reliable).0;
    fixture.sent();
    fixture.sack(1, &[]);
    fixture
        .script
        .act(|association, now| association.abort(now, "enough".into()));
    assert_eq!(
        fates(&mut fixture),
        [("acknowledged", first), ("undelivered", second)]
    );
}

// A → DATA 0 1 2 (1 and 2 are one message);  A ← NR-SACK, non-renegable 1, gap 2
#[test]
fn an_abort_fails_no_message_that_was_confirmed() {
    for whole in [false, true] {
        let mut fixture = Fixture::new(config(), &ALL);
        let first = send(&mut fixture, FULL, Reliability::Reliable).0;
        let second = send(&mut fixture, 2 * FULL, Reliability::Reliable).0;
        fixture.sent();
        if whole {
            fixture.nr_sack(0, &[], &[(1, 2)]);
        } else {
            fixture.nr_sack(0, &[(2, 2)], &[(1, 1)]);
        }
        fixture
            .script
            .act(|association, now| association.abort(now, "enough".into()));
        let mut expected = vec![("undelivered", first)];
        if whole {
            expected.insert(0, ("acknowledged", second));
        } else {
            expected.push(("undelivered", second));
        }
        assert_eq!(fates(&mut fixture), expected);
    }
}

/// Over links with loss, each message that asks has one fate, and a message that is confirmed was received.
#[test]
fn every_message_that_asks_has_one_fate() {
    for seed in 0..20 {
        let link = LinkConfig::default()
            .with_delay(20 * MS)
            .with_rate(2_000_000)
            .with_loss(LossModel::bernoulli(0.1));
        let mut pair = Setup::new(seed).path(link).connect();
        let mut asked = Vec::new();
        for number in 0..60_u64 {
            let reliability = match number % 3 {
                0 => Reliability::Reliable,
                1 => Reliability::Lifetime(150 * MS),
                _ => NEVER_AGAIN,
            };
            let options = SendOptions::default().reliability(reliability);
            let len = 1 + (number as usize * 37) % 4000;
            let asks = number % 4 != 3;
            let id = pair.send_with(Side::A, 1, vec![number as u8; len], options.confirm(asks));
            if asks {
                asked.push((id.0, number as u8, len));
            }
            pair.run_for(20 * MS);
        }
        pair.run_for(30_000 * MS);
        let received = pair.messages(Side::Z);
        let mut fates = std::collections::BTreeMap::new();
        for event in pair.events(Side::A) {
            let fate = match event {
                Event::Acknowledged(which) => (which.message.0, true),
                Event::Abandoned(which) => (which.message.0, false),
                _ => continue,
            };
            assert!(
                fates.insert(fate.0, fate.1).is_none(),
                "seed {seed}: two fates of {fate:?}"
            );
        }
        for (id, byte, len) in asked {
            let confirmed = fates.get(&id).copied();
            let arrived = received
                .iter()
                .any(|message| message.bytes.len() == len && message.bytes[0] == byte);
            assert!(confirmed.is_some(), "seed {seed}: message {id} has a fate");
            assert!(
                arrived || confirmed == Some(false),
                "seed {seed}: message {id} was confirmed and did not arrive"
            );
        }
    }
}
