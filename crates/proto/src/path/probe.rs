//! Path MTU probes (RFC 8899 §6.2): a HEARTBEAT, padded with PAD (RFC 4820) to the size to probe. Only the answer counts; the loss of a
//! probe is no sign of congestion (RFC 8899 §3, item 7).

use anabranch_wire::chunk::{CHUNK_HEADER_LEN, Chunk, Heartbeat, Pad};
use anabranch_wire::packet::COMMON_HEADER_LEN;

use super::{HeartbeatInfo, Path, PathState};
use crate::controller::Controller;
use crate::random::Random;
use crate::time::Timestamp;

/// Bytes of a probe before the contents of its PAD chunk.
const HEADERS_LEN: usize = COMMON_HEADER_LEN + HeartbeatInfo::CHUNK_LEN + CHUNK_HEADER_LEN;

impl Path {
    /// When path MTU discovery on this path continues.
    pub(crate) fn probe_due(&self) -> Option<Timestamp> {
        self.pmtu.due().filter(|_| self.state == PathState::Active)
    }

    /// Whether the probes that are lost prove a black hole for packets of the current size, which then becomes smaller. Called when
    /// discovery continues.
    pub(crate) fn finds_black_hole(&mut self, now: Timestamp) -> bool {
        let found = self.pmtu.finds_black_hole(now);
        if found {
            self.control.on_packet_size(self.pmtu.max_data());
        }
        found
    }

    /// Data timed out once more. `dropped`: the peer may have dropped it, because its window is closed. Returns whether a black hole is
    /// assumed for packets of the current size, which then became smaller.
    pub(crate) fn on_data_timeout(&mut self, now: Timestamp, dropped: bool) -> bool {
        if dropped {
            self.pmtu.on_doubtful_timeout(now, self.timers.silent_timeouts);
            return false;
        }
        let assumed = self.pmtu.on_timeout(now, self.timers.silent_timeouts);
        if assumed {
            self.control.on_packet_size(self.pmtu.max_data());
        }
        assumed
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
        let (rto, data_answered) = (self.rtt.rto(), self.timers.silent_timeouts == 0);
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
