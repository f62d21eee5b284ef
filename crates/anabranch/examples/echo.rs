//! An echo server and its client over UDP on loopback: `cargo run --example echo`.

use anabranch::{Association, Endpoint, Ppid, SendOptions, StreamId};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sends every message back on its stream.
async fn echo(association: Association) -> Result<()> {
    while let Some(message) = association.recv().await? {
        let (stream, options) = (message.stream, message.options());
        association
            .send_with(stream, message.into_bytes(), options)
            .await?;
    }
    Ok(())
}

/// Serves all associations until the endpoint is closed.
async fn serve(endpoint: Endpoint) {
    while let Some(association) = endpoint.accept().await {
        println!("server: {} is here", association.remote_addr());
        tokio::spawn(echo(association));
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = Endpoint::bind("127.0.0.1:0").await?;
    server.listen(7)?;
    tokio::spawn(serve(server.clone()));

    let client = Endpoint::bind("127.0.0.1:0").await?;
    let association = client.connect(server.local_addr(), 7).await?;
    association.send(StreamId(0), "in order, on stream 0").await?;
    let options = SendOptions {
        ppid: Ppid(51),
        unordered: true,
        ..SendOptions::default()
    };
    association
        .send_with(StreamId(1), "as soon as it is there, on stream 1", options)
        .await?;
    for _ in 0..2 {
        let message = association.recv().await?.ok_or("the server left")?;
        println!("client: {}", String::from_utf8_lossy(&message.into_bytes()));
    }
    association.shutdown().await?;
    server.close().await;
    Ok(())
}
