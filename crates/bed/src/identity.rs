//! The owner of a bed: namespaces are named after the process that made them. A bed can therefore find the remains of a killed process
//! without touching anything else.

use core::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::bed::Side;

/// The prefix of all namespace names of beds.
const PREFIX: &str = "anabranch-bed-";
/// The directory in which `ip` keeps named namespaces.
pub(crate) const NAMESPACES: &str = "/run/netns";

/// The identity of a bed on this machine. Its text form is the process number, the process's start time in ticks since the machine started,
/// and the number of the bed within the process, such as `1234-567890-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BedId {
    pid: u32,
    /// Process numbers are reused; a process number with a start time is not.
    started: u64,
    number: u32,
}

impl BedId {
    /// A new identity, of this process.
    pub(crate) fn next() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let pid = std::process::id();
        let started = started(pid).ok_or_else(|| io::Error::other("/proc tells nothing of this process"))?;
        Ok(Self {
            pid,
            started,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// The process that made the bed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process that made it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Terminates the process that made the bed, and waits until it has ended.
    ///
    /// # Errors
    /// If this is not allowed, or the process still runs after `limit`.
    pub fn end(&self, limit: Duration) -> io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let process = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            None | Some(Err(Errno::SRCH)) => return Ok(()),
            Some(process) => process?,
        };
        // The descriptor refers to this process, even if its number is reused later.
        if !self.is_running() {
            return Ok(());
        }
        pidfd_send_signal(&process, Signal::TERM)?;
        if has_ended(&process, limit)? {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::TimedOut, "it still runs"))
        }
    }

    /// The name of the bed's namespace on a side, for `ip netns exec`.
    #[must_use]
    pub fn namespace(&self, side: Side) -> String {
        format!("{PREFIX}{self}-{side}")
    }

    /// The bed and the side that a namespace belongs to; `None` if it belongs to no bed.
    fn of_namespace(name: &str) -> Option<(Self, Side)> {
        let (id, side) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
        let side = Side::BOTH.into_iter().find(|known| known.to_string() == side)?;
        Some((id.parse().ok()?, side))
    }
}

impl fmt::Display for BedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.pid, self.started, self.number)
    }
}

impl FromStr for BedId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('-').collect();
        let id = match parts[..] {
            [pid, started, number] => pid
                .parse()
                .ok()
                .zip(started.parse().ok())
                .zip(number.parse().ok()),
            _ => None,
        };
        let id = id.map(|((pid, started), number)| Self { pid, started, number });
        // Accept only the exact form that `Display` writes: `+1` is not a number here.
        id.filter(|id| id.to_string() == text)
            .ok_or_else(|| format!("{text:?} names no bed: one is like 1234-567890-1"))
    }
}

/// Waits until a process has ended, but no longer than `limit`.
pub(crate) fn has_ended(process: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let end = Instant::now() + limit;
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        let rest = Timespec::try_from(rest).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&rest)) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The start time of a process in ticks since the machine started. `None` if there is no such process, or it is a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold any characters. proc(5) counts the state as field 3 and the start time as field 22.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

/// All namespaces of beds on this machine.
fn namespaces() -> Vec<(BedId, Side)> {
    let entries = fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| BedId::of_namespace(entry.file_name().to_str()?))
        .collect();
    found.sort_unstable();
    found
}

/// The beds whose process runs, in order of process numbers.
#[must_use]
pub fn running() -> Vec<BedId> {
    let mut beds: Vec<BedId> = namespaces().into_iter().map(|(id, _)| id).collect();
    beds.dedup();
    beds.retain(BedId::is_running);
    beds
}

/// The namespaces of killed processes.
pub(crate) fn left_behind() -> Vec<String> {
    let mut left = namespaces();
    left.retain(|(id, _)| !id.is_running());
    left.into_iter().map(|(id, side)| id.namespace(side)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bed_of_this_process_runs_and_one_with_another_start_time_does_not() {
        let id = BedId::next().unwrap();
        assert!(id.is_running());
        assert_ne!(BedId::next().unwrap(), id);
        let earlier = BedId {
            started: id.started - 1,
            ..id
        };
        assert!(!earlier.is_running(), "a process that had the same number before");
    }

    #[test]
    fn names_are_read_back_and_other_names_belong_to_no_bed() {
        let id = BedId::next().unwrap();
        for side in Side::BOTH {
            assert_eq!(BedId::of_namespace(&id.namespace(side)), Some((id, side)));
        }
        for other in [
            "left",
            "anabranch-12-failover-left",
            "anabranch-bed-",
            "anabranch-bed-left",
            "anabranch-bed-1-2-3",
            "anabranch-bed-1-2-3-middle",
            "anabranch-bed-1-2-left",
            "anabranch-bed-1-2-3-4-left",
            "anabranch-bed-+1-2-3-left",
            "anabranch-bed-01-2-3-left",
            "my-anabranch-bed-1-2-3-left",
        ] {
            assert_eq!(BedId::of_namespace(other), None, "{other}");
        }
    }
}
