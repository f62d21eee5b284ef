//! Peer connections between two sockets of the loopback interface.

use std::future::Future;
use std::time::Duration;

use anabranch_datachannel::{
    ChannelConfig, ChannelMessage, ChannelSendError, DataChannel, OpenError, PeerConnection, SessionConfig,
    SessionEnd,
};
use anabranch_dtls::{Certificate, DtlsError};
use bytes::Bytes;
use tokio::net::UdpSocket;

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .expect("it takes too long")
}

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

fn config() -> SessionConfig {
    SessionConfig::new(Certificate::generate().unwrap(), [])
}

/// An offerer and an answerer, connected.
async fn pair() -> [PeerConnection; 2] {
    let (offers, offer) = PeerConnection::offer(socket().await, config()).unwrap();
    let (answers, answer) = PeerConnection::answer(socket().await, config().ice_lite(true), &offer).unwrap();
    offers.accept_answer(&answer).unwrap();
    for side in [&offers, &answers] {
        within(side.connected()).await.unwrap();
    }
    [offers, answers]
}

/// A channel of a pair, on both sides.
async fn channel(pair: &[PeerConnection; 2], config: ChannelConfig) -> [DataChannel; 2] {
    let (ours, theirs) = within(async { tokio::join!(pair[0].open(config), pair[1].accept()) }).await;
    [ours.unwrap(), theirs.unwrap()]
}

#[tokio::test]
async fn messages_arrive_in_both_directions() {
    let pair = pair().await;
    let config = ChannelConfig::new("chat").protocol("text").priority(512);
    let [ours, theirs] = channel(&pair, config.clone()).await;
    assert_eq!((theirs.config(), theirs.id()), (config, ours.id()));
    for (from, to) in [(&ours, &theirs), (&theirs, &ours)] {
        from.send_text("hello").await.unwrap();
        from.send_text("").await.unwrap();
        from.send_bytes(vec![7; 262_144]).await.unwrap();
        let texts = ["hello", ""].map(|text| ChannelMessage {
            is_text: true,
            bytes: Bytes::from(text),
        });
        for expected in texts {
            assert_eq!(within(to.recv()).await, Some(expected));
        }
        let large = within(to.recv()).await.unwrap();
        assert!(!large.is_text && large.bytes == vec![7; 262_144]);
        let error = from.send_bytes(vec![0; 262_145]).await.unwrap_err();
        assert_eq!(
            error,
            ChannelSendError::TooLarge {
                size: 262_145,
                limit: 262_144
            }
        );
    }
    assert!(pair[0].stats().unwrap().extensions.zero_checksum);
}

/// Unread messages of a channel leave the others alone until the receive window of the connection is full. Then they stop all of them, and
/// nothing is lost.
#[tokio::test]
async fn a_channel_that_is_not_read_fills_the_window_of_all() {
    let pair = pair().await;
    let [bulk, slow] = channel(&pair, ChannelConfig::new("bulk")).await;
    let [chat, other] = channel(&pair, ChannelConfig::new("chat").priority(1024)).await;
    for number in 0..8_u8 {
        bulk.send_bytes(vec![number; 65_536]).await.unwrap();
    }
    for number in 0..20 {
        chat.send_text(number.to_string()).await.unwrap();
        let message = within(other.recv()).await.unwrap();
        assert_eq!(message.bytes, number.to_string().as_bytes());
    }
    let sender = bulk.clone();
    let sent = tokio::spawn(async move {
        for number in 8..200_u8 {
            sender.send_bytes(vec![number; 65_536]).await.unwrap();
        }
    });
    within(async {
        while pair[1].stats().unwrap().a_rwnd > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert!(!sent.is_finished(), "13 MB fit no buffer");
    let late = tokio::spawn(async move { chat.send_text("late").await });
    for number in 0..200_u8 {
        let message = within(slow.recv()).await.unwrap();
        assert!(message.bytes == vec![number; 65_536], "message {number}");
    }
    assert_eq!(within(other.recv()).await.unwrap().bytes, "late".as_bytes());
    within(sent).await.unwrap();
    within(late).await.unwrap().unwrap();
    within(bulk.buffered_amount_low(0)).await;
    assert_eq!(bulk.buffered_amount(), 0);
}

/// Either side closes; the number is used again, and the handles of the old channel stay closed.
#[tokio::test]
async fn handles_of_a_closed_channel_stay_closed() {
    let pair = pair().await;
    for closing in [0, 1] {
        let old = channel(&pair, ChannelConfig::new("old")).await;
        old[closing].send_text("the last").await.unwrap();
        old[closing].close();
        assert_eq!(
            within(old[1 - closing].recv()).await.unwrap().bytes,
            "the last".as_bytes()
        );
        assert_eq!(within(old[1 - closing].recv()).await, None);
        for side in &old {
            within(side.closed()).await;
        }
        let new = channel(&pair, ChannelConfig::new("new")).await;
        if closing == 0 {
            assert_eq!(new[0].id(), old[0].id());
        }
        assert_eq!(old[0].send_text("?").await, Err(ChannelSendError::Closed));
        assert_eq!(within(old[0].recv()).await, None);
        new[0].send_text("works").await.unwrap();
        assert_eq!(within(new[1].recv()).await.unwrap().bytes, "works".as_bytes());
        // The last handle closes its channel.
        let [ours, theirs] = new;
        drop(theirs);
        within(ours.closed()).await;
    }
}

#[tokio::test]
async fn the_end_is_told_to_everybody() {
    let [offers, answers] = pair().await;
    let [ours, theirs] = channel(&[offers.clone(), answers.clone()], ChannelConfig::new("x")).await;
    offers.close();
    assert_eq!(within(offers.closed()).await, SessionEnd::Closed);
    let told = within(answers.closed()).await;
    assert!(
        matches!(
            told,
            SessionEnd::Sctp(_) | SessionEnd::Dtls(DtlsError::ClosedByPeer)
        ),
        "{told:?}"
    );
    for channel in [&ours, &theirs] {
        assert_eq!(within(channel.recv()).await, None);
        assert_eq!(channel.send_text("?").await, Err(ChannelSendError::Closed));
    }
    assert!(within(answers.accept()).await.is_none());
    let refused = within(answers.open(ChannelConfig::new("late"))).await;
    assert!(matches!(refused, Err(OpenError::Ended)), "{refused:?}");
}

#[tokio::test]
async fn a_wrong_certificate_is_refused() {
    let (offers, offer) = PeerConnection::offer(socket().await, config()).unwrap();
    let theirs = config();
    let print = theirs.certificate.fingerprint().to_string();
    let (answers, answer) = PeerConnection::answer(socket().await, theirs, &offer).unwrap();
    let other = Certificate::generate().unwrap().fingerprint().to_string();
    offers.accept_answer(&answer.replace(&print, &other)).unwrap();
    let end = within(offers.connected()).await.unwrap_err();
    assert!(matches!(end, SessionEnd::Dtls(DtlsError::Refused(_))), "{end:?}");
    within(answers.connected()).await.unwrap_err();
}
