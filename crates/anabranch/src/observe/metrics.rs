//! Trace events as metrics (`metrics`). `docs/reference/trace-events.md` describes their names.

use anabranch_proto::{AssociationState, TraceEvent, TraceKind};
use metrics::{counter, gauge, histogram};

/// Counts an event.
pub(super) fn count(event: &TraceEvent) {
    match &event.kind {
        TraceKind::StateChanged { from, to } => {
            if *to == AssociationState::Established {
                counter!("anabranch_associations_established_total").increment(1);
                gauge!("anabranch_associations").increment(1.0);
            } else if *to == AssociationState::Closed && !is_being_set_up(*from) {
                gauge!("anabranch_associations").decrement(1.0);
            }
        }
        TraceKind::MessageQueued { end: true, .. } => {
            counter!("anabranch_messages_queued_total").increment(1);
        }
        TraceKind::DataSent { bytes, cause, .. } => {
            counter!("anabranch_data_bytes_sent_total").increment(*bytes as u64);
            match cause {
                None => counter!("anabranch_data_chunks_sent_total").increment(1),
                Some(rule) => {
                    counter!("anabranch_data_chunks_retransmitted_total", "rule" => rule.name()).increment(1);
                }
            }
        }
        TraceKind::ChunkLost { rule, .. } => {
            counter!("anabranch_chunks_lost_total", "rule" => rule.name()).increment(1);
        }
        TraceKind::LossSpurious { .. } => counter!("anabranch_losses_spurious_total").increment(1),
        TraceKind::T3Expired { .. } => counter!("anabranch_t3_expired_total").increment(1),
        TraceKind::MessageAcknowledged {
            queue_delay, delay, ..
        } => {
            histogram!("anabranch_message_queue_delay_seconds").record(*queue_delay);
            histogram!("anabranch_message_delay_seconds").record(*delay);
        }
        TraceKind::MessageAbandoned { reason, .. } => {
            counter!("anabranch_messages_abandoned_total", "reason" => reason.name()).increment(1);
        }
        TraceKind::DataReceived { bytes, new: true, .. } => {
            counter!("anabranch_data_bytes_received_total").increment(*bytes as u64);
        }
        TraceKind::DataReceived { .. } => counter!("anabranch_duplicates_received_total").increment(1),
        TraceKind::MessageDelivered { blocked, .. } => {
            counter!("anabranch_messages_delivered_total").increment(1);
            histogram!("anabranch_head_of_line_blocking_seconds").record(*blocked);
        }
        TraceKind::PathMetrics(metrics) => {
            if let Some(srtt) = metrics.srtt {
                histogram!("anabranch_srtt_seconds").record(srtt);
            }
        }
        _ => {}
    }
}

/// Whether an association in this state is not established yet.
fn is_being_set_up(state: AssociationState) -> bool {
    matches!(
        state,
        AssociationState::CookieWait | AssociationState::CookieEchoed
    )
}
