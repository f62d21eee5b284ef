//! The bed: the simulator's [`Link`](anabranch_netsim::Link) in real time, between two network namespaces of this machine. Real programs,
//! the kernel's TCP and any other stack run on the bed, in the same network conditions as in a simulation.
//!
//! [`Bed::build`] makes two namespaces, `left` and `right`, and a pair of TUN devices for each path. A thread for each path reads packets
//! from one device, passes them to the link of that direction, and writes them to the other device at the time that the link decides.
//! [`Bed::spawn`] starts a command on either side. When a bed is dropped, it ends the processes in its namespaces and removes them. If the
//! process of a bed was killed, the next bed removes the remains.
//!
//! Linux only. A bed needs the rights to make namespaces and devices (root, or `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`).

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
