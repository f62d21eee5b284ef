//! When the kernel of the receiving host received each message. The application reads a message later: the host must first schedule and
//! run the endpoint and the application. In the simulator this takes no time, so a delay on the testbed ends at the kernel's time as well.

use std::collections::{BTreeSet, HashMap};

use anabranch_proto::Timestamp;
use anabranch_proto::wire::chunk::{Chunk, Data, EData, EIData, IData};
use anabranch_proto::wire::packet::Packet;
use bytes::Bytes;

use crate::traffic::message_of;

/// The messages that reached the host, by the packets that a capture saw.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Messages that are not complete yet.
    partial: HashMap<Key, Partial>,
    /// Complete messages, by number.
    complete: HashMap<u32, Complete>,
    /// Packets that let the receiver deliver beyond abandoned messages.
    forwards: Vec<Timestamp>,
}

/// Distinguishes the messages that are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The number of a message, which every DATA chunk has.
    Number(u32),
    /// Stream, U bit and MID of an I-DATA chunk. Only the first fragment has the number.
    Interleaved(u16, bool, u32),
}

#[derive(Debug, Default)]
struct Partial {
    /// The fragments that arrived: TSNs, or FSNs of I-DATA chunks.
    fragments: BTreeSet<u32>,
    first: Option<u32>,
    last: Option<u32>,
    number: Option<u32>,
}

impl Partial {
    fn is_complete(&self) -> bool {
        let ends = self.first.zip(self.last);
        ends.is_some_and(|(first, last)| last.wrapping_sub(first) as usize + 1 == self.fragments.len())
    }
}

/// When a message was complete, and the stream and sequence number of an ordered message.
#[derive(Clone, Copy, Debug)]
struct Complete {
    at: Timestamp,
    order: Option<(u16, u32)>,
}

/// A fragment, in the form that both kinds of chunks have.
struct Fragment {
    key: Key,
    place: u32,
    beginning: bool,
    ending: bool,
    /// The number of the message, if the fragment has it.
    number: Option<u32>,
    order: Option<(u16, u32)>,
}

impl Fragment {
    fn of(chunk: &Chunk) -> Option<Self> {
        match chunk {
            Chunk::Data(data) | Chunk::EData(EData { data, .. }) => Some(Self::of_data(data)),
            Chunk::IData(data) | Chunk::EIData(EIData { data, .. }) if !data.repair => {
                Some(Self::of_i_data(data))
            }
            _ => None,
        }
    }

    fn of_data(data: &Data) -> Self {
        let number = message_of(data.ppid);
        Self {
            key: Key::Number(number),
            place: data.tsn.0,
            beginning: data.beginning,
            ending: data.ending,
            number: Some(number),
            order: (!data.unordered).then_some((data.stream.0, u32::from(data.ssn.0))),
        }
    }

    fn of_i_data(data: &IData) -> Self {
        Self {
            key: Key::Interleaved(data.stream.0, data.unordered, data.mid.0),
            place: data.fsn.0,
            beginning: data.beginning,
            ending: data.ending,
            number: data.beginning.then_some(message_of(data.ppid)),
            order: (!data.unordered).then_some((data.stream.0, data.mid.0)),
        }
    }
}

impl Arrivals {
    /// Adds an SCTP packet that reached the host. A damaged packet counts for nothing, as in the endpoint.
    pub(crate) fn on_packet(&mut self, at: Timestamp, packet: Bytes) {
        let Ok(packet) = Packet::parse(packet) else {
            return;
        };
        for chunk in packet
            .chunks()
            .flatten()
            .filter_map(|raw| Chunk::decode(raw).ok())
        {
            match chunk {
                Chunk::ForwardTsn(_)
                | Chunk::IForwardTsn(_)
                | Chunk::SelectiveForwardTsn(_)
                | Chunk::ForwardPsn(_) => self.forwards.push(at),
                chunk => self.add(at, Fragment::of(&chunk)),
            }
        }
    }

    fn add(&mut self, at: Timestamp, fragment: Option<Fragment>) {
        let Some(fragment) = fragment else {
            return;
        };
        let partial = self.partial.entry(fragment.key).or_default();
        partial.fragments.insert(fragment.place);
        partial.number = partial.number.or(fragment.number);
        if fragment.beginning {
            partial.first = Some(fragment.place);
        }
        if fragment.ending {
            partial.last = Some(fragment.place);
        }
        if !partial.is_complete() {
            return;
        }
        let number = partial.number;
        self.partial.remove(&fragment.key);
        if let Some(number) = number {
            let order = fragment.order;
            // A duplicate of the whole message changes nothing.
            self.complete.entry(number).or_insert(Complete { at, order });
        }
    }

    /// For each message that the application read, in the order of reading: when the kernel received the packet that let the endpoint
    /// deliver the message; `None` if the capture did not see the message. An ordered message is not deliverable before the earlier
    /// messages of its stream. If one of them was abandoned, the last packet that told of abandoned messages counts as well.
    pub(crate) fn deliverable(&self, read: &[(Timestamp, u32)]) -> Vec<Option<Timestamp>> {
        let mut streams: HashMap<u16, (u32, Timestamp)> = HashMap::new();
        let one = |(read, number): &(Timestamp, u32)| {
            let message = self.complete.get(number)?;
            let mut at = message.at;
            if let Some((stream, sequence)) = message.order {
                let expected = match streams.get(&stream) {
                    // Sequence numbers of DATA chunks have 16 bits.
                    Some((last, earlier)) => {
                        at = at.max(*earlier);
                        [last.wrapping_add(1), last.wrapping_add(1) & 0xffff]
                    }
                    None => [0; 2],
                };
                if !expected.contains(&sequence) {
                    let forwards = &self.forwards[..self.forwards.partition_point(|at| at <= read)];
                    at = forwards.last().map_or(at, |forward| at.max(*forward));
                }
                streams.insert(stream, (sequence, at));
            }
            Some(at.min(*read))
        };
        read.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::wire::chunk::{EncodeChunk, ForwardTsn};
    use anabranch_proto::wire::packet::{CommonHeader, PacketWriter};
    use anabranch_proto::wire::{Fsn, Mid, Ssn, StreamId, Tsn, VerificationTag};

    use super::*;
    use crate::traffic::ppid_of;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn packet(chunk: &impl EncodeChunk) -> Bytes {
        let header = CommonHeader {
            source_port: 1,
            destination_port: 2,
            verification_tag: VerificationTag(3),
        };
        let mut buffer = Vec::new();
        let mut writer = PacketWriter::new(&mut buffer, header, 1500);
        writer.push(chunk);
        let _ = writer.finish();
        buffer.into()
    }

    /// A fragment of message `number` on stream 1; `ends` tells whether it is the first and whether it is the last.
    fn data(tsn: u32, number: usize, ssn: Option<u16>, ends: (bool, bool)) -> Data {
        Data {
            tsn: Tsn(tsn),
            stream: StreamId(1),
            ssn: Ssn(ssn.unwrap_or_default()),
            ppid: ppid_of(number),
            unordered: ssn.is_none(),
            beginning: ends.0,
            ending: ends.1,
            immediate: false,
            payload: Bytes::from_static(b"content"),
        }
    }

    /// The result of messages that the application read in this order, 100 ms after the start.
    fn deliverable(arrivals: &Arrivals, numbers: &[u32]) -> Vec<Option<Timestamp>> {
        let read: Vec<_> = numbers.iter().map(|number| (at(100), *number)).collect();
        arrivals.deliverable(&read)
    }

    #[test]
    fn a_message_counts_from_its_last_missing_fragment() {
        let mut arrivals = Arrivals::default();
        // TSNs wrap. A duplicate and the fragments of another message lie between.
        let first = data(u32::MAX, 0, None, (true, false));
        arrivals.on_packet(at(1), packet(&first));
        arrivals.on_packet(at(2), packet(&data(1, 0, None, (false, true))));
        arrivals.on_packet(at(3), packet(&data(2, 1, None, (true, true))));
        arrivals.on_packet(at(4), packet(&first));
        assert_eq!(deliverable(&arrivals, &[0]), [None], "a fragment is missing");
        arrivals.on_packet(at(5), packet(&data(0, 0, None, (false, false))));
        arrivals.on_packet(at(6), packet(&data(2, 1, None, (true, true))));
        assert_eq!(deliverable(&arrivals, &[0, 1]), [Some(at(5)), Some(at(3))]);
    }

    #[test]
    fn interleaved_fragments_are_told_apart_by_their_message() {
        let fragment = |tsn, mid, fsn, number, ends: (bool, bool)| {
            packet(&IData {
                tsn: Tsn(tsn),
                stream: StreamId(1),
                mid: Mid(mid),
                ppid: ppid_of(number),
                fsn: Fsn(fsn),
                unordered: true,
                beginning: ends.0,
                ending: ends.1,
                immediate: false,
                repair: false,
                payload: Bytes::from_static(b"content"),
            })
        };
        let mut arrivals = Arrivals::default();
        arrivals.on_packet(at(1), fragment(1, 0, 0, 7, (true, false)));
        arrivals.on_packet(at(2), fragment(2, 1, 0, 8, (true, false)));
        arrivals.on_packet(at(3), fragment(3, 0, 1, 7, (false, true)));
        arrivals.on_packet(at(4), fragment(4, 1, 1, 8, (false, true)));
        assert_eq!(deliverable(&arrivals, &[7, 8]), [Some(at(3)), Some(at(4))]);
    }

    #[test]
    fn an_ordered_message_counts_from_the_earlier_messages_of_its_stream() {
        let mut arrivals = Arrivals::default();
        arrivals.on_packet(at(1), packet(&data(2, 1, Some(1), (true, true))));
        arrivals.on_packet(at(2), packet(&data(3, 2, None, (true, true))));
        arrivals.on_packet(at(9), packet(&data(1, 0, Some(0), (true, true))));
        let expected = [2, 9, 9].map(|millis| Some(at(millis)));
        assert_eq!(deliverable(&arrivals, &[2, 0, 1]), expected);
    }

    #[test]
    fn a_message_behind_an_abandoned_one_counts_from_the_forward_tsn() {
        let mut arrivals = Arrivals::default();
        arrivals.on_packet(at(1), packet(&data(2, 1, Some(1), (true, true))));
        arrivals.on_packet(at(20), packet(&ForwardTsn::new(Tsn(1), [])));
        arrivals.on_packet(at(30), packet(&data(3, 2, Some(2), (true, true))));
        arrivals.on_packet(at(200), packet(&ForwardTsn::new(Tsn(3), [])));
        assert_eq!(deliverable(&arrivals, &[1, 2]), [Some(at(20)), Some(at(30))]);
    }

    #[test]
    fn damaged_packets_and_unknown_messages_have_no_time() {
        let mut arrivals = Arrivals::default();
        let mut damaged = packet(&data(1, 0, None, (true, true))).to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        arrivals.on_packet(at(1), damaged.into());
        arrivals.on_packet(at(2), Bytes::from_static(b"short"));
        assert_eq!(deliverable(&arrivals, &[0]), [None]);
    }
}
