//! The end of an endpoint: the time to linger, and copies of the last packets of associations that this endpoint shut down gracefully.
//!
//! Nothing acknowledges a SHUTDOWN COMPLETE. If it is lost, the peer retransmits its SHUTDOWN ACK after its RTO, at least 1 s by default, and an
//! open endpoint answers. An endpoint that is being closed does not wait for so long: it sends copies, which a peer that has ended its
//! association discards (RFC 9260 §8.4).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::hub::{Hub, Registry, Stop};
use super::last_packets::LastPacket;

/// Copies of each packet. Beside the packet itself, a path that loses a tenth of its packets loses them all once in a thousand times.
const COPIES: usize = 2;
/// The time between two copies is an RTT of the slowest path, in this range. A burst of losses is often shorter.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(200));

impl Hub {
    /// Stops the endpoint's tasks, now or after the copies of last packets and the time to linger. Only the first call has an effect.
    pub(super) fn stop_after_linger(self: &Arc<Self>, registry: &mut Registry) {
        if std::mem::replace(&mut registry.stopping, true) {
            return;
        }
        let stop = Stop(self.stop.clone());
        let now = registry.tick(self.now());
        let last_packets = registry.last_packets.take(now);
        if self.limits.linger.is_zero() && self.link.is_none() && last_packets.is_empty() {
            self.close_dtls();
            return;
        }
        // Without a runtime the tasks have already ended.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (hub, in_order) = (Arc::clone(self), registry.last_in_order);
            runtime.spawn(async move {
                let _stop = stop;
                let original_lost = in_order && hub.lost_last();
                let ((), all_lost) =
                    tokio::join!(tokio::time::sleep(hub.limits.linger), hub.copy(last_packets));
                if original_lost && all_lost {
                    hub.wait_for_shutdown_acks().await;
                }
                hub.close_dtls();
            });
        }
    }

    /// Sends copies of these packets. Returns whether a link lost the last packet each time.
    async fn copy(&self, packets: VecDeque<LastPacket>) -> bool {
        let Some(rtt) = packets.iter().map(|packet| packet.rtt).max() else {
            return true;
        };
        let mut all_lost = true;
        for _ in 0..COPIES {
            tokio::time::sleep(rtt.clamp(INTERVAL.0, INTERVAL.1)).await;
            for packet in &packets {
                self.send_alone(self.now(), packet.batch, &packet.bytes, packet.to);
            }
            all_lost &= self.lost_last();
        }
        all_lost
    }
}
