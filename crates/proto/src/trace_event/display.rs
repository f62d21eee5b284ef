//! Trace events as lines of text, for logs.

use core::fmt;
use core::time::Duration;

use super::{PathMetrics, TraceChunk, TraceKind, TsnRange};

/// One line of text, with TSNs as in packets and times in milliseconds.
impl fmt::Display for TraceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateChanged { from, to } => write!(f, "state {from:?} -> {to:?}"),
            Self::Negotiated { .. } => self.write_negotiated(f),
            Self::Closed { reason } => write!(f, "closed: {reason:?}"),
            Self::PathChanged {
                path, remote, state, ..
            } => write!(f, "path {path} to {remote}: {state:?}"),
            Self::PathMetrics(metrics) => metrics.fmt(f),
            Self::PacketSent { path, bytes, chunks } => {
                write!(f, "packet sent on path {path}: {bytes} bytes,")?;
                write_chunks(f, chunks)
            }
            Self::PacketReceived { bytes, chunks, .. } => {
                write!(f, "packet received: {bytes} bytes,")?;
                write_chunks(f, chunks)
            }
            Self::MessageQueued { .. } => self.write_message_queued(f),
            Self::SendingWaits { reason } => write!(f, "data waits: {}", reason.name()),
            Self::DataSent { .. } => self.write_data_sent(f),
            Self::CopiesPlanned { .. } => self.write_copies_planned(f),
            Self::RepairsPlanned { .. } => self.write_repairs_planned(f),
            Self::CopyWaits { .. } => self.write_copy_waits(f),
            Self::ChunkLost { .. } => self.write_chunk_lost(f),
            Self::LossSpurious { tsn } => write!(f, "the loss of TSN {} was spurious", tsn.0),
            Self::Reneged { tsn } => write!(f, "the receiver reneged on TSN {}", tsn.0),
            Self::T3Expired { .. } => self.write_t3_expired(f),
            Self::ProbeTimeout { path } => write!(f, "the probe timeout expired on path {path}"),
            Self::ReductionUndone { path } => write!(f, "the window reduction of path {path} is undone"),
            Self::AckReceived { .. } => self.write_ack_received(f),
            Self::Acknowledged { tsns } => write_ranges(f, "newly acknowledged", tsns),
            Self::MessageAcknowledged { .. } => self.write_message_acknowledged(f),
            Self::MessageAbandoned { .. } => self.write_message_abandoned(f),
            Self::ForwardSent { new_cumulative_tsn } => {
                write!(f, "FORWARD-TSN sent up to {}", new_cumulative_tsn.0)
            }
            Self::ForwardReceived { new_cumulative_tsn } => {
                write!(f, "FORWARD-TSN received up to {}", new_cumulative_tsn.0)
            }
            Self::DataReceived { .. } => self.write_data_received(f),
            Self::AckSent { .. } => self.write_ack_sent(f),
            Self::MessageBlocked { stream, tsn, missing } => write!(
                f,
                "head-of-line blocking: TSN {} of stream {} waits while TSN {} is missing",
                tsn.0, stream.0, missing.0
            ),
            Self::MessageDelivered { .. } => self.write_message_delivered(f),
            Self::EventsDropped { count } => write!(f, "{count} events were dropped here"),
        }
    }
}

/// The longer texts; each is for one kind of event.
impl TraceKind {
    fn write_negotiated(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Negotiated {
            outbound_streams,
            inbound_streams,
            extensions,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "set-up is complete: {outbound_streams} outbound and {inbound_streams} inbound streams, {extensions:?}"
        )
    }

    fn write_message_queued(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::MessageQueued {
            message,
            stream,
            bytes,
            queued_bytes,
            ..
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "message {} queued on stream {}: {bytes} bytes; {queued_bytes} bytes wait",
            message.0, stream.0
        )
    }

    fn write_data_sent(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::DataSent {
            tsn,
            message,
            stream,
            path,
            transmission,
            cause,
            waited,
            copy,
            ..
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "TSN {} sent on path {path}: message {} of stream {}",
            tsn.0, message.0, stream.0
        )?;
        if let Some(copy) = copy {
            write!(f, ", early copy {copy}")?;
        } else if let Some(rule) = cause {
            write!(f, ", transmission {transmission} because of {}", rule.name())?;
        }
        match waited {
            Some(waited) => write!(f, ", {} after send", Millis(*waited)),
            None => Ok(()),
        }
    }

    fn write_repairs_planned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::RepairsPlanned {
            message,
            stream,
            fragments,
            left,
            failure,
            repairs,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "message {} of stream {} has {} left: each of its {fragments} chunks fails with probability {failure:.4}, so {repairs} repair chunks",
            message.0,
            stream.0,
            Millis(*left)
        )
    }

    fn write_copies_planned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::CopiesPlanned {
            tsn,
            message,
            stream,
            path,
            left,
            arrives,
            failure,
            copies,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "message {} of stream {} has {} left: TSN {} needs {} on path {path} and fails with probability {failure:.4}, so {copies} copies",
            message.0,
            stream.0,
            Millis(*left),
            tsn.0,
            Millis(*arrives)
        )
    }

    fn write_copy_waits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::CopyWaits {
            tsn,
            message,
            stream,
            path,
            reason,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "message {} of stream {}: no copy of TSN {} on path {path} now: {}",
            message.0,
            stream.0,
            tsn.0,
            reason.name()
        )
    }

    fn write_chunk_lost(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::ChunkLost {
            tsn,
            message,
            stream,
            path,
            transmission,
            rule,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "TSN {} lost by {}: message {} of stream {}, transmission {transmission} on path {path}",
            tsn.0,
            rule.name(),
            message.0,
            stream.0
        )
    }

    fn write_t3_expired(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::T3Expired { path, lost, rto } = self else {
            return Ok(());
        };
        write!(
            f,
            "T3-rtx expired on path {path}: {lost} chunks lost, RTO {}",
            Millis(*rto)
        )
    }

    fn write_ack_received(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::AckReceived {
            cumulative_tsn_ack,
            a_rwnd,
            gap_ack_blocks,
            duplicates,
            ..
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "acknowledgement received: up to {}, a_rwnd {a_rwnd}",
            cumulative_tsn_ack.0
        )?;
        write_ranges(f, ", gap ack blocks", gap_ack_blocks)?;
        match duplicates {
            0 => Ok(()),
            count => write!(f, ", {count} duplicates"),
        }
    }

    fn write_message_acknowledged(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::MessageAcknowledged {
            message,
            stream,
            queue_delay,
            delay,
            retransmissions,
            copies,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "message {} of stream {} acknowledged {} after send ({} in the queue, {retransmissions} retransmissions",
            message.0,
            stream.0,
            Millis(*delay),
            Millis(*queue_delay)
        )?;
        match copies {
            0 => f.write_str(")"),
            copies => write!(f, ", {copies} early copies)"),
        }
    }

    fn write_message_abandoned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::MessageAbandoned {
            message,
            stream,
            sent,
            reason,
        } = self
        else {
            return Ok(());
        };
        let how_far = if *sent { "after a part was sent" } else { "unsent" };
        write!(
            f,
            "message {} of stream {} abandoned {how_far}: {}",
            message.0,
            stream.0,
            reason.name()
        )
    }

    fn write_data_received(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::DataReceived {
            tsn,
            stream,
            sequence,
            new,
            missing,
            ..
        } = self
        else {
            return Ok(());
        };
        let again = if *new { "" } else { " again" };
        write!(
            f,
            "TSN {} received{again}: number {sequence} of stream {}",
            tsn.0, stream.0
        )?;
        match missing {
            Some(missing) => write!(f, "; TSN {} is missing", missing.0),
            None => Ok(()),
        }
    }

    fn write_ack_sent(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::AckSent {
            cumulative_tsn_ack,
            a_rwnd,
            gap_ack_blocks,
            ..
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "acknowledgement sent: up to {}, a_rwnd {a_rwnd}",
            cumulative_tsn_ack.0
        )?;
        write_ranges(f, ", gap ack blocks", gap_ack_blocks)
    }

    fn write_message_delivered(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::MessageDelivered {
            stream,
            tsn,
            bytes,
            blocked,
        } = self
        else {
            return Ok(());
        };
        write!(f, "{bytes} bytes delivered on stream {}", stream.0)?;
        if let Some(tsn) = tsn {
            write!(f, ", from TSN {}", tsn.0)?;
        }
        match blocked.is_zero() {
            true => Ok(()),
            false => write!(f, ", after {} of head-of-line blocking", Millis(*blocked)),
        }
    }
}

impl fmt::Display for PathMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path {}: cwnd {}", self.path, self.cwnd)?;
        if let Some(ssthresh) = self.ssthresh {
            write!(f, ", ssthresh {ssthresh}")?;
        }
        write!(f, ", {} bytes in flight", self.flight_size)?;
        if let Some(srtt) = self.srtt {
            write!(f, ", SRTT {}", Millis(srtt))?;
        }
        write!(f, ", RTO {}", Millis(self.rto))?;
        match self.pacing_rate {
            Some(rate) => write!(f, ", paced at {rate} bytes/s"),
            None => Ok(()),
        }
    }
}

/// A duration in milliseconds with three decimals.
struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.0.as_secs_f64() * 1e3)
    }
}

fn write_ranges(f: &mut fmt::Formatter<'_>, title: &str, ranges: &[TsnRange]) -> fmt::Result {
    if ranges.is_empty() {
        return Ok(());
    }
    f.write_str(title)?;
    for (first, last) in ranges {
        if first == last {
            write!(f, " {}", first.0)?;
        } else {
            write!(f, " {}-{}", first.0, last.0)?;
        }
    }
    Ok(())
}

fn write_chunks(f: &mut fmt::Formatter<'_>, chunks: &[TraceChunk]) -> fmt::Result {
    for chunk in chunks {
        write!(f, " {}", chunk.kind)?;
        if let Some(tsn) = chunk.tsn {
            write!(f, "({})", tsn.0)?;
        }
    }
    Ok(())
}
