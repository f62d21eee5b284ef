//! Compares the receiving half with a simple model: in any order of arrival, every message is delivered once and in order.

use std::collections::VecDeque;

use anabranch_wire::Ppid;
use anabranch_wire::chunk::{GapAckBlock, Sack};
use proptest::prelude::*;

use super::*;
use crate::config::{BufferConfig, Config};
use crate::path_id::PathId;
use crate::reconfiguration::StreamSelection;

fn receiver(initial_tsn: u32, receive: u32) -> Receiver {
    let config = Config::default();
    let buffers = BufferConfig {
        receive,
        growth: 1,
        ..config.buffers
    };
    Receiver::new(Tsn(initial_tsn), 10, &Config { buffers, ..config })
}

fn fragment(tsn: u32, stream: u16, sequence: u32, flags: &str, payload: &[u8]) -> Fragment {
    Fragment {
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        unordered: flags.contains('U'),
        sequence,
        fsn: 0,
        ppid: Ppid(7),
        beginning: flags.contains('B'),
        ending: flags.contains('E'),
        repair: false,
        payload: Bytes::copy_from_slice(payload),
        datagram: payload.len(),
        origin: Origin::default(),
    }
}

fn read_all(receiver: &mut Receiver) -> Vec<(u16, Vec<u8>)> {
    std::iter::from_fn(|| receiver.recv(Timestamp::ZERO))
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
        Verdict::WindowFull
    );
    assert_eq!(receiver.a_rwnd(), 0);
    assert_eq!(receiver.recv(Timestamp::ZERO).unwrap().payload.len(), 2_900);
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
        while let Some(part) = receiver.recv(Timestamp::ZERO) {
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

#[test]
fn many_messages_ahead_of_a_lost_one_are_not_taken_for_old_ones() {
    let mut receiver = receiver(1, 8 << 20);
    for number in 1..50_000_u32 {
        let verdict = receiver.on_fragment(fragment(1 + number, 0, number, "BE", b"x"));
        assert_eq!(verdict, Verdict::Accepted);
    }
    assert!(!receiver.is_readable());
    receiver.on_fragment(fragment(1, 0, 0, "BE", b"x"));
    assert_eq!(read_all(&mut receiver).len(), 50_000);
}

#[test]
fn a_peer_that_leaves_messages_out_cannot_make_this_side_keep_the_rest() {
    let mut receiver = receiver(1, 10_000);
    let verdict = receiver.on_fragment(fragment(1, 0, 1, "BE", &[0; 1000]));
    assert!(matches!(verdict, Verdict::Violation(_)), "{verdict:?}");
    let mut receiver = self::receiver(1, 10_000);
    receiver.on_fragment(fragment(1, 0, 0, "BE", b"x"));
    receiver.recv(Timestamp::ZERO).unwrap();
    receiver.on_fragment(fragment(2, 0, 0, "BE", b"again"));
    assert_eq!(
        (receiver.recv(Timestamp::ZERO), receiver.unread_bytes()),
        (None, 0)
    );
}

#[test]
fn the_next_large_message_comes_in_parts_when_the_first_is_done() {
    let mut receiver = receiver(1, 10_000);
    receiver.on_fragment(fragment(1, 0, 0, "B", &[1; 5_000]));
    assert!(receiver.recv(Timestamp::ZERO).is_some_and(|part| !part.ending));
    receiver.on_fragment(fragment(3, 1, 0, "B", &[2; 5_000]));
    assert!(!receiver.is_readable());
    receiver.on_fragment(fragment(2, 0, 0, "E", &[1; 10]));
    assert!(receiver.recv(Timestamp::ZERO).is_some_and(|part| part.ending));
    let part = receiver.recv(Timestamp::ZERO).unwrap();
    assert_eq!(
        (part.stream, part.beginning, part.ending),
        (StreamId(1), true, false)
    );
}

#[test]
fn a_message_beyond_a_gap_is_not_begun_before_the_one_in_the_gap() {
    let mut receiver = receiver(1, 4_000);
    let piece = [0; 1000];
    for tsn in 5..8 {
        let flags = if tsn == 5 { "UB" } else { "U" };
        receiver.on_fragment(fragment(tsn, 1, 0, flags, &piece));
    }
    assert!(
        !receiver.is_readable(),
        "another large message may come in the gap"
    );
    receiver.on_fragment(fragment(1, 0, 0, "B", &piece));
    receiver.on_fragment(fragment(2, 0, 0, "", &piece));
    assert_eq!(read_all(&mut receiver), [(0, [0; 2000].to_vec())], "the lowest");
    receiver.on_fragment(fragment(3, 0, 0, "", &piece));
    receiver.on_fragment(fragment(4, 0, 0, "E", &piece));
    assert_eq!(
        read_all(&mut receiver),
        [(0, [0; 2000].to_vec()), (1, [0; 3000].to_vec())]
    );
}

#[test]
fn many_tiny_fragments_are_a_large_message() {
    let mut receiver = receiver(1, 1500);
    let mut received = 0;
    for number in 0..1000_u32 {
        let flag = if number == 0 { "B" } else { "" };
        let verdict = receiver.on_fragment(fragment(1 + number, 0, 0, flag, b"x"));
        assert_eq!(verdict, Verdict::Accepted);
        received += receiver
            .recv(Timestamp::ZERO)
            .map_or(0, |part| part.payload.len());
    }
    assert!(received >= 900, "{received}");
}

#[test]
fn a_restart_keeps_what_can_be_read_and_drops_the_rest() {
    let mut receiver = receiver(1, 10_000);
    receiver.on_fragment(fragment(1, 0, 0, "BE", b"whole"));
    receiver.on_fragment(fragment(2, 0, 1, "B", b"half"));
    receiver.on_fragment(fragment(4, 0, 2, "BE", b"later"));
    receiver.reset(Tsn(900), 10);
    assert_eq!(
        (receiver.cumulative_tsn(), receiver.unread_bytes()),
        (Tsn(899), 5)
    );
    receiver.on_fragment(fragment(900, 0, 0, "BE", b"anew"));
    assert_eq!(
        read_all(&mut receiver),
        [(0, b"whole".to_vec()), (0, b"anew".to_vec())]
    );
    assert_eq!(receiver.unread_bytes(), 0);
}

/// An NR-SACK promises to keep non-renegable data, so a receiver that may renege promises that for no data that waits for a reset: after
/// the reset it waits for data before it.
#[test]
fn data_that_waits_for_a_reset_is_renegable() {
    let mut config = Config::default();
    config.buffers.receive = 3_000;
    config.buffers.growth = 1;
    config.nr_sack.may_renege = true;
    let mut receiver = Receiver::new(Tsn(1), 10, &config);
    receiver.use_nr_sack();
    let listed = |receiver: &mut Receiver| {
        receiver.build_ack(1000, |ack| {
            let ends = |blocks: &[GapAckBlock]| blocks.iter().map(|block| (block.start, block.end)).collect();
            (ends(ack.renegable), ends(ack.nonrenegable))
        })
    };
    let nothing: Vec<(u16, u16)> = Vec::new();
    receiver.defer(
        receiver.progress_to(Tsn(2)).0,
        StreamSelection::Listed(vec![StreamId(3)]),
    );
    for tsn in [4, 5] {
        assert_eq!(
            receiver.on_fragment(fragment(tsn, 3, tsn - 3, "BE", &[0; 1100])),
            Verdict::Accepted
        );
    }
    assert_eq!(
        listed(&mut receiver),
        (vec![(4, 5)], nothing.clone()),
        "while it waits"
    );
    assert_eq!(
        receiver.on_fragment(fragment(1, 0, 0, "BE", &[0; 1100])),
        Verdict::Accepted
    );
    assert_eq!(
        listed(&mut receiver),
        (vec![(3, 3)], nothing.clone()),
        "the highest was dropped for TSN 1"
    );
    receiver.on_fragment(fragment(2, 0, 1, "BE", b"last"));
    receiver
        .reset_streams(&StreamSelection::Listed(vec![StreamId(3)]))
        .unwrap();
    assert_eq!(
        listed(&mut receiver),
        (vec![(2, 2)], nothing),
        "it waits for TSN 3"
    );
    assert_eq!(read_all(&mut receiver).len(), 2);
    receiver.on_fragment(fragment(3, 3, 0, "BE", b"first"));
    receiver.on_fragment(fragment(5, 3, 2, "BE", b"third"));
    let streams: Vec<_> = read_all(&mut receiver)
        .into_iter()
        .map(|(_, payload)| payload.len())
        .collect();
    assert_eq!((streams, receiver.unread_bytes()), (vec![5, 1100, 5], 0));
}

#[test]
fn an_acknowledgement_fits_its_room() {
    let mut receiver = receiver(1, 10_000);
    for tsn in [3, 5, 7, 7, 9] {
        receiver.on_fragment(fragment(tsn, 0, 0, "UBE", b"x"));
    }
    receiver.on_packet(Timestamp::ZERO, false, false);
    assert!(receiver.ack_due());
    let (blocks, duplicates) = receiver.build_ack(Sack::HEADER_LEN + 14, |ack| {
        let starts: Vec<_> = ack.renegable.iter().map(|block| block.start).collect();
        (starts, ack.duplicate_tsns.len())
    });
    assert_eq!((blocks, duplicates), (vec![3, 5, 7], 0));
    assert!(!receiver.ack_due() && !receiver.ack_pending());
}

/// Messages, numbered and fragmented as by a sender.
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

/// The same messages, numbered by MID and FSN. `random` chooses the stream of each fragment.
fn interleave(messages: &[(u16, bool, usize)], mut random: impl FnMut(u64) -> u64) -> Vec<Fragment> {
    let mut next_mid = [[0; 2]; 10];
    let mut queues = vec![VecDeque::new(); 10];
    for &(stream, unordered, pieces) in messages {
        let mid = &mut next_mid[usize::from(stream)][usize::from(unordered)];
        for piece in 0..pieces {
            queues[usize::from(stream)].push_back(Fragment {
                unordered,
                fsn: piece as u32,
                beginning: piece == 0,
                ending: piece + 1 == pieces,
                repair: false,
                ..fragment(0, stream, *mid, "", &[1, 2])
            });
        }
        *mid += 1;
    }
    let mut fragments = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        let tsn = Tsn(1 + fragments.len() as u32);
        let next = queues[random(10) as usize].pop_front();
        fragments.extend(next.map(|fragment| Fragment { tsn, ..fragment }));
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
        let first_ssn = if near_wrap { 65_530 } else { 0 };
        let fragments = cut(&messages, initial, first_ssn);
        let mut shuffled: Vec<_> = fragments.iter().chain(duplicates.then_some(&fragments).into_iter().flatten()).collect();
        let mut state = order | 1;
        for at in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(at, (state >> 33) as usize % (at + 1));
        }
        let mut receiver = receiver(initial, 100_000);
        for stream in 0..4 {
            let Messages::Sequential(messages) = &mut receiver.messages else {
                panic!("nothing was negotiated")
            };
            (0..first_ssn).for_each(|_| messages.streams.advance(StreamId(stream), |_| ()));
        }
        let mut received = Vec::new();
        for fragment in shuffled {
            let verdict = receiver.on_fragment(fragment.clone());
            prop_assert!(matches!(verdict, Verdict::Accepted | Verdict::Duplicate), "{:?}", verdict);
            received.extend(std::iter::from_fn(|| receiver.recv(Timestamp::ZERO)));
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

    /// A sender limited by the window, a network that loses and reorders packets, and an application that reads at any time: nothing gets
    /// stuck, the receiver never holds more than its bound, and everything arrives.
    #[test]
    fn a_small_window_passes_everything(
        messages in proptest::collection::vec((0_u16..4, any::<bool>(), 1_usize..40), 1..20),
        mut state in 1_u64..,
        receive in 1_500_u32..6_000,
        times in proptest::sample::select(&[1_usize, 150]),
        interleaves: bool,
        may_renege: bool,
    ) {
        let len = 2 * times;
        let mut config = Config::default();
        config.buffers.receive = receive;
        config.buffers.growth = 1;
        config.nr_sack.may_renege = may_renege;
        let mut receiver = Receiver::new(Tsn(1), 10, &config);
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut fragments = cut(&messages, 1, 0);
        if interleaves {
            receiver.use_interleaving(&config.buffers);
            fragments = interleave(&messages, &mut random);
        }
        for fragment in &mut fragments {
            fragment.payload = Bytes::from(fragment.payload.repeat(times));
        }
        let (mut sent, mut received, mut rounds) = (0, 0, 0);
        let mut acked = vec![false; fragments.len()];
        while received < fragments.iter().map(|fragment| fragment.payload.len()).sum::<usize>() {
            rounds += 1;
            prop_assert!(rounds < 20_000, "stuck with {} held, {:?}", receiver.unread_bytes(), receiver.cumulative_tsn());
            let mut packets: Vec<usize> = (0..sent).filter(|at| !acked[*at]).collect();
            let mut room = (receiver.a_rwnd() as usize).saturating_sub(packets.len() * len);
            // A probe of a zero window is one chunk.
            while sent < fragments.len() && (room >= len || packets.is_empty()) {
                packets.push(sent);
                sent += 1;
                room = room.saturating_sub(len);
            }
            for at in (1..packets.len()).rev() {
                packets.swap(at, random(at as u64 + 1) as usize);
            }
            for at in packets {
                if random(3) > 0 {
                    let verdict = receiver.on_fragment(fragments[at].clone());
                    prop_assert!(!matches!(verdict, Verdict::Violation(_)), "{:?}", verdict);
                    prop_assert!(receiver.unread_bytes() <= 2 * receive as usize + len);
                    let memory = receiver.window.held().memory() + receiver.overhead();
                    prop_assert!(memory <= 3 * receive as usize + 2 * SPARE);
                }
            }
            receiver.build_ack(1000, |ack| {
                let below = ack.cumulative_tsn_ack.0 as usize;
                acked[..below].fill(true);
                acked[below..].fill(false);
                for block in ack.renegable {
                    acked[below + usize::from(block.start) - 1..below + usize::from(block.end)].fill(true);
                }
            });
            for _ in 0..random(4) {
                received += receiver.recv(Timestamp::ZERO).map_or(0, |part| part.payload.len());
            }
        }
        prop_assert!(receiver.recv(Timestamp::ZERO).is_none() && receiver.unread_bytes() == 0);
    }
}

/// A peer that sends small payloads in large datagrams does not make the receiver keep the whole datagrams.
#[test]
fn large_datagrams_are_not_kept_for_small_payloads() {
    let mut receiver = receiver(1, 100_000);
    let datagram = Bytes::from(vec![1; 60_000]);
    for tsn in 0..100 {
        let fragment = Fragment {
            payload: datagram.slice(..300),
            datagram: datagram.len(),
            origin: Origin::default(),
            ..fragment(3 + 2 * tsn, 0, tsn, "UBE", b"")
        };
        assert_eq!(receiver.on_fragment(fragment), Verdict::Accepted);
        receiver.on_packet(Timestamp::ZERO, false, false);
    }
    let kept: Vec<_> = std::iter::from_fn(|| receiver.recv(Timestamp::ZERO)).collect();
    let slices = kept.iter().filter(|part| {
        datagram
            .as_ptr_range()
            .contains(&part.payload.pieces()[0].as_ptr())
    });
    assert_eq!((kept.len(), slices.count()), (100, 0));
}

/// Short messages of one datagram are slices of it, and the last one that the application has not read counts the datagram.
#[test]
fn messages_of_one_datagram_count_it_once() {
    let mut receiver = receiver(1, 100_000);
    let datagram = Bytes::from(vec![1; 40_000]);
    let slice = |tsn: u32, len: usize| Fragment {
        payload: datagram.slice(..len),
        datagram: datagram.len(),
        origin: Origin::default(),
        ..fragment(tsn, 0, tsn - 1, "BE", b"")
    };
    for tsn in 1..=4 {
        receiver.on_fragment(slice(tsn, 300));
    }
    receiver.on_packet(Timestamp::ZERO, false, false);
    // The first one is a copy: the packet might have had no other.
    let whole = 3 * 300 + 40_000;
    assert_eq!(receiver.window.held().kept, whole);
    for read in 1..=3 {
        assert!(receiver.recv(Timestamp::ZERO).is_some());
        assert_eq!(receiver.window.held().kept, whole - read * 300);
    }
    assert!(receiver.recv(Timestamp::ZERO).is_some());
    assert_eq!(receiver.window.held(), Load::default());
    // The next datagram has one short message only.
    assert_eq!(receiver.on_fragment(slice(5, 300)), Verdict::Accepted);
    assert_eq!(receiver.window.held().kept, 300);
    // Messages that are read in another order are copies.
    for tsn in 6..=8 {
        receiver.on_fragment(slice(tsn, 300));
    }
    receiver.separate_new(true);
    let mut left = 0;
    while let Some(StreamItem::Part(part)) = receiver.recv_from(Timestamp::ZERO, StreamId(0)) {
        let payload = &part.payload.pieces()[0];
        assert!(!datagram.as_ptr_range().contains(&payload.as_ptr()));
        left += 1;
    }
    assert_eq!((left, receiver.window.held()), (4, Load::default()));
}

/// A slice counts as its whole datagram, a copy as its own bytes.
#[test]
fn datagrams_that_are_kept_count() {
    let datagram = Bytes::from(vec![1; 20_000]);
    for (len, counted) in [(10_000, 20_000), (9_999, 9_999)] {
        let mut receiver = receiver(1, 100_000);
        for tsn in [2, 3, 4] {
            let fragment = Fragment {
                payload: datagram.slice(..len),
                datagram: datagram.len(),
                origin: Origin::default(),
                ..fragment(tsn, 0, 0, "UBE", b"")
            };
            receiver.on_fragment(fragment);
        }
        // While little is held, the first is not copied.
        let memory = 20_000 + 2 * counted + 3 * load::OVERHEAD;
        assert_eq!(receiver.window.held().memory(), memory);
        read_all(&mut receiver);
        assert_eq!(receiver.window.held(), Load::default());
    }
}

#[test]
fn the_overhead_covers_the_structures() {
    use load::tests::{LEAST, allocation, tree_entry};
    use load::{GAP, OVERHEAD, RENEGABLE, SKIPPED};
    let key = size_of::<interleaved::Key>();
    let chunk = LEAST - 1;
    // A queue may have twice the memory that its entries need.
    assert!(2 * size_of::<Ready>() + chunk <= OVERHEAD);
    let waits = tree_entry(4 + size_of::<Box<Held>>()) + allocation(size_of::<Held>());
    assert!(waits + chunk <= OVERHEAD, "{waits}");
    assert!(tree_entry(16) <= GAP);
    // A single fragment of a message.
    let run = tree_entry(8 + size_of::<reassembly::Assembly>()) + tree_entry(16);
    let growing = tree_entry(key + 8) + allocation(interleaved::GROWING);
    let (slice, held) = (
        allocation(size_of::<Bytes>()),
        allocation(size_of::<(u64, u64, Bytes, u32)>()),
    );
    assert!(run + slice + chunk <= 2 * OVERHEAD, "{run}");
    assert!(
        growing + held + tree_entry(key) + chunk <= 2 * OVERHEAD,
        "{growing}"
    );
    // A message of which the application has read all fragments.
    assert!(growing <= OVERHEAD, "{growing}");
    assert!(tree_entry(4) <= SKIPPED && tree_entry(key) <= 2 * SKIPPED);
    assert!(tree_entry(8 + size_of::<renegable::Place>()) <= RENEGABLE && tree_entry(16) <= RENEGABLE);
}

/// A message arrived with the packet that completed it, whatever it waited for afterwards.
#[test]
fn a_message_has_the_time_and_the_path_of_the_packet_that_completed_it() {
    for interleaved in [false, true] {
        let mut receiver = receiver(1, 10_000);
        if interleaved {
            receiver.use_interleaving(&Config::default().buffers);
        }
        let mut arrive = |tsn, sequence, fsn, flags, at, path| {
            let origin = Origin {
                at: Timestamp::from_millis(at),
                path: PathId(path),
            };
            receiver.on_fragment(Fragment {
                fsn,
                origin,
                ..fragment(tsn, 0, sequence, flags, b"x")
            });
        };
        // The second message is complete at 30 ms, but the first one is not: it is at 40 ms, by its middle.
        arrive(1, 0, 0, "B", 10, 0);
        arrive(3, 0, 2, "E", 20, 1);
        arrive(4, 1, 0, "BE", 30, 2);
        arrive(2, 0, 1, "", 40, 3);
        arrive(5, 2, 0, "BE", 50, 4);
        let read = std::iter::from_fn(|| receiver.recv(Timestamp::from_millis(60)));
        let facts: Vec<_> = read.map(|part| (part.arrived_at, part.path)).collect();
        let expected = [(40, 3), (30, 2), (50, 4)];
        let expected = expected.map(|(at, path)| (Timestamp::from_millis(at), PathId(path)));
        assert_eq!(facts, expected, "interleaved: {interleaved}");
    }
}
