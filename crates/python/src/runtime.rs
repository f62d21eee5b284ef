//! The tokio runtime of the process, and what must not happen after a fork.
//!
//! A fork copies the memory of the runtime, but not its threads. Each object of the parent is useless in the child, and its locks may be
//! held for ever. Calls in the child therefore fail before they take a lock, and objects are forgotten and not dropped.

use std::mem;
use std::process;
use std::sync::OnceLock;

use tokio::runtime::{Builder, EnterGuard, Runtime};

use crate::failure::Failure;

/// The threads that drive sockets and associations.
const THREADS: usize = 2;

struct OfProcess {
    process: u32,
    runtime: Runtime,
}

static RUNTIME: OnceLock<Result<OfProcess, String>> = OnceLock::new();

fn forked(parent: u32) -> Failure {
    let this = process::id();
    Failure::new(
        "ForkedError",
        format!(
            "process {this} is a fork of process {parent}, which uses anabranch already: associations do not survive a fork; start \
             processes by `spawn` or `forkserver`, or use anabranch only after the fork"
        ),
    )
}

/// Enters the runtime, which the first call starts.
///
/// # Errors
/// The process is a fork of the process that started the runtime, or the system has no more threads.
pub(crate) fn enter() -> Result<EnterGuard<'static>, Failure> {
    let start = || {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(THREADS)
            .thread_name("anabranch")
            .enable_all();
        let runtime = builder.build().map_err(|error| error.to_string())?;
        Ok(OfProcess {
            process: process::id(),
            runtime,
        })
    };
    match RUNTIME.get_or_init(start) {
        Ok(of) if of.process == process::id() => Ok(of.runtime.enter()),
        Ok(of) => Err(forked(of.process)),
        Err(error) => {
            let text = format!("the threads of the protocol cannot be started: {error}");
            Err(Failure::new("Error", text))
        }
    }
}

/// An object of the runtime: usable only in the process that made it, and forgotten in a fork of this process.
pub(crate) struct Owned<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            process: process::id(),
        }
    }

    /// # Errors
    /// The process is a fork of the process that made the object.
    pub(crate) fn get(&self) -> Result<&T, Failure> {
        match &self.value {
            Some(value) if self.process == process::id() => Ok(value),
            _ => Err(forked(self.process)),
        }
    }

    /// # Errors
    /// As [`Owned::get`].
    pub(crate) fn get_mut(&mut self) -> Result<&mut T, Failure> {
        match &mut self.value {
            Some(value) if self.process == process::id() => Ok(value),
            _ => Err(forked(self.process)),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.process != process::id() {
            mem::forget(self.value.take());
        }
    }
}
