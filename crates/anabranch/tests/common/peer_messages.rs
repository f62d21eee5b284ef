//! The messages that the interop peers send and expect (interop/README.md).

use std::path::PathBuf;

use anabranch::{Association, Message, Ppid, SendOptions, StreamId};

const PPID_BASE: u32 = 0x4100_0000;
pub(crate) const STREAMS: u64 = 8;
pub(crate) const UNORDERED_EVERY: u64 = 10;
pub(crate) const SEED: u64 = 1;
const MAX_SIZE: u64 = 262_144;
/// The length of all messages in a test of large messages (interop/README.md, `--large`).
pub(crate) const LARGE: u64 = 1 << 20;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// The sizes of messages.
#[allow(dead_code, reason = "not every test that shares this has large ones")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    Mixed,
    Large,
}

/// Message `index` of the listening (1) or connecting (0) side: stream, whether unordered, bytes.
fn describe(sizes: Sizes, direction: u64, index: u64) -> (StreamId, bool, Vec<u8>) {
    let classes = [
        (700, 1, 256),
        (900, 257, 4096),
        (987, 4097, 16_384),
        (996, 16_385, 65_536),
        (1000, 65_537, 262_144),
    ];
    let mut state = mix(mix(2 * SEED + direction).wrapping_add(index));
    let (class, size, stream) = (next(&mut state) % 1000, next(&mut state), next(&mut state));
    let (_, low, high) = classes
        .into_iter()
        .find(|(below, ..)| class < *below)
        .expect("all are below 1000");
    let (size, stream) = match (sizes, index) {
        (Sizes::Large, _) => (LARGE, index),
        (Sizes::Mixed, 0) => (1, stream),
        (Sizes::Mixed, 1) => (MAX_SIZE, stream),
        (Sizes::Mixed, _) => (low + size % (high - low + 1), stream),
    };
    let unordered = index % UNORDERED_EVERY == UNORDERED_EVERY - 1;
    let mut bytes = Vec::with_capacity(size as usize + 8);
    while bytes.len() < size as usize {
        bytes.extend_from_slice(&next(&mut state).to_le_bytes());
    }
    bytes.truncate(size as usize);
    (StreamId((stream % STREAMS) as u16), unordered, bytes)
}

/// Sends the messages of one direction with these numbers. Their options depend on the stream and on whether they are unordered.
pub(crate) async fn send_all(
    association: &Association,
    sizes: Sizes,
    direction: u64,
    indexes: std::ops::Range<u64>,
    options: impl Fn(StreamId, bool) -> SendOptions,
) {
    for index in indexes {
        let (stream, unordered, bytes) = describe(sizes, direction, index);
        let options = options(stream, unordered)
            .ppid(Ppid(PPID_BASE + index as u32))
            .unordered(unordered);
        association.send_with(stream, bytes, options).await.expect("send");
    }
}

/// The messages received in one direction.
pub(crate) struct Inbox {
    sizes: Sizes,
    direction: u64,
    seen: Vec<bool>,
    last: [Option<u64>; STREAMS as usize],
}

impl Inbox {
    /// The state before the first of `count` messages.
    pub(crate) fn new(sizes: Sizes, direction: u64, count: u64) -> Self {
        Self {
            sizes,
            direction,
            seen: vec![false; count as usize],
            last: [None; STREAMS as usize],
        }
    }

    /// Checks a message; returns its stream and its length.
    pub(crate) fn take(&mut self, message: Message) -> (StreamId, usize) {
        let index = u64::from(message.ppid.0 - PPID_BASE);
        let (stream, unordered, bytes) = describe(self.sizes, self.direction, index);
        assert_eq!(
            (message.stream, message.unordered),
            (stream, unordered),
            "message {index}"
        );
        assert!(
            !std::mem::replace(&mut self.seen[index as usize], true),
            "message {index} came twice"
        );
        if !unordered {
            let before = self.last[usize::from(stream.0)].replace(index);
            assert!(before < Some(index), "message {index} came after {before:?}");
        }
        assert!(
            message.into_bytes() == bytes,
            "message {index} is not what was sent"
        );
        (stream, bytes.len())
    }
}

/// Receives and checks messages until no message is missing on the streams that are `needed`. `note` is called for each message.
pub(crate) async fn receive_all(
    association: &Association,
    inbox: &mut Inbox,
    needed: impl Fn(StreamId) -> bool,
    mut note: impl FnMut(usize),
) {
    let all = 0..inbox.seen.len() as u64;
    let mut missing = all
        .filter(|index| needed(describe(inbox.sizes, inbox.direction, *index).0))
        .count();
    while missing > 0 {
        let message = association.recv().await.expect("recv").expect("another message");
        let (stream, len) = inbox.take(message);
        missing -= usize::from(needed(stream));
        note(len);
    }
}

/// The path of a peer's program. The file may not exist.
pub(crate) fn program(peer: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/interop");
    folder.join(format!("{peer}-peer"))
}
