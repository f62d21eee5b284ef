//! Statistics and events as dictionaries: `anabranch._stats` and `anabranch._events` have a class for each, with these names.

use std::fmt::Debug;

use anabranch::{
    AddressEvent, AssociationState, AssociationStats, Counters, Event, Extensions, PathState, PathStats,
    ReconfigurationEvent, StreamStats, Undelivered,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Copies fields of a value into a dictionary.
macro_rules! copied {
    ($py:expr, $value:expr, $($field:ident),* $(,)?) => {{
        let fields = PyDict::new($py);
        $(fields.set_item(stringify!($field), $value.$field)?;)*
        fields
    }};
}

fn counters<'py>(py: Python<'py>, value: &Counters) -> PyResult<Bound<'py, PyDict>> {
    Ok(copied!(
        py,
        value,
        packets_sent,
        packets_received,
        data_chunks_sent,
        data_bytes_sent,
        data_chunks_received,
        messages_sent,
        messages_received,
        retransmissions_timeout,
        retransmissions_fast,
        retransmissions_spurious,
        timeouts,
        fast_recoveries,
        sacks_sent,
        sacks_received,
        losses_by_time,
        tail_loss_probes,
        repair_chunks,
        messages_repaired,
        early_copies,
        early_copies_unnecessary,
        redundancy_bytes,
        reductions_undone,
        duplicates_received,
        dropped_no_room,
        zero_windows,
        abandoned_unsent,
        abandoned_sent,
        early_discards,
        forward_tsns_sent,
        forward_tsns_received,
        selective_notices_sent,
        selective_notices_received,
        extended_forwards_sent,
        extended_forwards_received,
        late_messages,
        heartbeats_sent,
        mtu_probes_sent,
        mtu_black_holes,
        failovers,
        restarts,
    ))
}

fn extensions<'py>(py: Python<'py>, value: &Extensions) -> PyResult<Bound<'py, PyDict>> {
    Ok(copied!(
        py,
        value,
        partial_reliability,
        nr_sack,
        selective_forward_tsn,
        extended_forward_tsn,
        interleaving,
        eca,
        ecn,
        reconfiguration,
        authentication,
        dynamic_addresses,
        port_pairs,
        repair,
        protection,
        zero_checksum,
    ))
}

fn path_state(state: PathState) -> &'static str {
    match state {
        PathState::Unconfirmed => "unconfirmed",
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially_failed",
        PathState::Inactive => "inactive",
    }
}

/// The name of a state of RFC 9260 §4.
pub(crate) fn state(state: AssociationState) -> &'static str {
    match state {
        AssociationState::Closed => "closed",
        AssociationState::CookieWait => "cookie_wait",
        AssociationState::CookieEchoed => "cookie_echoed",
        AssociationState::Established => "established",
        AssociationState::ShutdownPending => "shutdown_pending",
        AssociationState::ShutdownSent => "shutdown_sent",
        AssociationState::ShutdownReceived => "shutdown_received",
        AssociationState::ShutdownAckSent => "shutdown_ack_sent",
    }
}

fn path<'py>(py: Python<'py>, value: &PathStats) -> PyResult<Bound<'py, PyDict>> {
    let fields = copied!(
        py,
        value,
        primary,
        cwnd,
        pacing_rate,
        known_rate,
        flight_size,
        pmtu,
        error_count,
        timeouts,
        fast_recoveries,
        data_bytes_sent,
        copy_bytes_sent,
        data_bytes_received,
        data_chunks_sent,
        chunks_retransmitted,
        chunks_lost,
    );
    fields.set_item("id", value.id.0)?;
    fields.set_item("local", value.local.map(|address| address.to_string()))?;
    fields.set_item("remote", value.remote.to_string())?;
    fields.set_item("state", path_state(value.state))?;
    fields.set_item("srtt", value.srtt.map(|time| time.as_secs_f64()))?;
    fields.set_item("rttvar", value.rttvar.as_secs_f64())?;
    fields.set_item("rto", value.rto.as_secs_f64())?;
    let ssthresh = (value.ssthresh != usize::MAX).then_some(value.ssthresh);
    fields.set_item("ssthresh", ssthresh)?;
    Ok(fields)
}

pub(crate) fn association<'py>(py: Python<'py>, value: &AssociationStats) -> PyResult<Bound<'py, PyDict>> {
    let fields = copied!(
        py,
        value,
        queued_bytes,
        outstanding_bytes,
        gap_acked_bytes,
        peer_rwnd,
        a_rwnd,
        unread_bytes,
    );
    fields.set_item("counters", counters(py, &value.counters)?)?;
    fields.set_item("extensions", extensions(py, &value.extensions)?)?;
    let paths = value.paths.iter().map(|value| path(py, value));
    fields.set_item("paths", paths.collect::<PyResult<Vec<_>>>()?)?;
    Ok(fields)
}

pub(crate) fn stream<'py>(py: Python<'py>, value: &StreamStats) -> PyResult<Bound<'py, PyDict>> {
    let fields = copied!(
        py,
        value,
        queued_bytes,
        queued_messages,
        messages,
        bytes,
        messages_sent,
        messages_acknowledged,
    );
    for (name, time) in [
        ("queue_delay_total", value.queue_delay_total),
        ("queue_delay_max", value.queue_delay_max),
        ("network_delay_total", value.network_delay_total),
        ("network_delay_max", value.network_delay_max),
    ] {
        fields.set_item(name, time.as_secs_f64())?;
    }
    Ok(fields)
}

fn undelivered<'py>(py: Python<'py>, value: &Undelivered) -> PyResult<Bound<'py, PyDict>> {
    let fields = copied!(py, value, context, sent);
    fields.set_item("message", value.message.0)?;
    fields.set_item("stream", value.stream.0)?;
    Ok(fields)
}

/// An event as the name of its class in `anabranch._events`, and its fields.
type Named<'py> = (&'static str, Bound<'py, PyDict>);

/// The name of an event's class, and its fields.
pub(crate) fn event<'py>(py: Python<'py>, event: &Event) -> PyResult<Named<'py>> {
    let fields = PyDict::new(py);
    let class = match event {
        Event::Abandoned(value) => return Ok(("Abandoned", undelivered(py, value)?)),
        Event::Undelivered(value) => return Ok(("Undelivered", undelivered(py, value)?)),
        Event::PathChanged { path, remote, state } => {
            fields.set_item("path", path.0)?;
            fields.set_item("remote", remote.to_string())?;
            fields.set_item("state", path_state(*state))?;
            "PathChanged"
        }
        Event::Addresses(change) => return address_event(py, change),
        Event::PeerShutdown => "PeerShutdown",
        Event::Restarted => "Restarted",
        Event::IdleTimeout => "IdleTimeout",
        Event::Stalled { bytes } => {
            fields.set_item("bytes", bytes)?;
            "Stalled"
        }
        Event::Missed(count) => {
            fields.set_item("count", count)?;
            "Missed"
        }
        Event::Reconfiguration(ReconfigurationEvent::StreamsAdded {
            outbound_streams,
            inbound_streams,
        }) => {
            fields.set_item("outbound_streams", outbound_streams)?;
            fields.set_item("inbound_streams", inbound_streams)?;
            "StreamsAdded"
        }
        other => return without_class(py, other),
    };
    Ok((class, fields))
}

/// The name of the class of an event about addresses, and its fields.
fn address_event<'py>(py: Python<'py>, event: &AddressEvent) -> PyResult<Named<'py>> {
    let fields = PyDict::new(py);
    let (class, address) = match event {
        AddressEvent::PeerAdded { address, path } => {
            fields.set_item("path", path.0)?;
            ("PeerAddressAdded", address)
        }
        AddressEvent::PeerRemoved(address) => ("PeerAddressRemoved", address),
        AddressEvent::PeerPairRemoved { address, path } => {
            fields.set_item("path", path.0)?;
            ("PeerPathRemoved", address)
        }
        AddressEvent::PeerPrimary { address, path } => {
            fields.set_item("path", path.0)?;
            ("PeerPrimaryRequested", address)
        }
        AddressEvent::LocalAdded(address) => ("LocalAddressAdded", address),
        AddressEvent::LocalMayShare(address) => ("LocalAddressMayShare", address),
        AddressEvent::LocalRemoved(address) => ("LocalAddressRemoved", address),
        AddressEvent::LocalRefused { address, cause } => {
            fields.set_item("cause", cause)?;
            ("LocalAddressRefused", address)
        }
        AddressEvent::NotSupported => return Ok(("AddressChangesUnsupported", fields)),
        other => return without_class(py, other),
    };
    fields.set_item("address", address.to_string())?;
    Ok((class, fields))
}

/// An event that has no class of its own: as Rust prints it.
fn without_class<'py>(py: Python<'py>, event: &impl Debug) -> PyResult<Named<'py>> {
    let fields = PyDict::new(py);
    fields.set_item("text", format!("{event:?}"))?;
    Ok(("OtherEvent", fields))
}

/// The reason of an association's end, in words.
pub(crate) fn reason(reason: &anabranch::CloseReason) -> String {
    reason.to_string()
}
