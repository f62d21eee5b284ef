//! Congestion control of a path (RFC 9260 §7.2): the interface of its algorithms, and RFC 9260's own.
//!
//! Each path has a [`Controller`], which decides how many bytes may be in flight there. [`crate::Config::congestion_control`]
//! chooses the algorithm. `docs/CONGESTION-CONTROLLERS.md` shows how to write another one.

mod choice;
mod coupled;
mod rfc9260;

use core::fmt::Debug;
use core::time::Duration;

use crate::time::Timestamp;

pub(crate) use choice::AnyController;
pub use choice::{CongestionControl, ControllerFactory};
pub use coupled::Coupling;
pub(crate) use coupled::Member;

/// A congestion control algorithm at work on one path. All bytes are those of whole DATA chunks, with chunk header and padding
/// (RFC 9260 §1.6 and §7.2.2 count so).
///
/// The sender asks for [`Controller::window`] before each packet. It calls the other methods after what they tell has happened.
pub trait Controller: Debug + Send {
    /// A DATA chunk of `bytes` was sent, a retransmission too; with it `flight` bytes are in flight on the path.
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
