//! Repair of large messages with a deadline ([`SendOptions::deadline`], experimental). A message of several fragments would need a copy of each
//! fragment, because nobody knows which of them will be lost. A *repair chunk* replaces any one of them: with `r` repair chunks, any `r` fragments
//! may be lost. They are the rows of a Reed-Solomon code over the fragments ([`code`]).
//!
//! * A repair chunk is an I-DATA (or E-I-DATA) chunk with the bit R, a TSN of its own, and the stream and MID of its message. In place of the FSN
//!   it has a [`Label`]. Its user data is as long as the longest fragment.
//! * It is acknowledged, counts in all windows and is lost as any chunk is, and is never retransmitted: I-FORWARD-TSN passes it.
//! * The receiver joins the message as soon as the fragments and repair chunks together are as many as the fragments
//!   (`receive/interleaved/repairs.rs`). It does not
//!   acknowledge a fragment that did not arrive: the loss is noticed and reduces the window as without repair, and the fragment is retransmitted
//!   if the deadline permits.
//! * Only unordered messages of at most [`MOST_FRAGMENTS`] fragments are repaired, whose fragments but for the last are equally long: the first of
//!   them carries the PPID in place of its last four bytes, so that it is repaired too.
//!
//! [`SendOptions::deadline`]: crate::SendOptions::deadline

mod code;
mod label;
mod needed;
mod sent;

pub(crate) use code::decode;
pub(crate) use label::Label;
pub(crate) use needed::{Fates, needed_repairs};
pub(crate) use sent::Sent;

/// The most fragments of a message that is repaired: the work of a repair is proportional to their bytes and to the number of missing ones.
pub(crate) const MOST_FRAGMENTS: usize = 64;
/// The most repair chunks of a message.
pub(crate) const MOST_REPAIRS: usize = 16;
