//! Does a stated amount of work with two endpoints on sockets in memory and in virtual time, so that valgrind can count its instructions:
//! `tests/budgets.rs` does that with the lines of `budgets.txt` that begin with `driver`. [`USAGE`] has the kinds of work.

#[path = "../../anabranch/tests/common/wire.rs"]
mod wire;

use anabranch::{Config, Endpoint, EndpointBuilder, Identity, SecretKey, TlsSettings, TlsTrust};
use bytes::Bytes;

const USAGE: &str = "\
driver message SIZE BATCH COUNT     send and read COUNT ordered messages; a system call takes BATCH datagrams
driver encrypted SIZE BATCH COUNT   the same, encrypted in DTLS chunks";

/// The length of a packet with its IPv4 and UDP headers, as in the benchmarks of other stacks.
const PACKET: u16 = 1_228;

fn builder() -> EndpointBuilder {
    let mut config = Config::default();
    config.path_mtu = PACKET;
    config.path_mtu_limit = PACKET;
    Endpoint::builder().config(config)
}

/// Both endpoints encrypt, and know each other's public keys.
fn encrypted() -> [EndpointBuilder; 2] {
    let secrets = [(); 2].map(|()| SecretKey::generate().expect("random numbers"));
    [0, 1].map(|side| {
        let identity = Identity::from_key(&secrets[side]).expect("an identity");
        let trust = TlsTrust::public_keys([secrets[1 - side].public()]);
        builder().secure(TlsSettings::new(&identity, &trust).expect("settings"))
    })
}

/// Sends and reads messages.
async fn messages(builders: [EndpointBuilder; 2], size: usize, batch: usize, count: u64) {
    let ([ours, theirs], _) = wire::wire(batch);
    let address = theirs.own;
    let [client, server] = builders;
    let client = client.bind_socket(ours).expect("a client");
    let server = server.bind_socket(theirs).expect("a server");
    server.listen().expect("a listener");
    let reader = tokio::spawn(async move {
        let association = server.accept().await.expect("an association");
        for _ in 0..count {
            let message = association.recv().await.expect("no error").expect("a message");
            assert_eq!(message.into_bytes().len(), size);
        }
    });
    let association = client.connect(address).await.expect("an association");
    let message = Bytes::from(vec![0x5a; size]);
    for _ in 0..count {
        association.send(0, message.clone()).await.expect("it is sent");
    }
    reader.await.expect("all messages");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| -> usize { text.parse().expect(USAGE) };
    let [kind @ ("message" | "encrypted"), size, batch, count] = words.as_slice() else {
        panic!("{USAGE}");
    };
    let builders = if *kind == "message" {
        [builder(), builder()]
    } else {
        encrypted()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Timers depend on no clock of the machine.
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(messages(
        builders,
        number(size),
        number(batch),
        number(count) as u64,
    ));
}
