//! Acknowledgements: SACK, NR-SACK or COOP-SACK, and the ECNEs that leave with them.

use anabranch_wire::chunk::{NrSackWriter, SackWriter, kind};
use anabranch_wire::packet::PacketWriter;

use super::super::{Assembler, Cx};
use crate::association_state::permit;
use crate::path::{PathId, PathState};

/// The most bytes of an acknowledgement. On a path with a large MTU, an acknowledgement of full length could list 16,000 gaps in answer to
/// each packet of 60 bytes that a peer sends. The first 360 gaps list all that a sender can repair at a time.
const MOST_ACK: usize = 1456;

impl Assembler<'_> {
    /// The path on which an acknowledgement that is due asks for a packet.
    #[inline]
    pub(super) fn sack_asks(&self, cx: &Cx<'_>) -> Option<PathId> {
        if self.receiver.ack_due() && !cx.state.may(permit::SET_UP) {
            return Some(self.ack_path(cx));
        }
        self.receiver.copy_path()
    }

    /// Adds a SACK if it is due, or if it can be bundled with data on the path that it would take anyway (§6.1, §6.2). A SACK that would
    /// have to omit gap ack blocks because of the other chunks waits for the next packet: the peer would take omitted blocks for reneging.
    pub(super) fn push_sack(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        data_follows: bool,
        packet: &mut PacketWriter<'_>,
    ) {
        let wanted = self.receiver.ack_due() || (data_follows && self.receiver.ack_pending());
        let own = wanted && id == self.ack_path(cx);
        let copy = self.receiver.copy_path() == Some(id);
        let kind = if self.receiver.names_transmissions() {
            cx.config.chunk_types.coop_sack
        } else if self.receiver.uses_nr_sack() {
            kind::NR_SACK
        } else {
            kind::SACK
        };
        let room = packet.room_for(kind).min(MOST_ACK);
        if !(own || copy) || cx.state.may(permit::SET_UP) || room < NrSackWriter::HEADER_LEN {
            return;
        }
        if self.receiver.names_transmissions() {
            self.push_coop_sack(cx, id, own, room, packet);
            return;
        }
        let whole = NrSackWriter::HEADER_LEN + self.receiver.gap_blocks_len();
        let most = cx.paths.path(id).pmtu.max_data() - packet.auth_len_before(kind);
        if room < whole.min(most).min(MOST_ACK) {
            return;
        }
        let blocks = self.receiver.build_ack(room, |ack| {
            let blocks = ack.renegable.len() + ack.nonrenegable.len();
            if ack.is_nr_sack {
                packet.push(&NrSackWriter {
                    cumulative_tsn_ack: ack.cumulative_tsn_ack,
                    a_rwnd: ack.a_rwnd,
                    renegable: ack.renegable,
                    nonrenegable: ack.nonrenegable,
                    duplicate_tsns: ack.duplicate_tsns,
                    packets: ack.packets,
                });
                return blocks;
            }
            packet.push(&SackWriter {
                cumulative_tsn_ack: ack.cumulative_tsn_ack,
                a_rwnd: ack.a_rwnd,
                gap_ack_blocks: ack.renegable,
                duplicate_tsns: ack.duplicate_tsns,
                packets: ack.packets,
            });
            blocks
        });
        cx.counters.gap_blocks_sent += blocks as u64;
        cx.counters.sacks_sent += 1;
        self.sender.push_echoes(cx, packet);
    }

    /// The path of the next acknowledgement.
    fn ack_path(&self, cx: &Cx<'_>) -> PathId {
        let may = |id: PathId| cx.paths.path(id).state == PathState::Active;
        let chosen = self.receiver.gap_report_path(may);
        chosen.unwrap_or_else(|| cx.paths.answer_path())
    }
}
