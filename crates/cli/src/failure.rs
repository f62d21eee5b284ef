//! An error that ends the command: one message for the user, and an exit status other than 0.

use std::process::ExitCode;

use serde_json::json;

use crate::output::Output;

/// The exit status that shells give a program which a signal ended (128 + SIGINT).
const INTERRUPTED: u8 = 130;

/// Why the command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// The message must name the flag, file or address, and the remedy.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: 1,
        }
    }

    /// A failure because the user stopped the command before its end.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: INTERRUPTED,
        }
    }

    /// The same failure with another exit status.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Prints the message; returns the exit status.
    pub(crate) fn report(&self, output: Output) -> ExitCode {
        output.error(
            &self.message,
            &json!({ "event": "error", "message": self.message }),
        );
        ExitCode::from(self.status)
    }
}
