//! Reusable buffers for large datagrams. One thread allocates a datagram and another thread frees it: with such a pattern, an
//! allocator with an arena for each thread holds many times the memory in use.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Datagrams smaller than this many bytes do not use the pool.
const LARGE: usize = 4096;
/// Limit of unused buffers.
const KEPT: usize = 128;

/// The unused buffers. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

/// A buffer that returns to its pool.
struct Lent {
    buffer: Vec<u8>,
    pool: Pool,
}

impl Pool {
    /// A copy of these bytes.
    pub(crate) fn copy(&self, bytes: &[u8]) -> Bytes {
        if bytes.len() < LARGE {
            return Bytes::copy_from_slice(bytes);
        }
        let mut buffer = self.buffers().pop().unwrap_or_default();
        buffer.clear();
        // The length of a datagram counts, not that of its buffer: a large buffer must not be kept for a small datagram.
        buffer.shrink_to(2 * bytes.len());
        buffer.extend_from_slice(bytes);
        let pool = self.clone();
        Bytes::from_owner(Lent { buffer, pool })
    }

    fn buffers(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut buffers = self.pool.buffers();
        if buffers.len() < KEPT {
            buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_copies_use_memory_again() {
        let pool = Pool::default();
        let first = pool.copy(&[1; 60_000]);
        assert_eq!(first, vec![1; 60_000]);
        let place = first.as_ptr();
        let slice = first.slice(10..20);
        drop(first);
        assert!(pool.buffers().is_empty(), "a slice of it is in use");
        drop(slice);
        let second = pool.copy(&[2; 50_000]);
        assert_eq!((second.as_ptr(), &second[..3]), (place, &[2, 2, 2][..]));
    }

    #[test]
    fn a_large_buffer_is_not_kept_for_a_small_datagram() {
        let pool = Pool::default();
        drop(pool.copy(&[1; 60_000]));
        drop(pool.copy(&[2; LARGE]));
        assert!(pool.buffers()[0].capacity() <= 2 * LARGE);
    }

    #[test]
    fn small_copies_and_too_many_are_not_kept() {
        let pool = Pool::default();
        drop(pool.copy(&[1; 100]));
        assert!(pool.buffers().is_empty());
        let many: Vec<_> = (0..2 * KEPT).map(|_| pool.copy(&[1; LARGE])).collect();
        drop(many);
        assert_eq!(pool.buffers().len(), KEPT);
    }
}
