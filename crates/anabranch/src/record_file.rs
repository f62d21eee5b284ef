//! The file of a capture or of trace events. Associations write to it while they work: they may write to a regular file themselves, but they
//! must not wait for the reader of a pipe. A thread writes to pipes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::lock::lock;

/// Limit of the bytes that wait for the reader of a pipe.
const MOST: usize = 16 << 20;
/// How long [`Pipe::written`] waits for a reader that takes nothing.
const LIMIT: Duration = Duration::from_secs(3);
/// Bytes of one write: the thread notes what the reader has taken.
const AT_ONCE: usize = 64 << 10;

/// Where records are written.
pub(crate) type RecordFile = BufWriter<Box<dyn Write + Send>>;

/// Creates the file, or opens the pipe that has this name.
pub(crate) fn create(path: &Path) -> io::Result<(RecordFile, Option<Arc<Pipe>>)> {
    let file = File::create(path)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok((BufWriter::new(Box::new(file)), None));
    }
    let pipe = Pipe::start(file)?;
    let writer = Box::new(PipeWriter(Arc::clone(&pipe)));
    Ok((BufWriter::new(writer), Some(pipe)))
}

/// The queue in front of a pipe.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    state: Mutex<State>,
    /// Bytes were added, or nobody will add any.
    added: Condvar,
    /// The reader has taken bytes, or is gone.
    taken: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Bytes that the thread is writing.
    writing: usize,
    taken: u64,
    /// The reader is gone.
    failed: Option<io::ErrorKind>,
    /// Nobody writes any more.
    over: bool,
}

impl Pipe {
    fn start(file: impl Write + Send + 'static) -> io::Result<Arc<Self>> {
        let pipe = Arc::new(Self::default());
        let writer = Arc::clone(&pipe);
        std::thread::Builder::new()
            .name("anabranch-record".to_owned())
            .spawn(move || writer.run(file))?;
        Ok(pipe)
    }

    /// The thread's work.
    fn run(&self, mut file: impl Write) {
        let mut batch = Vec::new();
        loop {
            batch.clear();
            {
                let mut state = lock(&self.state);
                while state.waiting.is_empty() {
                    if state.over {
                        return;
                    }
                    state = self
                        .added
                        .wait(state)
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                }
                std::mem::swap(&mut state.waiting, &mut batch);
                state.writing = batch.len();
            }
            for piece in batch.chunks(AT_ONCE) {
                let written = file.write_all(piece).and_then(|()| file.flush());
                let mut state = lock(&self.state);
                state.writing -= piece.len();
                state.taken += piece.len() as u64;
                if let Err(error) = written {
                    state.failed = Some(error.kind());
                    state.waiting = Vec::new();
                    state.writing = 0;
                }
                let failed = state.failed.is_some();
                drop(state);
                self.taken.notify_waiters();
                if failed {
                    return;
                }
            }
        }
    }

    /// Waits until the reader has taken everything, or has taken nothing for some seconds.
    pub(crate) async fn written(&self) {
        loop {
            let mut taken = std::pin::pin!(self.taken.notified());
            taken.as_mut().enable();
            {
                let state = lock(&self.state);
                if state.failed.is_some() || (state.waiting.is_empty() && state.writing == 0) {
                    return;
                }
            }
            if tokio::time::timeout(LIMIT, taken).await.is_err() {
                tracing::warn!("nobody reads the pipe of a capture or qlog: its last bytes are lost");
                return;
            }
        }
    }
}

/// Writes into the queue. If it is full, that is an error, which ends the capture or the events, and the associations continue.
struct PipeWriter(Arc<Pipe>);

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = lock(&self.0.state);
        if let Some(kind) = state.failed {
            return Err(kind.into());
        }
        if state.waiting.len() + state.writing + bytes.len() > MOST {
            return Err(io::Error::other("the reader of the pipe is too slow"));
        }
        state.waiting.extend_from_slice(bytes);
        self.0.added.notify_one();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        lock(&self.0.state).over = true;
        self.0.added.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(target_os = "android", target_os = "linux"))]
    fn a_pipe_that_nobody_reads_holds_up_nobody() {
        use std::io::Read;
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let (mut file, pipe) = create(Path::new(&path)).expect("the pipe");
        assert!(pipe.is_some());
        drop(writer);
        let record: Vec<u8> = (0..10_000).map(|place| place as u8).collect();
        let mut written = 0;
        let error = loop {
            if let Err(error) = file.write_all(&record) {
                break error;
            }
            written += record.len();
        };
        assert!(error.to_string().contains("too slow"), "{error}");
        assert!(written + 2 * record.len() > MOST, "{written}");
        drop(file);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("its bytes");
        assert_eq!(read.len(), written);
        assert!(
            read.chunks(record.len()).all(|one| one == record),
            "whole records, in order"
        );
    }

    #[test]
    fn a_regular_file_needs_no_thread() {
        let path = std::env::temp_dir().join(format!("anabranch-record-{}", std::process::id()));
        let (mut file, pipe) = create(&path).expect("a file");
        assert!(pipe.is_none());
        file.write_all(b"record").expect("room");
        drop(file);
        assert_eq!(std::fs::read(&path).expect("the file"), b"record");
        std::fs::remove_file(&path).expect("the file");
    }
}
