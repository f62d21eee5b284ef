//! Stream reconfiguration (RFC 6525), through the public interface and over real sockets.

use anabranch::{
    Association, Config, Event, ReconfigurationError, ReconfigurationEvent, ReconfigurationRequest,
    ReconfigurationResult, ResetDirection, StreamId, StreamSelection,
};

mod common;

use common::{connect, listening, within};

/// The next event of stream reconfiguration.
async fn next(association: &Association) -> ReconfigurationEvent {
    loop {
        let event = within(20, association.next_event()).await;
        if let Event::Reconfiguration(event) = event.expect("the association lives") {
            return event;
        }
    }
}

#[tokio::test]
async fn streams_are_reset_and_added() {
    let server = listening(Config::default()).await;
    let client = anabranch::Endpoint::builder().bind("127.0.0.1:0").await.unwrap();
    let pair = connect(client, server).await;
    let (ours, theirs) = (&pair.ours, &pair.theirs);
    ours.send(StreamId(3), "before").await.unwrap();
    let streams = StreamSelection::listed([3]);
    ours.reset_streams(streams.clone(), ResetDirection::Outgoing)
        .unwrap();
    let second = ours.reset_streams(streams.clone(), ResetDirection::Outgoing);
    assert_eq!(second, Err(ReconfigurationError::InProgress));
    ours.send(StreamId(3), "after").await.unwrap();
    let performed = |request| ReconfigurationEvent::Answered {
        request,
        result: ReconfigurationResult::Performed,
    };
    assert_eq!(next(ours).await, performed(ReconfigurationRequest::ResetOutgoing));
    let reset = ReconfigurationEvent::InboundReset {
        streams,
        first_message: 1,
    };
    assert_eq!(next(theirs).await, reset);
    for expected in ["before", "after"] {
        let message = within(20, theirs.recv()).await.unwrap().expect("a message");
        assert_eq!(message.into_bytes(), expected);
    }
    let before = ours.outbound_streams();
    ours.add_streams(2, 0).unwrap();
    while next(ours).await != performed(ReconfigurationRequest::AddOutgoing) {}
    assert_eq!(ours.outbound_streams(), before + 2);
    ours.send(StreamId(before + 1), "new").await.unwrap();
    assert!(ours.stats().extensions.reconfiguration);
    within(20, ours.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_peer_without_the_extension_gets_no_requests() {
    let server = listening(Config::default().without_extensions()).await;
    let client = anabranch::Endpoint::builder().bind("127.0.0.1:0").await.unwrap();
    let pair = connect(client, server).await;
    assert_eq!(
        pair.ours.add_streams(1, 1),
        Err(ReconfigurationError::NotSupported)
    );
    assert_eq!(
        pair.ours.reset_association(),
        Err(ReconfigurationError::NotSupported)
    );
}
