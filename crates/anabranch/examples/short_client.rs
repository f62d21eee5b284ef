//! The code of README: a message with a deadline and a message that always arrives, encrypted, to the server of the example
//! `short_server`. Both read the keys that `anabranch keygen` wrote in the current directory.

use std::time::Duration;

use anabranch::{Endpoint, Event, TlsSettings};

#[tokio::main]
async fn main() {
    // An error that `main` returned would be printed with `{:?}`.
    if let Err(error) = run().await {
        eprintln!("client: {error}");
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::args().nth(1).unwrap_or("127.0.0.1:9899".to_owned());
    // ANCHOR: short
    let settings = TlsSettings::from_key_files("client.key", "server.key.pub")?;
    let endpoint = Endpoint::client(settings).await?;
    let association = endpoint.connect(server).await?;
    let positions = association.stream(1).deadline(Duration::from_millis(100));
    association.send(0, "turn left").await?;
    positions.send("at 52.52, 13.41").await?;
    association.shutdown().await?;
    while let Some(event) = association.next_event().await {
        if let Event::Abandoned(message) = event {
            println!("the message on stream {} expired", message.stream);
        }
    }
    // ANCHOR_END: short
    endpoint.close().await;
    Ok(())
}
