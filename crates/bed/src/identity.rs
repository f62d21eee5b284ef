//! Whose a bed is: its namespaces are named after the process that made them, so that what a killed process left behind is
//! found, and nothing else is touched.

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

/// What the names of all namespaces of beds begin with.
const PREFIX: &str = "anabranch-bed-";
/// Where `ip` keeps named namespaces.
pub(crate) const NAMESPACES: &str = "/run/netns";

/// A bed on this machine. As text: the process, when it started in ticks since the machine did, and the number of the
/// bed within it, as in `1234-567890-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BedId {
    pid: u32,
    /// Process numbers come again; with the time they do not.
    started: u64,
    number: u32,
}

impl BedId {
    /// A new one, of this process.
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

    /// The process that has it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process that made it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Asks the process that made it to end, and waits until it has.
    ///
    /// # Errors
    /// If that is not allowed, or it still runs after `limit`.
    pub fn end(&self, limit: Duration) -> io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let process = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            None | Some(Err(Errno::SRCH)) => return Ok(()),
            Some(process) => process?,
        };
        // The descriptor stays with this process, whoever has the number later.
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

    /// The name of one of its namespaces, for `ip netns exec`.
    #[must_use]
    pub fn namespace(&self, side: Side) -> String {
        format!("{PREFIX}{self}-{side}")
    }

    /// Whose a namespace is, and which side; `None` if it is no bed's.
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
        // Only what it would write itself: `+1` is no number here.
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

/// When a process started, in ticks since the machine did; `None` if there is none, or it has ended and is only still listed.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; proc(5) counts the state as field 3 and the start as field 22.
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

/// The beds whose process runs, oldest process number first.
#[must_use]
pub fn running() -> Vec<BedId> {
    let mut beds: Vec<BedId> = namespaces().into_iter().map(|(id, _)| id).collect();
    beds.dedup();
    beds.retain(BedId::is_running);
    beds
}

/// The namespaces that killed processes left behind.
pub(crate) fn left_behind() -> Vec<String> {
    let mut left = namespaces();
    left.retain(|(id, _)| !id.is_running());
    left.into_iter().map(|(id, side)| id.namespace(side)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bed_of_this_process_runs_and_one_of_another_time_does_not() {
        let id = BedId::next().unwrap();
        assert!(id.is_running());
        assert_ne!(BedId::next().unwrap(), id);
        let earlier = BedId {
            started: id.started - 1,
            ..id
        };
        assert!(
            !earlier.is_running(),
            "the same process number, but another process"
        );
    }

    #[test]
    fn names_are_read_back_and_others_are_nobodys() {
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
