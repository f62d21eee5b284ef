//! Named network namespaces, as `ip netns` keeps them: making one, running in it, ending its processes, removing it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::BedError;
use crate::identity::{NAMESPACES, has_ended, left_behind};

/// The time that a process has to end before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// The time until a killed process is gone.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// A namespace that this process made. It is removed on drop; its processes should be [ended](end_processes) before.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    pub(crate) fn make(name: String) -> Result<Self, BedError> {
        let made = ip(&["netns", "add", &name], "")?;
        if made.status.success() {
            return Ok(Self { name });
        }
        // `ip` may have made the namespace partially.
        drop(Self { name });
        Err(BedError::Namespace { told: told(&made) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs lines of `ip`'s batch form in the namespace.
    pub(crate) fn set(&self, lines: &str) -> Result<(), BedError> {
        let arguments = ["-n", &self.name, "-batch", "-"];
        let output = ip(&arguments, lines)?;
        if output.status.success() {
            return Ok(());
        }
        Err(BedError::Settings {
            what: format!("ip {}", lines.replace('\n', "; ").trim_end_matches("; ")),
            told: told(&output),
        })
    }

    /// Runs a function on a thread of its own in the namespace. Sockets and processes that the function opens or starts stay there.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let namespace = File::open(path(&self.name))?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            });
            let result = thread.join();
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.name], "");
    }
}

/// Removes the remains of beds whose process was killed: processes, devices and namespaces. Returns the number of namespaces. Beds whose
/// process still runs and all other namespaces are left alone.
pub fn sweep() -> usize {
    let left = left_behind();
    end_processes(&left.iter().map(String::as_str).collect::<Vec<_>>());
    let count = left.len();
    drop(
        left.into_iter()
            .map(|name| Namespace { name })
            .collect::<Vec<_>>(),
    );
    count
}

/// Ends the processes in these namespaces, except this process: terminates them first, and later kills those that still run.
pub(crate) fn end_processes(names: &[&str]) {
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let namespaces: Vec<_> = names.iter().filter_map(|name| identity(&path(name))).collect();
    if namespaces.is_empty() {
        return;
    }
    let is_inside = |pid: u32| {
        identity(&PathBuf::from(format!("/proc/{pid}/ns/net"))).is_some_and(|id| namespaces.contains(&id))
    };
    for (signal, limit) in [(Signal::TERM, GRACE), (Signal::KILL, KILLED_WITHIN)] {
        let end = Instant::now() + limit;
        let mut asked: Vec<u32> = Vec::new();
        // Loop until no process is left: a process may have started others meanwhile.
        while let Some(process) = ask_inside(&is_inside, &mut asked, signal) {
            let _ = has_ended(&process, end.saturating_duration_since(Instant::now()));
            if Instant::now() >= end {
                break;
            }
        }
    }
}

/// Sends the signal to all processes inside that are not in `asked` yet. Returns one of the processes inside.
fn ask_inside(is_inside: &dyn Fn(u32) -> bool, asked: &mut Vec<u32>, signal: Signal) -> Option<OwnedFd> {
    let mut first = None;
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if pid == std::process::id() || !is_inside(pid) {
            continue;
        }
        // The number could be reused between the check and the signal. A descriptor always refers to the same process.
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(process) = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            continue;
        };
        if !is_inside(pid) {
            continue;
        }
        if !asked.contains(&pid) {
            asked.push(pid);
            let _ = pidfd_send_signal(&process, signal);
        }
        first.get_or_insert(process);
    }
    first
}

fn path(name: &str) -> PathBuf {
    Path::new(NAMESPACES).join(name)
}

/// Runs `ip` with these arguments and this input.
fn ip(arguments: &[&str], input: &str) -> Result<Output, BedError> {
    // Not every user's search path contains `ip`.
    for program in ["ip", "/usr/sbin/ip", "/sbin/ip"] {
        match run(program, arguments, input) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result.map_err(BedError::system("`ip` cannot be run")),
        }
    }
    Err(BedError::NoIp)
}

fn run(program: &str, arguments: &[&str], input: &str) -> io::Result<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The program may have ended already; then its output has the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

/// A program's error output, in one line.
fn told(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() {
        output.status.to_string()
    } else {
        lines.join("; ")
    }
}
