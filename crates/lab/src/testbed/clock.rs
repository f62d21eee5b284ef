//! The clock of a run, which all threads of the run share, and the signal that the run is over.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use anabranch_proto::Timestamp;

/// How often a waiting thread checks whether the run is over.
const NOTICE: Duration = Duration::from_millis(20);

/// Time since the run began. A sleep of the system ends about 0.06 ms late, a sleep of tokio up to 1 ms late. Threads with deadlines
/// therefore sleep in [`Clock::wait_until`].
#[derive(Debug)]
pub(crate) struct Clock<'a> {
    began: Instant,
    /// Set when the user interrupts the program.
    interrupted: &'a AtomicBool,
    /// Set when the run is over.
    over: AtomicBool,
}

impl<'a> Clock<'a> {
    /// The run begins now.
    pub(crate) fn start(interrupted: &'a AtomicBool) -> Self {
        Self {
            began: Instant::now(),
            interrupted,
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.began.elapsed()
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
