//! KCP by tokio_kcp: a session for the messages, another one for the file.

use tokio_kcp::{KcpConfig, KcpListener, KcpNoDelayConfig, KcpStream};

use crate::files::{read_all, write_file, write_messages};
use crate::traffic::generate;
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new(
        "kcp",
        "kcp",
        "normal mode: nodelay 0, interval 40 ms, resend 0, with congestion window",
    )
    .second(),
    Rival::new(
        "kcp-fast",
        "kcp",
        "turbo mode: nodelay 1, interval 10 ms, resend 2, no congestion window; flushed after each write and acknowledgement",
    ),
    Rival::new("kcp-fast-window", "kcp", "the same with the congestion window").second(),
];

fn config(job: &Job) -> KcpConfig {
    if job.rival == "kcp" {
        return KcpConfig::default();
    }
    let fastest = KcpNoDelayConfig::fastest();
    KcpConfig {
        nodelay: KcpNoDelayConfig {
            nc: job.rival == "kcp-fast",
            ..fastest
        },
        flush_write: true,
        flush_acks_input: true,
        ..KcpConfig::default()
    }
}

pub(crate) async fn run(side: Side, job: &Job) -> Outcome<()> {
    let config = config(job);
    if side == Side::Receiver {
        let mut listener = KcpListener::bind(config, job.addr).await?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            tokio::spawn(async move { read_all(&mut stream).await });
        }
    }
    let mut messages = KcpStream::connect(&config, job.addr).await?;
    if job.file {
        let mut file = KcpStream::connect(&config, job.addr).await?;
        tokio::spawn(async move { write_file(&mut file).await });
    }
    write_messages(generate(job), &mut messages).await
}
