//! Programs that lose their state and restart their encrypted associations with stored restart keys. Each such program is a process, which
//! the test ends without warning.

mod common;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anabranch::{
    Association, CloseReason, ConnectError, ConnectOptions, Endpoint, Event, PeerIdentity, RestartDirectory,
    SecretKey, TlsSettings,
};
use common::{PORT, within};

/// The SCTP port of the client.
const CLIENT: u16 = 5000;
const MESSAGES: u8 = 20;

/// The files of one test. They are removed with this object.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Files {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("anabranch-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        for name in ["client", "server"] {
            let key = SecretKey::generate().unwrap();
            std::fs::write(path.join(name), key.to_pem().as_bytes()).unwrap();
            std::fs::write(path.join(format!("{name}.pub")), key.public().to_string()).unwrap();
        }
        Self(path)
    }

    /// The stored restart keys of the client.
    fn stored(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.0.join("restart keys"));
        let entries = entries.into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|it| it == "restart"))
            .collect()
    }

    /// An endpoint that permits the other one to restart.
    async fn survivor(&self, own: &str, peer: &str) -> Endpoint {
        let settings = settings(&self.0, own, peer).permit_restarts();
        let endpoint = Endpoint::builder().secure(settings);
        endpoint.bind("127.0.0.1:0").await.unwrap()
    }

    async fn server(&self) -> Endpoint {
        let server = self.survivor("server", "client.pub").await;
        server.listen_on_port(PORT).unwrap();
        server
    }

    async fn client(&self, local: SocketAddr) -> Endpoint {
        client(&self.0, local).await
    }
}

fn settings(files: &Path, own: &str, peer: &str) -> TlsSettings {
    TlsSettings::from_key_files(files.join(own), files.join(peer)).unwrap()
}

/// An endpoint that stores restart keys.
async fn storing(files: &Path, local: SocketAddr, own: &str, peer: &str) -> Endpoint {
    let settings = settings(files, own, peer);
    let directory = RestartDirectory::open(files.join("restart keys")).unwrap();
    let settings = settings.keep_restart_keys(directory);
    Endpoint::builder().secure(settings).bind(local).await.unwrap()
}

async fn client(files: &Path, local: SocketAddr) -> Endpoint {
    storing(files, local, "client", "server.pub").await
}

async fn server(files: &Path, local: SocketAddr) -> Endpoint {
    let server = storing(files, local, "server", "client.pub").await;
    server.listen_on_port(PORT).unwrap();
    server
}

async fn connect(client: &Endpoint, server: SocketAddr) -> Result<Association, ConnectError> {
    let options = ConnectOptions::default().local_port(CLIENT);
    within(60, client.connect_with(server, PORT, options)).await
}

/// The names of the environment variables for the other process: its files, its address and that of the server.
const FILES: &str = "ANABRANCH_RESTARTS_FILES";
const LOCAL: &str = "ANABRANCH_RESTARTS_LOCAL";
const SERVER: &str = "ANABRANCH_RESTARTS_SERVER";

/// Connects, sends messages until all are acknowledged, says so, and waits for its end.
#[tokio::test]
#[ignore = "the program that loses its state, in a process of its own"]
async fn client_that_is_killed() {
    let [files, local, server] = [FILES, LOCAL, SERVER].map(|name| std::env::var(name).unwrap());
    let client = client(Path::new(&files), local.parse().unwrap()).await;
    let association = connect(&client, server.parse().unwrap()).await.unwrap();
    for number in 0..MESSAGES {
        association.send(1, vec![number; 2000]).await.unwrap();
    }
    association.drained().await.unwrap();
    println!("\nacknowledged");
    std::future::pending().await
}

/// Accepts an association, reads nothing, and waits for its end.
#[tokio::test]
#[ignore = "the program that loses its state, in a process of its own"]
async fn server_that_is_killed() {
    let [files, local] = [FILES, LOCAL].map(|name| std::env::var(name).unwrap());
    let server = server(Path::new(&files), local.parse().unwrap()).await;
    println!("\nlistening");
    let _association = server.accept().await.unwrap();
    std::future::pending().await
}

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    /// Runs a test of this file in a process of its own, until it has printed this line.
    fn run(test: &str, files: &Files, local: SocketAddr, server: SocketAddr, line: &str) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", test, "--ignored", "--nocapture"]);
        program.env(FILES, &files.0);
        program.env(LOCAL, local.to_string());
        program.env(SERVER, server.to_string());
        let mut program = Self(program.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines();
        assert!(lines.any(|next| next.unwrap() == line));
        program
    }
}

/// An address with a UDP port that is free now.
fn free() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A client in another process has sent its messages, which are acknowledged, and is killed. Returns the address that it had.
fn killed_client(files: &Files, server: SocketAddr) -> SocketAddr {
    let local = free();
    drop(Program::run(
        "client_that_is_killed",
        files,
        local,
        server,
        "acknowledged",
    ));
    local
}

async fn expect(association: &Association, content: &[u8]) {
    let message = within(60, association.recv()).await.unwrap().unwrap();
    assert_eq!(&message.into_bytes()[..], content);
}

/// Waits until the peer has restarted the association.
async fn restarted(association: &Association) {
    while association.next_event().await.expect("it has not ended") != Event::Restarted {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_program_restarts_its_association() {
    let files = Files::new("restarts");
    let server = files.server().await;
    let address = server.local_addr();
    let waiting = {
        let server = server.clone();
        tokio::spawn(async move { server.accept().await.unwrap() })
    };
    let local = tokio::task::block_in_place(|| killed_client(&files, address));
    let theirs = within(60, waiting).await.unwrap();
    assert_eq!(files.stored().len(), 1);
    // The messages that the killed program sent are not read yet.
    let client = files.client(local).await;
    let ours = connect(&client, address).await.unwrap();
    let server_key = std::fs::read_to_string(files.0.join("server.pub")).unwrap();
    assert_eq!(
        ours.peer_identity(),
        Some(PeerIdentity::Key(server_key.parse().unwrap()))
    );
    for number in 0..MESSAGES {
        expect(&theirs, &[number; 2000]).await;
    }
    within(60, restarted(&theirs)).await;
    assert!(ours.stats().protection.is_some_and(|stats| stats.is_restarted));
    ours.send(1, "after").await.unwrap();
    expect(&theirs, b"after").await;
    theirs.send(1, "and back").await.unwrap();
    expect(&ours, b"and back").await;
    // New keys follow, and are stored for the next restart.
    within(60, async {
        while files.stored().len() != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    within(60, ours.shutdown()).await.unwrap();
    assert_eq!(within(60, theirs.closed()).await, CloseReason::Shutdown);
    assert!(
        files.stored().is_empty(),
        "an association that has ended is not restarted"
    );
}

/// A server that is killed restarts the association from its ports to those of the client.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_restarts_its_association() {
    let files = Files::new("server");
    let address = free();
    let run = || Program::run("server_that_is_killed", &files, address, address, "listening");
    let program = tokio::task::block_in_place(run);
    let client = files.survivor("client", "server.pub").await;
    let theirs = connect(&client, address).await.unwrap();
    drop(program);
    assert_eq!(files.stored().len(), 1);
    let server = server(&files.0, address).await;
    let options = ConnectOptions::default().local_port(PORT);
    let ours = within(60, server.connect_with(client.local_addr(), CLIENT, options)).await;
    let ours = ours.unwrap();
    within(60, restarted(&theirs)).await;
    ours.send(1, "after").await.unwrap();
    expect(&theirs, b"after").await;
    theirs.send(1, "and back").await.unwrap();
    expect(&ours, b"and back").await;
}

/// Both endpoints store restart keys. If one restarts the association, the copy of the other one is gone before it uses the keys; if the copy
/// cannot be removed, the association ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_uses_up_the_copy_of_the_peer_too() {
    for removable in [true, false] {
        let files = Files::new(if removable { "copies" } else { "stuck" });
        let copies = files.0.join("keys of the server");
        let settings = settings(&files.0, "server", "client.pub");
        let settings = settings.keep_restart_keys(RestartDirectory::open(&copies).unwrap());
        let server = Endpoint::builder().secure(settings);
        let server = server.bind("127.0.0.1:0").await.unwrap();
        server.listen_on_port(PORT).unwrap();
        let address = server.local_addr();
        let local = tokio::task::block_in_place(|| killed_client(&files, address));
        let theirs = within(60, server.accept()).await.unwrap();
        let copy = std::fs::read_dir(&copies)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let before = std::fs::read(&copy).unwrap();
        if !removable {
            std::fs::remove_file(&copy).unwrap();
            std::fs::create_dir(&copy).unwrap();
        }
        let client = files.client(local).await;
        let ours = connect(&client, address).await;
        if removable {
            // None, or already the next keys.
            assert_ne!(std::fs::read(&copy).ok(), Some(before));
            assert!(ours.is_ok());
            within(60, restarted(&theirs)).await;
        } else {
            assert_eq!(within(60, theirs.closed()).await, CloseReason::InternalError);
            assert!(ours.is_err());
        }
    }
}

/// The restart keys were taken from the disk, and then the program failed: nobody has them any more. The peer refuses the program until it
/// has noticed the end of the association.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_keys_a_program_is_refused_and_told() {
    let files = Files::new("refused");
    let server = files.server().await;
    let address = server.local_addr();
    let local = tokio::task::block_in_place(|| killed_client(&files, address));
    let theirs = within(60, server.accept()).await.unwrap();
    for stored in files.stored() {
        std::fs::remove_file(stored).unwrap();
    }
    let client = files.client(local).await;
    let refused = connect(&client, address).await.unwrap_err().to_string();
    assert!(refused.contains("cannot be restarted"), "{refused}");
    assert_eq!(theirs.stats().counters.restarts, 0);
    theirs.abort("");
    within(60, theirs.closed()).await;
    connect(&client, address).await.unwrap();
}

/// The peer has lost its state too: the first attempt fails at once and uses up the keys, and the second one begins a new association.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_lost_its_state_gets_a_new_association() {
    let files = Files::new("lost");
    let server = files.server().await;
    let address = server.local_addr();
    let local = tokio::task::block_in_place(|| killed_client(&files, address));
    let theirs = within(60, server.accept()).await.unwrap();
    theirs.abort("");
    within(60, theirs.closed()).await;
    let client = files.client(local).await;
    let refused = connect(&client, address).await.unwrap_err();
    assert!(
        matches!(
            &refused,
            ConnectError::Refused {
                reason: CloseReason::AbortedByPeer(_),
                ..
            }
        ),
        "{refused}"
    );
    let ours = connect(&client, address).await.unwrap();
    assert!(ours.stats().protection.is_some_and(|stats| !stats.is_restarted));
    let theirs = within(60, server.accept()).await.unwrap();
    ours.send(1, "new").await.unwrap();
    expect(&theirs, b"new").await;
}
