//! Endpoints and certificates.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::{
    BindError, Config, ConnectOptions, DtlsConfig, Endpoint as RustEndpoint, Fingerprint, LinkConfig,
    LinkConfigError, Trust,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::association::Association;
use crate::failure::Failure;
use crate::keys::Keys;
use crate::operation::{begin, nothing};
use crate::runtime::Owned;
use crate::settings::{address, changed};

/// A certificate with its key, for DTLS: the argument `certificate` of `connect`, `listen` and `bind`. Made by `generate` and `from_pem`::
///
///     certificate = anabranch.Certificate.generate()
///     print("give this to the peer:", certificate.fingerprint)
///     endpoint = await anabranch.listen("0.0.0.0", certificate=certificate, fingerprints=[of_the_peer])
///
/// Without `fingerprints`, an endpoint accepts every peer. DTLS encrypts one path; `Keys` encrypt all paths.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Certificate {
    pub(crate) certificate: anabranch::Certificate,
}

#[pymethods]
impl Certificate {
    /// Makes a key and a certificate for it, which it signs itself.
    #[staticmethod]
    fn generate() -> PyResult<Self> {
        let certificate = anabranch::Certificate::generate().map_err(Failure::from)?;
        Ok(Self { certificate })
    }

    /// Reads a certificate and its key from texts in PEM. Raises `CertificateError` if they cannot be read.
    #[staticmethod]
    fn from_pem(certificate: &str, key: &str) -> PyResult<Self> {
        let certificate = anabranch::Certificate::from_pem(certificate, key).map_err(Failure::from)?;
        Ok(Self { certificate })
    }

    /// The certificate and its key as texts in PEM. The key is secret.
    fn to_pem(&self) -> PyResult<(String, String)> {
        Ok(self.certificate.to_pem().map_err(Failure::from)?)
    }

    /// The fingerprint, by which peers know the certificate: an item of their argument `fingerprints`.
    #[getter]
    fn fingerprint(&self) -> String {
        self.certificate.fingerprint().to_string()
    }
}

/// An endpoint.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Endpoint {
    endpoint: Owned<RustEndpoint>,
}

/// Peers with one of these fingerprints, or all peers.
fn trust(fingerprints: Option<Vec<String>>) -> Result<Trust, Failure> {
    let Some(fingerprints) = fingerprints else {
        return Ok(Trust::Anybody);
    };
    let parsed = fingerprints.iter().map(|text| text.parse::<Fingerprint>());
    Ok(Trust::Fingerprints(parsed.collect::<Result<_, _>>()?))
}

fn parsed(text: &str) -> Result<LinkConfig, Failure> {
    text.parse()
        .map_err(|error: LinkConfigError| Failure::new("SettingError", error.to_string()))
}

/// Binds an endpoint: an operation that returns it. An empty list of addresses means any address of the host, in the IP version of `remote`.
#[pyfunction]
#[pyo3(signature = (addresses, remote, settings, keys, certificate, fingerprints, backlog, max_associations, linger, connect_timeout, links))]
#[expect(clippy::too_many_arguments, reason = "one call from one place in Python")]
pub(crate) fn bind(
    py: Python<'_>,
    addresses: Vec<String>,
    remote: Option<String>,
    settings: Option<&Bound<'_, PyDict>>,
    keys: Option<&Keys>,
    certificate: Option<&Certificate>,
    fingerprints: Option<Vec<String>>,
    backlog: Option<usize>,
    max_associations: Option<usize>,
    linger: Option<f64>,
    connect_timeout: Option<f64>,
    links: Vec<String>,
) -> PyResult<Py<PyAny>> {
    let mut builder = RustEndpoint::builder().config(changed(Config::default(), settings)?);
    if let Some(keys) = keys {
        builder = builder.secure(keys.settings.clone());
    }
    if let Some(certificate) = certificate {
        let dtls = DtlsConfig::new(certificate.certificate.clone()).trust(trust(fingerprints)?);
        builder = builder.dtls(dtls);
    }
    if let Some(backlog) = backlog {
        builder = builder.backlog(backlog);
    }
    if let Some(most) = max_associations {
        builder = builder.max_associations(most);
    }
    if let Some(linger) = linger {
        builder = builder.linger(crate::settings::duration("linger", linger)?);
    }
    if let Some(limit) = connect_timeout {
        let limit = match limit {
            f64::INFINITY => Duration::MAX,
            limit => crate::settings::duration("connect_timeout", limit)?,
        };
        builder = builder.connect_timeout(limit);
    }
    let links: Vec<LinkConfig> = links.iter().map(|text| parsed(text)).collect::<Result<_, _>>()?;
    let bound = async move {
        let mut locals = Vec::with_capacity(addresses.len());
        for address in addresses {
            let mut found = tokio::net::lookup_host(address)
                .await
                .map_err(BindError::Resolve)?;
            locals.extend(found.next());
        }
        if let Some(remote) = remote {
            let mut found = tokio::net::lookup_host(remote).await.map_err(|error| {
                let error = anabranch::ConnectError::Resolve(error);
                Failure::from(error)
            })?;
            let any: SocketAddr = match found.next() {
                Some(SocketAddr::V6(_)) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
                _ => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            };
            locals.push(any);
        }
        match &links[..] {
            [one] => builder = builder.link(one.clone(), 1),
            several => {
                for (seed, (local, link)) in (1..).zip(locals.iter().zip(several)) {
                    builder = builder.path_link(local.ip(), link.clone(), seed);
                }
            }
        }
        builder.bind_all(&locals).map_err(Failure::from)
    };
    begin(py, bound, |py, endpoint| {
        let endpoint = Owned::new(endpoint);
        Ok(Py::new(py, Endpoint { endpoint })?.into_any())
    })
}

#[pymethods]
impl Endpoint {
    fn local_addresses(&self) -> PyResult<Vec<String>> {
        let locals = self.endpoint.get()?.local_addrs();
        Ok(locals.iter().map(ToString::to_string).collect())
    }

    fn listen(&self, sctp_port: u16) -> PyResult<()> {
        Ok(self
            .endpoint
            .get()?
            .listen_on_port(sctp_port)
            .map_err(Failure::from)?)
    }

    fn stop_listening(&self, sctp_port: u16) -> PyResult<()> {
        self.endpoint.get()?.stop_listening(sctp_port);
        Ok(())
    }

    #[pyo3(signature = (link, local_address))]
    fn set_link(&self, link: &str, local_address: Option<&str>) -> PyResult<()> {
        let endpoint = self.endpoint.get()?;
        let settings = parsed(link)?;
        let locals = endpoint.local_addrs();
        let chosen = match local_address.map(address).transpose()? {
            None => locals,
            Some(local) => locals.into_iter().filter(|one| one.ip() == local).collect(),
        };
        let alone = chosen.len() == endpoint.local_addrs().len();
        let shared = alone && endpoint.set_link(&settings);
        let own = chosen
            .iter()
            .filter(|local| endpoint.set_path_link(local.ip(), &settings));
        if own.count() > 0 || shared {
            return Ok(());
        }
        let problem = match local_address {
            Some(local) if chosen.is_empty() => format!("{local} is not an address of this endpoint"),
            _ if endpoint.link_stats().is_some() => {
                "all addresses share one link: leave the address out, or give `bind` a list with a link for each address".to_owned()
            }
            _ => "this endpoint has no emulated link: give `link` to `bind`".to_owned(),
        };
        Err(Failure::new("SettingError", problem).into())
    }

    fn associations(&self) -> PyResult<usize> {
        Ok(self.endpoint.get()?.associations())
    }

    fn failed_handshakes(&self) -> PyResult<u64> {
        Ok(self.endpoint.get()?.failed_handshakes())
    }

    /// The next association, or `None` once the endpoint is closed.
    fn accept(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let endpoint = self.endpoint.get()?.clone();
        let accepted = async move { Ok::<_, Failure>(endpoint.accept().await) };
        begin(py, accepted, |py, association| match association {
            Some(association) => Association::object(py, association),
            None => Ok(py.None()),
        })
    }

    #[pyo3(signature = (remote, sctp_port, local_sctp_port, local_address))]
    fn connect(
        &self,
        py: Python<'_>,
        remote: String,
        sctp_port: u16,
        local_sctp_port: Option<u16>,
        local_address: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let endpoint = self.endpoint.get()?.clone();
        let local_address = local_address.map(address).transpose()?;
        let options = ConnectOptions::default()
            .local_port(local_sctp_port)
            .local_address(local_address);
        let connected = async move { endpoint.connect_with(remote, sctp_port, options).await };
        begin(py, connected, Association::object)
    }

    fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let endpoint = self.endpoint.get()?.clone();
        let closed = async move {
            endpoint.close().await;
            Ok::<_, Failure>(())
        };
        begin(py, closed, nothing)
    }
}
