//! The last packets of associations that this endpoint shut down gracefully: nothing acknowledges a SHUTDOWN COMPLETE.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_proto::Timestamp;

use super::dtls_layer::Origin;
use crate::datagram::Outgoing;

/// The RTO of most peers is shorter. The endpoint, which was still open, has then answered the retransmission.
const RECENT: Duration = Duration::from_secs(2);

/// The most packets that are kept. A server whose clients come and go keeps no more of them, however fast that is.
const MOST: usize = 1024;

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

/// The last packets of the associations that ended a short time ago, the oldest one first.
#[derive(Debug, Default)]
pub(super) struct LastPackets(VecDeque<LastPacket>);

impl LastPackets {
    pub(super) fn add(&mut self, packet: LastPacket) {
        self.forget_before(packet.made_at);
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(packet);
    }

    /// Takes those that the peer may still wait for.
    pub(super) fn take(&mut self, now: Timestamp) -> VecDeque<LastPacket> {
        self.forget_before(now);
        std::mem::take(&mut self.0)
    }

    fn forget_before(&mut self, now: Timestamp) {
        while self.0.front().is_some_and(|packet| packet.made_at + RECENT < now) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anabranch_proto::EcnCodepoint;

    use super::*;

    fn packet(made_at: Timestamp) -> LastPacket {
        let nobody = SocketAddr::from(([192, 0, 2, 1], 9));
        LastPacket {
            batch: Outgoing {
                source: None,
                destination: nobody,
                len: 0,
                segment: 0,
                ecn: EcnCodepoint::NotEct,
                may_fragment: false,
                dscp: anabranch_proto::Dscp::default(),
                sent: 0,
            },
            bytes: Vec::new(),
            to: Origin::default(),
            rtt: Duration::ZERO,
            made_at,
        }
    }

    #[test]
    fn old_packets_and_more_than_the_most_are_forgotten() {
        let at = |seconds: u64| Timestamp::from_millis(1000 * seconds);
        let mut packets = LastPackets::default();
        for _ in 0..2 * MOST {
            packets.add(packet(at(1)));
        }
        assert_eq!(packets.0.len(), MOST);
        packets.add(packet(at(3)));
        assert_eq!(packets.0.len(), MOST, "2 s are not too long");
        packets.add(packet(at(4)));
        assert_eq!(packets.0.len(), 2);
        assert_eq!(packets.take(at(6)).len(), 1);
    }
}
