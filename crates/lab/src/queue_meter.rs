//! The utilisation of a sender's retransmission queue: the share of the kept bytes that are not acknowledged yet (Natarajan and others,
//! *NR-SACKs for SCTP*).

use anabranch_netsim::{Host, Packet, Payload};
use anabranch_proto::wire::Tsn;
use anabranch_proto::wire::chunk::{Chunk, Data, RawChunk, kind};
use anabranch_proto::wire::packet::Packet as SctpPacket;
use anabranch_proto::{PathState, Timestamp};

/// A mean over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OverTime {
    sum: f64,
    seconds: f64,
}

impl OverTime {
    fn add(&mut self, value: f64, seconds: f64) {
        self.sum += value * seconds;
        self.seconds += seconds;
    }

    fn mean(self) -> f64 {
        self.sum / self.seconds
    }
}

/// Measures the association of a sending host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueMeter {
    since: Timestamp,
    /// The state at the last look, which holds until the next look.
    seen: Seen,
    whole: OverTime,
    recovering: OverTime,
    blocked: OverTime,
    highest_sent: Option<Tsn>,
    /// The highest TSN sent when the first gap was reported. Loss recovery ends when this TSN is acknowledged.
    recovers_to: Option<Tsn>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The share of the kept bytes that was not acknowledged.
    utilisation: f64,
    /// A path's congestion window has space, and only the full send buffer prevents a packet.
    blocked: bool,
}

impl Default for Seen {
    /// An empty queue keeps no acknowledged bytes, so its utilisation is 1.
    fn default() -> Self {
        Self {
            utilisation: 1.0,
            blocked: false,
        }
    }
}

impl QueueMeter {
    /// Restarts the measurement.
    pub(crate) fn restart(&mut self, now: Timestamp) {
        *self = Self {
            since: now,
            highest_sent: self.highest_sent,
            ..Self::default()
        };
    }

    /// A packet leaves.
    pub(crate) fn on_sent(&mut self, packet: &Packet) {
        each_chunk(packet, |raw| {
            if let Some(data) = (raw.kind == kind::DATA)
                .then(|| Data::decode(&raw).ok())
                .flatten()
                && self.highest_sent.is_none_or(|highest| data.tsn.is_after(highest))
            {
                self.highest_sent = Some(data.tsn);
            }
        });
    }

    /// A packet arrived; the host has not processed it yet.
    pub(crate) fn on_received(&mut self, packet: &Packet) {
        each_chunk(packet, |raw| {
            let (cumulative, has_gaps) = match Chunk::decode(raw) {
                Ok(Chunk::Sack(sack)) => (sack.cumulative_tsn_ack, !sack.gap_ack_blocks.is_empty()),
                Ok(Chunk::NrSack(sack)) => (
                    sack.cumulative_tsn_ack,
                    !(sack.renegable.is_empty() && sack.nonrenegable.is_empty()),
                ),
                _ => return,
            };
            if self.recovers_to.is_some_and(|to| !cumulative.is_before(to)) {
                self.recovers_to = None;
            }
            if has_gaps && self.recovers_to.is_none() {
                self.recovers_to = self.highest_sent;
            }
        });
    }

    /// Adds the last state, which held until `now`.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let seconds = now.saturating_duration_since(self.since).as_secs_f64();
        self.since = now;
        self.whole.add(self.seen.utilisation, seconds);
        self.blocked.add(f64::from(u8::from(self.seen.blocked)), seconds);
        if self.recovers_to.is_some() {
            self.recovering.add(self.seen.utilisation, seconds);
        }
    }

    /// Reads the host's state after an event.
    pub(crate) fn look(&mut self, host: &Host) {
        let association = host.association_ids().next().and_then(|id| host.association(id));
        self.seen = association.map_or_else(Seen::default, |association| {
            let stats = association.stats();
            let kept = stats.outstanding_bytes;
            let has_space = stats
                .paths
                .iter()
                .any(|path| path.state == PathState::Active && path.flight_size < path.cwnd);
            Seen {
                utilisation: if kept == 0 {
                    1.0
                } else {
                    1.0 - stats.gap_acked_bytes as f64 / kept as f64
                },
                blocked: has_space && stats.queued_bytes == 0 && kept > 0,
            }
        });
    }

    /// The mean over time of the share of the kept bytes that was not acknowledged. An empty queue counts as 1.
    pub(crate) fn utilisation(&self) -> f64 {
        self.whole.mean()
    }

    /// The same mean over the time in loss recovery; NaN if there was none.
    pub(crate) fn utilisation_in_recovery(&self) -> f64 {
        self.recovering.mean()
    }

    /// The share of the time in which a path's congestion window had space but the send buffer was full.
    pub(crate) fn blocked(&self) -> f64 {
        self.blocked.mean()
    }
}

fn each_chunk(packet: &Packet, mut see: impl FnMut(RawChunk<'_>)) {
    let Payload::Sctp(bytes) = &packet.payload else {
        return;
    };
    let Ok(packet) = SctpPacket::parse_or_zero_checksum(bytes.clone()) else {
        return;
    };
    packet.chunks().flatten().for_each(&mut see);
}
