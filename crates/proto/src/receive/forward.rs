//! Handles abandoned messages, which the sender announces by FORWARD-TSN (RFC 3758 §3.6), I-FORWARD-TSN (RFC 8260 §2.3.1) and selective
//! forward TSN, and by extended FORWARD-TSN.

use anabranch_wire::chunk::{GapAckBlock, SkippedMessage};
use anabranch_wire::{StreamId, Tsn};

use super::ack_timing::Urgency;
use super::tsn_tracker::MAX_AHEAD;
use super::{Messages, Receiver};
use crate::seq::{ExtendedTsn, Run};

/// The most runs of TSNs above the cumulative TSN to which an extended FORWARD-TSN adds another. It carries no data, so the receive window
/// does not bound it.
const MOST_RUNS: usize = 256;

impl Receiver {
    /// FORWARD-TSN: the receiver stops waiting for TSNs up to `new_cumulative`. In each listed stream, it also stops waiting for messages
    /// up to the listed SSN. The chunk is acknowledged by the rules for DATA.
    ///
    /// # Errors
    /// Why the association must end.
    pub(crate) fn on_forward(
        &mut self,
        new_cumulative: Tsn,
        skipped: impl Iterator<Item = (StreamId, u32)>,
    ) -> Result<(), &'static str> {
        let Some(point) = self.skip_tsns(new_cumulative)? else {
            return Ok(());
        };
        let streams = self.inbound_streams;
        if let (Messages::Sequential(sequential), mut out, tracker) = self.messages() {
            let skipped = skipped.filter(|(stream, _)| stream.0 < streams);
            sequential.skip_to(point, skipped, tracker, &mut out);
        }
        Ok(())
    }

    /// I-FORWARD-TSN: the receiver stops waiting for TSNs up to `new_cumulative`, and for messages up to each MID listed. With
    /// interleaving only the list tells which messages were abandoned.
    ///
    /// # Errors
    /// See [`Receiver::on_forward`].
    pub(crate) fn on_i_forward(
        &mut self,
        new_cumulative: Tsn,
        skipped: impl Iterator<Item = SkippedMessage>,
    ) -> Result<(), &'static str> {
        if self.skip_tsns(new_cumulative)?.is_none() {
            return Ok(());
        }
        let streams = self.inbound_streams;
        if let (Messages::Interleaved(interleaved), mut out, _) = self.messages() {
            for SkippedMessage {
                stream,
                unordered,
                mid,
            } in skipped.filter(|one| one.stream.0 < streams)
            {
                interleaved.skip_to(stream, unordered, mid.0, &mut out);
            }
        }
        Ok(())
    }

    /// All TSNs up to `new_cumulative` count as arrived. Returns the extended TSN and how far it was ahead; `None` if it was not ahead.
    fn skip_tsns(&mut self, new_cumulative: Tsn) -> Result<Option<(ExtendedTsn, u64)>, &'static str> {
        let point = self.tracker.extend(new_cumulative);
        if point > self.tracker.cumulative() + MAX_AHEAD {
            return Err("a FORWARD-TSN is too far ahead of the cumulative TSN");
        }
        if self
            .deferral
            .as_ref()
            .is_some_and(|deferral| deferral.refuses_notice(point))
        {
            return Ok(None);
        }
        let skipped = self.tracker.skip_to(point);
        // A FORWARD-TSN that is not ahead is a retransmission: the acknowledgement of the first one may be lost.
        if skipped.is_none() || self.tracker.has_gaps() {
            self.acks.timing.note(Urgency::AtOnce);
        }
        Ok(skipped.map(|ahead| (point, ahead)))
    }

    /// Extended FORWARD-TSN: the TSNs in these blocks count as received. The offsets of the blocks count from `base`, to which the cumulative
    /// TSN does not move. Each TSN has a whole unordered message, so no stream waits for it. TSNs that a gap ack block could not report are
    /// ignored.
    pub(crate) fn on_extended_forward(&mut self, base: Tsn, blocks: impl Iterator<Item = GapAckBlock>) {
        let base = self.tracker.extend(base);
        for block in blocks {
            let cumulative = self.tracker.cumulative();
            let run = Run {
                first: (base + ExtendedTsn::from(block.start)).max(cumulative + 1),
                last: (base + ExtendedTsn::from(block.end)).min(cumulative + MAX_AHEAD),
            };
            let refused = self
                .deferral
                .as_ref()
                .is_some_and(|deferral| deferral.refuses_notice(run.last));
            if run.first > run.last || refused {
                continue;
            }
            let joins = self.tracker.touches(run.first) || self.tracker.touches(run.last);
            if joins || self.tracker.runs() < MOST_RUNS {
                self.tracker.skip(run);
            }
        }
        // The sender learns at once that the receiver waits for less.
        self.acks.timing.note(Urgency::AtOnce);
    }

    /// Selective forward TSN: the sender does not retransmit the chunk `tsn` of an ordered message. If the chunk is missing, the
    /// stream stops waiting for the message. Nothing else changes: acknowledgements continue to report the chunk missing.
    pub(crate) fn on_selective_forward(&mut self, tsn: Tsn, stream: StreamId, sequence: u32) {
        let tsn = self.tracker.extend(tsn);
        let refused = self
            .deferral
            .as_ref()
            .is_some_and(|deferral| deferral.refuses_notice(tsn));
        if refused || stream.0 >= self.inbound_streams || !self.tracker.is_missing(tsn) {
            return;
        }
        let missing_below = tsn - self.tracker.cumulative() - 1;
        match self.messages() {
            (Messages::Sequential(sequential), mut out, _) => {
                sequential.skip_one(stream, sequence, missing_below, &mut out);
            }
            (Messages::Interleaved(interleaved), mut out, _) => {
                interleaved.skip_one(stream, sequence, &mut out);
            }
        }
    }
}
