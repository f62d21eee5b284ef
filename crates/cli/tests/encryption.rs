//! `--dtls` and `--tls`: certificates, fingerprints, keys, and the first line of the output, which says what is encrypted.

use std::io::BufRead;

use anabranch::{Certificate, Fingerprint};
use serde_json::Value;

mod common;

use common::{Listener, Running, anabranch, directory, event, listen, ready, records, refuses, run, text};

/// A listener that echoes over DTLS, and what it said of its encryption.
fn encrypted(more: &[&str]) -> (Listener, Value) {
    let mut command = anabranch(&["listen", "--bind", "127.0.0.1", "--udp-port", "0", "--json"]);
    command.args(["--echo", "--dtls"]).args(more);
    let listener = ready(command);
    let facts = listener.said["encryption"].clone();
    (listener, facts)
}

fn ping(udp_port: &str, more: &[&str]) -> std::process::Output {
    let mut args = vec!["ping", "127.0.0.1", "--count", "2", "--interval", "1ms", "--json"];
    args.extend(["--udp-port", udp_port]);
    args.extend(more);
    run(&args)
}

fn fingerprint(facts: &Value) -> String {
    facts["fingerprint"].as_str().expect("a fingerprint").to_owned()
}

#[test]
fn the_first_line_says_what_is_encrypted() {
    let (listener, facts) = encrypted(&[]);
    assert_eq!(facts["protocol"], "DTLS");
    let own = fingerprint(&facts);
    for (more, checked) in [
        (&["--dtls"][..], false),
        (&["--dtls", "--fingerprint", &own], true),
    ] {
        let pinged = ping(&listener.udp_port, more);
        assert!(pinged.status.success(), "{}", text(&pinged.stderr));
        let told = records(&text(&pinged.stdout));
        assert_eq!(told[0]["event"], "connected");
        assert_eq!(told[0]["encryption"]["peer_fingerprint"], own.as_str());
        assert_eq!(told[0]["encryption"]["checked"], checked);
        let summary = event(&told, "summary");
        assert_eq!(summary["negotiated"]["zero_checksum"], true);
        assert_eq!(summary["equal"], 2, "{summary}");
    }
    let plain = listen(&["--echo"]);
    assert_eq!(plain.said["encryption"], Value::Null);
    let told = records(&text(&ping(&plain.udp_port, &[]).stdout));
    assert_eq!(told[0]["encryption"], Value::Null);
    let lines = text(&run(&["ping", "127.0.0.1", "--count", "1", "--udp-port", &plain.udp_port]).stdout);
    assert!(
        lines.lines().next().unwrap().ends_with("; not encrypted"),
        "{lines}"
    );
}

#[test]
fn a_certificate_of_a_file_is_used_and_checked_by_both() {
    let directory = directory("certificates");
    let make = |name: &str| {
        let one = Certificate::generate().unwrap();
        let (certificate, key) = one.to_pem().unwrap();
        let files = [("pem", certificate), ("key", key)].map(|(kind, text)| {
            let path = directory.join(format!("{name}.{kind}"));
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        });
        (one.fingerprint().to_string(), files)
    };
    let (client, client_files) = make("client");
    let (server, server_files) = make("server");
    let (other, other_files) = make("other");
    let (mut listener, facts) = encrypted(&[
        "--cert",
        &server_files[0],
        "--key",
        &server_files[1],
        "--fingerprint",
        &client,
    ]);
    assert_eq!(fingerprint(&facts), server);
    let with = |files: &[String; 2], expected: &str| {
        ping(
            &listener.udp_port,
            &[
                "--dtls",
                "--cert",
                &files[0],
                "--key",
                &files[1],
                "--fingerprint",
                expected,
            ],
        )
    };
    let pinged = with(&client_files, &server);
    assert!(pinged.status.success(), "{}", text(&pinged.stderr));
    for (files, expected, reason) in [
        (&client_files, &other, server.as_str()),
        (
            &other_files,
            &server,
            "it may have refused this endpoint's certificate",
        ),
    ] {
        let refused = with(files, expected);
        assert!(!refused.status.success());
        assert!(
            text(&refused.stderr).contains(reason),
            "{}",
            text(&refused.stderr)
        );
    }
    // The listener says who its peers were.
    for expected in ["connected", "association"] {
        let mut line = String::new();
        listener.lines.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(told["event"], expected);
        assert_eq!(told["encryption"]["peer_fingerprint"], client.as_str());
        assert_eq!(told["encryption"]["checked"], true);
    }
    let wrong_key = ["--dtls", "--cert", &client_files[0], "--key", &other_files[1]];
    let mut ping_wrong = vec!["ping", "127.0.0.1"];
    ping_wrong.extend(wrong_key);
    refuses(&[(&ping_wrong, "the private key is not that of the certificate")]);
}

/// A private key that other users of this machine may read.
#[test]
#[cfg(unix)]
fn a_key_that_others_may_read_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let directory = directory("readable-key");
    let (certificate, key) = Certificate::generate().unwrap().to_pem().unwrap();
    let [cert_file, key_file] = [("own.pem", certificate), ("own.key", key)].map(|(name, text)| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let files = [
        "--dtls",
        "--cert",
        cert_file.to_str().unwrap(),
        "--key",
        key_file.to_str().unwrap(),
    ];
    let (listener, _) = encrypted(&[]);
    for (mode, told) in [(0o640, true), (0o604, true), (0o600, false), (0o400, false)] {
        std::fs::set_permissions(&key_file, PermissionsExt::from_mode(mode)).unwrap();
        let pinged = ping(&listener.udp_port, &files);
        let said = text(&pinged.stderr);
        assert!(pinged.status.success(), "{said}");
        assert_eq!(
            said.contains("chmod 600") && said.contains("own.key"),
            told,
            "{mode:o}: {said}"
        );
    }
}

/// Makes a key pair, and returns the names of its files.
fn key_pair(directory: &std::path::Path, name: &str) -> [String; 2] {
    let file = directory.join(name).to_str().unwrap().to_owned();
    let made = run(&["keygen", &file]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let public = format!("{file}.pub");
    let key = std::fs::read_to_string(&public).unwrap();
    assert!(text(&made.stdout).contains(key.trim()));
    refuses(&[(&["keygen", &file], "exists")]);
    [file, public]
}

/// A listener that echoes on two addresses and encrypts in DTLS chunks, and its facts.
fn listening_with_tls(more: &[&str]) -> (Listener, Value) {
    let mut command = anabranch(&["listen", "--udp-port", "0", "--json", "--echo", "--tls"]);
    command
        .args(["--path", "127.0.0.1", "--path", "127.0.0.2"])
        .args(more);
    let listener = ready(command);
    let facts = listener.said["encryption"].clone();
    (listener, facts)
}

#[test]
fn key_pairs_encrypt_every_path() {
    let directory = directory("key-pairs");
    let [server, client, other] = ["server", "client", "other"].map(|name| key_pair(&directory, name));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&server[0]).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let (listener, facts) = listening_with_tls(&["--key", &server[0], "--allow", &client[1]]);
    let own = std::fs::read_to_string(&server[1]).unwrap();
    assert_eq!(
        (&facts["protocol"], &facts["public_key"]),
        (&"DTLS chunk".into(), &own.trim().into())
    );
    let with = |key: &str, peer: &str| ping(&listener.udp_port, &["--tls", "--key", key, "--peer", peer]);
    let pinged = with(&client[0], &server[1]);
    assert!(pinged.status.success(), "{}", text(&pinged.stderr));
    let told = records(&text(&pinged.stdout));
    assert_eq!(told[0]["encryption"]["peer_key"], own.trim());
    let summary = event(&told, "summary");
    assert_eq!(
        (&summary["negotiated"]["protection"], &summary["equal"]),
        (&true.into(), &2.into())
    );
    for (key, peer, who) in [
        (&other[0], &server[1], "the server refused the client"),
        (&client[0], &other[1], "the client refused the server"),
    ] {
        let refused = with(key, peer);
        assert!(!refused.status.success());
        assert!(text(&refused.stderr).contains(who), "{}", text(&refused.stderr));
    }
    // Neither end talks to one without encryption.
    let plain = ping(&listener.udp_port, &[]);
    assert!(
        text(&plain.stderr).contains("it requires encryption"),
        "{}",
        text(&plain.stderr)
    );
    let plain = listen(&["--echo"]);
    let refused = ping(
        &plain.udp_port,
        &["--tls", "--key", &client[0], "--peer", &server[1]],
    );
    assert!(
        text(&refused.stderr).contains("this side requires encryption"),
        "{}",
        text(&refused.stderr)
    );
}

/// The text of the messages is in the decrypted capture, and without the keys of its run it is in none.
#[test]
fn a_capture_is_decrypted_with_its_key_log_alone() {
    let directory = directory("decrypt");
    let [server, client] = ["server", "client"].map(|name| key_pair(&directory, name));
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (listener, _) = listening_with_tls(&["--key", &server[0], "--allow", &client[1]]);
    let send = |log: &str, capture: &str, text: &str| {
        let source = file("source");
        std::fs::write(&source, format!("{text} is confidential")).unwrap();
        let (log, capture) = (file(log), file(capture));
        let mut args = vec![
            "send",
            "127.0.0.1",
            &source,
            "--json",
            "--tls",
            "--key",
            &client[0],
        ];
        args.extend(["--peer", &server[1], "--udp-port", &listener.udp_port]);
        args.extend(["--pcap", &capture]);
        // The variable of other programs with TLS does the same as the option.
        let mut command = if log.ends_with("others") {
            let mut command = anabranch(&args);
            command.env("SSLKEYLOGFILE", &log);
            command
        } else {
            args.extend(["--key-log", &log]);
            anabranch(&args)
        };
        let sent = Running(command.spawn().unwrap()).output();
        assert!(sent.status.success(), "{}", crate::text(&sent.stderr));
        let told = crate::text(&sent.stderr);
        assert!(
            told.contains("can read the messages") && told.contains(&log),
            "{told}"
        );
        (log, capture)
    };
    let has = |path: &str, part: &str| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(part.len()).any(|window| window == part.as_bytes())
    };
    let (keys, capture) = send("keys", "capture.pcapng", "apple");
    let (others, _) = send("others", "other.pcapng", "orange");
    let output = file("clear.pcapng");
    let decrypt = |log: &str| {
        run(&[
            "decrypt",
            &capture,
            "--key-log",
            log,
            "--output",
            &output,
            "--json",
        ])
    };
    assert!(!has(&capture, "apple is confidential"));
    let done = decrypt(&keys);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(has(&output, "apple is confidential"));
    #[cfg(unix)]
    for secret in [&keys, &output] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(secret).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
        // A file keeps its permissions when it is replaced.
        std::fs::set_permissions(secret, PermissionsExt::from_mode(0o644)).unwrap();
    }
    let told = records(&text(&done.stdout));
    let counts = event(&told, "decrypted");
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert!(count("decrypted") > 0 && count("not_encrypted") >= 4, "{counts}");
    assert_eq!((count("no_key"), count("not_authentic")), (0, 0), "{counts}");
    // The keys of another run.
    let refused = decrypt(&others);
    assert_eq!(refused.status.code(), Some(1));
    let warned = text(&refused.stderr).contains("other users may read the secrets");
    assert_eq!(warned, cfg!(unix), "{}", text(&refused.stderr));
    assert!(!has(&output, "apple is confidential"));
    let told = records(&text(&refused.stdout));
    assert_eq!(event(&told, "decrypted")["decrypted"], 0);
    let why = text(&refused.stderr);
    assert!(
        why.contains("none of its keys decrypts") && why.contains(&others),
        "{why}"
    );
    assert_eq!(std::fs::read(&output).unwrap(), std::fs::read(&capture).unwrap());
    // A log of two runs is the longer for it, and as good.
    let both = std::fs::read_to_string(&others).unwrap() + &std::fs::read_to_string(&keys).unwrap();
    std::fs::write(&others, both).unwrap();
    assert!(decrypt(&others).status.success());
    assert!(has(&output, "apple is confidential"));
}

#[test]
fn mistakes_with_key_logs_name_the_file() {
    let directory = directory("key-log-mistakes");
    let file = |name: &str, content: &str| {
        let path = directory.join(name).to_str().unwrap().to_owned();
        std::fs::write(&path, content).unwrap();
        path
    };
    let (empty, log) = (file("empty", ""), format!("SCTP_DTLS_CHUNK {}", "00".repeat(8)));
    let cut = file("cut", &log);
    let (key, iv) = ("00".repeat(16), "00".repeat(12));
    let log = file(
        "log",
        &format!("{log} client 3 TLS_AES_128_GCM_SHA256 {key} {key} {iv}\n"),
    );
    let pcap = file("tcpdump", "");
    std::fs::write(&pcap, [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0]).unwrap();
    let output = directory.join("out").to_str().unwrap().to_owned();
    let [key, public] = key_pair(&directory, "own");
    let decrypt = |capture: &str, log: &str, output: &str, part: &str| {
        refuses(&[(&["decrypt", capture, "--key-log", log, "--output", output], part)]);
    };
    decrypt(&empty, "/nowhere/log", &output, "--key-log /nowhere/log");
    decrypt(&empty, &empty, &output, "there is no key");
    decrypt(&empty, &cut, &output, "line 1 is no key");
    decrypt("/nowhere/capture", &log, &output, "cannot read /nowhere/capture");
    decrypt(&empty, &log, &output, "no capture in the pcapng format");
    decrypt(&pcap, &log, &output, "editcap");
    decrypt(&pcap, &log, "/nowhere/out", "--output: cannot write /nowhere/out");
    decrypt(&pcap, &log, &pcap, "this is the capture");
    decrypt(&pcap, &log, &log, "this is the key log");
    refuses(&[
        (&["ping", "127.0.0.1", "--key-log", &log], "--tls"),
        (
            &[
                "ping",
                "127.0.0.1",
                "--tls",
                "--key",
                &key,
                "--peer",
                &public,
                "--key-log",
                "/nowhere/log",
            ],
            "--key-log: cannot write /nowhere/log",
        ),
    ]);
}

#[test]
fn certificates_of_an_authority_have_names() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tls/tests/certificates/");
    let file = |name: &str| format!("{folder}{name}");
    let of = |who: &str| [file(&format!("{who}.pem")), file(&format!("{who}.key"))];
    let (ca, [bob, bob_key], [alice, alice_key]) = (file("authority.pem"), of("bob"), of("alice"));
    let (listener, _) = listening_with_tls(&["--cert", &bob, "--key", &bob_key, "--ca", &ca]);
    let base = ["--tls", "--cert", &alice, "--key", &alice_key, "--ca", &ca];
    // The host of the command line is the name by default.
    let pinged = ping(&listener.udp_port, &base);
    assert!(pinged.status.success(), "{}", text(&pinged.stderr));
    let refused = ping(
        &listener.udp_port,
        &[&base[..], &["--name", "alice.example"]].concat(),
    );
    assert!(
        text(&refused.stderr).contains("the client refused the server"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn mistakes_with_tls_name_the_flag() {
    let directory = directory("tls-mistakes");
    let [key, public] = key_pair(&directory, "own");
    refuses(&[
        (&["ping", "127.0.0.1", "--tls"], "--key"),
        (
            &["ping", "127.0.0.1", "--tls", "--key", &key],
            "--peer or --allow",
        ),
        (
            &["ping", "127.0.0.1", "--tls", "--dtls", "--key", &key],
            "cannot be used with",
        ),
        (
            &["ping", "127.0.0.1", "--tls", "--key", &public, "--peer", &public],
            "no private key that `anabranch keygen` wrote",
        ),
        (
            &["ping", "127.0.0.1", "--tls", "--key", &key, "--peer", &key],
            "this is a private key",
        ),
        (&["ping", "127.0.0.1", "--key", &key], "--tls"),
        (&["ping", "127.0.0.1", "--dtls", "--key", &key], "--cert"),
        (
            &[
                "ping",
                "127.0.0.1",
                "--tls",
                "--key",
                &key,
                "--peer",
                &public,
                "--auth-key-file",
                "keys",
            ],
            "cannot be used with",
        ),
    ]);
}

#[test]
fn mistakes_name_the_flag() {
    let print = Fingerprint::of(b"").to_string();
    refuses(&[
        (&["ping", "127.0.0.1", "--fingerprint", &print], "--dtls"),
        (
            &["ping", "127.0.0.1", "--dtls", "--fingerprint", "AB"],
            "is not a SHA-256 fingerprint",
        ),
        (&["ping", "127.0.0.1", "--dtls", "--cert", "x.pem"], "--key"),
        (
            &[
                "ping",
                "127.0.0.1",
                "--dtls",
                "--cert",
                "/nowhere/x",
                "--key",
                "/nowhere/y",
            ],
            "--cert: cannot read /nowhere/x",
        ),
        (
            &["ping", "127.0.0.1", "--dtls", "--watch-interfaces"],
            "leave --watch-interfaces out",
        ),
        (
            &["listen", "--dtls", "--path", "127.0.0.1", "--path", "127.0.0.2"],
            "leave --path and --multipath out",
        ),
        (
            &["listen", "--dtls", "--transport", "ip"],
            "leave --transport ip out",
        ),
    ]);
}
