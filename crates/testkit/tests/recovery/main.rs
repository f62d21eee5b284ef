//! Loss detection and retransmission, with copies and repair chunks beside.

mod early_copies;
mod loss;
mod many_gaps;
mod rack;
mod rack_sacks;
mod reneging;
mod repair;
#[path = "../common/sacks.rs"]
mod sacks;
mod tails;
