//! The programs of the tutorial `docs/start/first-program.md` and of README, as their readers run them.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The example that `cargo test` has built, otherwise one that cargo builds.
fn example(name: &str, address: &str) -> Command {
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
            "--",
        ]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo
    };
    command.arg(address).stdout(Stdio::piped());
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
    fn start() -> Self {
        let mut program = example("first_server", "127.0.0.1:0").spawn().unwrap();
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

fn run_client(name: &str, address: &str) -> String {
    let mut client = example(name, address).spawn().unwrap();
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
    let mut server = Server::start();
    let client = run_client("first_client", &server.address);
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
    let mut server = Server::start();
    run_client("short_client", &server.address);
    let received = server.output();
    assert!(
        received.contains("server: turn left\n") && received.contains("1 orders and 1 positions"),
        "{received}"
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

/// The network loses each packet with the position. Other events than the expiry come first, which the client must pass.
#[test]
fn the_code_of_readme_prints_that_a_message_expired() {
    let mut server = Server::start();
    let address = relay_without(b"at 52.52", &server.address);
    let printed = run_client("short_client", &address);
    assert_eq!(printed, "the message on stream 1 expired\n");
    let received = server.output();
    assert!(received.contains("1 orders and 0 positions"), "{received}");
}
