//! Authenticated chunks (RFC 4895), through the public interface and over real sockets.

use anabranch::{
    Association, AuthenticationConfig, AuthenticationEvent, AuthenticationKeyError, Config, Event, SharedKey,
    StreamId,
};
use anabranch_testkit::with;

mod common;

use common::{bytes, connect, listening, within};

const MESSAGES: usize = 200;

/// Chunk type DATA (RFC 9260 §3.2).
const DATA: u8 = 0;
/// Chunk type I-DATA (RFC 8260 §2.1), which replaces DATA by default.
const I_DATA: u8 = 64;

fn key(id: u16, secret: &'static str) -> SharedKey {
    SharedKey {
        id,
        secret: secret.into(),
    }
}

/// Each end requires signed DATA of the other.
fn signed(secret: &'static str) -> Config {
    with(Config::default(), |config| {
        let mut authentication = AuthenticationConfig::default();
        authentication.keys = vec![key(1, secret)];
        authentication.chunks = vec![DATA];
        authentication.required = true;
        config.authentication = Some(authentication);
    })
}

async fn client(config: Config) -> anabranch::Endpoint {
    let builder = anabranch::Endpoint::builder().config(config);
    builder.bind("127.0.0.1:0").await.unwrap()
}

/// Sends half of the messages with the first key, tells the peer's key, and sends the others.
async fn send_all(association: &Association, ready: &tokio::sync::Barrier) {
    for number in 0..MESSAGES {
        if number == MESSAGES / 2 {
            association.put_key(key(2, "two")).unwrap();
            // Both ends have the key.
            ready.wait().await;
            association.activate_key(2).unwrap();
        }
        let message = bytes(2000, number as u32);
        association.send(StreamId(0), message).await.unwrap();
    }
}

async fn receive_all(association: &Association) {
    for number in 0..MESSAGES {
        let message = association.recv().await.unwrap().expect("a message");
        assert_eq!(message.into_bytes(), bytes(2000, number as u32), "{number}");
    }
    loop {
        let event = association.next_event().await.expect("the association lives");
        if event == Event::Authentication(AuthenticationEvent::NewKey(2)) {
            break;
        }
    }
}

#[tokio::test]
async fn the_key_changes_while_data_flows_both_ways() {
    let server = listening(signed("one")).await;
    let pair = connect(client(signed("one")).await, server).await;
    let (ours, theirs) = (&pair.ours, &pair.theirs);
    let ready = tokio::sync::Barrier::new(2);
    within(60, async {
        tokio::join!(
            send_all(ours, &ready),
            send_all(theirs, &ready),
            receive_all(ours),
            receive_all(theirs)
        )
    })
    .await;
    for association in [ours, theirs] {
        let stats = association.stats();
        let authentication = stats.authentication.expect("negotiated");
        assert_eq!((authentication.active_key, authentication.peer_key), (2, 2));
        assert_eq!(authentication.chunks_required, [DATA, I_DATA]);
        assert!(stats.counters.packets_verified > 0);
        assert_eq!(association.remove_key(2), Err(AuthenticationKeyError::Active(2)));
        association.remove_key(1).unwrap();
        assert_eq!(
            association.activate_key(1),
            Err(AuthenticationKeyError::Unknown(1))
        );
    }
    ours.send(StreamId(0), "with the second key").await.unwrap();
    let last = within(20, theirs.recv()).await.unwrap().expect("a message");
    assert_eq!(last.into_bytes(), "with the second key");
    within(20, ours.shutdown()).await.unwrap();
}

#[tokio::test]
async fn data_signed_with_another_secret_waits_for_the_right_one() {
    let server = listening(signed("one")).await;
    let pair = connect(client(signed("another")).await, server).await;
    let (ours, theirs) = (&pair.ours, &pair.theirs);
    ours.send(StreamId(0), "signed").await.unwrap();
    within(20, async {
        while theirs.stats().counters.packets_unverified == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(
        theirs.try_recv().unwrap().is_none(),
        "nothing is delivered that was not verified"
    );
    theirs.put_key(key(1, "another")).unwrap();
    let message = within(20, theirs.recv()).await.unwrap().expect("a message");
    assert_eq!(message.into_bytes(), "signed");
}

#[tokio::test]
async fn without_authentication_there_are_no_keys() {
    let server = listening(Config::default()).await;
    let pair = connect(client(Config::default()).await, server).await;
    let put = pair.ours.put_key(key(1, "one"));
    assert_eq!(put, Err(AuthenticationKeyError::NotOffered));
    assert!(pair.ours.stats().authentication.is_none());
}
