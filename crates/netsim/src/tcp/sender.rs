//! The TCP sender: decides what to send and when, and handles acknowledgements.
//!
//! The network polls for segments, and the sender creates them then, so this module has no queue.

use core::time::Duration;

use anabranch_proto::Timestamp;

use super::config::{Recovery, TcpConfig};
use super::rto::Rto;
use super::scoreboard::{DUP_THRESH, Scoreboard};
use super::segment::{Segment, SynOptions};
use super::timer::Timer;
use super::timestamp_value;
use super::window::Window;

/// A sender's counters and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TcpStats {
    /// Bytes of data acknowledged: what the connection achieved.
    pub bytes_acked: u64,
    /// Segments with data sent, including retransmissions.
    pub segments_sent: u64,
    /// Segments sent whose first byte had been sent before.
    pub retransmitted: u64,
    /// Expiries of the retransmission timer, including those of the SYN.
    pub timeouts: u64,
    /// Fast recoveries begun.
    pub fast_recoveries: u64,
    /// The congestion window in bytes.
    pub congestion_window: u64,
    /// The smoothed round-trip time; `None` before the first measurement.
    pub smoothed_round_trip: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// A SYN is pending or was sent.
    Opening {
        syn_due: bool,
        retransmitted: bool,
    },
    Open,
}

/// The state of loss recovery.
#[derive(Clone, Debug, Default)]
struct Repair {
    /// Fast recovery is on.
    recovering: bool,
    /// The end of the data sent when the latest recovery or timeout began (`recover`, `RecoveryPoint`).
    recover: u64,
    dup_acks: usize,
    /// Bytes sent by limited transmit for the current duplicates.
    limited: u64,
    /// In NewReno: a partial acknowledgement came in this recovery.
    partial: bool,
    /// Retransmit the first unacknowledged segment now, whatever the window.
    retransmit_first: bool,
    /// `una` at the latest expiry of the timer.
    timed_out: Option<u64>,
    scoreboard: Scoreboard,
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    config: TcpConfig,
    state: State,
    /// The first unacknowledged sequence number; 0 is the SYN, and data begins with 1.
    una: u64,
    /// The next sequence number to send; below `high` after a timeout.
    next: u64,
    /// The end of all data ever sent.
    high: u64,
    /// The end of all data written by the application.
    written: u64,
    peer_window: u64,
    window: Window,
    repair: Repair,
    rto: Rto,
    timer: Timer,
    /// The segment being timed: its end, and when it was sent.
    measured: Option<(u64, Timestamp)>,
    /// The peer's timestamp, to be echoed.
    echo: u32,
    last_sent: Timestamp,
    stats: TcpStats,
}

impl Sender {
    pub(super) fn new(config: TcpConfig) -> Self {
        Self {
            state: State::Closed,
            una: 0,
            next: 0,
            high: 0,
            written: 1,
            peer_window: 0,
            window: Window::new(&config),
            repair: Repair::default(),
            rto: Rto::new(&config),
            timer: Timer::default(),
            measured: None,
            echo: 0,
            last_sent: Timestamp::ZERO,
            stats: TcpStats::default(),
            config,
        }
    }

    pub(super) fn stats(&self) -> TcpStats {
        TcpStats {
            congestion_window: self.window.size,
            smoothed_round_trip: self.rto.smoothed(),
            ..self.stats
        }
    }

    /// Opens the connection, if it is not open yet.
    pub(super) fn open(&mut self) {
        if self.state == State::Closed {
            self.state = State::Opening {
                syn_due: true,
                retransmitted: false,
            };
        }
    }

    /// The application writes this many further bytes.
    pub(super) fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// Discards written data that was not sent yet.
    pub(super) fn withdraw(&mut self) {
        self.written = self.high.max(1);
    }

    /// Whether all written data has been acknowledged.
    pub(super) fn all_acknowledged(&self) -> bool {
        self.una == self.written
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.timer.wake()
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if !self.timer.fire(now) {
            return;
        }
        self.stats.timeouts += 1;
        self.rto.back_off();
        self.measured = None;
        if let State::Opening {
            syn_due,
            retransmitted,
        } = &mut self.state
        {
            (*syn_due, *retransmitted) = (true, true);
            return;
        }
        // The threshold stays if the same segment is lost again (RFC 5681 §3.1).
        if self.repair.timed_out != Some(self.una) {
            let mut outstanding = self.next - self.una;
            if self.repair.recovering {
                // The window was already halved for this loss, and duplicates have inflated it since. So the reduced window counts, not the
                // bytes outstanding. RFC 5681 sets half of the outstanding bytes as an upper bound, so a smaller window is allowed.
                outstanding = outstanding.min(self.window.ssthresh);
            }
            self.window.lose(outstanding);
        }
        self.window.collapse();
        let mut scoreboard = core::mem::take(&mut self.repair.scoreboard);
        scoreboard.clear();
        self.repair = Repair {
            recover: self.high,
            timed_out: Some(self.una),
            scoreboard,
            ..Repair::default()
        };
        self.next = self.una;
    }

    pub(super) fn handle_segment(&mut self, now: Timestamp, segment: &Segment) {
        let Some(ack) = segment.acknowledgement.filter(|&ack| ack <= self.high) else {
            return;
        };
        if let Some((value, _)) = segment.timestamps {
            self.echo = value;
        }
        match self.state {
            State::Opening { retransmitted, .. } if segment.syn.is_some() && ack == 1 => {
                self.handle_syn_ack(now, retransmitted, segment);
            }
            State::Open if segment.syn.is_none() && ack >= self.una => {
                self.handle_ack(now, ack, segment);
            }
            _ => {}
        }
    }

    fn handle_syn_ack(&mut self, now: Timestamp, retransmitted: bool, segment: &Segment) {
        self.state = State::Open;
        self.una = 1;
        self.peer_window = segment.window.into();
        self.timer.stop();
        if retransmitted {
            self.rto.begin_after_lost_syn();
            self.window.collapse();
        } else {
            self.rto.measure(now.saturating_duration_since(self.last_sent));
        }
    }

    fn handle_ack(&mut self, now: Timestamp, ack: u64, segment: &Segment) {
        self.peer_window = segment.window.into();
        let mss = self.config.segment_len();
        let sack = self.config.recovery == Recovery::Sack;
        let news = sack
            && self
                .repair
                .scoreboard
                .update(segment.sack.as_slice(), ack, self.high, mss);
        if ack > self.una {
            self.advance(now, ack, segment);
        } else if self.high > self.una && segment.len == 0 && (news || !sack) {
            // With SACK, an acknowledgement is a duplicate if its blocks have new information (RFC 6675 §2).
            self.handle_duplicate(now);
        }
        if sack && self.repair.recovering {
            self.repair.scoreboard.set_pipe(self.una, self.high);
        }
    }

    /// Handles an acknowledgement of new data.
    fn advance(&mut self, now: Timestamp, ack: u64, segment: &Segment) {
        self.measure(now, ack, segment);
        let (acked, outstanding) = (ack - self.una, self.next.saturating_sub(self.una));
        self.una = ack;
        self.next = self.next.max(ack);
        self.stats.bytes_acked += acked;
        let mut restart_timer = true;
        if self.repair.recovering {
            restart_timer = self.continue_recovery(acked);
        } else {
            self.repair.dup_acks = 0;
            self.repair.limited = 0;
            // The window must not grow if the sender did not use it.
            if outstanding + self.config.segment_len() > self.window.size {
                let round_trip = self.rto.smoothed().unwrap_or_default();
                self.window.grow(now, acked, round_trip);
            } else {
                self.window.pause(now);
            }
            self.window.handle_ack(now, ack, self.next);
        }
        if self.una == self.high {
            self.timer.stop();
        } else if restart_timer {
            self.timer.set(now + self.rto.timeout());
        }
    }

    /// Takes at most one measurement per round-trip time, and without timestamps none of retransmitted data (RFC 6298 §3).
    fn measure(&mut self, now: Timestamp, ack: u64, segment: &Segment) {
        let Some((_, sent)) = self.measured.filter(|&(end, _)| end <= ack) else {
            return;
        };
        self.measured = None;
        let round_trip = match segment.timestamps {
            Some((_, echo)) => Duration::from_millis(timestamp_value(now).wrapping_sub(echo).into()),
            None => now.saturating_duration_since(sent),
        };
        self.rto.measure(round_trip);
    }

    /// Handles an acknowledgement of new data during fast recovery. Returns whether to restart the retransmission timer.
    fn continue_recovery(&mut self, acked: u64) -> bool {
        let mss = self.config.segment_len();
        let whole = self.una >= self.repair.recover;
        match self.config.recovery {
            Recovery::Sack if !whole => return true,
            Recovery::NewReno if !whole => {
                self.repair.retransmit_first = true;
                let deflated = self.window.size.saturating_sub(acked);
                self.window.size = deflated.max(mss) + if acked >= mss { mss } else { 0 };
                return !core::mem::replace(&mut self.repair.partial, true);
            }
            // The first of the two alternatives of RFC 6582 §3.2 step 3, which sends no burst.
            Recovery::NewReno => {
                let outstanding = self.next - self.una;
                self.window.size = self.window.ssthresh.min(outstanding.max(mss) + mss);
            }
            Recovery::Reno | Recovery::Sack => self.window.size = self.window.ssthresh,
        }
        self.repair.recovering = false;
        self.repair.dup_acks = 0;
        self.repair.limited = 0;
        true
    }

    fn handle_duplicate(&mut self, now: Timestamp) {
        let repair = &mut self.repair;
        let sack = self.config.recovery == Recovery::Sack;
        repair.dup_acks += 1;
        if repair.recovering {
            if !sack {
                self.window.size += self.config.segment_len();
            }
            return;
        }
        let lost = repair.dup_acks >= DUP_THRESH || (sack && repair.scoreboard.is_lost(self.una));
        // Without SACK, duplicate acknowledgements for spurious retransmissions look like those of a loss.
        let of_this_window = self.una > repair.recover || (sack && self.una == repair.recover);
        if lost && of_this_window {
            self.begin_recovery(now);
        }
    }

    fn begin_recovery(&mut self, now: Timestamp) {
        let mss = self.config.segment_len();
        let end = self.first_segment_end();
        let repair = &mut self.repair;
        self.stats.fast_recoveries += 1;
        self.window
            .lose((self.high - self.una).saturating_sub(repair.limited));
        self.window.size = self.window.ssthresh;
        if self.config.recovery == Recovery::Sack {
            repair.scoreboard.begin(end);
        } else {
            self.window.size += DUP_THRESH as u64 * mss;
        }
        repair.recovering = true;
        repair.recover = self.high;
        repair.partial = false;
        repair.retransmit_first = true;
        self.timer.set(now + self.rto.timeout());
    }

    /// The end of the segment that begins with the first unacknowledged byte.
    fn first_segment_end(&self) -> u64 {
        let end = self.high.min(self.una + self.config.segment_len());
        let (_, reported) = self.repair.scoreboard.skip(self.una);
        reported.map_or(end, |reported| reported.min(end))
    }

    pub(super) fn poll_transmit(&mut self, now: Timestamp) -> Option<Segment> {
        match &mut self.state {
            State::Closed => None,
            State::Opening { syn_due, .. } => core::mem::take(syn_due).then(|| self.make_syn(now)),
            State::Open => {
                let (sequence, len) = self.next_to_send(now)?;
                Some(self.make_segment(now, sequence, len))
            }
        }
    }

    fn next_to_send(&mut self, now: Timestamp) -> Option<(u64, u64)> {
        if core::mem::take(&mut self.repair.retransmit_first) {
            return Some((self.una, self.first_segment_end() - self.una));
        }
        if self.repair.recovering && self.config.recovery == Recovery::Sack {
            self.next_by_scoreboard()
        } else {
            self.next_in_window(now)
        }
    }

    /// `NextSeg` of RFC 6675 §4, while fewer bytes are in flight than the window allows.
    fn next_by_scoreboard(&mut self) -> Option<(u64, u64)> {
        let (una, high, mss) = (self.una, self.high, self.config.segment_len());
        let (recover, size) = (self.repair.recover, self.window.size);
        let board = &mut self.repair.scoreboard;
        if board.pipe + mss > size {
            return None;
        }
        let mut chosen = board.next_hole(una, mss, false);
        if chosen.is_none() {
            chosen = self.next_new(self.next);
        }
        let board = &mut self.repair.scoreboard;
        let chosen = chosen
            .or_else(|| board.next_hole(una, mss, true))
            .or_else(|| board.rescue(una, high, mss, recover));
        board.pipe += chosen?.1;
        chosen
    }

    /// The next segment in order, if the congestion window allows it.
    fn next_in_window(&mut self, now: Timestamp) -> Option<(u64, u64)> {
        let idle = now.saturating_duration_since(self.last_sent);
        if self.una == self.high {
            self.window.pause(now);
            if idle > self.rto.timeout() {
                self.window.restart();
            }
        }
        // After a timeout, SACKed data need not be retransmitted.
        let (from, reported) = self.repair.scoreboard.skip(self.next);
        let (sequence, mut len) = self.next_new(from)?;
        if let Some(reported) = reported {
            len = len.min(reported - sequence);
        }
        let limited = self.allows_limited_transmit();
        let mut allowed = self.window.size;
        let outstanding = if self.config.limited_transmit {
            self.repair.scoreboard.missing(self.una, from)
        } else {
            from - self.una
        };
        if limited {
            allowed += self.repair.dup_acks.min(DUP_THRESH - 1) as u64 * self.config.segment_len();
        }
        if outstanding + len > allowed {
            return None;
        }
        if self.repair.dup_acks > 0 && !self.repair.recovering {
            self.repair.limited += len;
        }
        self.next = sequence;
        Some((sequence, len))
    }

    /// Whether the first duplicates, which may be due to reordering, allow new segments (RFC 3042). With SACK they do so by themselves.
    fn allows_limited_transmit(&self) -> bool {
        self.config.limited_transmit
            && self.config.recovery != Recovery::Sack
            && !self.repair.recovering
            && self.next == self.high
    }

    /// A segment that begins at `from`, within the written data and the peer's receive window.
    fn next_new(&self, from: u64) -> Option<(u64, u64)> {
        let len = self.config.segment_len().min(self.written.saturating_sub(from));
        (len > 0 && from + len <= self.una + self.peer_window).then_some((from, len))
    }

    fn make_syn(&mut self, now: Timestamp) -> Segment {
        self.high = 1;
        self.next = 1;
        self.last_sent = now;
        self.timer.set(now + self.rto.timeout());
        Segment {
            syn: Some(SynOptions {
                mss: self.config.mss,
                sack_permitted: self.config.recovery == Recovery::Sack,
            }),
            window: self.config.receive_window,
            window_shift: self.config.window_shift(),
            timestamps: self.config.timestamps.then_some((timestamp_value(now), 0)),
            ..Segment::default()
        }
    }

    fn make_segment(&mut self, now: Timestamp, sequence: u64, len: u64) -> Segment {
        let end = sequence + len;
        let retransmitted = sequence < self.high;
        self.stats.segments_sent += 1;
        self.stats.retransmitted += u64::from(retransmitted);
        if retransmitted && !self.config.timestamps {
            self.measured = None;
        } else if self.measured.is_none() {
            self.measured = Some((end, now));
        }
        if sequence == self.next {
            self.next = end;
        }
        if !retransmitted {
            self.window.handle_sent(now, end);
        }
        self.high = self.high.max(end);
        self.last_sent = now;
        // RFC 6675 §6 allows a retransmission in recovery to restart the timer. Otherwise the timer often expires just before the
        // acknowledgement of a hole that was found and retransmitted late.
        let retransmitted_in_recovery =
            retransmitted && self.repair.recovering && self.config.recovery == Recovery::Sack;
        if !self.timer.is_set() || retransmitted_in_recovery {
            self.timer.set(now + self.rto.timeout());
        }
        Segment {
            sequence,
            acknowledgement: Some(1),
            len: len as u16,
            window: self.config.receive_window,
            window_shift: self.config.window_shift(),
            timestamps: self
                .config
                .timestamps
                .then_some((timestamp_value(now), self.echo)),
            ..Segment::default()
        }
    }
}

#[cfg(test)]
mod tests;
