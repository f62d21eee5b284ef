//! What a peer can make an endpoint keep, and the bound that each meets.

use core::time::Duration;

use anabranch_proto::{AssociationState as State, Config, Event, Tsn};
use anabranch_testkit::{Script, quiet};
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Chunk, ErrorChunk};

fn with(change: impl FnOnce(&mut Config)) -> Script {
    let mut config = quiet();
    change(&mut config);
    let mut script = Script::new(config, 1);
    script.set_up();
    script.events();
    script.talker().reading = false;
    script
}

fn unread(script: &Script) -> usize {
    script.association().stats().unread_bytes
}

fn dropped(script: &Script) -> u64 {
    script.association().counters().dropped_no_room
}

// M → DATA, DATA, … (the application reads nothing) → A
/// `buffers.receive`: messages that are complete and not read; never more than twice of it.
#[test]
fn unread_messages() {
    let mut script = with(|config| config.buffers.receive = 20_000);
    for ssn in 0..200 {
        let data = script.data(0, ssn, vec![1; 1000]);
        script.send(&[data]);
        assert!(unread(&script) <= 2 * 20_000, "{}", unread(&script));
    }
    assert!(dropped(&script) > 0);
    assert_eq!(script.association().stats().a_rwnd, 0);
    assert_eq!(script.association().state(), State::Established);
}

// M → DATA with SSN 1, 2, 3, … (SSN 0 never comes) → A
/// `buffers.receive` and `buffers.max_chunks`: messages that wait for their turn.
#[test]
fn messages_out_of_order() {
    let mut script = with(|config| {
        config.buffers.receive = 1 << 20;
        config.buffers.max_chunks = 100;
    });
    script.tsn = script.tsn.next();
    for ssn in 1..1000 {
        let data = script.data(0, ssn, "x");
        script.send(&[data]);
    }
    assert!(unread(&script) <= 200, "{} bytes, a chunk each", unread(&script));
    assert!(dropped(&script) >= 700, "{}", dropped(&script));
    assert_eq!(script.association().stats().a_rwnd, 0);
    assert_eq!(script.association().state(), State::Established);
}

// M → every other TSN, a fragment without an end each → A
/// The same bounds for reassembly, and 65,535 TSNs ahead for the runs that gap blocks tell of (§3.3.4).
#[test]
fn fragments_and_gaps() {
    let mut script = with(|config| config.buffers.max_chunks = 500);
    let first = script.tsn;
    for step in 0..2000 {
        script.tsn = first.plus(1 + 2 * step);
        let mut data = script.data(0, 0, "x");
        if let Chunk::Data(data) = &mut data {
            data.ending = false;
        }
        script.send(&[data]);
    }
    assert_eq!(unread(&script), 500);
    assert_eq!(dropped(&script), 1500);
    script.skip_answers();
    script.tsn = first.plus(70_000);
    let far = script.data(0, 0, "x");
    script.send(&[far]);
    script.advance(Duration::from_millis(500));
    assert_eq!(unread(&script), 500, "too far ahead");
    assert_eq!(script.association().state(), State::Established);
}

// M → DATA (the same one, 1,000 times in one packet) → A
// A → SACK (some duplicates) → M
/// Duplicates: 64 are remembered for a SACK.
#[test]
fn duplicates() {
    let mut script = with(|_| ());
    let data = script.data(0, 0, "x");
    script.send(core::slice::from_ref(&data));
    script.skip_answers();
    script.send(&vec![data; 1000]);
    script.advance(Duration::from_millis(500));
    let mut told = 0;
    while let Some(answer) = script.next_answer() {
        for chunk in answer.chunks {
            if let Chunk::Sack(sack) = chunk {
                told += sack.duplicate_tsns.len();
            }
        }
    }
    assert!((1..=64).contains(&told), "{told}");
    assert_eq!(script.association().counters().duplicates_received, 1000);
}

// M → ERROR, ERROR, … in one packet → A
/// Events: 256 that the application has not taken.
#[test]
fn error_events() {
    let mut script = with(|_| ());
    let error = Chunk::Error(ErrorChunk {
        causes: Causes::from_causes(&[Cause::OutOfResource]),
    });
    script.send(&vec![error; 5000]);
    let events = script.events();
    let errors = events.iter().filter(|event| matches!(event, Event::PeerError(_)));
    let count = errors.count();
    assert!((1..=256).contains(&count), "{count}");
    assert_eq!(script.association().state(), State::Established);
}

// M → DATA (every TSN beyond half the numbers) → A
/// TSNs that are neither near nor old are not kept.
#[test]
fn far_tsns() {
    let mut script = with(|_| ());
    let first = script.tsn;
    for step in [65_536, 100_000, 0x7000_0000] {
        script.tsn = Tsn(first.0.wrapping_add(step));
        let data = script.data(0, 0, "x");
        script.send(&[data]);
    }
    assert_eq!(unread(&script), 0);
    assert_eq!(script.association().state(), State::Established);
}
