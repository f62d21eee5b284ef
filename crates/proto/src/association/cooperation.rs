//! ECA-SCTP where it meets the association: chunks that carry transmissions' numbers, acknowledgements that name them, and the
//! paths by which those return.

use core::time::Duration;

use anabranch_wire::Psn;
use anabranch_wire::chunk::{CoopSack, CoopSackWriter, ForwardPsn, PathSequence};
use anabranch_wire::packet::PacketWriter;

use super::outbound::MOST_ACK;
use super::{Association, Capabilities};
use crate::extension::eca::PathView;
use crate::path::{Path, PathId, PathState};
use crate::recovery::AckOutcome;
use crate::send::TransmissionName;
use crate::time::Timestamp;

impl Association {
    fn cooperates(&self) -> bool {
        self.capabilities.has(Capabilities::ECA)
    }

    /// A COOP-SACK came in.
    pub(super) fn on_coop_sack(&mut self, now: Timestamp, sack: &CoopSack) {
        self.counters.sacks_received += 1;
        let overtaken = self.sources.cooperation.is_overtaken(sack.timestamp_ms);
        let mut outcome = core::mem::take(&mut self.outcome);
        outcome.begin(self.paths.len());
        let judge = self.judge(now);
        let paths = &mut self.paths;
        let result = self
            .outstanding
            .on_coop_ack(sack, overtaken, paths, &judge, &mut outcome);
        if result.is_ok() {
            self.counters.retransmissions_spurious += sack.duplicates.len() as u64;
            self.counters.sacks_stale += u64::from(overtaken);
            self.drop_samples(&mut outcome);
        }
        let a_rwnd = Some(sack.a_rwnd).filter(|_| !overtaken);
        self.after_ack(now, result, a_rwnd, &mut outcome);
        self.outcome = outcome;
    }

    /// For comparison: acknowledgements that return by another path than the data's give no sample.
    fn drop_samples(&self, outcome: &mut AckOutcome) {
        if !self.config.multipath.eca.sample_any_ack {
            let home = self.paths.last_arrival.index();
            let others = outcome.paths.iter_mut().enumerate().filter(|(at, _)| *at != home);
            others.for_each(|(_, path)| path.sample = None);
        }
    }

    /// Rule 10: the first repeat of an acknowledgement leaves whatever the congestion window.
    pub(super) fn hurry_first_repeat(&mut self, outcome: &AckOutcome) {
        let any = outcome.paths.iter().any(|path| path.lost > 0);
        if !any || !self.cooperates() {
            return;
        }
        if let Some(index) = self.outstanding.first_lost() {
            let to = self.repeat_path(index);
            self.paths.path_mut(to).repeat_now = true;
        }
    }

    /// A packet with data for `id` begins.
    pub(super) fn begin_data_packet(&mut self, now: Timestamp, id: PathId) {
        self.paths.path_mut(id).flight.begin_packet();
        if self.cooperates() && self.sources.cooperation.is_due(now) {
            let active = self.paths.iter().filter(|path| path.state == PathState::Active);
            let views = active.map(|path| PathView {
                id: path.id,
                round_trip: path.rto.srtt(),
                loss: path.delivery.loss(),
            });
            self.sources.cooperation.rank(now, views.collect());
        }
    }

    /// What names a transmission that leaves by `id`, the one of this number there.
    pub(super) fn name_of(&self, id: PathId, sequence: u64) -> TransmissionName {
        TransmissionName {
            number: PathSequence {
                path: id.0,
                number: Psn::new(sequence as u32),
            },
            policy: self.sources.cooperation.policy(id),
            types: self.config.chunk_types,
        }
    }

    /// Adds a FORWARD-PSN for the path of this packet, if its receiver waits for what is lost or left again elsewhere.
    pub(super) fn push_forward_psn(&mut self, now: Timestamp, id: PathId, packet: &mut PacketWriter<'_>) {
        if !self.config.multipath.eca.forward_psn || packet.room() < ForwardPsn::LEN {
            return;
        }
        if let Some(number) = self.forward_psn_due(now, id)
            && let Some(identity) = self.outstanding.identity_mut()
        {
            identity.on_forward_told(id, now);
            let point = ForwardPsn(PathSequence { path: id.0, number });
            packet.push_as(self.config.chunk_types.forward_psn, &point);
            self.counters.forward_psns_sent += 1;
        }
    }

    fn forward_psn_due(&self, now: Timestamp, id: PathId) -> Option<Psn> {
        let identity = self.outstanding.identity()?;
        let Path { rto, flight, .. } = self.paths.path(id);
        // Never at once: what takes the room of the data that it would ride with must not do so twice.
        let wait = rto.srtt().map_or(rto.current(), |srtt| 2 * srtt);
        let wait = wait.max(Duration::from_millis(1));
        identity.forward_due(id, flight, now, wait)
    }

    /// A path that has no numbers left and must tell its receiver so, though it has no data to send with it.
    pub(super) fn forward_psn_alone(&self, now: Timestamp) -> Option<PathId> {
        self.outstanding.identity()?;
        let stuck = |path: &&Path| !path.flight.has_numbers() && path.state == PathState::Active;
        let mut stuck = self.paths.iter().filter(stuck).map(|path| path.id);
        let tells = self.config.multipath.eca.forward_psn && self.state.sends_data();
        stuck.find(|id| tells && self.forward_psn_due(now, *id).is_some())
    }

    /// A FORWARD-PSN came in.
    pub(super) fn on_forward_psn(&mut self, point: PathSequence) {
        if self.state.takes_data() {
            self.counters.forward_psns_received += 1;
            self.receiver.on_forward_psn(point);
        }
    }

    /// Where the next acknowledgement goes.
    pub(super) fn ack_path(&self) -> PathId {
        let may = |id: PathId| self.paths.path(id).state == PathState::Active;
        let chosen = self.receiver.gap_report_path(may);
        chosen.unwrap_or_else(|| self.paths.answer_path())
    }

    /// Adds a COOP-SACK to a packet for `id`; `own` if it is not the copy of one that left by another path.
    pub(super) fn push_coop_sack(
        &mut self,
        now: Timestamp,
        id: PathId,
        own: bool,
        packet: &mut PacketWriter<'_>,
    ) {
        let kind = self.config.chunk_types.coop_sack;
        let blocks =
            self.receiver
                .build_coop_ack(now, packet.room().min(MOST_ACK), |ack: &CoopSackWriter<'_>| {
                    packet.push_as(kind, ack);
                });
        self.counters.gap_blocks_sent += blocks as u64;
        self.counters.sacks_sent += 1;
        let active = self.paths.iter().filter(|path| path.state == PathState::Active);
        let others = active.map(|path| path.id).filter(|other| own && *other != id);
        self.receiver.on_copied(id, others);
    }
}
