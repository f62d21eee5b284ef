//! The blocking interface: threads instead of tasks.

use std::io::{Read, Write};
use std::time::Duration;

use anabranch::blocking::{Association, Endpoint, RecvTimeoutError};
use anabranch::{Identity, SecretKey, TlsSettings, TlsTrust};

/// A server and a client that are connected.
fn pair() -> (Endpoint, Association, Endpoint, Association) {
    let server = Endpoint::bind("127.0.0.1:0").unwrap();
    server.listen().unwrap();
    let client = Endpoint::bind("127.0.0.1:0").unwrap();
    let ours = client.connect(server.local_addr()).unwrap();
    let theirs = server.accept().unwrap();
    (client, ours, server, theirs)
}

#[test]
fn messages_and_the_end() {
    let (client, ours, server, theirs) = pair();
    let receiver = std::thread::spawn(move || {
        let mut received = 0_u32;
        while let Some(message) = theirs.recv().unwrap() {
            assert_eq!(message.into_bytes(), received.to_be_bytes().as_slice());
            received += 1;
        }
        received
    });
    for number in 0..10_000_u32 {
        ours.send(3, number.to_be_bytes()).unwrap();
    }
    ours.drained().unwrap();
    assert_eq!(ours.stats().outstanding_bytes, 0);
    ours.shutdown().unwrap();
    assert_eq!(receiver.join().unwrap(), 10_000);
    client.close();
    server.close();
    assert!(server.accept().is_none());
}

/// The builders are those of the asynchronous interface.
#[test]
fn endpoints_and_streams_have_options() {
    let server = anabranch::Endpoint::builder().max_associations(1).blocking();
    let server = server.bind("127.0.0.1:0").unwrap();
    server.listen().unwrap();
    let client = anabranch::Endpoint::builder().backlog(1).blocking();
    let client = client.bind_all(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let ours = client.connect(server.local_addr()).unwrap();
    let theirs = server.accept().unwrap();
    let positions = ours
        .stream(3)
        .unordered(true)
        .ppid(51)
        .lifetime(Duration::from_secs(60));
    positions.send("one").unwrap();
    let receipt = positions.send_with_receipt("two").unwrap();
    for text in ["one", "two"] {
        let message = theirs.recv().unwrap().unwrap();
        let told = (message.stream.0, message.ppid.0, message.unordered);
        assert_eq!(told, (3, 51, true));
        assert_eq!(message.into_bytes(), text);
    }
    assert!(receipt.delivered_blocking().is_acknowledged());
    positions.send_part("thr", false).unwrap();
    positions.send_part("ee", true).unwrap();
    assert_eq!(theirs.recv().unwrap().unwrap().into_bytes(), "three");
    ours.send_part(4, "four", positions.options(), true).unwrap();
    assert!(theirs.recv_part().unwrap().unwrap().ending);
}

#[test]
fn a_server_and_a_client_encrypt() {
    let [server, client] = [(); 2].map(|()| SecretKey::generate().unwrap());
    let settings = |own: &SecretKey, peer: &SecretKey| {
        let trust = TlsTrust::public_keys([peer.public()]);
        TlsSettings::new(&Identity::from_key(own).unwrap(), &trust).unwrap()
    };
    let (ours, theirs) = (settings(&client, &server), settings(&server, &client));
    let server = Endpoint::server("127.0.0.1:0", theirs).unwrap();
    let client = Endpoint::client(ours).unwrap();
    let association = client.connect(server.local_addr()).unwrap();
    let receipt = association
        .send_with_receipt(0, "nobody else reads this")
        .unwrap();
    let message = server.accept().unwrap().recv().unwrap().unwrap();
    assert_eq!(message.into_bytes(), "nobody else reads this");
    assert!(receipt.delivered_blocking().is_acknowledged());
    assert!(association.peer_identity().is_some());
}

#[test]
fn a_time_limit_takes_no_message() {
    let (_client, ours, _server, theirs) = pair();
    let brief = Duration::from_millis(20);
    assert_eq!(ours.recv_timeout(brief), Err(RecvTimeoutError::Elapsed));
    theirs.send(1, "later").unwrap();
    let message = ours.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    assert_eq!(message.into_bytes(), "later");
    let chat = ours.stream(1);
    assert_eq!(chat.recv_timeout(brief), Err(RecvTimeoutError::Elapsed));
    theirs.abort("enough");
    assert!(matches!(
        chat.recv_timeout(Duration::from_secs(60)),
        Err(RecvTimeoutError::Recv(_))
    ));
    assert!(ours.recv().is_err());
}

#[test]
fn streams_and_bytes() {
    let (_client, ours, _server, theirs) = pair();
    let content = vec![7; 300_000];
    let mut writer = ours.stream(2).into_byte_stream();
    let sent = content.clone();
    let sender = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown().unwrap();
    });
    let accepted = theirs.accept_stream().unwrap();
    assert_eq!(accepted.id().0, 2);
    let mut read = Vec::new();
    accepted.into_byte_stream().read_to_end(&mut read).unwrap();
    assert!(read == content);
    sender.join().unwrap();
}

/// If all handles are dropped, messages that were sent still arrive.
#[test]
fn dropped_handles_end_gracefully() {
    let (client, ours, _server, theirs) = pair();
    ours.send(0, "the last").unwrap();
    drop((client, ours));
    assert_eq!(theirs.recv().unwrap().unwrap().into_bytes(), "the last");
    assert_eq!(theirs.recv().unwrap(), None);
}
