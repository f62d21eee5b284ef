//! The paths of an association. Each has its own RTT and RTO (`rtt`, RFC 9260 §6.3.1), flight (`flight`), T3-rtx (§6.3.2), error counter
//! (`failure`, §8.2), heartbeat (§8.3), path MTU (`pmtu`, §7.3) and congestion controller (§7.2). `selection` chooses the path of a
//! packet (§6.4), `multipath` that of a packet when several paths are used at once.

mod arrival;
mod candidate_port;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod controller_model;
mod copy_need;
mod delivery;
mod departure;
mod dynamic;
mod failure;
mod flight;
mod gates;
mod heartbeat;
mod heartbeat_info;
mod local_address;
mod loss_timers;
mod multipath;
mod parameters;
mod pmtu;
mod ports;
mod probe;
mod rate;
mod route;
mod rtt;
mod selection;
mod settings;

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

pub(crate) use copy_need::CopyNeed;
pub(crate) use departure::{Load, Offer};
pub(crate) use flight::{Fate, Flight, FlightProgress, SendNo, Sending};
pub(crate) use heartbeat_info::{Heartbeat, HeartbeatAnswer, HeartbeatInfo};
pub(crate) use local_address::set_up_address;
pub(crate) use loss_timers::LossTimers;
use loss_timers::Unanswered;
pub(crate) use multipath::bit;
pub(crate) use pmtu::Pmtu;
pub(crate) use rtt::{LEAST_RTT_SECONDS, Rtt, WindowedMinimum};
pub(crate) use selection::{Candidate, Paths};

use crate::config::Config;
use crate::congestion::{AnyController, Member, ProportionalRateReduction, RecoveryAck};
use crate::controller::{Controller, LostPacket, RateSample, Reduction, Report, SentPacket};
use crate::extension::early_copies::CopiesInFlight;
use crate::message::Persistence;
use crate::pacing::Pacer;
pub(crate) use crate::path_id::{PathId, PathState};
use crate::seq::ExtendedTsn;
use crate::stats::{EcnPathStats, PathStats};
use crate::time::Timestamp;
use crate::trace_event::CopyWait;
use delivery::{Delivery, Idle};
use gates::Gates;
use parameters::PathParameters;
use rate::RateSampler;
use route::Route;

/// One path.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) route: Route,
    pub(crate) state: PathState,
    pub(crate) rtt: Rtt,
    pub(crate) control: AnyController,
    pub(crate) parameters: PathParameters,
    pub(crate) pmtu: Pmtu,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) flight: Flight,
    /// Early copies of chunks in flight, or until recently in flight.
    pub(crate) copies: CopiesInFlight,
    /// The error counter: consecutive errors (§8.2).
    pub(crate) error_count: u32,
    pub(crate) timers: LossTimers,
    pub(crate) gates: Gates,
    /// Delivery rates, if the controller wants them.
    pub(crate) rate: Option<RateSampler>,
    pub(crate) delivery: Delivery,
}

impl Path {
    /// `seed` is for the path's controller ([`crate::controller::NewPath::seed`]).
    pub(crate) fn new(
        id: PathId,
        local: Option<IpAddr>,
        remote: SocketAddr,
        config: &Config,
        now: Timestamp,
        seed: u64,
    ) -> Self {
        let pmtu = Pmtu::new(config, remote.is_ipv6());
        let control = AnyController::new(config, pmtu.max_data(), remote.is_ipv6(), seed);
        let samples = control.wants_rate_samples();
        Self {
            id,
            route: Route::new(local, remote),
            state: PathState::Unconfirmed,
            rtt: Rtt::new(&config.rto),
            control,
            rate: samples.then(RateSampler::default),
            gates: Gates::new(config, now),
            parameters: PathParameters::new(config),
            pmtu,
            heartbeat: Heartbeat::default(),
            flight: Flight::default(),
            copies: CopiesInFlight::default(),
            error_count: 0,
            timers: LossTimers::new(now),
            delivery: Delivery::new(now),
        }
    }

    /// Another congestion control algorithm takes over, and begins as on a new path: a queue that the former one built drains first.
    fn change_controller(&mut self, config: &Config, seed: u64) {
        let (max_data, ipv6) = (self.pmtu.max_data(), self.route.remote.is_ipv6());
        self.control = AnyController::new(config, max_data, ipv6, seed);
        self.rate = self.control.wants_rate_samples().then(RateSampler::default);
        self.gates.pacer = Pacer::default();
        self.gates.recovery = None;
    }

    /// When a tail loss probe is due ([`LossTimers::probe_timeout`]); `alone` if the association has no other path.
    pub(crate) fn probe_timeout(&self, alone: bool) -> Option<Timestamp> {
        let unanswered = self.unanswered(self.flight.bytes(), alone);
        self.timers.probe_timeout(&self.rtt, unanswered)
    }

    fn unanswered(&self, flight: usize, alone: bool) -> Unanswered {
        let packet = self.pmtu.max_data();
        Unanswered {
            flight,
            packet,
            alone,
        }
    }

    /// A probe was sent; `alone` as above.
    pub(crate) fn on_probe_sent(&mut self, now: Timestamp, alone: bool) {
        let before = self.flight.bytes() - self.flight.bytes_of_packet();
        let unanswered = self.unanswered(before, alone);
        self.timers.wait_for_probe(now, &self.rtt, unanswered);
    }

    /// The probe timeout expired; `alone` as above.
    pub(crate) fn on_probe_timeout(&mut self, now: Timestamp, alone: bool) {
        let unanswered = self.unanswered(self.flight.bytes(), alone);
        self.timers.on_probe_timeout(now, &self.rtt, unanswered);
    }

    /// T3-rtx expired, or an error of the path counts as its expiry.
    pub(crate) fn on_t3(&mut self) {
        self.delivery.timeouts += 1;
        self.timers.on_expired();
    }

    /// Stops T3-rtx if nothing is in flight ([`LossTimers::settle`]).
    #[inline]
    pub(crate) fn settle_t3(&mut self) {
        self.timers.settle(!self.flight.is_empty());
    }

    pub(crate) fn start_t3(&mut self, now: Timestamp) {
        self.timers.start_t3(now, &self.rtt);
        self.route.on_asked();
    }

    /// A transmission on this path is acknowledged (ECA-SCTP): T3-rtx runs for the earliest one that is still in flight. If copies on a faster
    /// path bring all chunks first, no acknowledgement of data in flight restarts it, although this path answers.
    pub(crate) fn extend_t3(&mut self) {
        if let Some(earliest) = self.flight.get(self.flight.earliest()) {
            self.timers.extend_t3(earliest.sent_at, &self.rtt);
        }
    }

    /// T3-rtx expired, and data stays in flight (F-RTO): restarts the timers.
    pub(crate) fn restart_timers(&mut self, now: Timestamp) {
        self.timers.restart(now, &self.rtt);
        self.route.on_asked();
    }

    /// The path answered a heartbeat, which has measured the RTO (§6.3.1): T3-rtx, which may have backed off to a minute while nothing
    /// passed, runs for one RTO at most from now.
    pub(crate) fn end_back_off(&mut self, now: Timestamp) {
        if self.timers.t3().is_some_and(|t3| t3 > now + self.rtt.rto()) {
            self.start_t3(now);
        }
    }

    /// Data was newly acknowledged, or its receiver skipped it; `probe_spurious` if a probe was spurious.
    pub(crate) fn on_progress(&mut self, now: Timestamp, probe_spurious: bool) {
        self.timers.on_answered(now, &self.rtt, probe_spurious);
    }

    /// The last window reduction proved spurious.
    pub(crate) fn on_spurious_reduction(&mut self, now: Timestamp) {
        self.timers.single_packet = false;
        self.gates.recovery = None;
        self.control.on_spurious(now);
    }

    /// Whether to set the I bit, which asks the peer to acknowledge at once (RFC 7053 §5.1), because no second packet will leave before the
    /// acknowledgement. If the message may be abandoned meanwhile, a delayed acknowledgement would not show whether the chunk arrived or
    /// was skipped, and the window would stay at one packet.
    pub(crate) fn needs_ack_at_once(&self, persistence: Persistence) -> bool {
        let one_packet = || self.control.window() <= self.pmtu.max_data();
        self.timers.single_packet || (persistence.is_partial() && one_packet())
    }

    /// Bytes that the congestion window sends in this time; unlimited before the first RTT measurement.
    pub(crate) fn sent_within(&self, time: Duration) -> usize {
        let Some(round_trip) = self.rtt.smoothed() else {
            return usize::MAX;
        };
        let bytes = (self.control.window() as u128).saturating_mul(time.as_nanos());
        bytes
            .checked_div(round_trip.as_nanos())
            .map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// A SACK acknowledged `bytes`: so many may leave in addition to `Max.Burst` packets, so that one SACK for many packets does not stall
    /// the flow.
    pub(crate) fn open_burst(&mut self, now: Timestamp, bytes: usize, max_burst: u32) {
        let most = max_burst as usize * self.pmtu.max_data();
        self.gates.burst.on_acknowledged(now, bytes, most);
    }

    /// A DATA chunk of `size` bytes, of which `payload` are user data, was sent on this path.
    pub(crate) fn on_data_sent(&mut self, now: Timestamp, size: usize, payload: usize) {
        self.delivery.on_sent(now, payload);
        self.gates.burst.on_sent(size);
        if self.timers.on_sent(now) {
            self.start_t3(now);
        }
    }

    /// A copy of the chunk `tsn` was sent, in a packet with other `data` or alone. Returns the number of the first transmission whose
    /// acknowledgement may show that the chunk or its copy was lost: in this packet or later. With ECA-SCTP it is that of the copy.
    pub(crate) fn on_copy_sent(
        &mut self,
        now: Timestamp,
        tsn: ExtendedTsn,
        size: usize,
        data: bool,
    ) -> SendNo {
        let after = if self.flight.is_named() {
            let no = self.flight.push_copy(tsn, now);
            self.copies.push_named(no, now, size);
            no
        } else {
            let after = if data {
                self.flight.packet()
            } else {
                self.flight.next()
            };
            self.copies.push(now, tsn, after, size);
            after
        };
        self.gates.pacer.on_sent(now, size, || self.control.pace());
        after
    }

    /// Whether a copy of so many bytes of a message with a deadline leaves room for data on this path, or why it does not.
    pub(crate) fn has_room_for_copy(
        &mut self,
        now: Timestamp,
        bytes: usize,
        need: CopyNeed,
    ) -> Result<(), CopyWait> {
        let round_trip = self.rtt.smoothed_or_rto();
        let lowest = self.rtt.min().unwrap_or(round_trip);
        // While there is a queue, the path carries no more than it delivers.
        let delivered = self.delivery.rate().filter(|_| round_trip > lowest * 5 / 4);
        let rate = self.control.known_rate().or(delivered);
        let rate = rate.unwrap_or_else(|| self.control.window() as f64 / round_trip.as_secs_f64());
        let data = self.delivery.data_bytes_sent;
        let Some(estimate) = self.copies.estimate() else {
            return Ok(());
        };
        let room = &mut estimate.room;
        match room.admits(now, rate, data, bytes, need) {
            _ if need == CopyNeed::MayBeLost && room.pauses(now) => Err(CopyWait::Pause),
            true => Ok(()),
            false => Err(CopyWait::Room),
        }
    }

    /// How long what was sent waits for its answer; `None` if nothing does.
    pub(crate) fn waits(&self, now: Timestamp) -> Option<Duration> {
        let since = self.unanswered_since();
        since.map(|since| now.saturating_duration_since(since))
    }

    /// Whether the path does not answer although it should have: its next answer was due within the RTT and its variation.
    pub(crate) fn is_overdue(&self, now: Timestamp) -> bool {
        self.waits(now)
            .is_some_and(|waits| waits > self.rtt.unbounded_rto())
    }

    /// When data or a copy left last.
    pub(crate) fn last_sent(&self) -> Timestamp {
        self.delivery.idle.since.max(self.copies.last_sent())
    }

    /// When the earliest transmission left that was neither answered nor declared lost.
    fn unanswered_since(&self) -> Option<Timestamp> {
        let flight = self
            .flight
            .get(self.flight.earliest())
            .map(|sending| sending.sent_at);
        // Only acknowledgements that name copies answer them.
        let copies = self.copies.unanswered_since().filter(|_| self.flight.is_named());
        [flight, copies].into_iter().flatten().min()
    }

    /// These transmissions, with their bytes, were declared lost while in flight: reports each packet to the controller.
    pub(crate) fn on_sendings_lost(
        &mut self,
        now: Timestamp,
        sendings: impl Iterator<Item = (SendNo, usize)>,
    ) {
        let mut packet: Option<LostPacket> = None;
        for (no, bytes) in sendings {
            self.copies.on_lost(no);
            let rate = self.rate.as_mut();
            let Some(lost) = rate.and_then(|rate| rate.on_lost(now, no, bytes)) else {
                continue;
            };
            match &mut packet {
                // Chunks of one packet have the same bytes in flight at their sending.
                Some(packet) if packet.flight_when_sent == lost.flight_when_sent => {
                    packet.bytes += lost.bytes;
                    packet.lost_since = lost.lost_since;
                }
                _ => {
                    if let Some(packet) = packet.replace(lost) {
                        self.control.on_lost(&packet);
                    }
                }
            }
        }
        if let Some(packet) = packet {
            self.control.on_lost(&packet);
        }
    }

    /// An acknowledgement of `acked` bytes arrived; `earliest` is when it would have arrived by the fastest way back, if that is known;
    /// `newest` is the newest transmission that certainly arrived. Returns the delivery rate.
    pub(crate) fn sample_rate(
        &mut self,
        now: Timestamp,
        earliest: Option<Timestamp>,
        acked: usize,
        newest: Option<SendNo>,
    ) -> Option<RateSample> {
        let rate = self.rate.as_mut()?;
        let sample = rate.on_acknowledged(now, earliest, acked, newest, self.rtt.min());
        rate.forget_before(self.flight.earliest());
        sample
    }

    /// Called after the controller handled a report: recovery begins, continues or ends, if proportional rate reduction is used.
    /// `repairs`: whether recovery lasts now.
    pub(crate) fn follow_recovery(&mut self, report: &Report, repairs: bool) {
        let begins = report.reduction == Some(Reduction::Loss) && repairs;
        if begins && self.control.uses_proportional_rate_reduction() {
            self.gates.recovery = Some(ProportionalRateReduction::new(report.prior_flight));
        } else if !report.recovering {
            self.gates.recovery = None;
        }
        if let Some(recovery) = &mut self.gates.recovery {
            recovery.on_acknowledged(&RecoveryAck {
                delivered: report.acked,
                flight: self.flight.bytes(),
                target: self.control.window(),
                safe: report.advanced && report.lost == 0,
                max_data: self.pmtu.max_data(),
            });
        }
    }

    /// Records a packet of `bytes` for the pacer and for delivery rates.
    fn note_packet(&mut self, now: Timestamp, bytes: usize) {
        self.gates.pacer.on_sent(now, bytes, || self.control.pace());
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, self.flight.packet(), bytes, self.flight.bytes());
        }
    }

    /// No data waits to be sent on this path.
    #[inline]
    pub(crate) fn on_application_limited(&mut self) {
        if let Some(rate) = &mut self.rate
            && self.flight.bytes() < self.control.window()
        {
            rate.on_application_limited(self.flight.bytes());
        }
    }

    /// The packet being filled is complete; `starved` if no data had waited before it.
    pub(crate) fn on_packet_sent(&mut self, now: Timestamp, starved: bool) {
        let bytes = self.flight.bytes_of_packet();
        if bytes > 0 {
            self.timers.on_packet_sent(self.flight.bytes() == bytes);
            if self.control.may_pace() {
                self.note_packet(now, bytes);
            }
            if let Some(recovery) = &mut self.gates.recovery {
                recovery.on_sent(bytes);
            }
            let sent = SentPacket {
                now,
                bytes,
                flight: self.flight.bytes(),
                application_limited: starved,
            };
            self.control.on_sent(&sent);
        }
    }

    /// Copies that left two round-trip times ago are no longer in the network. Called before data is sent.
    #[inline(always)]
    fn forget_old_copies(&mut self, now: Timestamp) {
        if self.copies.bytes() > 0 {
            self.copies
                .forget_before(now.before(2 * self.rtt.smoothed_or_rto()));
        }
    }

    /// Called before new data may leave: reduces the window after a pause, and forgets copies that are no longer in flight.
    #[inline]
    pub(crate) fn before_new_data(&mut self, now: Timestamp) {
        self.decay_when_idle(now);
        self.forget_old_copies(now);
    }

    /// §7.2.1: reduces the window for each RTO that passed without data; called before data is sent again.
    pub(crate) fn decay_when_idle(&mut self, now: Timestamp) {
        if !self.flight.is_empty() {
            return;
        }
        let rto = self.rtt.rto();
        // Each step halves the window: after 64 nothing is left to halve, however long the pause was.
        for _ in 0..64 {
            if now.saturating_duration_since(self.delivery.idle.since) < rto {
                return;
            }
            self.control.on_idle(now, !self.delivery.idle.decayed);
            self.delivery.idle = Idle {
                since: self.delivery.idle.since + rto,
                decayed: true,
            };
        }
        self.delivery.idle.since = now;
    }

    /// The slow start threshold; `usize::MAX` if the algorithm has none.
    pub(crate) fn ssthresh(&self) -> usize {
        self.control.metrics().ssthresh.unwrap_or(usize::MAX)
    }

    /// The values of this path that coupled congestion control of the other paths uses.
    pub(crate) fn member(&self) -> Member {
        Member {
            cwnd: self.control.window(),
            ssthresh: self.ssthresh(),
            round_trip: self.rtt.smoothed_or_rto(),
            rate: self.delivery.rate().unwrap_or_default(),
        }
    }

    pub(crate) fn stats(&self, primary: PathId, ecn: EcnPathStats) -> PathStats {
        let (data_chunks_sent, chunks_retransmitted, chunks_lost) = self.delivery.chunks();
        let control = self.control.metrics();
        PathStats {
            id: self.id,
            local: self.route.local,
            remote: self.route.remote,
            state: self.state,
            primary: self.id == primary,
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
            cwnd: control.cwnd,
            pacing_rate: self.control.pace().map(|pace| pace.rate as u64),
            known_rate: self.control.known_rate().map(|rate| rate as u64),
            ssthresh: self.ssthresh(),
            flight_size: self.flight.bytes(),
            partial_bytes_acked: control.partial_bytes_acked.unwrap_or(0),
            pmtu: self.pmtu.current(),
            discovers_pmtu: self.pmtu.is_discovered(),
            heartbeat_interval: self.parameters.heartbeat_interval,
            max_retrans: self.parameters.max_retrans,
            dscp: self.parameters.dscp,
            error_count: self.error_count,
            timeouts: self.delivery.timeouts,
            fast_recoveries: self.delivery.fast_recoveries,
            data_bytes_sent: self.delivery.data_bytes_sent,
            copy_bytes_sent: self.delivery.copy_bytes_sent,
            data_bytes_received: self.delivery.data_bytes_received,
            data_chunks_sent,
            chunks_retransmitted,
            chunks_lost,
            ecn,
        }
    }
}
