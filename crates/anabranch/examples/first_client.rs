//! The client of `docs/start/first-program.md`: orders that must arrive, and positions that expire, over a slow and lossy link.

// ANCHOR: all
// ANCHOR: head
use std::time::Duration;

use anabranch::{Association, Config, Endpoint, Event, SendOptions, StreamId};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ORDERS: StreamId = StreamId(0);
const POSITIONS: StreamId = StreamId(1);
const COUNT: u64 = 100;
// ANCHOR_END: head

// ANCHOR: events
/// Counts the positions that this side abandoned, and those of them that were never sent.
async fn count_abandoned(association: Association) -> (u64, u64) {
    let (mut abandoned, mut unsent) = (0, 0);
    while let Some(event) = association.next_event().await {
        if let Event::Abandoned(message) = event {
            println!("client: position {} expired", message.context);
            abandoned += 1;
            unsent += u64::from(!message.sent);
        }
    }
    (abandoned, unsent)
}
// ANCHOR_END: events

// ANCHOR: connect
#[tokio::main]
async fn main() {
    // An error that `main` returned would be printed with `{:?}`.
    if let Err(error) = run().await {
        eprintln!("client: {error}");
        std::process::exit(1);
    }
}

async fn run() -> Result<()> {
    let server = std::env::args().nth(1).unwrap_or("127.0.0.1:9899".to_owned());
    let endpoint = Endpoint::builder()
        .config(Config::low_latency())
        .link("rate=200kbit,delay=20ms,loss=3%".parse()?, 1)
        .bind("0.0.0.0:0")
        .await?;
    let association = endpoint.connect(server).await?;
    association.set_stream_priority(POSITIONS, 1)?;
    let abandoned = tokio::spawn(count_abandoned(association.clone()));
    // ANCHOR_END: connect

    // ANCHOR: send
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    for number in 0..COUNT {
        ticks.tick().await;
        let options = SendOptions::default()
            .lifetime(Duration::from_millis(100))
            .context(number);
        let position = vec![number as u8; 600];
        association.send_with(POSITIONS, position, options).await?;
        if number % 10 == 0 {
            let order = format!("order {}", number / 10);
            association.send(ORDERS, order).await?;
        }
    }
    // ANCHOR_END: send

    // ANCHOR: end
    association.shutdown().await?;
    let (abandoned, unsent) = abandoned.await?;
    println!("client: {abandoned} of {COUNT} positions expired, {unsent} of them before they were sent");
    endpoint.close().await;
    Ok(())
}
// ANCHOR_END: end
// ANCHOR_END: all
