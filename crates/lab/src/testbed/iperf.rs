//! The kernel's TCP: greedy flows by `iperf3`. Each flow has a server on the right and a client on the left. When a server is interrupted,
//! it prints the bytes delivered in each second.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, io};

use anabranch_bed::{Bed, Side};
use anabranch_proto::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::clock::Clock;
use super::error::TestbedError;

/// The port of the first flow; each further flow has the next port.
const FIRST_PORT: u16 = 5201;
/// The time within which the servers must listen.
const READY_WITHIN: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);
/// Longer than any run: the flow ends when it is interrupted.
const SECONDS: &str = "86400";

/// Whether `iperf3` is installed.
pub(crate) fn is_installed() -> bool {
    let mut command = Command::new("iperf3");
    let command = command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// One flow.
#[derive(Debug)]
struct Flow {
    server: Server,
    client: Option<Child>,
}

/// The receiving half of a flow.
#[derive(Debug)]
struct Server {
    child: Child,
    /// Reads the server's output, which can be larger than a pipe holds.
    said: JoinHandle<io::Result<String>>,
}

/// All flows of a run. Dropping the bed ends the programs that still run.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new("iperf3");
    command.args(arguments).stdin(Stdio::null());
    command
}

fn port(flow: usize) -> String {
    (FIRST_PORT + flow as u16).to_string()
}

fn address(side: Side) -> String {
    side.ipv4(1).to_string()
}

/// The number of listening TCP ports (state 0A) in the kernel's table.
fn listening(table: &str) -> usize {
    let states = table
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(3));
    states.filter(|state| *state == "0A").count()
}

impl Flows {
    /// Starts the servers of `count` flows and waits until they listen.
    pub(crate) fn prepare(bed: &Bed, count: usize) -> Result<Self, TestbedError> {
        let to = address(Side::Right);
        let mut flows = Vec::new();
        for flow in 0..count {
            let mut command = program(&["-s", "-1", "-J", "-B", &to, "-p", &port(flow)]);
            let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = bed.spawn(Side::Right, command)?;
            let mut stdout = child.stdout.take().expect("it is piped");
            let said = thread::spawn(move || {
                let mut text = String::new();
                stdout.read_to_string(&mut text).map(|_| text)
            });
            flows.push(Flow {
                server: Server { child, said },
                client: None,
            });
        }
        let looks = READY_WITHIN.as_nanos() / LOOK.as_nanos();
        for _ in 0..looks {
            // The table of this thread: the process itself is in another namespace.
            let table = bed.inside(Side::Right, || fs::read_to_string("/proc/thread-self/net/tcp"))??;
            if listening(&table) >= count {
                return Ok(Self { flows });
            }
            thread::sleep(LOOK);
        }
        Err(TestbedError::Iperf("the servers do not listen".to_owned()))
    }

    /// Starts a flow's client. Its data follows after iperf3's own exchange of parameters.
    pub(crate) fn start(&mut self, bed: &Bed, flow: usize, algorithm: &str) -> Result<(), TestbedError> {
        let to = address(Side::Right);
        let mut command = program(&["-c", &to, "-p", &port(flow), "-t", SECONDS, "-C", algorithm]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        self.flows[flow].client = Some(bed.spawn(Side::Left, command)?);
        Ok(())
    }

    /// Interrupts all flows and returns the bytes that each delivered.
    pub(crate) fn end(mut self, clock: &Clock<'_>) -> Result<Vec<Delivered>, TestbedError> {
        for client in self.flows.iter_mut().filter_map(|flow| flow.client.as_mut()) {
            if let Some(status) = client.try_wait()? {
                return Err(TestbedError::Iperf(format!("a client ended early: {status}")));
            }
        }
        let mut ended = Vec::new();
        for flow in &self.flows {
            let signalled = interrupt(&flow.server.child);
            ended.push((clock.now(), signalled));
        }
        let mut delivered = Vec::new();
        for (flow, (at, signalled)) in self.flows.into_iter().zip(ended) {
            signalled?;
            let Flow { mut server, client } = flow;
            let said = server
                .said
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            server.child.wait()?;
            if let Some(mut client) = client {
                let _ = client.kill();
                client.wait()?;
            }
            delivered.push(Delivered::read(&said, at)?);
        }
        Ok(delivered)
    }
}

fn interrupt(child: &Child) -> io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
    Ok(kill_process(pid, Signal::INT)?)
}

/// The bytes that a flow delivered, by interval: start and end in seconds of the run, and bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delivered(Vec<(f64, f64, f64)>);

impl Delivered {
    /// Reads the output of a server that was interrupted at `at`, when its last interval ended.
    fn read(said: &str, at: Timestamp) -> Result<Self, TestbedError> {
        let failed = |told: &str| TestbedError::Iperf(told.to_owned());
        let said: Value = serde_json::from_str(said).map_err(|error| failed(&error.to_string()))?;
        let intervals = said["intervals"].as_array().map_or(&[][..], Vec::as_slice);
        let interval = |interval: &Value| {
            let number = |name| interval["sum"][name].as_f64();
            Some((number("start")?, number("end")?, number("bytes")?))
        };
        let intervals: Option<Vec<_>> = intervals.iter().map(interval).collect();
        let intervals = intervals.ok_or_else(|| failed("an interval without numbers"))?;
        // There are no intervals if the server was interrupted before its client connected.
        let last = intervals.last().map_or(0.0, |(_, last, _)| *last);
        let began = at.as_secs_f64() - last;
        let shifted = intervals
            .iter()
            .map(|(start, end, bytes)| (start + began, end + began, *bytes));
        Ok(Self(shifted.collect()))
    }

    /// Bytes delivered until then. An interval that ends later counts by its share.
    pub(crate) fn until(&self, until: Timestamp) -> u64 {
        let until = until.as_secs_f64();
        let share = |(start, end, bytes): &(f64, f64, f64)| {
            let share = (until - start) / (end - start).max(f64::MIN_POSITIVE);
            bytes * share.clamp(0.0, 1.0)
        };
        self.0.iter().map(share).sum::<f64>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivered_bytes_are_interpolated() {
        let said = r#"{ "intervals": [
            { "streams": [], "sum": { "start": 0, "end": 1.0, "bytes": 1000 } },
            { "streams": [], "sum": { "start": 1.0, "end": 2.0, "bytes": 3000 } },
            { "streams": [], "sum": { "start": 2.0, "end": 2.5, "bytes": 100 } }
        ], "error": "interrupt - the server has terminated" }"#;
        let delivered = Delivered::read(said, Timestamp::from_millis(12_500)).unwrap();
        let until = |millis| delivered.until(Timestamp::from_millis(millis));
        assert_eq!([9_000, 10_000, 10_500, 11_000].map(until), [0, 0, 500, 1000]);
        assert_eq!(
            [11_500, 12_000, 12_250, 99_000].map(until),
            [2500, 4000, 4050, 4100]
        );
    }

    #[test]
    fn errors_of_iperf_are_reported() {
        let told = |said| Delivered::read(said, Timestamp::ZERO).unwrap_err().to_string();
        assert!(told("iperf3: command line").starts_with("iperf3 failed: expected"));
        assert!(told(r#"{ "intervals": [{}] }"#).contains("without numbers"));
    }

    #[test]
    fn the_kernels_table_tells_who_listens() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:1451 00000000:0000 0A 0:0\n   \
                     1: 0100007F:1452 0100007F:9999 01 0:0\n   2: 0100007F:1453 00000000:0000 0A 0:0\n";
        assert_eq!(listening(table), 2);
    }
}
