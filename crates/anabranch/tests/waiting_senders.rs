//! Several tasks wait in `send` for free space in the send buffer, and each is served. The tests check the order in which
//! messages were accepted, which does not depend on time.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{Association, Bytes, Config, Reliability, SchedulerKind, SendError, SendOptions, StreamId};
use common::{Pair, pair, within};
use tokio::task::JoinHandle;

const FILE: StreamId = StreamId(1);
const URGENT: StreamId = StreamId(2);
/// Messages of the urgent stream.
const MESSAGES: usize = 200;
/// Limit of messages of one sender that may be accepted while another sender already waits: the message whose turn it was, and
/// the messages for which packets that left meanwhile made room.
const FEW: usize = 3;

fn small_buffers() -> Config {
    // A SACK frees space for a few messages only, and each message is one call.
    let mut config = Config::rfc9260();
    config.buffers.send = 64 << 10;
    config.buffers.receive = 64 << 10;
    config.buffers.growth = 1;
    config.scheduler = SchedulerKind::Priority;
    config
}

type Log = Arc<Mutex<Vec<StreamId>>>;

/// Sends in a loop, and logs each message when it was accepted.
fn sender(association: &Association, stream: StreamId, len: usize, log: &Log) -> JoinHandle<()> {
    let (association, log) = (association.clone(), Arc::clone(log));
    tokio::spawn(async move {
        let message = Bytes::from(vec![7; len]);
        while association.send(stream, message.clone()).await.is_ok() {
            log.lock().unwrap().push(stream);
        }
    })
}

/// Fills the send buffer.
fn fill(association: &Association) {
    while association
        .try_send(FILE, vec![7; 1000], SendOptions::default())
        .is_ok()
    {}
}

/// Lets a file and an urgent stream send at the same time while the buffer is full. Returns the largest number of messages of the
/// file that were accepted between two messages of the urgent stream.
async fn longest_wait(pair: &Pair) -> usize {
    fill(&pair.ours);
    let log = Log::default();
    let tasks = [
        sender(&pair.ours, FILE, 1000, &log),
        sender(&pair.ours, URGENT, 100, &log),
    ];
    let urgent = |log: &[StreamId]| log.iter().filter(|stream| **stream == URGENT).count();
    within(120, async {
        while urgent(&log.lock().unwrap()) < MESSAGES && log.lock().unwrap().len() < 100 * MESSAGES {
            pair.theirs.recv().await.unwrap().expect("another message");
        }
    })
    .await;
    tasks.into_iter().for_each(|task| task.abort());
    let log = log.lock().unwrap();
    assert!(
        urgent(&log) >= MESSAGES,
        "{} of {} messages taken were urgent",
        urgent(&log),
        log.len()
    );
    log.split(|stream| *stream == URGENT)
        .map(<[_]>::len)
        .max()
        .unwrap()
}

#[tokio::test]
async fn a_file_lets_another_stream_have_its_turn() {
    let pair = pair(small_buffers()).await;
    let wait = longest_wait(&pair).await;
    assert!(
        wait <= FEW,
        "{wait} messages of the file before one of the other stream"
    );
}

#[tokio::test]
async fn an_urgent_stream_comes_before_a_file() {
    let pair = pair(small_buffers()).await;
    pair.ours.set_stream_priority(FILE, 1).unwrap();
    let wait = longest_wait(&pair).await;
    assert!(wait <= FEW, "{wait} messages of the file before an urgent one");
}

/// If a sender stops waiting, the next sender is served.
#[tokio::test]
async fn a_sender_that_abandons_holds_up_nobody() {
    let pair = pair(small_buffers()).await;
    fill(&pair.ours);
    let log = Log::default();
    let first = sender(&pair.ours, FILE, 1000, &log);
    tokio::task::yield_now().await;
    let second = sender(&pair.ours, URGENT, 100, &log);
    tokio::task::yield_now().await;
    first.abort();
    within(120, async {
        while !log.lock().unwrap().contains(&URGENT) {
            let read = tokio::time::timeout(Duration::from_millis(1), pair.theirs.recv()).await;
            assert!(read.is_err() || read.is_ok_and(|read| read.is_ok()));
        }
    })
    .await;
    second.abort();
}

/// All waiting tasks learn of the end.
#[tokio::test]
async fn all_that_wait_learn_of_the_end() {
    let pair = pair(small_buffers()).await;
    fill(&pair.ours);
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let association = pair.ours.clone();
            tokio::spawn(async move { association.send(FILE, vec![7; 1000]).await })
        })
        .collect();
    tokio::task::yield_now().await;
    pair.theirs.abort("enough");
    for sender in waiting {
        let answer = within(120, sender).await.unwrap();
        assert!(matches!(answer, Err(SendError::Closed(_))), "{answer:?}");
    }
}

/// RFC 7496 §3.2: a reliable message takes the place of a message of lower priority, also while other senders wait.
#[tokio::test]
async fn a_message_that_makes_room_need_not_wait() {
    let pair = pair(small_buffers()).await;
    pair.ours.set_stream_priority(FILE, 1).unwrap();
    let gives_way = SendOptions {
        reliability: Reliability::Priority(9),
        ..SendOptions::default()
    };
    while pair.ours.try_send(FILE, vec![7; 1000], gives_way).is_ok() {}
    let log = Log::default();
    let waiting = tokio::spawn({
        let (association, log) = (pair.ours.clone(), Arc::clone(&log));
        async move {
            association
                .send_with(FILE, vec![7; 1000], gives_way)
                .await
                .unwrap();
            log.lock().unwrap().push(FILE);
        }
    });
    tokio::task::yield_now().await;
    within(120, pair.ours.send(URGENT, "now")).await.unwrap();
    assert!(log.lock().unwrap().is_empty(), "it still waits");
    waiting.abort();
}
