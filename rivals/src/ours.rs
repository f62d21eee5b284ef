//! Anabranch itself. Messages are on stream 0, the file is on stream 1 of the same association.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::controller::{BbrConfig, CongestionControl};
use anabranch::{
    Association, Config, Endpoint, MultipathMode, Reliability, SchedulerKind, SendOptions, StreamId,
};
use bytes::Bytes;

use crate::record::arrived;
use crate::traffic::{Traffic, file_part, generate, taken};
use crate::{Job, Outcome, Rival, Side};

const MESSAGES: StreamId = StreamId(0);
const FILE: StreamId = StreamId(1);
const PORT: u16 = 7;

/// The settings, from the simplest to the best; [`settings`] makes them. "Unordered, lifetime = deadline" is for messages that expire:
/// control messages are reliable and ordered with all settings.
pub(crate) const RIVALS: &[Rival] = &[
    Rival::new("anabranch", "anabranch", "defaults: reliable, ordered, RACK-TLP, CUBIC").with_paths(),
    Rival::new("anabranch-lifetime", "anabranch", "unordered, lifetime = deadline").second(),
    Rival::new(
        "anabranch-urgent",
        "anabranch",
        "the same with priorities, interleaving, low_priority_delay 20 ms, early discard, selective forward TSN",
    )
    .second(),
    Rival::new("anabranch-bbr", "anabranch", "reliable, ordered, BBR").second(),
    Rival::new("anabranch-low-latency", "anabranch", "Config::low_latency(), unordered, lifetime = deadline").with_paths(),
    Rival::new(
        "anabranch-best",
        "anabranch",
        "Config::low_latency(); unordered, lifetime = deadline; three early copies, one of video frames; two paths: failover",
    )
    .with_paths(),
    Rival::new("anabranch-deadline", "anabranch", "defaults; each message with its deadline and nothing else; two paths: ECA-SCTP").with_paths(),
];

/// The settings of both endpoints, and of each message.
fn settings(job: &Job) -> (Config, SendOptions) {
    let mut expiring = SendOptions::default();
    if !job.traffic.is_reliable() {
        expiring = expiring
            .unordered(true)
            .reliability(Reliability::Lifetime(job.traffic.deadline()));
    }
    let discarding = |mut config: Config| {
        config.partial_reliability.early_discard = true;
        config.partial_reliability.selective_forward_tsn = Some(1);
        config
    };
    match job.rival.as_str() {
        "anabranch-lifetime" => (Config::default(), expiring),
        "anabranch-urgent" => {
            let mut config = discarding(Config::default());
            config.interleaving.offer = true;
            config.scheduler = SchedulerKind::Priority;
            config.low_priority_delay = Some(Duration::from_millis(20));
            (config, expiring)
        }
        "anabranch-bbr" => {
            let bbr = CongestionControl::Bbr(BbrConfig::default());
            let mut config = Config::default();
            config.congestion_control = bbr;
            (config, SendOptions::default())
        }
        "anabranch-low-latency" => (Config::low_latency(), expiring),
        "anabranch-deadline" if !job.traffic.is_reliable() => (
            Config::default(),
            SendOptions::default().deadline(job.traffic.deadline()),
        ),
        "anabranch-best" => (
            Config::low_latency(),
            expiring.early_copies(if job.traffic == Traffic::Video { 1 } else { 3 }),
        ),
        _ => (Config::default(), SendOptions::default()),
    }
}

/// Binds to one address, or to all addresses of --local, and then uses the paths between them at once or for failover.
fn bind(side: Side, job: &Job, mut config: Config) -> Outcome<Endpoint> {
    let port = if side == Side::Receiver {
        job.addr.port()
    } else {
        0
    };
    if job.local.is_empty() {
        let any = if side == Side::Receiver {
            job.addr
        } else {
            "0.0.0.0:0".parse()?
        };
        return Ok(Endpoint::builder().config(config).bind_all(&[any])?);
    }
    config.local_addresses.clone_from(&job.local);
    if job.rival != "anabranch-best" {
        config.multipath.mode = MultipathMode::Eca;
    }
    let addresses: Vec<_> = job.local.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    Ok(Endpoint::builder().config(config).bind_all(&addresses)?)
}

async fn receive(association: Association) -> Outcome<()> {
    while let Some(message) = association.recv().await? {
        arrived(&message.into_bytes());
    }
    Ok(())
}

pub(crate) async fn run(side: Side, job: &Job) -> Outcome<()> {
    let (config, options) = settings(job);
    let has_priorities = config.scheduler == SchedulerKind::Priority;
    let endpoint = bind(side, job, config)?;
    if side == Side::Receiver {
        endpoint.listen_on_port(PORT)?;
        while let Some(association) = endpoint.accept().await {
            tokio::spawn(receive(association));
        }
        return Ok(());
    }
    let association = endpoint.connect_to_port(job.addr, PORT).await?;
    if has_priorities {
        association.set_stream_priority(FILE, 1)?;
    }
    if job.file {
        let association = association.clone();
        let part = Bytes::from(file_part());
        tokio::spawn(async move { while association.send(FILE, part.clone()).await.is_ok() {} });
    }
    let mut messages = generate(job);
    while let Some(message) = messages.recv().await {
        association.send_with(MESSAGES, message, options).await?;
        taken();
    }
    Ok(())
}
