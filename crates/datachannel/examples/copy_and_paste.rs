//! A chat between two programs without a server: the offer of one and the answer of the other are lines that people copy and paste.
//!
//! Start it in two terminals, with the address of this host if the other is on another: `copy_and_paste offer 192.0.2.7` and
//! `copy_and_paste answer 192.0.2.8`.

use anabranch::OffloadSocket;
use anabranch_datachannel::{ChannelConfig, DataChannel, PeerConnection, SessionConfig};
use anabranch_dtls::Certificate;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let offers = match arguments.next().as_deref() {
        Some("offer") => true,
        Some("answer") => false,
        _ => return Err("usage: copy_and_paste offer|answer [ADDRESS]".into()),
    };
    let address = arguments.next().unwrap_or("127.0.0.1".to_owned());
    let socket = OffloadSocket::bind((address.as_str(), 0)).await?;
    let config = SessionConfig::new(Certificate::generate()?, []);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let (peer, channel) = if offers {
        let (peer, offer) = PeerConnection::offer(socket, config)?;
        println!("give this line to the other program:\n{}", folded(&offer));
        peer.accept_answer(&unfolded(&read(&mut lines, "paste its line here:").await?))?;
        peer.connected().await?;
        let channel = peer.open(ChannelConfig::new("chat")).await?;
        (peer, channel)
    } else {
        let offer = unfolded(&read(&mut lines, "paste the line of the other program here:").await?);
        let (peer, answer) = PeerConnection::answer(socket, config, &offer)?;
        println!("give this line to the other program:\n{}", folded(&answer));
        let channel = peer.accept().await.ok_or("the other program has gone")?;
        (peer, channel)
    };
    chat(&channel, &mut lines).await?;
    // Closed by both: everything has arrived.
    channel.closed().await;
    peer.close();
    // The thread that reads the standard input would wait for another line.
    std::process::exit(0)
}

/// Sends lines, and prints those of the peer, until one of both ends.
async fn chat(channel: &DataChannel, lines: &mut Lines<BufReader<Stdin>>) -> Result<(), Failure> {
    println!("connected; type lines, and end with Ctrl-D");
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) => channel.send_text(line).await?,
                None => {
                    channel.close();
                    return Ok(());
                }
            },
            message = channel.recv() => match message {
                Some(message) => println!("they: {}", String::from_utf8_lossy(&message.bytes)),
                None => return Ok(()),
            },
        }
    }
}

async fn read(lines: &mut Lines<BufReader<Stdin>>, what: &str) -> Result<String, Failure> {
    println!("{what}");
    Ok(lines.next_line().await?.ok_or("the input has ended")?)
}

/// A description in one line.
fn folded(description: &str) -> String {
    description.replace("\r\n", "~")
}

fn unfolded(line: &str) -> String {
    line.trim().replace('~', "\r\n")
}
