//! The laboratory's experiments on real packets: a scenario of [`anabranch_lab::stage`] on a [bed](anabranch_bed), with this
//! project's sender and receiver over [`anabranch::Endpoint`] and the kernel's TCP by `iperf3`, in real time.
//!
//! [`Field`] is what [`anabranch_lab::stage::beside`] asks for. A run has a bed of its own; sender and receiver are threads with
//! sockets in its two namespaces, each with a runtime of its own. So both have one clock, and a delay is a difference.

#![cfg(target_os = "linux")]

mod clock;
mod error;
mod field;
mod hosts;
mod iperf;
mod receiver;
mod run;
mod sender;
mod watcher;

pub use error::FieldError;
pub use field::Field;
