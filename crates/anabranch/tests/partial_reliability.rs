//! Partial reliability (RFC 3758, RFC 7496), through the public interface and over real sockets.

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch::{
    Association, Config, DiscardNotice, Endpoint, Event, Reliability, SendError, SendOptions, StreamId,
    Undelivered,
};

mod common;

use common::{Pair, bytes, connect, listening, pair, within};

fn fleeting(reliability: Reliability, context: u64) -> SendOptions {
    SendOptions::default().reliability(reliability).context(context)
}

/// The next message that is reported as abandoned.
async fn abandoned(association: &Association) -> Undelivered {
    loop {
        let event = within(20, association.next_event()).await;
        if let Event::Abandoned(message) = event.expect("the association lives") {
            return message;
        }
    }
}

/// A pair whose client is behind a link that loses packets both ways.
async fn lossy(client: Config, server: Config) -> Pair {
    let server = listening(server).await;
    let client = Endpoint::builder()
        .config(client)
        .link("delay=2ms,loss=5%".parse().unwrap(), 3)
        .linger(Duration::from_secs(2))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    connect(client, server).await
}

const COUNT: u64 = 600;

/// Sends numbered messages without retransmissions; returns the numbers that arrived and the numbers that were abandoned.
async fn send_once(pair: &Pair) -> (BTreeSet<u64>, BTreeSet<u64>) {
    send_once_with(pair, SendOptions::default()).await
}

/// The same with these options.
async fn send_once_with(pair: &Pair, options: SendOptions) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let theirs = pair.theirs.clone();
    let receiver = tokio::spawn(async move {
        let mut numbers = BTreeSet::new();
        while let Some(message) = theirs.recv().await.unwrap() {
            let bytes = message.into_bytes();
            let number = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            assert!(
                numbers.last().is_none_or(|last| *last < number),
                "in order, each once"
            );
            numbers.insert(number);
        }
        numbers
    });
    let ours = pair.ours.clone();
    let told = tokio::spawn(async move {
        let mut numbers = BTreeSet::new();
        while let Some(event) = ours.next_event().await {
            if let Event::Abandoned(message) = event {
                assert!(message.sent, "only a lost message is abandoned");
                assert!(numbers.insert(message.context), "each message is reported once");
            }
        }
        numbers
    });
    for number in 0..COUNT {
        // A packet has room for one such message.
        let mut message = bytes(1000, number as u32);
        message[..8].copy_from_slice(&number.to_be_bytes());
        let options = options
            .reliability(Reliability::Retransmissions(0))
            .context(number);
        pair.ours.send_with(StreamId(0), message, options).await.unwrap();
    }
    within(60, pair.ours.drained()).await.unwrap();
    within(60, pair.ours.shutdown()).await.unwrap();
    (receiver.await.unwrap(), told.await.unwrap())
}

#[tokio::test]
async fn what_is_lost_is_not_retransmitted_and_told_to_both_sides() {
    let pair = lossy(Config::default(), Config::default()).await;
    let (arrived, abandoned) = send_once(&pair).await;
    let missing: BTreeSet<u64> = (0..COUNT).filter(|number| !arrived.contains(number)).collect();
    assert!(!missing.is_empty(), "one packet in twenty is lost");
    assert!(missing.is_subset(&abandoned), "{missing:?} {abandoned:?}");
    let (ours, theirs) = (pair.ours.stats().counters, pair.theirs.stats().counters);
    assert_eq!(ours.retransmissions_fast + ours.retransmissions_timeout, 0);
    assert_eq!(ours.abandoned_sent, abandoned.len() as u64);
    assert_eq!(ours.abandoned_unsent, 0);
    assert!(ours.forward_tsns_sent > 0 && theirs.forward_tsns_received > 0);
    assert!(ours.freed_early_bytes > 0, "NR-SACK is used by default");
}

#[tokio::test]
async fn a_peer_that_offers_nothing_gets_everything() {
    let pair = lossy(Config::default(), Config::default().without_extensions()).await;
    let (arrived, abandoned) = send_once(&pair).await;
    assert_eq!(arrived.len() as u64, COUNT);
    assert_eq!(abandoned, BTreeSet::new());
    let ours = pair.ours.stats().counters;
    assert!(ours.retransmissions_fast + ours.retransmissions_timeout > 0);
    assert_eq!((ours.forward_tsns_sent, ours.freed_early_bytes), (0, 0));
}

#[tokio::test]
async fn selective_forward_tsn_is_used_where_both_want_it() {
    let mut wants = Config::default();
    wants.partial_reliability.selective_forward_tsn = Some(1);
    wants.partial_reliability.early_discard = true;
    let pair = lossy(wants.clone(), wants.clone()).await;
    let (arrived, abandoned) = send_once(&pair).await;
    let (ours, theirs) = (pair.ours.stats().counters, pair.theirs.stats().counters);
    // A message that arrives after its stream has skipped it is dropped, but still acknowledged.
    let without_a_word = (0..COUNT).filter(|number| !arrived.contains(number) && !abandoned.contains(number));
    assert!(without_a_word.count() as u64 <= theirs.late_messages);
    assert!(ours.selective_notices_sent > 0 && theirs.selective_notices_received > 0);
    assert!(ours.early_discards > 0);

    let pair = lossy(wants, Config::default()).await;
    send_once(&pair).await;
    assert_eq!(pair.ours.stats().counters.selective_notices_sent, 0);
}

/// A message's options can request extensions that the association's settings leave out.
#[tokio::test]
async fn messages_ask_for_early_discard_and_notices() {
    let mut offers = Config::default();
    offers.partial_reliability.selective_forward_tsn = Some(1);
    offers.partial_reliability.discard_notice = DiscardNotice::Never;
    for asks in [false, true] {
        let pair = lossy(offers.clone(), offers.clone()).await;
        let options = SendOptions::default()
            .early_discard(asks.then_some(true))
            .discard_notice(asks.then_some(DiscardNotice::Alone));
        send_once_with(&pair, options).await;
        let ours = pair.ours.stats().counters;
        assert_eq!(ours.selective_notices_sent > 0, asks);
        assert_eq!(ours.early_discards > 0, asks);
    }
}

/// The runtime has one thread: messages that `try_send` accepted are not sent before the test awaits.
#[tokio::test]
async fn what_waits_too_long_is_never_sent() {
    let pair = pair(Config::default()).await;
    let options = fleeting(Reliability::Lifetime(Duration::from_millis(1)), 42);
    let id = pair.ours.try_send_with(StreamId(3), "too late", options).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    pair.ours.send(StreamId(3), "in time").await.unwrap();
    let expected = Undelivered {
        message: id,
        stream: StreamId(3),
        context: 42,
        sent: false,
    };
    assert_eq!(abandoned(&pair.ours).await, expected);
    let message = within(20, pair.theirs.recv()).await.unwrap().unwrap();
    assert_eq!(message.into_bytes(), "in time");
    let counters = pair.ours.stats().counters;
    assert_eq!((counters.abandoned_unsent, counters.abandoned_sent), (1, 0));
}

#[tokio::test]
async fn a_full_buffer_drops_what_is_least_important() {
    let mut config = Config::default();
    config.buffers.send = 4000;
    config.buffers.growth = 1;
    let pair = pair(config).await;
    let send = |priority, context| {
        let options = fleeting(Reliability::Priority(priority), context);
        pair.ours.try_send_with(StreamId(0), bytes(1000, 1), options)
    };
    for (context, priority) in [2, 5, 2, 7].into_iter().enumerate() {
        send(priority, context as u64).unwrap();
    }
    assert_eq!(send(7, 4), Err(SendError::BufferFull), "it is not more important");
    send(1, 5).unwrap();
    pair.ours.try_send(StreamId(0), bytes(1000, 1)).unwrap();
    for context in [3, 1] {
        let message = abandoned(&pair.ours).await;
        assert_eq!((message.context, message.sent), (context, false));
    }
    within(20, pair.ours.drained()).await.unwrap();
    assert_eq!(pair.ours.stats().counters.abandoned_unsent, 2);
    for _ in 0..4 {
        within(20, pair.theirs.recv()).await.unwrap().unwrap();
    }
    assert_eq!(pair.theirs.try_recv(), Ok(None));
}

/// Begins messages that do not end within their lifetime, until one of them was partly sent.
async fn abandon_half_way(association: &Association) {
    loop {
        let options = fleeting(Reliability::Lifetime(Duration::from_millis(300)), 0);
        association
            .send_part(StreamId(0), bytes(20_000, 1), options, false)
            .await
            .unwrap();
        let sent = abandoned(association).await.sent;
        // The last part is still accepted, but not sent.
        association
            .send_part(StreamId(0), "the end", options, true)
            .await
            .unwrap();
        if sent {
            return;
        }
    }
}

#[tokio::test]
async fn a_message_abandoned_half_way_is_cut_off_and_no_message() {
    let mut config = Config::default();
    config.buffers.partial_delivery_point = 1000;
    // The sender holds back the newest fragment, which may be the last: the message needs several fragments.
    config.path_mtu_limit = config.path_mtu;
    let pair = pair(config).await;
    abandon_half_way(&pair.ours).await;
    pair.ours.send(StreamId(0), "whole").await.unwrap();
    let mut begun = None;
    loop {
        let part = within(20, pair.theirs.recv_part()).await.unwrap().unwrap();
        if part.truncated {
            assert_eq!(begun, Some(part.message));
            assert!(part.ending && !part.beginning && part.payload.is_empty());
            break;
        }
        assert!(!part.ending);
        assert!(begun.replace(part.message).is_none() || !part.beginning);
    }
    let part = within(20, pair.theirs.recv_part()).await.unwrap().unwrap();
    assert!(part.beginning && part.ending);

    abandon_half_way(&pair.ours).await;
    pair.ours.send(StreamId(0), "whole again").await.unwrap();
    let message = within(20, pair.theirs.recv()).await.unwrap().unwrap();
    assert_eq!(message.into_bytes(), "whole again");
}
