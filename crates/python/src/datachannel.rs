//! WebRTC data channels.

use anabranch::{BindError, OffloadSocket, Reliability};
use anabranch_datachannel::{
    ChannelConfig, ChannelMessage, DataChannel as RustChannel, PeerConnection as RustConnection,
    SessionConfig,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::association::data;
use crate::endpoint::Certificate;
use crate::facts;
use crate::failure::Failure;
use crate::operation::{begin, nothing};
use crate::runtime::Owned;
use crate::settings::{changed, duration};

/// A peer connection.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct PeerConnection {
    connection: Owned<RustConnection>,
}

/// A data channel.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct DataChannel {
    channel: Owned<RustChannel>,
}

fn session(
    settings: Option<&Bound<'_, PyDict>>,
    certificate: Option<&Certificate>,
    ice_lite: bool,
) -> PyResult<SessionConfig> {
    let certificate = match certificate {
        Some(given) => given.certificate.clone(),
        None => anabranch::Certificate::generate().map_err(Failure::from)?,
    };
    let config = SessionConfig::new(certificate, []).ice_lite(ice_lite);
    let sctp = changed(config.sctp.clone(), settings)?;
    Ok(config.sctp(sctp))
}

/// Begins a connection on a socket of this address: with an offer, or with the answer to the peer's `offer`.
#[pyfunction]
#[pyo3(signature = (offer, address, settings, certificate, ice_lite))]
pub(crate) fn peer_connection(
    py: Python<'_>,
    offer: Option<String>,
    address: String,
    settings: Option<&Bound<'_, PyDict>>,
    certificate: Option<&Certificate>,
    ice_lite: bool,
) -> PyResult<Py<PyAny>> {
    let config = session(settings, certificate, ice_lite)?;
    let begun = async move {
        let socket = bind(address).await?;
        let begun = match offer {
            None => RustConnection::offer(socket, config),
            Some(offer) => RustConnection::answer(socket, config, &offer),
        };
        begun.map_err(Failure::from)
    };
    begin(py, begun, |py, (connection, text)| {
        let connection = Owned::new(connection);
        let pair = (Py::new(py, PeerConnection { connection })?, text);
        Ok(pair.into_pyobject(py)?.into_any().unbind())
    })
}

async fn bind(address: String) -> Result<OffloadSocket, Failure> {
    let mut found = tokio::net::lookup_host(&address)
        .await
        .map_err(BindError::Resolve)?;
    let Some(local) = found.next() else {
        return Err(Failure::new("BindError", format!("{address} has no address")));
    };
    OffloadSocket::bind(local)
        .await
        .map_err(|error| Failure::new("BindError", format!("cannot bind {local}: {error}")))
}

#[pymethods]
impl PeerConnection {
    fn accept_answer(&self, answer: &str) -> PyResult<()> {
        Ok(self
            .connection
            .get()?
            .accept_answer(answer)
            .map_err(Failure::from)?)
    }

    fn accept_offer(&self, offer: &str) -> PyResult<String> {
        Ok(self
            .connection
            .get()?
            .accept_offer(offer)
            .map_err(Failure::from)?)
    }

    fn restart_ice(&self) -> PyResult<String> {
        Ok(self.connection.get()?.restart_ice().map_err(Failure::from)?)
    }

    fn add_candidate(&self, candidate: &str) -> PyResult<()> {
        Ok(self
            .connection
            .get()?
            .add_candidate(candidate)
            .map_err(Failure::from)?)
    }

    fn silent(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.get()?.clone();
        let silent = async move {
            connection.silent().await;
            Ok::<_, Failure>(())
        };
        begin(py, silent, nothing)
    }

    fn connected(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.get()?.clone();
        begin(py, async move { connection.connected().await }, nothing)
    }

    /// Opens a channel: an operation that returns it.
    #[pyo3(signature = (label, *, protocol, ordered, lifetime, retransmissions, priority, negotiated))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn open(
        &self,
        py: Python<'_>,
        label: &str,
        protocol: &str,
        ordered: bool,
        lifetime: Option<f64>,
        retransmissions: Option<u32>,
        priority: u16,
        negotiated: Option<u16>,
    ) -> PyResult<Py<PyAny>> {
        let reliability = match (lifetime, retransmissions) {
            (None, None) => Reliability::Reliable,
            (Some(time), None) => Reliability::Lifetime(duration("lifetime", time)?),
            (None, Some(count)) => Reliability::Retransmissions(count),
            (Some(_), Some(_)) => {
                let text = "a channel has one of lifetime and retransmissions";
                return Err(Failure::new("SettingError", text).into());
            }
        };
        let mut config = ChannelConfig::new(label)
            .protocol(protocol)
            .ordered(ordered)
            .reliability(reliability)
            .priority(priority);
        config.negotiated = negotiated;
        let connection = self.connection.get()?.clone();
        begin(
            py,
            async move { connection.open(config).await },
            DataChannel::object,
        )
    }

    /// The next channel that the peer opened, or `None` at the end.
    fn accept(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.get()?.clone();
        let accepted = async move { Ok::<_, Failure>(connection.accept().await) };
        begin(py, accepted, |py, channel| match channel {
            Some(channel) => DataChannel::object(py, channel),
            None => Ok(py.None()),
        })
    }

    /// The reason of the end, in words.
    fn closed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.get()?.clone();
        let closed = async move { Ok::<_, Failure>(connection.closed().await) };
        begin(py, closed, |py, end| {
            Ok(end.to_string().into_pyobject(py)?.into_any().unbind())
        })
    }

    /// The reason of the end, in words.
    fn shutdown(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.get()?.clone();
        let ended = async move { Ok::<_, Failure>(connection.shutdown().await) };
        begin(py, ended, |py, end| {
            Ok(end.to_string().into_pyobject(py)?.into_any().unbind())
        })
    }

    fn close(&self) -> PyResult<()> {
        self.connection.get()?.close();
        Ok(())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let stats = self.connection.get()?.stats();
        stats.map(|stats| facts::association(py, &stats)).transpose()
    }
}

impl DataChannel {
    fn object(py: Python<'_>, channel: RustChannel) -> PyResult<Py<PyAny>> {
        let channel = Owned::new(channel);
        Ok(Py::new(py, Self { channel })?.into_any())
    }
}

/// A text is sent as a text, and everything else as bytes.
fn outgoing(value: &Bound<'_, PyAny>) -> PyResult<ChannelMessage> {
    Ok(ChannelMessage {
        is_text: value.is_instance_of::<PyString>(),
        bytes: data(value)?,
    })
}

fn incoming(py: Python<'_>, message: Option<ChannelMessage>) -> PyResult<Py<PyAny>> {
    let Some(message) = message else {
        return Ok(py.None());
    };
    if message.is_text {
        // A peer may send anything as a text; browsers replace what is no UTF-8, too.
        let text = String::from_utf8_lossy(&message.bytes);
        return Ok(text.into_pyobject(py)?.into_any().unbind());
    }
    Ok(PyBytes::new(py, &message.bytes).into_any().unbind())
}

#[pymethods]
impl DataChannel {
    fn id(&self) -> PyResult<u16> {
        Ok(self.channel.get()?.id().0)
    }

    /// The label, the protocol, whether messages are ordered, and the priority.
    fn properties(&self) -> PyResult<(String, String, bool, u16)> {
        let config = self.channel.get()?.config();
        Ok((config.label, config.protocol, config.ordered, config.priority))
    }

    fn send(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (channel, message) = (self.channel.get()?.clone(), outgoing(message)?);
        begin(py, async move { channel.send(message).await }, nothing)
    }

    fn try_send(&self, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let sent = self.channel.get()?.try_send(outgoing(message)?);
        Ok(sent.map_err(Failure::from)?)
    }

    /// The next message, or `None` at the end.
    fn recv(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let channel = self.channel.get()?.clone();
        begin(
            py,
            async move { Ok::<_, Failure>(channel.recv().await) },
            incoming,
        )
    }

    fn buffered_amount(&self) -> PyResult<usize> {
        Ok(self.channel.get()?.buffered_amount())
    }

    fn buffered_amount_low(&self, py: Python<'_>, threshold: usize) -> PyResult<Py<PyAny>> {
        let channel = self.channel.get()?.clone();
        let low = async move {
            channel.buffered_amount_low(threshold).await;
            Ok::<_, Failure>(())
        };
        begin(py, low, nothing)
    }

    fn close(&self) -> PyResult<()> {
        self.channel.get()?.close();
        Ok(())
    }

    fn closed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let channel = self.channel.get()?.clone();
        let closed = async move {
            channel.closed().await;
            Ok::<_, Failure>(())
        };
        begin(py, closed, nothing)
    }
}
