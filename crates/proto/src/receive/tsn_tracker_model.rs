//! Compares [`TsnTracker`] to a model: a set of the TSNs that have arrived.

use std::collections::BTreeSet;

use anabranch_wire::Tsn;

use super::tsn_tracker::{Arrival, TsnTracker};
use crate::fuzzing::Commands;

/// The most runs of TSNs in one input, because the model visits all of them.
const MOST: usize = 2000;

struct Model {
    tracker: TsnTracker,
    /// All numbers up to this one have arrived. They do not wrap, and the first TSN is number 1.
    cumulative: u64,
    above: BTreeSet<u64>,
    first: Tsn,
    duplicates: Vec<Tsn>,
}

impl Model {
    fn tsn(&self, number: u64) -> Tsn {
        self.first.plus((number as u32).wrapping_sub(1))
    }

    fn arrive(&mut self, tsn: Tsn) {
        let ahead = tsn.distance_from(self.tsn(self.cumulative)) as i32;
        let number = self.cumulative.wrapping_add_signed(i64::from(ahead));
        let arrival = self.tracker.classify(tsn);
        if ahead <= 0 || self.above.contains(&number) {
            assert_eq!(arrival, Arrival::Duplicate, "{tsn}");
            if self.duplicates.len() < 64 {
                self.duplicates.push(tsn);
            }
        } else if ahead > 65_535 {
            assert_eq!(arrival, Arrival::OutOfRange, "{tsn}");
        } else {
            let Arrival::New(extended) = arrival else {
                panic!("{tsn} is new, not {arrival:?}")
            };
            assert_eq!(extended as u32, tsn.0, "the low bits are the TSN");
            assert!(!self.tracker.contains(extended));
            self.tracker.record(extended);
            assert!(self.tracker.contains(extended));
            self.above.insert(number);
            while self.above.remove(&(self.cumulative + 1)) {
                self.cumulative += 1;
            }
        }
        assert_eq!(self.tracker.cumulative_tsn(), self.tsn(self.cumulative));
        assert_eq!(self.tracker.cumulative() as u32, self.tracker.cumulative_tsn().0);
        assert_eq!(self.tracker.has_gaps(), !self.above.is_empty());
    }

    /// The expected gap ack blocks: offsets of the runs.
    fn runs(&self) -> Vec<(u16, u16)> {
        let mut runs: Vec<(u16, u16)> = Vec::new();
        for number in &self.above {
            let offset = u16::try_from(number - self.cumulative).expect("nothing is kept further ahead");
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == offset => *last = offset,
                _ => runs.push((offset, offset)),
            }
        }
        runs
    }

    fn check_gap_blocks(&self, most: usize) {
        let mut blocks = Vec::new();
        self.tracker.gap_blocks(most, &mut blocks);
        let blocks: Vec<_> = blocks.iter().map(|block| (block.start, block.end)).collect();
        let runs = self.runs();
        assert_eq!(blocks, runs[..runs.len().min(most)]);
    }
}

pub(crate) fn run(mut commands: Commands<'_>) {
    let first = Tsn(commands.u32());
    let mut model = Model {
        tracker: TsnTracker::new(first),
        cumulative: 0,
        above: BTreeSet::new(),
        first,
        duplicates: Vec::new(),
    };
    while model.above.len() < MOST
        && let Some(command) = commands.next(6)
    {
        let near = model.tsn(model.cumulative + 1);
        match command {
            0 => model.arrive(near.plus(commands.u8().into())),
            1 => {
                let (far, bits) = (u32::from(commands.u16()), commands.u8());
                // The limit of gap ack block offsets must be tested more often than once in 65,536 inputs.
                let ahead = if bits & 2 == 0 {
                    far + u32::from(bits & 1)
                } else {
                    65_530 + far % 10
                };
                model.arrive(near.minus(1).plus(ahead));
            }
            2 => model.arrive(Tsn(commands.u32())),
            3 => {
                let from = near.plus(commands.u8().into());
                (0..commands.u8()).for_each(|count| model.arrive(from.plus(count.into())));
            }
            4 => model.check_gap_blocks(commands.u8().into()),
            _ => {
                let most = commands.u8().into();
                let mut duplicates = Vec::new();
                model.tracker.take_duplicates(most, &mut duplicates);
                model.duplicates.truncate(most);
                assert_eq!(duplicates, core::mem::take(&mut model.duplicates));
            }
        }
    }
    model.check_gap_blocks(usize::MAX);
}
