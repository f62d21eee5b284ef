//! Every example runs to its end and prints the expected lines.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs an example: the program that `cargo test` has built, otherwise with cargo.
fn run(name: &str) -> String {
    let this = std::env::current_exe().unwrap();
    let built: PathBuf = this.parent().unwrap().with_file_name("examples").join(name);
    let mut command = if built.exists() {
        Command::new(built)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", "anabranch", "--example", name]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo
    };
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{name}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn echo() {
    let output = run("echo");
    assert!(output.contains("client: in order, on stream 0\n"), "{output}");
    assert!(
        output.contains("client: as soon as it is there, on stream 1\n"),
        "{output}"
    );
}

#[test]
fn blocking_udp() {
    let output = run("blocking_udp");
    assert!(output.contains("client: hello, says the server\n"), "{output}");
    assert!(
        output.contains("client: Shutdown\n") && output.contains("server: Shutdown\n"),
        "{output}"
    );
}

#[test]
fn large_message() {
    let output = run("large_message");
    assert!(
        output.contains("one message of 64 MiB") && output.contains("is the one that was sent"),
        "{output}"
    );
}

#[test]
fn simulated_pair() {
    assert_eq!(run("simulated_pair").lines().count(), 3);
}

#[test]
fn two_paths() {
    let output = run("two_paths");
    assert!(
        output.contains("600 of 600 messages arrived") && output.contains("Inactive"),
        "{output}"
    );
}

#[test]
fn telemetry() {
    let output = run("telemetry");
    assert!(output.contains("orders: 40 of 40 arrived, in order"), "{output}");
    assert!(output.contains("abandoned"), "{output}");
}
