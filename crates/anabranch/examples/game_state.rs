//! A game over a slow and lossy link: positions of which only the newest counts, and shots that must all arrive.
//! `cargo run --example game_state`.

use std::time::Duration;

use anabranch::{Association, Endpoint, Event};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const POSITIONS: u16 = 0;
const SHOTS: u16 = 1;
const TICKS: u32 = 300;

/// Shows the newest position and all shots; returns how many positions were shown, and how many shots came.
async fn play(association: Association) -> Result<(u32, u32)> {
    let (positions, shots) = (association.stream(POSITIONS), association.stream(SHOTS));
    let (mut newest, mut shown, mut fired) = (0, 0, 0);
    let number = |message: anabranch::Message| {
        let bytes = message.into_bytes();
        bytes.first_chunk().map(|first| u32::from_be_bytes(*first))
    };
    loop {
        tokio::select! {
            message = positions.recv() => match message?.and_then(number) {
                Some(tick) if tick >= newest => (newest, shown) = (tick + 1, shown + 1),
                Some(_) => {} // A newer position is on the screen.
                None => return Ok((shown, fired)),
            },
            message = shots.recv() => match message?.and_then(number) {
                Some(shot) if shot == fired => fired += 1,
                Some(shot) => return Err(format!("shot {shot} came instead of {fired}").into()),
                None => return Ok((shown, fired)),
            },
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = Endpoint::bind("127.0.0.1:0").await?;
    server.listen()?;
    let client = Endpoint::builder()
        .link("rate=300kbit,delay=30ms,loss=3%,queue=32kib".parse()?, 7)
        .bind("127.0.0.1:0")
        .await?;
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr()), server.accept());
    let (ours, theirs) = (ours?, theirs.ok_or("the server is closed")?);
    let screen = tokio::spawn(play(theirs));

    // A position older than 50 ms is worthless. Shots are more urgent than positions, and never abandoned.
    let positions = ours
        .stream(POSITIONS)
        .unordered(true)
        .lifetime(Duration::from_millis(50));
    positions.set_priority(1)?;
    let shots = ours.stream(SHOTS);
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for tick in 0..TICKS {
        ticks.tick().await;
        let mut state = [0; 600];
        state[..4].copy_from_slice(&tick.to_be_bytes());
        positions.send(state).await?;
        if tick % 10 == 0 {
            shots.send((tick / 10).to_be_bytes()).await?;
        }
    }
    ours.shutdown().await?;
    let mut abandoned = 0;
    while let Some(event) = ours.next_event().await {
        abandoned += u32::from(matches!(event, Event::Abandoned(_)));
    }
    let (shown, fired) = screen.await??;
    println!("positions: {TICKS} sent, {abandoned} abandoned, {shown} shown");
    println!("shots: {fired} of {} arrived, in order", TICKS / 10);
    client.close().await;
    Ok(())
}
