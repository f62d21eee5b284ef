//! QUIC by quinn: one stream, a stream for each message, or datagrams. The file is a stream of the same connection, less urgent.

use std::sync::Arc;

use quinn::congestion::BbrConfig;
use quinn::{ClientConfig, Connection, Endpoint, SendStream, ServerConfig, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::files::{read_all, write_file, write_messages};
use crate::record::arrived;
use crate::traffic::{fragments, generate, taken};
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new("quinn-stream", "quinn", "one stream, CUBIC").second(),
    Rival::new("quinn-streams", "quinn", "a stream for each message, CUBIC"),
    Rival::new(
        "quinn-reset",
        "quinn",
        "a stream for each message, reset after the deadline (control: not reset), newer messages first, CUBIC",
    ),
    Rival::new(
        "quinn-reset-bbr",
        "quinn",
        "the same with quinn's BBR, which it calls experimental",
    )
    .second(),
    Rival::new(
        "quinn-datagrams",
        "quinn",
        "DATAGRAM frames; the program fragments",
    )
    .unreliable(),
];

/// The name in the certificate (RFC 6761 keeps it free).
pub(crate) const NAME: &str = "rival.invalid";

/// Both sides make the same certificate, from a fixed key, so that no file has to be exchanged. It protects nothing.
pub(crate) fn certificate() -> Outcome<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let key = PrivatePkcs8KeyDer::from(KEY.to_vec());
    let pair = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ED25519)?;
    let certificate = rcgen::CertificateParams::new(vec![NAME.to_owned()])?.self_signed(&pair)?;
    Ok((certificate.der().clone(), PrivateKeyDer::from(key)))
}

/// PKCS #8 of an Ed25519 key whose 32 bytes are all 7 (RFC 8410 §7).
const KEY: [u8; 48] = {
    let prefix = [
        0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
    ];
    let mut key = [7; 48];
    let mut at = 0;
    while at < prefix.len() {
        key[at] = prefix[at];
        at += 1;
    }
    key
};

fn transport(job: &Job) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.max_concurrent_uni_streams(10_000_u32.into());
    if job.rival.ends_with("-bbr") {
        config.congestion_controller_factory(Arc::new(BbrConfig::default()));
    }
    Arc::new(config)
}

async fn receive(job: &Job) -> Outcome<()> {
    let (certificate, key) = certificate()?;
    let mut config = ServerConfig::with_single_cert(vec![certificate], key)?;
    config.transport_config(transport(job));
    let endpoint = Endpoint::server(config, job.addr)?;
    let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
    let datagrams = connection.clone();
    tokio::spawn(async move {
        while let Ok(datagram) = datagrams.read_datagram().await {
            arrived(&datagram);
        }
    });
    loop {
        let mut stream = connection.accept_uni().await?;
        tokio::spawn(async move { read_all(&mut stream).await });
    }
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

async fn write_streams(
    job: &Job,
    connection: &Connection,
    mut messages: UnboundedReceiver<Vec<u8>>,
) -> Outcome<()> {
    let resets = job.rival.starts_with("quinn-reset") && !job.traffic.is_reliable();
    let mut priority = 0;
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

pub(crate) async fn run(side: Side, job: &Job) -> Outcome<()> {
    if side == Side::Receiver {
        return receive(job).await;
    }
    let mut roots = RootCertStore::empty();
    roots.add(certificate()?.0)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport(job));
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let connection = endpoint.connect_with(config, job.addr, NAME)?.await?;
    if job.file {
        let mut file = connection.open_uni().await?;
        file.set_priority(-1)?;
        tokio::spawn(async move { write_file(&mut file).await });
    }
    let mut messages = generate(job);
    match job.rival.as_str() {
        "quinn-stream" => write_messages(messages, &mut connection.open_uni().await?).await,
        "quinn-datagrams" => {
            while let Some(message) = messages.recv().await {
                let longest = connection
                    .max_datagram_size()
                    .ok_or("the peer takes no datagrams")?;
                for fragment in fragments(&message, longest) {
                    connection.send_datagram(fragment.into())?;
                }
                taken();
            }
            Ok(())
        }
        _ => write_streams(job, &connection, messages).await,
    }
}
