//! Messages with a deadline ([`SendOptions::deadline`]): how many copies of a chunk are needed so that it arrives in time with a
//! probability of 99.9 % (a setting), from the losses that its path has shown in the last seconds. A loss that a retransmission repairs in time needs
//! no copy, and on a path without losses nothing is sent twice. The copies themselves are in `extension/early_copies`.
//!
//! [`SendOptions::deadline`]: crate::SendOptions::deadline

mod chance;
mod needed_copies;
mod path_estimate;
mod recent_loss;
mod room;
mod standing_queue;

pub(crate) use chance::{Chance, Failure, Loss};
pub(crate) use needed_copies::{MayBeLate, needed_copies};
pub(crate) use path_estimate::PathEstimate;
pub(crate) use recent_loss::RecentLoss;
pub(crate) use room::Room;
pub(crate) use standing_queue::StandingQueue;
