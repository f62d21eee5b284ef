//! The peer's receive window, as this side must reckon with it (RFC 9260 §6.1 A, §6.2.1).

use core::time::Duration;

/// `rwnd` of §6.2.1, and the probing of a closed one.
#[derive(Debug, Default)]
pub(crate) struct PeerWindow {
    /// As last advertised.
    advertised: usize,
    /// The probe timer has expired: one chunk may leave whatever the window.
    pub(crate) probe_now: bool,
    /// A chunk was sent beyond the window and is not acknowledged.
    pub(crate) probing: bool,
    /// The peer sent a SACK since the last probe: it is alive, however long its window stays closed.
    pub(crate) answered: bool,
    /// Probes since new data was last acknowledged, for the back-off.
    probes: u32,
    /// Data waited for the window when last looked at.
    closed: bool,
}

impl PeerWindow {
    pub(crate) fn new(advertised: u32) -> Self {
        Self {
            advertised: advertised as usize,
            ..Self::default()
        }
    }

    /// Bytes that may still be sent while `in_flight` bytes are: the peer did not count those.
    pub(crate) fn left(&self, in_flight: usize) -> usize {
        self.advertised.saturating_sub(in_flight)
    }

    /// An acknowledgement came. One with a window answers a probe of it; a SHUTDOWN, which a timer sends, does not.
    pub(crate) fn on_ack(&mut self, a_rwnd: Option<u32>, cumulative_moved: bool, newly_acked: bool) {
        if let Some(a_rwnd) = a_rwnd {
            self.advertised = a_rwnd as usize;
            self.answered = true;
        }
        if cumulative_moved {
            self.probing = false;
        }
        if newly_acked {
            self.probes = 0;
        }
    }

    /// Whether a chunk may leave at once though the window is too small for it, while nothing else is outstanding: the peer
    /// takes what it is sent, so the window may be smaller than what it has room for.
    ///
    /// §6.1 A would have the sender wait for an RTO before the first probe. But a receiver may announce a few bytes and hand over
    /// a message in parts only when the next chunk comes (Linux), and would get one buffer a second.
    pub(crate) fn probes_at_once(&self) -> bool {
        self.probes == 0
    }

    /// How long to wait for the next probe, with this RTO.
    pub(crate) fn probe_wait(&self, rto: Duration, most: Duration) -> Duration {
        rto.saturating_mul(1 << self.probes.saturating_sub(1).min(16))
            .min(most)
    }

    /// Whether the peer, rather than the network, dropped what is in flight: it went beyond the window, which is still too
    /// small for it, and the peer answers. Once there is room for it, it was lost on its way like any other.
    pub(crate) fn dropped_probe(&self, in_flight: usize) -> bool {
        self.probing && self.answered && self.advertised < in_flight
    }

    /// A chunk leaves beyond the window.
    pub(crate) fn on_probe(&mut self) {
        self.probing = true;
        self.answered = false;
        self.probes += 1;
    }

    /// Data waits for the window; answers whether that is news.
    pub(crate) fn note_closed(&mut self) -> bool {
        !core::mem::replace(&mut self.closed, true)
    }

    /// Whether data waited for the window when last looked at.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn note_open(&mut self) {
        self.closed = false;
    }
}
