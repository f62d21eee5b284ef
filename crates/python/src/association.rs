//! Associations, handles of their streams, and messages.

use std::time::Instant;

use anabranch::{
    Association as RustAssociation, Bytes, Delivery, Event, MessageId, PathId, PeerIdentity, ResetDirection,
    SendOptions, StreamHandle, StreamSelection,
};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyByteArrayMethods, PyBytes, PyDict, PyString};

use crate::facts;
use crate::failure::Failure;
use crate::operation::{begin, nothing};
use crate::runtime::Owned;
use crate::settings::Options;

/// A message from the peer: `Association.recv`, `Stream.recv` and the asynchronous iterators of both return messages::
///
///     async for message in association:
///         print(message.stream, message.data.decode())
///
/// `data` has bytes, also if the peer sent a text: then they are UTF-8. The sender chose `stream`, `ppid` and `unordered`.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Message {
    /// The user data.
    #[pyo3(get)]
    data: Py<PyBytes>,
    /// The number of its stream.
    #[pyo3(get)]
    stream: u16,
    /// The payload protocol identifier of the sender.
    #[pyo3(get)]
    ppid: u32,
    /// Whether the sender asked for unordered delivery.
    #[pyo3(get)]
    unordered: bool,
    /// The path of the packet that completed the message, as in `Association.stats()`.
    #[pyo3(get)]
    path: u8,
    arrived_at: Instant,
}

#[pymethods]
impl Message {
    /// When the packet arrived that completed the message, by the clock of `time.monotonic()`.
    #[getter]
    fn arrived_at(&self, py: Python<'_>) -> PyResult<f64> {
        let ago = self.arrived_at.elapsed();
        let now: f64 = py.import("time")?.call_method0("monotonic")?.extract()?;
        Ok(now - ago.as_secs_f64())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "Message(stream={}, ppid={}, unordered={}, {} bytes)",
            self.stream,
            self.ppid,
            if self.unordered { "True" } else { "False" },
            self.data.bind(py).as_bytes().len()
        )
    }
}

fn message(py: Python<'_>, message: Option<anabranch::Message>) -> PyResult<Py<PyAny>> {
    let Some(message) = message else {
        return Ok(py.None());
    };
    let data = match message.payload.pieces() {
        [piece] => PyBytes::new(py, piece),
        pieces => PyBytes::new(py, &pieces.concat()),
    };
    let message = Message {
        data: data.unbind(),
        stream: message.stream.0,
        ppid: message.ppid.0,
        unordered: message.unordered,
        path: message.path.0,
        arrived_at: message.arrived_at,
    };
    Ok(Py::new(py, message)?.into_any())
}

/// A copy of the data: bytes, text, a bytearray, or anything else that `memoryview` accepts.
pub(crate) fn data(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Bytes::copy_from_slice(bytes.as_bytes()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Bytes::copy_from_slice(text.to_str()?.as_bytes()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(bytes.to_vec().into());
    }
    let builtins = value.py().import("builtins")?;
    let view = builtins.getattr("memoryview")?.call1((value,))?;
    data(&builtins.getattr("bytes")?.call1((view,))?)
}

fn options(options: Option<&Options>) -> SendOptions {
    options.map_or_else(SendOptions::default, |given| given.options)
}

/// The answer of `send`: the number of the message.
fn number(py: Python<'_>, id: MessageId) -> PyResult<Py<PyAny>> {
    Ok(id.0.into_pyobject(py)?.into_any().unbind())
}

/// The fields of `anabranch.Delivery`.
fn delivery(py: Python<'_>, (delivery, id): (Delivery, MessageId)) -> PyResult<Py<PyAny>> {
    let (outcome, sent) = match delivery {
        Delivery::Acknowledged => ("acknowledged", true),
        Delivery::Abandoned { sent } => ("abandoned", sent),
        Delivery::Failed { sent } => ("failed", sent),
        _ => ("failed", true),
    };
    Ok((outcome, sent, id.0).into_pyobject(py)?.into_any().unbind())
}

/// The name of an event's class and its fields, or `None` at the end.
fn event(py: Python<'_>, event: Option<Event>) -> PyResult<Py<PyAny>> {
    let named = event.map(|event| facts::event(py, &event)).transpose()?;
    Ok(named.into_pyobject(py)?.into_any().unbind())
}

/// An association.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Association {
    association: Owned<RustAssociation>,
}

impl Association {
    pub(crate) fn object(py: Python<'_>, association: RustAssociation) -> PyResult<Py<PyAny>> {
        let association = Owned::new(association);
        Ok(Py::new(py, Self { association })?.into_any())
    }
}

#[pymethods]
impl Association {
    #[pyo3(signature = (stream, message, options))]
    fn send(
        &self,
        py: Python<'_>,
        stream: u16,
        message: &Bound<'_, PyAny>,
        options: Option<&Options>,
    ) -> PyResult<Py<PyAny>> {
        let association = self.association.get()?.clone();
        let (message, options) = (data(message)?, self::options(options));
        let sent = async move { association.send_with(stream, message, options).await };
        begin(py, sent, number)
    }

    /// Sends a message if its stream has room.
    #[pyo3(signature = (stream, message, options))]
    fn try_send(&self, stream: u16, message: &Bound<'_, PyAny>, options: Option<&Options>) -> PyResult<u64> {
        let association = self.association.get()?;
        let sent = association.try_send_with(stream, data(message)?, self::options(options));
        Ok(sent.map_err(Failure::from)?.0)
    }

    /// The next message, or `None` at the end.
    fn recv(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let association = self.association.get()?.clone();
        begin(py, async move { association.recv().await }, message)
    }

    /// The name of the next event's class and its fields, or `None` at the end.
    fn next_event(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let association = self.association.get()?.clone();
        let next = async move { Ok::<_, Failure>(association.next_event().await) };
        begin(py, next, event)
    }

    fn drained(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let association = self.association.get()?.clone();
        begin(py, async move { association.drained().await }, nothing)
    }

    fn shutdown(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let association = self.association.get()?.clone();
        begin(py, async move { association.shutdown().await }, nothing)
    }

    fn abort(&self, reason: &Bound<'_, PyAny>) -> PyResult<()> {
        self.association.get()?.abort(data(reason)?);
        Ok(())
    }

    /// The reason of the end, in words.
    fn closed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let association = self.association.get()?.clone();
        let closed = async move { Ok::<_, Failure>(association.closed().await) };
        begin(py, closed, |py, reason| {
            Ok(facts::reason(&reason).into_pyobject(py)?.into_any().unbind())
        })
    }

    fn close_reason(&self) -> PyResult<Option<String>> {
        let reason = self.association.get()?.close_reason();
        Ok(reason.as_ref().map(facts::reason))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        facts::association(py, &self.association.get()?.stats())
    }

    fn state(&self) -> PyResult<&'static str> {
        Ok(facts::state(self.association.get()?.state()))
    }

    fn outbound_streams(&self) -> PyResult<u16> {
        Ok(self.association.get()?.outbound_streams())
    }

    fn remote_address(&self) -> PyResult<String> {
        Ok(self.association.get()?.remote_addr().to_string())
    }

    fn ports(&self) -> PyResult<(u16, u16)> {
        Ok(self.association.get()?.ports())
    }

    fn peer_fingerprint(&self) -> PyResult<Option<String>> {
        let fingerprint = self.association.get()?.peer_fingerprint();
        Ok(fingerprint.map(|fingerprint| fingerprint.to_string()))
    }

    /// The public key that the peer showed.
    fn peer_key(&self) -> PyResult<Option<String>> {
        Ok(match self.association.get()?.peer_identity() {
            Some(PeerIdentity::Key(key)) => Some(key.to_string()),
            _ => None,
        })
    }

    fn set_stream_priority(&self, stream: u16, priority: u16) -> PyResult<()> {
        let association = self.association.get()?;
        let set = association.set_stream_priority(stream, priority);
        Ok(set.map_err(Failure::from)?)
    }

    fn set_stream_weight(&self, stream: u16, weight: u16) -> PyResult<()> {
        let association = self.association.get()?;
        let set = association.set_stream_weight(stream, weight);
        Ok(set.map_err(Failure::from)?)
    }

    fn set_primary_path(&self, path: u8) -> PyResult<()> {
        let set = self.association.get()?.set_primary_path(PathId(path));
        Ok(set.map_err(Failure::from)?)
    }

    /// Adds paths from an address, an interface, or each default route.
    fn add_path(&self, source: &str) -> PyResult<()> {
        Ok(self.association.get()?.add_path(source).map_err(Failure::from)?)
    }

    /// Removes them.
    fn remove_path(&self, source: &str) -> PyResult<()> {
        Ok(self
            .association
            .get()?
            .remove_path(source)
            .map_err(Failure::from)?)
    }

    fn request_heartbeat(&self, path: u8) -> PyResult<()> {
        let requested = self.association.get()?.request_heartbeat(PathId(path));
        Ok(requested.map_err(Failure::from)?)
    }

    fn reset_streams(&self, streams: Vec<u16>) -> PyResult<()> {
        let streams = StreamSelection::listed(streams);
        let association = self.association.get()?;
        let reset = association.reset_streams(streams, ResetDirection::Outgoing);
        Ok(reset.map_err(Failure::from)?)
    }

    fn add_streams(&self, outgoing: u16, incoming: u16) -> PyResult<()> {
        let added = self.association.get()?.add_streams(outgoing, incoming);
        Ok(added.map_err(Failure::from)?)
    }

    /// The handle of a stream.
    #[pyo3(signature = (stream, options))]
    fn stream(&self, stream: u16, options: Option<&Options>) -> PyResult<Stream> {
        let handle = self.association.get()?.stream(stream);
        Ok(Stream::new(handle.with_options(self::options(options))))
    }

    /// The handle of the next stream on which the peer began to send, or `None` at the end.
    fn accept_stream(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let association = self.association.get()?.clone();
        let accepted = async move { Ok::<_, Failure>(association.accept_stream().await) };
        begin(py, accepted, |py, handle| match handle {
            Some(handle) => Ok(Py::new(py, Stream::new(handle))?.into_any()),
            None => Ok(py.None()),
        })
    }
}

/// The handle of a stream.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Stream {
    handle: Owned<StreamHandle>,
}

impl Stream {
    fn new(handle: StreamHandle) -> Self {
        Self {
            handle: Owned::new(handle),
        }
    }
}

#[pymethods]
impl Stream {
    fn id(&self) -> PyResult<u16> {
        Ok(self.handle.get()?.id().0)
    }

    /// The same stream with other options. Both handles receive.
    fn with_options(&self, options: &Options) -> PyResult<Self> {
        let handle = self.handle.get()?.clone();
        Ok(Self::new(handle.with_options(options.options)))
    }

    fn send(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (handle, message) = (self.handle.get()?.clone(), data(message)?);
        begin(py, async move { handle.send(message).await }, number)
    }

    /// Sends a message and waits for its outcome.
    fn deliver(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (handle, message) = (self.handle.get()?.clone(), data(message)?);
        let delivered = async move {
            let receipt = handle.send_with_receipt(message).await?;
            let id = receipt.message();
            Ok::<_, anabranch::SendError>((receipt.delivered().await, id))
        };
        begin(py, delivered, delivery)
    }

    fn try_send(&self, message: &Bound<'_, PyAny>) -> PyResult<u64> {
        let sent = self.handle.get()?.try_send(data(message)?);
        Ok(sent.map_err(Failure::from)?.0)
    }

    /// The next message, or `None` at the end of the stream or the association.
    fn recv(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let handle = self.handle.get()?.clone();
        begin(py, async move { handle.recv().await }, message)
    }

    /// The name of the next event's class and its fields, or `None` at the end.
    fn next_event(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let handle = self.handle.get()?.clone();
        let next = async move { Ok::<_, Failure>(handle.next_event().await) };
        begin(py, next, event)
    }

    fn buffered_amount(&self) -> PyResult<usize> {
        Ok(self.handle.get()?.buffered_amount())
    }

    fn buffered_amount_low(&self, py: Python<'_>, threshold: usize) -> PyResult<Py<PyAny>> {
        let handle = self.handle.get()?.clone();
        let low = async move { handle.buffered_amount_low(threshold).await };
        begin(py, low, nothing)
    }

    fn reset(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let handle = self.handle.get()?.clone();
        begin(py, async move { handle.reset().await }, nothing)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        facts::stream(py, &self.handle.get()?.stats())
    }
}
