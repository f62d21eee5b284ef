//! `anabranch forward` as a user runs it: a server, a client and a program, with ports that the system chooses.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::OnceLock;

use common::{LIMIT, Running, anabranch, browse, directory, refuses};
use serde_json::Value;

/// A folder with the keys of a server, a client and a stranger.
fn keys() -> &'static Path {
    static KEYS: OnceLock<PathBuf> = OnceLock::new();
    KEYS.get_or_init(|| {
        let folder = directory("forward-keys");
        for name in ["server", "client", "stranger"] {
            let made = anabranch(&["keygen", folder.join(name).to_str().unwrap()]).output();
            assert!(made.unwrap().status.success());
        }
        folder
    })
}

fn key(name: &str) -> String {
    keys().join(name).to_str().unwrap().to_owned()
}

/// The options of a side with its key, and the public key of its peer.
fn encryption(side: &str) -> Vec<String> {
    let (own, option, other) = match side {
        "server" => ("server", "--allow", "client.pub"),
        _ => ("client", "--peer", "server.pub"),
    };
    vec!["--key".into(), key(own), option.into(), key(other)]
}

/// A side of the forwarder that runs.
struct Side {
    program: Running,
    lines: BufReader<ChildStdout>,
}

impl Side {
    fn start(args: &[&str]) -> Self {
        let keys = encryption(args[0]);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        Self::start_with(args, &keys)
    }

    fn start_with(args: &[&str], keys: &[&str]) -> Self {
        let mut child = anabranch(&[&["forward"][..], args, &["--json"], keys].concat())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self {
            program: Running(child),
            lines,
        }
    }

    /// The next record of this name.
    fn event(&mut self, name: &str) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "it ended before {name}"
            );
            let record: Value = serde_json::from_str(&line).unwrap();
            if record["event"] == name {
                return record;
            }
        }
    }

    /// Writes the file of `--config` anew, and has the side read it again.
    #[cfg(unix)]
    fn reload(&self, file: &Path, text: &str) {
        std::fs::write(file, text).unwrap();
        let pid = self.program.0.id().to_string();
        let told = std::process::Command::new("kill").args(["-HUP", &pid]).status();
        assert!(told.unwrap().success());
    }

    #[cfg(unix)]
    fn interrupt(self) {
        self.program.interrupt();
        let output = self.program.output();
        assert!(output.status.success(), "{}", common::text(&output.stderr));
    }
}

/// A server at a free port, and the port.
fn server(args: &[&str]) -> (Side, String) {
    let mut side = Side::start(&[&["server", "--bind", "127.0.0.1", "--udp-port", "0"], args].concat());
    let listening = side.event("listening");
    assert_eq!(listening["encryption"]["protocol"], "DTLS chunk");
    let port = listening["udp_port"].to_string();
    (side, port)
}

/// The address in a record, where a rule listens.
fn place(record: &Value, rule: usize, key: &str) -> SocketAddr {
    record["rules"][rule][key].as_str().unwrap().parse().unwrap()
}

/// A datagram to the client's first rule arrives at the target.
fn hello_arrives(listening: &Value, target: &UdpSocket) {
    let (program, _) = udp();
    program
        .send_to(b"hello", place(listening, 0, "listens_at"))
        .unwrap();
    let mut buffer = [0; 10];
    assert_eq!(target.recv(&mut buffer).unwrap(), 5);
}

fn udp() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

fn get(url: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// It never forwards in clear text, and never to anybody.
#[test]
fn without_keys_it_refuses_to_run() {
    let own = key("server");
    let client = ["forward", "client", "127.0.0.1", "--udp", "0=127.0.0.1:9"];
    refuses(&[
        (&["forward", "server", "--allow-to", "*:*"], "anabranch keygen"),
        (&["forward", "server", "--key", &own], "with --allow"),
        (&client, "--key"),
        (&[&client[..], &["--key", &own]].concat(), "with --peer"),
        (
            &[&client[..], &["--key", &own, "--peer", &own]].concat(),
            "--peer",
        ),
    ]);
}

#[test]
fn a_stranger_is_refused_and_a_wrong_key_is_not_answered() {
    let (mut running, port) = server(&[]);
    let args = [
        "client",
        "127.0.0.1",
        "--udp-port",
        &port,
        "--udp",
        "0=127.0.0.1:9",
    ];
    let (own, stranger) = (key("client"), key("stranger"));
    let (server, other) = (key("server.pub"), key("stranger.pub"));
    // The second client has the key of another server: its INITs are those of a stranger.
    for (keys, reason) in [
        (
            ["--key", &stranger, "--peer", &server],
            "give the server the .pub file of --key, with --allow",
        ),
        (["--key", &own, "--peer", &other], "--peer has its public key"),
    ] {
        let mut client = Side::start_with(&args, &keys);
        let lost = client.event("disconnected");
        assert!(lost["reason"].as_str().unwrap().contains(reason), "{lost}");
    }
    let refused = running.event("refused");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("not among the accepted ones"), "{refused}");
    let shown = std::fs::read_to_string(key("stranger.pub")).unwrap();
    let shown = shown.split_whitespace().last().unwrap();
    assert_eq!(refused["shown"], format!("public key {shown}"), "{refused}");
    assert!(
        refused["remote"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{refused}"
    );
}

#[test]
fn wrong_rules_are_explained() {
    for (args, part) in [
        (
            &["client", "h", "--udp", "5000"][..],
            "write [ADDRESS:]PORT=HOST:PORT",
        ),
        (&["client", "h", "--udp", "5000=9000"], "127.0.0.1:22"),
        (
            &["client", "h", "--tcp", "1=h:1,deadline=1s"],
            "for datagrams only",
        ),
        (
            &["client", "h", "--udp", "1=h:1,speed=1"],
            "deadline=TIME, class=0..7",
        ),
        (&["client", "h"], "there is no rule"),
        (&["client", "--udp", "0=h:1"], "give its HOST"),
        (
            &["client", "h:99", "--udp", "0=h:1"],
            "HOST h:99: give the port of the server with --udp-port 99",
        ),
        (
            &["client", "h", "--udp", "0=h:1", "--path", "10.0.0.1,10.0.0.2"],
            "give --path twice, as in --path 10.0.0.1 --path 10.0.0.2",
        ),
        (
            &["client", "h", "--udp", "0=h:1", "--path", "wlan0,eth0"],
            "give --path twice, as in --path wlan0 --path eth0",
        ),
        (
            &["client", "h", "--udp", "0=h:1", "--page", "here:8080"],
            "192.0.2.1:8080",
        ),
        (
            &["client", "h", "--udp", "0=h:1", "--metrics", "9101"],
            "give ADDRESS:PORT, such as 127.0.0.1:9101",
        ),
        (
            &["client", "h", "--udp", "5000=h:1", "--udp", "5000=h:2"],
            "udp 127.0.0.1:5000=h:1 and udp 127.0.0.1:5000=h:2: give each rule a port of its own",
        ),
        (
            &["client", "h", "--config", "no-such-file"],
            "give a file that exists",
        ),
        (&["server", "--allow-to", "9000"], "HOST:PORT/udp"),
        (&["server", "--memory", "1"], "like 64mib"),
        (&["server", "--pcap", "file"], "no captures"),
    ] {
        let keys = encryption(args[0]);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        refuses(&[(&[&["forward"], args, &keys].concat(), part)]);
    }
}

#[test]
fn datagrams_and_connections_pass_and_are_counted() {
    let (target, target_address) = udp();
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let allowed = format!("{target_address}/udp");
    let (mut server, port) = server(&["--allow-to", &allowed, "--allow-listen", "127.0.0.1:*/tcp"]);
    let (udp_rule, tcp_rule) = (
        format!("0={target_address},deadline=20s"),
        format!("0={}", web.local_addr().unwrap()),
    );
    let mut client = Side::start(&[
        "client",
        "127.0.0.1",
        "--udp-port",
        &port,
        "--udp",
        &udp_rule,
        "--udp",
        "0=127.0.0.1:9",
        "--reverse-tcp",
        &tcp_rule,
        "--metrics",
        "127.0.0.1:0",
        "--interval",
        "0.05",
    ]);
    let listening = client.event("listening");
    let metrics = client.event("metrics")["url"].as_str().unwrap().to_owned();
    let connected = client.event("connected");
    let problem = connected["rules"][1]["problem"].as_str().unwrap();
    assert!(problem.contains("--allow-to"), "{problem}");
    let accepted = server.event("connected");
    assert_eq!(accepted["rules"][1]["problem"], problem);
    for (record, peer) in [(&connected, "server.pub"), (&accepted, "client.pub")] {
        let key = std::fs::read_to_string(key(peer)).unwrap();
        assert_eq!(record["encryption"]["protocol"], "DTLS chunk");
        assert_eq!(record["encryption"]["peer_key"], key.trim());
    }

    let (program, _) = udp();
    program.connect(place(&listening, 0, "listens_at")).unwrap();
    program.send(b"ping").unwrap();
    let mut buffer = [0; 10];
    let (len, source) = target.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"ping");
    target.send_to(b"pong", source).unwrap();
    assert_eq!(program.recv(&mut buffer).unwrap(), 4);

    let mut visitor = TcpStream::connect(place(&connected, 2, "server_listens_at")).unwrap();
    visitor.write_all(b"hello").unwrap();
    let (mut accepted, _) = web.accept().unwrap();
    accepted.read_exact(&mut buffer[..5]).unwrap();
    assert_eq!(&buffer[..5], b"hello");

    let status = loop {
        let status = client.event("status");
        if status["clients"][0]["rules"][2]["bytes_received"] == 5 {
            break status;
        }
    };
    assert_eq!(status["clients"][0]["rules"][0]["bytes_sent"], 4, "{status}");
    let path = &status["clients"][0]["paths"][0];
    assert_eq!(path["state"], "active", "{status}");
    // More than the bytes of the rules: each message has a header.
    assert!(path["bytes_received"].as_u64().unwrap() > 5, "{status}");
    let answer = get(&metrics);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("anabranch_forward_associations 1"), "{answer}");
    #[cfg(unix)]
    {
        client.interrupt();
        server.event("disconnected");
        server.interrupt();
    }
}

/// The side of a target says that the target does not accept, and says it once; the client says it of the server's targets too.
#[test]
fn a_target_that_does_not_accept_is_named() {
    // These sockets keep their ports, and accept nothing: one receives from another address alone, and the other does not listen.
    let (kept_udp, closed_udp) = udp();
    kept_udp.connect("127.0.0.1:9").unwrap();
    let kept_tcp = tokio::net::TcpSocket::new_v4().unwrap();
    kept_tcp.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed_tcp = kept_tcp.local_addr().unwrap().to_string();
    let (mut server, port) = server(&["--allow-to", "127.0.0.1:*", "--allow-listen", "127.0.0.1:*"]);
    let [udp_rule, tcp_rule] = [&closed_udp, &closed_tcp].map(|target| format!("0={target}"));
    let mut client = Side::start(&[
        "client",
        "127.0.0.1",
        "--udp-port",
        &port,
        "--udp",
        &udp_rule,
        "--tcp",
        &tcp_rule,
        "--reverse-tcp",
        &tcp_rule,
    ]);
    let listening = client.event("listening");
    let connected = client.event("connected");
    server.event("connected");
    let refused = |place: SocketAddr| {
        let mut stream = TcpStream::connect(place).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        assert_eq!(
            stream.read(&mut [0]).unwrap_err().kind(),
            std::io::ErrorKind::ConnectionReset
        );
    };
    // The second connection is refused in the same minute.
    for _ in 0..2 {
        refused(place(&listening, 1, "listens_at"));
    }
    // The system tells the forwarder at its next datagram that the port is closed.
    let (program, _) = udp();
    for _ in 0..2 {
        program
            .send_to(b"hello", place(&listening, 0, "listens_at"))
            .unwrap();
    }
    for (protocol, target) in [("tcp", &closed_tcp), ("udp", &closed_udp)] {
        let failed = server.event("target-failed");
        assert_eq!(failed["protocol"], protocol, "{failed}");
        assert_eq!(failed["target"], target.as_str(), "{failed}");
        assert!(failed["remote"].is_string(), "{failed}");
        assert!(failed["error"].as_str().unwrap().contains("refused"), "{failed}");
    }
    for (protocol, target) in [("tcp", &closed_tcp), ("udp", &closed_udp)] {
        let failed = client.event("target-failed");
        assert_eq!(failed["protocol"], protocol, "{failed}");
        assert_eq!(failed["target"], target.as_str(), "{failed}");
        assert_eq!(failed["at_server"], true, "{failed}");
    }
    refused(place(&connected, 2, "server_listens_at"));
    let failed = client.event("target-failed");
    assert_eq!(failed["target"], closed_tcp, "{failed}");
    assert_eq!(failed["at_server"], false, "{failed}");
    assert_eq!(failed["remote"], Value::Null);
    let time = failed["time"].as_str().expect("a time of day");
    assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
}

/// Without a terminal and without `--interval`, the last report is the only one.
#[test]
#[cfg(unix)]
fn the_last_report_comes_at_the_end() {
    let (target, target_address) = udp();
    let (_server, port) = server(&["--allow-to", &format!("{target_address}/udp")]);
    let rule = format!("0={target_address}");
    let mut client = Side::start(&["client", "127.0.0.1", "--udp-port", &port, "--udp", &rule]);
    let listening = client.event("listening");
    client.event("connected");
    hello_arrives(&listening, &target);
    client.program.interrupt();
    let last = client.event("status");
    assert_eq!(last["clients"][0]["rules"][0]["bytes_sent"], 5, "{last}");
    assert_eq!(last["clients"][0]["paths"][0]["state"], "active", "{last}");
    let output = client.program.output();
    assert!(output.status.success(), "{}", common::text(&output.stderr));
}

#[test]
fn a_client_waits_for_its_server_and_options_come_from_files() {
    let folder = directory("forward-files");
    let (target, target_address) = udp();
    // A port that was free a moment ago: nothing answers there.
    let absent = udp().1.rsplit_once(':').unwrap().1.to_owned();
    let file = folder.join("client.toml");
    let text = format!("host = \"127.0.0.1\"\nudp-port = {absent}\nudp = [\"0={target_address}\"]\n");
    std::fs::write(&file, text).unwrap();
    let mut waiting = Side::start(&["client", "--config", file.to_str().unwrap()]);
    let lost = waiting.event("disconnected");
    assert!(lost["retry_in_seconds"].as_f64().unwrap() <= 0.25, "{lost}");
    drop(waiting);

    let rules = folder.join("server.toml");
    std::fs::write(
        &rules,
        format!("allow-to = [\"{target_address}/udp\"]\nmax-clients = 5\npage = \"0\"\n"),
    )
    .unwrap();
    let (mut server, port) = server(&["--config", rules.to_str().unwrap()]);
    server.event("page");
    let mut client = Side::start(&["client", "--config", file.to_str().unwrap(), "--udp-port", &port]);
    let listening = client.event("listening");
    assert_eq!(client.event("connected")["rules"][0]["problem"], Value::Null);
    hello_arrives(&listening, &target);
    std::fs::write(&file, "hosts = 1").unwrap();
    refuses(&[(
        &["forward", "client", "--config", file.to_str().unwrap()],
        "unknown field `hosts`",
    )]);
}

/// Nobody may use the places of another client, and a key in a table has no place that is not in the table.
#[test]
fn each_key_has_places_of_its_own() {
    let (_first, first) = udp();
    let (_second, second) = udp();
    let (_common, common) = udp();
    let file = directory("forward-tables").join("server.toml");
    let (client, stranger) = (key("client.pub"), key("stranger.pub"));
    let text = format!(
        "allow-to = [\"{common}\"]\n[[client]]\nkey = {client:?}\nallow-to = [\"{first}/udp\"]\nallow-listen = [\"127.0.0.1:*\"]\n\
         [[client]]\nkey = {stranger:?}\nallow-to = [\"{second}/udp\"]\n"
    );
    std::fs::write(&file, &text).unwrap();
    let config = file.to_str().unwrap();
    let server_args = [
        "server",
        "--bind",
        "127.0.0.1",
        "--udp-port",
        "0",
        "--config",
        config,
    ];
    let (own, public) = (key("server"), key("server.pub"));
    let mut server = Side::start_with(&server_args, &["--key", &own]);
    let port = server.event("listening")["udp_port"].to_string();
    let rules = [&first, &second, &common].map(|target| format!("0={target}"));
    for (name, permitted) in [
        ("client", [true, false, false, true]),
        ("stranger", [false, true, false, false]),
    ] {
        let mut args = vec!["client", "127.0.0.1", "--udp-port", &port];
        rules.iter().for_each(|rule| args.extend(["--udp", rule]));
        args.extend(["--reverse-udp", "0=127.0.0.1:9"]);
        let mut side = Side::start_with(&args, &["--key", &key(name), "--peer", &public]);
        let connected = side.event("connected");
        let verdicts = connected["rules"].as_array().unwrap().iter();
        let verdicts: Vec<bool> = verdicts.map(|rule| rule["problem"].is_null()).collect();
        assert_eq!(verdicts, permitted, "{name}: {connected}");
    }
    refuses(&[(
        &[
            "forward", "server", "--config", config, "--key", &own, "--allow", &client,
        ],
        "give each key once",
    )]);
}

/// A client that keeps its places keeps its flows, one that is removed is ended, and one that is added again comes back by itself.
#[cfg(unix)]
#[test]
fn sighup_reads_the_configuration_again() {
    let (target, place_of_target) = udp();
    let file = directory("forward-reload").join("server.toml");
    let (client, stranger) = (key("client.pub"), key("stranger.pub"));
    let common = format!("allow = [{client:?}]\nallow-to = [\"{place_of_target}\"]\n");
    let both = format!("{common}[[client]]\nkey = {stranger:?}\n");
    std::fs::write(&file, &both).unwrap();
    let args = ["server", "--bind", "127.0.0.1", "--udp-port", "0", "--config"];
    let args = [&args[..], &[file.to_str().unwrap()]].concat();
    let mut server = Side::start_with(&args, &["--key", &key("server")]);
    let port = server.event("listening")["udp_port"].to_string();
    let connect = |name: &str| {
        let rule = format!("0={place_of_target}");
        let args = ["client", "127.0.0.1", "--udp-port", &port, "--udp", &rule];
        Side::start_with(&args, &["--key", &key(name), "--peer", &key("server.pub")])
    };
    let (mut kept, mut removed) = (connect("client"), connect("stranger"));
    let rule = place(&kept.event("listening"), 0, "listens_at");
    kept.event("connected");
    removed.event("connected");
    let (program, _) = udp();
    let pass = |text: &str| {
        program.send_to(text.as_bytes(), rule).unwrap();
        let mut buffer = [0; 16];
        let (len, from) = target.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], text.as_bytes());
        from
    };
    let flow = pass("before");
    server.reload(&file, &common);
    let told = server.event("reloaded");
    assert_eq!((&told["keys"], &told["ended"]), (&1.into(), &1.into()), "{told}");
    removed.event("disconnected");
    assert_eq!(pass("after"), flow, "the flow goes on");
    // A file that cannot be used changes nothing.
    server.reload(&file, "allow-to = 7\n");
    assert_eq!(pass("still"), flow);
    server.reload(&file, &both);
    let told = server.event("reloaded");
    assert_eq!((&told["keys"], &told["ended"]), (&2.into(), &0.into()), "{told}");
    removed.event("connected");
    assert_eq!(pass("at last"), flow);
    server.interrupt();
}

/// A rule that leads elsewhere keeps its place, an unchanged file keeps the flows, and a file with a mistake changes nothing.
#[cfg(unix)]
#[test]
fn sighup_has_a_client_read_its_file_again() {
    let ((first, place_of_first), (second, place_of_second)) = (udp(), udp());
    let allowed = ["--allow-to", "127.0.0.1:*"];
    let mut server = Side::start(
        &[
            &["server", "--bind", "127.0.0.1", "--udp-port", "0"],
            &allowed[..],
        ]
        .concat(),
    );
    let port = server.event("listening")["udp_port"].to_string();
    let file = directory("forward-client-reload").join("client.toml");
    let peer = key("server.pub");
    let options = |target: &str| {
        format!("host = \"127.0.0.1\"\nudp-port = {port}\npeer = [{peer:?}]\nudp = [\"0={target}\"]\n")
    };
    std::fs::write(&file, options(&place_of_first)).unwrap();
    let args = ["client", "--config", file.to_str().unwrap()];
    let mut client = Side::start_with(&args, &["--key", &key("client")]);
    let rule = place(&client.event("listening"), 0, "listens_at");
    client.event("connected");
    let (program, _) = udp();
    let pass = |text: &str, target: &UdpSocket| {
        program.send_to(text.as_bytes(), rule).unwrap();
        let mut buffer = [0; 16];
        let (len, from) = target.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], text.as_bytes());
        from
    };
    let flow = pass("before", &first);
    client.reload(&file, &options(&place_of_first));
    client.event("reloaded");
    assert_eq!(pass("the same", &first), flow);
    client.reload(&file, "udp = 7\n");
    assert_eq!(pass("a mistake", &first), flow);
    client.reload(&file, &options(&place_of_second));
    let told = client.event("reloaded");
    assert_eq!(place(&told, 0, "listens_at"), rule, "{told}");
    client.event("connected");
    pass("elsewhere", &second);
    client.interrupt();
}

/// The command of a unit of the Debian package, with this program and these files in place of installed ones.
fn of_unit(side: &str, credentials: &str) -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let unit = std::fs::read_to_string(format!("{folder}/anabranch-forward-{side}@.service")).unwrap();
    let mut commands = unit
        .lines()
        .filter_map(|line| line.strip_prefix("ExecStart=/usr/bin/anabranch forward "));
    let command = commands.next().unwrap().replace("%d", credentials);
    let command = command.replace("/etc/anabranch/%i.toml", &format!("{credentials}/config"));
    command.split(' ').map(str::to_owned).collect()
}

#[test]
fn the_units_run_both_sides() {
    let (_target, target) = udp();
    let start = |side: &str, config: String| {
        let folder = directory(&format!("forward-unit-{side}"));
        std::fs::write(folder.join("config"), config).unwrap();
        std::fs::copy(key(side), folder.join("key")).unwrap();
        let args = of_unit(side, folder.to_str().unwrap());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Side::start_with(&args, &[])
    };
    let allow = key("client.pub");
    let mut server = start(
        "server",
        format!("bind = \"127.0.0.1\"\nudp-port = 0\nallow = [{allow:?}]\nallow-to = [\"{target}\"]\n"),
    );
    let port = server.event("listening")["udp_port"].to_string();
    let peer = key("server.pub");
    let mut client = start(
        "client",
        format!("host = \"127.0.0.1\"\nudp-port = {port}\npeer = [{peer:?}]\nudp = [\"0={target}\"]\n"),
    );
    assert_eq!(client.event("connected")["rules"][0]["problem"], Value::Null);
}

/// Both paths begin at loopback, one by its address and one by its interface.
#[test]
#[cfg(target_os = "linux")]
fn paths_are_named_by_address_and_interface() {
    let (target, target_address) = udp();
    let (mut server, port) = server(&["--allow-to", &format!("{target_address}/udp")]);
    let mut client = Side::start(&[
        "client",
        "127.0.0.1",
        "--udp-port",
        &port,
        "--udp",
        &format!("0={target_address}"),
        "--path",
        "lo",
        "--path",
        "127.0.0.2",
        "--interval",
        "0.05",
        "--metrics",
        "127.0.0.1:0",
    ]);
    let listening = client.event("listening");
    let metrics = client.event("metrics")["url"].as_str().unwrap().to_owned();
    client.event("connected");
    // A line for each path, when it works.
    let mut working = std::collections::BTreeSet::new();
    while working.len() < 2 {
        let told = client.event("path");
        if told["state"] == "active" {
            working.insert(told["path"].as_str().unwrap().to_owned());
        }
    }
    let [of_address, of_interface] = working.iter().collect::<Vec<_>>()[..] else {
        panic!("{working:?}")
    };
    assert!(of_address.starts_with("127.0.0.2 – "), "{working:?}");
    assert!(of_interface.starts_with("lo 127.0.0.1 – "), "{working:?}");
    // The server knows the client by the address with which it connected, and has a line for the other path.
    let name = server.event("connected")["remote"].clone();
    let second = server.event("path");
    assert_eq!((&second["remote"], &second["state"]), (&name, &"active".into()));
    assert_ne!(second["path"], name);
    let paths = loop {
        let status = client.event("status");
        let paths = status["clients"][0]["paths"].as_array().unwrap().clone();
        if paths.iter().filter(|path| path["state"] == "active").count() == 2 {
            break paths;
        }
    };
    for path in &paths {
        let interface = Some("lo").filter(|_| path["local"] == "127.0.0.1");
        assert_eq!(path["interface"].as_str(), interface, "{path}");
    }
    let answer = get(&metrics);
    let labels = format!("path=\"127.0.0.1 – 127.0.0.1:{port}\",interface=\"lo\"");
    assert!(answer.contains(&labels), "{labels} is not in {answer}");
    hello_arrives(&listening, &target);
}

/// The loopback interface never has a default route, and the server is not there yet.
#[test]
#[cfg(target_os = "linux")]
fn a_missing_route_is_named_before_the_first_association() {
    let absent = udp().1.rsplit_once(':').unwrap().1.to_owned();
    let rule = "0=127.0.0.1:9";
    let of_server = ["client", "127.0.0.1", "--udp-port", &absent, "--udp", rule];
    let mut client = Side::start(&[&of_server[..], &["--path", "lo"]].concat());
    let told = client.event("no-route");
    assert_eq!(
        (told["interface"].as_str(), told["server"].as_str()),
        (Some("lo"), Some("127.0.0.1"))
    );
}

/// A page at a side, and its URL.
fn page(side: &mut Side) -> String {
    side.event("page")["url"].as_str().unwrap().to_owned()
}

/// The status that a page reads, once it meets the condition.
fn status_at(url: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let end = std::time::Instant::now() + LIMIT;
    loop {
        let answer = get(&format!("{url}status"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        let status: Value = serde_json::from_str(body).unwrap();
        if is_wanted(&status) {
            return status;
        }
        assert!(std::time::Instant::now() < end, "{status}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The page has the values of `--json`, for the client and for the server, and a browser shows them. The place of a rule is text, whatever it
/// contains.
#[test]
#[cfg(target_os = "linux")]
fn a_page_shows_paths_and_rules() {
    let (target, target_address) = udp();
    let (mut server, port) = server(&[
        "--allow-to",
        &format!("{target_address}/udp"),
        "--page",
        "127.0.0.1:0",
    ]);
    let server_page = page(&mut server);
    let marked = directory("forward-page").join("<b>bold");
    let mut client = Side::start(&[
        "client",
        "127.0.0.1",
        "--udp-port",
        &port,
        "--udp",
        &format!("0={target_address},deadline=20s"),
        "--tcp",
        &format!("unix:{}=127.0.0.1:9", marked.display()),
        "--path",
        "lo",
        "--path",
        "127.0.0.2",
        "--page",
        "0",
    ]);
    let listening = client.event("listening");
    let client_page = page(&mut client);
    assert!(client_page.starts_with("http://127.0.0.1:"), "{client_page}");
    client.event("connected");
    hello_arrives(&listening, &target);

    let answer = get(&client_page).to_ascii_lowercase();
    assert!(
        answer.contains("<title>") && answer.contains("content-security-policy: default-src 'none'"),
        "{answer}"
    );
    let are_active = |status: &Value| {
        let paths = status["clients"][0]["paths"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        paths.len() == 2 && paths.iter().all(|path| path["state"] == "active")
    };
    for (url, key) in [(&client_page, "bytes_sent"), (&server_page, "bytes_received")] {
        let status = status_at(url, |status| {
            are_active(status) && status["clients"][0]["rules"][0][key] == 5
        });
        assert_eq!(status["event"], "status");
        assert_eq!(status["clients"][0]["paths"][0]["remark"], Value::Null);
    }

    let (program, _) = udp();
    program.connect(place(&listening, 0, "listens_at")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                program.send(&[0; 1000]).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        // The thread ends if the browser fails, too.
        let seen = std::panic::catch_unwind(|| browse("forward.mjs", &client_page, "forward"));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        seen.unwrap_or_else(|failure| std::panic::resume_unwind(failure))
    });
    assert_eq!(seen["status"], "connected");
    for (number, local) in [(0, ": lo 127.0.0.1 – "), (1, ": 127.0.0.2 – ")] {
        let path = &seen["paths"][number];
        assert!(path[0].as_str().unwrap().contains(local), "{path}");
        assert_eq!(path[1], "active", "{path}");
        // A tenth of a per cent of a plot.
        let drawn = seen["curves"]["rtt"][number].as_f64().unwrap();
        assert!(drawn > 0.001, "{seen}");
    }
    let [datagrams, marked_rule] = [&seen["rules"][0], &seen["rules"][1]];
    assert_eq!(datagrams[3], "100 %", "{datagrams}");
    assert!(
        marked_rule[0].as_str().unwrap().contains("<b>bold"),
        "{marked_rule}"
    );
}
