//! The peer's receive window as the sender accounts for it, and the probing of a closed one (RFC 9260 §6.1 A, §6.2.1).

use core::time::Duration;

/// The state of a chunk that was sent beyond the window (window probe).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Probe {
    /// There is no such chunk, or the cumulative TSN ack point has moved since.
    #[default]
    None,
    /// The peer has sent no window since the chunk left, or since T3-rtx expired.
    Unanswered,
    /// The peer has sent a window and not taken the chunk: the peer is alive, however long its window stays closed.
    Answered,
}

/// `rwnd` of §6.2.1, and the probing of a closed window.
#[derive(Debug, Default)]
pub(crate) struct PeerWindow {
    /// The window as last advertised, in bytes.
    advertised: usize,
    /// The probe timer has expired and the window has not opened since: one chunk may leave whatever the window is.
    probe_due: bool,
    probe: Probe,
    /// Window probes since new data was last acknowledged, for the back-off.
    probes: u32,
    /// Data waited for the window at the last check.
    closed: bool,
}

impl PeerWindow {
    pub(crate) fn new(advertised: u32) -> Self {
        Self {
            advertised: advertised as usize,
            ..Self::default()
        }
    }

    /// Bytes that may still be sent while `in_flight` bytes are outstanding that the advertised window does not count yet.
    pub(crate) fn left(&self, in_flight: usize) -> usize {
        self.advertised.saturating_sub(in_flight)
    }

    /// An acknowledgement arrived, after which `in_flight` bytes are outstanding. It answers a probe if it has a window; a SHUTDOWN, which a
    /// timer sends, has none. Returns whether it opens the window after the peer dropped the probe: so the probe is to be sent again at once,
    /// because T3-rtx, which backed off while the window was closed, can take up to `RTO.Max`.
    pub(crate) fn on_ack(
        &mut self,
        a_rwnd: Option<u32>,
        cumulative_moved: bool,
        newly_acked: bool,
        in_flight: usize,
    ) -> bool {
        let dropped = self.dropped_probe(in_flight);
        if let Some(a_rwnd) = a_rwnd {
            self.advertised = a_rwnd as usize;
            if self.probe == Probe::Unanswered {
                self.probe = Probe::Answered;
            }
        }
        if newly_acked {
            self.probes = 0;
        }
        // Once the window covers the data in flight, none of it is beyond the window. If a later acknowledgement has a smaller window, it was
        // overtaken, and shows no dropped probe.
        let covers = a_rwnd.is_some() && self.advertised >= in_flight;
        let reopened = dropped && covers;
        if cumulative_moved || covers {
            self.probe = Probe::None;
        }
        reopened
    }

    /// Whether a chunk may leave at once though the window is too small for it, while nothing else is outstanding: the peer has
    /// accepted all data so far, so it may accept more than it advertises.
    ///
    /// §6.1 A makes the sender wait for an RTO before the first probe. But a receiver may advertise a few bytes and hand over
    /// a message in parts only when the next chunk arrives (Linux): it would get one buffer a second.
    pub(crate) fn probes_at_once(&self) -> bool {
        self.probes == 0
    }

    /// The time until the next probe; `rto` is doubled for each probe, up to `most`.
    pub(crate) fn probe_wait(&self, rto: Duration, most: Duration) -> Duration {
        rto.saturating_mul(1 << self.probes.saturating_sub(1).min(16))
            .min(most)
    }

    /// Whether the peer, rather than the network, dropped the data in flight: the data went beyond the window, the window is
    /// still too small for it, and the peer answers. If the window is large enough, the network lost the data.
    pub(crate) fn dropped_probe(&self, in_flight: usize) -> bool {
        self.probe == Probe::Answered && self.advertised < in_flight
    }

    /// The probe timer expired.
    pub(crate) fn on_probe_timer(&mut self) {
        self.probe_due = true;
    }

    /// Whether one chunk may leave whatever the window is, because the probe timer expired.
    pub(crate) fn is_probe_due(&self) -> bool {
        self.probe_due
    }

    /// A chunk leaves; returns whether it is the window probe that was due.
    pub(crate) fn take_due_probe(&mut self) -> bool {
        core::mem::take(&mut self.probe_due)
    }

    /// A chunk leaves beyond the window.
    pub(crate) fn on_probe(&mut self) {
        self.probe = Probe::Unanswered;
        self.probes += 1;
    }

    /// T3-rtx expired: the peer has to answer again.
    pub(crate) fn on_timeout(&mut self) {
        if self.probe == Probe::Answered {
            self.probe = Probe::Unanswered;
        }
    }

    /// Data waits for the window; returns whether that was not known.
    pub(crate) fn note_closed(&mut self) -> bool {
        !core::mem::replace(&mut self.closed, true)
    }

    /// Whether data waited for the window at the last check.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The next chunk fits the window: no probe is needed.
    pub(crate) fn note_open(&mut self) {
        self.closed = false;
        self.probe_due = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 100 bytes, and a probe of 500 bytes beyond it.
    fn probed() -> PeerWindow {
        let mut window = PeerWindow::new(100);
        window.on_probe();
        window
    }

    #[test]
    fn a_peer_that_answers_and_takes_nothing_dropped_the_probe() {
        let mut window = probed();
        assert!(!window.dropped_probe(500), "the peer has not answered");
        assert!(!window.on_ack(Some(100), false, false, 500));
        assert!(window.dropped_probe(500));
        assert!(!window.on_ack(Some(499), false, false, 500), "still too small");
        assert!(window.on_ack(Some(500), false, false, 500));
        assert!(!window.dropped_probe(500), "the window is large enough");
        window.on_ack(Some(100), false, false, 500);
        assert!(
            !window.on_ack(Some(900), false, false, 500),
            "that data fitted the window"
        );
    }

    #[test]
    fn a_window_that_opens_before_the_peer_answered_says_nothing_of_the_probe() {
        let mut window = probed();
        assert!(!window.on_ack(Some(500), false, false, 500));
        let mut window = probed();
        window.on_ack(Some(100), false, false, 500);
        assert!(!window.on_ack(Some(500), true, true, 0), "the peer took it");
    }

    #[test]
    fn an_overtaken_window_says_nothing_of_a_probe_that_had_space() {
        let mut window = probed();
        assert!(!window.on_ack(Some(900), false, false, 500), "the window opened");
        assert!(
            !window.on_ack(Some(100), false, false, 900),
            "a copy of the window before"
        );
        assert!(!window.dropped_probe(900));
        assert!(
            !window.on_ack(Some(900), false, false, 900),
            "a copy of the new window"
        );
    }

    #[test]
    fn each_timeout_asks_for_another_answer() {
        let mut window = probed();
        window.on_ack(Some(100), false, false, 500);
        window.on_timeout();
        assert!(!window.dropped_probe(500));
        window.on_ack(None, false, false, 500);
        assert!(!window.dropped_probe(500), "a SHUTDOWN has no window");
        window.on_ack(Some(100), false, false, 500);
        assert!(window.dropped_probe(500));
    }

    #[test]
    fn a_probe_that_is_taken_is_none_any_more() {
        let mut window = probed();
        window.on_ack(Some(100), true, true, 500);
        window.on_ack(Some(100), false, false, 500);
        assert!(!window.dropped_probe(500));
        window.on_timeout();
        window.on_ack(Some(100), false, false, 500);
        assert!(!window.dropped_probe(500), "no timeout makes a probe");
    }

    #[test]
    fn probes_back_off_until_new_data_is_acknowledged() {
        let (rto, most) = (Duration::from_secs(1), Duration::from_secs(60));
        let mut window = PeerWindow::new(100);
        assert!(window.probes_at_once());
        for seconds in [1, 2, 4] {
            window.on_probe();
            assert!(!window.probes_at_once());
            assert_eq!(window.probe_wait(rto, most), Duration::from_secs(seconds));
        }
        window.on_ack(Some(100), false, true, 500);
        assert!(window.probes_at_once());
    }

    #[test]
    fn the_timer_lets_one_chunk_leave() {
        let mut window = PeerWindow::new(100);
        window.on_probe_timer();
        assert!(window.is_probe_due());
        assert!(window.take_due_probe());
        assert!(!window.is_probe_due() && !window.take_due_probe());
        window.on_probe_timer();
        window.note_open();
        assert!(!window.is_probe_due(), "the window opened first");
    }

    #[test]
    fn a_closed_window_is_news_once() {
        let mut window = PeerWindow::new(100);
        assert!(window.note_closed() && !window.note_closed());
        window.note_open();
        assert!(!window.is_closed() && window.note_closed());
    }
}
