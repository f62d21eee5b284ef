//! Pacing: how the packets of a path are spread in time. A token bucket if the congestion controller gives a rate, otherwise `Max.Burst`
//! alone (RFC 9260 §6.1 D).

mod burst;
mod pacer;

pub(crate) use burst::Burst;
pub(crate) use pacer::Pacer;
