//! ECA-SCTP (Kim, Seo and Song, *ECA-SCTP: Enhanced Cooperative ACK*): every transmission has a number on its path, a
//! cooperative acknowledgement names transmissions of all paths, and returns by the path that the sender chose.
//!
//! The sender's half: which transmissions may be named ([`Transmissions`]), and where they are to be acknowledged
//! ([`Cooperation`]). The receiver's: which arrived ([`Arrivals`]).

mod arrivals;
mod cooperation;
mod transmissions;

pub(crate) use arrivals::Arrivals;
pub(crate) use cooperation::{Cooperation, PathView};
pub(crate) use transmissions::{NamedAck, Transmissions};
