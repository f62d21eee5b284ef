//! CoDel (RFC 8289): drops packets by the time that they waited in the queue, when they leave it.
//!
//! The names are those of the pseudocode in RFC 8289 §5. If the packet to drop is ECN-capable, CoDel marks it CE and sends it instead.

use core::time::Duration;

use anabranch_proto::Timestamp;

use super::{CoDelConfig, Fifo, Service, Waiting};
use crate::link::{LinkPacket, mark_ce};

/// For how many intervals after the end of dropping CoDel remembers the drop rate (RFC 8289 §5.5; the value is Linux's).
const REMEMBERED_INTERVALS: u32 = 16;

/// The state of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoDel {
    /// When the delay will have been above the target for a whole interval; `None` while the delay is below the target.
    first_above: Option<Timestamp>,
    dropping: bool,
    /// While dropping: when to drop the next packet. Afterwards: when the next drop would have been.
    drop_next: Timestamp,
    /// Packets dropped since dropping began; determines the drop rate.
    count: u32,
    /// The value of `count` when dropping last began.
    last_count: u32,
}

/// A packet from the head of the queue, and whether the delay has been above the target for an interval.
type Head<P> = (Option<Waiting<P>>, bool);

impl CoDel {
    /// The next packet to send.
    pub(super) fn dequeue<P: LinkPacket>(
        &mut self,
        config: &CoDelConfig,
        fifo: &mut Fifo<P>,
        service: &mut Service<'_>,
    ) -> Option<Waiting<P>> {
        let now = service.now;
        let (mut head, ok_to_drop) = self.take_head(config, fifo, service);
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                head = discard(head, service);
                let marked = head.is_some();
                if !marked {
                    (head, self.dropping) = self.take_head(config, fifo, service);
                }
                if self.dropping {
                    self.drop_next = control_law(self.drop_next, config.interval, self.count);
                }
                // A marked packet leaves at once, even if several drops are overdue.
                if marked {
                    break;
                }
            }
        } else if ok_to_drop {
            head = discard(head, service);
            if head.is_none() {
                (head, _) = self.take_head(config, fifo, service);
            }
            self.begin_dropping(now, config.interval);
        }
        head
    }

    /// Takes the packet at the head and compares its delay with the target (`dodequeue`).
    fn take_head<P>(
        &mut self,
        config: &CoDelConfig,
        fifo: &mut Fifo<P>,
        service: &mut Service<'_>,
    ) -> Head<P> {
        let Some(head) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        service.note_wait(&head);
        let sojourn = service.now.saturating_duration_since(head.since);
        if sojourn < config.target || fifo.bytes() <= service.mtu {
            self.first_above = None;
            return (Some(head), false);
        }
        let first_above = *self.first_above.get_or_insert(service.now + config.interval);
        (Some(head), service.now >= first_above)
    }

    /// Starts with the last drop rate if dropping ended not long ago.
    fn begin_dropping(&mut self, now: Timestamp, interval: Duration) {
        self.dropping = true;
        let dropped = self.count - self.last_count;
        let since = now.saturating_duration_since(self.drop_next);
        let recent = since < interval * REMEMBERED_INTERVALS;
        self.count = if dropped > 1 && recent { dropped } else { 1 };
        self.last_count = self.count;
        self.drop_next = control_law(now, interval, self.count);
    }
}

/// Marks the packet, so that it is still to be sent, or drops it.
fn discard<P: LinkPacket>(head: Option<Waiting<P>>, service: &mut Service<'_>) -> Option<Waiting<P>> {
    let mut head = head?;
    if mark_ce(&mut head.packet) {
        service.stats.marked += 1;
        return Some(head);
    }
    service.stats.lost_aqm += 1;
    None
}

/// When the next drop is due: the time between drops is inversely proportional to the square root of their number (RFC 8289 §3.3).
fn control_law(from: Timestamp, interval: Duration, count: u32) -> Timestamp {
    from + interval.div_f64(f64::from(count).sqrt())
}

#[cfg(test)]
mod tests;
