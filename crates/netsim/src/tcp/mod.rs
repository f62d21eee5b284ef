//! TCP as cross traffic: a sender that always has data, or has it in bursts, and a receiver that acknowledges it.
//!
//! It is there to compete for links as TCP does, and to be counted; it carries nothing. Per segment it does a constant
//! amount of work while nothing is lost, and in recovery an amount that grows with the number of holes.
//!
//! | what | where | from |
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
//! Not modelled: data in both directions of a connection, its end, a receiver that reads slowly, path MTU discovery,
//! ECN, and later loss recovery (RFC 6937, RFC 8985).

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

/// The time as timestamps have it, in milliseconds.
fn timestamp_value(now: anabranch_proto::Timestamp) -> u32 {
    (now.0 / 1_000_000) as u32
}
