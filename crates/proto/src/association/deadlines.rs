//! Messages with deadlines ([`crate::SendOptions::deadline`]): the first one changes the settings of the association as
//! [`crate::Config::low_latency`] does, as far as the application left them at their defaults.

use std::sync::Arc;

use anabranch_wire::StreamId;

use super::Association;
use crate::config::{Config, SchedulerKind};
use crate::controller::CongestionControl;
use crate::time::Timestamp;

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
    let preset = Config::low_latency();
    let config = Arc::make_mut(&mut association.config);
    config.partial_reliability.discard_hopeless = true;
    if config.scheduler == SchedulerKind::Priority {
        config.low_priority_delay = config.low_priority_delay.or(preset.low_priority_delay);
    }
    association.paths.bound_delays(config, now);
    if matches!(config.congestion_control, CongestionControl::Automatic) && !config.multipath.couples_all() {
        config.congestion_control = preset.congestion_control;
        association.paths.change_controllers(config);
    }
}
