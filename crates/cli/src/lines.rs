//! A bounded queue of lines in front of standard output or standard error, and the thread that writes them. A program that serves
//! associations must not wait for a reader in a system call: with its threads, all associations would stop.

use std::io::{self, ErrorKind, Write};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Limit of the bytes that wait, those included that the thread is writing. A single line may be longer.
const MOST: usize = 1 << 20;
/// The largest write to a pipe of which a reader gets all or nothing (POSIX, `PIPE_BUF` of Linux). A program that ends while nobody reads
/// thus leaves no incomplete line behind, unless a single line is longer.
const AT_ONCE: usize = 4096;
/// Pause before another write to a pipe that some other program made non-blocking.
const PAUSE: Duration = Duration::from_millis(10);

/// The queue.
#[derive(Debug)]
pub(crate) struct Lines {
    state: Mutex<State>,
    /// A line was added.
    added: Condvar,
    /// The reader took bytes, has stalled, or is gone.
    changed: Notify,
    /// While the queue is full: a reader that takes nothing for this time has stalled. Lines that do not fit are dropped then, until it reads
    /// again.
    stalled: Duration,
    /// The line that reports how many lines were dropped.
    notice: fn(u64) -> String,
}

#[derive(Debug, Default)]
struct State {
    /// Whole lines.
    waiting: Vec<u8>,
    /// Bytes that the thread is writing.
    writing: usize,
    /// Lines in both.
    lines: u64,
    /// Bytes that were written so far.
    written: u64,
    /// Lines that were dropped since the last one that was added.
    dropped: u64,
    stalled: bool,
    /// The reader has closed the pipe: lines go nowhere.
    closed: bool,
}

impl State {
    /// Adds a line, and before it the notice of the lines that were dropped; false if they do not fit.
    fn push(&mut self, line: &str, notice: fn(u64) -> String) -> bool {
        if self.closed {
            return true;
        }
        let mut added = String::new();
        if self.dropped > 0 {
            added = notice(self.dropped) + "\n";
        }
        added.push_str(line);
        added.push('\n');
        let queued = self.waiting.len() + self.writing;
        if queued > 0 && queued + added.len() > MOST {
            return false;
        }
        // A table is added at once and has several lines.
        self.lines += added.bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.dropped = 0;
        self.waiting.extend_from_slice(added.as_bytes());
        true
    }

    fn is_done(&self) -> bool {
        self.closed || (self.waiting.is_empty() && self.writing == 0 && self.dropped == 0)
    }
}

impl Lines {
    /// A queue whose lines a thread writes to `stream`. Its reader has stalled if it takes nothing for the time `stalled` while the queue is full.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(
        stream: impl Write + Send + 'static,
        stalled: Duration,
        notice: fn(u64) -> String,
    ) -> io::Result<Arc<Self>> {
        let lines = Arc::new(Self {
            state: Mutex::default(),
            added: Condvar::new(),
            changed: Notify::new(),
            stalled,
            notice,
        });
        let writer = Arc::clone(&lines);
        std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || writer.write(stream))?;
        Ok(lines)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. If the queue is full, the line is dropped and counted.
    pub(crate) fn offer(&self, line: &str) {
        let mut state = self.lock();
        if !state.push(line, self.notice) {
            state.dropped += 1;
        }
        self.added.notify_one();
    }

    /// Adds a line. While the queue is full, waits for the reader, so that a slow reader loses nothing. If the reader has stalled, the line is
    /// dropped and counted.
    pub(crate) async fn add(&self, line: &str) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let before = {
                let mut state = self.lock();
                if state.push(line, self.notice) {
                    self.added.notify_one();
                    return;
                }
                if state.stalled {
                    state.dropped += 1;
                    return;
                }
                state.written
            };
            if timeout(self.stalled, changed).await.is_err() {
                let mut state = self.lock();
                state.stalled = state.written == before;
                self.changed.notify_waiters();
            }
        }
    }

    /// Waits until all lines are written, or until the reader has taken nothing for `limit`. Returns the number of lines that are not
    /// written.
    pub(crate) async fn flush(&self, limit: Duration) -> u64 {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let before = {
                let state = self.lock();
                if state.is_done() {
                    return 0;
                }
                state.written
            };
            if timeout(limit, changed).await.is_err() {
                let state = self.lock();
                if state.written == before && !state.is_done() {
                    return state.lines + state.dropped;
                }
            }
        }
    }

    /// The thread's work.
    fn write(&self, mut stream: impl Write) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            let mut rest = &batch[..];
            while !rest.is_empty() {
                let piece = &rest[..whole_lines(rest)];
                let done = write_some(&mut stream, piece);
                let mut state = self.lock();
                let Ok(done) = done else {
                    *state = State {
                        closed: true,
                        ..State::default()
                    };
                    self.changed.notify_waiters();
                    return;
                };
                state.written += done as u64;
                state.writing -= done;
                state.lines -= rest[..done].iter().filter(|byte| **byte == b'\n').count() as u64;
                state.stalled = false;
                drop(state);
                self.changed.notify_waiters();
                rest = &rest[done..];
            }
        }
    }

    /// Waits for lines and takes all of them; false if nobody can add any more.
    fn take(self: &Lines, batch: &mut Vec<u8>) -> bool {
        batch.clear();
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.dropped > 0 {
                let notice = (self.notice)(std::mem::take(&mut state.dropped));
                state.push(&notice, self.notice);
                break;
            }
            state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.waiting, batch);
        state.writing = batch.len();
        true
    }
}

/// The length of the first whole lines that fit one write, at least one line.
fn whole_lines(bytes: &[u8]) -> usize {
    let last = bytes[..bytes.len().min(AT_ONCE)]
        .iter()
        .rposition(|byte| *byte == b'\n');
    let first = || bytes.iter().position(|byte| *byte == b'\n');
    last.or_else(first).map_or(bytes.len(), |end| end + 1)
}

/// Writes some of the bytes, at least one.
fn write_some(stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes).and_then(|done| stream.flush().map(|()| done)) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Nobody reads meanwhile, however long it is.
    const SHORT: Duration = Duration::from_millis(1);

    /// A pipe that holds one write.
    struct Pipe(SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let sent = self.0.send(bytes.to_vec());
            sent.map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn notice(dropped: u64) -> String {
        format!("{dropped} dropped")
    }

    fn queue(stalled: Duration) -> (Arc<Lines>, Receiver<Vec<u8>>) {
        let (pipe, reader) = sync_channel(0);
        (Lines::start(Pipe(pipe), stalled, notice).unwrap(), reader)
    }

    fn line(number: usize) -> String {
        format!("{number:0>999}")
    }

    /// Reads until the queue is empty.
    fn read(lines: &Lines, reader: &Receiver<Vec<u8>>) -> Vec<String> {
        let mut read = Vec::new();
        while !lines.lock().is_done() {
            if let Ok(piece) = reader.recv_timeout(Duration::from_millis(1)) {
                assert!(piece.len() <= AT_ONCE, "the reader gets all of it or nothing");
                assert_eq!(piece.last(), Some(&b'\n'), "whole lines");
                read.extend(String::from_utf8(piece).unwrap().lines().map(str::to_owned));
            }
        }
        read
    }

    #[tokio::test]
    async fn a_reader_that_reads_nothing_stops_nobody() {
        const ADDED: usize = 3000;
        let (lines, reader) = queue(SHORT);
        for number in 0..ADDED {
            lines.add(&line(number)).await;
        }
        let (kept, dropped, bytes) = {
            let state = lines.lock();
            (state.lines, state.dropped, state.waiting.len() + state.writing)
        };
        assert!(bytes <= MOST && kept > 1000, "{kept}");
        assert_eq!(kept + dropped, ADDED as u64);
        let kept = usize::try_from(kept).unwrap();
        let lost = lines.flush(SHORT).await;
        assert_eq!(lost, ADDED as u64, "and the end comes");
        let mut expected: Vec<_> = (0..kept).map(line).collect();
        expected.push(notice((ADDED - kept) as u64));
        assert_eq!(read(&lines, &reader), expected);
        // It reads again: nothing is lost any more.
        lines.add("again").await;
        assert_eq!(read(&lines, &reader), ["again"]);
        assert_eq!(lines.flush(Duration::from_secs(60)).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_slow_reader_loses_nothing() {
        const ADDED: usize = 3000;
        let (lines, reader) = queue(Duration::from_secs(3600));
        let adding = tokio::spawn({
            let lines = Arc::clone(&lines);
            async move {
                for number in 0..ADDED {
                    lines.add(&line(number)).await;
                }
            }
        });
        let reading = std::thread::spawn(move || {
            let mut got = Vec::new();
            while got.len() < ADDED {
                let piece = String::from_utf8(reader.recv().unwrap()).unwrap();
                got.extend(piece.lines().map(str::to_owned));
            }
            got
        });
        adding.await.unwrap();
        assert_eq!(reading.join().unwrap(), (0..ADDED).map(line).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_table_counts_each_of_its_lines() {
        let (lines, reader) = queue(SHORT);
        lines.add("heads\none\ntwo").await;
        assert_eq!(lines.lock().lines, 3);
        assert_eq!(read(&lines, &reader), ["heads", "one", "two"]);
        assert_eq!(lines.lock().lines, 0);
    }

    #[tokio::test]
    async fn a_closed_pipe_takes_everything_and_holds_up_nobody() {
        let (lines, reader) = queue(Duration::from_secs(3600));
        lines.offer("before");
        drop(reader);
        for number in 0..3000 {
            lines.add(&line(number)).await;
        }
        while !lines.lock().closed {
            tokio::task::yield_now().await;
        }
        lines.offer("after");
        assert_eq!(lines.flush(Duration::from_secs(60)).await, 0);
        assert!(lines.lock().waiting.is_empty());
    }

    #[test]
    fn lines_leave_whole() {
        assert_eq!(whole_lines(b"one\ntwo\n"), 8);
        let mut long = vec![b'x'; AT_ONCE];
        long.extend_from_slice(b"\nafter\n");
        assert_eq!(whole_lines(&long), AT_ONCE + 1, "one line");
        let two = [&[b'x'; 100][..], b"\n", &[b'y'; AT_ONCE], b"\n"].concat();
        assert_eq!(whole_lines(&two), 101);
    }
}
