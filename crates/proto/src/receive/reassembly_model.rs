//! Compares [`Reassembly`] to a model: a map of all fragments that arrived.

use std::collections::BTreeMap;

use anabranch_wire::{Ppid, StreamId, Tsn};
use bytes::Bytes;

use super::load::Load;
use super::reassembly::Reassembly;
use super::{Fragment, Origin};
use crate::fuzzing::Commands;
use crate::seq::ExtendedTsn;

/// The TSN of the first fragment: all TSNs below have arrived.
const FIRST: ExtendedTsn = 1000;

/// How far ahead of the lowest missing TSN a fragment may arrive.
const AHEAD: u8 = 40;

/// Number of planned messages, whose streams, orders and lengths in fragments the input sets.
const MESSAGES: usize = 12;

#[derive(Clone, Debug)]
struct Entry {
    stream: StreamId,
    unordered: bool,
    sequence: u32,
    beginning: bool,
    ending: bool,
    payload: Bytes,
    /// Whether it was delivered in a part before the message was complete.
    taken: bool,
}

impl Entry {
    fn continues(&self, before: &Self) -> bool {
        let same = self.stream == before.stream && self.unordered == before.unordered;
        same && (self.unordered || self.sequence == before.sequence)
    }
}

struct Model {
    reassembly: Reassembly,
    entries: BTreeMap<ExtendedTsn, Entry>,
    /// All TSNs below have arrived.
    lowest_missing: ExtendedTsn,
}

/// The conclusions from the fragments around a TSN.
struct Neighbours {
    fits: bool,
    /// Whether the fragment must continue or precede a fragment of the same message.
    expected: bool,
}

impl Model {
    fn arrived(&self, tsn: ExtendedTsn) -> bool {
        tsn < FIRST || self.entries.contains_key(&tsn)
    }

    fn neighbours(&self, tsn: ExtendedTsn, entry: &Entry) -> Neighbours {
        let before = self.entries.get(&(tsn - 1));
        let after = self.entries.get(&(tsn + 1));
        let mut fits = true;
        match before {
            Some(before) if before.ending => fits &= entry.beginning,
            Some(before) => fits &= !entry.beginning && entry.continues(before),
            None => fits &= entry.beginning || tsn > FIRST,
        }
        match after {
            Some(after) if after.beginning => fits &= entry.ending,
            Some(after) => fits &= !entry.ending && after.continues(entry),
            None => {}
        }
        Neighbours {
            fits,
            expected: before.is_some_and(|before| !before.ending)
                || after.is_some_and(|after| !after.beginning),
        }
    }

    /// The run of fragments of one message around this TSN: its first TSN and its fragments.
    fn run_around(&self, tsn: ExtendedTsn) -> (ExtendedTsn, Vec<&Entry>) {
        let mut first = tsn;
        while !self.entries[&first].beginning && self.entries.contains_key(&(first - 1)) {
            first -= 1;
        }
        let mut run = vec![&self.entries[&first]];
        let mut last = first;
        while !self.entries[&last].ending
            && let Some(entry) = self.entries.get(&(last + 1))
        {
            run.push(entry);
            last += 1;
        }
        (first, run)
    }

    /// A fragment arrives. Returns false if it is a violation, after which the association ends.
    fn arrive(&mut self, tsn: ExtendedTsn, entry: Entry) -> bool {
        let Neighbours { fits, expected } = self.neighbours(tsn, &entry);
        assert_eq!(self.reassembly.expects(tsn), expected, "at {tsn}");
        if entry.beginning && entry.ending {
            if expected {
                return false;
            }
            self.entries.insert(tsn, entry);
            self.climb();
            return true;
        }
        let fragment = Fragment {
            tsn: Tsn(tsn as u32),
            stream: entry.stream,
            unordered: entry.unordered,
            sequence: entry.sequence,
            fsn: 0,
            ppid: Ppid(tsn as u32),
            beginning: entry.beginning,
            ending: entry.ending,
            repair: false,
            datagram: entry.payload.len(),
            origin: Origin::default(),
            payload: entry.payload.clone(),
        };
        let entries = &self.entries;
        let arrived = |tsn| tsn < FIRST || entries.contains_key(&tsn);
        let result = self.reassembly.insert(tsn, fragment, arrived);
        assert_eq!(result.is_ok(), fits, "{entry:?} at {tsn}: {result:?}");
        let Ok(first) = result else { return false };
        self.entries.insert(tsn, entry);
        self.climb();
        self.check_run(tsn, first);
        true
    }

    fn climb(&mut self) {
        while self.entries.contains_key(&self.lowest_missing) {
            self.lowest_missing += 1;
        }
    }

    fn check_run(&mut self, tsn: ExtendedTsn, answered: ExtendedTsn) {
        let (first, run) = self.run_around(tsn);
        assert_eq!(answered, first);
        let assembly = self.reassembly.assembly(first).expect("the run is there");
        let complete = run[0].beginning && run[run.len() - 1].ending;
        assert_eq!(assembly.is_complete(), complete);
        assert_eq!(assembly.has_beginning(), run[0].beginning);
        assert_eq!(assembly.has_ending, run[run.len() - 1].ending);
        assert_eq!((assembly.first, assembly.ppid), (first, Ppid(first as u32)));
        assert_eq!(
            (assembly.stream, assembly.unordered),
            (run[0].stream, run[0].unordered)
        );
        let left: Vec<_> = run
            .iter()
            .filter(|entry| !entry.taken)
            .map(|entry| &entry.payload)
            .collect();
        assert!(
            assembly.payloads.iter().eq(left.iter().copied()),
            "the fragments of {first}, in order"
        );
        let bytes = left.iter().map(|payload| payload.len()).sum::<usize>();
        assert_eq!((assembly.load.bytes, assembly.load.chunks), (bytes, left.len()));
        if complete {
            assert!(self.reassembly.remove(first).is_some());
        }
    }

    /// The incomplete runs: first TSN, and fragments that are held.
    fn open_runs(&self) -> Vec<(ExtendedTsn, Vec<&Entry>)> {
        let mut runs = Vec::new();
        let mut tsn = FIRST;
        while let Some((&next, _)) = self.entries.range(tsn..).next() {
            let (first, run) = self.run_around(next);
            assert_eq!(first, next);
            tsn = next + run.len() as u64;
            if !(run[0].beginning && run[run.len() - 1].ending) {
                runs.push((first, run));
            }
        }
        runs
    }

    /// Delivers the fragments that have arrived of the lowest message.
    fn take_lowest(&mut self) {
        let expected = self.open_runs().first().map(|(first, run)| (*first, run.len()));
        assert_eq!(
            self.reassembly.lowest().map(|run| run.first),
            expected.map(|(first, _)| first)
        );
        let Some((first, len)) = expected else { return };
        let assembly = self.reassembly.assembly_mut(first).expect("it was found");
        assembly.payloads.clear();
        assembly.load = Load::default();
        for tsn in first..first + len as u64 {
            self.entries.get_mut(&tsn).expect("it is part of the run").taken = true;
        }
    }
}

/// A fragment of the plan, in which messages of several lengths follow each other.
fn planned(plan: &[u8; MESSAGES], tsn: ExtendedTsn) -> Entry {
    let lengths = plan.map(|byte| 1 + u64::from(byte % 7));
    let turn: u64 = lengths.iter().sum();
    let (round, mut offset) = ((tsn - FIRST) / turn, (tsn - FIRST) % turn);
    let mut message = 0;
    while offset >= lengths[message] {
        offset -= lengths[message];
        message += 1;
    }
    Entry {
        stream: StreamId(u16::from(plan[message] >> 6)),
        unordered: plan[message] & 32 != 0,
        sequence: round as u32,
        beginning: offset == 0,
        ending: offset + 1 == lengths[message],
        payload: Bytes::from(vec![tsn as u8; 1 + (tsn % 5) as usize]),
        taken: false,
    }
}

pub(crate) fn run(mut commands: Commands<'_>) {
    let plan: [u8; MESSAGES] = core::array::from_fn(|_| commands.u8());
    let mut model = Model {
        reassembly: Reassembly::default(),
        entries: BTreeMap::new(),
        lowest_missing: FIRST,
    };
    while let Some(command) = commands.next(8) {
        match command {
            // A fragment that a correct sender sends.
            0..4 => {
                let tsn = model.lowest_missing + u64::from(commands.u8() % AHEAD);
                if !model.arrived(tsn) && !model.arrive(tsn, planned(&plan, tsn)) {
                    return;
                }
            }
            // A fragment that no correct sender sends: other flags, another stream, order or number.
            4 => {
                let tsn = model.lowest_missing + u64::from(commands.u8() % AHEAD);
                let bits = commands.u8();
                let mut entry = planned(&plan, tsn);
                entry.beginning ^= bits & 1 != 0;
                entry.ending ^= bits & 2 != 0;
                entry.unordered ^= bits & 4 != 0;
                entry.sequence ^= u32::from(bits >> 3 & 1);
                entry.stream.0 ^= u16::from(bits >> 4 & 1);
                if !model.arrived(tsn) && !model.arrive(tsn, entry) {
                    return;
                }
            }
            5 | 6 => model.take_lowest(),
            _ => {
                let open = model.open_runs();
                let held = open.iter().flat_map(|(_, run)| run).filter(|entry| !entry.taken);
                let sums = held.fold((0, 0), |(bytes, chunks), entry| {
                    (bytes + entry.payload.len(), chunks + 1)
                });
                let load = model.reassembly.clear();
                assert_eq!((load.bytes, load.chunks), sums);
                assert!(model.reassembly.lowest().is_none());
                model.entries.clear();
                model.lowest_missing = FIRST;
            }
        }
    }
}
