//! Messages with deadlines ([`crate::SendOptions::deadline`]): the first one changes the settings of the association as
//! [`crate::Config::low_latency`] does, as far as the application left them at their defaults.

use core::time::Duration;
use std::sync::Arc;

use anabranch_wire::StreamId;

use super::Association;
use crate::config::SchedulerKind;
use crate::controller::{BbrConfig, CongestionControl};
use crate::time::Timestamp;

/// How long less urgent data may delay messages with deadlines in the queues of the network.
const LOW_PRIORITY_DELAY: Duration = Duration::from_millis(20);

/// A message with a deadline is sent on this stream.
pub(super) fn serve_deadline(association: &mut Association, now: Timestamp, stream: StreamId) {
    if !core::mem::replace(&mut association.sender.serves_deadlines, true) {
        serve_deadlines(association, now);
    }
    if association.sender.queue.put_first(stream) {
        association.sender.sort_buffer();
    }
}

/// The first message with a deadline is sent.
#[cold]
fn serve_deadlines(association: &mut Association, now: Timestamp) {
    let config = Arc::make_mut(&mut association.config);
    config.partial_reliability.discard_hopeless = true;
    if config.scheduler == SchedulerKind::Priority {
        config.low_priority_delay.get_or_insert(LOW_PRIORITY_DELAY);
    }
    association.paths.bound_delays(config, now);
    if matches!(config.congestion_control, CongestionControl::Automatic) && !config.multipath.couples_all() {
        config.congestion_control = CongestionControl::Bbr(BbrConfig {
            tolerate_random_loss: true,
        });
        association.paths.change_controllers(config);
    }
}
