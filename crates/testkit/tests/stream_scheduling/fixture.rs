//! The fixture of the stream scheduling tests: an endpoint with a hand-made peer, and packets as short text. "4:0" is the whole
//! message with SSN 0 of stream 4, "4:0(" its first fragment, "4:0-" a middle fragment and "4:0)" the last one.

use anabranch_proto::{
    Association, Config, Event, MessageId, Reliability, SchedulerKind, SendError, SendOptions, Stream,
    StreamId,
};
use anabranch_testkit::{Script, sack};
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};

/// User data that fills a packet of the default PMTU.
pub(crate) const FULL: usize = 1224;

pub(crate) struct Fixture {
    pub(crate) script: Script,
    /// The number of TSNs sent so far.
    left: u32,
}

/// Settings without heartbeats, with a window of this many packets.
pub(crate) fn config(scheduler: SchedulerKind, window: u32) -> Config {
    let mut config = anabranch_testkit::quiet();
    config.scheduler = scheduler;
    config.partial_reliability.offer = true;
    config.initial_window = Some(window);
    config.max_burst = 10_000;
    config
}

impl Fixture {
    /// Sets up an association with a peer that accepts 32 streams and supports FORWARD-TSN.
    pub(crate) fn new(config: Config) -> Self {
        let mut script = Script::new(config, 1);
        script.a_rwnd = 10_000_000;
        script.streams = 32;
        let kinds = vec![kind::FORWARD_TSN, kind::I_DATA, kind::I_FORWARD_TSN];
        let lists = Parameter::SupportedExtensions(kinds.into());
        script.set_up_with(ParametersBuilder::new().push(&lists).finish());
        Self { script, left: 0 }
    }

    /// Like [`Fixture::new`], with message interleaving.
    pub(crate) fn interleaving(scheduler: SchedulerKind, window: u32) -> Self {
        let mut config = config(scheduler, window);
        config.interleaving.offer = true;
        Self::new(config)
    }

    /// A `Fixture` whose window never delays a message.
    pub(crate) fn of(scheduler: SchedulerKind) -> Self {
        Self::new(config(scheduler, 400))
    }

    /// Calls `act` before any packet leaves.
    pub(crate) fn act(&mut self, act: impl FnOnce(&mut Line<'_>)) {
        self.script
            .act(|association, now| act(&mut Line { association, now }));
    }

    /// The packets sent since the last call, one string per packet.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        let mut packets = Vec::new();
        while let Some(answer) = self.script.next_answer() {
            let chunks: Vec<_> = answer.chunks.iter().map(name).collect();
            let first = self.script.endpoint_tsn;
            let tsns = answer.chunks.iter().filter_map(|chunk| match chunk {
                Chunk::Data(data) => Some(data.tsn.distance_from(first) + 1),
                Chunk::IData(data) => Some(data.tsn.distance_from(first) + 1),
                _ => None,
            });
            self.left = tsns.fold(self.left, u32::max);
            packets.push(chunks.join(" "));
        }
        packets
    }

    /// The messages that were abandoned unsent since the last call.
    pub(crate) fn abandoned(&mut self) -> Vec<MessageId> {
        let told = self.script.events().into_iter().filter_map(|event| match event {
            Event::Abandoned(undelivered) => Some(undelivered.message),
            _ => None,
        });
        told.collect()
    }

    /// The peer acknowledges all packets sent.
    pub(crate) fn acknowledge(&mut self) {
        let all = self.script.endpoint_tsn.plus(self.left).minus(1);
        self.script.send(&[sack(all)]);
    }
}

fn name(chunk: &Chunk) -> String {
    let (stream, number, edges) = match chunk {
        Chunk::Data(data) => (data.stream, data.ssn.0.into(), (data.beginning, data.ending)),
        Chunk::IData(data) => (data.stream, data.mid.0, (data.beginning, data.ending)),
        _ => return anabranch_testkit::arrows::describe_chunk(chunk),
    };
    let part = match edges {
        (true, true) => "",
        (true, false) => "(",
        (false, false) => "-",
        (false, true) => ")",
    };
    format!("{}:{number}{part}", stream.0)
}

/// The endpoint's application, which acts before any packet leaves.
pub(crate) struct Line<'a> {
    pub(crate) association: &'a mut Association,
    now: anabranch_proto::Timestamp,
}

impl Line<'_> {
    /// Sends a message of `len` bytes on each of these streams.
    pub(crate) fn send(&mut self, streams: &[u16], len: usize) {
        for stream in streams {
            self.send_with(*stream, len, Reliability::Reliable);
        }
    }

    pub(crate) fn send_with(&mut self, stream: u16, len: usize, reliability: Reliability) -> MessageId {
        self.offer(stream, len, reliability).expect("send")
    }

    pub(crate) fn offer(
        &mut self,
        stream: u16,
        len: usize,
        reliability: Reliability,
    ) -> Result<MessageId, SendError> {
        let options = SendOptions::default().reliability(reliability);
        self.association
            .send(self.now, StreamId(stream), vec![7; len].into(), options)
    }

    pub(crate) fn send_part(&mut self, stream: u16, len: usize, end: bool) {
        self.association
            .send_part(
                self.now,
                StreamId(stream),
                vec![7; len].into(),
                SendOptions::default(),
                end,
            )
            .expect("send");
    }

    pub(crate) fn stream(&mut self, id: StreamId) -> Stream<'_> {
        self.association.stream(self.now, id)
    }

    /// Sets priorities: stream, class.
    pub(crate) fn prioritise(&mut self, priorities: &[(u16, u16)]) {
        for &(stream, priority) in priorities {
            self.association
                .set_stream_priority(StreamId(stream), priority)
                .expect("a priority");
        }
    }
}
