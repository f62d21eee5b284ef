//! A run's time, which all its threads share, and how its end reaches them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use anabranch_proto::Timestamp;

/// How soon who waits notices that the run is over.
const NOTICE: Duration = Duration::from_millis(20);

/// Since the run began. The system's sleep is about 0.06 ms late, tokio's up to 1 ms: what must be in time sleeps here.
#[derive(Debug)]
pub(crate) struct Clock<'a> {
    began: Instant,
    /// Set when the user wants no more.
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

    /// Lets everybody know that the run is over.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.is_interrupted()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Sleeps until then; false if the run is over before.
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

    /// The same for a task; up to a millisecond later.
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

    /// What comes of some work, unless the run is over before.
    pub(crate) async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut over) = (pin!(work), pin!(self.ended()));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => over.as_mut().poll(context).map(|()| None),
        })
        .await
    }
}
