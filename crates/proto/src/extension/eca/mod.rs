//! ECA-SCTP (Kim, Seo and Song, *ECA-SCTP: Enhanced Cooperative ACK*): every transmission has a number on its path, a
//! cooperative acknowledgement names transmissions of all paths, and returns by the path that the sender chose.
//!
//! The sender's half: where transmissions are to be acknowledged ([`Cooperation`]); which may be named is in
//! `recovery/identity.rs`. The receiver's: which arrived ([`Arrivals`]).

mod arrivals;
mod cooperation;

pub(crate) use arrivals::Arrivals;
pub(crate) use cooperation::{Cooperation, PathView};
