//! An echo server for browsers: open http://127.0.0.1:8080. Each visitor has a data channel for positions, of which old ones are useless.

use anabranch_datachannel::{PeerConnection, SessionConfig};
use anabranch_dtls::Certificate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PAGE: &str = r#"<!doctype html><meta charset="utf-8"><title>echo</title><p id="told">connecting</p><script>
(async () => {
  const peer = new RTCPeerConnection(), told = document.getElementById('told');
  const channel = peer.createDataChannel('positions', { ordered: false, maxRetransmits: 0 });
  let echoes = 0, sum = 0;
  channel.onopen = () => setInterval(() => channel.send(String(performance.now())), 20);
  channel.onmessage = (message) => {
    sum += performance.now() - Number(message.data);
    told.textContent = `${++echoes} echoes, ${(sum / echoes).toFixed(1)} ms`;
  };
  await peer.setLocalDescription();
  const answer = await fetch('/offer', { method: 'POST', body: peer.localDescription.sdp });
  await peer.setRemoteDescription({ type: 'answer', sdp: await answer.text() });
})();
</script>"#;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("open http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move { serve(stream).await.inspect_err(|error| eprintln!("{error}")) });
    }
}

/// One request: the page, or an offer.
async fn serve(mut stream: TcpStream) -> Result<(), Failure> {
    let mut request = Vec::new();
    let (head, body) = loop {
        if request.len() > 65_536 || stream.read_buf(&mut request).await? == 0 {
            return Err("the request is too long, or has no end".into());
        }
        let text = std::str::from_utf8(&request)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let lower = head.to_ascii_lowercase();
        let mut lines = lower.lines();
        let announced = lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() >= announced.unwrap_or(0) {
            break (head, body);
        }
    };
    let (kind, answer) = if head.starts_with("POST /offer ") {
        let socket = anabranch::OffloadSocket::bind((stream.local_addr()?.ip(), 0)).await?;
        let config = SessionConfig::new(Certificate::generate()?, []).ice_lite(true);
        let (peer, answer) = PeerConnection::answer(socket, config, body)?;
        tokio::spawn(echo(peer));
        ("application/sdp", answer)
    } else {
        ("text/html", PAGE.to_owned())
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    Ok(stream.write_all((head + &answer).as_bytes()).await?)
}

async fn echo(peer: PeerConnection) {
    while let Some(channel) = peer.accept().await {
        tokio::spawn(async move {
            while let Some(message) = channel.recv().await {
                let _ = channel.try_send(message);
            }
        });
    }
}
