//! The native part of the Python package `anabranch`. The package itself, with all documentation for users, is in `python/anabranch`.

mod association;
mod datachannel;
mod endpoint;
mod facts;
mod failure;
mod keys;
mod lab;
mod operation;
mod runtime;
mod settings;

/// The native part of `anabranch`; programs use the package.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::association::{Association, Message, Stream};
    #[pymodule_export]
    use crate::datachannel::{DataChannel, PeerConnection, peer_connection};
    #[pymodule_export]
    use crate::endpoint::{Certificate, Endpoint, bind};
    #[pymodule_export]
    use crate::keys::{Keys, generate_key};
    #[pymodule_export]
    use crate::lab::{Sweep, Table, list_experiments, toml_from_json};
    #[pymodule_export]
    use crate::operation::{Operation, Wakeups};
    #[pymodule_export]
    use crate::settings::{Options, is_default};
}
