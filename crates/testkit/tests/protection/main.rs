//! Protected packets (draft-ietf-tsvwg-sctp-dtls-chunk) with keys that encrypt nothing: set-up, enforcement, rekeying, attacks, and the
//! extensions that an association with protected packets keeps.

mod attacks;
mod restarts;
mod set_up;
mod transfer;

use std::time::Duration;

use anabranch_netsim::{LinkConfig, Payload, Record};
use anabranch_proto::{Config, Event, ProtectionStats};
use anabranch_testkit::{Pair, Setup, Side, protect, quiet, with};
use anabranch_wire::packet::Packet as SctpPacket;

const MS: Duration = Duration::from_millis(1);

fn config() -> Config {
    with(quiet(), protect)
}

fn protection(pair: &Pair, side: Side) -> ProtectionStats {
    pair.association(side).stats().protection.expect("protected")
}

fn is_protected(pair: &Pair) -> bool {
    Side::BOTH.iter().all(|side| {
        let id = pair.id(*side).and_then(|id| pair.host(*side).association(id));
        id.and_then(|association| association.stats().protection)
            .is_some_and(|stats| stats.is_protected)
    })
}

/// Runs until both hosts protect their packets.
fn become_protected(pair: &mut Pair) {
    pair.begin();
    let limit = pair.now() + 60_000 * MS;
    assert!(pair.run_to(limit, |pair| is_protected(pair)), "{}", pair.draw());
}

fn connected(setup: Setup) -> Pair {
    let mut pair = setup.build();
    become_protected(&mut pair);
    pair
}

/// The packet of a record.
fn sctp(record: &Record) -> SctpPacket {
    let Payload::Sctp(bytes) = &record.packet.payload else {
        panic!("only SCTP is sent");
    };
    SctpPacket::parse(bytes.clone()).expect("the checksum is right")
}

fn link() -> LinkConfig {
    LinkConfig::default().with_delay(10 * MS)
}

fn has(events: &[Event], event: &Event) -> bool {
    events.contains(event)
}
