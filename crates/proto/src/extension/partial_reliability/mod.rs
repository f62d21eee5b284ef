//! Partial reliability (RFC 3758, RFC 7496): the point up to which the receiver is told not to wait.
//!
//! The seam `message/persistence.rs` decides when a message is abandoned. Its chunks are handled in
//! `recovery/outstanding/abandoned.rs`, and the receiver's side is `receive/forward.rs`.

mod forward_point;

pub(crate) use forward_point::ForwardPoint;
