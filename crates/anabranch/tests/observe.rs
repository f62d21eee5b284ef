//! The events inside associations, for people and programs: the log, qlog files and metrics.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{
    Counters, Endpoint, EndpointBuilder, Identity, Reliability, SecretKey, SendOptions, TlsSettings, TlsTrust,
};
use common::within;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit,
};
use serde_json::Value;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

/// Sends 200 messages on two streams over a link that loses packets. Some of them expire. Returns the counters of both peers.
async fn lossy_transfer(client: EndpointBuilder, server: EndpointBuilder) -> [Counters; 2] {
    let expiring = SendOptions::default().reliability(Reliability::Lifetime(Duration::from_millis(15)));
    lossy_transfer_of(expiring, client, server).await
}

/// The same, and every fourth message has these options.
async fn lossy_transfer_of(
    fourth: SendOptions,
    client: EndpointBuilder,
    server: EndpointBuilder,
) -> [Counters; 2] {
    let server = server.bind("127.0.0.1:0").await.unwrap();
    server.listen_on_port(common::PORT).unwrap();
    let link = "delay=10ms,loss=10%,rate=2mbit".parse().unwrap();
    let client = client.link(link, 7).bind("127.0.0.1:0").await.unwrap();
    let pair = common::connect(client, server).await;
    for number in 0..200u16 {
        let options = if number % 4 == 3 {
            fourth
        } else {
            SendOptions::default()
        };
        pair.ours
            .send_with(number % 2, vec![0; 700], options)
            .await
            .unwrap();
    }
    let (shut, ()) = tokio::join!(within(120, pair.ours.shutdown()), async {
        while within(60, pair.theirs.recv())
            .await
            .is_ok_and(|message| message.is_some())
        {}
    });
    shut.unwrap();
    let counters = [&pair.ours, &pair.theirs].map(|association| association.stats().counters);
    within(60, pair.client.close()).await;
    within(60, pair.server.close()).await;
    counters
}

struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let name = format!("anabranch-{name}-{}.qlog", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// The records of the file: JSON text sequences (RFC 7464).
    fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        let records = text.split('\u{1e}').skip(1);
        records
            .map(|record| serde_json::from_str(record).unwrap())
            .collect()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn named<'a>(records: &'a [Value], name: &str) -> Vec<&'a Value> {
    let name = format!("sctp:{name}");
    let events = records.iter().filter(|record| record["name"] == name.as_str());
    events.map(|record| &record["data"]).collect()
}

#[tokio::test]
async fn a_qlog_file_tells_the_cause_of_each_late_message() {
    let (ours, theirs) = (File::new("ours"), File::new("theirs"));
    let [sent, received] = lossy_transfer(
        Endpoint::builder().qlog(&ours.0),
        Endpoint::builder().qlog(&theirs.0),
    )
    .await;
    let records = ours.records();
    assert_eq!(records[0]["file_schema"], "urn:ietf:params:qlog:file:sequential");
    let times: Vec<f64> = records[1..]
        .iter()
        .map(|record| record["time"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted());
    let queued = named(&records, "message_queued");
    assert_eq!(queued.len() as u64, sent.messages_sent);
    let lost: BTreeMap<_, _> = named(&records, "chunk_lost")
        .into_iter()
        .map(|data| (data["message"].as_u64().unwrap(), data["rule"].as_str().unwrap()))
        .collect();
    assert!(lost.len() > 3, "{lost:?}");
    let mut again = 0;
    for data in named(&records, "message_acknowledged") {
        if data["retransmissions"].as_u64().unwrap() > 0 {
            assert!(lost.contains_key(&data["message"].as_u64().unwrap()), "{data}");
            again += 1;
        }
    }
    assert!(again > 3, "{again} messages were sent again");
    let abandoned = named(&records, "message_abandoned");
    assert_eq!(
        abandoned.len() as u64,
        sent.abandoned_sent + sent.abandoned_unsent
    );
    assert!(abandoned.iter().all(|data| data["reason"] == "lifetime"));
    assert!(!named(&records, "packet_sent").is_empty());
    let records = theirs.records();
    assert_eq!(
        named(&records, "message_delivered").len() as u64,
        received.messages_received
    );
    for data in named(&records, "message_blocked") {
        assert!(data["missing"].as_u64() < data["tsn"].as_u64(), "{data}");
    }
}

/// The reference lists every event and every field of a file.
#[tokio::test]
async fn the_reference_describes_the_events_of_a_file() {
    let page = include_str!("../../../docs/reference/trace-events.md");
    let (ours, theirs) = (File::new("described-ours"), File::new("described-theirs"));
    lossy_transfer(
        Endpoint::builder().qlog(&ours.0),
        Endpoint::builder().qlog(&theirs.0),
    )
    .await;
    let urgent = File::new("described-urgent");
    let deadline = SendOptions::default().deadline(Duration::from_millis(50));
    let client = Endpoint::builder().qlog(&urgent.0);
    lossy_transfer_of(deadline, client, Endpoint::builder()).await;
    assert!(!named(&urgent.records(), "copies_planned").is_empty());
    let mut missing = BTreeSet::new();
    for record in [ours, theirs, urgent]
        .iter()
        .flat_map(File::records)
        .filter(|record| record["data"].is_object())
    {
        let name = record["name"]
            .as_str()
            .unwrap()
            .trim_start_matches("sctp:")
            .to_owned();
        let row = format!("| `{name}` |");
        let Some(row) = page.lines().find(|line| line.starts_with(&row)) else {
            missing.insert(name);
            continue;
        };
        for field in record["data"].as_object().unwrap().keys() {
            if !row.contains(&format!("`{field}`")) {
                missing.insert(format!("{name}.{field}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not in docs/reference/trace-events.md: {missing:?}"
    );
}

#[tokio::test]
async fn a_qlog_file_that_cannot_be_written_is_an_error() {
    let error = Endpoint::builder()
        .qlog("/nowhere/x.qlog")
        .bind("127.0.0.1:0")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/nowhere/x.qlog"), "{error}");
}

/// The lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Collects the lines of this thread's log with a filter as in `RUST_LOG`, until the second value is dropped.
fn collect(filter: &str) -> (Lines, impl Sized) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::registry()
        .with(
            tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_writer(move || writer.clone()),
        )
        .with(filter.parse::<Targets>().unwrap());
    // With a single subscriber in the process, an event that a test beside this one reaches first would be off for ever.
    let second = tracing::Dispatch::new(tracing_subscriber::registry());
    (lines, (tracing::subscriber::set_default(subscriber), second))
}

/// The log of a lossy transfer.
async fn log(filter: &str) -> (String, Counters) {
    let (lines, _collecting) = collect(filter);
    // The file asks for packets; the log must not have them for that reason.
    let file = File::new(&format!("beside-{}", filter.replace(':', "-")));
    let [counters, _] = lossy_transfer(Endpoint::builder().qlog(&file.0), Endpoint::builder()).await;
    (lines.text(), counters)
}

/// A server does not get the association of a client that it refuses. The log has the client's address and the reason.
#[tokio::test]
async fn the_log_has_the_clients_that_a_server_refused() {
    let [server, client, stranger] = [0; 3].map(|_| SecretKey::generate().unwrap());
    let settings = |own: &SecretKey, peer: &SecretKey| {
        let trust = TlsTrust::public_keys([peer.public()]);
        TlsSettings::new(&Identity::from_key(own).unwrap(), &trust).unwrap()
    };
    let (lines, _collecting) = collect("anabranch=info");
    let listening = Endpoint::server("127.0.0.1:0", settings(&server, &client))
        .await
        .unwrap();
    let tls = settings(&stranger, &server);
    let refused = Endpoint::builder().secure(tls).bind("127.0.0.1:0").await.unwrap();
    within(20, refused.connect(listening.local_addr()))
        .await
        .unwrap_err();
    within(20, async {
        while listening.failed_handshakes() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let text = lines.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    for part in [
        "the handshake of a peer failed",
        &format!("peer={}", refused.local_addr()),
        "the server refused the client",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn the_log_tells_the_events_at_the_level_debug() {
    let (text, counters) = log("debug").await;
    let count = |wanted: &str| text.lines().filter(|line| line.contains(wanted)).count() as u64;
    let abandoned = counters.abandoned_sent + counters.abandoned_unsent;
    assert!(abandoned > 0);
    assert_eq!(count("event=\"message_abandoned\""), abandoned);
    assert_eq!(
        count("because of "),
        counters.retransmissions_fast + counters.retransmissions_timeout
    );
    assert!(count("association{id=0 peer=127.0.0.1:") > 0);
    assert_eq!(
        count("event=\"packet_sent\""),
        0,
        "packets are of the level trace"
    );
    let (text, _) = log("anabranch::trace=trace").await;
    assert!(text.contains("event=\"packet_sent\"") && text.contains("event=\"packet_received\""));
    let (text, _) = log("info").await;
    assert!(!text.contains("event="), "{text}");
}

/// The sums of counters and gauges and the number of readings of histograms, by name and label.
#[derive(Default)]
struct Recorder(Mutex<BTreeMap<String, Arc<Number>>>);

#[derive(Default)]
struct Number(AtomicU64);

impl Recorder {
    fn number(&self, key: &Key) -> Arc<Number> {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        let name = key.name().to_owned() + &labels.collect::<String>();
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    fn sum(&self, name: &str) -> u64 {
        let all = self.0.lock().unwrap();
        let these = all.iter().filter(|(key, _)| key.split(' ').next() == Some(name));
        these.map(|(_, number)| number.0.load(Ordering::Relaxed)).sum()
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.number(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.number(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.number(key))
    }
}

impl CounterFn for Number {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Number {
    fn increment(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn decrement(&self, _: f64) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
    fn set(&self, _: f64) {}
}

impl HistogramFn for Number {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn metrics_agree_with_the_counters() {
    let recorder = Recorder::default();
    let [ours, theirs] = metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(lossy_transfer(Endpoint::builder(), Endpoint::builder()))
    });
    let sum = |name: &str| recorder.sum(&format!("anabranch_{name}"));
    assert_eq!(sum("associations_established_total"), 2);
    assert_eq!(sum("associations"), 0);
    assert_eq!(sum("messages_queued_total"), ours.messages_sent);
    let abandoned = ours.abandoned_sent + ours.abandoned_unsent;
    assert_eq!(sum("messages_abandoned_total"), abandoned);
    let again = ours.retransmissions_fast + ours.retransmissions_timeout;
    assert!(again > 0);
    assert_eq!(sum("data_chunks_retransmitted_total"), again);
    assert_eq!(sum("data_chunks_sent_total"), ours.data_chunks_sent - again);
    assert_eq!(sum("messages_delivered_total"), theirs.messages_received);
    assert_eq!(sum("message_delay_seconds"), ours.messages_sent - abandoned);
}
