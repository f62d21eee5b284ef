//! Compares a [`Receiver`] with interleaving to a model: a map of all fragments that arrived.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_wire::chunk::SkippedMessage;
use anabranch_wire::{Mid, Ppid, StreamId, Tsn};
use bytes::Bytes;

use super::super::load::Load;
use super::super::sequential::BYTES_FOR_A_NOTICE;
use super::super::{Fragment, Origin, Receiver, Verdict};
use super::Key;
use crate::config::{BufferConfig, Config};
use crate::fuzzing::Commands;
use crate::time::Timestamp;

const STREAMS: u16 = 3;

/// The most fragments in flight, as a sender is limited by its windows.
const MOST_IN_FLIGHT: usize = 24;

/// Bytes of user data in a fragment: its message, its number, and padding.
const LEN: usize = 16;

/// Messages begin at this MID if the input asks for an early wrap.
const NEAR_WRAP: u32 = u32::MAX - 2;

#[derive(Debug, Default)]
struct Known {
    /// TSNs by FSN.
    fragments: BTreeMap<u32, Tsn>,
    last: Option<u32>,
    /// Number of fragments that the application read, as parts.
    read: usize,
}

impl Known {
    fn is_complete(&self) -> bool {
        self.last
            .is_some_and(|last| self.fragments.len() == last as usize + 1)
    }

    /// Whether a fragment is consistent with those that have arrived.
    fn takes(&self, fsn: u32, beginning: bool, ending: bool) -> bool {
        let highest = self.fragments.last_key_value().map(|(fsn, _)| *fsn);
        let ends_too_soon = ending && (self.last.is_some() || highest > Some(fsn));
        let number_fits = beginning == (fsn == 0) && !self.fragments.contains_key(&fsn);
        number_fits && !ends_too_soon && self.last.is_none_or(|last| fsn <= last)
    }

    /// Number of consecutive fragments from the first on.
    fn run(&self) -> usize {
        (0_u32..)
            .zip(self.fragments.keys())
            .take_while(|(number, fsn)| number == *fsn)
            .count()
    }
}

/// The message that a correct sender sends next on a stream: one message at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Sending {
    mids: [u32; 2],
    unordered: bool,
    /// The next fragment, and the number of fragments.
    fsn: u32,
    count: u32,
}

struct Model {
    receiver: Receiver,
    may_renege: bool,
    receive: usize,
    sending: [Sending; STREAMS as usize],
    next_tsn: Tsn,
    in_flight: VecDeque<Fragment>,
    known: BTreeMap<Key, Known>,
    /// The next ordered message of each stream.
    next: [u32; STREAMS as usize],
    /// Ordered messages that will not arrive.
    skipped: BTreeSet<(StreamId, u32)>,
    /// The highest unordered message that will not arrive.
    passed: [Option<u32>; STREAMS as usize],
    /// Messages that the application can read: ordered messages in order, unordered ones in any order.
    due: [VecDeque<u32>; STREAMS as usize],
    due_unordered: BTreeSet<Key>,
    /// The most bytes that the application can read of each message that is due or truncated.
    sizes: BTreeMap<Key, usize>,
    /// Messages of which the application read parts, by the number that it knows, with the bytes so far.
    begun: BTreeMap<u64, (Key, Vec<u8>)>,
    cut: BTreeSet<Key>,
}

/// The user data of fragment `fsn` of a message.
fn payload(key: Key, fsn: u32) -> [u8; LEN] {
    let mut payload = [fsn as u8; LEN];
    payload[0] = key.stream.0 as u8;
    payload[1] = u8::from(key.unordered);
    payload[2..6].copy_from_slice(&key.mid.to_be_bytes());
    payload
}

fn key_of(bytes: &[u8]) -> Key {
    Key {
        stream: StreamId(bytes[0].into()),
        unordered: bytes[1] != 0,
        generation: 0,
        mid: u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]),
    }
}

impl Model {
    fn new(options: u8) -> Self {
        let config = Config::default();
        let receive = if options & 1 == 0 { 100_000 } else { 20 * LEN };
        let may_renege = options & 2 != 0;
        let buffers = BufferConfig {
            receive: receive as u32,
            growth: 1,
            partial_delivery_point: if options & 4 == 0 { 4 * LEN } else { 100_000 },
            ..config.buffers
        };
        let mut config = Config { buffers, ..config };
        config.nr_sack.may_renege = may_renege;
        let mut receiver = Receiver::new(Tsn(1), STREAMS, &config);
        receiver.use_interleaving(&config.buffers);
        let mut model = Self {
            receiver,
            may_renege,
            receive,
            sending: Default::default(),
            next_tsn: Tsn(1),
            in_flight: VecDeque::new(),
            known: BTreeMap::new(),
            next: Default::default(),
            skipped: BTreeSet::new(),
            passed: Default::default(),
            due: Default::default(),
            due_unordered: BTreeSet::new(),
            sizes: BTreeMap::new(),
            begun: BTreeMap::new(),
            cut: BTreeSet::new(),
        };
        if options & 16 != 0 {
            for mid in [NEAR_WRAP / 2, NEAR_WRAP - 1] {
                for stream in 0..STREAMS {
                    model.sending[usize::from(stream)].mids = [mid.wrapping_add(1); 2];
                    for unordered in [false, true] {
                        model.forward(Key {
                            stream: StreamId(stream),
                            unordered,
                            generation: 0,
                            mid,
                        });
                    }
                }
            }
        }
        model
    }

    /// The next fragment of a correct sender on this stream.
    fn make(&mut self, stream: u16, byte: u8) -> Fragment {
        let sending = &mut self.sending[usize::from(stream)];
        if sending.fsn == sending.count {
            (sending.fsn, sending.count) = (0, 1 + u32::from(byte % 9));
            sending.unordered = byte & 0x80 != 0;
        }
        let key = Key {
            stream: StreamId(stream),
            unordered: sending.unordered,
            generation: 0,
            mid: sending.mids[usize::from(sending.unordered)],
        };
        let fsn = sending.fsn;
        let ending = fsn + 1 == sending.count;
        sending.fsn += 1;
        if ending {
            let mid = &mut sending.mids[usize::from(key.unordered)];
            *mid = mid.wrapping_add(1);
        }
        let tsn = self.next_tsn;
        self.next_tsn = tsn.next();
        Fragment {
            tsn,
            stream: key.stream,
            unordered: key.unordered,
            sequence: key.mid,
            fsn,
            ppid: Ppid(key.mid),
            beginning: fsn == 0,
            ending,
            repair: false,
            payload: Bytes::copy_from_slice(&payload(key, fsn)),
            datagram: LEN,
            origin: Origin::default(),
        }
    }

    fn is_past(&self, key: Key) -> bool {
        let stream = usize::from(key.stream.0);
        if key.unordered {
            self.passed[stream].is_some_and(|passed| !Mid(key.mid).is_after(Mid(passed)))
        } else {
            Mid(key.mid).is_before(Mid(self.next[stream]))
        }
    }

    /// A fragment arrives. Returns false if it is a violation, after which the association ends.
    fn arrive(&mut self, fragment: Fragment) -> bool {
        let key = Key {
            stream: fragment.stream,
            unordered: fragment.unordered,
            generation: 0,
            mid: fragment.sequence,
        };
        // An unordered message may use a MID again only when the receiver no longer stores the message before.
        if self.due_unordered.contains(&key) {
            return true;
        }
        let Fragment {
            tsn,
            fsn,
            beginning,
            ending,
            ..
        } = fragment;
        let again = fragment.clone();
        let verdict = self.receiver.on_fragment(fragment);
        // The receiver reneges before it handles the arrived fragment.
        self.renege();
        let fits = self.known.get(&key).map_or_else(
            || Known::default().takes(fsn, beginning, ending),
            |known| known.takes(fsn, beginning, ending),
        );
        match verdict {
            Verdict::Accepted => {
                assert!(fits && !self.is_past(key), "{key:?} {fsn}");
                let known = self.known.entry(key).or_default();
                known.fragments.insert(fsn, tsn);
                known.last = known.last.or(ending.then_some(fsn));
                if key.unordered {
                    self.finish_unordered(key);
                } else {
                    self.go_on(key.stream);
                }
                true
            }
            Verdict::Late => {
                assert!(self.is_past(key));
                true
            }
            Verdict::Violation(what) => {
                assert!(!fits && !self.is_past(key), "{key:?} {fsn}: {what}");
                false
            }
            Verdict::WindowFull => {
                assert!(self.receiver.unread_bytes() + LEN > self.receive || self.receiver.a_rwnd() == 0);
                self.in_flight.push_back(again);
                true
            }
            Verdict::Duplicate | Verdict::OutOfRange | Verdict::InvalidStream => true,
        }
    }

    /// The model forgets the reneged fragments.
    fn renege(&mut self) {
        if !self.may_renege {
            return;
        }
        let tracker = &self.receiver.tracker;
        let mut gone = Vec::new();
        for (key, known) in &mut self.known {
            let before = known.fragments.len();
            let last = known.last;
            known.fragments.retain(|fsn, tsn| {
                let kept = !tracker.is_missing(tracker.extend(*tsn));
                assert!(kept || *fsn as usize >= known.read, "what was read is kept");
                if !kept && last == Some(*fsn) {
                    known.last = None;
                }
                kept
            });
            if known.fragments.is_empty() && before > 0 {
                gone.push(*key);
            }
        }
        for key in gone {
            self.known.remove(&key);
        }
    }

    fn finish_unordered(&mut self, key: Key) {
        if self.known[&key].is_complete() {
            let known = self.known.remove(&key).expect("it is there");
            self.sizes.insert(key, known.fragments.len() * LEN);
            self.due_unordered.insert(key);
        }
    }

    fn deliver(&mut self, key: Key, known: &Known) {
        self.sizes.insert(key, known.fragments.len() * LEN);
        self.due[usize::from(key.stream.0)].push_back(key.mid);
    }

    fn go_on(&mut self, stream: StreamId) {
        loop {
            let mid = self.next[usize::from(stream.0)];
            let key = Key {
                stream,
                unordered: false,
                generation: 0,
                mid,
            };
            let skipped = self.skipped.remove(&(stream, mid));
            if self.known.get(&key).is_some_and(Known::is_complete) {
                let known = self.known.remove(&key).expect("it is there");
                self.deliver(key, &known);
            } else if skipped {
                self.cut_off(key);
            } else {
                return;
            }
            self.next[usize::from(stream.0)] = mid.wrapping_add(1);
        }
    }

    /// The rest of an incomplete message will not arrive.
    fn cut_off(&mut self, key: Key) {
        if let Some(known) = self.known.remove(&key) {
            self.sizes.insert(key, known.run() * LEN);
            self.cut.insert(key);
        }
    }

    /// An I-FORWARD-TSN arrives that lists this message and passes the next TSN.
    fn forward(&mut self, key: Key) {
        let tsn = self.receiver.cumulative_tsn().next();
        if self.next_tsn.is_before(tsn.next()) {
            self.next_tsn = tsn.next();
        }
        self.in_flight.retain(|fragment| fragment.tsn != tsn);
        let entry = SkippedMessage {
            stream: key.stream,
            unordered: key.unordered,
            mid: Mid(key.mid),
        };
        self.receiver
            .on_i_forward(tsn, [entry].into_iter())
            .expect("it goes not too far");
        if self.is_past(key) {
            return;
        }
        let stream = usize::from(key.stream.0);
        let first = self.next[stream];
        let passed = self.known.keys().filter(|one| {
            let same = (one.stream, one.unordered) == (key.stream, key.unordered);
            same && !Mid(one.mid).is_after(Mid(key.mid))
        });
        let mut passed: Vec<_> = passed.copied().collect();
        passed.sort_by_key(|one| one.mid.wrapping_sub(first));
        for one in passed {
            if !one.unordered && self.known[&one].is_complete() {
                let known = self.known.remove(&one).expect("it is there");
                self.deliver(one, &known);
            } else {
                self.cut_off(one);
            }
        }
        if key.unordered {
            self.passed[stream] = Some(key.mid);
        } else {
            self.next[stream] = key.mid.wrapping_add(1);
            let next = self.next[stream];
            self.skipped
                .retain(|(stream, mid)| *stream != key.stream || !Mid(*mid).is_before(Mid(next)));
            self.go_on(key.stream);
        }
    }

    /// A selective forward TSN arrives.
    fn notice(&mut self, stream: u16, ahead: u8) {
        self.read(usize::MAX);
        let stream = StreamId(stream);
        let mid = self.next[usize::from(stream.0)]
            .wrapping_add(ahead.into())
            .wrapping_sub(1);
        let key = Key {
            stream,
            unordered: false,
            generation: 0,
            mid,
        };
        let tsn = self.receiver.cumulative_tsn().next();
        self.receiver.on_selective_forward(tsn, stream, mid);
        let in_parts = self.begun.values().any(|(begun, _)| *begun == key);
        if !self.is_past(key) && !in_parts && self.skipped.len() < self.receive / BYTES_FOR_A_NOTICE {
            self.skipped.insert((stream, mid));
            self.go_on(stream);
        }
    }

    /// The application reads at most this many parts.
    fn read(&mut self, most: usize) {
        for _ in 0..most {
            let readable = self.receiver.is_readable();
            let Some(part) = self.receiver.recv(Timestamp::ZERO) else {
                assert!(!readable);
                return;
            };
            assert!(readable);
            let bytes = part.payload.into_bytes();
            let (key, mut whole) = match self.begun.remove(&part.message) {
                Some(begun) => begun,
                None => (key_of(&bytes), Vec::new()),
            };
            assert_eq!(part.beginning, whole.is_empty(), "{key:?}");
            assert_eq!((part.stream, part.unordered), (key.stream, key.unordered));
            assert_eq!(part.ppid, Ppid(key.mid));
            assert!(!part.truncated || bytes.is_empty());
            whole.extend_from_slice(&bytes);
            if let Some(known) = self.known.get_mut(&key) {
                known.read = whole.len() / LEN;
            }
            if part.truncated {
                assert!(self.cut.remove(&key), "{key:?} was not abandoned");
                self.sizes.remove(&key);
            } else if part.ending {
                self.check_whole(key, &whole);
            } else {
                self.begun.insert(part.message, (key, whole));
            }
        }
    }

    fn check_whole(&mut self, key: Key, whole: &[u8]) {
        if key.unordered {
            assert!(self.due_unordered.remove(&key), "{key:?} was not complete");
        } else {
            assert_eq!(
                self.due[usize::from(key.stream.0)].pop_front(),
                Some(key.mid),
                "{key:?}"
            );
        }
        assert_eq!(self.sizes.remove(&key), Some(whole.len()), "{key:?}");
        for (number, piece) in whole.chunks(LEN).enumerate() {
            assert_eq!(piece, payload(key, number as u32), "{key:?}");
        }
    }

    /// Checks that the application can read all that is due, and that the receiver holds no data except the waiting messages.
    fn check(&mut self) {
        self.read(usize::MAX);
        assert!(self.due.iter().all(VecDeque::is_empty) && self.due_unordered.is_empty());
        for (key, _) in self.begun.values() {
            assert!(self.known.contains_key(key), "{key:?} goes on");
        }
        self.cut.clear();
        let held: usize = self
            .known
            .values()
            .map(|known| known.fragments.len() - known.read)
            .sum();
        let load = Load {
            bytes: held * LEN,
            kept: held * LEN,
            chunks: held,
        };
        assert_eq!(self.receiver.window.held(), load);
        // Data that could be delivered must never fill the window.
        let begun = |stream: StreamId, unordered: bool| {
            self.begun
                .values()
                .any(|(key, _)| (key.stream, key.unordered) == (stream, unordered))
        };
        let could_go = self.known.iter().filter(|(key, _)| {
            let turn = key.unordered || key.mid == self.next[usize::from(key.stream.0)];
            turn && !begun(key.stream, key.unordered)
        });
        let could_go: usize = could_go.map(|(_, known)| known.run() * LEN).sum();
        assert!(could_go < self.receive / 2, "{could_go} bytes wait for nothing");
    }
}

pub(crate) fn run(mut commands: Commands<'_>) {
    let mut model = Model::new(commands.u8());
    while let Some(command) = commands.next(16) {
        let byte = commands.u8();
        let stream = u16::from(byte >> 4) % STREAMS;
        match command {
            // A correct sender creates fragments, which arrive in any order.
            0..5 => {
                if model.in_flight.len() < MOST_IN_FLIGHT {
                    let fragment = model.make(stream, byte.rotate_left(4));
                    model.in_flight.push_back(fragment);
                }
            }
            5..10 => {
                let at = usize::from(byte) % model.in_flight.len().max(1);
                if let Some(fragment) = model.in_flight.remove(at) {
                    let again = fragment.clone();
                    if !model.arrive(fragment) {
                        return;
                    }
                    let tracker = &model.receiver.tracker;
                    if byte & 0x80 != 0 && !tracker.is_missing(tracker.extend(again.tsn)) {
                        assert_eq!(model.receiver.on_fragment(again), Verdict::Duplicate);
                    }
                }
            }
            // A fragment that no correct sender creates.
            10 => {
                let mut fragment = model.make(stream, byte.rotate_left(4));
                let bits = commands.u8();
                fragment.beginning ^= bits & 1 != 0;
                fragment.ending ^= bits & 2 != 0;
                fragment.fsn = fragment
                    .fsn
                    .wrapping_add(u32::from(bits >> 2 & 3))
                    .wrapping_sub(1);
                fragment.sequence = fragment.sequence.wrapping_sub(u32::from(bits >> 4 & 1));
                // As in an encoded chunk.
                if fragment.beginning {
                    fragment.fsn = 0;
                }
                let key = Key {
                    stream: fragment.stream,
                    unordered: fragment.unordered,
                    generation: 0,
                    mid: fragment.sequence,
                };
                fragment.ppid = Ppid(key.mid);
                fragment.payload = Bytes::copy_from_slice(&payload(key, fragment.fsn));
                if fragment.fsn < 100 && !model.arrive(fragment) {
                    return;
                }
            }
            11 => model.read(usize::from(byte % 4)),
            12 => model.check(),
            13 => {
                let unordered = byte & 1 != 0;
                let mids = model.sending[usize::from(stream)].mids;
                let mid = mids[usize::from(unordered)].wrapping_sub(u32::from(byte >> 1 & 3));
                model.forward(Key {
                    stream: StreamId(stream),
                    unordered,
                    generation: 0,
                    mid,
                });
            }
            14 => model.notice(stream, byte & 3),
            _ => {
                if byte < 32 {
                    model.read(usize::MAX);
                    model.receiver.reset(Tsn(9), STREAMS);
                    assert_eq!(model.receiver.unread_bytes(), 0);
                    assert!(!model.receiver.is_readable());
                    return;
                }
            }
        }
    }
    model.check();
}
