//! A place where experiments are run on real packets, as often as it takes for the machine to be in time.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_bed::{Bed, PathPlan, Plan, Side};
use anabranch_lab::stage::{RealNetwork, RealRun, Scenario};
use anabranch_netsim::LinkConfig;

use crate::error::FieldError;
use crate::iperf;
use crate::run::{Done, run};

/// The algorithm of the papers.
const WANTED: &str = "reno";
/// How often a run is made at most that finds the machine too busy.
const MOST_TRIES: u32 = 3;

/// See the [module's documentation](crate). Several runs may be made in it at a time.
#[derive(Debug)]
pub struct Field {
    algorithm: String,
    /// Which congestion control the kernel has here.
    available: String,
    kernel: String,
    interrupted: Arc<AtomicBool>,
    failure: Mutex<Option<FieldError>>,
}

impl Field {
    /// Sees what there is for it, on a bed that is made and taken away. Once `interrupted` is set, runs end at once.
    ///
    /// # Errors
    /// There can be no bed, or there is no `iperf3`: [`FieldError::is_refusal`].
    pub fn new(interrupted: Arc<AtomicBool>) -> Result<Self, FieldError> {
        let bed = Bed::build(&Plan {
            paths: vec![PathPlan::symmetric(LinkConfig::default())],
            seed: 0,
        })?;
        if !iperf::is_installed() {
            return Err(FieldError::NoIperf);
        }
        let setting = |name: &str| {
            let read = || fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
            Ok::<_, FieldError>(bed.inside(Side::Left, read)??.trim().to_owned())
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
            interrupted,
            failure: Mutex::new(None),
        })
    }

    /// Why a run failed, once. No further run begins after that.
    #[must_use]
    pub fn failure(&self) -> Option<FieldError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs it until the machine is in time, or often enough.
    fn repeated(&self, scenario: &dyn Fn() -> Scenario, seed: u64) -> Result<Option<RealRun>, FieldError> {
        let mut repeats = 0;
        loop {
            let done = run(scenario(), seed, &self.algorithm, &self.interrupted)?;
            let Some(Done {
                record,
                lateness,
                lost_by_bed,
                stolen,
            }) = done
            else {
                return Ok(None);
            };
            let is_held = lateness.is_held() && lost_by_bed == 0;
            if is_held || repeats + 1 == MOST_TRIES {
                return Ok(Some(RealRun {
                    record,
                    late: lateness.quantile(0.99),
                    repeats,
                    is_held,
                    stolen,
                }));
            }
            repeats += 1;
        }
    }
}

impl RealNetwork for Field {
    fn run(&self, scenario: &dyn Fn() -> Scenario, seed: u64) -> Option<RealRun> {
        match self.repeated(scenario, seed) {
            Ok(run) => run,
            Err(error) => {
                // Others that run end as well: the first failure explains what follows.
                self.interrupted.store(true, Ordering::Relaxed);
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
                None
            }
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut tcp = format!(
            "Linux {}, {} (cubic where a cell asks for CUBIC), by iperf3",
            self.kernel, self.algorithm
        );
        if self.algorithm != WANTED {
            tcp += &format!(
                ", because this kernel has no {WANTED} (it has {})",
                self.available
            );
        }
        let simulated = "byte counting, an initial window of 10, a least timeout of 0.2 s, acknowledgements within 40 ms, timestamps";
        vec![
            ("TCP on the bed".to_owned(), tcp),
            (
                "TCP in the simulated half".to_owned(),
                format!("with Linux's settings: {simulated}"),
            ),
            (
                "bed".to_owned(),
                format!(
                    "one for each run; a run that comes 1 ms late or more with 1 in 100 packets is made again, {MOST_TRIES} times in all"
                ),
            ),
        ]
    }
}
