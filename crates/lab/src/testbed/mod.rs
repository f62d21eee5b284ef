//! The laboratory's experiments on real packets. A run puts a [`Scenario`] on a [bed](anabranch_bed) of its own, in real time: this
//! project's sender and receiver over [`anabranch::Endpoint`], and the kernel's TCP by `iperf3`.
//!
//! [`Testbed`] is the [`RealNetwork`] that [`beside`](crate::stage::beside()) takes. Sender and receiver are processes in the bed's two
//! namespaces ([`Testbed::with_processes`]), or threads of this process with sockets in the namespaces. Both read the same clocks, so a
//! delay is the difference of two times. The kernel stamps the packets on both hosts, so a delay does not include the time that the
//! receiving program needs.

mod arrivals;
mod clock;
mod ends;
mod errand;
mod error;
mod hosts;
mod iperf;
mod processes;
mod receiver;
mod run;
mod sender;
mod watcher;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_bed::{Bed, PathPlan, Plan, Side};
use anabranch_netsim::LinkConfig;

use crate::stage::{Origin, RealNetwork, RealRun, Scenario};
use run::{Done, run};

pub use error::TestbedError;
pub use processes::host;

/// The congestion control algorithm of the papers.
const WANTED: &str = "reno";
/// Attempts at a run, the first included, while the machine is too busy.
const MOST_TRIES: u32 = 3;
/// If someone sets the system's clock by more than this during a run, the kernel's time stamps are useless.
const CLOCK_STEP: Duration = Duration::from_micros(500);

/// See the [module's documentation](self). Several runs may be made at a time, each on its own bed.
#[derive(Debug)]
pub struct Testbed {
    algorithm: String,
    /// The congestion control algorithms that the kernel offers in a network namespace.
    available: String,
    kernel: String,
    /// The program that becomes a host's process; without one, hosts are threads of this process.
    program: Option<PathBuf>,
    interrupted: Arc<AtomicBool>,
    failure: Mutex<Option<TestbedError>>,
}

impl Testbed {
    /// Checks on a temporary bed that runs are possible, and which TCP algorithms the kernel offers. Once `interrupted` is set, runs end
    /// at once.
    ///
    /// # Errors
    /// No bed can be made, or `iperf3` is not installed: [`TestbedError::is_refusal`].
    pub fn new(interrupted: Arc<AtomicBool>) -> Result<Self, TestbedError> {
        let bed = Bed::build(&Plan {
            paths: vec![PathPlan::symmetric(LinkConfig::default())],
            seed: 0,
        })?;
        if !iperf::is_installed() {
            return Err(TestbedError::NoIperf);
        }
        let setting = |name: &str| {
            let read = || fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
            Ok::<_, TestbedError>(bed.inside(Side::Left, read)??.trim().to_owned())
        };
        let available = setting("tcp_available_congestion_control")?;
        let algorithm = match available.split_ascii_whitespace().any(|name| name == WANTED) {
            true => WANTED.to_owned(),
            false => setting("tcp_congestion_control")?,
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Self {
            algorithm,
            available,
            kernel: kernel.trim().to_owned(),
            program: None,
            interrupted,
            failure: Mutex::new(None),
        })
    }

    /// The same testbed with a process for each host, for cells of experiments. The `program` calls [`host`] when its arguments are `lab
    /// host`.
    #[must_use]
    pub fn with_processes(self, program: PathBuf) -> Self {
        Self {
            program: Some(program),
            ..self
        }
    }

    /// Why a run failed; the error is returned only once. After a failure no further run begins.
    #[must_use]
    pub fn failure(&self) -> Option<TestbedError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs the scenario until the bed delivers packets in time, at most [`MOST_TRIES`] times.
    fn run_in_time(
        &self,
        scenario: &dyn Fn() -> Scenario,
        origin: &Origin<'_>,
    ) -> Result<Option<RealRun>, TestbedError> {
        let mut discarded = 0;
        loop {
            let programs = (self.algorithm.as_str(), self.program.as_deref());
            let done = run(scenario(), origin, programs, &self.interrupted)?;
            let Some(Done {
                record,
                lateness,
                lost_by_bed,
                stolen,
                hosts,
                clock_step,
            }) = done
            else {
                return Ok(None);
            };
            let is_held = lateness.is_held() && lost_by_bed == 0 && clock_step <= CLOCK_STEP;
            if is_held || discarded + 1 == MOST_TRIES {
                return Ok(Some(RealRun {
                    record,
                    late: lateness.quantile(0.99),
                    discarded,
                    is_held,
                    stolen,
                    hosts,
                }));
            }
            discarded += 1;
        }
    }
}

impl RealNetwork for Testbed {
    fn run(&self, scenario: &dyn Fn() -> Scenario, origin: &Origin<'_>) -> Option<RealRun> {
        match self.run_in_time(scenario, origin) {
            Ok(run) => run,
            Err(error) => {
                // The first failure ends the other runs as well, and explains their end.
                self.interrupted.store(true, Ordering::Relaxed);
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
                None
            }
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut tcp = format!(
            "Linux {}, {} (cubic where a cell asks for CUBIC), sent by iperf3",
            self.kernel, self.algorithm
        );
        if self.algorithm != WANTED {
            tcp += &format!(
                ", because this kernel has no {WANTED} (it has {})",
                self.available
            );
        }
        let simulated = "byte counting, an initial window of 10, a minimum retransmission timeout of 0.2 s, \
                         acknowledgements delayed by up to 40 ms, timestamps";
        vec![
            ("TCP on the bed".to_owned(), tcp),
            (
                "TCP in the simulated half".to_owned(),
                format!("with Linux's settings: {simulated}"),
            ),
            (
                "bed".to_owned(),
                format!(
                    "a new bed for each run; if 1 in 100 packets or more come at least 1 ms late, the run is made again, \
                     up to {MOST_TRIES} runs in all"
                ),
            ),
            (
                "times on the bed".to_owned(),
                "the kernel's time stamps of the packets (SO_TIMESTAMPNS); the time of a submission is the scheduled time"
                    .to_owned(),
            ),
        ]
    }
}
