//! Whether an association can be given to the application.

use std::sync::atomic::{AtomicU8, Ordering};

/// Whether an association can be given to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Readiness {
    /// Its packets are not encrypted yet, and have to be.
    Waiting,
    Ready,
    /// It ended before it was ready.
    Over,
}

/// A [`Readiness`] that is read without the association's lock.
#[derive(Debug)]
pub(super) struct SharedReadiness(AtomicU8);

impl SharedReadiness {
    pub(super) fn new(readiness: Readiness) -> Self {
        Self(AtomicU8::new(readiness as u8))
    }

    pub(super) fn get(&self) -> Readiness {
        Readiness::of(self.0.load(Ordering::Relaxed))
    }

    /// Sets the readiness. The caller holds the association's lock.
    pub(super) fn set(&self, readiness: Readiness) {
        self.0.store(readiness as u8, Ordering::Relaxed);
    }
}

impl Readiness {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Waiting,
            1 => Self::Ready,
            _ => Self::Over,
        }
    }
}
