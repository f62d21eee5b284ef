//! The last packets of associations that this endpoint shut down gracefully: nothing acknowledges a SHUTDOWN COMPLETE.

use std::time::Duration;

use anabranch_proto::Timestamp;

use super::dtls_layer::Origin;
use crate::datagram::Outgoing;

/// The RTO of most peers is shorter. The endpoint, which was still open, has then answered the retransmission.
const RECENT: Duration = Duration::from_secs(2);

/// The last packet of an association.
#[derive(Debug)]
pub(super) struct LastPacket {
    pub(super) batch: Outgoing,
    /// As the core made it.
    pub(super) bytes: Vec<u8>,
    pub(super) to: Origin,
    pub(super) rtt: Duration,
    pub(super) made_at: Timestamp,
}

/// The last packets of the associations that ended a short time ago.
#[derive(Debug, Default)]
pub(super) struct LastPackets(Vec<LastPacket>);

impl LastPackets {
    pub(super) fn add(&mut self, packet: LastPacket) {
        // The first one is the oldest: each forgotten packet is moved once.
        if self
            .0
            .first()
            .is_some_and(|first| first.made_at + 2 * RECENT < packet.made_at)
        {
            self.forget_before(packet.made_at);
        }
        self.0.push(packet);
    }

    /// Takes those that the peer may still wait for.
    pub(super) fn take(&mut self, now: Timestamp) -> Vec<LastPacket> {
        self.forget_before(now);
        std::mem::take(&mut self.0)
    }

    fn forget_before(&mut self, now: Timestamp) {
        self.0.retain(|packet| packet.made_at + RECENT >= now);
    }
}
