//! ECA-SCTP (Kim, Seo and Song, *ECA-SCTP: Enhanced Cooperative ACK*): every transmission has a number on its path. A COOP-SACK
//! acknowledges transmissions of all paths and returns on the path that the data sender chose.
//!
//! [`Cooperation`] is the data sender's half: it selects the path for acknowledgements. (`recovery/identity.rs` owns the numbers of
//! transmissions that may be acknowledged.) [`Arrivals`] is the data receiver's half: it owns the transmissions that arrived.

mod arrivals;
mod cooperation;
mod receiver_clock;

pub(crate) use arrivals::Arrivals;
pub(crate) use cooperation::{Cooperation, PathView};
