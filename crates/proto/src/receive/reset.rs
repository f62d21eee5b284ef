//! Resets of inbound streams and of the peer's TSNs (RFC 6525 §5.2.2, §5.2.4), and data that waits for them.

use std::collections::BTreeMap;

use anabranch_wire::{StreamId, Tsn};

use super::deferral::Deferral;
use super::load::Load;
use super::{Fragment, Messages, Receiver, Verdict};
use crate::reconfiguration::StreamSelection;
use crate::seq::{ExtendedTsn, Run};

/// Stream reconfiguration.
impl Receiver {
    /// The extended TSN of a TSN near the cumulative TSN, and whether all TSNs up to it have arrived or been skipped.
    pub(crate) fn progress_to(&self, tsn: Tsn) -> (ExtendedTsn, bool) {
        let tsn = self.tracker.extend(tsn);
        (tsn, tsn <= self.tracker.cumulative())
    }

    /// Whether all TSNs up to this one have arrived or been skipped.
    pub(crate) fn has_all_to(&self, tsn: ExtendedTsn) -> bool {
        tsn <= self.tracker.cumulative()
    }

    /// Data of these streams beyond `last` waits from now on. The receive window bounds how much.
    pub(crate) fn defer(&mut self, last: ExtendedTsn, streams: StreamSelection) {
        self.begin_deferral(last, false, streams);
    }

    /// An SSN/TSN Reset Request was sent: all data waits until it is known whether it was sent before the reset.
    pub(crate) fn defer_all(&mut self) {
        self.begin_deferral(0, true, StreamSelection::All);
    }

    fn begin_deferral(&mut self, last: ExtendedTsn, open: bool, mut streams: StreamSelection) {
        if let StreamSelection::Listed(streams) = &mut streams {
            streams.sort_unstable();
        }
        self.deferral = Some(Box::new(Deferral {
            last,
            open,
            streams,
            held: BTreeMap::new(),
        }));
    }

    /// The streams are reset: their next SSN, or MID, is 0. Data that waited for it is processed. Returns the number of the first message
    /// after the reset.
    ///
    /// # Errors
    /// Why the association must end.
    pub(crate) fn reset_streams(&mut self, selection: &StreamSelection) -> Result<u64, &'static str> {
        let held = self.take_held();
        self.reset_numbers(selection);
        let first_message = self.next_message;
        self.process(held)?;
        Ok(first_message)
    }

    /// The peer assigned all TSNs below `next` before the reset: such data need not wait.
    ///
    /// # Errors
    /// Why the association must end.
    pub(crate) fn defer_from(&mut self, next: Tsn) -> Result<(), &'static str> {
        let next = self.tracker.extend(next);
        let Some(mut deferral) = self.deferral.take() else {
            return Ok(());
        };
        deferral.last = deferral.last.max(next - 1);
        let held = deferral.held.split_off(&next);
        let due = core::mem::replace(&mut deferral.held, held);
        self.deferral = Some(deferral);
        self.process(due)
    }

    /// Data that waited for a reset is processed without the reset.
    ///
    /// # Errors
    /// Why the association must end.
    pub(crate) fn end_deferral(&mut self) -> Result<(), &'static str> {
        let held = self.take_held();
        self.process(held)
    }

    /// All streams are reset, and the peer continues with the TSN `next`. Incomplete messages are dropped. Returns the number of the first
    /// message after the reset.
    ///
    /// # Errors
    /// Why the association must end.
    pub(crate) fn reset_association(&mut self, next: Tsn) -> Result<u64, &'static str> {
        let first_new = self.tracker.extend(next);
        let mut old = self.take_held();
        let new = old.split_off(&first_new);
        let before = self.tracker.cumulative();
        self.process(old)?;
        self.tracker.continue_at(next);
        let jumped = self.tracker.cumulative() > before + u64::from(u16::MAX);
        let cumulative = self.tracker.cumulative();
        match self.messages() {
            (Messages::Sequential(sequential), mut out, _) => {
                sequential.drop_incomplete(cumulative, &mut out)
            }
            // The reset of its streams drops them.
            (Messages::Interleaved(_), ..) => {}
        }
        self.reset_numbers(&StreamSelection::All);
        let first_message = self.next_message;
        if jumped {
            for (tsn, fragment) in &new {
                self.renegable.remove(Run::of(*tsn));
                self.window.release(Load::of(fragment));
            }
        } else {
            self.process(new)?;
        }
        Ok(first_message)
    }

    /// The number of inbound streams grows.
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.inbound_streams = self.inbound_streams.saturating_add(count);
    }

    /// Whether a stream exists.
    pub(crate) fn has_stream(&self, stream: StreamId) -> bool {
        stream.0 < self.inbound_streams
    }

    /// The data that waits, which waits no more.
    pub(super) fn take_held(&mut self) -> BTreeMap<ExtendedTsn, Fragment> {
        self.deferral
            .take()
            .map(|deferral| deferral.held)
            .unwrap_or_default()
    }

    fn reset_numbers(&mut self, selection: &StreamSelection) {
        match self.messages() {
            (Messages::Sequential(sequential), mut out, _) => sequential.reset_streams(selection, &mut out),
            (Messages::Interleaved(interleaved), mut out, _) => {
                interleaved.reset_streams(selection, &mut out)
            }
        }
        match selection {
            StreamSelection::All => self.ready.on_reset_of_all(),
            StreamSelection::Listed(streams) => {
                streams.iter().for_each(|stream| self.ready.on_reset(*stream))
            }
        }
    }

    fn process(&mut self, fragments: BTreeMap<ExtendedTsn, Fragment>) -> Result<(), &'static str> {
        for (tsn, fragment) in fragments {
            self.tracker.process(tsn);
            self.renegable.remove(Run::of(tsn));
            if !fragment.beginning
                && let (Messages::Sequential(sequential), mut out, _) = self.messages()
                && sequential.is_orphan(tsn)
            {
                out.window.release(Load::of(&fragment));
                sequential.drop_orphan(tsn, &mut out);
                continue;
            }
            let verdict = match self.messages() {
                (Messages::Sequential(sequential), mut out, tracker) => {
                    sequential.on_fragment(tsn, fragment, tracker, &mut out)
                }
                (Messages::Interleaved(interleaved), mut out, tracker) => {
                    interleaved.on_fragment(tsn, fragment, tracker, &mut out)
                }
            };
            if let Verdict::Violation(what) = verdict {
                return Err(what);
            }
        }
        Ok(())
    }
}
