//! Early copies of urgent messages. If a message is useful for less than two round-trip times, a retransmission comes too late, because the
//! loss is known only a round-trip time after the message left. So a chunk of a message with [`SendOptions::early_copies`] is sent again
//! while it is not acknowledged: a third of a round-trip time later, then after another third, until the number of copies is reached.
//! If the deadline is nearer, the copies are closer together, so that all of them can arrive before it. A copy never leaves before its time,
//! although an earlier packet may have room: losses come in bursts, and copies in packets that follow each other share the burst.
//! It is an ordinary DATA chunk with the same TSN: any receiver drops the second one (RFC 9260 §6.2).
//!
//! Copies stay honest:
//!
//! * They count in the congestion window and for the pacer: a copy leaves only if the window has room, and later data waits for the pacer.
//! * They hide no loss. A receiver that gets a chunk twice reports its TSN as a duplicate (RFC 9260 §6.2). If the acknowledgement of a
//!   packet that left with the copy, or later, arrives and the duplicate was not reported, a packet was lost: the chunk's or the copy's. This
//!   counts as a loss for the controller, as a loss that a tail loss probe repairs does (RFC 8985 §7.4), and is never undone. If the report of
//!   the duplicate was lost, a loss is counted that did not happen.
//! * A duplicate is first explained by a copy, also by one that counts as lost already. Only further duplicates say that a retransmission was
//!   spurious (RFC 3708).
//! * The acknowledgement of a retransmission shows nothing about copies: an earlier transmission of its chunk may have arrived.
//! * A chunk that was copied gives an RTT sample only if nothing that left with its copy, or later, is acknowledged yet (Karn's algorithm).
//!
//! Copies need RACK, and a peer that reports duplicates (RFC 9260 §6.2: SHOULD): a path whose peer has reported none of 32 copies gets no more.
//!
//! With ECA-SCTP, acknowledgements name transmissions, and each copy has a number ([`Fate::Copy`](crate::path::Fate)). It is known which
//! transmission brought a chunk and which were lost, so that copies of messages with a deadline may take other paths. If a copy brings
//! the chunk, the first transmission is a copy from then on: its fate is still open, and counts as a loss if it did not arrive.
//!
//! [`SendOptions::early_copies`]: crate::SendOptions::early_copies

mod in_flight;
mod planned;

pub(crate) use in_flight::CopiesInFlight;
pub(crate) use planned::{PlannedCopies, PlannedCopy, spacing};
