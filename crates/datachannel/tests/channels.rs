//! Channels between two simulated hosts.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_datachannel::{
    ChannelConfig, ChannelEvent, ChannelId, ChannelLimits, ChannelMessage, ChannelSendError, Channels,
    OpenError, Refusal, Role,
};
use anabranch_netsim::{LinkConfig, LossModel, Probability};
use anabranch_proto::{
    AssociationState, Config, Event, Ppid, Reliability, SchedulerKind, SendOptions, StreamId, Timestamp,
};
use anabranch_testkit::fixture::lists;
use anabranch_testkit::victim::list;
use anabranch_testkit::{Pair, Script, Setup, Side};
use anabranch_wire::chunk::{Chunk, ReConfig, kind};
use anabranch_wire::parameter::Parameter;
use bytes::Bytes;
use common::Told;

struct Peers {
    pair: Pair,
    channels: [Channels; 2],
    events: [Vec<Told>; 2],
    /// Channels that are told to be closed. Nothing else is told of them.
    closed: [BTreeSet<ChannelId>; 2],
    /// Whether each side reads.
    reads: [bool; 2],
}

fn text(text: &str) -> ChannelMessage {
    ChannelMessage {
        is_text: true,
        bytes: Bytes::copy_from_slice(text.as_bytes()),
    }
}

fn binary(bytes: impl Into<Bytes>) -> ChannelMessage {
    ChannelMessage {
        is_text: false,
        bytes: bytes.into(),
    }
}

fn limits() -> ChannelLimits {
    let mut limits = ChannelLimits::default();
    limits.peer_max_message = limits.max_message;
    limits
}

impl Peers {
    fn new(link: LinkConfig, config: Config) -> Self {
        Self::with(link, config, limits())
    }

    fn with(link: LinkConfig, config: Config, limits: ChannelLimits) -> Self {
        let mut peers = Self::early(link, config, limits);
        peers.establish();
        peers
    }

    /// Side A has sent its INIT.
    fn early(link: LinkConfig, mut config: Config, limits: ChannelLimits) -> Self {
        config.streams.outbound = 1024;
        let mut pair = Setup::new(11).path(link).config(config).build();
        pair.begin();
        // The channels read.
        pair.set_reading(Side::Z, false);
        let mut peers = Self {
            pair,
            channels: [Role::Client, Role::Server].map(|role| Channels::new(role, limits)),
            events: Default::default(),
            closed: Default::default(),
            reads: [true; 2],
        };
        peers.prepare();
        peers
    }

    fn establish(&mut self) {
        let limit = self.pair.now() + Duration::from_secs(600);
        let is_up = |pair: &Pair, side| pair.state(side) == Some(AssociationState::Established);
        let both = |pair: &mut Pair| Side::BOTH.into_iter().all(|side| is_up(pair, side));
        assert!(self.pair.run_to(limit, both));
        self.prepare();
    }

    fn prepare(&mut self) {
        for side in Side::BOTH {
            let now = self.pair.now();
            if self.pair.id(side).is_some() {
                Channels::prepare(self.pair.association_mut(side), now);
            }
        }
    }

    fn plain() -> Self {
        Self::new(
            LinkConfig::default().with_delay(Duration::from_millis(5)),
            Config::default(),
        )
    }

    /// Gives the events of the associations to the channels, and reads.
    fn pump(&mut self) {
        for side in Side::BOTH {
            let place = side as usize;
            let now = self.pair.now();
            if self.channels[place].poll_timeout().is_some_and(|due| due <= now) {
                self.channels[place].handle_timeout(self.pair.association_mut(side), now);
            }
            for event in self.pair.events(side) {
                let now = self.pair.now();
                self.channels[place].handle_event(self.pair.association_mut(side), now, &event);
            }
            while self.reads[place] {
                let now = self.pair.now();
                let Some(event) = self.channels[place].poll_event(self.pair.association_mut(side), now)
                else {
                    break;
                };
                let now = self.pair.now();
                let closed = &mut self.closed[place];
                match event {
                    ChannelEvent::Accepted(id, _) => {
                        closed.remove(&id);
                    }
                    ChannelEvent::Closed(id) => assert!(closed.insert(id), "{event:?}, again"),
                    ChannelEvent::Opened(id)
                    | ChannelEvent::Readable(id)
                    | ChannelEvent::BufferedAmountLow(id)
                    | ChannelEvent::Writable(id) => {
                        assert!(!closed.contains(&id), "{event:?}, but it is closed")
                    }
                    _ => {}
                }
                let events = &mut self.events[place];
                if let ChannelEvent::Readable(id) = event {
                    let association = self.pair.association_mut(side);
                    let read = || self.channels[place].recv(association, now, id);
                    events.extend(std::iter::from_fn(read).map(|message| Told::Message(id, message)));
                }
                events.extend(Told::of(event));
            }
        }
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.pump();
            self.pair.run_ms(1);
        }
        self.pump();
    }

    fn open(&mut self, side: Side, config: ChannelConfig) -> Result<ChannelId, OpenError> {
        let now = self.pair.now();
        let opened = self.channels[side as usize].open(self.pair.association_mut(side), now, config);
        if let Ok(id) = &opened {
            self.closed[side as usize].remove(id);
        }
        opened
    }

    fn send(&mut self, side: Side, id: ChannelId, message: ChannelMessage) -> Result<(), ChannelSendError> {
        let now = self.pair.now();
        self.channels[side as usize].send(self.pair.association_mut(side), now, id, message)
    }

    fn close(&mut self, side: Side, id: ChannelId) {
        let now = self.pair.now();
        self.channels[side as usize].close(self.pair.association_mut(side), now, id);
    }

    fn take(&mut self, side: Side) -> Vec<Told> {
        std::mem::take(&mut self.events[side as usize])
    }

    fn messages(&mut self, side: Side, id: ChannelId) -> Vec<ChannelMessage> {
        let events = self.take(side);
        let of_channel = events.into_iter().filter_map(|event| match event {
            Told::Message(from, message) if from == id => Some(message),
            _ => None,
        });
        of_channel.collect()
    }
}

#[test]
fn channels_open_from_both_sides_with_their_numbers() {
    let mut peers = Peers::plain();
    let config = ChannelConfig::new("chat")
        .protocol("json")
        .ordered(false)
        .reliability(Reliability::Lifetime(Duration::from_millis(300)))
        .priority(512);
    let ours = peers.open(Side::A, config.clone()).unwrap();
    let theirs = peers.open(Side::Z, ChannelConfig::new("")).unwrap();
    assert_eq!(
        (ours, theirs),
        (ChannelId(0), ChannelId(1)),
        "RFC 8832 §6: even and odd"
    );
    // Messages need not wait for the confirmation.
    peers.send(Side::A, ours, text("early")).unwrap();
    peers.run(100);
    assert_eq!(
        peers.take(Side::A),
        [Told::Accepted(theirs, ChannelConfig::new("")), Told::Opened(ours)]
    );
    assert_eq!(
        peers.take(Side::Z),
        [
            Told::Accepted(ours, config),
            Told::Message(ours, text("early")),
            Told::Opened(theirs),
        ]
    );
}

#[test]
fn texts_and_bytes_of_all_sizes_arrive_also_empty_ones() {
    let mut peers = Peers::plain();
    let id = peers.open(Side::A, ChannelConfig::new("all")).unwrap();
    peers.run(50);
    let sizes = [1, 2, 1199, 1200, 65_536, 262_144];
    let mut sent = vec![text(""), binary(Bytes::new()), text("äöü")];
    sent.extend(sizes.map(|len| binary((0..len).map(|place| place as u8).collect::<Vec<_>>())));
    for from in Side::BOTH {
        let to = from.other();
        for message in &sent {
            peers.send(from, id, message.clone()).unwrap();
            peers.run(200);
        }
        assert!(peers.messages(to, id) == sent);
    }
    let large = binary(vec![0; 262_145]);
    assert_eq!(
        peers.send(Side::A, id, large),
        Err(ChannelSendError::TooLarge {
            size: 262_145,
            limit: 262_144
        })
    );
}

/// RFC 8831 §6.7: either side closes, both are told, and the number is used again.
#[test]
fn closed_numbers_are_used_again() {
    for closing in Side::BOTH {
        let mut peers = Peers::plain();
        for round in 0..3 {
            let id = peers
                .open(Side::A, ChannelConfig::new(format!("{round}")))
                .unwrap();
            assert_eq!(id, ChannelId(0));
            peers.run(50);
            peers.send(closing, id, text("the last")).unwrap();
            peers.close(closing, id);
            assert_eq!(
                peers.send(closing, id, text("too late")),
                Err(ChannelSendError::Closed)
            );
            peers.run(500);
            for side in Side::BOTH {
                let events = peers.take(side);
                assert_eq!(events.last(), Some(&Told::Closed(id)), "{side:?} {events:?}");
                let came = events.contains(&Told::Message(id, text("the last")));
                assert_eq!(came, side != closing, "sent before the close");
            }
        }
    }
}

#[test]
fn sixty_channels_carry_messages_at_the_same_time_and_close() {
    let mut peers = Peers::new(
        LinkConfig::default()
            .with_delay(Duration::from_millis(5))
            .with_loss(LossModel::Bernoulli(Probability::percent(5.0))),
        Config::default(),
    );
    let ids: Vec<_> = (0..60)
        .map(|number| {
            let side = if number % 2 == 0 { Side::A } else { Side::Z };
            peers.open(side, ChannelConfig::new(format!("{number}"))).unwrap()
        })
        .collect();
    peers.run(500);
    for (number, id) in ids.iter().enumerate() {
        peers
            .send(Side::A, *id, text(&format!("message {number}")))
            .unwrap();
    }
    peers.run(4000);
    let events = peers.take(Side::Z);
    for (number, id) in ids.iter().enumerate() {
        let expected = Told::Message(*id, text(&format!("message {number}")));
        assert!(events.contains(&expected), "{number}");
    }
    for id in &ids {
        peers.close(Side::A, *id);
    }
    peers.run(10_000);
    for side in Side::BOTH {
        let events = peers.take(side);
        let closed = events
            .iter()
            .filter(|event| matches!(event, Told::Closed(_)))
            .count();
        assert_eq!(closed, 60, "{side:?}");
    }
}

#[test]
fn negotiated_channels_need_no_announcement() {
    let mut peers = Peers::plain();
    let config = ChannelConfig::new("both know").negotiated(7);
    for side in Side::BOTH {
        assert_eq!(peers.open(side, config.clone()), Ok(ChannelId(7)));
        assert_eq!(peers.open(side, config.clone()), Err(OpenError::InvalidNumber(7)));
    }
    peers.send(Side::Z, ChannelId(7), text("hello")).unwrap();
    peers.run(50);
    assert_eq!(peers.take(Side::Z), [Told::Opened(ChannelId(7))]);
    assert_eq!(
        peers.take(Side::A),
        [
            Told::Opened(ChannelId(7)),
            Told::Message(ChannelId(7), text("hello"))
        ]
    );
}

/// A peer may send before this side's application has opened a negotiated channel. A peer that resets its stream takes its messages back.
#[test]
fn messages_of_a_negotiated_channel_wait_for_its_opening() {
    let mut peers = Peers::plain();
    let config = |id| ChannelConfig::new("both know").negotiated(id);
    for id in [7, 8] {
        peers.open(Side::A, config(id)).unwrap();
        peers.send(Side::A, ChannelId(id), text("early")).unwrap();
    }
    peers.run(50);
    assert_eq!(peers.take(Side::Z), []);
    peers.close(Side::A, ChannelId(8));
    peers.run(50);
    assert_eq!(
        peers.pair.association(Side::Z).stats().unread_bytes,
        "early".len()
    );
    peers.open(Side::Z, config(7)).unwrap();
    peers.run(50);
    assert_eq!(
        peers.take(Side::Z),
        [
            Told::Opened(ChannelId(7)),
            Told::Message(ChannelId(7), text("early"))
        ]
    );
}

/// RFC 8832 §6: a stream that has no channel is closed. The application has 10 s to open a negotiated one.
#[test]
fn messages_of_no_channel_close_it() {
    let mut peers = Peers::plain();
    let id = ChannelId(10);
    let config = ChannelConfig::new("only one knows").negotiated(id.0);
    peers.open(Side::A, config.clone()).unwrap();
    peers.send(Side::A, id, text("anybody there?")).unwrap();
    peers.run(9_000);
    assert_eq!(peers.take(Side::Z), []);
    peers.send(Side::A, id, text("hello?")).unwrap();
    peers.run(2_000);
    assert_eq!(peers.take(Side::Z), [Told::Refused(id, Refusal::NotOpened)]);
    assert_eq!(peers.take(Side::A), [Told::Opened(id), Told::Closed(id)]);
    assert_eq!(peers.pair.association(Side::Z).stats().unread_bytes, 0);
    // The number can be used again.
    for side in Side::BOTH {
        peers.open(side, config.clone()).unwrap();
    }
    peers.send(Side::A, id, text("again")).unwrap();
    peers.run(50);
    assert_eq!(
        peers.take(Side::Z),
        [Told::Opened(id), Told::Message(id, text("again"))]
    );
    assert_eq!(
        (peers.channels[1].poll_timeout(), peers.take(Side::A)),
        (None, vec![Told::Opened(id)])
    );
}

/// RFC 8832 §6: the announcement is lost and sent once more; an unordered message that was sent right after it must not arrive first.
#[test]
fn nothing_passes_the_announcement_of_a_channel() {
    let mut peers = Peers::plain();
    peers.run(10);
    let id = peers
        .open(Side::A, ChannelConfig::new("x").ordered(false))
        .unwrap();
    peers.pair.cut(0, true);
    peers.pair.run_ms(1);
    peers.pair.cut(0, false);
    peers.send(Side::A, id, text("early")).unwrap();
    peers.run(3000);
    let events = peers.take(Side::Z);
    assert!(matches!(events[0], Told::Accepted(..)), "{events:?}");
    assert_eq!(events[1..], [Told::Message(id, text("early"))]);
}

/// With losses, messages of a channel with few retransmissions are missing, and those of a reliable one are not.
#[test]
fn unreliable_channels_lose_and_reliable_ones_do_not() {
    let lossy = LinkConfig::default()
        .with_delay(Duration::from_millis(10))
        .with_loss(LossModel::Bernoulli(Probability::percent(20.0)));
    let mut peers = Peers::new(lossy, Config::default());
    let reliable = peers
        .open(Side::A, ChannelConfig::new("reliable").ordered(false))
        .unwrap();
    let lossy = ChannelConfig::new("lossy")
        .ordered(false)
        .reliability(Reliability::Retransmissions(0));
    let lossy = peers.open(Side::A, lossy).unwrap();
    peers.run(3000);
    peers.take(Side::Z);
    for number in 0..200 {
        for id in [reliable, lossy] {
            peers.send(Side::A, id, binary(vec![number; 1000])).unwrap();
        }
        peers.run(10);
    }
    peers.run(10_000);
    let events = peers.take(Side::Z);
    let count = |id| {
        events
            .iter()
            .filter(|event| matches!(event, Told::Message(from, _) if *from == id))
            .count()
    };
    assert_eq!(count(reliable), 200);
    assert!((100..195).contains(&count(lossy)), "{}", count(lossy));
}

/// A slow application slows the peer: the receive window closes, and nothing is lost.
#[test]
fn a_slow_reader_stops_the_sender() {
    let mut config = Config::default();
    config.buffers.growth = 1;
    let mut peers = Peers::new(LinkConfig::default().with_delay(Duration::from_millis(1)), config);
    let id = peers.open(Side::A, ChannelConfig::new("bulk")).unwrap();
    peers.run(50);
    peers.reads[Side::Z as usize] = false;
    let mut sent = 0;
    for _ in 0..2000 {
        while peers.send(Side::A, id, binary(vec![1; 16_384])).is_ok() {
            sent += 1;
        }
        peers.run(1);
    }
    assert!((64..2000).contains(&sent), "{sent} messages of 16 KiB");
    assert!(peers.channels[0].buffered_amount(peers.pair.association_mut(Side::A), id) > 0);
    peers.reads[Side::Z as usize] = true;
    peers.run(5000);
    assert_eq!(peers.messages(Side::Z, id).len(), sent);
}

/// All channels of a connection share one send buffer. A channel that was refused for others' data is told when there is room.
#[test]
fn many_channels_do_not_fill_the_memory() {
    const SEND: usize = 64 << 10;
    let mut config = Config::default();
    config.buffers.growth = 1;
    config.buffers.send = SEND;
    let link = LinkConfig::default().with_delay(Duration::from_millis(50));
    let mut peers = Peers::new(link, config);
    let open = |peers: &mut Peers| {
        peers
            .open(Side::A, ChannelConfig::new(""))
            .expect("a number is free")
    };
    let ids: Vec<_> = (0..200).map(|_| open(&mut peers)).collect();
    peers.run(1000);
    let mut refused = Vec::new();
    for id in ids {
        if let Err(error) = peers.send(Side::A, id, binary(vec![1; 10_000])) {
            assert_eq!(error, ChannelSendError::Full);
            refused.push(id);
        }
    }
    let stats = peers.pair.association_mut(Side::A).stats();
    let buffered = stats.queued_bytes + stats.outstanding_bytes;
    assert!(buffered <= 2 * SEND + 10_000, "{buffered}");
    assert!(refused.len() >= 180, "{}", refused.len());
    peers.take(Side::A);
    let (id, now) = (refused[0], peers.pair.now());
    assert_eq!(
        peers.channels[0].buffered_amount(peers.pair.association_mut(Side::A), id),
        0
    );
    // The pair keeps this event of the association for itself.
    let writable = Event::Writable(StreamId(id.0));
    peers.channels[0].handle_event(peers.pair.association_mut(Side::A), now, &writable);
    peers.run(1000);
    assert_eq!(peers.take(Side::A), [Told::Writable(id)]);
    assert_eq!(peers.send(Side::A, id, binary(vec![1; 10_000])), Ok(()));
}

/// A peer that breaks the rules: its channels are refused, others stay.
#[test]
fn wrong_announcements_are_refused() {
    let mut peers = Peers::plain();
    let good = peers.open(Side::A, ChannelConfig::new("good")).unwrap();
    peers.run(50);
    peers.take(Side::Z);
    let open = |kind: u8| vec![3, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // An odd number of the client, a type that does not exist, a short message, a second announcement.
    for (stream, message) in [(5, open(0)), (6, open(9)), (8, vec![3, 0]), (good.0, open(0))] {
        let now = peers.pair.now();
        let options = SendOptions::default().ppid(Ppid(50));
        let association = peers.pair.association_mut(Side::A);
        association
            .send(now, StreamId(stream), message.into(), options)
            .unwrap();
    }
    // A message of no channel, and of a kind that no channel has.
    for (stream, ppid) in [(10, 53), (good.0, 99)] {
        let now = peers.pair.now();
        let options = SendOptions::default().ppid(Ppid(ppid));
        let association = peers.pair.association_mut(Side::A);
        association
            .send(now, StreamId(stream), "?".into(), options)
            .unwrap();
    }
    peers.run(500);
    let refused = |id, refusal| Told::Refused(ChannelId(id), refusal);
    assert_eq!(
        peers.take(Side::Z),
        [
            refused(5, Refusal::Number),
            refused(6, Refusal::Malformed),
            refused(8, Refusal::Malformed),
        ]
    );
    peers.send(Side::A, good, text("still here")).unwrap();
    peers.run(50);
    assert_eq!(peers.messages(Side::Z, good), [text("still here")]);
}

#[test]
fn a_message_larger_than_announced_closes_the_channel() {
    let mut limits = limits();
    limits.max_message = 1000;
    let mut peers = Peers::with(
        LinkConfig::default().with_delay(Duration::from_millis(1)),
        Config::default(),
        limits,
    );
    let id = peers.open(Side::A, ChannelConfig::new("large")).unwrap();
    peers.run(50);
    peers.take(Side::Z);
    peers.send(Side::A, id, binary(vec![0; 1001])).unwrap();
    peers.run(200);
    assert_eq!(peers.take(Side::Z), [Told::Closed(id)]);
    assert_eq!(peers.take(Side::A), [Told::Opened(id), Told::Closed(id)]);
}

#[test]
fn the_number_of_channels_is_bounded() {
    let mut limits = limits();
    limits.max_channels = 3;
    let mut peers = Peers::with(
        LinkConfig::default().with_delay(Duration::from_millis(1)),
        Config::default(),
        limits,
    );
    let ids: Vec<_> = (0..3)
        .map(|_| peers.open(Side::A, ChannelConfig::new("")).unwrap())
        .collect();
    assert_eq!(
        peers.open(Side::A, ChannelConfig::new("")),
        Err(OpenError::NoNumber)
    );
    // The peer has one of its own, so that one of these is refused.
    peers.open(Side::Z, ChannelConfig::new("")).unwrap();
    peers.run(300);
    let closed = peers
        .take(Side::A)
        .into_iter()
        .filter(|event| matches!(event, Told::Closed(_)));
    assert!(closed.count() >= 1, "{ids:?}");
}

#[test]
fn labels_and_lifetimes_that_do_not_fit_are_errors() {
    let mut peers = Peers::plain();
    let long = "x".repeat(65_536);
    assert_eq!(
        peers.open(Side::A, ChannelConfig::new(long)),
        Err(OpenError::TooLong)
    );
    for reliability in [
        Reliability::Lifetime(Duration::from_micros(1500)),
        Reliability::Lifetime(Duration::from_secs(1 << 23)),
        Reliability::Priority(1),
    ] {
        let config = ChannelConfig::new("").reliability(reliability);
        assert_eq!(peers.open(Side::A, config), Err(OpenError::Reliability));
    }
}

/// Found by the fuzz target `session`.
#[test]
fn a_channel_opened_before_set_up_is_complete_stays_open() {
    let link = LinkConfig::default().with_delay(Duration::from_millis(5));
    let mut peers = Peers::early(link, Config::default(), limits());
    let config = ChannelConfig::new("early");
    let early = peers.open(Side::A, config.clone()).unwrap();
    peers.establish();
    peers.run(500);
    assert_eq!(peers.take(Side::A), [Told::Opened(early)]);
    assert_eq!(peers.take(Side::Z), [Told::Accepted(early, config)]);
}

/// A channel that is closed before set-up is complete does not stay open.
#[test]
fn a_channel_closed_before_set_up_is_complete_is_closed_after_it() {
    let link = LinkConfig::default().with_delay(Duration::from_millis(5));
    let mut peers = Peers::early(link, Config::default(), limits());
    let early = peers.open(Side::A, ChannelConfig::new("early")).unwrap();
    peers.close(Side::A, early);
    peers.establish();
    peers.run(500);
    assert!(peers.take(Side::A).contains(&Told::Closed(early)));
    assert!(peers.take(Side::Z).contains(&Told::Closed(early)));
}

/// Numbers of all streams that the peer accepts can be used (RFC 8831 §6.2), and one that cannot does not keep the others from closing.
#[test]
fn a_number_beyond_the_streams_of_the_peer_blocks_no_other() {
    let link = LinkConfig::default().with_delay(Duration::from_millis(5));
    let mut config = Config::default();
    config.streams.max_inbound = 500;
    let mut peers = Peers::early(link, config, limits());
    let beyond = ChannelConfig::new("beyond").negotiated(900);
    let beyond = peers.open(Side::A, beyond).unwrap();
    let other = peers.open(Side::A, ChannelConfig::new("other")).unwrap();
    for id in [beyond, other] {
        peers.close(Side::A, id);
    }
    peers.establish();
    peers.run(500);
    let closed = peers.take(Side::A);
    for id in [beyond, other] {
        assert!(closed.contains(&Told::Closed(id)), "{id:?}: {closed:?}");
    }
}

/// The announcement of a channel that waits for room in the send buffer leaves the queue when the channel is closed.
#[test]
fn a_channel_closed_before_its_announcement_left_is_never_announced() {
    let mut config = Config::default();
    config.buffers.send = 4 << 10;
    let mut peers = Peers::new(LinkConfig::default().with_delay(Duration::from_millis(5)), config);
    peers.run(10);
    let bulk = peers.open(Side::A, ChannelConfig::new("bulk")).unwrap();
    while peers.send(Side::A, bulk, binary(vec![0; 1000])).is_ok() {}
    let late = peers
        .open(Side::A, ChannelConfig::new("l".repeat(9_000)))
        .unwrap();
    peers.close(Side::A, late);
    peers.run(500);
    assert!(peers.take(Side::A).contains(&Told::Closed(late)));
    let accepted = peers
        .take(Side::Z)
        .into_iter()
        .filter(|told| matches!(told, Told::Accepted(..)));
    assert_eq!(accepted.count(), 1, "the channel that was full");
}

/// A peer that denies a reset is asked a few times more within 13 s; then the channel is closed, and its number is not used again.
#[test]
fn a_denied_reset_is_not_requested_for_ever() {
    let mut config = Config::default();
    config.streams.outbound = 16;
    let mut script = Script::new(config, 1);
    script.set_up_with(lists(&[kind::RE_CONFIG]));
    let mut channels = Channels::new(Role::Client, limits());
    let handle = |script: &mut Script, channels: &mut Channels| {
        let events = script.events();
        script.act(|association, now| {
            for event in &events {
                channels.handle_event(association, now, event);
            }
            if channels.poll_timeout().is_some_and(|due| due <= now) {
                channels.handle_timeout(association, now);
            }
            std::iter::from_fn(|| channels.poll_event(association, now)).collect::<Vec<_>>()
        })
    };
    handle(&mut script, &mut channels);
    script.act(|association, now| {
        Channels::prepare(association, now);
        let config = ChannelConfig::new("denied").negotiated(2);
        let id = channels.open(association, now, config).unwrap();
        channels.close(association, now, id);
    });
    let (mut requests, mut told, begun) = (0, Vec::new(), script.now());
    let mut last = begun;
    for _ in 0..2_000 {
        while let Some(packet) = script.next_answer() {
            for chunk in packet.chunks {
                let Chunk::ReConfig(reconfig) = chunk else {
                    continue;
                };
                let raw = reconfig.parameters.iter().next().expect("a request").unwrap();
                let Ok(Parameter::OutgoingReset { request, .. }) = Parameter::decode(raw) else {
                    panic!("{reconfig:?}")
                };
                requests += 1;
                last = packet.at;
                let parameters = list(&[Parameter::ReConfigResponse {
                    sequence: request,
                    result: 2,
                    next_tsns: None,
                }]);
                script.send(&[Chunk::ReConfig(ReConfig { parameters })]);
            }
        }
        told.extend(handle(&mut script, &mut channels));
        script.advance(Duration::from_millis(10));
    }
    assert_eq!(requests, 8);
    assert!(last >= begun + Duration::from_millis(12_700));
    assert_eq!(told.last(), Some(&ChannelEvent::Closed(ChannelId(2))), "{told:?}");
}

/// The peer closes a channel whose messages fill the send buffer. Room in it is no news then. Found by the fuzz target `session`.
#[test]
fn a_closed_channel_has_no_news() {
    let mut config = Config::default();
    config.buffers.send = 50_000;
    config.buffers.growth = 1;
    let mut peers = Peers::new(
        LinkConfig::default().with_delay(Duration::from_millis(50)),
        config,
    );
    let id = peers.open(Side::A, ChannelConfig::new("x")).unwrap();
    peers.run(500);
    peers.take(Side::A);
    while peers.send(Side::A, id, binary(vec![7; 10_000])).is_ok() {}
    let now = peers.pair.now();
    let association = peers.pair.association_mut(Side::A);
    peers.channels[0].set_buffered_amount_low_threshold(association, now, id, 1000);
    peers.close(Side::Z, id);
    peers.run(5_000);
    assert_eq!(peers.take(Side::A), [Told::Closed(id)]);
}

/// A peer that restarts its association has forgotten the channels: they are closed, and the association ends. Found by the fuzz target
/// `session`.
#[test]
fn a_restart_ends_the_association() {
    let mut peers = Peers::plain();
    let ids = [Side::A, Side::Z].map(|side| peers.open(side, ChannelConfig::new("x")).unwrap());
    peers.run(100);
    peers.take(Side::Z);
    let port = peers.pair.association(Side::A).ports().0;
    peers.pair.reboot(Side::A);
    let options = anabranch_proto::ConnectOptions::default().local_port(port);
    peers.pair.begin_from(Side::A, options);
    let now = peers.pair.now();
    peers.channels[0] = Channels::new(Role::Client, limits());
    Channels::prepare(peers.pair.association_mut(Side::A), now);
    peers.run(100);
    let mut told = peers.take(Side::Z);
    told.sort_by_key(|told| matches!(told, Told::Closed(id) if *id == ids[1]));
    assert_eq!(told, ids.map(Told::Closed));
    assert_eq!(peers.pair.state(Side::Z), Some(AssociationState::Closed));
}

/// A number whose stream waits for a reset, because the peer used it in a wrong way, is not used for a channel. Found by the fuzz target
/// `session`.
#[test]
fn a_number_that_is_being_reset_is_not_free() {
    let link = LinkConfig::default().with_delay(Duration::from_millis(50));
    let mut peers = Peers::new(link, Config::default());
    let now = peers.pair.now();
    let options = SendOptions::default().ppid(Ppid(50));
    let association = peers.pair.association_mut(Side::Z);
    let sent = association.send(now, StreamId(0), Bytes::from_static(b"malformed"), options);
    sent.unwrap();
    peers.run(60);
    let negotiated = ChannelConfig::new("negotiated").negotiated(0);
    assert_eq!(peers.open(Side::A, negotiated), Err(OpenError::InvalidNumber(0)));
    let id = peers.open(Side::A, ChannelConfig::new("x")).unwrap();
    assert_eq!(id, ChannelId(2));
    peers.run(500);
    peers.send(Side::A, id, text("hello")).unwrap();
    peers.run(500);
    assert_eq!(peers.messages(Side::Z, id), [text("hello")]);
    assert!(!peers.take(Side::A).contains(&Told::Closed(id)));
}

/// The time after which a position is worthless.
const DEADLINE: Duration = Duration::from_millis(100);

/// So many copies of a position at least show that the deadline asks for copies: how many depends on how soon the rate of the path is known.
const SOME_COPIES: f64 = 0.2;

/// Side A sends 60 positions a second in the channel that `open` opens, for 30 s, beside a file, over a link of 8 Mbit/s, 30 ms each way and 1 %
/// loss. Returns the share that is at side Z within the deadline, and the copies of a position.
fn positions_in_time(open: impl Fn(&mut Peers) -> ChannelId) -> (f64, f64) {
    let link = "rate=8mbit,delay=30ms,queue=64000b,loss=1%"
        .parse()
        .expect("a link");
    let mut config = Config::default();
    config.scheduler = SchedulerKind::Priority;
    let mut peers = Peers::new(link, config);
    let file = peers.open(Side::A, ChannelConfig::new("file")).unwrap();
    let positions = open(&mut peers);
    peers.run(500);
    let (mut sent, mut in_time) = (0, 0);
    for millisecond in 0..31_000 {
        if millisecond % 16 == 0 && millisecond < 30_000 {
            let now = peers.pair.now().0.to_be_bytes();
            let message = binary([&now[..], &[0; 92]].concat());
            peers.send(Side::A, positions, message).unwrap();
            sent += 1;
        }
        while peers.channels[0].buffered_amount(peers.pair.association_mut(Side::A), file) < 256 << 10 {
            peers.send(Side::A, file, binary(vec![7; 16 << 10])).unwrap();
        }
        peers.run(1);
        let now = peers.pair.now();
        for message in peers.messages(Side::Z, positions) {
            let at = message.bytes[..8].try_into().expect("eight bytes");
            let took = now.saturating_duration_since(Timestamp(u64::from_be_bytes(at)));
            in_time += u32::from(took <= DEADLINE);
        }
    }
    let copies = peers.pair.association_mut(Side::A).counters().early_copies;
    (
        f64::from(in_time) / f64::from(sent),
        copies as f64 / f64::from(sent),
    )
}

#[test]
fn a_channel_with_a_deadline_is_in_time_beside_a_file() {
    let (share, copies) = positions_in_time(|peers| {
        let config = ChannelConfig::new("positions").deadline(DEADLINE);
        peers.open(Side::A, config).unwrap()
    });
    println!("{share:.4} in time, {copies:.2} copies");
    assert!(share >= 0.99 && copies > SOME_COPIES, "{share}, {copies}");
}

/// As a browser opens it, with `maxPacketLifeTime`.
#[test]
fn the_lifetime_of_the_peers_channel_is_a_deadline_if_the_application_says_so() {
    let run = |is_deadline| {
        positions_in_time(|peers| {
            let lifetime = Reliability::Lifetime(DEADLINE);
            let config = ChannelConfig::new("positions")
                .ordered(false)
                .reliability(lifetime);
            let id = peers.open(Side::Z, config).unwrap();
            peers.run(200);
            let association = peers.pair.association_mut(Side::A);
            peers.channels[0].set_lifetime_is_deadline(association, id, is_deadline);
            assert_eq!(
                peers.channels[0]
                    .config(id)
                    .map(|config| config.lifetime_is_deadline),
                Some(is_deadline)
            );
            id
        })
    };
    let ((plain, none), (share, copies)) = (run(false), run(true));
    println!("{plain:.4} in time without a deadline, {share:.4} with one and {copies:.2} copies");
    assert!(
        none == 0.0 && share > plain && share >= 0.99 && copies > SOME_COPIES,
        "{none}"
    );
}
