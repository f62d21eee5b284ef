//! The extensions that `--json` reports as negotiated, at both ends.

use serde_json::Value;

mod common;

use common::{directory, event, listen, records, refuses, run, text};

/// Pings a listener; returns the negotiated extensions as the client and the listener report them.
fn negotiated(more: &[&str]) -> [Value; 2] {
    let listener = listen(&["--once", "--echo"]);
    let mut args = vec!["ping", "127.0.0.1", "--count", "2", "--interval", "1ms", "--json"];
    args.extend(["--udp-port", &listener.udp_port]);
    args.extend(more);
    let pinged = run(&args);
    assert!(pinged.status.success(), "{}", text(&pinged.stderr));
    let pinged = records(&text(&pinged.stdout));
    let (success, said) = listener.rest();
    assert!(success, "{said:?}");
    [event(&pinged, "summary"), event(&said, "association")].map(|record| record["negotiated"].clone())
}

#[test]
fn both_ends_tell_the_same() {
    for (option, name) in [
        ("--selective-forward-tsn", "selective_forward_tsn"),
        ("--extended-forward-tsn", "extended_forward_tsn"),
    ] {
        for more in [&[][..], &[option]] {
            let [client, listener] = negotiated(more);
            assert_eq!(client[name], !more.is_empty(), "{name} {client}");
            assert_eq!(client[name], listener[name], "{name}");
            assert_eq!(client["nr_sack"], true);
            assert_eq!(client["dynamic_addresses"], false);
            assert_eq!(client["authentication"], Value::Null);
        }
    }
}

/// The extended FORWARD-TSN needs DATA: messages then are not interleaved.
#[test]
fn messages_are_interleaved_unless_one_end_refuses() {
    for (options, interleaves) in [
        (&[][..], true),
        (&["--interleave"], true),
        (&["--no-interleaving"], false),
        (&["--extended-forward-tsn"], false),
        (&["--interleave", "--extended-forward-tsn"], false),
    ] {
        for told in negotiated(options) {
            assert_eq!(told["interleaving"], interleaves, "{options:?} {told}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn watching_interfaces_needs_dynamic_addresses_and_authentication() {
    for told in negotiated(&["--watch-interfaces"]) {
        assert_eq!(told["dynamic_addresses"], true);
        let authentication = &told["authentication"];
        assert_eq!(authentication["hmac"], "SHA-256");
        assert_eq!(authentication["chunks_required"], serde_json::json!(["asconf"]));
        assert_eq!(authentication["chunks_signed"], serde_json::json!(["asconf"]));
    }
}

/// Both ends sign with the key of one file; a client with another key is not answered.
#[test]
fn a_file_of_shared_keys() {
    let directory = directory("auth-keys");
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (file("right", "5 a secret\n"), file("wrong", "5 another\n"));
    let ping = |udp_port: &str, more: &[&str]| {
        let mut args = vec![
            "ping",
            "127.0.0.1",
            "--count",
            "2",
            "--interval",
            "1ms",
            "--json",
            "--timeout",
            "2s",
        ];
        args.extend(["--udp-port", udp_port]);
        args.extend(more);
        run(&args)
    };
    let listener = listen(&[
        "--once",
        "--echo",
        "--auth-key-file",
        &right,
        "--auth-chunks",
        "data,cookie-echo",
    ]);
    let refused = ping(&listener.udp_port, &["--auth-key-file", &wrong]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("did not answer"));
    let unsigned = ping(&listener.udp_port, &[]);
    assert!(
        !unsigned.status.success() && text(&unsigned.stderr).contains("refused"),
        "{}",
        text(&unsigned.stderr)
    );
    let pinged = ping(&listener.udp_port, &["--auth-key-file", &right]);
    assert!(pinged.status.success(), "{}", text(&pinged.stderr));
    let records = records(&text(&pinged.stdout));
    let told = &event(&records, "summary")["negotiated"]["authentication"];
    assert_eq!(
        (&told["key"], &told["peer_key"]),
        (&serde_json::json!(5), &serde_json::json!(5))
    );
    // The listener also requires ASCONF, because it accepts dynamic addresses.
    assert_eq!(
        told["chunks_signed"],
        serde_json::json!(["data", "cookie-echo", "asconf"])
    );
    assert!(listener.rest().0);
    std::fs::remove_dir_all(&directory).unwrap();
    refuses(&[
        (
            &["ping", "127.0.0.1", "--auth-key-file", "missing"],
            "--auth-key-file missing",
        ),
        (&["ping", "127.0.0.1", "--auth-chunks", "data"], "--auth-key-file"),
        (
            &[
                "ping",
                "127.0.0.1",
                "--auth-key-file",
                "x",
                "--auth-chunks",
                "init",
            ],
            "no chunk type",
        ),
    ]);
}

#[test]
fn an_address_that_is_bound_cannot_be_left() {
    refuses(&[(
        &["listen", "--bind", "127.0.0.1", "--watch-interfaces"],
        "leave --bind out",
    )]);
}
