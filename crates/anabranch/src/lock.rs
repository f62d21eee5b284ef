//! Locks that outlive panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, also if another thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
