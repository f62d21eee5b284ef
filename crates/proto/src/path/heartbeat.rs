//! Path heartbeat: reachability and confirmation of addresses (RFC 9260 §5.4, §8.3).

use core::time::Duration;

use anabranch_wire::chunk::{self, Chunk};

use super::{HeartbeatAnswer, HeartbeatInfo, Path, PathId, PathState, Paths};
use crate::config::Config;
use crate::controller::Controller;
use crate::random::Random;
use crate::time::Timestamp;

/// How long a path behind an address translator may be silent. Translators keep a mapping for UDP for two minutes or longer (RFC 4787 REQ-5),
/// but many deployed ones for 30 seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(25);

impl Path {
    /// Builds a HEARTBEAT for this path, which is then pending, and schedules the next one.
    pub(crate) fn new_heartbeat(&mut self, now: Timestamp, config: &Config, random: &mut Random) -> Chunk {
        let info = HeartbeatInfo {
            path: self.id,
            sent_at: now,
            nonce: random.next_u64(),
        };
        self.heartbeat.pending = Some(info);
        self.route.on_asked();
        if config.retransmissions.fails_potentially() {
            self.heartbeat.due = Some(now + self.rtt.rto());
        } else {
            self.schedule_heartbeat(now, random);
        }
        Chunk::Heartbeat(chunk::Heartbeat::new(info.encode()))
    }

    /// Schedules the next heartbeat. On a potentially failed path it is due after an RTO (RFC 7829 §3.2).
    pub(crate) fn schedule_heartbeat(&mut self, now: Timestamp, random: &mut Random) {
        let jitter = random.jitter();
        let period = if self.state == PathState::PotentiallyFailed {
            self.parameters.heartbeat_interval.map(|_| self.rtt.rto())
        } else {
            self.heartbeat_period(jitter)
        };
        self.heartbeat.due = period.map(|period| now + period);
    }

    /// The time until the next heartbeat (§8.3): the RTO with a jitter of half of it, plus `HB.interval` unless the address is still
    /// unconfirmed and its error counter has not exceeded `Path.Max.Retrans` (§5.4).
    fn heartbeat_period(&self, jitter: f64) -> Option<Duration> {
        let rto = self.rtt.rto();
        let has_hope = self.error_count <= self.parameters.max_retrans;
        if self.state == PathState::Unconfirmed && has_hope {
            return Some(rto);
        }
        let interval = self.parameters.heartbeat_interval;
        let longest = self.parameters.longest_silence.unwrap_or(Duration::MAX);
        interval.map(|interval| (rto.mul_f64(1.0 + jitter) + interval).min(longest))
    }

    /// The path may lead through an address translator: its heartbeats keep the mapping.
    pub(crate) fn keep_mapping(&mut self, now: Timestamp) {
        self.parameters.longest_silence = Some(LONGEST_SILENCE);
        self.heartbeat.due = self.heartbeat.due.map(|due| due.min(now + LONGEST_SILENCE));
    }

    /// A HEARTBEAT ACK with this information arrived.
    pub(crate) fn on_heartbeat_ack(&mut self, now: Timestamp, info: &HeartbeatInfo) -> HeartbeatAnswer {
        if self.pmtu.on_answer(now, info.nonce) {
            self.control.on_packet_size(self.pmtu.max_data());
            return HeartbeatAnswer::Probe;
        }
        if self.heartbeat.pending != Some(*info) {
            return HeartbeatAnswer::Nothing;
        }
        self.heartbeat.pending = None;
        self.rtt.on_sample(now.saturating_duration_since(info.sent_at));
        HeartbeatAnswer::Heartbeat {
            confirms: self.state == PathState::Unconfirmed,
        }
    }

    /// Whether the next heartbeat waits for its usual time after an error. RFC 7829 §3.2 counts a heartbeat as unanswered one RTO
    /// after it left, before the next one is due; only on a path that is potentially failed the next one leaves at once.
    pub(crate) fn rests_after_error(&self, config: &Config) -> bool {
        config.retransmissions.fails_potentially()
            && matches!(self.state, PathState::Active | PathState::Inactive)
    }
}

impl Paths {
    /// Whether a path needs a heartbeat. Data in flight tests a path too, and measures its RTT if it was not sent before (§8.3: a path is
    /// idle if nothing was sent there that can be used for updating its RTT).
    pub(crate) fn needs_heartbeat(&self, id: PathId) -> bool {
        let path = self.path(id);
        match path.state {
            _ if path.route.removed => false,
            PathState::Active => !path.flight.measures(),
            // Data goes there only if no path is active, and then tests the path (RFC 7829 §3.2 item 6).
            PathState::PotentiallyFailed => path.flight.is_empty() || self.data_path() != id,
            PathState::Unconfirmed | PathState::Inactive => true,
        }
    }
}
