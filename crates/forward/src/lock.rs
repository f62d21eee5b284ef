//! Locks that a panic of another task does not poison: what they protect is consistent after every statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) type Lock<T> = Mutex<T>;

pub(crate) fn lock<T>(mutex: &Lock<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
