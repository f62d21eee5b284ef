//! Exceptions: the errors of the Rust library under the names of `anabranch._errors`, with the same texts.

use pyo3::prelude::*;

/// An error that becomes an exception.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The name of the class in `anabranch._errors`.
    class: &'static str,
    text: String,
}

impl Failure {
    pub(crate) fn new(class: &'static str, text: impl ToString) -> Self {
        Self {
            class,
            text: text.to_string(),
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| {
            let module = py.import("anabranch._errors");
            let class = module.and_then(|module| module.getattr(failure.class));
            match class.and_then(|class| class.call1((failure.text,))) {
                Ok(exception) => PyErr::from_value(exception),
                Err(error) => error,
            }
        })
    }
}

/// The errors of the library and their classes.
macro_rules! classes {
    ($($error:ty: |$name:ident| $class:expr;)*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let class = {
                    let $name = &error;
                    $class
                };
                Self::new(class, error)
            }
        })*
    };
}

classes! {
    anabranch::BindError: |error| match error {
        anabranch::BindError::Config(_) => "SettingError",
        _ => "BindError",
    };
    anabranch::ListenError: |_error| "ListenError";
    anabranch::ConnectError: |error| match error {
        anabranch::ConnectError::Config(_) => "SettingError",
        anabranch::ConnectError::TimedOut { .. } => "ConnectTimeoutError",
        _ => "ConnectError",
    };
    anabranch::SendError: |error| match error {
        anabranch::SendError::BufferFull => "BufferFullError",
        anabranch::SendError::Closed(_) | anabranch::SendError::ShuttingDown => "ClosedError",
        _ => "SendError",
    };
    anabranch::RecvError: |error| match error {
        anabranch::RecvError::Closed(_) => "ClosedError",
        _ => "ReceiveError",
    };
    anabranch::ShutdownError: |_error| "ClosedError";
    anabranch::SchedulingError: |_error| "SettingError";
    anabranch::PathRequestError: |_error| "PathError";
    anabranch::PathSourceError: |_error| "PathError";
    anabranch::ReconfigurationError: |_error| "ReconfigurationError";
    anabranch::CertificateError: |_error| "CertificateError";
    anabranch::FingerprintError: |_error| "CertificateError";
    anabranch::KeyFileError: |_error| "CertificateError";
    anabranch::SettingsError: |_error| "CertificateError";
    anabranch_datachannel::SessionError: |error| match error {
        anabranch_datachannel::SessionError::Local(_) | anabranch_datachannel::SessionError::Sctp(_) => "SettingError",
        _ => "ConnectError",
    };
    anabranch_datachannel::SessionEnd: |_error| "ConnectError";
    anabranch_datachannel::OpenError: |error| match error {
        anabranch_datachannel::OpenError::Refused | anabranch_datachannel::OpenError::Ended => "ClosedError",
        anabranch_datachannel::OpenError::NotConnected => "ConnectError",
        _ => "SettingError",
    };
    anabranch_datachannel::ChannelSendError: |error| match error {
        anabranch_datachannel::ChannelSendError::Closed => "ClosedError",
        anabranch_datachannel::ChannelSendError::Full => "BufferFullError",
        _ => "SendError",
    };
}
