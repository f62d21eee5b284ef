//! The server of README's client: encrypted, for the clients whose public keys it has. It prints what arrives.

use anabranch::{Association, Endpoint, TlsSettings};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Prints messages until the client shuts the association down.
async fn receive(association: Association) -> Result<()> {
    let mut count = 0;
    while let Some(message) = association.recv().await? {
        count += 1;
        let stream = message.stream;
        let text = String::from_utf8_lossy(&message.into_bytes()).into_owned();
        println!("server: stream {stream}: {text}");
    }
    println!("server: received {count} messages");
    Ok(())
}

#[tokio::main]
async fn main() {
    // An error that `main` returned would be printed with `{:?}`.
    if let Err(error) = run().await {
        eprintln!("server: {error}");
        std::process::exit(1);
    }
}

async fn run() -> Result<()> {
    let address = std::env::args().nth(1).unwrap_or("0.0.0.0:9899".to_owned());
    // ANCHOR: short
    let settings = TlsSettings::from_key_files("server.key", "client.key.pub")?;
    let endpoint = Endpoint::server(address, settings).await?;
    // ANCHOR_END: short
    println!("server: listening on {}", endpoint.local_addr());
    while let Some(association) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(error) = receive(association).await {
                eprintln!("server: {error}");
            }
        });
    }
    Ok(())
}
