//! The examples, as their users run them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anabranch_datachannel::{ChannelConfig, PeerConnection, SessionConfig};
use anabranch_dtls::Certificate;
use tokio::net::UdpSocket;

struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    /// Starts an example: the program that `cargo test` has built, otherwise with cargo.
    fn start(name: &str, arguments: &[&str]) -> Self {
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
                "anabranch-datachannel",
                "--example",
                name,
                "--",
            ]);
            cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
            cargo
        };
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let (told, lines) = channel();
        std::thread::spawn(move || output.map_while(Result::ok).all(|line| told.send(line).is_ok()));
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    fn line(&mut self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line")
    }

    /// Waits for the end.
    fn ends(&mut self) -> bool {
        for _ in 0..6000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the program does not end");
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn copy_and_paste() {
    let mut ours = Program::start("copy_and_paste", &["offer"]);
    let mut theirs = Program::start("copy_and_paste", &["answer"]);
    assert_eq!(ours.line(), "give this line to the other program:");
    let offer = ours.line();
    theirs.say(&offer);
    assert_eq!(theirs.line(), "paste the line of the other program here:");
    assert_eq!(theirs.line(), "give this line to the other program:");
    let answer = theirs.line();
    ours.say(&answer);
    assert_eq!(ours.line(), "paste its line here:");
    for side in [&mut ours, &mut theirs] {
        assert_eq!(side.line(), "connected; type lines, and end with Ctrl-D");
    }
    ours.say("hello");
    assert_eq!(theirs.line(), "they: hello");
    theirs.say("good morning");
    assert_eq!(ours.line(), "they: good morning");
    drop(ours.input.take());
    assert!(ours.ends() && theirs.ends());
}

/// A client in place of the browser.
#[tokio::test]
async fn browser_echo() {
    let mut server = Program::start("browser_echo", &["127.0.0.1:0"]);
    let address = server.line().replace("open http://", "");
    let ask = |request: String| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        body.to_owned()
    };
    assert!(ask("GET / HTTP/1.1\r\n\r\n".to_owned()).contains("createDataChannel"));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let config = SessionConfig::new(Certificate::generate().unwrap(), []);
    let (peer, offer) = PeerConnection::offer(socket, config).unwrap();
    let request = format!(
        "POST /offer HTTP/1.1\r\nContent-Length: {}\r\n\r\n{offer}",
        offer.len()
    );
    peer.accept_answer(&ask(request)).unwrap();
    let echoed = async {
        peer.connected().await.unwrap();
        let channel = peer
            .open(ChannelConfig::new("positions").ordered(false))
            .await
            .unwrap();
        channel.send_text("3,4").await.unwrap();
        channel.recv().await.unwrap()
    };
    let echoed = tokio::time::timeout(Duration::from_secs(60), echoed)
        .await
        .expect("an echo");
    assert_eq!((echoed.is_text, &echoed.bytes[..]), (true, &b"3,4"[..]));
}
