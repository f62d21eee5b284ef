//! The bed as a whole: two namespaces, a pair of devices and a carrier for each path, and commands on both sides.

use core::fmt;
use std::fs;
use std::io::{self, PipeWriter};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::Timestamp;
use tun_rs::DeviceBuilder;

use crate::carrier::{Carrier, Clock};
use crate::error::BedError;
use crate::identity::BedId;
use crate::namespace::{Namespace, end_processes, sweep};
use crate::priority::raise_priority;
use crate::stolen::Processors;
use crate::way::{Way, WayCounters};

/// Paths are numbered from 1, and the number is one byte of the path's addresses.
pub(crate) const MOST_PATHS: usize = 250;
/// The smallest MTU of IPv6 (RFC 8200 §5).
pub(crate) const SMALLEST_MTU: u16 = 1280;
/// The MTU of Ethernet.
const USUAL_MTU: u16 = 1500;
/// Packets that the kernel queues until the bed reads them: half a second on a fast link. Losses therefore occur in the link's queue, not
/// here.
const DEVICE_QUEUE: u32 = 5000;

/// One of the two hosts of a bed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Has addresses that end in 1.
    Left,
    /// Has addresses that end in 2.
    Right,
}

impl Side {
    /// Left, then right.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    /// The opposite side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    fn host(self) -> u8 {
        self as u8 + 1
    }

    /// The side's address on a path, counted from 1: `10.77.PATH.1` or `10.77.PATH.2`, with a prefix of 24 bits.
    #[must_use]
    pub fn ipv4(self, path: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, path, self.host())
    }

    /// The side's address on a path, counted from 1: `fd77:0:0:PATH::1` or `fd77:0:0:PATH::2`, with a prefix of 64 bits.
    #[must_use]
    pub fn ipv6(self, path: u8) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, path.into(), 0, 0, 0, self.host().into())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Right => "right",
        })
    }
}

/// The settings of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPlan {
    /// The link of packets from left to right.
    pub rightward: LinkConfig,
    /// The link of packets from right to left.
    pub leftward: LinkConfig,
    /// The MTU of the devices in bytes, at least 1280. `None`: 1500, or the larger MTU of the two links if that is more. A link with a
    /// smaller MTU drops larger packets silently, as some networks do.
    pub mtu: Option<u16>,
}

impl PathPlan {
    /// A path with the same link in both directions.
    #[must_use]
    pub fn symmetric(link: LinkConfig) -> Self {
        Self {
            rightward: link.clone(),
            leftward: link,
            mtu: None,
        }
    }

    fn device_mtu(&self) -> Result<u16, BedError> {
        let mtu = self
            .mtu
            .unwrap_or(USUAL_MTU.max(self.rightward.mtu).max(self.leftward.mtu));
        if mtu < SMALLEST_MTU {
            return Err(BedError::Mtu(mtu));
        }
        Ok(mtu)
    }
}

/// The settings of a bed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The paths, 1 to 250.
    pub paths: Vec<PathPlan>,
    /// Decides the random events on all links.
    pub seed: u64,
}

/// A path of a running bed.
#[derive(Debug)]
struct Path {
    carrier: Arc<Carrier>,
    /// The error that stopped the carrier, if there was one.
    failure: Arc<OnceLock<String>>,
    /// Closed to stop the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Path {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A bed. When it is dropped, it ends the processes in its namespaces and removes the namespaces and devices.
#[derive(Debug)]
pub struct Bed {
    id: BedId,
    clock: Clock,
    // Fields are dropped in order: the devices, which the paths hold, before the namespaces.
    paths: Vec<Path>,
    /// The left and the right one.
    namespaces: [Namespace; 2],
    has_ipv6: bool,
    /// The processor time when the bed was made.
    processors: Processors,
}

impl Bed {
    /// Makes a bed. First removes the remains of beds whose process was killed.
    ///
    /// # Errors
    /// If the plan is out of range, or the system refuses what a bed needs ([`BedError::is_refusal`]). No namespace or device is then left
    /// behind.
    pub fn build(plan: &Plan) -> Result<Self, BedError> {
        if plan.paths.is_empty() || plan.paths.len() > MOST_PATHS {
            return Err(BedError::Paths(plan.paths.len()));
        }
        for path in &plan.paths {
            path.device_mtu()?;
        }
        sweep();
        let id = BedId::next().map_err(BedError::system("no name for the bed"))?;
        let [left, right] = Side::BOTH.map(|side| Namespace::make(id.namespace(side)));
        let namespaces = [left?, right?];
        let prepared = namespaces.each_ref().map(prepare);
        let mut bed = Self {
            id,
            clock: Clock::start(),
            paths: Vec::new(),
            namespaces,
            has_ipv6: prepared == [true; 2],
            processors: Processors::now(),
        };
        for (number, path) in (1..).zip(&plan.paths) {
            let path = bed.join(number, path, plan.seed)?;
            bed.paths.push(path);
        }
        Ok(bed)
    }

    /// Makes a path: the devices, their addresses, and the thread between them.
    fn join(&self, number: u8, plan: &PathPlan, seed: u64) -> Result<Path, BedError> {
        let [left, right] = Side::BOTH.map(|side| self.device(side, number, plan));
        let ends = [left?, right?];
        let way = |config: &LinkConfig, direction| {
            Way::new(config.clone(), seed, &format!("path {number} {direction}"))
        };
        let ways = [way(&plan.rightward, "rightward"), way(&plan.leftward, "leftward")];
        let carrier = Arc::new(Carrier::new(self.clock, ways));
        let failure = Arc::new(OnceLock::new());
        let (stopped, stop) = io::pipe().map_err(BedError::system("no pipe"))?;
        let thread = thread::Builder::new().name(format!("path {number}")).spawn({
            let (carrier, failure) = (Arc::clone(&carrier), Arc::clone(&failure));
            move || {
                raise_priority();
                if let Err(error) = carrier.run(&ends, &stopped) {
                    let _ = failure.set(error.to_string());
                }
            }
        });
        Ok(Path {
            carrier,
            failure,
            stop: Some(stop),
            thread: Some(thread.map_err(BedError::system("no thread"))?),
        })
    }

    /// A path's device on one side, with its addresses.
    fn device(&self, side: Side, number: u8, plan: &PathPlan) -> Result<OwnedFd, BedError> {
        let namespace = self.namespace(side);
        let name = device_name(number);
        let opened = namespace.inside(|| open_device(&name));
        let device = opened
            .map_err(|error| BedError::Namespace {
                told: error.to_string(),
            })?
            .map_err(BedError::Device)?;
        let mtu = plan.device_mtu()?;
        let mut lines = format!(
            "link set {name} mtu {mtu} txqueuelen {DEVICE_QUEUE} multicast off\n\
             addr add {}/24 dev {name}\n",
            side.ipv4(number)
        );
        if self.has_ipv6 {
            // Only the hosts' own packets: no automatic link-local address, no duplicate address detection.
            lines += &format!(
                "link set {name} addrgenmode none\n\
                 addr add {}/64 dev {name} nodad\n",
                side.ipv6(number)
            );
        }
        lines += &format!("link set {name} up\n");
        namespace.set(&lines)?;
        // A reply may return by another path than its request.
        let setting = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        let _ = namespace.inside(|| fs::write(setting, "0"));
        Ok(device)
    }

    fn namespace(&self, side: Side) -> &Namespace {
        &self.namespaces[side as usize]
    }

    /// The name of the bed.
    #[must_use]
    pub fn id(&self) -> BedId {
        self.id
    }

    /// The number of paths.
    #[must_use]
    pub fn paths(&self) -> usize {
        self.paths.len()
    }

    /// Whether the hosts have IPv6 addresses. They have none if the kernel has no IPv6.
    #[must_use]
    pub fn has_ipv6(&self) -> bool {
        self.has_ipv6
    }

    /// The time since the bed was made.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.now().saturating_duration_since(Timestamp::ZERO)
    }

    /// The share of processor time, from 0 to 1, that the host of a virtual machine took since the bed was made. No priority helps against
    /// this.
    #[must_use]
    pub fn stolen(&self) -> f64 {
        Processors::now().stolen_since(self.processors)
    }

    /// The environment variables that [`spawn`](Self::spawn) gives to commands:
    ///
    /// | variable | |
    /// | --- | --- |
    /// | `ANABRANCH_BED` | the bed's name |
    /// | `ANABRANCH_BED_LEFT`, `ANABRANCH_BED_RIGHT` | the IPv4 addresses of a side, path by path, separated by blanks |
    /// | `ANABRANCH_BED_LEFT6`, `ANABRANCH_BED_RIGHT6` | the IPv6 addresses in the same form; empty where the kernel has none |
    /// | `ANABRANCH_BED_LEFT_NETNS`, `ANABRANCH_BED_RIGHT_NETNS` | the namespaces, for `ip netns exec` |
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut variables = vec![("ANABRANCH_BED".to_owned(), self.id.to_string())];
        let numbers = || (1..).take(self.paths.len());
        for side in Side::BOTH {
            let prefix = format!("ANABRANCH_BED_{}", side.to_string().to_uppercase());
            let v4: Vec<String> = numbers().map(|path| side.ipv4(path).to_string()).collect();
            let v6 = numbers().filter(|_| self.has_ipv6);
            let v6: Vec<String> = v6.map(|path| side.ipv6(path).to_string()).collect();
            variables.push((format!("{prefix}_NETNS"), self.id.namespace(side)));
            variables.push((format!("{prefix}6"), v6.join(" ")));
            variables.push((prefix, v4.join(" ")));
        }
        variables
    }

    /// Starts a command on a side, with [variables](Self::environment) that describe the bed. The command sees this machine's files, but
    /// only the bed's network. When the bed is dropped, it ends the command.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn spawn(&self, side: Side, command: &mut Command) -> io::Result<Child> {
        command.envs(self.environment());
        self.namespace(side).inside(|| command.spawn())?
    }

    /// Runs a function in the namespace of a side, on a thread of its own. Sockets that the function opens stay in the namespace.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn inside<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.namespace(side).inside(work)
    }

    /// Ends all processes in the bed's namespaces: terminates them, and kills those that still run after two seconds.
    pub fn end_commands(&self) {
        end_processes(&self.namespaces.each_ref().map(Namespace::name));
    }

    /// The counters of each path: from left to right, and from right to left.
    #[must_use]
    pub fn counters(&self) -> Vec<[WayCounters; 2]> {
        let lost = Side::BOTH.map(|side| self.lost_before(side));
        let mut counters: Vec<_> = self.paths.iter().map(|path| path.carrier.counters()).collect();
        for (index, ways) in counters.iter_mut().enumerate() {
            for (way, lost) in ways.iter_mut().zip(&lost) {
                way.lost_before = lost.get(index).copied().unwrap_or(0);
            }
        }
        counters
    }

    /// The packets that the kernel of a side dropped on each path before the bed could read them.
    fn lost_before(&self, side: Side) -> Vec<u64> {
        // The table of this thread: the process itself is in another namespace.
        let table = self
            .namespace(side)
            .inside(|| fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.and_then(|read| read).unwrap_or_default();
        let numbers = (1..).take(self.paths.len());
        numbers
            .map(|number| transmit_drops(&table, &device_name(number)).unwrap_or(0))
            .collect()
    }

    /// Whether the carriers of all paths still run.
    ///
    /// # Errors
    /// [`BedError::Broken`] with the first path whose carrier stopped.
    pub fn check(&self) -> Result<(), BedError> {
        let broken = (1..)
            .zip(&self.paths)
            .find_map(|(path, state)| Some((path, state.failure.get()?.clone())));
        broken.map_or(Ok(()), |(path, told)| Err(BedError::Broken { path, told }))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.end_commands();
    }
}

fn device_name(number: u8) -> String {
    format!("path{number}")
}

/// Makes a device in the namespace of this thread.
fn open_device(name: &str) -> io::Result<OwnedFd> {
    let device = DeviceBuilder::new().name(name).enable(false).build_sync()?;
    device.set_nonblocking(true)?;
    device.as_fd().try_clone_to_owned()
}

/// Sets the namespace's settings that do not belong to a path. Returns whether the namespace has IPv6.
fn prepare(namespace: &Namespace) -> bool {
    let prepared = namespace.inside(|| {
        let _ = fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
        let all = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
        let _ = fs::write(all, "0");
        let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "0");
        fs::read_to_string(all).is_ok_and(|disabled| disabled.trim() == "0")
    });
    let _ = namespace.set("link set lo up\n");
    prepared.unwrap_or(false)
}

/// The packets that a device was given and dropped: the fourth transmit counter in the kernel's table of devices.
fn transmit_drops(table: &str, device: &str) -> Option<u64> {
    let line = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().nth(8 + 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_tell_path_and_side() {
        assert_eq!(Side::Left.ipv4(1).to_string(), "10.77.1.1");
        assert_eq!(Side::Right.ipv4(3).to_string(), "10.77.3.2");
        assert_eq!(Side::Left.ipv6(1).to_string(), "fd77:0:0:1::1");
        assert_eq!(Side::Right.ipv6(16).to_string(), "fd77:0:0:10::2");
        assert_eq!(Side::BOTH.map(Side::other), [Side::Right, Side::Left]);
    }

    #[test]
    fn drops_are_read_from_the_kernels_table() {
        let table = "Inter-|   Receive                            |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
            lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n \
            path1: 6496    7    0    1    0     0          0         0     6580      8    0   42    0     0       0          0\n\
            path10:6496    7    0    1    0     0          0         0     6580      8    0    9    0     0       0          0\n";
        assert_eq!(transmit_drops(table, "path1"), Some(42));
        assert_eq!(transmit_drops(table, "path10"), Some(9));
        assert_eq!(transmit_drops(table, "path2"), None);
    }

    #[test]
    fn an_invalid_plan_is_an_error_before_anything_is_made() {
        let plan = |count, link: &str, mtu| Plan {
            paths: vec![
                PathPlan {
                    mtu,
                    ..PathPlan::symmetric(link.parse().unwrap())
                };
                count
            ],
            seed: 1,
        };
        let refused = |plan: &Plan| Bed::build(plan).unwrap_err();
        assert!(matches!(refused(&plan(0, "", None)), BedError::Paths(0)));
        assert!(matches!(refused(&plan(251, "", None)), BedError::Paths(251)));
        let small = refused(&plan(1, "mtu=1000", Some(1279)));
        assert!(
            small.to_string().contains("1280") && !small.is_refusal(),
            "{small}"
        );
        let of = |link, mtu| plan(1, link, mtu).paths[0].device_mtu().unwrap();
        assert_eq!(
            [
                of("mtu=1000", None),
                of("mtu=9000", None),
                of("mtu=9000", Some(1400))
            ],
            [1500, 9000, 1400]
        );
    }
}
