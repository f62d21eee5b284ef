//! An echo server and its client over UDP on loopback: `cargo run --example echo`.

use anabranch::{Association, Endpoint};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sends every message back on its stream, with the same options.
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
    server.listen()?;
    tokio::spawn(serve(server.clone()));

    let client = Endpoint::bind("127.0.0.1:0").await?;
    let association = client.connect(server.local_addr()).await?;
    let ordered = association.stream(0);
    let unordered = association.stream(1).unordered(true).ppid(51);
    ordered.send("in order, on stream 0").await?;
    unordered.send("as soon as it is there, on stream 1").await?;
    for stream in [ordered, unordered] {
        let message = stream.recv().await?.ok_or("the server left")?;
        println!("client: {}", String::from_utf8_lossy(&message.into_bytes()));
    }
    association.shutdown().await?;
    server.close().await;
    Ok(())
}
