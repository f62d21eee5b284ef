//! Forwards UDP and TCP ports (and Unix stream sockets) of programs that cannot be changed over SCTP, with deadlines, priorities and several
//! paths. A client has rules; a server forwards as far as its [`Policy`] permits.
//!
//! **This crate does not encrypt.** The caller sets up the associations, and is responsible for encryption and for knowing the peer.
//!
//! A client and a server on one machine, and a program that sends a datagram through them:
//!
//! ```
//! use std::sync::Arc;
//!
//! use anabranch_forward::{Client, Limits, Listen, Policy, PORT, Protocol, Rule, Server, endpoint};
//! use tokio::net::UdpSocket;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let target = UdpSocket::bind("127.0.0.1:0").await?;
//!     let limits = Limits::default();
//!
//!     let policy = Arc::new(Policy { targets: vec!["127.0.0.1:*/udp".parse()?], ..Policy::default() });
//!     let at = endpoint(&limits).bind("127.0.0.1:0").await?;
//!     at.listen_on_port(PORT)?;
//!     let address = at.local_addr();
//!     let server = Arc::new(Server::new(limits));
//!     tokio::spawn(async move { server.run(&at, |_| Arc::clone(&policy)).await });
//!
//!     let rule = format!("0={},deadline=300ms", target.local_addr()?);
//!     let client = Client::bind(vec![Rule::parse(Protocol::Udp, false, &rule)?], limits).await?;
//!     let Some(Listen::Socket(place)) = client.places()[0].clone() else { panic!("it listens") };
//!     let from = endpoint(&limits).bind("127.0.0.1:0").await?;
//!     tokio::spawn(async move { client.run(|| from.connect_to_port(address, PORT)).await });
//!
//!     let program = UdpSocket::bind("127.0.0.1:0").await?;
//!     let mut buffer = [0; 100];
//!     let arrived = loop {
//!         // Datagrams that are sent before there is an association are dropped.
//!         program.send_to(b"hello", place).await?;
//!         let wait = std::time::Duration::from_millis(20);
//!         if let Ok(received) = tokio::time::timeout(wait, target.recv(&mut buffer)).await {
//!             break received?;
//!         }
//!     };
//!     assert_eq!(&buffer[..arrived], b"hello");
//!     Ok(())
//! }
//! ```

mod classify;
mod client;
mod counters;
mod dial;
mod failure;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod lock;
mod memory;
mod pace;
mod policy;
mod rule;
mod server;
mod session;
mod settings;
mod socket;
mod wire;

pub use client::{Client, ClientError, ClientEvent};
pub use counters::RuleStats;
pub use failure::TargetFailure;
pub use limits::{Limits, MOST_FLOWS};
pub use policy::{Permission, Policy};
pub use rule::{CLASSES, LONGEST_DEADLINE, Listen, Protocol, Rule, RuleError, Target, Traffic, allowed_idle};
pub use server::{ClientStatus, Server, ServerEvent};
pub use settings::{PORT, endpoint};
pub use wire::MOST_RULES;
