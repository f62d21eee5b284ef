//! Several paths, one at a time and at once, and address translators on real sockets, in network namespaces that each test makes for itself. Where it
//! cannot (no root, no `ip`), it says so and is skipped. The delay of 40 ms is that of the in-process link, on one side;
//! paths are cut for good, by taking down the device at the *other* end, so that the sender's packets vanish unnoticed.
#![cfg(target_os = "linux")]

#[path = "namespaces/bed.rs"]
mod bed;
#[path = "common/captured.rs"]
mod captured;
#[path = "namespaces/failover.rs"]
mod failover;
#[path = "namespaces/hosts.rs"]
mod hosts;
#[path = "namespaces/multipath.rs"]
mod multipath;
#[path = "common/peer_messages.rs"]
mod peer_messages;
#[path = "namespaces/refusals.rs"]
mod refusals;
#[path = "common/transfer.rs"]
mod transfer;
#[path = "namespaces/translator.rs"]
mod translator;
#[path = "namespaces/usrsctp.rs"]
mod usrsctp;
#[path = "namespaces/usrsctp_at_once.rs"]
mod usrsctp_at_once;
