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
fn simulated_paths() {
    let output = run("simulated_paths");
    assert!(
        output.contains("600 of 600 messages arrived") && output.contains("Inactive"),
        "{output}"
    );
}

#[test]
fn two_paths() {
    let output = run("two_paths");
    assert!(output.contains("200 of 200 messages arrived\n"), "{output}");
    assert!(
        output.contains("path 0 to 127.0.1.1 is PotentiallyFailed\n"),
        "{output}"
    );
}

#[test]
fn game_state() {
    let output = run("game_state");
    assert!(output.contains("shots: 30 of 30 arrived, in order\n"), "{output}");
    assert!(output.contains("abandoned"), "{output}");
}

#[test]
fn file_beside_chat() {
    let output = run("file_beside_chat");
    assert!(output.contains("chat: 20 answers"), "{output}");
    assert!(
        output.contains("file: 1048576 of 1048576 bytes arrived\n"),
        "{output}"
    );
}

#[test]
fn blocking_client() {
    let output = run("blocking_client");
    assert_eq!(
        output,
        "HELLO\nnothing came for 50 ms\nthe file has 200000 bytes\n"
    );
}

/// The examples that a newcomer reads first fit one screen or two.
#[test]
fn the_first_examples_are_short() {
    for name in [
        "echo",
        "game_state",
        "file_beside_chat",
        "two_paths",
        "blocking_client",
    ] {
        let path = format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        let lines = std::fs::read_to_string(path).unwrap().lines().count();
        assert!(lines < 80, "{name} has {lines} lines");
    }
}
