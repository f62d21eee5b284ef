//! The programs of the tutorial `docs/start/first-program.md` and of README, as their readers run them.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anabranch::{Endpoint, Event, SecretKey, StreamId};

/// The example that `cargo test` has built, otherwise one that cargo builds.
fn example(name: &str, address: &str, directory: &Path) -> Command {
    let this = std::env::current_exe().unwrap();
    let built: PathBuf = this.parent().unwrap().with_file_name("examples").join(name);
    let mut command = if built.exists() {
        Command::new(built)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "run",
            "--quiet",
            "--package",
            "anabranch",
            "--example",
            name,
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            "--",
        ]);
        cargo
    };
    command.arg(address).current_dir(directory).stdout(Stdio::piped());
    command
}

struct Server {
    program: Child,
    lines: BufReader<ChildStdout>,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

impl Server {
    fn start(name: &str, directory: &Path) -> Self {
        let mut program = example(name, "127.0.0.1:0", directory).spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        let address = first
            .trim()
            .strip_prefix("server: listening on ")
            .unwrap()
            .to_owned();
        Self {
            program,
            lines,
            address,
        }
    }

    /// The server's output up to the line that ends an association.
    fn output(&mut self) -> String {
        let mut output = String::new();
        while !output.contains("server: received") {
            assert_ne!(self.lines.read_line(&mut output).unwrap(), 0, "{output}");
        }
        output
    }
}

/// A directory with the keys that `anabranch keygen` would write for README's programs.
fn keys(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&directory).unwrap();
    for name in ["server", "client"] {
        let key = SecretKey::generate().unwrap();
        std::fs::write(directory.join(format!("{name}.key")), key.to_pem().as_bytes()).unwrap();
        let public = format!("{}\n", key.public());
        std::fs::write(directory.join(format!("{name}.key.pub")), public).unwrap();
    }
    directory
}

fn run_client(name: &str, address: &str, directory: &Path) -> String {
    let mut client = example(name, address, directory).spawn().unwrap();
    let mut output = String::new();
    client.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(client.wait().unwrap().success(), "{output}");
    output
}

/// The first number of the last line.
fn number(output: &str) -> u64 {
    let last = output.lines().last().unwrap();
    last.split(' ').find_map(|word| word.parse().ok()).unwrap()
}

#[test]
fn all_orders_arrive_and_the_client_learns_of_each_position_that_expired() {
    let anywhere = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut server = Server::start("first_server", anywhere);
    let client = run_client("first_client", &server.address, anywhere);
    let received = server.output();
    assert!(received.contains("server: received 10 orders"), "{received}");
    for order in 0..10 {
        assert!(
            received.contains(&format!("server: order {order}\n")),
            "{received}"
        );
    }
    let told = client.lines().filter(|line| line.ends_with(" expired"));
    let abandoned = number(&client);
    assert_eq!(told.count() as u64, abandoned, "{client}");
    assert!((1..100).contains(&abandoned), "{client}");
    let positions = received.trim().rsplit(' ').nth(1).unwrap();
    // A position that was sent and then abandoned may still have arrived.
    assert!(
        positions.parse::<u64>().unwrap() >= 100 - abandoned,
        "{received}\n{client}"
    );
}

#[test]
fn the_code_of_readme_sends_two_messages() {
    let keys = keys("readme-sends");
    let mut server = Server::start("short_server", &keys);
    run_client("short_client", &server.address, &keys);
    let received = server.output();
    for line in [
        "stream 0: turn left",
        "stream 1: at 52.52, 13.41",
        "received 2 messages",
    ] {
        assert!(received.contains(&format!("server: {line}\n")), "{received}");
    }
}

/// The error that an example prints when it fails.
fn error_of(name: &str, address: &str, directory: &Path) -> String {
    let mut command = example(name, address, directory);
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_programs_print_the_texts_of_errors() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let keys = keys("readme-errors");
    for name in ["first_server", "short_server"] {
        let error = error_of(name, &address, &keys);
        assert!(
            error.starts_with(&format!("server: cannot bind {address}: ")),
            "{error}"
        );
    }
    drop(taken);
    let error = error_of("first_client", &address, &keys);
    assert!(
        error.starts_with("client: ") && error.contains("check that the listener runs"),
        "{error}"
    );
    let server = Server::start("short_server", &keys);
    let stranger = self::keys("readme-stranger");
    std::fs::copy(keys.join("server.key.pub"), stranger.join("server.key.pub")).unwrap();
    let error = error_of("short_client", &server.address, &stranger);
    assert!(
        error.starts_with("client: ") && error.contains("the server refused the client"),
        "{error}"
    );
}

/// Forwards datagrams between one client and the server, except those with `lost` in them. Returns the address for the client.
fn relay_without(lost: &'static [u8], server: &str) -> String {
    let [to_client, to_server] = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    to_server.connect(server).unwrap();
    let address = to_client.local_addr().unwrap().to_string();
    let back = [to_client.try_clone().unwrap(), to_server.try_clone().unwrap()];
    std::thread::spawn(move || {
        let mut datagram = vec![0; 65_536];
        let mut connected = false;
        while let Ok((len, from)) = to_client.recv_from(&mut datagram) {
            let content = &datagram[..len];
            if !connected {
                to_client.connect(from).unwrap();
                connected = true;
                let [to_client, to_server] = [back[0].try_clone().unwrap(), back[1].try_clone().unwrap()];
                std::thread::spawn(move || {
                    let mut datagram = vec![0; 65_536];
                    while let Ok(len) = to_server.recv(&mut datagram) {
                        let _ = to_client.send(&datagram[..len]);
                    }
                });
            }
            if !content.windows(lost.len()).any(|part| part == lost) {
                let _ = to_server.send(content);
            }
        }
    });
    address
}

/// The network loses each packet with the position. Other events than the expiry come first, which the client must pass. The client does what
/// README's code does, without encryption, so that the network can find the position.
#[tokio::test]
async fn the_calls_of_readme_report_that_a_message_expired() {
    let mut server = Server::start("first_server", Path::new(env!("CARGO_TARGET_TMPDIR")));
    let address = relay_without(b"at 52.52", &server.address);
    let endpoint = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let association = endpoint.connect(address).await.unwrap();
    let positions = association.stream(1).deadline(Duration::from_millis(100));
    association.send(0, "turn left").await.unwrap();
    positions.send("at 52.52, 13.41").await.unwrap();
    association.shutdown().await.unwrap();
    let mut expired = Vec::new();
    while let Some(event) = association.next_event().await {
        if let Event::Abandoned(message) = event {
            expired.push(message.stream);
        }
    }
    assert_eq!(expired, [StreamId(1)]);
    let received = server.output();
    assert!(received.contains("1 orders and 0 positions"), "{received}");
}
