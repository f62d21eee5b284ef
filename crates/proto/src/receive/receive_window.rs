//! Owns the advertised receiver window and the amount of data that the receiver holds (RFC 9260 §6.2): its bytes of user data, and the
//! memory that it costs.

use core::time::Duration;

use super::load::{Load, OVERHEAD};
use crate::config::BufferConfig;
use crate::time::Timestamp;

/// Bytes. A window smaller than a full packet is advertised as 0, so that the peer sends no small packets (silly window syndrome avoidance,
/// RFC 1122 §4.2.3.3).
const CRUMB: usize = 1500;

/// If an application reads a whole window within this time, the window would limit the rate on any path with a longer round-trip time, so
/// the window grows.
const GROWS_WITHIN: Duration = Duration::from_millis(500);

/// Bytes of memory that every association may use beyond twice its receive buffer, so that a small one takes some chunks and messages too.
pub(super) const SPARE: usize = 32 << 10;

/// The memory in bytes that data may cost if the window is this large. Messages of 256 bytes and more reach the end of the window before they
/// reach this limit.
pub(super) fn memory_limit(window: usize) -> usize {
    2 * window + SPARE
}

/// The data that the receiver holds, and the limits.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    limit: usize,
    /// The largest value of `limit`.
    most: usize,
    /// Data read since this time.
    read: (Timestamp, Load),
    held: Load,
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
            read: (Timestamp::ZERO, Load::default()),
            held: Load::default(),
            last_advertised: limit,
        }
    }

    /// The data that the receiver holds.
    pub(super) fn held(&self) -> Load {
        self.held
    }

    /// Whether the receiver may accept a chunk with `len` bytes. `overhead`: the memory that the receiver uses beside chunks. `closes_gap`: the
    /// chunk has the next TSN in order. `readable`: the application could read something.
    ///
    /// A chunk that closes the lowest gap is accepted beyond the limits, because the data above the gap waits for it: up to twice the limit
    /// of bytes, and as much more memory as an incomplete message may cost before it is delivered in parts. It is also accepted if the
    /// application can read nothing, because nothing else would open the window. A peer that keeps the rules does not get so far: the
    /// data above the gap was accepted within the limits, and an incomplete message below it is delivered in parts from half of the limits on.
    /// A single chunk may be larger than all that.
    pub(super) fn accepts(
        &self,
        len: usize,
        overhead: usize,
        closes_gap: bool,
        has_gaps: bool,
        readable: bool,
    ) -> bool {
        let memory = self.held.memory() + overhead + OVERHEAD;
        let limit = memory_limit(self.limit);
        if self.held.bytes + len <= self.limit && memory + len <= limit {
            return true;
        }
        let added = if readable { len } else { 1 };
        let bounded = self.held.bytes + added <= 2 * self.limit && memory + added <= limit + limit / 2;
        closes_gap && bounded && (has_gaps || !readable)
    }

    pub(super) fn take(&mut self, load: Load) {
        self.held += load;
    }

    pub(super) fn release(&mut self, load: Load) {
        self.held -= load;
    }

    /// The application read this data. Only fast reading makes the window grow: an application that does not read never holds
    /// more than the initial limit.
    pub(super) fn on_read(&mut self, now: Timestamp, load: Load) {
        let (since, read) = &mut self.read;
        if now > *since + GROWS_WITHIN {
            self.read = (now, load);
            return;
        }
        *read += load;
        let memory = memory_limit(self.limit);
        let whole = read.bytes >= self.limit || read.memory() >= memory;
        if whole && self.held.bytes <= self.limit / 4 && self.held.memory() <= memory / 4 {
            self.limit = (2 * self.limit).min(self.most);
            self.read = (now, Load::default());
        }
    }

    /// The current value of `a_rwnd`. `overhead` is that of [`ReceiveWindow::accepts`].
    pub(super) fn a_rwnd(&self, overhead: usize) -> u32 {
        let memory = self.held.memory() + overhead + OVERHEAD;
        let left = self.limit.saturating_sub(self.held.bytes);
        let left = left.min(memory_limit(self.limit).saturating_sub(memory));
        if left < CRUMB.min(self.limit / 2) {
            0
        } else {
            left as u32
        }
    }

    /// This window was advertised.
    pub(super) fn on_advertised(&mut self, a_rwnd: u32) {
        self.last_advertised = a_rwnd as usize;
    }

    /// Whether the window has grown so much since the last acknowledgement that the peer should learn of it.
    pub(super) fn has_opened(&self, overhead: usize) -> bool {
        (self.a_rwnd(overhead) as usize).saturating_sub(self.last_advertised) >= self.limit / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn window(limit: u32) -> ReceiveWindow {
        ReceiveWindow::new(&BufferConfig {
            receive: limit,
            ..Config::default().buffers
        })
    }

    /// A chunk with this many bytes of user data.
    fn chunk(bytes: usize) -> Load {
        Load {
            bytes,
            kept: bytes,
            chunks: 1,
        }
    }

    #[test]
    fn crumbs_are_not_advertised() {
        let mut window = window(10_000);
        window.take(chunk(8_000));
        assert_eq!(window.a_rwnd(0), 2_000);
        window.take(chunk(600));
        assert_eq!(window.a_rwnd(0), 0);
        window.on_advertised(0);
        window.release(chunk(600));
        assert!(!window.has_opened(0));
        window.release(chunk(8_000));
        assert!(window.has_opened(0));
    }

    #[test]
    fn beyond_the_limit_only_chunks_that_make_progress_possible() {
        let mut window = window(10_000);
        window.take(chunk(10_000));
        assert!(!window.accepts(1000, 0, false, true, true));
        assert!(
            !window.accepts(1000, 0, true, false, true),
            "the application could read something"
        );
        assert!(window.accepts(1000, 0, true, true, true));
        assert!(window.accepts(1000, 0, true, false, false));
        window.take(chunk(9_500));
        assert!(
            !window.accepts(1000, 0, true, true, true),
            "a hostile peer gets no further"
        );
        assert!(window.accepts(1000, 0, true, true, false));
        window.take(chunk(1000));
        assert!(
            !window.accepts(1000, 0, true, true, false),
            "nor where it sees to it that nothing can be read"
        );
    }

    #[test]
    fn a_chunk_larger_than_the_buffer_passes_when_nothing_else_can() {
        let mut window = window(1500);
        assert!(!window.accepts(60_000, 0, false, true, false));
        assert!(window.accepts(60_000, 0, true, false, false));
        window.take(chunk(1000));
        assert!(window.accepts(60_000, 0, true, true, false));
    }

    #[test]
    fn memory_is_bounded_whatever_the_size_of_chunks_is() {
        let mut window = window(10_000);
        let most = (20_000 + SPARE) / (1 + OVERHEAD);
        (0..most).for_each(|_| window.take(chunk(1)));
        assert_eq!(window.a_rwnd(0), 0);
        assert!(!window.accepts(1, 0, false, true, true));
        (0..most / 2).for_each(|_| window.take(chunk(1)));
        assert!(!window.accepts(1, 0, true, true, true), "beyond a gap");
        assert!(!window.accepts(1, 0, true, true, false));
    }

    #[test]
    fn memory_beside_the_chunks_counts() {
        let window = window(10_000);
        assert_eq!(window.a_rwnd(20_000), 10_000);
        assert_eq!(window.a_rwnd(20_000 + SPARE - 5_000), 5_000 - OVERHEAD as u32);
        assert!(!window.accepts(1, 20_000 + SPARE - OVERHEAD, false, true, true));
    }

    #[test]
    fn messages_of_256_bytes_have_the_whole_window() {
        for len in [256, 1024] {
            let mut window = window(1 << 20);
            for held in 0..(1 << 20) / len {
                assert!(window.accepts(len, 0, false, true, true));
                let left = (1 << 20) - held * len;
                let crumb = left < CRUMB;
                assert_eq!(window.a_rwnd(0) as usize, if crumb { 0 } else { left });
                window.take(chunk(len));
            }
        }
    }
}
