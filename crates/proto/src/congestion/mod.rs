//! Congestion control of a path (RFC 9260 §7.2): the algorithms behind [`crate::controller::Controller`], and the coupling of several
//! paths.

mod any;
mod bbr;
#[cfg(test)]
mod bottleneck;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod checked;
pub(crate) mod classic;
mod coupled;
mod prr;
mod rfc9260;

pub(crate) use any::AnyController;
pub(crate) use coupled::Member;
pub(crate) use prr::{ProportionalRateReduction, RecoveryAck};
