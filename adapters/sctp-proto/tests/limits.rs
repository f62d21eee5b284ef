//! Limits: of packets, of messages, and of what a peer can make this crate keep.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Host, Kind, Seen, World, message, messages, ours};
use sctp_proto::{
    Association, AssociationError, ClientConfig, ConnectError, Endpoint, EndpointConfig, Error, Event,
    PayloadProtocolIdentifier, ServerConfig, SnapError, StreamEvent, TransportConfig, generate_snap_token,
};

/// A host whose packets have at most so much user data, with these settings.
fn host(max_payload_size: u32, transport: TransportConfig) -> ours::Host {
    let mut server = ServerConfig::new();
    server.transport = Arc::new(transport);
    let mut config = EndpointConfig::new();
    config.max_payload_size(max_payload_size);
    let mut host = ours::Host::default();
    host.endpoint = Endpoint::new(Arc::new(config), Some(Arc::new(server)));
    host
}

fn client(max_payload_size: u32) -> ours::Host {
    host(max_payload_size, TransportConfig::default())
}

#[test]
fn packets_are_as_long_as_the_payload_size_says() {
    for max_payload_size in [264, 300, 519, 520, 1044, 1200, 1372] {
        let mut world = World::connected(client(max_payload_size), client(max_payload_size));
        world.client.open(0, false, Kind::Reliable);
        assert!(world.client.write(0, &message(0, 60_000)));
        world.until("the message is here", |world| {
            messages(&world.server, 0).len() == 1
        });
        let most = max_payload_size as usize + 28;
        // Packets are multiples of four bytes. Longer ones than 1,280 bytes are tried first.
        assert!(
            world.longest <= most && world.longest + 4 > most.min(1252),
            "{max_payload_size}: {}",
            world.longest
        );
    }
}

#[test]
fn a_peer_whose_message_is_longer_than_the_limit_is_aborted() {
    let transport = TransportConfig::default().with_max_receive_message_size(10_000);
    let mut world = World::connected(client(1200), host(1200, transport));
    world.client.open(0, false, Kind::Reliable);
    assert!(world.client.write(0, &message(0, 10_000)));
    world.until("the message is here", |world| {
        messages(&world.server, 0).len() == 1
    });
    assert!(world.client.write(0, &message(1, 10_001)));
    world.until("both have ended", |world| {
        world.client.is_closed() && world.server.is_closed()
    });
    assert_eq!(messages(&world.server, 0).len(), 1);
}

#[test]
fn a_message_that_is_larger_than_the_receive_buffer_arrives() {
    let transport = TransportConfig::default()
        .with_max_receive_buffer_size(100_000)
        .with_max_receive_message_size(3_000_000);
    let mut world = World::connected(client(1200), host(1200, transport));
    world.client.association().set_max_send_message_size(3_000_000);
    world.client.open(0, false, Kind::Reliable);
    assert!(world.client.write(0, &message(0, 3_000_000)));
    world.until("the message is here", |world| {
        messages(&world.server, 0).len() == 1
    });
    assert_eq!(messages(&world.server, 0), [message(0, 3_000_000)]);
}

/// Each stream has a message with a beginning and no end. They take three times as much as the limit.
#[test]
fn incomplete_messages_have_a_limit() {
    let transport = TransportConfig::default()
        .with_max_receive_buffer_size(100_000)
        .with_max_receive_message_size(1_000_000);
    let mut world = World::connected(client(1200), host(1200, transport));
    world.client.association().set_max_send_message_size(1_000_000);
    for stream in 0..20 {
        world.client.open(stream, false, Kind::Reliable);
        assert!(world.client.write(stream, &message(0, 1_000_000)));
    }
    world.until("both have ended", |world| {
        world.client.is_closed() && world.server.is_closed()
    });
    let all: usize = (0..20).map(|stream| messages(&world.server, stream).len()).sum();
    assert_eq!(all, 0);
}

#[test]
fn empty_messages_are_sent_if_their_identifier_says_so() {
    let mut world = World::connected(client(1200), client(1200));
    world.client.open(0, false, Kind::Reliable);
    let mut stream = world.client.association().stream(0).unwrap();
    assert_eq!(
        stream.write_with_ppi(&[], PayloadProtocolIdentifier::Binary),
        Ok(0)
    );
    assert_eq!(
        stream.write_with_ppi(&[], PayloadProtocolIdentifier::StringEmpty),
        Ok(0)
    );
    world.until("a message is here", |world| {
        !messages(&world.server, 0).is_empty()
    });
    world.run(Duration::from_secs(1));
    let empty = PayloadProtocolIdentifier::StringEmpty as u32;
    let expected = [Seen::Connected, Seen::Opened(0), Seen::Message(0, empty, vec![0])];
    assert_eq!(world.server.seen(), expected);
}

/// The server reads, but polls no events, while the client opens and resets streams.
#[test]
fn events_that_are_not_polled_have_a_limit() {
    let mut world = World::connected(client(1200), client(1200));
    (world.client.reads, world.server.reads) = (false, false);
    let (mut opened, mut reset) = (0, 0);
    for round in 0..1000 {
        let association = world.client.association();
        if let Ok(mut stream) = association.open_stream(round % 100, PayloadProtocolIdentifier::Binary) {
            opened += 1;
            stream.write(b"hello").unwrap();
            stream.close().unwrap();
        }
        world.run(Duration::from_millis(100));
        while let Some(event) = world.client.association().poll() {
            reset += usize::from(matches!(event, Event::Stream(StreamEvent::ResetComplete { .. })));
        }
        let association = world.server.association();
        for id in association.stream_ids() {
            // A stream is gone once it was read to its reset.
            while association
                .stream(id)
                .is_ok_and(|mut stream| matches!(stream.read(), Ok(Some(_))))
            {}
        }
    }
    let mut events = 0;
    while world.server.association().poll().is_some() {
        events += 1;
    }
    // Four events of each reset wait, and as many events in the core.
    assert!((300..800).contains(&events), "{events}");
    assert!(opened < 300, "{opened}");
    assert!((30..150).contains(&reset), "{reset}");
}

/// Messages that arrived before the end can be read after it.
#[test]
fn messages_can_be_read_after_the_end() {
    let mut world = World::connected(client(1200), client(1200));
    world.client.open(0, false, Kind::Reliable);
    assert!(world.client.write(0, b"last"));
    world.server.reads = false;
    world.run(Duration::from_millis(100));
    world.client.association().close().unwrap();
    world.until("the server knows", |world| world.server.is_closed());
    let association = world.server.association();
    let mut events = Vec::new();
    while let Some(event) = association.poll() {
        events.push(event);
    }
    assert!(matches!(
        events.last(),
        Some(Event::AssociationLost {
            reason: AssociationError::ApplicationClosed
        })
    ));
    assert!(!association.is_drained());
    let message = association.stream(0).unwrap().read().unwrap().unwrap();
    let mut bytes = [0; 4];
    assert_eq!((message.read(&mut bytes), &bytes), (Ok(4), b"last"));
    assert_eq!(message.read(&mut bytes[..3]), Err(Error::ErrShortBuffer));
    assert!(association.stream(0).is_err());
    while association.poll().is_some() {}
    assert!(association.is_drained());
}

#[test]
fn the_buffered_amount_counts_what_was_not_sent() {
    let mut world = World::connected(client(1200), client(1200));
    world.client.open(0, false, Kind::Reliable);
    let mut stream = world.client.association().stream(0).unwrap();
    stream.set_buffered_amount_low_threshold(30_000).unwrap();
    stream.set_buffered_amount_high_threshold(50_000).unwrap();
    stream.write(&message(0, 60_000)).unwrap();
    assert_eq!(stream.buffered_amount(), Ok(60_000));
    world.client.reads = false;
    let now = world.now;
    assert!(!world.client.output(now).is_empty());
    let amount = world.client.association().stream(0).unwrap().buffered_amount();
    assert!((30_001..60_000).contains(&amount.unwrap()));
    world.until("the message is here", |world| {
        messages(&world.server, 0).len() == 1
    });
    let association = world.client.association();
    assert_eq!(association.stream(0).unwrap().buffered_amount(), Ok(0));
    let mut events = Vec::new();
    while let Some(Event::Stream(event)) = association.poll() {
        events.push(event);
    }
    let expected = [
        StreamEvent::BufferedAmountHigh { id: 0 },
        StreamEvent::BufferedAmountLow { id: 0 },
    ];
    assert_eq!(events, expected);
}

#[test]
fn a_server_that_is_silent_ends_the_set_up() {
    let mut world = World::new(client(1200), client(1200));
    let transport = TransportConfig::default()
        .with_max_init_retransmits(Some(2))
        .with_rto_initial_ms(1000);
    let mut config = ClientConfig::new();
    config.transport = Arc::new(transport);
    let remote = "192.0.2.1:5000".parse().unwrap();
    world.client.association = Some(world.client.endpoint.connect(config, remote).unwrap());
    world.client.reads = false;
    world.loss = 1000;
    let begun = world.now;
    world.until("the client has ended", |world| world.client.is_closed());
    assert_eq!((world.now - begun).as_secs(), 1 + 2 + 4);
    let association = world.client.association();
    let reason = AssociationError::HandshakeFailed(Error::ErrHandshakeInitAck);
    assert!(matches!(association.poll(), Some(Event::HandshakeFailed { reason: one }) if one == reason));
    assert!(matches!(association.poll(), Some(Event::AssociationLost { reason: one }) if one == reason));
    assert!(association.poll().is_none());
}

#[test]
fn what_cannot_be_done_is_an_error() {
    assert_eq!(
        generate_snap_token(&TransportConfig::default()),
        Err(Error::ErrUnimplemented)
    );
    let mut endpoint = client(1200).endpoint;
    let remote = "192.0.2.1:5000".parse().unwrap();
    let snap = ClientConfig::new().with_snap("one".into(), "two".into());
    let refused = endpoint.connect(snap, remote).err();
    assert_eq!(refused, Some(ConnectError::Snap(SnapError::NotSupported)));
    let port = endpoint.connect(ClientConfig::new(), "192.0.2.1:0".parse().unwrap());
    assert!(matches!(port, Err(ConnectError::InvalidRemoteAddress(_))));
    let (_, mut association) = endpoint.connect(ClientConfig::new(), remote).unwrap();
    assert_eq!(association.shutdown(), Err(Error::ErrShutdownNonEstablished));
    assert_eq!(association.stream(3).err(), Some(Error::ErrStreamNotExisted));
    association
        .open_stream(3, PayloadProtocolIdentifier::Binary)
        .unwrap();
    let again = association.open_stream(3, PayloadProtocolIdentifier::Binary);
    assert_eq!(again.err(), Some(Error::ErrStreamAlreadyExist));
    let mut stream = association.stream(3).unwrap();
    assert_eq!(stream.close(), Err(Error::ErrResetPacketInStateNotExist));
    let long = vec![0; 65_537];
    assert_eq!(stream.write(&long), Err(Error::ErrStreamClosed), "finished");
}

#[test]
fn associations_may_move_between_threads_and_be_shared() {
    fn is_shared(_: &(impl Send + Sync)) {}
    let mut endpoint = client(1200).endpoint;
    let (_, association): (_, Association) = endpoint
        .connect(ClientConfig::new(), "192.0.2.1:5000".parse().unwrap())
        .unwrap();
    is_shared(&endpoint);
    is_shared(&association);
    // There is no time before the first call that has one.
    assert_eq!(association.poll_timeout(), None::<Instant>);
}
