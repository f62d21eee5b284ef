//! Trace events as a qlog file: JSON text sequences (RFC 7464) with the header of the qlog main schema
//! (draft-ietf-quic-qlog-main-schema). `docs/reference/trace-events.md` describes the events.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_proto::{
    AssociationId, Blocked, Extensions, PathId, Timestamp, TraceChunk, TraceEvent, TraceKind, Tsn, TsnRange,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::record_file::{self, Pipe, RecordFile};

/// The record separator before each JSON text (RFC 7464 §2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

/// The namespace and the schema of the events.
const NAMESPACE: &str = "sctp";
const SCHEMA: &str = "urn:anabranch:qlog:events:sctp-1";

/// An event in the file.
#[derive(Serialize)]
struct Record {
    /// Milliseconds since the endpoint's start.
    time: f64,
    name: String,
    group_id: String,
    data: Value,
}

/// A qlog file of an endpoint: the events of all its associations, each with the association's id as `group_id`.
pub(crate) struct Qlog {
    path: PathBuf,
    pipe: Option<Arc<Pipe>>,
    /// `None` after an error, which ends the file; the associations continue.
    file: Mutex<Option<RecordFile>>,
}

impl std::fmt::Debug for Qlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qlog")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Qlog {
    /// Begins a file. Times are milliseconds since the endpoint's start.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let (mut file, pipe) = record_file::create(path)?;
        let header = json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": concat!("anabranch ", env!("CARGO_PKG_VERSION")),
            "trace": {
                "common_fields": {
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
                },
                "vantage_point": { "type": "unknown" },
                "event_schemas": [SCHEMA],
            },
        });
        put(&mut file, &header)?;
        Ok(Self {
            path: path.to_owned(),
            pipe,
            file: Mutex::new(Some(file)),
        })
    }

    pub(crate) fn write(&self, id: AssociationId, event: &TraceEvent) {
        self.with(|file| {
            let record = Record {
                time: instant(event.at),
                name: format!("{NAMESPACE}:{}", event.kind.name()),
                group_id: id.0.to_string(),
                data: data(&event.kind),
            };
            put(file, &record)
        });
    }

    pub(crate) async fn flush(&self) {
        self.with(Write::flush);
        if let Some(pipe) = &self.pipe {
            pipe.written().await;
        }
    }

    fn with(&self, work: impl FnOnce(&mut RecordFile) -> io::Result<()>) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = file.as_mut() else { return };
        if let Err(error) = work(open) {
            tracing::warn!(path = %self.path.display(), %error, "the qlog file ends here");
            *file = None;
        }
    }
}

fn put(file: &mut impl Write, record: &impl Serialize) -> io::Result<()> {
    file.write_all(&[RECORD_SEPARATOR])?;
    serde_json::to_writer(&mut *file, record)?;
    file.write_all(b"\n")
}

/// Milliseconds since the endpoint's start.
fn instant(at: Timestamp) -> f64 {
    millis(Duration::from_nanos(at.0))
}

fn millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn ranges(ranges: &[TsnRange]) -> Value {
    ranges
        .iter()
        .map(|(first, last)| json!([first.0, last.0]))
        .collect()
}

fn chunks(chunks: &[TraceChunk]) -> Value {
    let each = |chunk: &TraceChunk| {
        json!({
            "chunk_type": chunk.kind,
            "chunk_flags": chunk.flags,
            "chunk_length": chunk.bytes,
            "tsn": chunk.tsn.map(|tsn| tsn.0),
        })
    };
    chunks.iter().map(each).collect()
}

fn names(extensions: &Extensions) -> Vec<&'static str> {
    let each = [
        ("partial_reliability", extensions.partial_reliability),
        ("nr_sack", extensions.nr_sack),
        ("selective_forward_tsn", extensions.selective_forward_tsn),
        ("extended_forward_tsn", extensions.extended_forward_tsn),
        ("interleaving", extensions.interleaving),
        ("eca", extensions.eca),
        ("ecn", extensions.ecn),
        ("reconfiguration", extensions.reconfiguration),
        ("authentication", extensions.authentication),
        ("dynamic_addresses", extensions.dynamic_addresses),
        ("port_pairs", extensions.port_pairs),
        ("repair", extensions.repair),
        ("protection", extensions.protection),
        ("zero_checksum", extensions.zero_checksum),
    ];
    let negotiated = each.into_iter().filter(|(_, negotiated)| *negotiated);
    negotiated.map(|(name, _)| name).collect()
}

/// The fields of an event. Those without a value are left out.
fn data(kind: &TraceKind) -> Value {
    let mut fields = fields(kind);
    if let Value::Object(fields) = &mut fields {
        let all = core::mem::take(fields);
        *fields = all
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect::<Map<_, _>>();
    }
    fields
}

fn fields(kind: &TraceKind) -> Value {
    let number = |tsn: &Option<Tsn>| tsn.map(|tsn| tsn.0);
    let path_number = |path: &Option<PathId>| path.map(|path| path.0);
    match kind {
        TraceKind::StateChanged { from, to } => {
            json!({ "old": format!("{from:?}"), "new": format!("{to:?}") })
        }
        TraceKind::Negotiated {
            outbound_streams,
            inbound_streams,
            extensions,
        } => json!({
            "outbound_streams": outbound_streams,
            "inbound_streams": inbound_streams,
            "extensions": names(extensions),
        }),
        TraceKind::Closed { reason } => json!({ "reason": format!("{reason:?}") }),
        TraceKind::PathChanged {
            path,
            local,
            remote,
            state,
        } => json!({
            "path": path.0,
            "local": local.map(|local| local.to_string()),
            "remote": remote.to_string(),
            "state": format!("{state:?}"),
        }),
        TraceKind::PathMetrics(metrics) => json!({
            "path": metrics.path.0,
            "cwnd": metrics.cwnd,
            "ssthresh": metrics.ssthresh,
            "flight_size": metrics.flight_size,
            "srtt": metrics.srtt.map(millis),
            "rttvar": millis(metrics.rttvar),
            "rto": millis(metrics.rto),
            "pacing_rate": metrics.pacing_rate,
        }),
        TraceKind::PacketSent {
            path,
            bytes,
            chunks: all,
        } => {
            json!({ "path": path.0, "bytes": bytes, "chunks": chunks(all) })
        }
        TraceKind::PacketReceived {
            path,
            bytes,
            chunks: all,
        } => {
            json!({ "path": path_number(path), "bytes": bytes, "chunks": chunks(all) })
        }
        TraceKind::MessageQueued {
            message,
            stream,
            bytes,
            end,
            queued_bytes,
        } => json!({
            "message": message.0,
            "stream": stream.0,
            "bytes": bytes,
            "end": end,
            "queued_bytes": queued_bytes,
        }),
        TraceKind::SendingWaits { reason } => json!({
            "reason": reason.name(),
            "until": match reason {
                Blocked::Pacer(until) => Some(instant(*until)),
                _ => None,
            },
        }),
        TraceKind::DataSent {
            tsn,
            message,
            stream,
            path,
            bytes,
            beginning,
            ending,
            transmission,
            cause,
            waited,
            copy,
        } => json!({
            "tsn": tsn.0,
            "message": message.0,
            "stream": stream.0,
            "path": path.0,
            "bytes": bytes,
            "beginning": beginning,
            "ending": ending,
            "transmission": transmission,
            "cause": cause.map(|cause| cause.name()),
            "waited": waited.map(millis),
            "copy": copy,
        }),
        TraceKind::RepairsPlanned {
            message,
            stream,
            fragments,
            left,
            failure,
            repairs,
        } => json!({
            "message": message.0,
            "stream": stream.0,
            "fragments": fragments,
            "left": millis(*left),
            "failure": failure,
            "repairs": repairs,
        }),
        TraceKind::CopiesPlanned {
            tsn,
            message,
            stream,
            path,
            left,
            arrives,
            failure,
            copies,
        } => json!({
            "tsn": tsn.0,
            "message": message.0,
            "stream": stream.0,
            "path": path.0,
            "left": millis(*left),
            "arrives": millis(*arrives),
            "failure": failure,
            "copies": copies,
        }),
        TraceKind::CopyWaits {
            tsn,
            message,
            stream,
            path,
            reason,
        } => json!({
            "tsn": tsn.0,
            "message": message.0,
            "stream": stream.0,
            "path": path.0,
            "reason": reason.name(),
        }),
        TraceKind::ChunkLost {
            tsn,
            message,
            stream,
            path,
            transmission,
            rule,
        } => json!({
            "tsn": tsn.0,
            "message": message.0,
            "stream": stream.0,
            "path": path.0,
            "transmission": transmission,
            "rule": rule.name(),
        }),
        TraceKind::LossSpurious { tsn } | TraceKind::Reneged { tsn } => json!({ "tsn": tsn.0 }),
        TraceKind::T3Expired { path, lost, rto } => {
            json!({ "path": path.0, "lost": lost, "rto": millis(*rto) })
        }
        TraceKind::ProbeTimeout { path } | TraceKind::ReductionUndone { path } => json!({ "path": path.0 }),
        TraceKind::AckReceived {
            path,
            cumulative_tsn_ack,
            a_rwnd,
            gap_ack_blocks,
            duplicates,
        } => json!({
            "path": path_number(path),
            "cumulative_tsn_ack": cumulative_tsn_ack.0,
            "a_rwnd": a_rwnd,
            "gap_ack_blocks": ranges(gap_ack_blocks),
            "duplicates": duplicates,
        }),
        TraceKind::Acknowledged { tsns } => json!({ "tsns": ranges(tsns) }),
        TraceKind::MessageAcknowledged {
            message,
            stream,
            queue_delay,
            delay,
            retransmissions,
            copies,
        } => json!({
            "message": message.0,
            "stream": stream.0,
            "queue_delay": millis(*queue_delay),
            "delay": millis(*delay),
            "retransmissions": retransmissions,
            "copies": copies,
        }),
        TraceKind::MessageAbandoned {
            message,
            stream,
            sent,
            reason,
        } => json!({ "message": message.0, "stream": stream.0, "sent": sent, "reason": reason.name() }),
        TraceKind::ForwardSent { new_cumulative_tsn } | TraceKind::ForwardReceived { new_cumulative_tsn } => {
            json!({ "new_cumulative_tsn": new_cumulative_tsn.0 })
        }
        TraceKind::DataReceived {
            tsn,
            stream,
            sequence,
            unordered,
            path,
            bytes,
            beginning,
            ending,
            new,
            missing,
        } => json!({
            "tsn": tsn.0,
            "stream": stream.0,
            "sequence": sequence,
            "unordered": unordered,
            "path": path_number(path),
            "bytes": bytes,
            "beginning": beginning,
            "ending": ending,
            "new": new,
            "missing": number(missing),
        }),
        TraceKind::AckSent {
            path,
            cumulative_tsn_ack,
            a_rwnd,
            gap_ack_blocks,
        } => json!({
            "path": path.0,
            "cumulative_tsn_ack": cumulative_tsn_ack.0,
            "a_rwnd": a_rwnd,
            "gap_ack_blocks": ranges(gap_ack_blocks),
        }),
        TraceKind::MessageBlocked { stream, tsn, missing } => {
            json!({ "stream": stream.0, "tsn": tsn.0, "missing": missing.0 })
        }
        TraceKind::MessageDelivered {
            stream,
            tsn,
            bytes,
            blocked,
        } => json!({
            "stream": stream.0,
            "tsn": number(tsn),
            "bytes": bytes,
            "blocked": millis(*blocked),
        }),
        TraceKind::EventsDropped { count } => json!({ "count": count }),
        // `TraceKind` may grow.
        other => json!({ "text": other.to_string() }),
    }
}
