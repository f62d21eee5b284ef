//! Key pairs: encryption of the packets of every path.

use std::path::PathBuf;

use anabranch::{SecretKey, TlsSettings};
use pyo3::prelude::*;

use crate::failure::Failure;

/// The private key of an endpoint, and the public keys of the peers that it accepts: the argument `keys` of `connect`, `listen` and `bind`::
///
///     anabranch.generate_key("client.key")
///     association = await anabranch.connect("192.0.2.1", keys=anabranch.Keys("client.key", "server.key.pub"))
///
/// own: the file of the private key, which `generate_key` or `anabranch keygen` wrote.
/// peers: the file of the public keys of the peers, one on each line.
///
/// Raises `CertificateError` if a file cannot be read.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Keys {
    pub(crate) settings: TlsSettings,
}

#[pymethods]
impl Keys {
    #[new]
    fn new(own: PathBuf, peers: PathBuf) -> PyResult<Self> {
        let settings = TlsSettings::from_key_files(own, peers).map_err(Failure::from)?;
        Ok(Self { settings })
    }
}

/// A new private key as the text of a file (PEM), and its public key.
#[pyfunction]
pub(crate) fn generate_key() -> PyResult<(String, String)> {
    let key = SecretKey::generate().map_err(Failure::from)?;
    Ok((key.to_pem().to_string(), key.public().to_string()))
}
