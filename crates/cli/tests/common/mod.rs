//! The built program, run as a user runs it.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No run takes longer.
const LIMIT: Duration = Duration::from_secs(90);

pub(crate) fn anabranch(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Ends the program when the test is over, however that is.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Waits for the end, and takes what it said (which fits the pipe).
    pub(crate) fn output(mut self) -> Output {
        let end = Instant::now() + LIMIT;
        let status = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => panic!("the program does not end"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if let Some(mut pipe) = self.0.stdout.take() {
            pipe.read_to_end(&mut stdout).unwrap();
        }
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_end(&mut stderr).unwrap();
        }
        Output {
            status,
            stdout,
            stderr,
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
