//! A file and a chat in one association over a slow link: the chat does not wait for the file. `cargo run --example file_beside_chat`.

use std::time::{Duration, Instant};

use anabranch::{Association, Config, Endpoint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CHAT: u16 = 0;
const FILE: u16 = 1;
const FILE_LEN: usize = 1 << 20;

/// Receives the file, and answers each line of the chat.
async fn serve(association: Association) -> Result<usize> {
    let chat = association.stream(CHAT);
    let mut file = association.stream(FILE).into_byte_stream();
    let answers = async {
        while let Some(line) = chat.recv().await? {
            chat.send(line.into_bytes()).await?;
        }
        Ok(())
    };
    let mut content = Vec::new();
    let (answered, read): (Result<()>, _) = tokio::join!(answers, file.read_to_end(&mut content));
    answered?;
    Ok(read?)
}

#[tokio::main]
async fn main() -> Result<()> {
    // Fragments of the file and of the chat alternate, and the file leaves little in the queues of the network.
    let config = Config::low_latency();
    let server = Endpoint::builder()
        .config(config.clone())
        .bind("127.0.0.1:0")
        .await?;
    server.listen()?;
    let client = Endpoint::builder()
        .config(config)
        .link("rate=4mbit,delay=20ms,queue=64kib".parse()?, 1)
        .bind("127.0.0.1:0")
        .await?;
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr()), server.accept());
    let (ours, theirs) = (ours?, theirs.ok_or("the server is closed")?);
    let server_side = tokio::spawn(serve(theirs));

    let file = ours.stream(FILE);
    file.set_priority(1)?;
    let mut file = file.into_byte_stream();
    let sending = tokio::spawn(async move {
        file.write_all(&vec![7; FILE_LEN]).await?;
        file.shutdown().await
    });
    let chat = ours.stream(CHAT);
    let mut round_trips = Vec::new();
    for number in 0..20 {
        let begun = Instant::now();
        chat.send(format!("line {number}")).await?;
        chat.recv().await?.ok_or("the server left")?;
        round_trips.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sending.await??;
    ours.shutdown().await?;
    let received = server_side.await??;
    round_trips.sort();
    println!(
        "chat: {} answers, half of them within {:.0?}",
        round_trips.len(),
        round_trips[10]
    );
    println!("file: {received} of {FILE_LEN} bytes arrived");
    client.close().await;
    Ok(())
}
