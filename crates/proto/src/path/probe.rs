//! Path MTU probes (RFC 8899 §6.2): a HEARTBEAT, padded with PAD (RFC 4820) to the size to probe. Only the answer counts; the loss of a
//! probe is no sign of congestion (RFC 8899 §3, item 7).

use anabranch_wire::chunk::{CHUNK_HEADER_LEN, Chunk, Heartbeat, Pad};
use anabranch_wire::packet::COMMON_HEADER_LEN;

use super::{HeartbeatInfo, Path, PathState};
use crate::random::Random;
use crate::time::Timestamp;

/// Bytes of a probe before the contents of its PAD chunk.
const HEADERS_LEN: usize = COMMON_HEADER_LEN + HeartbeatInfo::CHUNK_LEN + CHUNK_HEADER_LEN;

impl Path {
    /// When path MTU discovery on this path continues.
    pub(crate) fn probe_due(&self) -> Option<Timestamp> {
        self.pmtu.due().filter(|_| self.state == PathState::Active)
    }

    /// The chunks of the probe that is due now, if there is one; `auth_len` is the length of the AUTH chunk before them.
    pub(crate) fn next_probe(
        &mut self,
        now: Timestamp,
        random: &mut Random,
        auth_len: usize,
    ) -> Option<[Chunk; 2]> {
        let info = HeartbeatInfo {
            path: self.id,
            sent_at: now,
            nonce: random.next_u64(),
        };
        let (rto, data_answered) = (self.rtt.rto(), self.silent_timeouts == 0);
        let len = self.pmtu.next_probe(now, info.nonce, rto, data_answered)?;
        let padding = Pad {
            len: len.saturating_sub(HEADERS_LEN + auth_len) as u16,
        };
        Some([
            Chunk::Heartbeat(Heartbeat::new(info.encode())),
            Chunk::Pad(padding),
        ])
    }
}
