//! A client without an async runtime, and a server of the same kind: threads, and calls that block. `cargo run --example blocking_client`.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use anabranch::blocking::{Association, Endpoint, RecvTimeoutError};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Tells the length of the file on stream 1, and answers lines on stream 0.
fn serve(association: &Association) -> Result<()> {
    let lines = association.stream(0);
    let file = association.stream(1);
    let answer = lines.clone();
    let reader = thread::spawn(move || -> Result<()> {
        let mut content = Vec::new();
        file.into_byte_stream().read_to_end(&mut content)?;
        answer.send(format!("the file has {} bytes", content.len()))?;
        Ok(())
    });
    while let Some(line) = lines.recv()? {
        let line = String::from_utf8(line.into_bytes().to_vec())?;
        lines.send(line.to_uppercase())?;
    }
    reader.join().map_err(|_| "the reader panicked")?
}

fn main() -> Result<()> {
    let server = Endpoint::bind("127.0.0.1:0")?;
    server.listen()?;
    let address = server.local_addr();
    let thread = thread::spawn(move || match server.accept() {
        Some(association) => serve(&association),
        None => Ok(()),
    });

    let client = Endpoint::bind("127.0.0.1:0")?;
    let association = client.connect(address)?;
    let lines = association.stream(0);
    lines.send("hello")?;
    println!("{}", text(&lines.recv()?.ok_or("the server left")?));
    // The server has nothing to say: the call returns when the time is over.
    match lines.recv_timeout(Duration::from_millis(50)) {
        Err(RecvTimeoutError::Elapsed) => println!("nothing came for 50 ms"),
        other => return Err(format!("{other:?} came").into()),
    }
    let mut file = association.stream(1).into_byte_stream();
    file.write_all(&[7; 200_000])?;
    file.shutdown()?;
    println!("{}", text(&lines.recv()?.ok_or("the server left")?));
    association.shutdown()?;
    client.close();
    thread.join().map_err(|_| "the server panicked")?
}

fn text(message: &anabranch::Message) -> String {
    String::from_utf8_lossy(&message.clone().into_bytes()).into_owned()
}
