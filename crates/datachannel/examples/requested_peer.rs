//! A peer that obeys requests on standard input, a line of JSON each: `scripts/long/data-channels` measures its throughput with them.
//! `interop/webrtc/README.md` has the requests; this peer knows `answer`, `flood`, `received` and `vanish`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::OffloadSocket;
use anabranch_datachannel::{DataChannel, PeerConnection, SessionConfig, candidate_addresses};
use anabranch_dtls::Certificate;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::Instant;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The channels that were opened to this peer, and how many bytes have arrived on each.
type Known = Arc<Mutex<BTreeMap<String, (DataChannel, Arc<AtomicUsize>)>>>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    println!(
        "{}",
        json!({ "ready": format!("Anabranch {}", env!("CARGO_PKG_VERSION")) })
    );
    let known = Known::default();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let request: Value = serde_json::from_str(&line)?;
        if request["do"] == "vanish" {
            break;
        }
        let answer = obey(&known, &request).await;
        println!(
            "{}",
            answer.unwrap_or_else(|error| json!({ "error": error.to_string() }))
        );
    }
    Ok(())
}

async fn obey(known: &Known, request: &Value) -> Result<Value, Failure> {
    let text = |field: &str| request[field].as_str().ok_or(format!("no {field}"));
    match text("do")? {
        "answer" => {
            let offer = text("sdp")?;
            let socket = OffloadSocket::bind((address(offer), 0)).await?;
            let config = SessionConfig::new(Certificate::generate()?, []).ice_lite(true);
            let (peer, answer) = PeerConnection::answer(socket, config, offer)?;
            tokio::spawn(count(peer, Arc::clone(known)));
            Ok(json!({ "sdp": answer }))
        }
        "flood" => {
            let (channel, _) = find(known, text("label")?)?;
            let size = usize::try_from(request["size"].as_u64().ok_or("no size")?)?;
            let seconds = request["seconds"].as_f64().ok_or("no seconds")?;
            let message = bytes::Bytes::from(vec![0; size]);
            let end = Instant::now() + Duration::from_secs_f64(seconds);
            let mut sent = 0;
            // `send` waits for room by itself.
            while Instant::now() < end {
                channel.send_bytes(message.clone()).await?;
                sent += size;
            }
            Ok(json!({ "bytes": sent }))
        }
        "received" => {
            let (_, bytes) = find(known, text("label")?)?;
            Ok(json!({ "bytes": bytes.load(Ordering::Relaxed) }))
        }
        other => Err(format!("unknown request {other}").into()),
    }
}

/// An address of this machine that the peer can send to: one of its own.
fn address(offer: &str) -> IpAddr {
    let offered = candidate_addresses(offer).unwrap_or_default();
    let mut addresses = offered.iter().map(SocketAddr::ip);
    addresses
        .find(IpAddr::is_ipv4)
        .unwrap_or(Ipv4Addr::LOCALHOST.into())
}

fn find(known: &Known, label: &str) -> Result<(DataChannel, Arc<AtomicUsize>), Failure> {
    let known = known.lock().expect("no task panics");
    Ok(known
        .get(label)
        .ok_or(format!("there is no channel {label}"))?
        .clone())
}

async fn count(peer: PeerConnection, known: Known) {
    while let Some(channel) = peer.accept().await {
        let bytes = Arc::<AtomicUsize>::default();
        let label = channel.config().label;
        let entry = (channel.clone(), Arc::clone(&bytes));
        known.lock().expect("no task panics").insert(label, entry);
        tokio::spawn(async move {
            while let Some(message) = channel.recv().await {
                bytes.fetch_add(message.bytes.len(), Ordering::Relaxed);
            }
        });
    }
}
