//! Owns the advertised receiver window and the number of bytes and chunks that the receiver holds (RFC 9260 §6.2).

use core::time::Duration;

use crate::config::BufferConfig;
use crate::time::Timestamp;

/// Bytes. A window smaller than a full packet is advertised as 0, so that the peer sends no small packets (silly window syndrome avoidance,
/// RFC 1122 §4.2.3.3).
const CRUMB: usize = 1500;

/// If an application reads a whole window within this time, the window would limit the rate on any path with a longer round-trip time, so
/// the window grows.
const GROWS_WITHIN: Duration = Duration::from_millis(500);

/// Bytes and chunks that the receiver holds, and their limits.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    limit: usize,
    /// The largest value of `limit`.
    most: usize,
    /// Bytes read since this time.
    read: (Timestamp, usize),
    max_chunks: usize,
    bytes: usize,
    chunks: usize,
    last_advertised: usize,
}

impl ReceiveWindow {
    pub(super) fn new(buffers: &BufferConfig) -> Self {
        let limit = buffers.receive as usize;
        Self {
            limit,
            most: limit
                .saturating_mul(buffers.growth as usize)
                .min(u32::MAX as usize),
            read: (Timestamp::ZERO, 0),
            max_chunks: buffers.max_chunks,
            bytes: 0,
            chunks: 0,
            last_advertised: limit,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn chunks(&self) -> usize {
        self.chunks
    }

    /// Whether the receiver may accept a chunk. `closes_gap`: the chunk has the next TSN in order. `readable`: the application could read
    /// something.
    ///
    /// A chunk that closes the lowest gap is accepted beyond the limit, up to twice the limit, because the data above the gap
    /// waits for it. It is also accepted if the application can read nothing, because nothing else would open the window. A peer
    /// that keeps the rules does not reach twice the limit: the data above the gap was accepted within the limit, and an
    /// incomplete message below it is delivered in parts from half of the limit on. A single chunk may be larger than all that.
    pub(super) fn accepts(&self, len: usize, closes_gap: bool, has_gaps: bool, readable: bool) -> bool {
        if self.bytes + len <= self.limit && self.chunks < self.max_chunks {
            return true;
        }
        let added = if readable { len } else { 1 };
        let bounded = self.bytes + added <= 2 * self.limit && self.chunks < 2 * self.max_chunks;
        closes_gap && bounded && (has_gaps || !readable)
    }

    pub(super) fn take(&mut self, len: usize) {
        self.bytes += len;
        self.chunks += 1;
    }

    pub(super) fn release(&mut self, len: usize, chunks: usize) {
        self.bytes -= len;
        self.chunks -= chunks;
    }

    /// The application read `len` bytes. Only fast reading makes the window grow: an application that does not read never holds
    /// more than the initial limit.
    pub(super) fn on_read(&mut self, now: Timestamp, len: usize) {
        let (since, read) = self.read;
        if now > since + GROWS_WITHIN {
            self.read = (now, len);
            return;
        }
        self.read.1 = read + len;
        if self.read.1 >= self.limit && self.bytes <= self.limit / 4 {
            self.limit = (2 * self.limit).min(self.most);
            self.read = (now, 0);
        }
    }

    /// The current value of `a_rwnd`.
    pub(super) fn a_rwnd(&self) -> u32 {
        let left = self.limit.saturating_sub(self.bytes);
        let crumbs = left < CRUMB.min(self.limit / 2) || self.chunks >= self.max_chunks;
        if crumbs { 0 } else { left as u32 }
    }

    pub(super) fn on_advertised(&mut self) {
        self.last_advertised = self.a_rwnd() as usize;
    }

    /// Whether the window has grown so much since the last acknowledgement that the peer should learn of it.
    pub(super) fn has_opened(&self) -> bool {
        (self.a_rwnd() as usize).saturating_sub(self.last_advertised) >= self.limit / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn window(limit: u32) -> ReceiveWindow {
        ReceiveWindow::new(&BufferConfig {
            receive: limit,
            max_chunks: 16,
            ..Config::default().buffers
        })
    }

    #[test]
    fn crumbs_are_not_advertised() {
        let mut window = window(10_000);
        window.take(8_000);
        assert_eq!(window.a_rwnd(), 2_000);
        window.take(600);
        assert_eq!(window.a_rwnd(), 0);
        window.on_advertised();
        window.release(600, 1);
        assert!(!window.has_opened());
        window.release(8_000, 1);
        assert!(window.has_opened());
    }

    #[test]
    fn beyond_the_limit_only_chunks_that_make_progress_possible() {
        let mut window = window(10_000);
        window.take(10_000);
        assert!(!window.accepts(1000, false, true, true));
        assert!(
            !window.accepts(1000, true, false, true),
            "the application could read something"
        );
        assert!(window.accepts(1000, true, true, true));
        assert!(window.accepts(1000, true, false, false));
        window.take(9_500);
        assert!(
            !window.accepts(1000, true, true, true),
            "a hostile peer gets no further"
        );
        assert!(window.accepts(1000, true, true, false));
        window.take(1000);
        assert!(
            !window.accepts(1000, true, true, false),
            "nor where it sees to it that nothing can be read"
        );
    }

    #[test]
    fn a_chunk_larger_than_the_buffer_passes_when_nothing_else_can() {
        let mut window = window(1500);
        assert!(!window.accepts(60_000, false, true, false));
        assert!(window.accepts(60_000, true, false, false));
        window.take(1000);
        assert!(window.accepts(60_000, true, true, false));
    }

    #[test]
    fn chunks_are_bounded_whatever_their_size() {
        let mut window = window(10_000);
        (0..16).for_each(|_| window.take(1));
        assert_eq!(window.a_rwnd(), 0);
        assert!(!window.accepts(1, false, true, true));
    }
}
