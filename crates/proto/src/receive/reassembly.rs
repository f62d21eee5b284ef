//! Reassembles messages (RFC 9260 §6.9). The fragments of a message have consecutive TSNs, so a message is a run of TSNs from a fragment
//! with the B bit to one with the E bit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_wire::{Ppid, Ssn, StreamId};
use bytes::Bytes;

use super::fragment::{Fragment, Origin};
use super::load::Load;
use crate::seq::ExtendedTsn;
use crate::seq::Run;

/// Fragments of one message with consecutive TSNs.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) first: ExtendedTsn,
    pub(super) last: ExtendedTsn,
    pub(super) stream: StreamId,
    pub(super) unordered: bool,
    pub(super) sequence: u32,
    /// PPID of the first fragment; the RFC requires the same PPID in all.
    pub(super) ppid: Ppid,
    has_beginning: bool,
    pub(super) has_ending: bool,
    pub(super) payloads: VecDeque<Bytes>,
    /// The cost of the payloads.
    pub(super) load: Load,
    /// The number that the message has for the application, once a part was delivered.
    pub(super) handed_over: Option<u64>,
    /// The last packet of the run.
    pub(super) origin: Origin,
}

impl Assembly {
    fn new(tsn: ExtendedTsn, fragment: Fragment) -> Self {
        Self {
            first: tsn,
            last: tsn,
            stream: fragment.stream,
            unordered: fragment.unordered,
            sequence: fragment.sequence,
            ppid: fragment.ppid,
            has_beginning: fragment.beginning,
            has_ending: fragment.ending,
            load: Load::of(&fragment),
            origin: fragment.origin,
            payloads: VecDeque::from([fragment.payload]),
            handed_over: None,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.has_beginning && self.has_ending
    }

    /// TSNs of the run.
    pub(super) fn whole(&self) -> Run {
        Run {
            first: self.first,
            last: self.last,
        }
    }

    /// Whether the first fragment of the message has arrived.
    pub(super) fn has_beginning(&self) -> bool {
        self.has_beginning
    }

    fn belongs_with(&self, other: &Self) -> bool {
        self.is_of(other.stream, other.unordered, other.sequence)
    }

    fn is_of(&self, stream: StreamId, unordered: bool, sequence: u32) -> bool {
        self.stream == stream && self.unordered == unordered && (unordered || self.sequence == sequence)
    }

    /// Whether the fragment with this TSN continues the run.
    fn goes_on_with(&self, tsn: ExtendedTsn, fragment: &Fragment) -> bool {
        self.last + 1 == tsn
            && !self.has_ending
            && !fragment.beginning
            && self.is_of(fragment.stream, fragment.unordered, fragment.sequence)
    }

    /// Adds a fragment that continues the run.
    fn push(&mut self, fragment: Fragment) {
        self.last += 1;
        self.has_ending = fragment.ending;
        self.load += Load::of(&fragment);
        self.origin = fragment.origin;
        self.payloads.push_back(fragment.payload);
    }

    /// Appends the run that follows; the shorter one of the two is moved.
    fn append(&mut self, mut next: Self) {
        self.last = next.last;
        self.has_ending = next.has_ending;
        self.load += next.load;
        self.origin = self.origin.max(next.origin);
        if self.payloads.len() >= next.payloads.len() {
            self.payloads.append(&mut next.payloads);
        } else {
            while let Some(payload) = self.payloads.pop_back() {
                next.payloads.push_front(payload);
            }
            self.payloads = next.payloads;
        }
    }
}

/// The incomplete messages.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    by_first: BTreeMap<ExtendedTsn, Assembly>,
    /// The first TSNs of the ordered messages, by stream.
    ordered: BTreeSet<(StreamId, ExtendedTsn)>,
}

impl Reassembly {
    /// Adds a fragment. Returns the first TSN of the run that it now belongs to.
    ///
    /// `arrived` tells whether a TSN has arrived. If a neighbouring TSN has arrived but is in no run, it belongs to a complete message.
    ///
    /// # Errors
    /// How the fragment contradicts its neighbours.
    pub(super) fn insert(
        &mut self,
        tsn: ExtendedTsn,
        fragment: Fragment,
        arrived: impl Fn(ExtendedTsn) -> bool,
    ) -> Result<ExtendedTsn, &'static str> {
        // Nearly all fragments arrive in order and continue the highest run.
        if let Some(mut highest) = self.by_first.last_entry()
            && highest.get().goes_on_with(tsn, &fragment)
            && (fragment.ending || !arrived(tsn + 1))
        {
            highest.get_mut().push(fragment);
            return Ok(highest.get().first);
        }
        let mut run = Assembly::new(tsn, fragment);
        let next = self.remove(tsn + 1);
        match next.map(|next| (next.has_beginning, next)) {
            Some((true, next)) if run.has_ending => {
                self.keep(next);
            }
            Some((false, next)) if !run.has_ending => {
                if !run.belongs_with(&next) {
                    return Err("fragments of one message differ in stream, U bit or SSN");
                }
                run.append(next);
            }
            Some(_) => return Err("the E bit of a fragment contradicts the B bit of the next fragment"),
            None if !run.has_ending && arrived(tsn + 1) => {
                return Err("another message follows a fragment without the E bit");
            }
            None => {}
        }
        let before = self.by_first.range_mut(..tsn).next_back().map(|(_, run)| run);
        let before = before.filter(|before| before.last + 1 == tsn);
        match before.map(|before| (before.has_ending, before)) {
            Some((true, _)) if run.has_beginning => {}
            Some((false, before)) if !run.has_beginning => {
                if !before.belongs_with(&run) {
                    return Err("fragments of one message differ in stream, U bit or SSN");
                }
                let first = before.first;
                before.append(run);
                return Ok(first);
            }
            Some(_) => return Err("the B bit of a fragment contradicts the E bit of the fragment before"),
            None if !run.has_beginning && arrived(tsn - 1) => {
                return Err("a fragment without the B bit does not continue a message");
            }
            None => {}
        }
        let first = run.first;
        self.keep(run);
        Ok(first)
    }

    /// Whether a fragment without the B bit has no run to continue, because the TSN before it is at most `forwarded` and will not arrive
    /// (RFC 3758 §3.6).
    pub(super) fn is_orphan(&self, tsn: ExtendedTsn, forwarded: ExtendedTsn) -> bool {
        if tsn > forwarded + 1 {
            return false;
        }
        let before = self.by_first.range(..tsn).next_back().map(|(_, run)| run);
        before.is_none_or(|run| run.last + 1 != tsn)
    }

    /// Removes and returns a run that misses a TSN up to `forwarded`, because that TSN will not arrive (RFC 3758 §3.6).
    pub(super) fn take_cut_off(&mut self, forwarded: ExtendedTsn) -> Option<Assembly> {
        let mut runs = self.by_first.range(..=forwarded + 1);
        let cut_off = |run: &Assembly| run.last < forwarded || !run.has_beginning;
        let first = *runs.find(|(_, run)| cut_off(run))?.0;
        self.remove(first)
    }

    /// The SSN of the first incomplete ordered message of a stream.
    pub(super) fn in_progress(&self, stream: StreamId) -> Option<Ssn> {
        let (_, first) = self
            .ordered
            .range((stream, 0)..=(stream, ExtendedTsn::MAX))
            .next()?;
        self.by_first.get(first).map(|run| Ssn(run.sequence as u16))
    }

    /// The first TSN of the run that has this TSN.
    pub(super) fn run_of(&self, tsn: ExtendedTsn) -> Option<ExtendedTsn> {
        let (first, run) = self.by_first.range(..=tsn).next_back()?;
        (tsn <= run.last).then_some(*first)
    }

    /// First and last TSN of every run.
    #[cfg(test)]
    pub(super) fn runs(&self) -> impl DoubleEndedIterator<Item = (ExtendedTsn, ExtendedTsn)> + '_ {
        self.by_first.values().map(|run| (run.first, run.last))
    }

    /// Whether a fragment with this TSN belongs to an incomplete message: the fragment before it has no E bit, or the one after it no B
    /// bit.
    pub(super) fn expects(&self, tsn: ExtendedTsn) -> bool {
        let before = self.by_first.range(..tsn).next_back().map(|(_, run)| run);
        let open_before = before.is_some_and(|run| run.last + 1 == tsn && !run.has_ending);
        open_before
            || self
                .by_first
                .get(&(tsn + 1))
                .is_some_and(|run| !run.has_beginning)
    }

    pub(super) fn assembly(&self, first: ExtendedTsn) -> Option<&Assembly> {
        self.by_first.get(&first)
    }

    pub(super) fn assembly_mut(&mut self, first: ExtendedTsn) -> Option<&mut Assembly> {
        self.by_first.get_mut(&first)
    }

    pub(super) fn remove(&mut self, first: ExtendedTsn) -> Option<Assembly> {
        let run = self.by_first.remove(&first)?;
        if !run.unordered {
            self.ordered.remove(&(run.stream, first));
        }
        Some(run)
    }

    fn keep(&mut self, run: Assembly) {
        if !run.unordered {
            self.ordered.insert((run.stream, run.first));
        }
        self.by_first.insert(run.first, run);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }

    /// The number of runs.
    pub(super) fn len(&self) -> usize {
        self.by_first.len()
    }

    /// The run with the lowest TSNs.
    pub(super) fn lowest(&self) -> Option<&Assembly> {
        self.by_first.values().next()
    }

    /// Drops all fragments; returns what they cost.
    pub(super) fn clear(&mut self) -> Load {
        let mut held = Load::default();
        self.by_first.values().for_each(|run| held += run.load);
        self.by_first.clear();
        self.ordered.clear();
        held
    }
}
