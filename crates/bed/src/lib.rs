//! The bed: the simulator's [`Link`](anabranch_netsim::Link) in real time, between two network namespaces of this machine.
//! On it run real programs, the kernel's TCP and any other stack, and meet the network that a simulation would give them.
//!
//! [`Bed::build`] makes two namespaces, `left` and `right`, and a pair of TUN devices for each path; a thread for each path
//! takes packets from one device, gives them to the link of that direction and hands them to the other device when the link
//! says. [`Bed::spawn`] starts a command on either side. A bed that is dropped ends what still runs in its namespaces and
//! removes them; what a bed left behind whose process was killed is removed by the next one.
//!
//! Linux only, and it needs the rights to make namespaces and devices (root, or `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`).

#![cfg(target_os = "linux")]

mod bed;
mod carrier;
mod error;
mod identity;
mod ip_packet;
mod lateness;
mod namespace;
mod priority;
mod stolen;
mod way;

pub use bed::{Bed, PathPlan, Plan, Side};
pub use error::BedError;
pub use identity::{BedId, running};
pub use lateness::{HELD_WITHIN, Lateness};
pub use namespace::sweep;
pub use priority::raise_priority;
pub use way::WayCounters;
