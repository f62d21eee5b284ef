//! Several addresses of the peer, and changes of a path.

mod destinations;
mod multihoming;
mod path_mtu;
mod path_settings;
mod potentially_failed;
mod route_change;
