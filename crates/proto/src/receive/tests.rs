//! The receiving half against a naive model: whatever the order of arrival, everything once and in order.

use proptest::prelude::*;

use super::*;
use crate::config::Config;

fn receiver(initial_tsn: u32, receive: u32) -> Receiver {
    let config = Config::default();
    let buffers = BufferConfig {
        receive,
        ..config.buffers
    };
    Receiver::new(Tsn(initial_tsn), 10, &buffers, &config.sack)
}

fn fragment(tsn: u32, stream: u16, sequence: u32, flags: &str, payload: &[u8]) -> Fragment {
    Fragment {
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        unordered: flags.contains('U'),
        sequence,
        ppid: Ppid(7),
        beginning: flags.contains('B'),
        ending: flags.contains('E'),
        payload: Bytes::copy_from_slice(payload),
    }
}

fn read_all(receiver: &mut Receiver) -> Vec<(u16, Vec<u8>)> {
    std::iter::from_fn(|| receiver.recv())
        .map(|part| (part.stream.0, part.payload.into_bytes().to_vec()))
        .collect()
}

#[test]
fn order_holds_within_a_stream_and_not_between() {
    let mut receiver = receiver(1, 10_000);
    receiver.on_fragment(fragment(2, 0, 1, "BE", b"second"));
    receiver.on_fragment(fragment(3, 1, 0, "BE", b"other"));
    receiver.on_fragment(fragment(4, 0, 0, "UBE", b"urgent"));
    assert_eq!(
        read_all(&mut receiver),
        [(1, b"other".to_vec()), (0, b"urgent".to_vec())]
    );
    receiver.on_fragment(fragment(1, 0, 0, "BE", b"first"));
    assert_eq!(
        read_all(&mut receiver),
        [(0, b"first".to_vec()), (0, b"second".to_vec())]
    );
    assert_eq!((receiver.unread_bytes(), receiver.cumulative_tsn()), (0, Tsn(4)));
}

#[test]
fn contradictions_are_violations() {
    let cases: [&[Fragment]; 6] = [
        &[fragment(1, 0, 0, "", b"x")],
        &[fragment(1, 0, 0, "B", b"x"), fragment(2, 1, 0, "E", b"x")],
        &[fragment(1, 0, 0, "B", b"x"), fragment(2, 0, 1, "E", b"x")],
        &[fragment(1, 0, 0, "B", b"x"), fragment(2, 0, 0, "B", b"x")],
        &[fragment(1, 0, 0, "B", b"x"), fragment(2, 0, 1, "BE", b"x")],
        &[fragment(2, 0, 1, "BE", b"x"), fragment(1, 0, 0, "B", b"x")],
    ];
    for case in cases {
        let mut receiver = receiver(1, 10_000);
        let verdicts: Vec<_> = case
            .iter()
            .map(|fragment| receiver.on_fragment(fragment.clone()))
            .collect();
        assert!(
            matches!(verdicts.last(), Some(Verdict::Violation(_))),
            "{case:?}: {verdicts:?}"
        );
    }
}

#[test]
fn unknown_streams_duplicates_and_full_buffers() {
    let mut receiver = receiver(1, 3_000);
    assert_eq!(
        receiver.on_fragment(fragment(1, 10, 0, "BE", b"x")),
        Verdict::InvalidStream
    );
    assert_eq!(
        receiver.on_fragment(fragment(1, 10, 0, "BE", b"x")),
        Verdict::Duplicate
    );
    assert_eq!(
        receiver.on_fragment(fragment(2, 0, 0, "BE", &[0; 2_900])),
        Verdict::Accepted
    );
    assert_eq!(
        receiver.on_fragment(fragment(3, 0, 1, "BE", &[0; 200])),
        Verdict::NoRoom
    );
    assert_eq!(receiver.a_rwnd(), 0);
    assert_eq!(receiver.recv().unwrap().payload.len(), 2_900);
    assert_eq!(
        receiver.on_fragment(fragment(3, 0, 1, "BE", &[0; 200])),
        Verdict::Accepted
    );
}

#[test]
fn a_message_larger_than_the_window_comes_in_parts() {
    let mut receiver = receiver(1, 8_000);
    let mut received = Vec::new();
    let mut flags = Vec::new();
    for number in 0..100_u32 {
        let flag = match number {
            0 => "B",
            99 => "E",
            _ => "",
        };
        assert_eq!(
            receiver.on_fragment(fragment(1 + number, 3, 0, flag, &[number as u8; 1000])),
            Verdict::Accepted
        );
        while let Some(part) = receiver.recv() {
            flags.push((part.message, part.beginning, part.ending));
            received.extend_from_slice(&part.payload.into_bytes());
        }
    }
    let sent: Vec<u8> = (0..100_u8).flat_map(|number| [number; 1000]).collect();
    assert_eq!(received, sent);
    assert_eq!(flags[0], (0, true, false));
    assert_eq!(flags[flags.len() - 1], (0, false, true));
    assert!(
        flags[1..flags.len() - 1]
            .iter()
            .all(|flag| *flag == (0, false, false))
    );
    assert_eq!(receiver.unread_bytes(), 0);
}

/// Messages as a sender would number and cut them.
fn cut(messages: &[(u16, bool, usize)], initial_tsn: u32, first_ssn: u32) -> Vec<Fragment> {
    let mut tsn = initial_tsn;
    let mut next_ssn = [first_ssn; 10];
    let mut fragments = Vec::new();
    for (number, &(stream, unordered, pieces)) in messages.iter().enumerate() {
        let ssn = &mut next_ssn[usize::from(stream)];
        for piece in 0..pieces {
            let mut flags = String::new();
            flags.push_str(if unordered { "U" } else { "" });
            flags.push_str(if piece == 0 { "B" } else { "" });
            flags.push_str(if piece + 1 == pieces { "E" } else { "" });
            let sequence = if unordered { 0 } else { *ssn & 0xFFFF };
            fragments.push(fragment(
                tsn,
                stream,
                sequence,
                &flags,
                &[number as u8, piece as u8],
            ));
            tsn = tsn.wrapping_add(1);
        }
        *ssn += u32::from(!unordered);
    }
    fragments
}

proptest! {
    #[test]
    fn any_order_of_arrival_gives_every_message_once_and_in_order(
        messages in proptest::collection::vec((0_u16..4, any::<bool>(), 1_usize..5), 1..40),
        near_wrap: bool,
        order in any::<proptest::sample::Index>().prop_perturb(|_, mut rng| rng.random::<u64>()),
        duplicates: bool,
    ) {
        let initial = if near_wrap { u32::MAX - 20 } else { 77 };
        let fragments = cut(&messages, initial, 0);
        let mut shuffled: Vec<_> = fragments.iter().chain(duplicates.then_some(&fragments).into_iter().flatten()).collect();
        let mut state = order | 1;
        for at in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(at, (state >> 33) as usize % (at + 1));
        }
        let mut receiver = receiver(initial, 100_000);
        let mut received = Vec::new();
        for fragment in shuffled {
            let verdict = receiver.on_fragment(fragment.clone());
            prop_assert!(matches!(verdict, Verdict::Accepted | Verdict::Duplicate), "{:?}", verdict);
            received.extend(std::iter::from_fn(|| receiver.recv()));
        }
        prop_assert_eq!(received.len(), messages.len());
        prop_assert_eq!(receiver.unread_bytes(), 0);
        let mut seen: Vec<usize> = received.iter().map(|part| usize::from(part.payload.pieces()[0][0])).collect();
        for part in &received {
            let number = usize::from(part.payload.pieces()[0][0]);
            let (stream, unordered, pieces) = messages[number];
            prop_assert_eq!((part.stream.0, part.unordered), (stream, unordered));
            let expected: Vec<u8> = (0..pieces).flat_map(|piece| [number as u8, piece as u8]).collect();
            prop_assert_eq!(&part.payload.clone().into_bytes()[..], &expected[..]);
        }
        for stream in 0..4 {
            let of_stream = |number: &&usize| messages[**number].0 == stream && !messages[**number].1;
            let ordered: Vec<_> = seen.iter().filter(of_stream).collect();
            prop_assert!(ordered.is_sorted(), "stream {}: {:?}", stream, ordered);
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..messages.len()).collect::<Vec<_>>());
    }
}
