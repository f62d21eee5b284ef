//! Congestion control of a path: the seam, and RFC 9260 §7.2 in it.

mod coupled;
mod rfc9260;

use crate::config::RecoveryRules;

pub(crate) use coupled::{Coupling, Member};
pub(crate) use rfc9260::Rfc9260;

/// What one acknowledgement did to one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckedOnPath {
    /// Bytes acknowledged for the first time, by the cumulative ack or a gap block.
    pub(crate) newly_acked: usize,
    /// Bytes of DATA chunks in flight before the acknowledgement.
    pub(crate) flight_before: usize,
    /// Whether what arrives in order went on: the cumulative TSN ack point moved (§7.2.1).
    pub(crate) advanced: bool,
    /// Whether losses are being repaired.
    pub(crate) in_fast_recovery: bool,
    /// Whether nothing is in flight on the path any more.
    pub(crate) all_acked: bool,
    /// How the window depends on those of other paths.
    pub(crate) coupling: Coupling,
}

/// The controllers; one variant each.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    Rfc9260(Rfc9260),
}

impl Controller {
    /// `max_data` is PMDCS, the largest DATA chunk that fits a packet of the path.
    /// `initial_window` is in packets, if not RFC 9260's.
    pub(crate) fn new(
        max_data: usize,
        ipv6: bool,
        rules: &RecoveryRules,
        initial_window: Option<u32>,
    ) -> Self {
        let mut control = Rfc9260::new(max_data, ipv6, rules);
        if let Some(packets) = initial_window {
            control.cwnd = packets as usize * max_data;
        }
        Self::Rfc9260(control)
    }

    pub(crate) fn cwnd(&self) -> usize {
        let Self::Rfc9260(control) = self;
        control.cwnd
    }

    pub(crate) fn ssthresh(&self) -> usize {
        let Self::Rfc9260(control) = self;
        control.ssthresh
    }

    pub(crate) fn partial_bytes_acked(&self) -> usize {
        let Self::Rfc9260(control) = self;
        control.partial_bytes_acked
    }

    pub(crate) fn on_ack(&mut self, acked: AckedOnPath) {
        let Self::Rfc9260(control) = self;
        control.on_ack(acked);
    }

    /// Chunks of the path were declared lost by missing reports: one cut a window (§7.2.3).
    pub(crate) fn on_fast_retransmit(&mut self, coupling: Coupling) {
        let Self::Rfc9260(control) = self;
        control.on_fast_retransmit(coupling);
    }

    /// T3-rtx expired (§7.2.3).
    pub(crate) fn on_timeout(&mut self, coupling: Coupling) {
        let Self::Rfc9260(control) = self;
        control.on_timeout(coupling);
    }

    /// Nothing was sent on the path for one RTO (§7.2.1); `first` in this pause.
    pub(crate) fn on_idle(&mut self, first: bool) {
        let Self::Rfc9260(control) = self;
        control.on_idle(first);
    }

    /// The path's PMDCS changed.
    pub(crate) fn on_max_data(&mut self, max_data: usize) {
        let Self::Rfc9260(control) = self;
        control.max_data = max_data;
    }
}
