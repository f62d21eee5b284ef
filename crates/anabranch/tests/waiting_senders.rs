//! Tasks that wait in `send` for room in the send buffer: those of one stream are served in turn, and no stream waits for another. The
//! tests check what was accepted, which does not depend on time.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{Association, Bytes, Config, Reliability, SendError, SendOptions, StreamId};
use common::{pair, within};
use tokio::task::JoinHandle;

const FILE: StreamId = StreamId(1);
const OTHER: StreamId = StreamId(2);

fn small_buffers() -> Config {
    // A SACK frees space for a few messages only, and each message is one call.
    let mut config = Config::rfc9260();
    config.buffers.send = 64 << 10;
    config.buffers.receive = 64 << 10;
    config.buffers.growth = 1;
    config.buffers.stream_shares = true;
    config
}

type Log = Arc<Mutex<Vec<u8>>>;

/// Sends in a loop, and logs its name when a message was accepted.
fn sender(association: &Association, stream: StreamId, name: u8, log: &Log) -> JoinHandle<()> {
    let (association, log) = (association.clone(), Arc::clone(log));
    tokio::spawn(async move {
        let message = Bytes::from(vec![name; 1000]);
        while association.send(stream, message.clone()).await.is_ok() {
            log.lock().unwrap().push(name);
        }
    })
}

/// Fills the share of a stream; returns how many messages it accepted.
fn fill(association: &Association, stream: StreamId) -> usize {
    let accepted = || association.try_send(stream, vec![7; 1000]).is_ok();
    std::iter::from_fn(|| accepted().then_some(())).count()
}

/// Nobody reads, and the file's share is full: another stream still has room for its share.
#[tokio::test]
async fn a_full_stream_delays_no_other() {
    let pair = pair(small_buffers()).await;
    // The peer's receive window takes some of it.
    fill(&pair.ours, FILE);
    let waits = tokio::spawn({
        let association = pair.ours.clone();
        async move { association.send(FILE, vec![7; 1000]).await }
    });
    tokio::task::yield_now().await;
    for _ in 0..20 {
        within(120, pair.ours.send(OTHER, vec![1; 1000])).await.unwrap();
    }
    assert!(pair.ours.buffered_amount(OTHER) <= 20_000);
    assert!(pair.ours.buffered_amount(FILE) > 0);
    waits.abort();
}

/// Two tasks that send on one stream as fast as they can are served in turn.
#[tokio::test]
async fn the_tasks_of_a_stream_take_turns() {
    let pair = pair(small_buffers()).await;
    fill(&pair.ours, FILE);
    let log = Log::default();
    let tasks = [b'a', b'b'].map(|name| sender(&pair.ours, FILE, name, &log));
    within(120, async {
        while log.lock().unwrap().len() < 200 {
            pair.theirs.recv().await.unwrap().expect("another message");
        }
    })
    .await;
    tasks.into_iter().for_each(|task| task.abort());
    let log = log.lock().unwrap();
    // The first messages may be accepted before the second task has called.
    let in_turn = log[10..].windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(
        in_turn * 10 >= (log.len() - 11) * 9,
        "{}",
        String::from_utf8_lossy(&log)
    );
}

/// If a task stops waiting, the next task of its stream is served.
#[tokio::test]
async fn a_sender_that_abandons_holds_up_nobody() {
    let pair = pair(small_buffers()).await;
    fill(&pair.ours, FILE);
    let log = Log::default();
    let first = sender(&pair.ours, FILE, b'a', &log);
    tokio::task::yield_now().await;
    let second = sender(&pair.ours, FILE, b'b', &log);
    tokio::task::yield_now().await;
    first.abort();
    within(120, async {
        while !log.lock().unwrap().contains(&b'b') {
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
    fill(&pair.ours, FILE);
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

/// RFC 7496 §3.2: a reliable message takes the place of a message of lower priority, also while other tasks wait.
#[tokio::test]
async fn a_message_that_makes_room_need_not_wait() {
    let pair = pair(small_buffers()).await;
    let gives_way = SendOptions::default().reliability(Reliability::Priority(9));
    while pair.ours.try_send_with(FILE, vec![7; 1000], gives_way).is_ok() {}
    let log = Log::default();
    let waiting = tokio::spawn({
        let (association, log) = (pair.ours.clone(), Arc::clone(&log));
        async move {
            association
                .send_with(FILE, vec![7; 1000], gives_way)
                .await
                .unwrap();
            log.lock().unwrap().push(b'a');
        }
    });
    tokio::task::yield_now().await;
    within(120, pair.ours.send(FILE, "now")).await.unwrap();
    assert!(log.lock().unwrap().is_empty(), "it still waits");
    waiting.abort();
}
