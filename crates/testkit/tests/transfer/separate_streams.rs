//! Streams that are read separately ([`Stream::set_separate`]): their messages, events, resets and parts.
//!
//! [`Stream::set_separate`]: anabranch_proto::Stream::set_separate

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, Event, ResetDirection, StreamId, StreamItem, StreamSelection};
use anabranch_testkit::{Pair, Setup, Side};

const CHAT: StreamId = StreamId(3);
const FILE: StreamId = StreamId(4);

fn connected(config: Config) -> Pair {
    let link: LinkConfig = "delay=5ms".parse().expect("a link");
    Setup::new(1).path(link).config(config).connect()
}

fn pair() -> Pair {
    connected(Config::default())
}

/// Z reads this stream separately from now on, or no longer.
fn separate(pair: &mut Pair, stream: StreamId, separate: bool) {
    let now = pair.now();
    pair.association_mut(Side::Z)
        .stream(now, stream)
        .set_separate(separate);
    pair.run_ms(0);
}

/// Reads one item of a stream at Z: a text, `(text` for a part that is not the last, `reset`, or `-`.
fn read(pair: &mut Pair, stream: StreamId) -> String {
    let now = pair.now();
    match pair.association_mut(Side::Z).stream(now, stream).recv() {
        None => "-".to_owned(),
        Some(StreamItem::Reset) => "reset".to_owned(),
        Some(StreamItem::Part(part)) => {
            assert_eq!(part.stream, stream);
            String::from_utf8(part.payload.into_bytes().to_vec()).expect("a text")
        }
    }
}

/// The texts that Z's application read from the common queue.
fn common(pair: &mut Pair) -> Vec<String> {
    let texts = pair.messages(Side::Z).into_iter();
    texts
        .map(|message| String::from_utf8(message.bytes.to_vec()).expect("a text"))
        .collect()
}

/// The events of streams at Z.
fn news(pair: &mut Pair) -> Vec<Event> {
    let mut events = pair.events(Side::Z);
    events.retain(|event| matches!(event, Event::StreamReadable(_) | Event::StreamOpened(_)));
    events
}

fn reset(pair: &mut Pair, stream: StreamId) {
    let now = pair.now();
    pair.association_mut(Side::A)
        .reconfigure(now)
        .reset_streams(StreamSelection::Listed(vec![stream]), ResetDirection::Outgoing)
        .expect("no other request waits");
    pair.run_ms(100);
}

#[test]
fn messages_come_to_the_reader_of_their_stream() {
    let mut pair = pair();
    pair.set_reading(Side::Z, false);
    pair.send(Side::A, CHAT.0, "early");
    pair.send(Side::A, FILE.0, "block 1");
    pair.run_ms(50);
    separate(&mut pair, CHAT, true);
    assert_eq!(news(&mut pair), [Event::StreamReadable(CHAT)]);
    pair.set_reading(Side::Z, true);
    pair.send(Side::A, CHAT.0, "later");
    pair.send(Side::A, FILE.0, "block 2");
    pair.run_ms(50);
    assert_eq!(common(&mut pair), ["block 1", "block 2"]);
    assert_eq!(news(&mut pair), [], "told once");
    assert_eq!(["early", "later", "-"], [(); 3].map(|()| read(&mut pair, CHAT)));
    pair.send(Side::A, CHAT.0, "again");
    pair.run_ms(50);
    assert_eq!(news(&mut pair), [Event::StreamReadable(CHAT)]);
    assert_eq!(read(&mut pair, FILE), "-", "that stream is not separate");
    separate(&mut pair, CHAT, false);
    pair.read(Side::Z);
    assert_eq!(common(&mut pair), ["again"]);
    assert_eq!(read(&mut pair, CHAT), "-");
}

#[test]
fn streams_that_the_peer_opens_are_told() {
    let mut pair = pair();
    pair.set_reading(Side::Z, false);
    pair.send(Side::A, CHAT.0, "before");
    pair.run_ms(50);
    let now = pair.now();
    pair.association_mut(Side::Z).separate_new_streams(now, true);
    pair.run_ms(0);
    let opened = |stream| [Event::StreamOpened(stream), Event::StreamReadable(stream)];
    assert_eq!(news(&mut pair), opened(CHAT));
    pair.send(Side::A, FILE.0, "block 1");
    pair.send(Side::A, FILE.0, "block 2");
    pair.run_ms(50);
    assert_eq!(news(&mut pair), opened(FILE));
    assert_eq!(
        [read(&mut pair, FILE), read(&mut pair, CHAT)],
        ["block 1", "before"]
    );
    // Nobody reads the file any more: the next message opens the stream again.
    separate(&mut pair, FILE, false);
    assert_eq!(news(&mut pair), opened(FILE), "a message was unread");
    assert_eq!([read(&mut pair, FILE), read(&mut pair, FILE)], ["block 2", "-"]);
    separate(&mut pair, FILE, false);
    assert_eq!(news(&mut pair), []);
}

/// A reset is read after the messages before it and before those after it. Resets without messages between them are one.
#[test]
fn a_reset_is_read_in_its_place() {
    let mut pair = pair();
    separate(&mut pair, CHAT, true);
    pair.send(Side::A, CHAT.0, "before");
    reset(&mut pair, CHAT);
    pair.send(Side::A, CHAT.0, "after");
    for _ in 0..3 {
        reset(&mut pair, CHAT);
    }
    reset(&mut pair, FILE);
    let items = [(); 5].map(|()| read(&mut pair, CHAT));
    assert_eq!(items, ["before", "reset", "after", "reset", "-"]);
    assert_eq!(read(&mut pair, FILE), "-");
}

/// A message that is delivered in parts, with DATA and with I-DATA.
#[test]
fn parts_come_to_the_reader_of_their_stream() {
    for interleaving in [false, true] {
        let mut config = Config::default();
        config.interleaving.offer = interleaving;
        config.buffers.receive = 64 << 10;
        config.buffers.growth = 1;
        config.buffers.partial_delivery_point = 4 << 10;
        let mut pair = connected(config);
        separate(&mut pair, FILE, true);
        let content = "0123456789".repeat(50_000);
        pair.send(Side::A, FILE.0, content.clone());
        let mut arrived = String::new();
        let mut parts = 0;
        for _ in 0..2000 {
            pair.run_ms(5);
            pair.read(Side::Z);
            loop {
                match read(&mut pair, FILE).as_str() {
                    "-" => break,
                    text => arrived.push_str(text),
                }
                parts += 1;
            }
        }
        assert_eq!(arrived.len(), content.len(), "with interleaving: {interleaving}");
        assert!(arrived == content && parts > 5, "{parts}");
        assert_eq!(common(&mut pair), [""; 0]);
    }
}

/// A stream that is separate before set-up is complete is not reset by it. Found by the fuzz target `session`.
#[test]
fn set_up_resets_no_stream() {
    let link: LinkConfig = "delay=5ms".parse().expect("a link");
    let mut pair = Setup::new(1).path(link).build();
    pair.begin();
    let now = pair.now();
    pair.association_mut(Side::A).stream(now, CHAT).set_separate(true);
    pair.run_ms(100);
    pair.send(Side::Z, CHAT.0, "first");
    pair.run_ms(50);
    let now = pair.now();
    let mut stream = pair.association_mut(Side::A).stream(now, CHAT);
    let items = [stream.recv(), stream.recv()];
    assert!(matches!(items, [Some(StreamItem::Part(_)), None]), "{items:?}");
}

/// If the peer restarts, the messages from before are read, then a reset.
#[test]
fn a_restart_ends_the_messages_of_before() {
    let mut pair = pair();
    separate(&mut pair, CHAT, true);
    pair.send(Side::A, CHAT.0, "before");
    pair.run_ms(50);
    pair.reboot(Side::A);
    pair.begin_from(
        Side::A,
        anabranch_proto::ConnectOptions::default().local_port(Some(pair_port(&pair))),
    );
    pair.run_ms(200);
    assert!(pair.events(Side::Z).contains(&Event::Restarted));
    pair.send(Side::A, CHAT.0, "after");
    pair.run_ms(50);
    assert_eq!(
        ["before", "reset", "after"],
        [(); 3].map(|()| read(&mut pair, CHAT))
    );
}

fn pair_port(pair: &Pair) -> u16 {
    pair.association(Side::Z).ports().1
}
