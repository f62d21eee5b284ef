//! An endpoint and a hand-made peer that negotiated RE-CONFIG.

use core::time::Duration;

use anabranch_proto::{
    Config, Event, MessagePart, ReconfigurationError, ReconfigurationEvent, Reconfigure, SendOptions,
    StreamId, StreamSelection,
};
use anabranch_testkit::{Script, fixture::lists, quiet, sack};
use anabranch_wire::chunk::{Chunk, ReConfig, kind};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder, StreamList};
use anabranch_wire::{Ssn, Tsn};
use bytes::Bytes;

/// Settings without heartbeats and probes, with RE-CONFIG offered.
pub(crate) fn config() -> Config {
    let mut config = quiet();
    config.reconfiguration.offer = true;
    config
}

/// Streams of a request.
pub(crate) fn only(streams: &[u16]) -> StreamSelection {
    StreamSelection::Listed(streams.iter().copied().map(StreamId).collect())
}

pub(crate) struct Fixture {
    pub(crate) script: Script,
    /// The peer's Initial TSN, and the endpoint's.
    pub(crate) peer: u32,
    pub(crate) own: u32,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(config(), &[kind::RE_CONFIG])
    }

    /// With a peer that lists these chunk types.
    pub(crate) fn with(config: Config, kinds: &[u8]) -> Self {
        Self::with_parameters(config, 10, lists(kinds))
    }

    /// With a peer that sends these parameters, and this many streams in each direction.
    pub(crate) fn with_parameters(mut config: Config, streams: u16, parameters: Parameters) -> Self {
        config.streams.outbound = config.streams.outbound.max(streams);
        config.streams.max_inbound = config.streams.max_inbound.max(streams);
        let mut script = Script::new(config, 1);
        script.streams = streams;
        let peer = script.tsn.0;
        script.set_up_with(parameters);
        script.events();
        let own = script.endpoint_tsn.0;
        Self { script, peer, own }
    }

    /// Makes a request.
    pub(crate) fn ask(
        &mut self,
        request: impl FnOnce(Reconfigure<'_>) -> Result<(), ReconfigurationError>,
    ) -> Result<(), ReconfigurationError> {
        self.script
            .act(|association, now| request(association.reconfigure(now)))
    }

    /// Sends a short ordered message.
    pub(crate) fn say(&mut self, stream: u16) {
        self.say_with(stream, SendOptions::default());
    }

    pub(crate) fn say_with(&mut self, stream: u16, options: SendOptions) {
        self.script.act(|association, now| {
            let message = Bytes::from_static(b"message");
            association
                .send(now, StreamId(stream), message, options)
                .expect("send");
        });
    }

    /// The peer acknowledges the TSNs up to this one.
    pub(crate) fn acknowledge(&mut self, tsn: u32) {
        self.script.send(&[sack(Tsn(self.own.wrapping_add(tsn)))]);
    }

    /// A RE-CONFIG of the peer.
    pub(crate) fn peer_sends(&mut self, parameters: &[Parameter]) {
        let builder = parameters
            .iter()
            .fold(ParametersBuilder::new(), ParametersBuilder::push);
        let chunk = Chunk::ReConfig(ReConfig {
            parameters: builder.finish(),
        });
        self.script.send(&[chunk]);
    }

    /// The peer's Outgoing SSN Reset Request that answers no request.
    pub(crate) fn outgoing(&self, request: u32, last_tsn: u32, streams: &[u16]) -> Parameter {
        self.outgoing_answering(request, u32::MAX, last_tsn, streams)
    }

    pub(crate) fn outgoing_answering(
        &self,
        request: u32,
        response: u32,
        last_tsn: u32,
        streams: &[u16],
    ) -> Parameter {
        Parameter::OutgoingReset {
            request: self.peer.wrapping_add(request),
            response: self.own.wrapping_add(response),
            last_tsn: Tsn(self.peer.wrapping_add(last_tsn)),
            streams: StreamList::from_streams(streams.iter().copied().map(StreamId)),
        }
    }

    pub(crate) fn incoming(&self, request: u32, streams: &[u16]) -> Parameter {
        Parameter::IncomingReset {
            request: self.peer.wrapping_add(request),
            streams: StreamList::from_streams(streams.iter().copied().map(StreamId)),
        }
    }

    pub(crate) fn response(&self, sequence: u32, result: u32) -> Parameter {
        Parameter::ReConfigResponse {
            sequence: self.own.wrapping_add(sequence),
            result,
            next_tsns: None,
        }
    }

    pub(crate) fn add_outgoing(&self, request: u32, count: u16) -> Parameter {
        Parameter::AddOutgoing {
            request: self.peer.wrapping_add(request),
            count,
        }
    }

    pub(crate) fn add_incoming(&self, request: u32, count: u16) -> Parameter {
        Parameter::AddIncoming {
            request: self.peer.wrapping_add(request),
            count,
        }
    }

    pub(crate) fn tsn_reset(&self, request: u32) -> Parameter {
        Parameter::TsnReset {
            request: self.peer.wrapping_add(request),
        }
    }

    /// DATA of the peer with this TSN and an ordered message.
    pub(crate) fn peer_data(&mut self, tsn: u32, stream: u16, ssn: u16) {
        let Chunk::Data(mut data) = self.script.data(stream, ssn, format!("{stream}:{ssn} {tsn}")) else {
            unreachable!("DATA")
        };
        data.tsn = Tsn(self.peer.wrapping_add(tsn));
        data.ssn = Ssn(ssn);
        self.script.send(&[Chunk::Data(data)]);
    }

    /// The packets since the last call, without SACKs: "DATA 0 (1:0)" with TSN, stream and SSN; "OUT 0 answers -1 after 3 [1 2]" with
    /// the sequence numbers, Sender's Last Assigned TSN and streams; "RESPONSE 0 = 1" with sequence number and result.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        let mut packets = Vec::new();
        while let Some(answer) = self.script.next_answer() {
            let chunks = answer.chunks.iter().filter_map(|chunk| self.name(chunk));
            let text = chunks.collect::<Vec<_>>().join(", ");
            if !text.is_empty() {
                packets.push(text);
            }
        }
        packets
    }

    fn name(&self, chunk: &Chunk) -> Option<String> {
        let own = |number: u32| number.wrapping_sub(self.own) as i32;
        let peer = |number: u32| number.wrapping_sub(self.peer) as i32;
        Some(match chunk {
            Chunk::Data(data) => format!("DATA {} ({}:{})", own(data.tsn.0), data.stream.0, data.ssn.0),
            Chunk::IData(data) => {
                let unordered = if data.unordered { "u" } else { "" };
                format!(
                    "I-DATA {} ({}:{unordered}{})",
                    own(data.tsn.0),
                    data.stream.0,
                    data.mid.0
                )
            }
            Chunk::ForwardTsn(forward) => format!("FORWARD-TSN {}", own(forward.new_cumulative_tsn.0)),
            Chunk::Sack(_) | Chunk::NrSack(_) => return None,
            Chunk::ReConfig(chunk) => {
                let parameters = chunk.parameters.iter();
                let parameters = parameters.map(|raw| Parameter::decode(raw.expect("whole")).expect("read"));
                let texts = parameters.map(|parameter| match parameter {
                    Parameter::OutgoingReset {
                        request,
                        response,
                        last_tsn,
                        streams,
                    } => format!(
                        "OUT {} answers {} after {} {}",
                        own(request),
                        peer(response),
                        own(last_tsn.0),
                        text(&streams)
                    ),
                    Parameter::IncomingReset { request, streams } => {
                        format!("IN {} {}", own(request), text(&streams))
                    }
                    Parameter::TsnReset { request } => format!("TSN {}", own(request)),
                    Parameter::ReConfigResponse {
                        sequence,
                        result,
                        next_tsns,
                    } => {
                        let tsns =
                            next_tsns.map(|(first, second)| format!(" {} {}", own(first.0), peer(second.0)));
                        format!(
                            "RESPONSE {} = {result}{}",
                            peer(sequence),
                            tsns.unwrap_or_default()
                        )
                    }
                    Parameter::AddOutgoing { request, count } => format!("ADD-OUT {} +{count}", own(request)),
                    Parameter::AddIncoming { request, count } => format!("ADD-IN {} +{count}", own(request)),
                    other => format!("{other:?}"),
                });
                texts.collect::<Vec<_>>().join(" & ")
            }
            other => anabranch_testkit::arrows::describe_chunk(other),
        })
    }

    /// The reconfiguration events since the last call.
    pub(crate) fn events(&mut self) -> Vec<ReconfigurationEvent> {
        let events = self.script.events().into_iter();
        events
            .filter_map(|event| match event {
                Event::Reconfiguration(event) => Some(event),
                _ => None,
            })
            .collect()
    }

    /// The messages that the application can read, which must not read by itself: text and number.
    pub(crate) fn read(&mut self) -> Vec<(String, u64)> {
        let mut read = Vec::new();
        while let Some(part) = self.script.act(|association, now| association.recv(now)) {
            let MessagePart { message, payload, .. } = part;
            read.push((
                String::from_utf8_lossy(&payload.into_bytes()).into_owned(),
                message,
            ));
        }
        read
    }

    pub(crate) fn advance(&mut self, millis: u64) {
        self.script.advance(Duration::from_millis(millis));
    }
}

fn text(streams: &StreamList) -> String {
    if streams.is_all() {
        return "all".to_owned();
    }
    let streams: Vec<_> = streams.iter().map(|stream| stream.0.to_string()).collect();
    format!("[{}]", streams.join(" "))
}
