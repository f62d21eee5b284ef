//! [`Reassembly`] against a map of all fragments that arrived.

use std::collections::BTreeMap;

use anabranch_wire::{Ppid, StreamId, Tsn};
use bytes::Bytes;

use super::Fragment;
use super::reassembly::Reassembly;
use crate::fuzzing::Commands;
use crate::seq::ExtendedTsn;

/// The index of the first fragment: what is below has arrived.
const FIRST: ExtendedTsn = 1000;

/// How far ahead of the lowest one missing a fragment may come.
const AHEAD: u8 = 40;

/// Messages that take turns: their streams, orders and lengths in fragments.
const MESSAGES: usize = 12;

#[derive(Clone, Debug)]
struct Piece {
    stream: StreamId,
    unordered: bool,
    sequence: u32,
    beginning: bool,
    ending: bool,
    payload: Bytes,
    /// Handed over in part before the message was complete.
    taken: bool,
}

impl Piece {
    fn continues(&self, before: &Self) -> bool {
        let same = self.stream == before.stream && self.unordered == before.unordered;
        same && (self.unordered || self.sequence == before.sequence)
    }
}

struct Model {
    reassembly: Reassembly,
    pieces: BTreeMap<ExtendedTsn, Piece>,
    /// Everything below has arrived.
    lowest_missing: ExtendedTsn,
}

/// What the fragments around one say of it.
struct Neighbours {
    fits: bool,
    /// It must be a middle one on some side.
    expected: bool,
}

impl Model {
    fn arrived(&self, index: ExtendedTsn) -> bool {
        index < FIRST || self.pieces.contains_key(&index)
    }

    fn neighbours(&self, index: ExtendedTsn, piece: &Piece) -> Neighbours {
        let before = self.pieces.get(&(index - 1));
        let after = self.pieces.get(&(index + 1));
        let mut fits = true;
        match before {
            Some(before) if before.ending => fits &= piece.beginning,
            Some(before) => fits &= !piece.beginning && piece.continues(before),
            None => fits &= piece.beginning || index > FIRST,
        }
        match after {
            Some(after) if after.beginning => fits &= piece.ending,
            Some(after) => fits &= !piece.ending && after.continues(piece),
            None => {}
        }
        Neighbours {
            fits,
            expected: before.is_some_and(|before| !before.ending)
                || after.is_some_and(|after| !after.beginning),
        }
    }

    /// The run of fragments of one message around this index: its first index and its pieces.
    fn run_around(&self, index: ExtendedTsn) -> (ExtendedTsn, Vec<&Piece>) {
        let mut first = index;
        while !self.pieces[&first].beginning && self.pieces.contains_key(&(first - 1)) {
            first -= 1;
        }
        let mut run = vec![&self.pieces[&first]];
        let mut last = first;
        while !self.pieces[&last].ending
            && let Some(piece) = self.pieces.get(&(last + 1))
        {
            run.push(piece);
            last += 1;
        }
        (first, run)
    }

    /// A fragment comes in. False if it is a violation, after which nothing follows.
    fn arrive(&mut self, index: ExtendedTsn, piece: Piece) -> bool {
        let Neighbours { fits, expected } = self.neighbours(index, &piece);
        assert_eq!(self.reassembly.expects(index), expected, "at {index}");
        if piece.beginning && piece.ending {
            if expected {
                return false;
            }
            self.pieces.insert(index, piece);
            self.climb();
            return true;
        }
        let fragment = Fragment {
            tsn: Tsn(index as u32),
            stream: piece.stream,
            unordered: piece.unordered,
            sequence: piece.sequence,
            fsn: 0,
            ppid: Ppid(index as u32),
            beginning: piece.beginning,
            ending: piece.ending,
            datagram: piece.payload.len(),
            payload: piece.payload.clone(),
        };
        let pieces = &self.pieces;
        let arrived = |index| index < FIRST || pieces.contains_key(&index);
        let result = self.reassembly.insert(index, fragment, arrived);
        assert_eq!(result.is_ok(), fits, "{piece:?} at {index}: {result:?}");
        let Ok(first) = result else { return false };
        self.pieces.insert(index, piece);
        self.climb();
        self.check_run(index, first);
        true
    }

    fn climb(&mut self) {
        while self.pieces.contains_key(&self.lowest_missing) {
            self.lowest_missing += 1;
        }
    }

    fn check_run(&mut self, index: ExtendedTsn, answered: ExtendedTsn) {
        let (first, run) = self.run_around(index);
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
            .filter(|piece| !piece.taken)
            .map(|piece| &piece.payload)
            .collect();
        assert!(
            assembly.pieces.iter().eq(left.iter().copied()),
            "the pieces of {first}, in order"
        );
        assert_eq!(
            assembly.bytes,
            left.iter().map(|payload| payload.len()).sum::<usize>()
        );
        if complete {
            assert!(self.reassembly.remove(first).is_some());
        }
    }

    /// The runs in the making: first index, and pieces that are held.
    fn open_runs(&self) -> Vec<(ExtendedTsn, Vec<&Piece>)> {
        let mut runs = Vec::new();
        let mut index = FIRST;
        while let Some((&next, _)) = self.pieces.range(index..).next() {
            let (first, run) = self.run_around(next);
            assert_eq!(first, next);
            index = next + run.len() as u64;
            if !(run[0].beginning && run[run.len() - 1].ending) {
                runs.push((first, run));
            }
        }
        runs
    }

    /// Hands over what there is of the lowest message.
    fn take_lowest(&mut self) {
        let expected = self.open_runs().first().map(|(first, run)| (*first, run.len()));
        assert_eq!(
            self.reassembly.lowest().map(|run| run.first),
            expected.map(|(first, _)| first)
        );
        let Some((first, len)) = expected else { return };
        let assembly = self.reassembly.assembly_mut(first).expect("it was found");
        assembly.pieces.clear();
        assembly.bytes = 0;
        for index in first..first + len as u64 {
            self.pieces.get_mut(&index).expect("it is part of the run").taken = true;
        }
    }
}

/// A fragment of the plan: messages of some lengths follow each other.
fn planned(plan: &[u8; MESSAGES], index: ExtendedTsn) -> Piece {
    let lengths = plan.map(|byte| 1 + u64::from(byte % 7));
    let turn: u64 = lengths.iter().sum();
    let (round, mut offset) = ((index - FIRST) / turn, (index - FIRST) % turn);
    let mut message = 0;
    while offset >= lengths[message] {
        offset -= lengths[message];
        message += 1;
    }
    Piece {
        stream: StreamId(u16::from(plan[message] >> 6)),
        unordered: plan[message] & 32 != 0,
        sequence: round as u32,
        beginning: offset == 0,
        ending: offset + 1 == lengths[message],
        payload: Bytes::from(vec![index as u8; 1 + (index % 5) as usize]),
        taken: false,
    }
}

pub(crate) fn run(mut commands: Commands<'_>) {
    let plan: [u8; MESSAGES] = core::array::from_fn(|_| commands.u8());
    let mut model = Model {
        reassembly: Reassembly::default(),
        pieces: BTreeMap::new(),
        lowest_missing: FIRST,
    };
    while let Some(command) = commands.next(8) {
        match command {
            // What a right sender sends.
            0..4 => {
                let index = model.lowest_missing + u64::from(commands.u8() % AHEAD);
                if !model.arrived(index) && !model.arrive(index, planned(&plan, index)) {
                    return;
                }
            }
            // What it does not: other flags, another stream, order or number.
            4 => {
                let index = model.lowest_missing + u64::from(commands.u8() % AHEAD);
                let bits = commands.u8();
                let mut piece = planned(&plan, index);
                piece.beginning ^= bits & 1 != 0;
                piece.ending ^= bits & 2 != 0;
                piece.unordered ^= bits & 4 != 0;
                piece.sequence ^= u32::from(bits >> 3 & 1);
                piece.stream.0 ^= u16::from(bits >> 4 & 1);
                if !model.arrived(index) && !model.arrive(index, piece) {
                    return;
                }
            }
            5 | 6 => model.take_lowest(),
            _ => {
                let open = model.open_runs();
                let held = open.iter().flat_map(|(_, run)| run).filter(|piece| !piece.taken);
                let sums = held.fold((0, 0), |(bytes, chunks), piece| {
                    (bytes + piece.payload.len(), chunks + 1)
                });
                assert_eq!(model.reassembly.clear(), sums);
                assert!(model.reassembly.lowest().is_none());
                model.pieces.clear();
                model.lowest_missing = FIRST;
            }
        }
    }
}
