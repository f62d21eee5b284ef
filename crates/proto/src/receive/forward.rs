//! Abandoned messages, of which the sender tells by FORWARD-TSN (RFC 3758 §3.6), I-FORWARD-TSN (RFC 8260 §2.3.1) and selective
//! forward TSN.

use anabranch_wire::chunk::SkippedMessage;
use anabranch_wire::{Ssn, StreamId, Tsn};

use super::ack_timing::Urgency;
use super::delivery::{Held, Ready};
use super::tsn_tracker::MAX_AHEAD;
use super::{MessagePart, Payload, Receiver};
use crate::seq::ExtendedTsn;

impl Receiver {
    /// FORWARD-TSN: the receiver stops waiting for TSNs up to `new_cumulative`, and in each stream listed for messages up to the
    /// SSN listed. The chunk is acknowledged by the rules for DATA.
    ///
    /// # Errors
    /// Why the association must end.
    pub(crate) fn on_forward(
        &mut self,
        new_cumulative: Tsn,
        skipped: impl Iterator<Item = (StreamId, u32)>,
    ) -> Result<(), &'static str> {
        let Some((forwarded, span)) = self.skip_tsns(new_cumulative)? else {
            return Ok(());
        };
        self.forwarded = forwarded;
        while let Some(run) = self.reassembly.take_cut_off(forwarded) {
            self.forwarded = self.forwarded.max(run.last);
            self.drop_run(&run);
            if self.partial == Some(run.first) {
                self.partial = None;
                self.truncate(&run);
            }
        }
        // usrsctp also lists messages that it knows to be non-renegable, and of which more may follow beyond the point.
        for (stream, sequence) in skipped {
            if stream.0 < self.inbound_streams {
                // A message of which fragments are still held was not abandoned, whatever the list says.
                let sequence = match self.reassembly.in_progress(stream) {
                    Some(first) if !Ssn(sequence as u16).is_before(first) => first.minus(1).0.into(),
                    _ => sequence,
                };
                let ready = &mut self.ready;
                let renegable = &mut self.renegable;
                self.streams.skip_to(stream, sequence, span, |held| {
                    renegable.remove_message(&held);
                    ready.push_back(Ready::Message(held))
                });
            }
        }
        self.seek_partial();
        Ok(())
    }

    /// I-FORWARD-TSN: the receiver stops waiting for TSNs up to `new_cumulative`, and for messages up to each MID listed. With
    /// interleaving only the list tells which messages were abandoned.
    ///
    /// # Errors
    /// As of [`Receiver::on_forward`].
    pub(crate) fn on_i_forward(
        &mut self,
        new_cumulative: Tsn,
        skipped: impl Iterator<Item = SkippedMessage>,
    ) -> Result<(), &'static str> {
        if self.skip_tsns(new_cumulative)?.is_none() {
            return Ok(());
        }
        let streams = self.inbound_streams;
        if let Some((interleaved, mut outlet)) = self.interleaved() {
            for SkippedMessage {
                stream,
                unordered,
                mid,
            } in skipped.filter(|one| one.stream.0 < streams)
            {
                interleaved.skip_to(stream, unordered, mid.0, &mut outlet);
            }
        }
        Ok(())
    }

    /// Everything up to `new_cumulative` counts as arrived: answers its extended TSN, and how far it was ahead; `None` if it says
    /// nothing new.
    fn skip_tsns(&mut self, new_cumulative: Tsn) -> Result<Option<(ExtendedTsn, u64)>, &'static str> {
        let point = self.tracker.extend(new_cumulative);
        if point > self.tracker.cumulative() + MAX_AHEAD {
            return Err("a FORWARD-TSN goes further than data can be ahead");
        }
        let skipped = self.tracker.skip_to(point);
        // A FORWARD-TSN that says nothing new is a retransmission: the acknowledgement of the first one may be lost.
        if skipped.is_none() || self.tracker.has_gaps() {
            self.acks.timing.note(Urgency::AtOnce);
        }
        Ok(skipped.map(|ahead| (point, ahead)))
    }

    /// Selective forward TSN: the sender does not retransmit the chunk `tsn` of an ordered message. If the chunk is missing, the
    /// stream stops waiting for the message. Nothing else changes: acknowledgements continue to report the chunk missing.
    pub(crate) fn on_selective_forward(&mut self, tsn: Tsn, stream: StreamId, sequence: u32) {
        let tsn = self.tracker.extend(tsn);
        if stream.0 >= self.inbound_streams || !self.tracker.is_missing(tsn) {
            return;
        }
        if let Some((interleaved, mut outlet)) = self.interleaved() {
            interleaved.skip_one(stream, sequence, &mut outlet);
            return;
        }
        let partial = self.partial.and_then(|first| self.reassembly.assembly(first));
        if partial.is_some_and(|run| run.stream == stream && run.sequence == sequence) {
            return;
        }
        let missing_below = tsn - self.tracker.cumulative() - 1;
        let (ready, renegable) = (&mut self.ready, &mut self.renegable);
        self.streams
            .skip_one(stream, sequence, missing_below, self.max_chunks, |held| {
                renegable.remove_message(&held);
                ready.push_back(Ready::Message(held));
            });
    }

    /// Ends a message of which parts were handed over.
    fn truncate(&mut self, run: &super::Assembly) {
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
            payload: Payload::default(),
        };
        self.ready.push_back(Ready::Message(Held {
            part,
            first: run.first,
            chunks: 0,
        }));
    }

    /// Drops a fragment of an abandoned message that arrived late, and the fragments that follow it.
    pub(super) fn drop_orphan(&mut self, tsn: ExtendedTsn) {
        self.forwarded = self.forwarded.max(tsn);
        if let Some(run) = self.reassembly.take_cut_off(self.forwarded) {
            self.forwarded = self.forwarded.max(run.last);
            self.drop_run(&run);
        }
    }

    fn drop_run(&mut self, run: &super::Assembly) {
        self.window.release(run.bytes, run.payloads.len());
        self.renegable.remove(run.whole());
    }
}
