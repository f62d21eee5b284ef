//! Metrics for Prometheus: the status in its text format, over HTTP.

use std::fmt::Write;

use anabranch::{PathState, PathStats};
use anabranch_forward::RuleStats;
use hyper::{Request, StatusCode};

use super::status::{ClientView, Status, addresses};
use super::totals::{Counts, Network};
use crate::http::{self, Answer};

/// The path of the metrics on their server.
pub(super) const PATH: &str = "/metrics";
/// The text format.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The counters of a rule: name, meaning, value.
type RuleMetric = (&'static str, &'static str, fn(&RuleStats) -> u64);

const RULES: [RuleMetric; 8] = [
    ("flows_opened_total", "Flows that began", |rule| rule.flows_opened),
    ("flows_refused_total", "Flows that were refused", |rule| {
        rule.flows_refused
    }),
    (
        "messages_sent_total",
        "Datagrams, or messages with bytes of connections, given to the association",
        |rule| rule.messages_sent,
    ),
    ("bytes_sent_total", "Their bytes", |rule| rule.bytes_sent),
    (
        "messages_received_total",
        "Datagrams, or messages with bytes of connections, from the association",
        |rule| rule.messages_received,
    ),
    ("bytes_received_total", "Their bytes", |rule| rule.bytes_received),
    (
        "datagrams_dropped_total",
        "Datagrams dropped at this end",
        |rule| rule.dropped,
    ),
    (
        "datagrams_abandoned_total",
        "Datagrams abandoned because they could not arrive in time",
        |rule| rule.abandoned,
    ),
];

/// The values of a path: name, type, meaning, value.
type PathMetric = (&'static str, &'static str, &'static str, fn(&PathStats) -> f64);

const PATHS: [PathMetric; 6] = [
    ("path_active", "gauge", "Whether the path is active", |path| {
        f64::from(u8::from(path.state == PathState::Active))
    }),
    ("path_rtt_seconds", "gauge", "Smoothed round-trip time", |path| {
        path.srtt.map_or(f64::NAN, |rtt| rtt.as_secs_f64())
    }),
    (
        "path_bytes_sent",
        "gauge",
        "Bytes of user data sent on the path, retransmissions and early copies included",
        |path| Counts::of(path).bytes_sent as f64,
    ),
    (
        "path_bytes_received",
        "gauge",
        "Bytes of user data that arrived on the path, retransmissions included",
        |path| path.data_bytes_received as f64,
    ),
    (
        "path_chunks_sent",
        "gauge",
        "Chunks sent on the path, retransmissions included",
        |path| path.data_chunks_sent as f64,
    ),
    ("path_chunks_lost", "gauge", "Chunks lost on the path", |path| {
        path.chunks_lost as f64
    }),
];

/// The counters of a network, an interface or an address of the client, over the whole run: name, meaning, value.
type NetworkMetric = (&'static str, &'static str, fn(&Network) -> u64);

const NETWORKS: [NetworkMetric; 4] = [
    (
        "network_bytes_sent_total",
        "Bytes of user data sent on all paths of the network, retransmissions included",
        |network| network.counts.bytes_sent,
    ),
    (
        "network_bytes_received_total",
        "Bytes of user data that arrived on all paths of the network, retransmissions included",
        |network| network.counts.bytes_received,
    ),
    (
        "network_chunks_sent_total",
        "Chunks sent on all paths of the network, retransmissions included",
        |network| network.counts.chunks_sent,
    ),
    (
        "network_chunks_lost_total",
        "Chunks lost on all paths of the network",
        |network| network.counts.chunks_lost,
    ),
];

/// A label's value (Prometheus, text format 0.0.4).
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The labels of a value, in braces. Those that are empty say nothing: a client needs no name of its own.
fn labels(pairs: &[(&str, &str)]) -> String {
    let used = pairs.iter().filter(|(_, value)| !value.is_empty());
    let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
    format!("{{{}}}", used.map(label).collect::<Vec<_>>().join(","))
}

/// The status in the text format.
fn render(status: &Status) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: Vec<(String, f64)>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP anabranch_forward_{name} {help}.");
        let _ = writeln!(text, "# TYPE anabranch_forward_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "anabranch_forward_{name}{labels} {value}");
        }
    };
    let clients = &status.clients;
    let connected = clients.iter().filter(|client| client.association.is_some());
    metric(
        "associations",
        "gauge",
        "Associations now",
        vec![(String::new(), connected.count() as f64)],
    );
    let rules = |value: &dyn Fn(&RuleStats) -> f64| {
        let of_client = |client: &ClientView| {
            let line = |(index, (rule, stats)): (usize, &(String, RuleStats))| {
                let number = index.to_string();
                let names = [("client", &*client.remote), ("number", &number), ("rule", rule)];
                (labels(&names), value(stats))
            };
            client.rules.iter().enumerate().map(line).collect::<Vec<_>>()
        };
        clients.iter().flat_map(of_client).collect::<Vec<_>>()
    };
    metric("flows", "gauge", "Flows now", rules(&|rule| rule.flows as f64));
    for (name, help, value) in RULES {
        metric(name, "counter", help, rules(&|rule| value(rule) as f64));
    }
    for (name, kind, help, value) in PATHS {
        let of_client = |client: &ClientView| {
            let line = |path: &PathStats| {
                let names = [
                    ("client", &*client.remote),
                    ("path", &addresses(path)),
                    ("interface", client.interface(path).unwrap_or_default()),
                    ("number", &path.id.0.to_string()),
                ];
                (labels(&names), value(path))
            };
            client.shown_paths().map(line).collect::<Vec<_>>()
        };
        metric(name, kind, help, clients.iter().flat_map(of_client).collect());
    }
    for (name, help, value) in NETWORKS {
        let of_client = |client: &ClientView| {
            let line = |network: &Network| {
                let names = [("client", &*client.remote), ("network", &network.name)];
                (labels(&names), value(network) as f64)
            };
            client.networks.iter().map(line).collect::<Vec<_>>()
        };
        metric(
            name,
            "counter",
            help,
            clients.iter().flat_map(of_client).collect(),
        );
    }
    text
}

/// The answer to a request.
pub(super) fn answer<B>(request: &Request<B>, status: impl Fn() -> Status) -> Answer {
    if request.uri().path() != PATH {
        let text = format!("the metrics are at {PATH}\n");
        return http::plain(StatusCode::NOT_FOUND, text);
    }
    http::read(request, FORMAT, || render(&status()).into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hyper::Method;

    use super::*;
    use crate::commands::forward::status::tests::{association, widest};

    #[test]
    fn each_rule_has_its_counters() {
        let view = ClientView {
            remote: "192.0.2.1:5".to_owned(),
            association: None,
            interfaces: BTreeMap::new(),
            networks: vec![Network {
                name: "wifi".to_owned(),
                counts: Counts {
                    chunks_sent: 3,
                    ..Counts::default()
                },
                down_for: None,
            }],
            sum: Counts::default(),
            rules: vec![("udp \"x\"".to_owned(), RuleStats::default())],
        };
        let text = render(&Status { clients: vec![view] });
        for line in [
            "# TYPE anabranch_forward_associations gauge",
            "anabranch_forward_associations 0",
            "# TYPE anabranch_forward_bytes_sent_total counter",
            "anabranch_forward_bytes_sent_total{client=\"192.0.2.1:5\",number=\"0\",rule=\"udp \\\"x\\\"\"} 0",
            "# TYPE anabranch_forward_path_rtt_seconds gauge",
            "# TYPE anabranch_forward_network_chunks_sent_total counter",
            "anabranch_forward_network_chunks_sent_total{client=\"192.0.2.1:5\",network=\"wifi\"} 3",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
    }

    /// A server has no use for an address that only the client's own network knows, also while the client's networks are silent.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_private_address_of_a_client_has_no_values() {
        let mut view = widest(&association().await, &["203.0.113.7:54321", "192.168.1.20:9899"]);
        let paths = view
            .association
            .as_mut()
            .map(|association| &mut association.paths);
        let [public, private] = &mut paths.unwrap()[..] else {
            unreachable!("two paths");
        };
        (public.state, private.state) = (PathState::PotentiallyFailed, PathState::Unconfirmed);
        let text = render(&Status { clients: vec![view] });
        assert!(text.contains("203.0.113.7:54321"), "{text}");
        assert!(!text.contains("192.168.1.20"), "{text}");
    }

    #[test]
    fn other_pages_are_not_there() {
        let status = || Status { clients: Vec::new() };
        let ask = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(());
            answer(&request.expect("a request"), status).status()
        };
        assert_eq!(ask(Method::GET, "/metrics"), StatusCode::OK);
        assert_eq!(ask(Method::POST, "/metrics"), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(ask(Method::GET, "/"), StatusCode::NOT_FOUND);
    }
}
