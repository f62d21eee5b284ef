//! Runs every command in the `sh` blocks of README and of the book's tutorials and how-to pages, in order. Compares README's code with the
//! example that it shows.
//!
//! The commands of a page run in their own directory. A listener or a server runs in the background until the next one starts, or until
//! the page ends. It gets a free UDP port, which replaces 9899 in the other commands of the page. A forwarder runs beside it.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

mod common;

use common::{LIMIT, Running, directory};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let text = std::fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The fenced blocks of a document with this label.
fn blocks(document: &str, label: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut inside = None;
    let mut block = String::new();
    for line in document.lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(label), None) => inside = Some(label),
            (Some(_), Some(open)) => {
                if open == label {
                    blocks.push(std::mem::take(&mut block));
                }
                block.clear();
                inside = None;
            }
            (None, Some(_)) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The lines of all `sh` blocks of a document.
fn commands(document: &str) -> Vec<String> {
    let lines = blocks(document, "sh");
    lines
        .iter()
        .flat_map(|block| block.lines())
        .map(str::to_owned)
        .collect()
}

/// A command line for a shell that finds the programs built for the tests.
fn shell(line: &str, directory: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_anabranch"));
    let programs = program.parent().expect("a directory").to_str().expect("UTF-8");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .current_dir(directory)
        .env("PATH", format!("{programs}:{path}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A UDP port that nothing uses, and that the system gives to no program which asks for any port: servers of a page start again and again.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 20_000) as u16;
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    let free = ports.find(|port| UdpSocket::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port")
}

/// Copies the experiments that pages name. Commands write their files beside them.
fn copy_examples(directory: &Path) {
    let (from, to) = (root().join("examples/lab"), directory.join("examples/lab"));
    std::fs::create_dir_all(&to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("examples/lab") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// The commands of one page, and their output.
struct Page {
    directory: PathBuf,
    port: String,
    /// Ports that the page shows beside 9899, and those that replace them.
    other_ports: [(&'static str, String); 2],
    /// The server, and the forwarders that were started after it.
    servers: Vec<(Running, PathBuf)>,
    printed: String,
}

impl Page {
    fn new(name: &str) -> Self {
        let directory = directory(&format!("page-{}", name.replace(['/', '.'], "-")));
        copy_examples(&directory);
        Self {
            directory,
            port: free_port().to_string(),
            other_ports: ["9897", "5004"].map(|shown| (shown, free_port().to_string())),
            servers: Vec::new(),
            printed: String::new(),
        }
    }

    /// Ends the servers as Ctrl-C does, the last one first, and takes their output.
    fn stop(&mut self) {
        while let Some((server, log)) = self.servers.pop() {
            // With `--once`, the server has already ended after the first association.
            let pid = server.0.id().to_string();
            let _ = Command::new("kill")
                .args(["-INT", &pid])
                .stderr(Stdio::null())
                .status();
            let output = server.output();
            assert!(
                output.status.success(),
                "a server failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            self.printed
                .push_str(&std::fs::read_to_string(log).expect("the server's output"));
        }
    }

    fn start(&mut self, line: &str) {
        if !line.starts_with("anabranch forward") {
            self.stop();
        }
        let log = self.directory.join(format!("server-{}.log", self.servers.len()));
        let file = std::fs::File::create(&log).expect("a log");
        let mut command = shell(&format!("exec {line}"), &self.directory);
        let mut server = Running(command.stdout(file).spawn().expect("the server starts"));
        let end = Instant::now() + LIMIT;
        loop {
            let has_ended = server.0.try_wait().expect("its status").is_some();
            if !std::fs::read_to_string(&log).expect("the log").is_empty() {
                break;
            }
            assert!(!has_ended, "{line} ended: {:?}", server.output());
            assert!(Instant::now() < end, "{line} does not say that it is ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.servers.push((server, log));
    }

    fn run(&mut self, line: &str) {
        let mut child = shell(line, &self.directory).spawn().expect("the shell starts");
        let mut stderr = child.stderr.take().expect("standard error");
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).map(|_| text)
        });
        let mut stdout = child.stdout.take().expect("standard output");
        let mut output = Vec::new();
        stdout.read_to_end(&mut output).expect("its output");
        let errors = errors.join().expect("the reader").expect("UTF-8");
        let status = child.wait().expect("its status");
        assert!(status.success(), "{line}: {status}\n{errors}");
        let silent = ["seq ", "mkdir "].iter().any(|start| line.starts_with(start));
        // A packet filter may find no packet.
        assert!(
            !output.is_empty() || silent || line.contains(" -Y "),
            "{line} prints nothing\n{errors}"
        );
        self.printed.push_str(&String::from_utf8_lossy(&output));
    }

    /// Runs a command of the page; only the program that cargo would build, the UDP port and the script's path are replaced.
    fn command(&mut self, shown: &str) {
        let mut line = shown.replace("cargo run --release --bin anabranch -- ", "anabranch ");
        let names_port = line.contains("--udp-port ");
        let with_port = ["listen", "send", "ping", "perf server", "perf client"];
        for command in with_port.into_iter().filter(|_| !names_port) {
            let port = format!("anabranch {command} --udp-port {}", self.port);
            line = line.replace(&format!("anabranch {command}"), &port);
        }
        line = line.replace("9899", &self.port);
        for (shown, port) in &self.other_ports {
            line = line.replace(shown, port);
        }
        if line.starts_with("anabranch web") {
            // Any free port, because another program of this machine may have the one that the page shows.
            line = line
                .replace("--listen 0.0.0.0:8080", "")
                .replace("50000-50015", "0-0")
                + " --listen 127.0.0.1:0";
        }
        let script = root().join("wireshark/anabranch.lua");
        line = line.replace("wireshark/anabranch.lua", script.to_str().expect("UTF-8"));
        let programs = ["anabranch ", "grep ", "tshark ", "printf ", "seq "];
        let servers = [
            "anabranch listen",
            "anabranch perf server",
            "anabranch web",
            "anabranch forward",
        ];
        if servers.iter().any(|server| line.starts_with(server)) {
            self.start(&line);
        } else if programs.iter().any(|program| line.starts_with(program)) {
            self.run(&line);
        } else if shown == "cargo install --locked --path crates/cli" {
            assert!(read("crates/cli/Cargo.toml").contains("name = \"anabranch\""));
        } else if shown == "./scripts/test" {
            // This command runs this test too. The project's own check must be the same command.
            let ci = read(".ci/run");
            assert!(ci.contains("scripts/test"), "{ci}");
        } else {
            panic!("a page shows a command that no test runs: {shown}");
        }
    }
}

/// Runs the commands of a page, and checks that the words of the output which the page shows are in their output.
fn check(page: &str, least: usize) {
    let document = read(page);
    let commands = commands(&document);
    assert!(commands.len() >= least, "{page}: {commands:?}");
    let mut run = Page::new(page);
    for command in commands {
        run.command(&command);
    }
    run.stop();
    compare(page, &document, &run.printed);
}

/// Checks that each word of the `text` blocks was printed; numbers may differ.
fn compare(page: &str, document: &str, printed: &str) {
    for block in blocks(document, "text") {
        for word in block
            .split(|c: char| !c.is_alphabetic())
            .filter(|word| word.len() > 3)
        {
            assert!(
                printed.contains(word),
                "{page} shows {word:?}, which is not in\n{printed}"
            );
        }
    }
}

#[test]
fn every_command_of_the_readme_works() {
    check("README.md", 2);
}

#[test]
fn the_code_of_the_readme_is_that_of_an_example() {
    let example = read("crates/anabranch/examples/short_client.rs");
    let (_, code) = example.split_once("// ANCHOR: short\n").expect("its beginning");
    let (code, _) = code.split_once("    // ANCHOR_END: short").expect("its end");
    let code: String = code
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line)))
        .collect();
    assert_eq!(blocks(&read("README.md"), "rust"), [code]);
}

#[test]
fn every_command_of_the_first_page_is_in_the_readme() {
    let known = commands(&read("README.md"));
    let shown = commands(&read("docs/index.md"));
    assert!(
        !shown.is_empty() && shown.iter().all(|command| known.contains(command)),
        "{shown:?}"
    );
}

#[test]
fn every_command_of_the_first_tutorial_works() {
    check("docs/start/first-messages.md", 8);
}

/// The pages for Linux: they use many loopback addresses, and tshark.
#[cfg(target_os = "linux")]
#[test]
fn every_command_of_the_how_to_pages_works() {
    for entry in std::fs::read_dir(root().join("docs/how-to")).expect("docs/how-to") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        // Tested elsewhere: crates/python/tests/test_documents.py runs the programs that need the Python package,
        // crates/testkit/tests/added_chunk.rs applies the patch, and crates/testkit/tests/embedding.rs runs the example.
        let elsewhere = [
            "use-python.md",
            "add-a-chunk-type.md",
            "add-a-chunk-type.patch",
            "embed-it-elsewhere.md",
        ];
        if elsewhere.contains(&name.as_str()) {
            continue;
        }
        check(&format!("docs/how-to/{name}"), 3);
    }
}

#[test]
fn every_command_of_the_extensions_page_works() {
    check("docs/reference/extensions.md", 2);
}

/// A part of an example, without the lines that mark parts: all lines from the third on, or the lines of an anchor.
fn part_of(example: &str, part: Option<&str>) -> String {
    let text = read(&format!("crates/anabranch/examples/{example}.rs"));
    let text = match part {
        None => text.splitn(3, '\n').nth(2).expect("three lines").to_owned(),
        Some(part) => {
            let (_, text) = text
                .split_once(&format!("// ANCHOR: {part}\n"))
                .expect("its beginning");
            let (text, _) = text
                .split_once(&format!("// ANCHOR_END: {part}\n"))
                .expect("its end");
            text.trim_end_matches(' ').to_owned()
        }
    };
    text.lines()
        .filter(|line| !line.contains("// ANCHOR"))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn the_code_of_the_second_tutorial_is_that_of_the_examples() {
    let shown = blocks(&read("docs/start/first-program.md"), "rust");
    let mut parts = vec![part_of("first_server", None)];
    parts.extend(
        ["head", "connect", "send", "events", "end", "all"].map(|part| part_of("first_client", Some(part))),
    );
    for (shown, part) in shown.iter().zip(&parts) {
        assert_eq!(shown, part);
    }
    assert_eq!(shown.len(), parts.len());
}

/// The tutorial's project: its own commands create it, and it is built outside of the repository.
#[cfg(unix)]
#[test]
fn the_second_tutorial_makes_a_project_that_runs() {
    let page = "docs/start/first-program.md";
    let document = read(page);
    // Outside of the repository, because cargo would otherwise treat the project as a part of its workspace.
    let place = std::env::temp_dir().join(format!("anabranch-first-program-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("a directory");
    let repository = root().canonicalize().expect("the repository");
    std::os::unix::fs::symlink(repository, place.join("anabranch")).expect("a link to the repository");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first-program");
    let mut project = place.clone();
    let mut server = None;
    let mut printed = String::new();
    for shown in commands(&document) {
        if let Some(name) = shown.strip_prefix("cd ") {
            project.push(name);
            continue;
        }
        let mut line = format!("exec {shown}");
        match &server {
            Some((_, _, address)) => line.push_str(&format!(" -- {address}")),
            None if shown == "cargo run --bin server" => line.push_str(" -- 127.0.0.1:0"),
            None => {}
        }
        let mut command = shell(&line, &project);
        // The build of the repository has fetched all crates that the project needs.
        command
            .env("CARGO_TARGET_DIR", &built)
            .env("CARGO_NET_OFFLINE", "true");
        if shown == "cargo run --bin server" {
            let code = blocks(&document, "rust");
            for (name, program) in [("server", code.first()), ("client", code.last())] {
                let program = program.expect("the page has programs");
                std::fs::write(project.join(format!("src/bin/{name}.rs")), program).expect("a program");
            }
            // `cargo run` replaces itself by the program, so that ending the process ends the program.
            let mut server_program = Running(command.stderr(Stdio::inherit()).spawn().expect("cargo starts"));
            let mut lines = BufReader::new(server_program.0.stdout.take().expect("its output"));
            lines.read_line(&mut printed).expect("UTF-8");
            let address = printed.trim().rsplit(' ').next().expect("an address").to_owned();
            assert!(printed.starts_with("server: listening on "), "{printed}");
            server = Some((server_program, lines, address));
            continue;
        }
        let output = command.output().expect("the command starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        printed.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let (program, mut lines, _) = server.expect("the page starts a server");
    while !printed.contains("server: received") {
        assert_ne!(lines.read_line(&mut printed).expect("UTF-8"), 0, "{printed}");
    }
    drop(program);
    std::fs::remove_dir_all(place).expect("the directory");
    compare(page, &document, &printed);
    assert!(printed.contains("server: received 10 orders"), "{printed}");
}
