//! Explicit Congestion Notification (RFC 3168; draft-stewart-tsvwg-sctpecn): CE marks instead of losses, paths that drop
//! ECN-capable packets, and peers that send false reports.

mod network;
mod receiver;
mod sender;

use anabranch_proto::Config;
use anabranch_testkit::with;

/// Default settings with ECN.
fn with_ecn() -> Config {
    with(Config::default(), |config| config.ecn = true)
}
