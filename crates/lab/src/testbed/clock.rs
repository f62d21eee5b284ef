//! The clock of a run, which all threads of the run share, and the signal that the run is over.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anabranch_proto::Timestamp;

/// How often a waiting thread checks whether the run is over.
const NOTICE: Duration = Duration::from_millis(20);
/// How often [`both_clocks`] reads the clocks.
const READINGS: usize = 10;

/// Time since the run began. A sleep of the system ends about 0.06 ms late, a sleep of tokio up to 1 ms late. Threads with deadlines
/// therefore sleep in [`Clock::wait_until`].
#[derive(Debug)]
pub(crate) struct Clock<'a> {
    began: Instant,
    /// The time of the system's clock (`CLOCK_REALTIME`) when the run began, since 1970. The kernel stamps packets with this clock.
    began_real: Duration,
    /// Set when the user interrupts the program.
    interrupted: &'a AtomicBool,
    /// Set when the run is over.
    over: AtomicBool,
}

impl<'a> Clock<'a> {
    /// The run begins now.
    pub(crate) fn start(interrupted: &'a AtomicBool) -> Self {
        let (began, began_real) = both_clocks();
        Self {
            began,
            began_real,
            interrupted,
            over: AtomicBool::new(false),
        }
    }

    /// The clock of a run that another process began at these times of `CLOCK_MONOTONIC` and `CLOCK_REALTIME`.
    pub(crate) fn begun(monotonic: Duration, began_real: Duration, interrupted: &'a AtomicBool) -> Self {
        let now = monotonic_now();
        Self {
            began: Instant::now() - now.saturating_sub(monotonic),
            began_real,
            interrupted,
            over: AtomicBool::new(false),
        }
    }

    /// When the run began, for [`Clock::begun`].
    pub(crate) fn beginning(&self) -> (Duration, Duration) {
        (monotonic_now() - self.began.elapsed(), self.began_real)
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.began.elapsed()
    }

    /// The time of the run at this time of the system's clock, since 1970.
    pub(crate) fn at(&self, real: Duration) -> Timestamp {
        Timestamp::ZERO + real.saturating_sub(self.began_real)
    }

    /// How far someone has set the system's clock since the run began. NTP changes the rate of both clocks alike, so only steps count.
    pub(crate) fn step(&self) -> Duration {
        let (now, real) = both_clocks();
        (self.began_real + (now - self.began)).abs_diff(real)
    }

    /// Tells all threads that the run is over.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.is_interrupted()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Sleeps until then; false if the run ends before.
    pub(crate) fn wait_until(&self, until: Timestamp) -> bool {
        while !self.is_over() {
            let left = until.saturating_duration_since(self.now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(NOTICE));
        }
        false
    }

    /// As [`Clock::wait_until`] for a task, which may wake up to 1 ms late.
    pub(crate) async fn waited(&self, until: Timestamp) -> bool {
        while !self.is_over() {
            let left = until.saturating_duration_since(self.now());
            if left.is_zero() {
                return true;
            }
            tokio::time::sleep(left.min(NOTICE)).await;
        }
        false
    }

    /// Waits for the end of the run.
    pub(crate) async fn ended(&self) {
        while !self.is_over() {
            tokio::time::sleep(NOTICE).await;
        }
    }

    /// The output of `work`; `None` if the run ends first.
    pub(crate) async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut over) = (pin!(work), pin!(self.ended()));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => over.as_mut().poll(context).map(|()| None),
        })
        .await
    }
}

/// The time of `CLOCK_MONOTONIC`, which all processes share and which [`Instant`] does not tell.
fn monotonic_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The time of the monotonic clock and of the system's clock at the same moment. Of several readings, the pair counts that took least
/// time, because the thread may lose the processor between two readings.
fn both_clocks() -> (Instant, Duration) {
    let pair = |_| {
        let before = Instant::now();
        let real = SystemTime::now();
        let took = before.elapsed();
        let real = real.duration_since(UNIX_EPOCH).unwrap_or_default();
        (took, (before + took / 2, real))
    };
    let pairs = (0..READINGS).map(pair).min_by_key(|(took, _)| *took);
    pairs.map_or_else(|| (Instant::now(), Duration::ZERO), |(_, pair)| pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_give_the_same_time_of_the_run() {
        let interrupted = AtomicBool::new(false);
        let clock = Clock::start(&interrupted);
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        // Earlier readings of one clock lie before later readings of the other; the pairs are exact to less than a millisecond.
        let tolerance = Duration::from_millis(1);
        assert!(clock.at(real) <= clock.now() + tolerance);
        let now = clock.now();
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(now <= clock.at(real) + tolerance);
        assert_eq!(clock.at(Duration::ZERO), Timestamp::ZERO, "before the run");
    }

    #[test]
    fn a_clock_in_another_process_shows_the_same_time() {
        let interrupted = AtomicBool::new(false);
        let clock = Clock::start(&interrupted);
        let (monotonic, real) = clock.beginning();
        let other = Clock::begun(monotonic, real, &interrupted);
        let readings = [clock.now(), other.now(), clock.now()];
        let tolerance = Duration::from_millis(1);
        assert!(readings[0] <= readings[1] + tolerance && readings[1] <= readings[2] + tolerance);
    }

    #[test]
    fn a_step_of_the_systems_clock_is_seen() {
        let interrupted = AtomicBool::new(false);
        let mut clock = Clock::start(&interrupted);
        let second = Duration::from_secs(1);
        assert!(clock.step() < second / 10);
        clock.began_real -= second;
        assert!(clock.step() > second / 2, "as if the clock was set forward");
        clock.began_real += 2 * second;
        assert!(clock.step() > second / 2, "as if the clock was set back");
    }
}
