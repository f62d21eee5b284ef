//! TCP as cross traffic: a sender with continuous data or with bursts, and a receiver that acknowledges the data.
//!
//! The model competes for links as TCP does and counts its traffic; it carries no real data. Without loss it does a constant amount of work
//! for each segment. In recovery the work grows with the number of holes.
//!
//! | mechanism | file | source |
//! | --- | --- | --- |
//! | slow start, congestion avoidance, restart after idle | `window.rs` | RFC 5681, RFC 6928, RFC 3465 |
//! | CUBIC | `cubic.rs` | RFC 9438 |
//! | HyStart++ | `hystart.rs` | RFC 9406 |
//! | fast retransmit, limited transmit | `sender.rs` | RFC 5681, RFC 3042 |
//! | fast recovery of Reno and NewReno | `sender.rs` | RFC 5681, RFC 6582 |
//! | recovery with SACK | `sender.rs`, `scoreboard.rs` | RFC 6675 |
//! | retransmission timer | `rto.rs` | RFC 6298 |
//! | delayed acknowledgements, SACK blocks | `receiver.rs` | RFC 5681 §4.2, RFC 2018 |
//! | headers, timestamps, window scale | `segment.rs` | RFC 9293, RFC 7323 |
//!
//! Not modelled: data in both directions of a connection, closing, a receiver that reads slowly, path MTU discovery, ECN, and newer loss
//! recovery (RFC 6937, RFC 8985).

mod config;
mod cubic;
mod hystart;
mod node;
mod receiver;
mod rto;
mod scoreboard;
mod segment;
mod sender;
mod timer;
mod traffic;
mod window;

pub use config::{Recovery, TcpConfig, TcpCongestionControl};
pub use node::{TcpSink, TcpSource};
pub use receiver::TcpSinkStats;
pub use segment::{SackBlocks, Segment, SynOptions};
pub use sender::TcpStats;
pub use traffic::Traffic;

/// The time as a timestamp value (TSval), in milliseconds.
fn timestamp_value(now: anabranch_proto::Timestamp) -> u32 {
    (now.0 / 1_000_000) as u32
}
