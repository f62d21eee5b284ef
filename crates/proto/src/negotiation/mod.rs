//! Capability negotiation at set-up (RFC 9260 §5.1): the fields of INIT and INIT ACK (`init`), the state cookie (`cookie`, §5.1.3), and the
//! extensions that both endpoints support (`capabilities`). An INIT may prove that its sender is no stranger (`init_guard`).

mod capabilities;
mod cookie;
mod init;
mod init_guard;
mod negotiated;

pub(crate) use capabilities::Capabilities;
pub(crate) use cookie::{CookieError, CookieMint, StateCookie, TieTags};
pub(crate) use init::{
    InitFields, InitRefusal, OwnInit, PeerInit, answer_init, first_tsn, init_parameters, is_unicast,
};
pub use init_guard::InitGuard;
pub(crate) use init_guard::{is_proved, prove};
pub(crate) use negotiated::Negotiated;
