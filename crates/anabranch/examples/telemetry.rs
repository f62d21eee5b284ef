//! Position messages that expire after 100 ms, and orders that must arrive, over a slow and lossy link:
//! `cargo run --example telemetry`.

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch::{Association, Endpoint, Event, Reliability, SendOptions, StreamId};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const POSITIONS: StreamId = StreamId(0);
const ORDERS: StreamId = StreamId(1);
/// A position is sent every 5 ms, and an order with every tenth position.
const COUNT: u64 = 400;
const EVERY: u64 = 10;
const INTERVAL: Duration = Duration::from_millis(5);

/// Receives all messages: the numbers of the positions, and the count of orders, which must arrive in order.
async fn receive(association: Association) -> Result<(BTreeSet<u64>, u64)> {
    let (mut positions, mut orders) = (BTreeSet::new(), 0);
    while let Some(message) = association.recv().await? {
        let stream = message.stream;
        let bytes = message.into_bytes();
        let number = u64::from_be_bytes(*bytes.first_chunk().ok_or("a message without a number")?);
        if stream == POSITIONS {
            positions.insert(number);
        } else if number == orders {
            orders += 1;
        } else {
            return Err(format!("order {number} arrived instead of order {orders}").into());
        }
    }
    Ok((positions, orders))
}

/// Numbers of the abandoned positions, and the count of those that were never sent.
async fn abandoned(association: Association) -> (BTreeSet<u64>, usize) {
    let (mut numbers, mut unsent) = (BTreeSet::new(), 0);
    while let Some(event) = association.next_event().await {
        if let Event::Abandoned(message) = event {
            numbers.insert(message.context);
            unsent += usize::from(!message.sent);
        }
    }
    (numbers, unsent)
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = Endpoint::bind("127.0.0.1:0").await?;
    server.listen(7)?;
    let client = Endpoint::builder()
        .link("rate=1mbit,delay=20ms,loss=3%,queue=32kib".parse()?, 7)
        .linger(Duration::from_secs(2))
        .bind("127.0.0.1:0")
        .await?;
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr(), 7), server.accept());
    let (ours, theirs) = (ours?, theirs.ok_or("the server is closed")?);
    let receiver = tokio::spawn(receive(theirs));
    let told = tokio::spawn(abandoned(ours.clone()));

    let mut ticks = tokio::time::interval(INTERVAL);
    for number in 0..COUNT {
        ticks.tick().await;
        let mut position = [0; 400];
        position[..8].copy_from_slice(&number.to_be_bytes());
        let fleeting = SendOptions {
            reliability: Reliability::Lifetime(Duration::from_millis(100)),
            context: number,
            ..SendOptions::default()
        };
        ours.send_with(POSITIONS, position.to_vec(), fleeting).await?;
        if number % EVERY == 0 {
            ours.send(ORDERS, (number / EVERY).to_be_bytes().to_vec()).await?;
        }
    }
    // `drained` does not wait for abandoned positions.
    ours.drained().await?;
    ours.shutdown().await?;

    let (positions, orders) = receiver.await??;
    let (abandoned, unsent) = told.await?;
    println!("orders: {orders} of {} arrived, in order", COUNT / EVERY);
    println!(
        "positions: {} of {COUNT} arrived; {} abandoned, {unsent} of them before they were sent",
        positions.len(),
        abandoned.len()
    );
    let lost = (0..COUNT).filter(|number| !positions.contains(number) && !abandoned.contains(number));
    match (lost.count(), orders) {
        (0, orders) if orders == COUNT / EVERY => {}
        (lost, orders) => {
            return Err(format!(
                "{lost} positions neither arrived nor were abandoned; {orders} orders arrived"
            )
            .into());
        }
    }
    let counters = ours.stats().counters;
    println!(
        "retransmitted: {} chunks; FORWARD-TSNs sent: {}",
        counters.retransmissions_fast + counters.retransmissions_timeout,
        counters.forward_tsns_sent
    );
    client.close().await;
    server.close().await;
    Ok(())
}
