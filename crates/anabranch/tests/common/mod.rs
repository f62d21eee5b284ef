//! Helpers that the tests share: endpoints on loopback, and a time limit.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part of it")]

use std::future::Future;
use std::time::Duration;

use anabranch::{Association, Config, Endpoint, Message, SendOptions};

/// The SCTP port that servers listen on.
pub const PORT: u16 = 7;

/// Fails a test that hangs.
pub async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), work)
        .await
        .expect("it takes too long")
}

/// An endpoint that listens on a free UDP port of loopback.
pub async fn listening(config: Config) -> Endpoint {
    let endpoint = Endpoint::builder()
        .config(config)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    endpoint.listen_on_port(PORT).unwrap();
    endpoint
}

/// Two endpoints with these settings, and an association between them.
pub struct Pair {
    pub client: Endpoint,
    pub server: Endpoint,
    pub ours: Association,
    pub theirs: Association,
}

pub async fn pair(config: Config) -> Pair {
    let server = listening(config.clone()).await;
    let client = Endpoint::builder()
        .config(config)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    connect(client, server).await
}

pub async fn connect(client: Endpoint, server: Endpoint) -> Pair {
    let (ours, theirs) = within(20, async {
        tokio::join!(client.connect_to_port(server.local_addr(), PORT), server.accept())
    })
    .await;
    Pair {
        ours: ours.unwrap(),
        theirs: theirs.unwrap(),
        client,
        server,
    }
}

/// Sends every message back until the association ends.
pub async fn echo(association: Association) {
    while let Ok(Some(message)) = association.recv().await {
        let Message {
            stream,
            ppid,
            unordered,
            payload,
            ..
        } = message;
        let options = SendOptions::default().ppid(ppid).unordered(unordered);
        if association
            .send_with(stream, payload.into_bytes(), options)
            .await
            .is_err()
        {
            break;
        }
    }
}

/// Accepts and echoes until the endpoint is closed.
pub async fn serve(endpoint: Endpoint) {
    while let Some(association) = endpoint.accept().await {
        tokio::spawn(echo(association));
    }
}

/// Bytes that depend on their position and on the seed.
pub fn bytes(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}
