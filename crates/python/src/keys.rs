//! Key pairs: encryption of the packets of every path.

use std::path::PathBuf;

use anabranch::{SecretKey, TlsSettings};
use pyo3::prelude::*;

use crate::failure::Failure;

/// The private key of an endpoint, and the public keys of the peers that it accepts.
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
