//! An association over two paths, which are emulated links on loopback: the first is cut while messages are sent, and the second takes over.
//! `cargo run --example two_paths`.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::{Endpoint, Event, LinkConfig};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const MESSAGES: u32 = 200;

/// An endpoint with two addresses, which it tells to its peers.
async fn endpoint(hosts: [&str; 2], link: &LinkConfig) -> Result<Endpoint> {
    let mut builder = Endpoint::builder();
    let mut locals = Vec::new();
    for host in hosts {
        let address = host.parse()?;
        builder = builder.path_link(address, link.clone(), 1);
        locals.push(SocketAddr::new(address, 0));
    }
    Ok(builder.bind_all(&locals)?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let link: LinkConfig = "rate=10mbit,delay=10ms".parse()?;
    let server = endpoint(["127.0.1.1", "127.0.1.2"], &link).await?;
    server.listen()?;
    let client = endpoint(["127.0.2.1", "127.0.2.2"], &link).await?;
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr()), server.accept());
    let (ours, theirs) = (ours?, theirs.ok_or("the server is closed")?);
    let receiver = tokio::spawn(async move {
        let mut received = 0;
        while theirs.recv().await.is_ok_and(|message| message.is_some()) {
            received += 1;
        }
        received
    });
    let events = tokio::spawn({
        let ours = ours.clone();
        async move {
            while let Some(event) = ours.next_event().await {
                if let Event::PathChanged { path, remote, state } = event {
                    println!("path {path} to {} is {state:?}", remote.ip());
                }
            }
        }
    });
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for number in 0..MESSAGES {
        ticks.tick().await;
        if number == MESSAGES / 4 {
            println!("the first path is cut");
            client.set_path_link("127.0.2.1".parse()?, &"loss=100%".parse()?);
        }
        ours.stream(0).send([7; 500]).await?;
    }
    ours.shutdown().await?;
    println!("{} of {MESSAGES} messages arrived", receiver.await?);
    events.await?;
    Ok(())
}
