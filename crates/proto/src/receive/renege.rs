//! Reneging: drops renegable data if the receiver may renege (RFC 9260 §6.2). Reneging keeps the buffer within its limit while a gap is
//! open.

use super::ack_timing::Urgency;
use super::load::Load;
use super::renegable::Place;
use super::{Messages, Receiver};
use crate::seq::Run;
#[cfg(test)]
use crate::seq::Runs;

impl Receiver {
    /// Drops renegable data, highest TSN first, until `len` bytes that are next in order fit the receive window.
    pub(super) fn renege_for(&mut self, len: usize) {
        self.renegable.tsns.remove_below(self.tracker.cumulative() + 1);
        #[cfg(test)]
        self.check_renegable();
        while !self.window.accepts(len, self.overhead(), false, true, true) {
            let Some((dropped, load)) = self.drop_highest() else {
                return;
            };
            self.tracker.renege(dropped);
            self.renegable.remove(dropped);
            self.window.release(load);
            self.reneged += dropped.len();
            self.acks.timing.note(Urgency::AtOnce);
        }
    }

    /// Drops the data with the highest TSN: a run of fragments, a message or, with interleaving or while it waits for a reset, a single
    /// fragment. Returns its TSNs and what it cost.
    fn drop_highest(&mut self) -> Option<(Run, Load)> {
        let highest = self.renegable.tsns.last()?.last;
        if let Some(fragment) = (self.deferral.as_mut()).and_then(|deferral| deferral.held.remove(&highest)) {
            self.tracker.process(highest);
            return Some((Run::of(highest), Load::of(&fragment)));
        }
        if let Messages::Sequential(sequential) = &mut self.messages
            && let Some(run) = sequential.take_run(highest)
        {
            return Some((run.whole(), run.load));
        }
        let (&first, &place) = self.renegable.places.range(..=highest).next_back()?;
        match (place, &mut self.messages) {
            (Place::Waits(stream, ssn), Messages::Sequential(sequential)) => {
                let held = sequential.streams.take_waiting(stream, ssn)?;
                let run = Run { first, last: highest };
                Some((run, held.load()))
            }
            (Place::Fragment(key, fsn), Messages::Interleaved(interleaved)) => {
                let load = interleaved.renege(key, fsn)?;
                Some((Run::of(first), load))
            }
            // The places are cleared whenever interleaving is turned on or off.
            _ => None,
        }
    }

    /// Number of chunks reneged so far.
    pub(crate) fn reneged(&self) -> u64 {
        self.reneged
    }

    /// Compares the sets with all data that is held.
    #[cfg(test)]
    fn check_renegable(&self) {
        if !self.renegable.enabled {
            return;
        }
        let cumulative = self.tracker.cumulative();
        let (sequential, interleaved) = match &self.messages {
            Messages::Sequential(sequential) => (Some(sequential.renegable()), None),
            Messages::Interleaved(interleaved) => (None, Some(interleaved.renegable())),
        };
        let interleaved = interleaved.into_iter().flatten().map(|tsn| (tsn, tsn));
        let deferred =
            (self.deferral.iter()).flat_map(|deferral| deferral.held.keys().map(|tsn| (*tsn, *tsn)));
        let mut expected = Runs::default();
        (sequential
            .into_iter()
            .flatten()
            .chain(interleaved)
            .chain(deferred))
        .filter(|(first, _)| *first > cumulative)
        .for_each(|(first, last)| expected.insert(Run { first, last }));
        assert!(
            self.renegable.tsns.iter().eq(expected.iter()),
            "{:?}, not {expected:?}",
            self.renegable
        );
    }
}
