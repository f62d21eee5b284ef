//! Selective forward TSN, the sender's side (Basto and Freitas, extension (b)).

use core::time::Duration;

use anabranch_proto::Reliability::{Lifetime, Reliable, Retransmissions};

use anabranch_testkit::desk::{ALL, Desk, FULL, NEVER_AGAIN, config};

/// User data that fills a packet beside a notice.
const BESIDE: usize = FULL - 12;

fn desk(distance: u32) -> Desk {
    let mut config = config();
    config.partial_reliability.selective_forward_tsn = Some(distance);
    Desk::new(config, &ALL)
}

// A → DATA 0;  A → NOTICE 0, DATA 1;  A → NOTICE 1, DATA 2
/// The packet after the one with the message says that it will not be repeated.
#[test]
fn the_next_packet_speaks_of_the_one_before() {
    let mut desk = desk(1);
    desk.send(&[NEVER_AGAIN; 3], BESIDE);
    assert_eq!(
        desk.sent(),
        ["DATA 0", "NOTICE 0 (0:0), DATA 1", "NOTICE 1 (0:1), DATA 2"]
    );
    assert_eq!(desk.counters().selective_notices_sent, 2);
}

/// With a distance of three packets.
#[test]
fn at_a_distance() {
    let mut desk = desk(3);
    desk.send(&[NEVER_AGAIN; 5], BESIDE);
    assert_eq!(
        desk.sent(),
        [
            "DATA 0",
            "DATA 1",
            "DATA 2",
            "NOTICE 0 (0:0), DATA 3",
            "NOTICE 1 (0:1), DATA 4"
        ]
    );
}

/// At most half the window, and none waits when the window closes: the last packet that may leave takes all.
#[test]
fn flushed_as_the_window_closes() {
    let mut config = config();
    config.initial_window = Some(4);
    config.partial_reliability.selective_forward_tsn = Some(9);
    let mut desk = Desk::new(config, &ALL);
    desk.send(&[NEVER_AGAIN; 6], 1100);
    assert_eq!(
        desk.sent(),
        [
            "DATA 0",
            "DATA 1",
            "NOTICE 0 (0:0), DATA 2",
            "NOTICE 1 (0:1), DATA 3",
            "NOTICE 2 (0:2), NOTICE 3 (0:3), DATA 4"
        ]
    );
}

/// Only of ordered messages of which nothing will be sent again: the last repeat, or a lifetime that ends before a loss
/// could be known.
#[test]
fn only_of_the_last_transmission_of_an_ordered_message() {
    let mut desk = desk(1);
    desk.send_on(0, BESIDE, Retransmissions(1), false);
    desk.send_on(0, BESIDE, Reliable, false);
    desk.send_on(0, BESIDE, NEVER_AGAIN, true);
    desk.send_on(0, BESIDE, Lifetime(Duration::from_secs(9)), false);
    desk.send_on(0, BESIDE, NEVER_AGAIN, false);
    desk.send_on(0, BESIDE, Reliable, false);
    let sent = desk.sent();
    assert_eq!(sent[..5], ["DATA 0", "DATA 1", "DATA 2", "DATA 3", "DATA 4"]);
    assert_eq!(sent[5], "NOTICE 4 (0:3), DATA 5");
}

/// Not of what is known to have arrived.
#[test]
fn not_of_what_arrived() {
    let mut desk = desk(1);
    desk.send(&[NEVER_AGAIN], BESIDE);
    desk.nr_sack(1, &[], &[]);
    desk.send(&[NEVER_AGAIN], BESIDE);
    assert_eq!(desk.sent(), ["DATA 0", "DATA 1"]);
}

/// Nor of what arrived behind a gap.
#[test]
fn not_of_what_arrived_behind_a_gap() {
    let mut desk = desk(1);
    desk.send(&[Reliable, NEVER_AGAIN], BESIDE);
    desk.nr_sack(0, &[], &[(1, 1)]);
    desk.send(&[Reliable], BESIDE);
    assert_eq!(desk.sent(), ["DATA 0", "DATA 1", "DATA 2"]);
}

/// Of a message in fragments the notice speaks of the last one.
#[test]
fn one_for_a_message_in_fragments() {
    let mut desk = desk(1);
    desk.send(&[NEVER_AGAIN], 2 * BESIDE);
    desk.send(&[Reliable], BESIDE);
    assert_eq!(desk.sent(), ["DATA 0", "DATA 1", "NOTICE 1 (0:0), DATA 2"]);
}

/// Fragments are shorter by a notice, so that full packets too have room for one.
#[test]
fn packets_leave_room_for_a_notice() {
    let mut desk = desk(1);
    desk.send(&[NEVER_AGAIN], 2 * BESIDE);
    desk.send(&[NEVER_AGAIN], 2 * BESIDE);
    assert_eq!(
        desk.sent(),
        ["DATA 0", "DATA 1", "NOTICE 1 (0:0), DATA 2", "DATA 3"]
    );
}

/// A peer that does not list it gets none, and packets are full.
#[test]
fn a_peer_without_it_gets_none() {
    let mut config = config();
    config.partial_reliability.selective_forward_tsn = Some(1);
    let mut desk = Desk::new(config, &ALL[..2]);
    desk.send(&[NEVER_AGAIN; 2], FULL);
    assert_eq!(desk.sent(), ["DATA 0", "DATA 1"]);
}
