//! Partial reliability (RFC 3758, RFC 7496): moves the receiver's cumulative TSN past abandoned messages.
//!
//! `message/persistence.rs` decides when a message is abandoned. `recovery/outstanding/abandoned.rs` handles its chunks, and
//! `receive/forward.rs` is the receiver's part.

mod forward_point;

pub(crate) use forward_point::ForwardPoint;
