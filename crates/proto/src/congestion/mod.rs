//! Congestion control of a path (RFC 9260 §7.2): the algorithms behind [`crate::controller::Controller`]. `rfc9260`: slow start, congestion
//! avoidance, window reductions (§7.2.1 to §7.2.3); `classic`: CUBIC (RFC 9438); `bbr`: BBR version 3; `coupled`: coupled windows of
//! several paths (RFC 6356); `groups`: which paths may share a bottleneck; `grouped_bbr`: BBR there; `prr`: proportional rate reduction (RFC 9937).

mod any;
mod bbr;
#[cfg(test)]
mod bottleneck;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod checked;
pub(crate) mod classic;
mod coupled;
mod grouped_bbr;
mod groups;
mod prr;
mod rfc9260;

pub(crate) use any::AnyController;
pub(crate) use coupled::Member;
pub(crate) use groups::Groups;
pub(crate) use prr::{ProportionalRateReduction, RecoveryAck};
