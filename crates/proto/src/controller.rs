//! The interface of congestion control algorithms, and the setting that chooses one. The algorithms themselves, and what calls them,
//! are in the room `congestion`.
//!
//! Each path has a [`Controller`], which decides how many bytes may be in flight there (RFC 9260 §7.2).
//! [`crate::Config::congestion_control`] chooses the algorithm. `docs/CONGESTION-CONTROLLERS.md` shows how to write another one.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::time::Timestamp;

/// A congestion control algorithm at work on one path. All bytes are those of whole DATA chunks, with chunk header and padding
/// (RFC 9260 §1.6 and §7.2.2 count so).
///
/// The sender asks for [`Controller::window`] before each packet. It calls the other methods after what they tell has happened.
pub trait Controller: fmt::Debug + Send {
    /// A packet with `bytes` of DATA chunks was sent, retransmissions included; with them `flight` bytes are in flight on the path.
    #[inline]
    fn on_sent(&mut self, now: Timestamp, bytes: usize, flight: usize) {
        let _ = (now, bytes, flight);
    }

    /// An acknowledgement or a timer changed what is in flight on the path. Called once for each of them, and only if bytes were
    /// acknowledged or found lost.
    fn on_report(&mut self, report: &Report);

    /// The path carried no DATA for another RTO (RFC 9260 §7.2.1); `first` in this pause. Called when DATA is to leave again, once
    /// for each RTO that passed.
    fn on_idle(&mut self, now: Timestamp, first: bool) {
        let _ = (now, first);
    }

    /// The path MTU changed: a packet of the path now has room for a DATA chunk of `max_data` bytes (PMDCS).
    fn on_packet_size(&mut self, max_data: usize);

    /// The congestion window in bytes. While fewer bytes are in flight, another packet may leave. A path never comes to a halt: with
    /// nothing in flight, one packet leaves whatever the window is.
    fn window(&self) -> usize;

    /// The state of the algorithm, for statistics and for the choice of a path.
    fn metrics(&self) -> Metrics {
        Metrics {
            cwnd: self.window(),
            ssthresh: None,
            partial_bytes_acked: None,
        }
    }
}

/// A path for which a [`Controller`] is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPath {
    /// PMDCS: the largest DATA chunk in bytes that fits a packet of the path.
    pub max_data: usize,
    /// The congestion window that the path may begin with, in bytes: RFC 9260 §7.2.1's, or that of
    /// [`crate::Config::initial_window`].
    pub initial_window: usize,
}

/// What an acknowledgement or a timer did to one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// When the acknowledgement arrived, or the timer expired.
    pub now: Timestamp,
    /// Bytes in flight on the path before. The window was used fully if there were no fewer than [`Controller::window`].
    pub prior_flight: usize,
    /// Bytes acknowledged for the first time, by the cumulative TSN ack or by gap ack blocks.
    pub acked: usize,
    /// Bytes found lost: by missing reports, by a timer, or because their message is abandoned at the first missing report.
    pub lost: usize,
    /// Whether the window is to be reduced, and why. Losses of one episode ask for one reduction (RFC 9260 §7.2.4).
    pub reduction: Option<Reduction>,
    /// Whether losses found before are still being repaired.
    pub recovering: bool,
    /// Whether progress in order was made: the cumulative TSN ack point moved. With several paths at once: the earliest chunk in
    /// flight on this path was acknowledged (draft-tuexen-tsvwg-sctp-multipath §3.2).
    pub advanced: bool,
    /// Whether all data was acknowledged; with several paths at once, all that was sent on this path.
    pub all_acked: bool,
    /// The smoothed RTT of the path, once measured.
    pub smoothed_rtt: Option<Duration>,
    /// How the window depends on those of other paths, if several paths are used at once.
    pub coupling: Coupling,
}

/// Why the congestion window is to be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Chunks were found lost, and no episode of recovery lasts yet.
    Loss,
    /// T3-rtx expired: everything in flight on the path was lost.
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
    /// Not at all: the path is a flow of its own, as RFC 9260 has it.
    Uncoupled,
    /// Linked increases (RFC 6356 §3).
    Linked {
        /// What the path takes of the growth that one flow would have in congestion avoidance, at most 1.
        avoidance: f64,
        /// Paths with data in flight, this path included.
        paths: usize,
    },
    /// Resource pooling (CMT/RPv1).
    Pooled {
        /// Congestion windows of the other paths with data in flight, summed up, in bytes.
        other_windows: usize,
        /// Their slow start thresholds, summed up, in bytes. A path counts with twice its window if that is less.
        other_thresholds: usize,
    },
}

/// The congestion control algorithm of the paths.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum CongestionControl {
    /// RFC 9260 §7.2: slow start, congestion avoidance, half the window after a loss.
    #[default]
    Rfc9260,
    /// An algorithm of the application's own: see [`CongestionControl::external`].
    External(ControllerFactory),
}

impl CongestionControl {
    /// An algorithm of the application's own. `make` is called once for each path of each association, and again for each path
    /// if the peer restarts.
    pub fn external<C: Controller + 'static>(make: impl Fn(&NewPath) -> C + Send + Sync + 'static) -> Self {
        Self::External(ControllerFactory {
            make: Arc::new(move |path| Box::new(make(path))),
        })
    }
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
