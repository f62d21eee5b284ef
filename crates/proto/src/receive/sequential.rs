//! Reassembles and orders messages without interleaving: the fragments of a message have consecutive TSNs, and SSNs determine the order
//! (RFC 9260 §6.5, §6.6, §6.9).

use anabranch_wire::{Ssn, StreamId};

use super::delivery::{InboundStreams, Outlet, Turn};
use super::fragment::{Fragment, Verdict};
use super::held::Held;
use super::load::{Load, OVERHEAD};
use super::reassembly::{Assembly, Reassembly};
use super::receive_window::memory_limit;
use super::renegable::Place;
use super::tsn_tracker::TsnTracker;
use crate::config::BufferConfig;
use crate::message::{MessagePart, Payload};
use crate::reconfiguration::StreamSelection;
use crate::seq::{ExtendedTsn, Run};

/// For so many bytes of the receive buffer, the number of one abandoned message is stored until its turn.
pub(super) const BYTES_FOR_A_NOTICE: usize = 64;

/// The incomplete messages and those whose turn has not come.
#[derive(Debug)]
pub(super) struct Sequential {
    reassembly: Reassembly,
    pub(super) streams: InboundStreams,
    /// The first TSN of the message that is delivered in parts before it is complete.
    partial: Option<ExtendedTsn>,
    /// Bytes of user data, or of memory, from which on a message is delivered in parts.
    partial_point: usize,
    partial_memory: usize,
    /// The highest TSN that counts as arrived because the sender abandoned it.
    forwarded: ExtendedTsn,
    /// The most abandoned messages that are stored until their turn.
    most_skipped: usize,
}

impl Sequential {
    pub(super) fn new(buffers: &BufferConfig) -> Self {
        Self {
            reassembly: Reassembly::default(),
            streams: InboundStreams::default(),
            partial: None,
            partial_point: buffers.partial_delivery_point.min(buffers.receive as usize / 2),
            partial_memory: memory_limit(buffers.receive as usize) / 2,
            forwarded: 0,
            most_skipped: buffers.receive as usize / BYTES_FOR_A_NOTICE,
        }
    }

    /// Drops all messages.
    pub(super) fn clear(&mut self, out: &mut Outlet<'_>) {
        for load in [self.reassembly.clear(), self.streams.clear()] {
            out.window.release(load);
        }
    }

    /// The memory in bytes that incomplete messages and notices use beside chunks.
    pub(super) fn overhead(&self) -> usize {
        OVERHEAD * self.reassembly.len() + self.streams.overhead()
    }

    /// Streams are reset (RFC 6525 §5.2.2 E3).
    pub(super) fn reset_streams(&mut self, selection: &StreamSelection, out: &mut Outlet<'_>) {
        let streams = match selection {
            StreamSelection::All => self.streams.take_used(),
            StreamSelection::Listed(streams) => streams.clone(),
        };
        for stream in streams {
            self.streams.reset(stream, |held| out.deliver_waiting(held));
        }
    }

    /// All incomplete messages will not be completed (RFC 6525 §5.2.4 G4).
    pub(super) fn drop_incomplete(&mut self, cumulative: ExtendedTsn, out: &mut Outlet<'_>) {
        self.cut_off(ExtendedTsn::MAX - 1, out);
        self.forwarded = cumulative;
    }

    /// Drops the messages that miss a TSN up to `forwarded`.
    fn cut_off(&mut self, forwarded: ExtendedTsn, out: &mut Outlet<'_>) {
        self.forwarded = forwarded;
        while let Some(run) = self.reassembly.take_cut_off(forwarded) {
            self.forwarded = self.forwarded.max(run.last);
            Self::drop_run(&run, out);
            if self.partial == Some(run.first) {
                self.partial = None;
                Self::truncate(&run, out);
            }
        }
    }

    /// Whether a fragment with this TSN belongs to an incomplete message.
    pub(super) fn expects(&self, tsn: ExtendedTsn) -> bool {
        !self.reassembly.is_empty() && self.reassembly.expects(tsn)
    }

    /// Whether a fragment without the B bit belongs to an abandoned message.
    pub(super) fn is_orphan(&self, tsn: ExtendedTsn) -> bool {
        self.reassembly.is_orphan(tsn, self.forwarded)
    }

    /// Stores a fragment, which already counts in the receive window.
    #[inline(always)]
    pub(super) fn on_fragment(
        &mut self,
        tsn: ExtendedTsn,
        fragment: Fragment,
        tracker: &TsnTracker,
        out: &mut Outlet<'_>,
    ) -> Verdict {
        if fragment.beginning && fragment.ending {
            self.on_whole(tsn, fragment, tracker, out)
        } else {
            self.on_part(tsn, fragment, tracker, out)
        }
    }

    /// A message in one fragment.
    #[inline(always)]
    fn on_whole(
        &mut self,
        tsn: ExtendedTsn,
        fragment: Fragment,
        tracker: &TsnTracker,
        out: &mut Outlet<'_>,
    ) -> Verdict {
        let sequence = fragment.sequence;
        let held = Held::whole(tsn, fragment, out.number());
        let verdict = self.deliver(tsn, sequence, held, tracker, out);
        if !self.reassembly.is_empty() {
            self.seek_partial(tracker, out);
        }
        verdict
    }

    /// A fragment of a message whose TSNs follow each other.
    fn on_part(
        &mut self,
        tsn: ExtendedTsn,
        fragment: Fragment,
        tracker: &TsnTracker,
        out: &mut Outlet<'_>,
    ) -> Verdict {
        match self
            .reassembly
            .insert(tsn, fragment, |neighbour| tracker.is_processed(neighbour))
        {
            Ok(first) => {
                if self.partial != Some(first) {
                    out.renegable.add(Run::of(tsn));
                }
                self.on_assembly(first, tracker, out)
            }
            Err(what) => Verdict::Violation(what),
        }
    }

    /// A run of fragments has grown: it may be complete now, or large enough to be delivered in parts.
    fn on_assembly(&mut self, first: ExtendedTsn, tracker: &TsnTracker, out: &mut Outlet<'_>) -> Verdict {
        let complete = self.reassembly.assembly(first).is_some_and(Assembly::is_complete);
        let assembly = complete.then(|| self.reassembly.remove(first)).flatten();
        let verdict = match assembly {
            Some(assembly) => {
                out.renegable.remove(assembly.whole());
                self.partial = self.partial.filter(|partial| *partial != first);
                self.complete(assembly, tracker, out)
            }
            None => {
                self.note_partial(out);
                Verdict::Accepted
            }
        };
        self.seek_partial(tracker, out);
        verdict
    }

    /// Starts to deliver the lowest message in parts if it is large, its turn has come and no TSN below it is missing. No other message
    /// needs this: the next TSN in order belongs to the lowest message. A message beyond a gap must wait, because the message in the gap
    /// may need the receive window, and only one message at a time is delivered in parts.
    fn seek_partial(&mut self, tracker: &TsnTracker, out: &mut Outlet<'_>) {
        if self.partial.is_some() {
            return;
        }
        let Some(lowest) = self.reassembly.lowest() else {
            return;
        };
        let large = lowest.load.bytes >= self.partial_point || lowest.load.memory() >= self.partial_memory;
        if large
            && lowest.first <= tracker.cumulative()
            && lowest.has_beginning()
            && (lowest.unordered || self.streams.turn(lowest.stream, lowest.sequence, 0) == Turn::Now)
        {
            self.partial = Some(lowest.first);
            self.note_partial(out);
        }
    }

    /// The message that is delivered in parts is not renegable.
    fn note_partial(&mut self, out: &mut Outlet<'_>) {
        if out.renegable.enabled
            && let Some(run) = self.partial.and_then(|first| self.reassembly.assembly(first))
        {
            out.renegable.remove(run.whole());
        }
    }

    /// All fragments of a message have arrived.
    fn complete(&mut self, assembly: Assembly, tracker: &TsnTracker, out: &mut Outlet<'_>) -> Verdict {
        let message = assembly.handed_over.unwrap_or_else(|| out.number());
        let part = MessagePart {
            stream: assembly.stream,
            ppid: assembly.ppid,
            unordered: assembly.unordered,
            message,
            beginning: assembly.handed_over.is_none(),
            ending: true,
            truncated: false,
            arrived_at: assembly.origin.at,
            path: assembly.origin.path,
            payload: Payload::from(Vec::from(assembly.payloads)),
        };
        let held = Held::new(part, assembly.first, assembly.load);
        self.deliver(assembly.first, assembly.sequence, held, tracker, out)
    }

    /// The message with the first TSN `first` is complete: the application can read it now, or it waits for its turn.
    #[inline]
    fn deliver(
        &mut self,
        first: ExtendedTsn,
        sequence: u32,
        held: Held,
        tracker: &TsnTracker,
        out: &mut Outlet<'_>,
    ) -> Verdict {
        let stream = held.part.stream;
        if held.part.unordered {
            out.deliver(held);
            return Verdict::Accepted;
        }
        let missing_below = first.saturating_sub(tracker.cumulative() + 1);
        match self.streams.turn(stream, sequence, missing_below) {
            Turn::Now => {
                out.deliver(held);
                self.streams.advance(stream, |next| out.deliver_waiting(next));
            }
            Turn::Later => {
                let last = held.first + ExtendedTsn::from(held.chunks) - 1;
                out.ready.note_blocked(stream, first, tracker.cumulative() + 1);
                match self.streams.keep(sequence, held) {
                    Ok(()) => {
                        let place = Place::Waits(stream, sequence as u16);
                        out.renegable.add_at(Run { first, last }, place);
                    }
                    Err(second) => out.drop_held(&second),
                }
            }
            Turn::Past => {
                out.drop_held(&held);
                return Verdict::Late;
            }
            Turn::Skipped => return Verdict::Violation("the peer skipped the SSN of an ordered message"),
        }
        Verdict::Accepted
    }

    /// The fragments that have arrived of the message that is delivered in parts.
    pub(super) fn take_partial(&mut self, next_message: &mut u64) -> Option<Held> {
        let assembly = self.reassembly.assembly_mut(self.partial?)?;
        if assembly.payloads.is_empty() {
            return None;
        }
        let beginning = assembly.handed_over.is_none();
        let message = *assembly.handed_over.get_or_insert(*next_message);
        let payloads = Vec::from(core::mem::take(&mut assembly.payloads));
        let part = MessagePart {
            stream: assembly.stream,
            ppid: assembly.ppid,
            unordered: assembly.unordered,
            message,
            beginning,
            ending: false,
            truncated: false,
            arrived_at: assembly.origin.at,
            path: assembly.origin.path,
            payload: payloads.into(),
        };
        let held = Held::new(part, assembly.first, core::mem::take(&mut assembly.load));
        *next_message += u64::from(beginning);
        Some(held)
    }

    /// The stream of the part that [`Sequential::take_partial`] would return.
    pub(super) fn partial_stream(&self) -> Option<StreamId> {
        let assembly = self.reassembly.assembly(self.partial?)?;
        (!assembly.payloads.is_empty()).then_some(assembly.stream)
    }

    /// TSNs up to `forwarded` will not arrive; `span` of them were skipped. In each stream of `skipped`, messages up to the given SSN will
    /// not arrive.
    pub(super) fn skip_to(
        &mut self,
        (forwarded, span): (ExtendedTsn, u64),
        skipped: impl Iterator<Item = (StreamId, u32)>,
        tracker: &TsnTracker,
        out: &mut Outlet<'_>,
    ) {
        self.cut_off(forwarded, out);
        // usrsctp also lists messages that it knows to be non-renegable, and further fragments of these may follow beyond the point.
        for (stream, sequence) in skipped {
            // If the receiver still holds fragments of a message, the message was not abandoned, whatever the list says.
            let sequence = match self.reassembly.in_progress(stream) {
                Some(first) if !Ssn(sequence as u16).is_before(first) => first.minus(1).0.into(),
                _ => sequence,
            };
            self.streams
                .skip_to(stream, sequence, span, |held| out.deliver_waiting(held));
        }
        self.seek_partial(tracker, out);
    }

    /// An incomplete ordered message will not arrive. `missing_below` is that of [`InboundStreams::turn`].
    pub(super) fn skip_one(
        &mut self,
        stream: StreamId,
        sequence: u32,
        missing_below: u64,
        out: &mut Outlet<'_>,
    ) {
        let partial = self.partial.and_then(|first| self.reassembly.assembly(first));
        if partial.is_some_and(|run| run.stream == stream && run.sequence == sequence) {
            return;
        }
        self.streams
            .skip_one(stream, sequence, missing_below, self.most_skipped, |held| {
                out.deliver_waiting(held);
            });
    }

    /// Ends a message of which parts were delivered.
    fn truncate(run: &Assembly, out: &mut Outlet<'_>) {
        let Some(message) = run.handed_over else {
            return;
        };
        let part = MessagePart {
            stream: run.stream,
            ppid: run.ppid,
            unordered: run.unordered,
            message,
            beginning: false,
            ending: true,
            truncated: true,
            arrived_at: run.origin.at,
            path: run.origin.path,
            payload: Payload::default(),
        };
        out.deliver(Held::new(part, run.first, Load::default()));
    }

    /// Drops a fragment of an abandoned message that arrived late, and the fragments that follow it.
    pub(super) fn drop_orphan(&mut self, tsn: ExtendedTsn, out: &mut Outlet<'_>) {
        self.forwarded = self.forwarded.max(tsn);
        if let Some(run) = self.reassembly.take_cut_off(self.forwarded) {
            self.forwarded = self.forwarded.max(run.last);
            Self::drop_run(&run, out);
        }
    }

    fn drop_run(run: &Assembly, out: &mut Outlet<'_>) {
        out.window.release(run.load);
        out.renegable.remove(run.whole());
    }

    /// Removes and returns the run of fragments that has this TSN.
    pub(super) fn take_run(&mut self, tsn: ExtendedTsn) -> Option<Assembly> {
        let first = self.reassembly.run_of(tsn)?;
        self.reassembly.remove(first)
    }

    /// First and last TSN of all renegable runs above the cumulative TSN, in any order.
    #[cfg(test)]
    pub(super) fn renegable(&self) -> impl Iterator<Item = (ExtendedTsn, ExtendedTsn)> + '_ {
        let waiting = self.streams.waiting();
        let waiting = waiting.map(|(first, chunks)| (first, first + ExtendedTsn::from(chunks) - 1));
        let runs = self.reassembly.runs();
        runs.filter(|(first, _)| Some(*first) != self.partial)
            .chain(waiting)
    }
}
