//! Explicit Congestion Notification (RFC 3168; draft-stewart-tsvwg-sctpecn): marks in the place of losses, paths that drop ECN-capable
//! packets, and peers that report what is not true.

mod network;
mod receiver;
mod sender;

use anabranch_proto::Config;

/// The default, with ECN.
fn with_ecn() -> Config {
    Config {
        ecn: true,
        ..Config::default()
    }
}
