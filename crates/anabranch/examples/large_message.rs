//! A message larger than the buffers of either side, sent and received in parts: `cargo run --example large_message`.
//!
//! 64 MiB pass two buffers of 256 KiB. Neither side ever holds more of the message than its buffer.

use anabranch::{Config, Endpoint, Ppid, SendOptions, StreamId};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PARTS: u64 = 1024;
const PART: usize = 64 << 10;

/// A checksum that depends on the order of the bytes.
fn add(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut config = Config::default();
    config.buffers.send = 256 << 10;
    config.buffers.receive = 256 << 10;
    let server = Endpoint::builder()
        .config(config.clone())
        .bind("127.0.0.1:0")
        .await?;
    server.listen()?;
    let client = Endpoint::builder().config(config).bind("127.0.0.1:0").await?;
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr()), server.accept());
    let (ours, theirs) = (ours?, theirs.ok_or("the server is closed")?);

    let sender = tokio::spawn(async move {
        let options = SendOptions::default().ppid(Ppid(1));
        let mut sum = 0;
        for number in 1..=PARTS {
            let part = vec![number as u8; PART];
            sum = add(sum, &part);
            // Waits while the send buffer is full. The program needs no other flow control.
            ours.send_part(StreamId(0), part, options, number == PARTS)
                .await?;
        }
        ours.shutdown().await?;
        Result::Ok(sum)
    });

    let (mut bytes, mut parts, mut sum) = (0, 0, 0);
    while let Some(part) = theirs.recv_part().await? {
        for piece in part.payload.pieces() {
            sum = add(sum, piece);
        }
        bytes += part.payload.len();
        parts += 1;
        if part.ending {
            println!("one message of {} MiB came in {parts} parts", bytes >> 20);
        }
    }
    if sender.await?? != sum {
        return Err("the message arrived changed".into());
    }
    println!("and is the one that was sent");
    Ok(())
}
