//! The paths of an association. Each has its own RTT and RTO (`rtt`, RFC 9260 §6.3.1), flight (`flight`), T3-rtx (§6.3.2), error counter
//! (`failure`, §8.2), heartbeat (§8.3), path MTU (`pmtu`, §7.3) and congestion controller (§7.2). `selection` chooses the path of a
//! packet (§6.4), `multipath` that of a packet when several paths are used at once.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod controller_model;
mod delivery;
mod dynamic;
mod failure;
mod flight;
mod heartbeat;
mod local_address;
mod multipath;
mod pmtu;
mod probe;
mod rate;
mod rtt;
mod selection;
mod settings;

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

pub(crate) use flight::{Fate, Flight, FlightProgress, SendNo, Sending};
pub(crate) use heartbeat::{Heartbeat, HeartbeatAnswer, HeartbeatInfo};
pub(crate) use local_address::set_up_address;
pub(crate) use multipath::{Choice, Offer};
pub(crate) use pmtu::Pmtu;
pub(crate) use rtt::Rtt;
pub(crate) use selection::{Candidate, Paths};
use settings::PathParameters;

use crate::config::Config;
use crate::congestion::{AnyController, Member, ProportionalRateReduction, RecoveryAck};
use crate::controller::{Controller, LostPacket, RateSample, Reduction, Report, SentPacket};
use crate::extension::early_copies::CopiesInFlight;
use crate::extension::stream_priority::DelayBound;
use crate::message::Persistence;
use crate::pacing::{Burst, Pacer};
pub(crate) use crate::path_id::{PathId, PathState};
use crate::seq::ExtendedTsn;
use crate::stats::{EcnPathStats, PathStats};
use crate::time::Timestamp;
use delivery::Delivery;
use rate::RateSampler;

/// One path.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    /// The local address from which packets leave; `None` leaves the choice to routing, before the peer knows any local address.
    pub(crate) local: Option<IpAddr>,
    /// The remote address and its encapsulation port, which may change (RFC 6951 §5.4).
    pub(crate) remote: SocketAddr,
    ports: Ports,
    /// The peer does not have the address any more (RFC 5061): nothing is sent here.
    pub(crate) removed: bool,
    pub(crate) state: PathState,
    pub(crate) rtt: Rtt,
    pub(crate) control: AnyController,
    /// With a delay bound for less urgent data: how much may be in flight for such data to leave.
    pub(crate) delay_bound: Option<DelayBound>,
    pub(crate) parameters: PathParameters,
    pub(crate) pmtu: Pmtu,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) flight: Flight,
    /// Early copies of chunks in flight, or until recently in flight.
    pub(crate) copies: CopiesInFlight,
    /// The error counter: consecutive errors (§8.2).
    pub(crate) error_count: u32,
    /// When T3-rtx expires, while it runs (§6.3.2).
    pub(crate) t3: Option<Timestamp>,
    /// After T3-rtx: at most one packet in flight until data is acknowledged (§7.2.1).
    pub(crate) single_packet: bool,
    /// The next packet with data leaves whatever the congestion window, as a tail loss probe (RFC 8985 §7.3).
    pub(crate) probe_now: bool,
    /// The probe timeout has expired since data was last acknowledged: the next timer to expire is T3-rtx.
    probed: bool,
    /// When data was last sent, or T3-rtx expired: the probe timeout counts from here.
    probe_from: Timestamp,
    /// When data was last newly acknowledged.
    answered_at: Timestamp,
    /// The peer seems to delay the acknowledgement of a single packet, although the packet has the I bit.
    acks_late: bool,
    /// The last packet with data left while nothing else was in flight.
    lone: bool,
    /// The next packet of retransmissions leaves whatever the congestion window and the pacer, after fast retransmit (§7.2.4 step 3) or T3-rtx
    /// (§6.3.3 E3).
    pub(crate) retransmit_now: bool,
    pub(crate) burst: Burst,
    pub(crate) pacer: Pacer,
    /// Delivery rates, if the controller wants them.
    pub(crate) rate: Option<RateSampler>,
    /// During recovery with proportional rate reduction (RFC 9937): how much may leave.
    pub(crate) recovery: Option<ProportionalRateReduction>,
    /// When DATA last left, and whether the idle decay of §7.2.1 has begun since.
    pub(crate) idle: Idle,
    /// T3-rtx expirations since data was last acknowledged on this path. A HEARTBEAT ACK does not reset this counter.
    pub(crate) silent_timeouts: u32,
    pub(crate) timeouts: u64,
    pub(crate) fast_recoveries: u64,
    pub(crate) data_bytes_sent: u64,
    pub(crate) delivery: Delivery,
    /// When DATA last arrived on this path, if that is recorded.
    pub(crate) data_arrived: Option<Timestamp>,
}

/// Encapsulation ports of a peer's address (RFC 6951 §5.4). A packet that an attacker replays from another port moves the port in use. If
/// both endpoints are misled in this way, no packet would arrive any more that moves the ports back.
#[derive(Clone, Copy, Debug)]
struct Ports {
    /// The source port of the last packet.
    arrived: u16,
    /// The source port of the last packet that answered this endpoint.
    answered: u16,
    /// The port to which the packet went that the running T3-rtx or the pending heartbeat is about.
    asked: u16,
}

/// The longest time for which a receiver is expected to delay an acknowledgement. RFC 9260 §6.2 allows 500 ms; the RFC and
/// implementations use 200 ms.
const MOST_ACK_DELAY: Duration = Duration::from_millis(200);

/// The shortest probe timeout. With a shorter one the peer's own timers would decide.
const LEAST_PROBE_TIMEOUT: Duration = Duration::from_millis(5);

/// The time since which a path has carried no DATA (§7.2.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    since: Timestamp,
    decayed: bool,
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
            local,
            remote,
            ports: Ports {
                arrived: remote.port(),
                answered: remote.port(),
                asked: remote.port(),
            },
            removed: false,
            state: PathState::Unconfirmed,
            rtt: Rtt::new(&config.rto),
            control,
            pacer: Pacer::default(),
            rate: samples.then(RateSampler::default),
            recovery: None,
            delay_bound: config
                .low_priority_delay
                .map(|target| DelayBound::new(target, now)),
            parameters: PathParameters::new(config),
            pmtu,
            heartbeat: Heartbeat::default(),
            flight: Flight::default(),
            copies: CopiesInFlight::default(),
            error_count: 0,
            t3: None,
            single_packet: false,
            probe_now: false,
            probed: false,
            probe_from: now,
            answered_at: now,
            acks_late: false,
            lone: false,
            retransmit_now: false,
            burst: Burst::default(),
            idle: Idle {
                since: now,
                decayed: false,
            },
            silent_timeouts: 0,
            timeouts: 0,
            fast_recoveries: 0,
            data_bytes_sent: 0,
            delivery: Delivery::default(),
            data_arrived: None,
        }
    }

    /// A packet with a valid tag came from this port: later packets go there (RFC 6951 §5.4).
    pub(crate) fn on_arrival(&mut self, udp_port: u16) {
        self.ports.arrived = udp_port;
        self.remote.set_port(udp_port);
    }

    /// The last packet received on this path answered this endpoint.
    pub(crate) fn on_answer(&mut self) {
        self.ports.answered = self.ports.arrived;
    }

    /// No answer arrived: uses the port of the last answer and the port of the last packet alternately. A port to which nothing has gone that
    /// wants an answer stays in use: it is that of a packet which has arrived since.
    pub(crate) fn try_other_port(&mut self) {
        let Ports {
            arrived,
            answered,
            asked,
        } = self.ports;
        let arrived_failed = self.remote.port() == arrived;
        if self.remote.port() == asked {
            self.remote
                .set_port(if arrived_failed { answered } else { arrived });
        }
        self.on_asked();
    }

    /// A packet that wants an answer goes to the present port.
    pub(crate) fn on_asked(&mut self) {
        self.ports.asked = self.remote.port();
    }

    /// Whether the congestion window lets another packet with DATA out (§6.1 B).
    #[inline(always)]
    pub(crate) fn has_cwnd_room(&self) -> bool {
        let waits = self.single_packet && !self.flight.is_empty();
        let room = self.bytes_in_network() < self.window() && !waits;
        (room || self.probe_now) && self.flight.has_numbers()
    }

    /// Bytes in flight, with copies. Copies alone never close the window, because only later acknowledgements settle them.
    #[inline(always)]
    fn bytes_in_network(&self) -> usize {
        match self.flight.bytes() {
            0 => 0,
            bytes => bytes + self.copies.bytes(),
        }
    }

    /// The most bytes in flight: the congestion window, or during recovery the limit of proportional rate reduction.
    #[inline(always)]
    pub(crate) fn window(&self) -> usize {
        match &self.recovery {
            None => self.control.window(),
            // With nothing in flight, a packet may leave whatever the window is.
            Some(recovery) => recovery.window().max(1),
        }
    }

    /// When the pacer releases the next packet, if not now. A probe is not paced.
    #[inline(always)]
    pub(crate) fn paced_until(&self, now: Timestamp) -> Option<Timestamp> {
        if self.control.may_pace() {
            self.pacer_waits_until(now)
        } else {
            None
        }
    }

    fn pacer_waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        let pace = self.control.pace().filter(|_| !self.probe_now)?;
        self.pacer.waits_until(now, &pace)
    }

    /// When a tail loss probe is due (RFC 8985 §7.2): two RTTs after the last data was sent, and one RTT after the last acknowledgement
    /// (RFC 8985 waits two RTTs after that too). `None` before an RTT was measured, and if the next timer is T3-rtx. If T3-rtx would expire
    /// sooner, the only path of an association is probed then, and T3-rtx waits (RFC 8985 §7.2). With other paths T3-rtx expires, because
    /// data would otherwise leave a failed path one RTO later.
    pub(crate) fn probe_timeout(&self, alone: bool) -> Option<Timestamp> {
        let smoothed = self.rtt.smoothed()?;
        let mut wait = (smoothed * 2).max(LEAST_PROBE_TIMEOUT);
        if self.flight.bytes() <= self.pmtu.max_data() {
            wait += self.ack_delay();
        }
        let due = (self.probe_from + wait).max(self.answered_at + smoothed);
        let t3 = self.t3.filter(|_| !self.probed)?;
        (alone || due < t3).then_some(due.min(t3))
    }

    /// How long the peer may delay the acknowledgement of a packet, as far as is known.
    fn ack_delay(&self) -> Duration {
        if self.acks_late {
            MOST_ACK_DELAY
        } else {
            Duration::ZERO
        }
    }

    /// A probe was sent. T3-rtx keeps running, as when other data is sent (RFC 9260 §6.3.2 R1), but expires no sooner than the probe can be
    /// acknowledged. RFC 8985 §7.3 restarts the timer, so that data would leave a failed path later than without probes.
    pub(crate) fn wait_for_probe(&mut self, now: Timestamp) {
        let answered = now + self.rtt.unbounded_rto() + self.ack_delay();
        self.t3 = self.t3.map(|t3| t3.max(answered));
    }

    /// The probe timeout expired.
    pub(crate) fn on_probe_timeout(&mut self, now: Timestamp) {
        self.probed = true;
        self.wait_for_probe(now);
    }

    /// T3-rtx expired, or an error of the path counts as its expiry: probes may leave again.
    pub(crate) fn on_t3(&mut self) {
        self.timeouts += 1;
        self.silent_timeouts += 1;
        (self.probed, self.probe_now) = (false, false);
    }

    /// T3-rtx runs exactly while data is in flight (§6.3.2 R1, R2), or until a probe has left: a probe may take the last chunk out of the
    /// flight, and T3-rtx keeps running then.
    #[inline]
    pub(crate) fn settle_t3(&mut self) {
        if self.flight.is_empty() && !self.probe_now {
            self.t3 = None;
        }
        debug_assert!(self.flight.is_empty() || self.t3.is_some());
    }

    /// T3-rtx expired, and data stays in flight (F-RTO): restarts the timers.
    pub(crate) fn restart_timers(&mut self, now: Timestamp) {
        self.probe_from = now;
        self.start_t3(now);
    }

    /// The path answered a heartbeat, which has measured the RTO (§6.3.1): T3-rtx, which may have backed off to a minute while nothing
    /// passed, runs for one RTO at most from now.
    pub(crate) fn end_back_off(&mut self, now: Timestamp) {
        if self.t3.is_some_and(|t3| t3 > now + self.rtt.rto()) {
            self.start_t3(now);
        }
    }

    /// Data was newly acknowledged; `probe_spurious` if a probe was spurious.
    pub(crate) fn on_progress(&mut self, now: Timestamp, probe_spurious: bool) {
        let took = now.saturating_duration_since(self.probe_from);
        let soon = self.rtt.smoothed().is_some_and(|rtt| took < rtt * 2);
        if self.lone && !self.probed && soon {
            // The acknowledgement that seemed to be delayed was lost.
            self.acks_late = false;
        }
        self.answered_at = now;
        self.probe_now = false;
        self.probed = false;
        self.acks_late |= probe_spurious;
    }

    /// The last window reduction proved spurious.
    pub(crate) fn on_spurious_reduction(&mut self, now: Timestamp) {
        self.single_packet = false;
        self.recovery = None;
        self.control.on_spurious(now);
    }

    /// Whether to set the I bit, which asks the peer to acknowledge at once (RFC 7053 §5.1), because no second packet will leave before the
    /// acknowledgement. If the message may be abandoned meanwhile, a delayed acknowledgement would not show whether the chunk arrived or
    /// was skipped, and the window would stay at one packet.
    pub(crate) fn needs_ack_at_once(&self, persistence: Persistence) -> bool {
        let one_packet = || self.control.window() <= self.pmtu.max_data();
        self.single_packet || (persistence.is_partial() && one_packet())
    }

    /// Whether a packet of retransmissions may leave.
    pub(crate) fn may_retransmit(&self) -> bool {
        (self.retransmit_now && self.flight.has_numbers()) || self.has_cwnd_room()
    }

    /// Whether data of a priority class behind the most urgent may leave, if its delay is bounded.
    pub(crate) fn has_room_for_less_urgent(&mut self, now: Timestamp) -> bool {
        let flight = self.flight.bytes();
        self.delay_bound
            .as_mut()
            .is_none_or(|bound| bound.allows(now, flight))
    }

    /// Whether `Max.Burst` allows another packet with new DATA now (§6.1 D).
    #[inline(always)]
    pub(crate) fn has_burst_room(&mut self, now: Timestamp, max_burst: u32) -> bool {
        let most = max_burst as usize * self.pmtu.max_data();
        self.burst.has_room(now, most) || self.control.pace().is_some()
    }

    /// When `bytes` more would have arrived at the receiver, at the earliest: the path's queue, which holds what is in flight beyond one
    /// bandwidth-delay product, and the bytes leave at the highest rate that the path has carried lately. `None` if that is not known.
    pub(crate) fn arrival(&self, now: Timestamp, bytes: usize) -> Option<Timestamp> {
        let (rate, round_trip) = (self.control.known_rate()?, self.rtt.min()?);
        let queued = (self.flight.bytes() as f64 - rate * round_trip.as_secs_f64()).max(0.0);
        let wait = Duration::try_from_secs_f64((queued + bytes as f64) / rate).unwrap_or(Duration::MAX);
        Some(now + wait + round_trip / 2)
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
        self.burst.on_acknowledged(now, bytes, most);
    }

    /// A DATA chunk of `size` bytes, of which `payload` are user data, was sent on this path.
    pub(crate) fn on_data_sent(&mut self, now: Timestamp, size: usize, payload: usize) {
        self.delivery.on_sent();
        self.burst.on_sent(size);
        self.idle = Idle {
            since: now,
            decayed: false,
        };
        self.data_bytes_sent += payload as u64;
        self.probe_from = now;
        if self.t3.is_none() {
            self.start_t3(now);
        }
    }

    /// A copy of the chunk `tsn` was sent, in a packet with other `data` or alone. Returns the number of the first transmission whose
    /// acknowledgement may show that the chunk or its copy was lost: in this packet or later.
    pub(crate) fn on_copy_sent(
        &mut self,
        now: Timestamp,
        tsn: ExtendedTsn,
        size: usize,
        data: bool,
    ) -> SendNo {
        let after = if data {
            self.flight.packet()
        } else {
            self.flight.next()
        };
        self.copies.push(now, tsn, after, size);
        if let Some(pace) = self.control.pace() {
            self.pacer.on_sent(now, size, &pace);
        }
        after
    }

    /// These transmissions, with their bytes, were declared lost while in flight: reports each packet to the controller.
    pub(crate) fn on_sendings_lost(
        &mut self,
        now: Timestamp,
        sendings: impl Iterator<Item = (SendNo, usize)>,
    ) {
        let Some(rate) = &mut self.rate else { return };
        let mut packet: Option<LostPacket> = None;
        for (no, bytes) in sendings {
            let Some(lost) = rate.on_lost(now, no, bytes) else {
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

    /// An acknowledgement of `acked` bytes arrived; `newest` is the newest transmission that certainly arrived. Returns the delivery rate.
    pub(crate) fn sample_rate(
        &mut self,
        now: Timestamp,
        acked: usize,
        newest: Option<SendNo>,
    ) -> Option<RateSample> {
        let rate = self.rate.as_mut()?;
        let sample = rate.on_acknowledged(now, acked, newest, self.rtt.min());
        rate.forget_before(self.flight.earliest());
        sample
    }

    /// Called after the controller handled a report: recovery begins, continues or ends, if proportional rate reduction is used.
    /// `repairs`: whether recovery lasts now.
    pub(crate) fn follow_recovery(&mut self, report: &Report, repairs: bool) {
        let begins = report.reduction == Some(Reduction::Loss) && repairs;
        if begins && self.control.uses_proportional_rate_reduction() {
            self.recovery = Some(ProportionalRateReduction::new(report.prior_flight));
        } else if !report.recovering {
            self.recovery = None;
        }
        if let Some(recovery) = &mut self.recovery {
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
        if let Some(pace) = self.control.pace() {
            self.pacer.on_sent(now, bytes, &pace);
        }
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
            self.lone = self.flight.bytes() == bytes;
            if self.control.may_pace() {
                self.note_packet(now, bytes);
            }
            if let Some(recovery) = &mut self.recovery {
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

    pub(crate) fn start_t3(&mut self, now: Timestamp) {
        self.t3 = Some(now + self.rtt.rto());
        self.on_asked();
    }

    /// Copies that left two round-trip times ago are no longer in the network. Called before data is sent.
    #[inline(always)]
    pub(crate) fn forget_old_copies(&mut self, now: Timestamp) {
        if self.copies.bytes() > 0 {
            self.copies
                .forget_before(now.before(2 * self.rtt.smoothed_or_rto()));
        }
    }

    /// §7.2.1: reduces the window for each RTO that passed without data; called before data is sent again.
    pub(crate) fn decay_when_idle(&mut self, now: Timestamp) {
        if !self.flight.is_empty() {
            return;
        }
        let rto = self.rtt.rto();
        // Each step halves the window: after 64 nothing is left to halve, however long the pause was.
        for _ in 0..64 {
            if now.saturating_duration_since(self.idle.since) < rto {
                return;
            }
            self.control.on_idle(now, !self.idle.decayed);
            self.idle = Idle {
                since: self.idle.since + rto,
                decayed: true,
            };
        }
        self.idle.since = now;
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
        }
    }

    pub(crate) fn stats(&self, primary: PathId, ecn: EcnPathStats) -> PathStats {
        let (data_chunks_sent, chunks_retransmitted, chunks_lost) = self.delivery.chunks();
        let control = self.control.metrics();
        PathStats {
            id: self.id,
            local: self.local,
            remote: self.remote,
            state: self.state,
            primary: self.id == primary,
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
            cwnd: control.cwnd,
            pacing_rate: self.control.pace().map(|pace| pace.rate as u64),
            ssthresh: self.ssthresh(),
            flight_size: self.flight.bytes(),
            partial_bytes_acked: control.partial_bytes_acked.unwrap_or(0),
            pmtu: self.pmtu.current(),
            discovers_pmtu: self.pmtu.is_discovered(),
            heartbeat_interval: self.parameters.heartbeat_interval,
            max_retrans: self.parameters.max_retrans,
            dscp: self.parameters.dscp,
            error_count: self.error_count,
            timeouts: self.timeouts,
            fast_recoveries: self.fast_recoveries,
            data_bytes_sent: self.data_bytes_sent,
            data_chunks_sent,
            chunks_retransmitted,
            chunks_lost,
            ecn,
        }
    }
}
