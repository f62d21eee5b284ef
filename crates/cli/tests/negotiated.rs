//! The extensions that `--json` reports as negotiated, at both ends.

use serde_json::Value;

mod common;

use common::{event, listen, records, refuses, run, text};

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
        ("--interleave", "interleaving"),
        ("--selective-forward-tsn", "selective_forward_tsn"),
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

#[test]
#[cfg(target_os = "linux")]
fn watching_interfaces_needs_dynamic_addresses_and_authentication() {
    for told in negotiated(&["--watch-interfaces"]) {
        assert_eq!(told["dynamic_addresses"], true);
        let authentication = &told["authentication"];
        assert_eq!(authentication["hmac"], "SHA-256");
        // ASCONF-ACK and ASCONF.
        assert_eq!(authentication["chunks_required"], serde_json::json!([128, 193]));
        assert_eq!(authentication["chunks_signed"], serde_json::json!([128, 193]));
    }
}

#[test]
fn an_address_that_is_bound_cannot_be_left() {
    refuses(&[(
        &["listen", "--bind", "127.0.0.1", "--watch-interfaces"],
        "leave --bind out",
    )]);
}
