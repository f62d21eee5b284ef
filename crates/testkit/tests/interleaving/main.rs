//! Message interleaving (RFC 8260): I-DATA and I-FORWARD-TSN with hand-made packets, a test for each rule, with the packets
//! drawn. TSNs count from the sender's initial TSN, which is 0. A fragment is (stream:MID.FSN), with u for unordered, and b and
//! e for the first and last fragment of its message.

mod negotiation;
mod receiver;
mod sender;

use anabranch_proto::{Config, Ppid, StreamId};
use anabranch_testkit::fixture::{self, Fixture};
use anabranch_wire::chunk::{Chunk, IData, experimental_kind, kind};
use anabranch_wire::{Fsn, Mid, Tsn};
use bytes::Bytes;

/// The chunk types that a peer with all extensions lists.
const ALL: [u8; 5] = [
    kind::FORWARD_TSN,
    kind::NR_SACK,
    experimental_kind::SELECTIVE_FORWARD_TSN,
    kind::I_DATA,
    kind::I_FORWARD_TSN,
];

/// The settings of `Fixture`, with interleaving offered.
fn config() -> Config {
    let mut config = fixture::config();
    config.interleaving.offer = true;
    config
}

/// An endpoint with interleaving, and its peer's initial TSN.
fn begin_with(config: Config) -> (Fixture, Tsn) {
    let fixture = Fixture::new(config, &ALL);
    let first = fixture.script.tsn;
    assert!(fixture.script.association().stats().extensions.interleaving);
    (fixture, first)
}

fn begin() -> (Fixture, Tsn) {
    begin_with(config())
}

/// The peer's chunk number `number`: `place` is "stream:MID.FSN" followed by flags, as in the drawings. The user data is the
/// stream, the MID and the FSN, padded to `len`.
fn i_data(first: Tsn, number: u32, place: &str, len: usize) -> Chunk {
    let (stream, rest) = place.split_once(':').expect("stream:MID.FSN");
    let unordered = rest.starts_with('u');
    let (mid, rest) = rest.trim_start_matches('u').split_once('.').expect("MID.FSN");
    let fsn: u32 = rest.trim_end_matches(['b', 'e']).parse().expect("an FSN");
    let (stream, mid): (u16, u32) = (stream.parse().expect("a stream"), mid.parse().expect("an MID"));
    let mut payload = vec![stream as u8, mid as u8, fsn as u8];
    payload.resize(len, 0xEE);
    Chunk::IData(IData {
        tsn: first.plus(number),
        stream: StreamId(stream),
        mid: Mid(mid),
        ppid: Ppid(mid),
        fsn: Fsn(fsn),
        unordered,
        beginning: rest.contains('b'),
        ending: rest.contains('e'),
        immediate: false,
        repair: false,
        payload: Bytes::from(payload),
    })
}

/// The peer sends chunks of `len` bytes with TSNs from `number` on, one per packet.
fn arrive(fixture: &mut Fixture, first: Tsn, number: u32, places: &[&str], len: usize) {
    for (number, place) in (number..).zip(places) {
        fixture.script.send(&[i_data(first, number, place, len)]);
    }
}

/// The messages delivered: "stream:MID", with u for unordered.
fn delivered(fixture: &mut Fixture) -> Vec<String> {
    let messages = fixture.script.messages();
    let name = |message: &anabranch_testkit::Message| {
        let unordered = if message.unordered { "u" } else { "" };
        format!("{}:{unordered}{}", message.stream.0, message.ppid.0)
    };
    messages.iter().map(name).collect()
}
