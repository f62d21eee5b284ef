//! Capability negotiation at set-up (RFC 9260 §5.1): the fields of INIT and INIT ACK (`init`), the state cookie (`cookie`, §5.1.3), and the
//! extensions that both endpoints support (`capabilities`).

mod capabilities;
mod cookie;
mod init;
mod negotiated;

pub(crate) use capabilities::Capabilities;
pub(crate) use cookie::{CookieError, CookieMint, StateCookie, TieTags};
pub(crate) use init::{
    InitFields, InitRefusal, OwnInit, PeerInit, answer_init, first_tsn, init_parameters, is_unicast,
};
pub(crate) use negotiated::Negotiated;
