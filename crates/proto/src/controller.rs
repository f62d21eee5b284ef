//! The interface of congestion control algorithms (RFC 9260 §7.2), and the setting that chooses one. The algorithms themselves, and
//! the coupling of several paths, are in the module `congestion`.
//!
//! Each path has a [`Controller`], which decides how many bytes may be in flight there (RFC 9260 §7.2).
//! [`crate::Config::congestion_control`] chooses the algorithm. `docs/CONGESTION-CONTROLLERS.md` shows how to write another one.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::time::Timestamp;

/// A congestion control algorithm at work on one path. All bytes are those of whole DATA chunks, with chunk header and padding
/// (RFC 9260 §1.3 and §7.2.2 count so).
///
/// The sender asks for [`Controller::window`] before each packet. It calls the other methods after the event that they report.
pub trait Controller: fmt::Debug + Send + Sync {
    /// A packet with DATA chunks was sent, retransmissions included.
    #[inline]
    fn on_sent(&mut self, sent: &SentPacket) {
        let _ = sent;
    }

    /// A packet was declared lost. Called for each lost packet before the [`Controller::on_report`] that counts its bytes, and only if
    /// the sender keeps delivery rates ([`Controller::wants_rate_samples`]).
    #[inline]
    fn on_lost(&mut self, lost: &LostPacket) {
        let _ = lost;
    }

    /// An acknowledgement or a timer changed the bytes in flight on the path. Called once for each acknowledgement or timer, and only if
    /// bytes were acknowledged or declared lost, or the receiver reported CE marks.
    fn on_report(&mut self, report: &Report);

    /// All losses of the last episode of recovery were spurious: the chunks had arrived. The controller restores the state that it had
    /// before the reduction (RFC 8985 §7.4.2 leaves that to it; RFC 4015 is one way).
    fn on_spurious(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// The path has carried no DATA for another RTO (RFC 9260 §7.2.1); `first` is true for the first RTO of the pause. Called just before
    /// DATA is sent again, once for each RTO that passed.
    fn on_idle(&mut self, now: Timestamp, first: bool) {
        let _ = (now, first);
    }

    /// The path MTU changed: a packet of the path now has room for a DATA chunk of `max_data` bytes (PMDCS).
    fn on_packet_size(&mut self, max_data: usize);

    /// The congestion window in bytes. While fewer bytes are in flight, another packet may leave. With nothing in flight, one packet
    /// leaves whatever the window is, so a path never stops for ever.
    fn window(&self) -> usize;

    /// The pacing rate; `None` if packets leave as soon as the window allows them.
    fn pace(&self) -> Option<Pace> {
        None
    }

    /// The highest rate in bytes per second that the path has carried lately, if the algorithm measures it and the start, in which the rate
    /// grows fast, is over. Messages that cannot arrive in time at this rate may be abandoned
    /// ([`crate::PartialReliabilityConfig::discard_hopeless`]).
    fn known_rate(&self) -> Option<f64> {
        None
    }

    /// Whether the sender is to measure delivery rates on this path: [`Report::sample`] is `None` otherwise.
    fn wants_rate_samples(&self) -> bool {
        false
    }

    /// Whether proportional rate reduction (RFC 9937) limits what is sent during recovery. An algorithm with its own rule for recovery,
    /// such as BBR, returns false.
    fn uses_proportional_rate_reduction(&self) -> bool {
        true
    }

    /// The state of the algorithm, for statistics and for the choice of a path.
    fn metrics(&self) -> Metrics {
        Metrics {
            cwnd: self.window(),
            ssthresh: None,
            partial_bytes_acked: None,
        }
    }
}

/// The path for which a [`Controller`] is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPath {
    /// PMDCS: the largest DATA chunk in bytes that fits a packet of the path.
    pub max_data: usize,
    /// The initial congestion window in bytes: [`crate::Config::initial_window`].
    pub initial_window: usize,
    /// A seed for algorithms that need random numbers, such as BBR; each path has its own. Use no other source of randomness: with
    /// this one, a simulation with the same seed gives the same result.
    pub seed: u64,
}

/// A packet with DATA chunks that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// When the packet was handed to the driver.
    pub now: Timestamp,
    /// Bytes of its DATA chunks.
    pub bytes: usize,
    /// Bytes in flight on the path, this packet included.
    pub flight: usize,
    /// Whether the sender had run out of data before this packet: see [`Report::application_limited`].
    pub application_limited: bool,
}

/// A packet that was declared lost, with the state of the path when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPacket {
    /// When the packet was declared lost.
    pub now: Timestamp,
    /// Bytes of the packet that were still in flight.
    pub bytes: usize,
    /// Bytes in flight on the path right after the packet was sent, the packet included.
    pub flight_when_sent: usize,
    /// Bytes declared lost on the path since the packet was sent, the packet included.
    pub lost_since: u64,
    /// Whether the sender had run out of data when the packet was sent.
    pub application_limited: bool,
}

/// A delivery rate sample (draft-ietf-ccwg-bbr §4.1): how fast a path delivered data between the sending of a packet and its
/// acknowledgement. The packet is the newest one that an acknowledgement newly acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered (acknowledged for the first time) during `interval`.
    pub delivered: u64,
    /// The longer of two times: in which these bytes were sent, and in which they were acknowledged.
    pub interval: Duration,
    /// Whether the sender ran out of data during the interval, so that the path may carry more.
    pub application_limited: bool,
    /// Round-trip time of the packet. `None` if it is uncertain which transmission was acknowledged.
    pub rtt: Option<Duration>,
    /// Bytes in flight right after the packet was sent, the packet included.
    pub flight_when_sent: usize,
    /// Bytes declared lost on the path since the packet was sent.
    pub lost: u64,
    /// Total bytes delivered on the path when the packet was sent. A round trip has passed when this reaches the value that
    /// `total_delivered` had at the beginning of the round trip.
    pub delivered_before: u64,
    /// Total bytes delivered on the path, those of this acknowledgement included.
    pub total_delivered: u64,
}

impl RateSample {
    /// The delivery rate in bytes per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.delivered as f64 / self.interval.as_secs_f64().max(1e-9)
    }
}

/// Pacing: how packets are spread in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Bytes of DATA chunks per second.
    pub rate: f64,
    /// The most bytes that leave at once: one batch of the driver.
    pub quantum: usize,
}

/// The effects of an acknowledgement or a timer on one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// When the acknowledgement arrived, or the timer expired.
    pub now: Timestamp,
    /// Bytes in flight on the path before the event. The window was used fully if this is at least [`Controller::window`].
    pub prior_flight: usize,
    /// Bytes acknowledged for the first time, by the cumulative TSN ack or by gap ack blocks.
    pub acked: usize,
    /// Bytes declared lost: by missing reports, by a timer, or because their message is abandoned at the first missing report.
    pub lost: usize,
    /// Congestion experienced (CE) marks that the receiver newly reported (RFC 3168).
    pub marked: u32,
    /// Whether the window is to be reduced, and why. All losses of one recovery episode cause one reduction (RFC 9260 §7.2.4).
    pub reduction: Option<Reduction>,
    /// Whether fast recovery lasts: losses detected earlier are still being repaired.
    pub recovering: bool,
    /// Whether the cumulative TSN ack point moved. With several paths at once: whether the earliest chunk in flight on this path was
    /// acknowledged (draft-tuexen-tsvwg-sctp-multipath §3.2).
    pub advanced: bool,
    /// Whether all data is acknowledged; with several paths at once, all data that was sent on this path.
    pub all_acked: bool,
    /// Whether the sender last stopped because it had no data, and not because of the window or the pacer. Then it does not use its
    /// whole window, and the window must not grow (RFC 9260 §7.2.1).
    pub application_limited: bool,
    /// The smoothed RTT of the path, once measured.
    pub smoothed_rtt: Option<Duration>,
    /// The RTT that this acknowledgement measured, if it measured one.
    pub latest_rtt: Option<Duration>,
    /// The minimum RTT of the last minutes, once measured.
    pub min_rtt: Option<Duration>,
    /// The delivery rate, if it is measured ([`Controller::wants_rate_samples`]) and the acknowledgement gives a sample.
    pub sample: Option<RateSample>,
    /// How the window depends on the windows of other paths, if several paths are used at once.
    pub coupling: Coupling,
}

impl Report {
    /// A report in which nothing happened, on a path that is not coupled and has no measurements. For tests of a controller, which then
    /// set the fields that matter to them.
    #[must_use]
    pub fn of_nothing(now: Timestamp) -> Self {
        Self {
            now,
            prior_flight: 0,
            acked: 0,
            lost: 0,
            marked: 0,
            reduction: None,
            recovering: false,
            advanced: false,
            all_acked: false,
            application_limited: false,
            smoothed_rtt: None,
            latest_rtt: None,
            min_rtt: None,
            sample: None,
            coupling: Coupling::Uncoupled,
        }
    }
}

/// Why the congestion window is to be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Chunks were declared lost outside a recovery episode.
    Loss,
    /// The receiver reported CE marks (RFC 3168) outside a recovery episode.
    Ecn,
    /// T3-rtx expired: everything in flight on the path is declared lost.
    Timeout,
}

/// The state of a [`Controller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// The congestion window in bytes.
    pub cwnd: usize,
    /// The slow start threshold in bytes, if the algorithm has one.
    pub ssthresh: Option<usize>,
    /// `partial_bytes_acked` (RFC 9260 §7.2.2), if the algorithm has it.
    pub partial_bytes_acked: Option<usize>,
}

/// How the congestion window of a path depends on those of the other paths that carry data ([`crate::CoupledControl`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coupling {
    /// Independent: the path is a flow of its own (RFC 9260 §7.2).
    Uncoupled,
    /// Linked increases (RFC 6356 §3).
    Linked {
        /// The factor for the growth in congestion avoidance, relative to that of one uncoupled flow; at most 1.
        avoidance: f64,
        /// Paths with data in flight, this path included.
        paths: usize,
    },
    /// A group of paths that may share a bottleneck has the weight of one flow.
    Grouped {
        /// This path's part of it, more than 0 and at most 1. A window that grows with round trips grows by `weight`² times as much as
        /// that of one flow: a window that grows by a factor f is √f times as large in the long run.
        weight: f64,
    },
    /// Resource pooling (CMT/RPv1).
    Pooled {
        /// Sum of the congestion windows of the other paths with data in flight, in bytes.
        other_windows: usize,
        /// Sum of their slow start thresholds in bytes. A threshold larger than twice the window counts as twice the window.
        other_thresholds: usize,
    },
}

impl Coupling {
    /// Whether the path is only a part of a flow.
    pub(crate) fn is_in_group(self) -> bool {
        matches!(self, Self::Grouped { weight } if weight < 1.0)
    }
}

/// The congestion control algorithm of the paths.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum CongestionControl {
    /// [`CongestionControl::Cubic`]; [`CongestionControl::Rfc9260`] with [`crate::CoupledControl::Lia`] and
    /// [`crate::CoupledControl::ResourcePooling`], which couple its windows. The default.
    #[default]
    Automatic,
    /// RFC 9260 §7.2: slow start, congestion avoidance, half the congestion window after a loss.
    Rfc9260,
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406) in the first slow start. After a loss it keeps 0.7 of the window, which then grows with
    /// the time since the loss and not with round trips. On paths with a high rate and long round-trip times it fills the path sooner than
    /// RFC 9260's algorithm. Of coupled controls it supports [`crate::CoupledControl::Grouped`].
    Cubic,
    /// BBR version 3 (draft-ietf-ccwg-bbr): paces packets at the measured delivery rate, and keeps queues short. Of coupled controls it
    /// supports [`crate::CoupledControl::Grouped`]: paths that may share a bottleneck send no more than CUBIC would there.
    Bbr(BbrConfig),
    /// An algorithm of the application: see [`CongestionControl::external`].
    External(ControllerFactory),
}

impl CongestionControl {
    /// An algorithm of the application. `make` is called once for each path of each association, and again for each path if the peer
    /// restarts.
    pub fn external<C: Controller + 'static>(make: impl Fn(&NewPath) -> C + Send + Sync + 'static) -> Self {
        Self::External(ControllerFactory {
            make: Arc::new(move |path| Box::new(make(path))),
        })
    }
}

/// Settings of [`CongestionControl::Bbr`]. The default follows the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BbrConfig {
    /// If true, losses alone do not reduce BBR's model of the path while the RTT is near its minimum, unless more than 15 % of a round
    /// trip's packets are lost beyond the path's own share (see below). For links that lose packets at random, such as radio links; it deviates from the draft. Default false. The
    /// RTT is near its minimum if it is at most 1.25 times the minimum plus 5 ms. T3-rtx and CE marks count as in the draft.
    ///
    /// The path's own share is the least share of losses in the last four periods of at least 100 packets and 8 round trips in which there
    /// was no queue (the mean RTT was at most 17/16 of the minimum plus 1 ms), and at most 25 %.
    ///
    /// If the queue of the bottleneck holds less than a quarter of the minimum RTT plus 5 ms, the RTT never rises above that limit. There
    /// BBR with this setting loses more packets than the draft allows, and takes a larger share than other flows.
    pub tolerate_random_loss: bool,
}

type Make = dyn Fn(&NewPath) -> Box<dyn Controller> + Send + Sync;

/// Makes the controllers of [`CongestionControl::External`]. Two factories are equal if one is a clone of the other.
#[derive(Clone)]
pub struct ControllerFactory {
    make: Arc<Make>,
}

impl ControllerFactory {
    pub(crate) fn make(&self, path: &NewPath) -> Box<dyn Controller> {
        (self.make)(path)
    }
}

impl fmt::Debug for ControllerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerFactory").finish_non_exhaustive()
    }
}

impl PartialEq for ControllerFactory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}
