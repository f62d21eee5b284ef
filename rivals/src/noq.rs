//! Multipath QUIC by noq, a fork of quinn with draft-ietf-quic-multipath: a stream for each message. The file is a stream of the same
//! connection, less urgent.

use std::sync::Arc;
use std::time::Duration;

use noq::{
    ClientConfig, Connection, Endpoint, FourTuple, PathStatus, SendStream, ServerConfig, TransportConfig,
};
use rustls::RootCertStore;

use crate::files::{read_all, write_file};
use crate::quic::{NAME, certificate};
use crate::traffic::{generate, taken};
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new(
        "noq-streams",
        "noq",
        "a stream for each message, CUBIC; both paths available: the second one carries what the window of the first one does not allow",
    )
    .with_paths(),
    Rival::new(
        "noq-reset",
        "noq",
        "the same, reset after the deadline (control: not reset), newer messages first",
    )
    .with_paths(),
];

/// The time after which a path is opened again.
const RETRY: Duration = Duration::from_millis(20);

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.max_concurrent_uni_streams(10_000_u32.into());
    config.max_concurrent_multipath_paths(4);
    Arc::new(config)
}

async fn receive(job: &Job) -> Outcome<()> {
    let (certificate, key) = certificate()?;
    let mut config = ServerConfig::with_single_cert(vec![certificate], key)?;
    config.transport_config(transport());
    let endpoint = Endpoint::server(config, job.addr)?;
    let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
    loop {
        let mut stream = connection.accept_uni().await?;
        tokio::spawn(async move { read_all(&mut stream).await });
    }
}

/// Connects, and opens a path from each further address of --local.
async fn connect(job: &Job) -> Outcome<(Endpoint, Connection)> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate()?.0)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport());
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let connection = endpoint.connect_with(config, job.addr, NAME)?.await?;
    for local in job.local.iter().skip(1) {
        let path = FourTuple::new(job.addr, Some(*local));
        // The peer's connection IDs for further paths arrive after set-up; later, the set-up of a path is lost now and then.
        while connection.open_path(path, PathStatus::Available).await.is_err() {
            tokio::time::sleep(RETRY).await;
        }
    }
    Ok((endpoint, connection))
}

/// Writes a message to a stream of its own. With a time, the stream is reset at this time unless the peer has acknowledged the stream.
async fn write_one(
    mut stream: SendStream,
    message: Vec<u8>,
    reset_at: Option<tokio::time::Instant>,
) -> Outcome<()> {
    let written = async {
        stream.write_all(&message).await?;
        stream.finish()?;
        taken();
        // Waits until everything is acknowledged.
        stream.stopped().await?;
        Outcome::Ok(())
    };
    match reset_at {
        None => written.await?,
        Some(time) => {
            if tokio::time::timeout_at(time, written).await.is_err() {
                stream.reset(0_u32.into())?;
            }
        }
    }
    Ok(())
}

pub(crate) async fn run(side: Side, job: &Job) -> Outcome<()> {
    if side == Side::Receiver {
        return receive(job).await;
    }
    let (_endpoint, connection) = connect(job).await?;
    if job.file {
        let mut file = connection.open_uni().await?;
        file.set_priority(-1)?;
        tokio::spawn(async move { write_file(&mut file).await });
    }
    let resets = job.rival == "noq-reset" && !job.traffic.is_reliable();
    let mut priority = 0;
    let mut messages = generate(job);
    while let Some(message) = messages.recv().await {
        let stream = connection.open_uni().await?;
        if resets {
            priority += 1;
            stream.set_priority(priority)?;
        }
        let reset_at = resets.then(|| tokio::time::Instant::now() + job.traffic.deadline());
        tokio::spawn(write_one(stream, message, reset_at));
    }
    Ok(())
}
