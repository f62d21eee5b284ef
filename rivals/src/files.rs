//! Messages and files as streams of bytes, for rivals whose interface is that of a socket.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::Outcome;
use crate::record::arrived;
use crate::traffic::{HEADER, Header, LONGEST, file_part, taken};

/// Writes the messages one after the other.
pub(crate) async fn write_messages(
    mut messages: UnboundedReceiver<Vec<u8>>,
    stream: &mut (impl AsyncWrite + Unpin),
) -> Outcome<()> {
    while let Some(message) = messages.recv().await {
        stream.write_all(&message).await?;
        stream.flush().await?;
        taken();
    }
    Ok(())
}

/// Writes a file without end.
pub(crate) async fn write_file(stream: &mut (impl AsyncWrite + Unpin)) -> Outcome<()> {
    let part = file_part();
    loop {
        stream.write_all(&part).await?;
    }
}

/// Reads messages and parts of files until the stream ends.
pub(crate) async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> Outcome<()> {
    let mut stream = BufReader::with_capacity(LONGEST, stream);
    let mut bytes = vec![0; LONGEST];
    loop {
        stream.read_exact(&mut bytes[..HEADER]).await?;
        let length = Header::read(&bytes).map_or(0, |header| header.length);
        if !(HEADER..=LONGEST).contains(&length) {
            return Err(format!("a message of {length} bytes").into());
        }
        stream.read_exact(&mut bytes[HEADER..length]).await?;
        arrived(&bytes[..length]);
    }
}
