//! Probes of the path MTU (RFC 8899 §6.2): a HEARTBEAT, and PAD (RFC 4820) up to the size in question. Only the
//! answer says anything; a probe that is lost is no sign of congestion (RFC 8899 §3, item 7).

use anabranch_wire::chunk::{CHUNK_HEADER_LEN, Chunk, Heartbeat, Pad};
use anabranch_wire::packet::{COMMON_HEADER_LEN, CommonHeader};

use super::Association;
use super::outbound::write_packet;
use crate::path::{HeartbeatInfo, Path, PathId, PathState};
use crate::time::Timestamp;

/// Bytes of a probe before what its PAD chunk holds.
const HEADERS_LEN: usize = COMMON_HEADER_LEN + HeartbeatInfo::CHUNK_LEN + CHUNK_HEADER_LEN;

impl Association {
    /// When the search on this path goes on.
    pub(super) fn probe_due(&self, path: &Path) -> Option<Timestamp> {
        let wanted = path.state == PathState::Active && self.state.probes_paths();
        path.pmtu.due().filter(|_| wanted)
    }

    /// Queues the probes that are due.
    pub(super) fn send_due_probes(&mut self, now: Timestamp) {
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            if self.probe_due(self.paths.path(id)).is_none_or(|due| due > now) {
                continue;
            }
            let info = HeartbeatInfo {
                path: id,
                sent_at: now,
                nonce: self.random.next_u64(),
            };
            let path = self.paths.path_mut(id);
            let (rto, data_answered) = (path.rto.current(), path.silent_timeouts == 0);
            if let Some(len) = path.pmtu.next_probe(now, info.nonce, rto, data_answered) {
                self.send_probe(info, len);
            }
        }
    }

    fn send_probe(&mut self, info: HeartbeatInfo, len: usize) {
        let header = CommonHeader {
            source_port: self.identity.local_port,
            destination_port: self.identity.remote_port,
            verification_tag: self.identity.peer_tag,
        };
        let padding = Pad {
            len: len.saturating_sub(HEADERS_LEN) as u16,
        };
        let heartbeat = Heartbeat::new(info.encode());
        let packet = write_packet(header, &[Chunk::Heartbeat(heartbeat), Chunk::Pad(padding)]);
        self.control.probe(info.path, packet);
        self.counters.mtu_probes_sent += 1;
    }

    /// The answer to a probe, if it is one.
    pub(super) fn on_probe_answer(&mut self, now: Timestamp, info: &HeartbeatInfo) -> bool {
        let path = self.paths.path_mut(info.path);
        let answered = path.pmtu.on_answer(now, info.nonce);
        if answered {
            path.control.on_max_data(path.pmtu.max_data());
        }
        answered
    }
}
