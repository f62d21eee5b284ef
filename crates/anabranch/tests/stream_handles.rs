//! Handles of streams: what they receive, resets, back-pressure, and the interfaces of other libraries.

mod common;

use std::time::Duration;

use anabranch::{Config, Event, ReconfigurationEvent, SendOptions, StreamId};
use common::{Pair, pair, within};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The next message of the common queue, as a text.
async fn common(pair: &Pair) -> String {
    let message = within(60, pair.theirs.recv()).await.unwrap().expect("a message");
    text(message)
}

fn text(message: anabranch::Message) -> String {
    String::from_utf8(message.into_bytes().to_vec()).unwrap()
}

/// `with_options` sets the options that have no method of their own; `try_send_with` sends one message with other options.
#[tokio::test]
async fn a_handle_has_all_options() {
    let pair = pair(Config::default()).await;
    let options = SendOptions::default().context(7).confirm(true).immediate(true);
    let stream = pair.ours.stream(1).with_options(options).ppid(51);
    stream.try_send("one").unwrap();
    stream.try_send_with("two", options.context(8)).unwrap();
    for (context, ppid) in [(7, 51), (8, 0)] {
        let event = within(60, stream.next_event()).await;
        assert!(
            matches!(&event, Some(Event::Acknowledged(which)) if which.context == context),
            "{event:?}"
        );
        let message = within(60, pair.theirs.recv()).await.unwrap().unwrap();
        assert_eq!(message.ppid.0, ppid);
    }
}

#[tokio::test]
async fn a_handle_receives_its_stream_alone() {
    let pair = pair(Config::default()).await;
    let chat = pair.theirs.stream(1);
    pair.ours.send(1, "early").await.unwrap();
    pair.ours.send(2, "block 1").await.unwrap();
    pair.ours.send(1, "later").await.unwrap();
    pair.ours.send(2, "block 2").await.unwrap();
    let read = || async { text(within(60, chat.recv()).await.unwrap().expect("a message")) };
    assert_eq!(read().await, "early");
    assert_eq!(common(&pair).await, "block 1");
    assert_eq!(common(&pair).await, "block 2");
    assert_eq!(read().await, "later");
    assert_eq!(chat.try_recv().unwrap(), None);
    // A waiting reader is woken.
    let (answer, sent) = tokio::join!(read(), pair.ours.send(1, "again"));
    assert_eq!((answer, sent.is_ok()), ("again".to_owned(), true));
    let other = chat.clone();
    drop(chat);
    pair.ours.send(1, "to the clone").await.unwrap();
    assert_eq!(
        text(within(60, other.recv()).await.unwrap().unwrap()),
        "to the clone"
    );
    drop(other);
    pair.ours.send(1, "to all").await.unwrap();
    assert_eq!(common(&pair).await, "to all");
}

#[tokio::test]
async fn options_of_a_handle() {
    let pair = pair(Config::default()).await;
    let stream = pair
        .ours
        .stream(5)
        .unordered(true)
        .ppid(51)
        .lifetime(Duration::from_secs(60));
    let options = SendOptions::default().ppid(7);
    stream.send(b"a borrowed message".as_slice()).await.unwrap();
    stream
        .clone()
        .with_options(options)
        .send("another")
        .await
        .unwrap();
    let first = within(60, pair.theirs.recv()).await.unwrap().unwrap();
    let second = within(60, pair.theirs.recv()).await.unwrap().unwrap();
    let told = [&first, &second].map(|message| (message.stream.0, message.ppid.0, message.unordered));
    assert_eq!(told, [(5, 51, true), (5, 7, false)]);
    assert_eq!(stream.stats().messages, 2);
    let urgent = pair.ours.stream(6);
    urgent.set_priority(3).unwrap();
    assert_eq!(pair.ours.stream_priority(6), 3);
    assert!(pair.ours.stream(9999).set_priority(1).is_err());
    assert_eq!(urgent.id(), StreamId(6));
}

/// The runtime has one thread: messages that `try_send` accepted are not sent before the test awaits.
#[tokio::test]
async fn a_handle_has_the_events_of_its_stream() {
    let pair = pair(Config::default()).await;
    let [one, two] = [1, 2].map(|id| pair.ours.stream(id).lifetime(Duration::from_millis(1)));
    let late = [&one, &two].map(|stream| stream.try_send("too late").unwrap());
    std::thread::sleep(Duration::from_millis(20));
    pair.ours.send(3, "in time").await.unwrap();
    let Some(Event::Abandoned(message)) = within(60, one.next_event()).await else {
        panic!("nothing else happens on the stream")
    };
    assert_eq!(message.message, late[0]);
    let others = async {
        loop {
            if let Event::Abandoned(message) = pair.ours.next_event().await.expect("an event") {
                return message.message;
            }
        }
    };
    assert_eq!(within(60, others).await, late[1]);
    pair.ours.abort("enough");
    assert_eq!(within(60, one.next_event()).await, None);
}

#[tokio::test]
async fn streams_that_the_peer_opens_are_accepted() {
    let pair = pair(Config::default()).await;
    for (stream, message) in [(3, "three"), (1, "one"), (3, "again")] {
        pair.ours.send(stream, message).await.unwrap();
    }
    let accept = || async { within(60, pair.theirs.accept_stream()).await.expect("a stream") };
    let (three, one) = (accept().await, accept().await);
    assert_eq!((three.id().0, one.id().0), (3, 1));
    for (handle, message) in [(&three, "three"), (&one, "one"), (&three, "again")] {
        assert_eq!(text(within(60, handle.recv()).await.unwrap().unwrap()), message);
    }
    // The answer goes on the stream of the same number.
    three.send("answer").await.unwrap();
    let answer = within(60, pair.ours.recv()).await.unwrap().unwrap();
    assert_eq!(answer.stream, StreamId(3));
    drop(three);
    pair.ours.send(3, "opens it again").await.unwrap();
    let again = accept().await;
    assert_eq!(
        text(within(60, again.recv()).await.unwrap().unwrap()),
        "opens it again"
    );
    let (end, shutdown) = tokio::join!(pair.theirs.accept_stream(), pair.ours.shutdown());
    assert!(end.is_none() && shutdown.is_ok());
    assert_eq!(one.recv().await.unwrap(), None, "the association was shut down");
}

/// A reset is the end of what the handle reads; the stream can be used again afterwards.
#[tokio::test]
async fn a_reset_ends_a_stream() {
    let pair = pair(Config::default()).await;
    let handles = [1, 2, 3].map(|id| (pair.ours.stream(id), pair.theirs.stream(id)));
    for (ours, theirs) in &handles {
        assert_eq!(theirs.try_recv().unwrap(), None);
        ours.send("before").await.unwrap();
    }
    // Resets at the same time wait for each other.
    let [first, second, third] = handles.each_ref().map(|(ours, _)| ours.reset());
    let resets = within(60, async { tokio::join!(first, second, third) }).await;
    assert_eq!(resets, (Ok(()), Ok(()), Ok(())));
    for (ours, theirs) in &handles {
        assert_eq!(text(within(60, theirs.recv()).await.unwrap().unwrap()), "before");
        assert_eq!(within(60, theirs.recv()).await.unwrap(), None);
        ours.send("after").await.unwrap();
        assert_eq!(text(within(60, theirs.recv()).await.unwrap().unwrap()), "after");
    }
    let mut resets = 0;
    while resets < 3 {
        let event = within(60, pair.theirs.next_event()).await.expect("another event");
        let reset = matches!(
            event,
            Event::Reconfiguration(ReconfigurationEvent::InboundReset { .. })
        );
        resets += usize::from(reset);
    }
}

/// 1 MiB in each direction at the same time, and the end of both.
#[tokio::test]
async fn a_stream_of_bytes() {
    let pair = pair(Config::default()).await;
    let content: Vec<u8> = (0..1 << 20).map(|byte: u32| (byte % 251) as u8).collect();
    let carry = |association: &anabranch::Association, content: Vec<u8>| {
        let (mut reader, mut writer) = tokio::io::split(association.stream(4).into_byte_stream());
        async move {
            let send = async {
                writer.write_all(&content).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let mut read = Vec::new();
            let (_, answer) = tokio::join!(send, reader.read_to_end(&mut read));
            answer.unwrap();
            read
        }
    };
    let backwards: Vec<u8> = content.iter().rev().copied().collect();
    let (ours, theirs) = within(60, async {
        tokio::join!(
            carry(&pair.ours, content.clone()),
            carry(&pair.theirs, backwards.clone())
        )
    })
    .await;
    assert!(ours == backwards && theirs == content);
}

#[tokio::test]
async fn a_stream_and_a_sink_of_messages() {
    let pair = pair(Config::default()).await;
    let mut sink = pair.ours.stream(1);
    let mut stream = pair.theirs.stream(1);
    let send = async {
        for number in 0..1000_u32 {
            sink.feed(number.to_be_bytes()).await.unwrap();
        }
        SinkExt::<&[u8]>::flush(&mut sink).await.unwrap();
    };
    let read = async {
        for number in 0..1000_u32 {
            let message = stream.next().await.unwrap().unwrap();
            assert_eq!(message.into_bytes(), number.to_be_bytes().as_slice());
        }
    };
    within(60, async { tokio::join!(send, read) }).await;
    let (_, end) = tokio::join!(pair.ours.shutdown(), stream.next());
    assert!(end.is_none());
}

/// Nobody reads until the buffered amount is high; then tasks wait until it is low.
#[tokio::test]
async fn tasks_wait_for_a_low_buffered_amount() {
    let mut config = Config::default();
    config.buffers.receive = 64 << 10;
    config.buffers.growth = 1;
    let pair = pair(config).await;
    let stream = pair.ours.stream(1);
    stream.buffered_amount_low(0).await.unwrap();
    while stream.try_send(vec![0; 10_000]).is_ok() {}
    let full = stream.buffered_amount();
    assert!(full > 500_000, "{full}");
    let waits = |threshold| {
        let stream = stream.clone();
        tokio::spawn(async move {
            stream
                .buffered_amount_low(threshold)
                .await
                .map(|()| stream.buffered_amount())
        })
    };
    let (low, empty) = (waits(300_000), waits(0));
    tokio::task::yield_now().await;
    assert!(!low.is_finished() && !empty.is_finished());
    let read = async { while pair.theirs.recv().await.unwrap().is_some() {} };
    let answers = async { (low.await.unwrap().unwrap(), empty.await.unwrap().unwrap()) };
    let answers = tokio::select! {
        () = read => unreachable!("the association goes on"),
        answers = within(60, answers) => answers,
    };
    assert!(answers.0 <= 300_000, "{answers:?}");
    assert_eq!(answers.1, 0);
    while stream.try_send(vec![0; 10_000]).is_ok() {}
    let waiting = waits(0);
    tokio::task::yield_now().await;
    pair.ours.abort("enough");
    assert!(within(60, waiting).await.unwrap().is_err());
    assert!(stream.recv().await.is_err());
}
