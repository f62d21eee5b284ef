//! Receipts of messages, over real sockets.

mod common;

use std::time::Duration;

use anabranch::{Association, Config, Delivery, Event, SendOptions, StreamId};
use common::{pair, within};

/// Reads events until one is the right one.
async fn wait_for_event(association: &Association, is_right: impl Fn(&Event) -> bool) {
    let search = async {
        while let Some(event) = association.next_event().await {
            if is_right(&event) {
                return;
            }
        }
        panic!("the association ended without the event");
    };
    within(30, search).await;
}

#[tokio::test]
async fn a_receipt_tells_of_the_acknowledgement() {
    let pair = pair(Config::default()).await;
    let stream = pair.ours.stream(StreamId(1));
    let small = within(30, stream.send_with_receipt("small")).await.unwrap();
    let large = pair.ours.send_with_receipt(2, vec![7; 100_000]);
    let large = within(30, large).await.unwrap();
    assert_ne!(small.message(), large.message());
    let fates = within(30, async { (large.delivered().await, small.delivered().await) }).await;
    assert_eq!(fates, (Delivery::Acknowledged, Delivery::Acknowledged));
}

/// A lifetime of nothing: the message is abandoned before it leaves.
#[tokio::test]
async fn a_receipt_tells_that_a_message_was_abandoned() {
    let pair = pair(Config::default()).await;
    let stream = pair.ours.stream(1).lifetime(Duration::ZERO);
    let receipt = within(30, stream.send_with_receipt("late")).await.unwrap();
    let message = receipt.message();
    assert_eq!(
        within(30, receipt.delivered()).await,
        Delivery::Abandoned { sent: false }
    );
    // The event comes too, as for every abandoned message.
    let is_told = |event: &Event| matches!(event, Event::Abandoned(which) if which.message == message);
    wait_for_event(&pair.ours, is_told).await;
}

#[tokio::test]
async fn a_receipt_tells_that_the_association_ended() {
    let mut config = Config::default();
    config.buffers.receive = 64 << 10;
    let pair = pair(config).await;
    // The peer does not read: the rest stays here.
    let message = vec![7; 60_000];
    for _ in 0..10 {
        let _ = pair.ours.try_send(1, message.clone());
    }
    let receipt = within(30, pair.ours.send_with_receipt(2, message)).await.unwrap();
    pair.ours.abort("enough");
    let fate = within(30, receipt.delivered()).await;
    assert!(matches!(fate, Delivery::Failed { .. }), "{fate:?}");
    assert!(!fate.is_acknowledged());
}

/// A program that asks for the event itself gets it as an event.
#[tokio::test]
async fn without_a_receipt_the_event_is_told() {
    let pair = pair(Config::default()).await;
    let options = SendOptions::default().confirm(true).context(5);
    let id = within(30, pair.ours.send_with(1, "hello", options))
        .await
        .unwrap();
    let is_told = |event: &Event| matches!(event, Event::Acknowledged(which) if which.message == id && which.context == 5);
    wait_for_event(&pair.ours, is_told).await;
}
