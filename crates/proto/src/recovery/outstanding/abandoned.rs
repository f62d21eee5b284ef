//! Abandoned messages (RFC 3758 §3.5) and non-renegable chunks (draft-tuexen-tsvwg-sctp-multipath §4): neither is retransmitted, and the
//! user data of both is freed.

use anabranch_wire::StreamId;

use super::acknowledged::listed;
use super::suspects::suspect;
use super::{AckOutcome, Chunk, ChunkState, Judge, Outstanding};
use crate::config::DiscardReduction;
use crate::message::Fragment;
use crate::message::MessageId;
use crate::path::{Flight, PathId, Paths, Sending};
use crate::recovery::ack_report::AckReport;
use crate::seq::{Run, Walk};
use crate::time::Timestamp;
use crate::trace_event::LossRule;

/// A message that was abandoned after some of its chunks were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned {
    pub(crate) message: MessageId,
    /// Whether the whole message was in the ring; otherwise its rest still waits for the first transmission.
    pub(crate) complete: bool,
}

impl Outstanding {
    /// Whether any chunk in the ring belongs to an abandoned message.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.abandoned > 0
    }

    /// Abandons the whole message of the chunk `index` (RFC 3758 §3.5 A3). Its lost chunks are not retransmitted; its chunks in flight
    /// stay in flight until they are acknowledged or lost. `None` if the message was abandoned before.
    pub(crate) fn abandon(&mut self, index: u64) -> Option<Abandoned> {
        if self.chunk(index).abandoned {
            return None;
        }
        let mut next = index;
        while let Some(before) = self.fragment_before(next) {
            next = before;
        }
        loop {
            let chunk = &mut self.chunks[(next - self.base) as usize];
            chunk.abandoned = true;
            self.abandoned += 1;
            if matches!(chunk.state, ChunkState::Lost { .. }) {
                chunk.state = ChunkState::Abandoned;
                self.lost.remove(Run::of(next));
            }
            if chunk.state == ChunkState::Abandoned {
                chunk.free(&mut self.retained);
                if let Some(skippable) = &mut self.skippable {
                    skippable.add(next, &chunk.fragment);
                }
            }
            let [_, behind] = chunk.links;
            if behind == 0 {
                return Some(Abandoned {
                    message: chunk.fragment.message,
                    complete: chunk.fragment.ending,
                });
            }
            next += u64::from(behind);
        }
    }

    /// A FORWARD-TSN was sent whose New Cumulative TSN is `index`.
    pub(crate) fn on_forward_sent(&mut self, index: u64, now: Timestamp) {
        self.forwarded.entry(index).or_insert(now);
    }

    /// The receiver acknowledges everything up to `cumulative`, and may have skipped chunks because of FORWARD-TSN. Returns the last chunk that
    /// need not have arrived, or 0.
    ///
    /// Chunks that were discarded early, and have too few missing reports, are lost: nothing else will report them. But a FORWARD-TSN that left
    /// less than a round trip ago has not been answered yet, so that the chunk was only late. The packet of a FORWARD-TSN is small, and may be
    /// faster than the packet that measured the round trip: up to an eighth sooner it is unknown what the acknowledgement answers.
    #[cold]
    pub(super) fn on_skipped(
        &mut self,
        cumulative: u64,
        now: Timestamp,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) -> u64 {
        let (mut skipped, mut answered) = (0, 0);
        let least = paths.iter().filter_map(|path| path.rtt.min()).min();
        let least = least.unwrap_or_default();
        while let Some(first) = self
            .forwarded
            .first_entry()
            .filter(|first| *first.key() <= cumulative)
        {
            let (index, left) = first.remove_entry();
            let waited = now.saturating_duration_since(left);
            if waited >= least - least / 8 {
                skipped = index;
            }
            if waited >= least {
                answered = index;
            }
        }
        if self.hasty > 0 {
            for index in self.base..=answered {
                self.lose_if_discarded(index, paths, outcome);
            }
        }
        skipped
    }

    fn lose_if_discarded(&mut self, index: u64, paths: &mut Paths, outcome: &mut AckOutcome) {
        let Some(chunk) = self.chunks.get_mut((index - self.base) as usize) else {
            return;
        };
        let arrived = |flight: &Flight| flight.get(chunk.sequence).is_some_and(Sending::has_arrived);
        if !chunk.is_discarded_in_flight() || arrived(&paths.path(chunk.path).flight) {
            return;
        }
        self.journal
            .note(|| chunk.loss_event(index, LossRule::FirstMissingReport));
        chunk.leave(paths);
        chunk.state = ChunkState::Abandoned;
        suspect(&mut self.suspects, index, (chunk.path, chunk.sequence));
        outcome.lose(chunk);
    }

    /// The fragment of the same message before this one, if it is still in the ring.
    fn fragment_before(&self, index: u64) -> Option<u64> {
        let [before, _] = self.chunk(index).links;
        let in_ring = before > 0 && index - u64::from(before) >= self.base;
        in_ring.then(|| index - u64::from(before))
    }

    /// The first chunk in flight among this fragment and the later fragments of the same message. FORWARD-TSN is to pass the chunk
    /// `passing`, so that it does not count if it was discarded early.
    pub(crate) fn still_coming(&self, mut index: u64, passing: u64) -> Option<u64> {
        loop {
            let chunk = self.chunk(index);
            if chunk.is_coming() || (index != passing && chunk.state == ChunkState::InFlight) {
                return Some(index);
            }
            match chunk.links {
                [_, 0] => return None,
                [_, behind] => index += u64::from(behind),
            }
        }
    }

    /// Abandons the fragments in the ring of a message whose rest was not sent, if there are any.
    pub(crate) fn abandon_open(&mut self, stream: StreamId, message: MessageId) {
        let of_it = |index: &u64| *index >= self.base && self.chunk(*index).fragment.message == message;
        let back = self.next_index() - 1;
        let last = [Some(back), self.open.get(&stream).copied()];
        if let Some(last) = last.into_iter().flatten().find(of_it) {
            self.abandon(last);
        }
    }

    /// The distance in TSNs between the next fragment of the ring and the fragment of the same message before it. Nearly always there is
    /// none, or it is the last chunk of the ring.
    #[inline(always)]
    pub(super) fn link(&mut self, fragment: &Fragment) -> [u32; 2] {
        let ended = self.chunks.back().is_none_or(|back| back.fragment.ending);
        if fragment.beginning && ended {
            return [0, 0];
        }
        self.link_to_open(fragment)
    }

    fn link_to_open(&mut self, fragment: &Fragment) -> [u32; 2] {
        let index = self.next_index();
        let back = self.chunks.back().map(|chunk| &chunk.fragment);
        let goes_on = back.is_some_and(|back| back.message == fragment.message);
        let before = if goes_on {
            Some(index - 1)
        } else {
            if let Some(back) = back.filter(|back| !back.ending) {
                self.open.insert(back.stream, index - 1);
            }
            let open = (!fragment.beginning).then(|| self.open.remove(&fragment.stream));
            open.flatten().filter(|before| *before >= self.base)
        };
        let Some(before) = before else { return [0, 0] };
        let distance = (index - before) as u32;
        self.chunks[(before - self.base) as usize].links[1] = distance;
        [distance, 0]
    }

    /// Adds the end of a message that was abandoned after a part of it was sent. It takes a TSN and is never sent, so that the next message
    /// does not follow a middle fragment.
    pub(crate) fn push_abandoned(&mut self, fragment: Fragment, path: PathId, now: Timestamp) {
        let links = self.link(&fragment);
        self.chunks.push_back(Chunk {
            fragment,
            state: ChunkState::Abandoned,
            path,
            sent_at: now,
            first_sent_at: None,
            transmissions: 0,
            sequence: 0,
            fast_retransmitted: false,
            copied: None,
            one_path: false,
            abandoned: true,
            discarded: false,
            links,
        });
        self.abandoned += 1;
    }

    /// The last chunk of the message that has the chunk `index`, if all its chunks from there on are non-renegable.
    ///
    /// # Errors
    /// The first chunk that is not.
    pub(crate) fn end_of_kept_message(&self, index: u64) -> Result<u64, u64> {
        let mut chunks = self.chunks.range((index - self.base) as usize..);
        let stops = chunks.position(|chunk| chunk.state != ChunkState::Kept || chunk.fragment.ending);
        let at = index + stops.unwrap_or(self.chunks.len()) as u64;
        match self.chunks.get((at - self.base) as usize) {
            Some(chunk) if chunk.state == ChunkState::Kept => Ok(at),
            _ => Err(at.min(self.next_index())),
        }
    }

    /// Whether an acknowledgement up to `last` leaves out chunks that the receiver declared non-renegable before (safe condition 2). The
    /// cost is one look-up for each gap ack block.
    pub(super) fn leaves_out_non_renegable(
        &self,
        cumulative: u64,
        report: &AckReport<'_>,
        last: u64,
    ) -> bool {
        if self.non_renegable.is_empty() {
            return false;
        }
        let mut non_renegable = Walk::new(&self.non_renegable);
        let mut left_out = |first, last| non_renegable.has_any(Run { first, last });
        let mut next = cumulative + 1;
        for run in listed(cumulative, report) {
            if run.first > next && left_out(next, run.first - 1) {
                return true;
            }
            next = next.max(run.last + 1);
        }
        left_out(next, last)
    }

    /// The receiver declares these `Acked` chunks non-renegable: frees their user data.
    pub(super) fn keep_non_renegable(&mut self, run: Run, outcome: &mut AckOutcome) {
        let mut any = false;
        for newly in self.non_renegable.missing(run) {
            any = true;
            self.renegable.remove(newly);
            for index in newly.first..=newly.last {
                let chunk = &mut self.chunks[(index - self.base) as usize];
                chunk.state = ChunkState::Kept;
                outcome.confirmed.extend(chunk.fragment.take_confirmation());
                outcome.freed_early += chunk.free(&mut self.retained);
            }
        }
        if any {
            self.non_renegable.insert(run);
        }
    }

    /// Early discard: abandons chunks that this acknowledgement reports missing and that must not be retransmitted, before they have enough
    /// missing reports to be lost.
    pub(super) fn discard_early(&mut self, judge: &Judge, paths: &mut Paths, outcome: &mut AckOutcome) {
        let Self {
            detector,
            chunks,
            base,
            retained,
            rules,
            suspects,
            acked,
            journal,
            ..
        } = self;
        let per_path = detector.is_per_path();
        detector.each_reported(*base, acked, paths, |paths, run| {
            for index in run.first..=run.last {
                let chunk = &mut chunks[(index - *base) as usize];
                if !chunk.is_coming() || !chunk.fragment.haste.early_discard || !judge.abandons(chunk) {
                    continue;
                }
                let again = chunk.transmissions > 1;
                // Only a later transmission of its path can report a retransmission missing.
                if again && !paths.path(chunk.path).flight.is_overtaken(chunk.sequence) {
                    continue;
                }
                outcome.abandoned.push(index);
                outcome.early_discards += 1;
                // Missing reports of TSNs do not count for a retransmission (RFC 9260 §7.2.4 step 5): nothing later declares it lost.
                let countable = per_path || !again;
                if rules.early_discard_reduces == DiscardReduction::ReportCount && countable {
                    chunk.discarded = true;
                    continue;
                }
                journal.note(|| chunk.loss_event(index, LossRule::FirstMissingReport));
                chunk.leave(paths);
                chunk.state = ChunkState::Abandoned;
                chunk.free(retained);
                if rules.early_discard_reduces != DiscardReduction::Never {
                    suspect(suspects, index, (chunk.path, chunk.sequence));
                    outcome.lose(chunk);
                }
            }
        });
    }

    /// The receiver got chunk `index` although FORWARD-TSN had passed it: if it was discarded early, it was late and not lost.
    pub(super) fn on_late_discard(&mut self, index: u64) {
        if let Some(at) = index.checked_sub(self.base)
            && let Some(chunk) = self.chunks.get_mut(at as usize)
        {
            chunk.discarded = false;
        }
    }
}

/// The chunks that an extended FORWARD-TSN lists.
impl Outstanding {
    /// Extended FORWARD-TSN was negotiated.
    pub(crate) fn track_skippable(&mut self) {
        self.skippable = Some(Box::default());
    }

    /// The chunks above `point` that an extended FORWARD-TSN can list.
    pub(crate) fn skippable_above(&self, point: u64) -> impl Iterator<Item = Run> + '_ {
        let above = Run {
            first: point + 1,
            last: self.next_index(),
        };
        self.skippable
            .iter()
            .flat_map(move |skippable| skippable.chunks.present(above))
    }

    /// Whether chunks were added since the last extended FORWARD-TSN.
    pub(crate) fn has_new_skippable(&self) -> bool {
        self.skippable.as_ref().is_some_and(|skippable| skippable.has_new)
    }

    /// An extended FORWARD-TSN lists these chunks.
    pub(crate) fn on_skippable_listed(&mut self, runs: &[Run]) {
        if let Some(skippable) = &mut self.skippable {
            skippable.has_new = false;
            runs.iter().for_each(|run| skippable.listed.insert(*run));
        }
    }
}
