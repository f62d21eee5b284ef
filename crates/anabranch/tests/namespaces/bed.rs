//! Network namespaces for a test: created by `ip`, connected by pairs of virtual Ethernet devices, and removed when the test ends.

use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub(crate) use crate::transfer::{LIMIT, wait_until};

/// Tests that measure time run one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// For a test that builds several testbeds and would disturb tests that measure time: waits until no such test runs.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The namespaces of one test, each known by its role.
pub(crate) struct Bed {
    test: &'static str,
    roles: Vec<&'static str>,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Bed {
    /// Creates a namespace for each role. If this is not possible, or one of the programs is missing, it writes the reason
    /// directly to standard error, because the test harness would capture it.
    pub(crate) fn build(test: &'static str, roles: &[&'static str], programs: &[&str]) -> Option<Self> {
        let mut bed = Self {
            test,
            roles: Vec::new(),
            _turn: None,
        };
        for program in ["ip"].iter().chain(programs) {
            if Command::new(program).arg("-V").output().is_err() {
                skip(
                    test,
                    &format!("there is no `{program}` (scripts/setup installs it)"),
                );
                return None;
            }
        }
        remove_left_behind();
        for role in roles {
            let made = output("ip", &["netns", "add", &bed.name(role)]);
            if !made.status.success() {
                let told = String::from_utf8_lossy(&made.stderr);
                skip(
                    test,
                    &format!("no network namespace can be made here: {}", told.trim()),
                );
                return None;
            }
            bed.roles.push(role);
            bed.ip(role, "link set lo up");
        }
        Some(bed)
    }

    /// For a test that measures time: waits until no other such test runs.
    pub(crate) fn in_turn(mut self) -> Self {
        self._turn = Some(turn());
        self
    }

    fn name(&self, role: &str) -> String {
        format!("anabranch-{}-{}-{role}", std::process::id(), self.test)
    }

    /// Runs `ip` on a namespace with these arguments; it must succeed.
    pub(crate) fn ip(&self, role: &str, arguments: &str) {
        let name = self.name(role);
        let arguments: Vec<_> = ["-n", &name].into_iter().chain(arguments.split(' ')).collect();
        succeeded(&output("ip", &arguments), &format!("ip {arguments:?}"));
    }

    /// A command that runs in a namespace.
    pub(crate) fn command(&self, role: &str, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name(role)])
            .arg(program.as_ref());
        command
    }

    /// Runs a shell command in a namespace; it must succeed.
    pub(crate) fn shell(&self, role: &str, line: &str) {
        let output = self
            .command(role, "sh")
            .args(["-c", line])
            .output()
            .expect("a shell");
        succeeded(&output, line);
    }

    /// Connects two namespaces by a pair of devices with this name, each end with its addresses (`address/prefix`).
    pub(crate) fn join(&self, device: &str, ends: [(&str, &[&str]); 2]) {
        let [one, other] = ends.map(|(role, _)| self.name(role));
        let arguments = [
            "link", "add", device, "netns", &one, "type", "veth", "peer", "name", device, "netns", &other,
        ];
        succeeded(&output("ip", &arguments), &format!("ip {arguments:?}"));
        for (role, addresses) in ends {
            for address in addresses {
                // Otherwise duplicate address detection blocks an IPv6 address for about 1 s.
                let nodad = if address.contains(':') { " nodad" } else { "" };
                self.ip(role, &format!("addr add {address} dev {device}{nodad}"));
            }
            self.ip(role, &format!("link set {device} up"));
        }
    }

    /// Runs a future in a namespace, on its own thread; the sockets that it opens stay in the namespace.
    pub(crate) fn inside<T, F>(&self, role: &str, make: impl FnOnce() -> F + Send + 'static) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let name = self.name(role);
        std::thread::spawn(move || {
            enter(&name);
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(async { tokio::time::timeout(LIMIT, make()).await.expect("in time") })
        })
    }

    /// Opens sockets in a namespace, on a thread that ends afterwards.
    pub(crate) fn open<T: Send + 'static>(&self, role: &str, make: impl FnOnce() -> T + Send + 'static) -> T {
        let name = self.name(role);
        let thread = std::thread::spawn(move || {
            enter(&name);
            make()
        });
        thread.join().expect("it is opened")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for role in &self.roles {
            let _ = Command::new("ip")
                .args(["netns", "del", &self.name(role)])
                .output();
        }
    }
}

/// Removes namespaces of earlier runs that were killed.
fn remove_left_behind() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for name in entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
    {
        let process = name
            .strip_prefix("anabranch-")
            .and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| id.parse::<u32>().is_ok() && !Path::new("/proc").join(id).exists()) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// Moves this thread into a namespace.
fn enter(name: &str) {
    let file = File::open(Path::new("/run/netns").join(name)).expect("the namespace is there");
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("the thread moves");
}

pub(crate) fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

fn output(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("it starts")
}

fn succeeded(output: &Output, what: &str) {
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Checks that a pause stays below a limit. A busy machine may exceed the limit a few times. `measure` returns `None` if there
/// are no namespaces.
pub(crate) fn expect_pause_below(limit: Duration, measure: impl Fn() -> Option<Duration>) {
    let mut pauses = Vec::new();
    while pauses.len() < 10 {
        match measure() {
            None => return,
            Some(pause) if pause < limit => return,
            Some(pause) => pauses.push(pause),
        }
    }
    panic!("{pauses:?} are not below {limit:?}");
}
