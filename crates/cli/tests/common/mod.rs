//! The built program, run as a user runs it.

#![allow(dead_code, reason = "each test program uses its part of it")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time limit of a run.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

pub(crate) fn anabranch(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A running program. It is killed when the test ends or fails.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Interrupts the program as Ctrl-C does.
    #[cfg(unix)]
    pub(crate) fn interrupt(&self) {
        let pid = self.0.id().to_string();
        let killed = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(killed.success());
    }

    /// Waits for the end, and returns the output (which fits the pipe).
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

/// Runs the program to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    Running(anabranch(args).spawn().unwrap()).output()
}

/// The JSON records in the output.
pub(crate) fn records(stdout: &str) -> Vec<Value> {
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The first record of this name.
pub(crate) fn event<'a>(records: &'a [Value], name: &str) -> &'a Value {
    records
        .iter()
        .find(|record| record["event"] == name)
        .unwrap_or_else(|| panic!("no {name} in {records:?}"))
}

/// A listener on a free port of 127.0.0.1.
pub(crate) struct Listener {
    pub(crate) program: Running,
    pub(crate) lines: BufReader<ChildStdout>,
    pub(crate) udp_port: String,
    /// The first line.
    pub(crate) said: Value,
}

pub(crate) const LISTEN: [&str; 6] = ["listen", "--bind", "127.0.0.1", "--udp-port", "0", "--json"];

pub(crate) fn listen(args: &[&str]) -> Listener {
    ready(anabranch(&[&LISTEN, args].concat()))
}

/// Waits until the listener listens.
pub(crate) fn ready(mut command: Command) -> Listener {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    let ready: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(ready["event"], "listening");
    assert_eq!(ready["port"], 7);
    let port = ready["udp_port"].as_u64().unwrap();
    assert_ne!(port, 0);
    Listener {
        program: Running(child),
        lines,
        udp_port: port.to_string(),
        said: ready,
    }
}

impl Listener {
    /// The output until the program ends without a signal.
    pub(crate) fn rest(mut self) -> (bool, Vec<Value>) {
        let mut said = String::new();
        self.lines.read_to_string(&mut said).unwrap();
        (self.program.output().status.success(), records(&said))
    }
}

/// An empty directory of this name.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Checks that each of these command lines is refused with a message that contains the given text.
pub(crate) fn refuses(wrong: &[(&[&str], &str)]) {
    for (args, part) in wrong {
        let output = run(args);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(
            said.contains("error: ") && said.contains(part),
            "{args:?}: {said}"
        );
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// Opens a page in a browser by a script of `interop/webrtc`, and returns what the script saw. Nothing comes from elsewhere, the console has no
/// error, and a phone is wide enough. `ANABRANCH_PEER` names the browser: chromium (the default) or firefox.
pub(crate) fn browse(script: &str, url: &str, picture: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(
        root.join("target/interop/webrtc").exists(),
        "run scripts/setup, which installs the driver of browsers"
    );
    let script = root.join("interop/webrtc").join(script);
    let browser = std::env::var("ANABRANCH_PEER").unwrap_or("chromium".to_owned());
    let mut command = Command::new("node");
    command.arg(script).args([&browser, url]).stdin(Stdio::null());
    // With ANABRANCH_PICTURES, a person can look at the page afterwards.
    if let Some(folder) = std::env::var_os("ANABRANCH_PICTURES") {
        command.arg(PathBuf::from(folder).join(picture));
    }
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node starts");
    let output = Running(child).output();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    println!("peer: {}", seen["browser"].as_str().expect("its version"));
    assert_eq!(seen["faults"], Value::Array(Vec::new()));
    for request in seen["requests"].as_array().expect("requests") {
        let request = request.as_str().expect("a URL");
        assert!(
            request.starts_with(url) || request.starts_with("data:"),
            "{request}"
        );
    }
    assert_eq!(
        (&seen["hidden"]["wide"], &seen["hidden"]["phone"]),
        (&0.into(), &0.into())
    );
    seen
}
