//! Owns the type of acknowledgement that this side sends, and builds the content of SACK and NR-SACK; `cooperative` builds that of
//! COOP-SACK.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{GapAckBlock, NrSackWriter, Sack};

use super::ack_timing::AckTiming;
use super::renegable::Renegable;
use super::tsn_tracker::TsnTracker;
use crate::config::SackConfig;
use crate::extension::eca::Arrivals;

/// The content of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckContent<'a> {
    pub(crate) cumulative_tsn_ack: Tsn,
    pub(crate) a_rwnd: u32,
    /// Renegable data. A SACK does not tell the difference, so there it is all data above the cumulative TSN ack.
    pub(crate) renegable: &'a [GapAckBlock],
    /// Non-renegable data above the cumulative TSN ack; empty in a SACK.
    pub(crate) nonrenegable: &'a [GapAckBlock],
    /// Number of packets that it acknowledges, if acknowledgements report it; otherwise 0.
    pub(crate) packets: u8,
    /// Whether it is to be an NR-SACK.
    pub(crate) is_nr_sack: bool,
    pub(crate) duplicate_tsns: &'a [Tsn],
}

/// The chunk type of acknowledgements.
#[derive(Debug)]
enum AckKind {
    Sack,
    NrSack,
    /// COOP-SACK of ECA-SCTP, which acknowledges transmissions. `lists_renegable` if NR-SACK was negotiated too.
    CoopSack {
        arrivals: Box<Arrivals>,
        lists_renegable: bool,
    },
}

/// Builds acknowledgements when they are due.
#[derive(Debug)]
pub(super) struct Acknowledger {
    pub(super) timing: AckTiming,
    kind: AckKind,
    /// Kept between acknowledgements to avoid allocations.
    pub(super) blocks: Vec<GapAckBlock>,
    pub(super) duplicates: Vec<Tsn>,
}

impl Acknowledger {
    pub(super) fn new(config: &SackConfig) -> Self {
        Self {
            timing: AckTiming::new(config),
            kind: AckKind::Sack,
            blocks: Vec::new(),
            duplicates: Vec::new(),
        }
    }

    /// Starts again with SACK.
    pub(super) fn reset(&mut self, config: &SackConfig) {
        self.timing = AckTiming::new(config);
        self.kind = AckKind::Sack;
    }

    /// Whether acknowledgements are NR-SACKs.
    pub(super) fn uses_nr_sack(&self) -> bool {
        matches!(self.kind, AckKind::NrSack)
    }

    /// NR-SACK was negotiated.
    pub(super) fn use_nr_sack(&mut self) {
        match &mut self.kind {
            AckKind::Sack | AckKind::NrSack => self.kind = AckKind::NrSack,
            AckKind::CoopSack { lists_renegable, .. } => *lists_renegable = true,
        }
    }

    /// COOP-SACK was negotiated.
    pub(super) fn use_coop_sack(&mut self) {
        let lists_renegable = match self.kind {
            AckKind::Sack => false,
            AckKind::NrSack => true,
            AckKind::CoopSack { .. } => return,
        };
        self.kind = AckKind::CoopSack {
            arrivals: Box::default(),
            lists_renegable,
        };
    }

    /// The transmissions that arrived, if acknowledgements are COOP-SACKs.
    pub(super) fn arrivals(&self) -> Option<&Arrivals> {
        match &self.kind {
            AckKind::CoopSack { arrivals, .. } => Some(arrivals),
            AckKind::Sack | AckKind::NrSack => None,
        }
    }

    /// As [`Acknowledger::arrivals`].
    pub(super) fn arrivals_mut(&mut self) -> Option<&mut Arrivals> {
        match &mut self.kind {
            AckKind::CoopSack { arrivals, .. } => Some(arrivals),
            AckKind::Sack | AckKind::NrSack => None,
        }
    }

    /// Whether a COOP-SACK lists renegable data.
    pub(super) fn lists_renegable(&self) -> bool {
        matches!(
            self.kind,
            AckKind::CoopSack {
                lists_renegable: true,
                ..
            }
        )
    }

    /// As [`super::Receiver::build_ack`].
    pub(super) fn build<R>(
        &mut self,
        room: usize,
        tracker: &mut TsnTracker,
        renegable: &Renegable,
        a_rwnd: u32,
        write: impl FnOnce(AckContent<'_>) -> R,
    ) -> R {
        let is_nr_sack = self.uses_nr_sack();
        let header = if is_nr_sack {
            NrSackWriter::HEADER_LEN
        } else {
            Sack::HEADER_LEN
        };
        let entries = room.saturating_sub(header) / 4; // all kinds take 4 bytes
        self.blocks.clear();
        self.duplicates.clear();
        tracker.gap_blocks(entries, &mut self.blocks);
        tracker.take_duplicates(entries - self.blocks.len(), &mut self.duplicates);
        let packets = self.timing.packets_answered();
        self.timing.on_sent();
        // A receiver that never reneges reports every chunk as non-renegable.
        let first_kind = match (is_nr_sack, renegable.enabled) {
            (false, _) => self.blocks.len(),
            (true, false) => 0,
            (true, true) => renegable.sort(tracker.cumulative(), entries, &mut self.blocks),
        };
        let (renegable, nonrenegable) = self.blocks.split_at(first_kind);
        write(AckContent {
            packets,
            cumulative_tsn_ack: tracker.cumulative_tsn(),
            a_rwnd,
            renegable,
            nonrenegable,
            is_nr_sack,
            duplicate_tsns: &self.duplicates,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_order_of_negotiation_says_nothing() {
        let config = Config::default().sack;
        let mut acks = Acknowledger::new(&config);
        acks.use_nr_sack();
        acks.use_coop_sack();
        assert!(acks.arrivals().is_some() && acks.lists_renegable());
        acks.reset(&config);
        assert!(acks.arrivals().is_none() && !acks.lists_renegable());
        acks.use_coop_sack();
        assert!(acks.arrivals().is_some() && !acks.lists_renegable());
        acks.use_nr_sack();
        assert!(acks.arrivals().is_some() && acks.lists_renegable());
    }
}
