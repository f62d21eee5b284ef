//! The server of `docs/start/first-program.md`: it prints the orders and counts the positions that a client sends.

use anabranch::{Association, Endpoint, StreamId};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ORDERS: StreamId = StreamId(0);

/// Receives messages until the client shuts the association down.
async fn receive(association: Association) -> Result<()> {
    println!("server: {} connected", association.remote_addr());
    let (mut orders, mut positions) = (0, 0);
    while let Some(message) = association.recv().await? {
        if message.stream == ORDERS {
            orders += 1;
            println!("server: {}", String::from_utf8_lossy(&message.into_bytes()));
        } else {
            positions += 1;
        }
    }
    println!("server: received {orders} orders and {positions} positions");
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
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:9899".to_owned());
    let endpoint = Endpoint::bind(address).await?;
    endpoint.listen()?;
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
