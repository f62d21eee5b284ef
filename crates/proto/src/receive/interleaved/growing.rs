//! Owns the fragments of one message with interleaving, ordered by FSN (RFC 8260 §2.1, §2.2.3).

use std::collections::VecDeque;

use anabranch_wire::{Fsn, Ppid};
use bytes::{Buf, Bytes};

use super::super::fragment::{Fragment, Origin};
use super::super::load::Load;
use super::beyond::Beyond;
use super::held_fragment::HeldFragment;
use crate::message::PPID_LEN;
use crate::seq::ExtendedTsn;

/// The fragments of a message that the receiver holds. FSNs are counted without wrapping; the low 32 bits are the FSN.
#[derive(Debug, Default)]
pub(super) struct Growing {
    /// PPID of the first fragment; not valid until that fragment has arrived.
    pub(super) ppid: Ppid,
    /// The FSN of the first fragment of `run`: the application has read the fragments before this FSN.
    base: u64,
    /// Consecutive fragments that can be delivered next.
    run: VecDeque<HeldFragment>,
    /// Fragments behind a gap.
    beyond: Beyond,
    /// The FSN of the fragment that ends the message.
    last: Option<u64>,
    /// The cost of the fragments.
    pub(super) load: Load,
    /// The number that the message has for the application, once it is delivered in parts.
    pub(super) number: Option<u64>,
    /// Whether the message is in the queue that the application reads.
    pub(super) listed: bool,
    /// Whether the sender abandoned the message after parts of it were delivered.
    pub(super) truncated: bool,
    /// The packet of the last fragment that arrived.
    pub(super) origin: Origin,
}

impl Growing {
    /// The FSN that continues `run`.
    fn next(&self) -> u64 {
        self.base + self.run.len() as u64
    }

    /// Fragments held.
    pub(super) fn chunks(&self) -> usize {
        self.load.chunks
    }

    /// The TSNs of `run`, from the `skip`th fragment on.
    pub(super) fn run_from(&self, skip: usize) -> impl Iterator<Item = ExtendedTsn> + '_ {
        self.run.iter().skip(skip).map(|held| held.tsn)
    }

    /// The number of fragments in `run`.
    pub(super) fn run_len(&self) -> usize {
        self.run.len()
    }

    /// Whether `run` has fragments.
    pub(super) fn has_run(&self) -> bool {
        !self.run.is_empty()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| self.next() == last + 1)
    }

    /// The FSN of the last fragment, if it is known.
    pub(super) fn ends_at(&self) -> Option<u64> {
        self.last
    }

    /// The user data of a fragment that is held, of a message of which the application has read nothing.
    pub(super) fn piece(&self, fsn: u64) -> Option<&Bytes> {
        let at = fsn.checked_sub(self.base)? as usize;
        let held = self.run.get(at).or_else(|| self.beyond.get(fsn))?;
        Some(&held.payload)
    }

    /// The message is complete with these fragments, which were repaired. The first one is followed by the PPID. `tsn` stands for theirs.
    pub(super) fn complete(&mut self, tsn: ExtendedTsn, fragments: Vec<(u64, Bytes)>) -> Load {
        let mut added = Load::default();
        for (fsn, mut payload) in fragments {
            if fsn == 0 && payload.len() > PPID_LEN {
                let mut ppid = payload.split_off(payload.len() - PPID_LEN);
                self.ppid = Ppid(ppid.get_u32());
            }
            let kept = payload.len() as u32;
            let held = HeldFragment { tsn, payload, kept };
            added += held.load();
            self.beyond.insert(fsn, held);
        }
        self.load += added;
        self.extend_run();
        self.last = self.next().checked_sub(1);
        added
    }

    /// Moves the fragments to `run` that continue it.
    #[inline(always)]
    fn extend_run(&mut self) {
        while let Some(held) = self.beyond.take_first(self.next()) {
            self.run.push_back(held);
        }
    }

    /// Whether the application has read no part of it.
    pub(super) fn is_unread(&self) -> bool {
        self.base == 0
    }

    /// Stores a fragment; returns its FSN.
    ///
    /// # Errors
    /// How it contradicts the fragments before it.
    pub(super) fn insert(&mut self, tsn: ExtendedTsn, fragment: Fragment) -> Result<u64, &'static str> {
        let next = self.next();
        let ahead = Fsn(fragment.fsn).distance_from(Fsn(next as u32)) as i32;
        let fsn = match (fragment.beginning, next.checked_add_signed(ahead.into())) {
            (true, _) => 0,
            (false, Some(0)) => return Err("a fragment with FSN 0 has no B bit"),
            (false, Some(fsn)) => fsn,
            (false, None) => return Err("a fragment has an FSN before the first one of its message"),
        };
        if fsn < next || self.beyond.contains(fsn) {
            return Err("two fragments of a message have the same FSN");
        }
        let highest = self.beyond.highest();
        let highest = highest.or_else(|| next.checked_sub(1));
        if self.last.is_some_and(|last| fragment.ending || fsn > last)
            || (fragment.ending && highest.is_some_and(|highest| highest > fsn))
        {
            return Err("a message continues after the fragment with the E bit");
        }
        if fragment.beginning {
            self.ppid = fragment.ppid;
        }
        if fragment.ending {
            self.last = Some(fsn);
        }
        let load = Load::of(&fragment);
        self.load += load;
        self.origin = fragment.origin;
        let held = HeldFragment {
            tsn,
            payload: fragment.payload,
            kept: load.kept as u32,
        };
        if fsn > next {
            self.beyond.insert(fsn, held);
            return Ok(fsn);
        }
        // Most messages have few fragments: the first needs no memory for others.
        self.run.reserve_exact(usize::from(self.run.is_empty()));
        self.run.push_back(held);
        self.extend_run();
        Ok(fsn)
    }

    /// Removes and returns `run`, and what it cost.
    pub(super) fn take_run(&mut self) -> (Vec<Bytes>, Load) {
        self.base = self.next();
        let run = core::mem::take(&mut self.run);
        let mut load = Load::default();
        run.iter().for_each(|held| load += held.load());
        self.load -= load;
        (run.into_iter().map(|held| held.payload).collect(), load)
    }

    /// Drops the fragments behind a gap; returns what they cost.
    pub(super) fn drop_beyond(&mut self) -> Load {
        let beyond = core::mem::take(&mut self.beyond);
        let mut load = Load::default();
        beyond.values().for_each(|held| load += held.load());
        self.load -= load;
        load
    }

    /// TSNs of the renegable fragments (RFC 9260 §6.2); none if the message is delivered in parts.
    pub(super) fn renegable(&self) -> impl Iterator<Item = ExtendedTsn> + '_ {
        let run = self.run.iter().filter(|_| self.number.is_none());
        run.chain(self.beyond.values()).map(|held| held.tsn)
    }

    /// Drops the fragment with this FSN, if it is renegable; returns what it cost.
    pub(super) fn renege(&mut self, fsn: u64) -> Option<Load> {
        let in_run = fsn
            .checked_sub(self.base)
            .filter(|at| (*at as usize) < self.run.len());
        let held = match in_run {
            Some(_) if self.number.is_some() => return None,
            Some(at) => {
                let mut rest = self.run.split_off(at as usize);
                let held = rest.pop_front()?;
                for (fsn, held) in (fsn + 1..).zip(rest) {
                    self.beyond.insert(fsn, held);
                }
                held
            }
            None => self.beyond.remove(fsn)?,
        };
        self.last = self.last.filter(|last| *last != fsn);
        let load = held.load();
        self.load -= load;
        Some(load)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{StreamId, Tsn};

    use super::*;

    fn fragment(fsn: u32, flags: &str) -> Fragment {
        Fragment {
            tsn: Tsn(0),
            stream: StreamId(0),
            unordered: false,
            sequence: 0,
            fsn,
            ppid: Ppid(7),
            beginning: flags.contains('B'),
            ending: flags.contains('E'),
            repair: false,
            payload: Bytes::from(fsn.to_be_bytes().to_vec()),
            datagram: 4,
            origin: Origin::default(),
        }
    }

    /// A message whose fragments before this FSN the application has read.
    fn read_up_to(base: u64) -> Growing {
        Growing {
            base,
            number: Some(0),
            ..Growing::default()
        }
    }

    #[test]
    fn fragment_numbers_wrap() {
        let turn = 1 << 32;
        let mut message = read_up_to(turn - 2);
        for (tsn, fsn) in [(9, 1_u32), (8, 0), (7, u32::MAX), (6, u32::MAX - 1)] {
            assert!(!message.has_run());
            let ending = if fsn == 1 { "E" } else { "" };
            message.insert(tsn, fragment(fsn, ending)).unwrap();
        }
        assert!(message.is_complete());
        let numbers: Vec<_> = message.take_run().0.iter().map(|payload| payload[3]).collect();
        assert_eq!((numbers, message.load), (vec![254, 255, 0, 1], Load::default()));
    }

    #[test]
    fn contradictions() {
        let cases: [&[(u32, &str)]; 9] = [
            &[(0, "")],
            &[(0, "B"), (0, "B")],
            &[(1, ""), (1, "")],
            &[(0, "B"), (0, "")],
            &[(1, "E"), (2, "")],
            &[(2, ""), (1, "E")],
            &[(0, "B"), (1, ""), (0, "BE")],
            &[(2, "E"), (1, "E")],
            &[(u32::MAX, "")],
        ];
        for case in cases {
            let mut message = Growing::default();
            let results = case
                .iter()
                .map(|(fsn, flags)| message.insert(9, fragment(*fsn, flags)));
            let results: Vec<_> = results.collect();
            let (last, before) = results.split_last().unwrap();
            assert!(
                last.is_err() && before.iter().all(Result::is_ok),
                "{case:?}: {results:?}"
            );
        }
        assert!(read_up_to(5).insert(9, fragment(4, "")).is_err());
    }

    #[test]
    fn what_is_reneged_comes_again() {
        let mut message = Growing::default();
        for (tsn, fsn, flags) in [(10, 0, "B"), (11, 1, ""), (13, 2, "E")] {
            message.insert(tsn, fragment(fsn, flags)).unwrap();
        }
        let four = Load {
            bytes: 4,
            kept: 4,
            chunks: 1,
        };
        assert_eq!(message.renege(2), Some(four));
        assert_eq!(message.renege(2), None);
        assert_eq!(message.renege(0), Some(four));
        assert!(!message.has_run() && !message.is_complete());
        message.insert(20, fragment(2, "E")).unwrap();
        assert_eq!(message.renegable().collect::<Vec<_>>(), [11, 20]);
        message.insert(21, fragment(0, "B")).unwrap();
        assert!(message.is_complete());
        assert_eq!((message.load.bytes, message.take_run().0.len()), (12, 3));
        message.number = Some(3);
        assert_eq!(message.renegable().count(), 0);
    }
}
