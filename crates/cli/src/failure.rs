//! An error that ends the command: one message for the user, and an exit status other than 0.

use std::process::ExitCode;

use serde_json::json;

use crate::output::Output;

/// Status of a program that a signal ended, as shells count it (128 + SIGINT).
const INTERRUPTED: u8 = 130;

/// Why the command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// The message names the flag, file or address, and the way out.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: 1,
        }
    }

    /// The user stopped it before it was done.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: INTERRUPTED,
        }
    }

    /// With another status to end with.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// The message.
    #[cfg(target_os = "linux")]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Tells the user, and answers the status to end with.
    pub(crate) fn report(&self, output: Output) -> ExitCode {
        output.error(
            &self.message,
            &json!({ "event": "error", "message": self.message }),
        );
        ExitCode::from(self.status)
    }
}
