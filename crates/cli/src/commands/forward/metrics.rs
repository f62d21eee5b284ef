//! Metrics for Prometheus: the status in its text format, over HTTP.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{PathState, PathStats};
use anabranch_forward::RuleStats;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::status::{ClientView, Status, path_name};
use crate::failure::Failure;
use crate::output::Output;

/// Requests at the same time; further connections wait.
const CONNECTIONS: usize = 16;
/// The time for one connection.
const LIMIT: Duration = Duration::from_secs(10);
/// The largest head of a request in bytes.
const MOST_HEAD: usize = 16 << 10;
/// The pause after an error of `accept`, which would otherwise come again at once.
const PAUSE: Duration = Duration::from_millis(100);

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

const PATHS: [PathMetric; 5] = [
    ("path_active", "gauge", "Whether the path is active", |path| {
        f64::from(u8::from(path.state == PathState::Active))
    }),
    ("path_rtt_seconds", "gauge", "Smoothed round-trip time", |path| {
        path.srtt.map_or(f64::NAN, |rtt| rtt.as_secs_f64())
    }),
    (
        "path_bytes_sent",
        "gauge",
        "Bytes of user data sent on the path, retransmissions included",
        |path| path.data_bytes_sent as f64,
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

/// A label's value (Prometheus, text format 0.0.4).
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The status in the text format.
pub(super) fn render(status: &Status) -> String {
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
            let remote = escaped(&client.remote);
            let line = |(index, (rule, stats)): (usize, &(String, RuleStats))| {
                let rule = escaped(rule);
                let labels = format!("{{client=\"{remote}\",number=\"{index}\",rule=\"{rule}\"}}");
                (labels, value(stats))
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
            let remote = escaped(&client.remote);
            let paths = client.association.as_ref().map_or(&[][..], |own| &own.paths);
            let line = |path: &PathStats| {
                let path_name = escaped(&path_name(path));
                let labels = format!(
                    "{{client=\"{remote}\",path=\"{path_name}\",number=\"{}\"}}",
                    path.id.0
                );
                (labels, value(path))
            };
            paths.iter().map(line).collect::<Vec<_>>()
        };
        metric(name, kind, help, clients.iter().flat_map(of_client).collect());
    }
    text
}

/// The HTTP server.
#[derive(Debug)]
pub(super) struct Server {
    listener: TcpListener,
}

impl Server {
    pub(super) async fn bind(address: SocketAddr, output: Output) -> Result<Self, Failure> {
        let problem = |error| {
            Failure::new(format!(
                "--metrics {address}: {error}; give a free port and an address of this machine"
            ))
        };
        let listener = TcpListener::bind(address).await.map_err(problem)?;
        let bound = listener.local_addr().map_err(problem)?;
        output.fact(
            format!("metrics at http://{bound}/metrics"),
            &json!({ "event": "metrics", "url": format!("http://{bound}/metrics") }),
        );
        Ok(Self { listener })
    }

    pub(super) async fn serve(self, status: impl Fn() -> Status + Clone + Send + Sync + 'static) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let status = status.clone();
                    tokio::spawn(async move {
                        converse(stream, status).await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

async fn converse(stream: TcpStream, status: impl Fn() -> Status + Send + Sync) {
    let service = service_fn(|request| {
        let answer = answer(&request, &status);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LIMIT)
        .max_buf_size(MOST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // An error is the reader's: the connection is closed.
    let _ = tokio::time::timeout(LIMIT, connection).await;
}

fn answer<B>(request: &Request<B>, status: &impl Fn() -> Status) -> Response<Full<Bytes>> {
    let is_known = request.method() == Method::GET && request.uri().path() == "/metrics";
    let (code, text) = if is_known {
        (StatusCode::OK, render(&status()))
    } else {
        (StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_owned())
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_counters() {
        let view = ClientView {
            remote: "192.0.2.1:5".to_owned(),
            association: None,
            rules: vec![("udp \"x\"".to_owned(), RuleStats::default())],
        };
        let text = render(&Status { clients: vec![view] });
        for line in [
            "# TYPE anabranch_forward_associations gauge",
            "anabranch_forward_associations 0",
            "# TYPE anabranch_forward_bytes_sent_total counter",
            "anabranch_forward_bytes_sent_total{client=\"192.0.2.1:5\",number=\"0\",rule=\"udp \\\"x\\\"\"} 0",
            "# TYPE anabranch_forward_path_rtt_seconds gauge",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
    }

    #[test]
    fn other_pages_are_not_there() {
        let status = || Status { clients: Vec::new() };
        let ask = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(());
            answer(&request.expect("a request"), &status).status()
        };
        assert_eq!(ask(Method::GET, "/metrics"), StatusCode::OK);
        assert_eq!(ask(Method::POST, "/metrics"), StatusCode::NOT_FOUND);
        assert_eq!(ask(Method::GET, "/"), StatusCode::NOT_FOUND);
    }
}
