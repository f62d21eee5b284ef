//! A transfer that continues until the test stops it, and its progress.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use anabranch::{Association, Endpoint, PathState, PathStats, StreamId};

/// The SCTP port of the receiver.
pub(crate) const PORT: u16 = 5000;
/// Time limit of each step.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);

/// Waits for a condition.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < LIMIT / 2, "{what}: not within {:?}", LIMIT / 2);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes of each message.
const SIZE: usize = 8192;

/// Message `index`: all its bytes depend on the index.
fn message(index: u64) -> Vec<u8> {
    let words = (0..SIZE as u64 / 8).map(|at| {
        (index << 20 | at)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_le_bytes()
    });
    words.flatten().collect()
}

/// The messages received so far, and the longest time between two messages.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Arrivals>);

#[derive(Default)]
struct Arrivals {
    bytes: u64,
    last: Option<Instant>,
    longest: Duration,
}

impl Progress {
    pub(crate) fn note(&self, bytes: usize) {
        let mut arrivals = self.0.lock().expect("no panic");
        let now = Instant::now();
        let before = arrivals.last.replace(now).unwrap_or(now);
        arrivals.longest = arrivals.longest.max(now - before);
        arrivals.bytes += bytes as u64;
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.lock().expect("no panic").bytes
    }

    /// Restarts the measurement of the longest time between two messages.
    pub(crate) fn restart(&self) {
        self.0.lock().expect("no panic").longest = Duration::ZERO;
    }

    pub(crate) fn longest(&self) -> Duration {
        self.0.lock().expect("no panic").longest
    }
}

/// Receives messages until the end and checks their order; returns their number.
pub(crate) async fn receive(endpoint: Endpoint, progress: Arc<Progress>) -> u64 {
    let association = endpoint.accept().await.expect("an association");
    let count = receive_all(&association, &progress).await;
    endpoint.close().await;
    count
}

/// Receives as [`receive`] does, on an association that exists.
pub(crate) async fn receive_all(association: &Association, progress: &Progress) -> u64 {
    let mut count = 0;
    while let Some(received) = association.recv().await.expect("recv") {
        assert!(
            received.into_bytes() == message(count),
            "message {count} is not what was sent"
        );
        progress.note(SIZE);
        count += 1;
    }
    count
}

/// Sends messages until the test stops it; returns their number.
pub(crate) async fn send(
    endpoint: Endpoint,
    to: SocketAddr,
    stop: Arc<AtomicBool>,
    told: mpsc::Sender<Association>,
) -> u64 {
    let association = endpoint.connect_to_port(to, PORT).await.expect("connect");
    told.send(association.clone()).expect("it is awaited");
    send_all(endpoint, association, stop).await
}

/// Sends as [`send`] does, on an association that exists.
pub(crate) async fn send_all(endpoint: Endpoint, association: Association, stop: Arc<AtomicBool>) -> u64 {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        association.send(StreamId(0), message(count)).await.expect("send");
        count += 1;
    }
    association.shutdown().await.expect("an orderly end");
    endpoint.close().await;
    count
}

pub(crate) fn path(association: &Association, index: usize) -> PathStats {
    association.stats().paths.swap_remove(index)
}

/// Waits until there are `count` paths, and all are confirmed.
pub(crate) fn wait_for_paths(association: &Association, count: usize) {
    wait_until("every path is confirmed", || {
        let paths = association.stats().paths;
        paths.len() == count && paths.iter().all(|path| path.state == PathState::Active)
    });
}

/// In a transfer that uses all paths at once, cuts and restores each path in turn: `cut` gets the path's index, and whether to
/// cut or to restore it. The transfer continues without the path, and uses it again afterwards. Prints the receiver's longest
/// pause for each path.
pub(crate) fn reduce_each_path(
    test: &str,
    association: &Association,
    progress: &Progress,
    paths: usize,
    mut cut: impl FnMut(usize, bool),
) {
    const SOME: u64 = 1 << 16;
    let is_used = |index: usize| {
        let before = path(association, index).data_bytes_sent;
        wait_until(&format!("path {index} is used"), || {
            path(association, index).data_bytes_sent > before + SOME
        });
    };
    wait_for_paths(association, paths);
    (0..paths).for_each(is_used);
    for index in 0..paths {
        progress.restart();
        let begun = Instant::now();
        cut(index, true);
        wait_until("the path is in doubt", || {
            path(association, index).state != PathState::Active
        });
        let noticed = begun.elapsed();
        let at = progress.bytes();
        wait_until("the others carry on", || progress.bytes() > at + 4 * SOME);
        let pause = progress.longest();
        let begun = Instant::now();
        cut(index, false);
        wait_until("the path is active again", || {
            path(association, index).state == PathState::Active
        });
        is_used(index);
        println!(
            "{test}: path {index} cut: noticed after {} ms, the reader's longest pause {} ms; used again {} ms after its return",
            noticed.as_millis(),
            pause.as_millis(),
            begun.elapsed().as_millis()
        );
    }
}
