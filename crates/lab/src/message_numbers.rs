//! The messages to which data chunks belong. The laboratory numbers messages by their payload protocol identifiers. Each DATA chunk carries that
//! of its message, but of several I-DATA chunks only the first one does.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_proto::wire::chunk::{Chunk, IData};

use crate::traffic::message_of;

/// A chunk with user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataChunk {
    /// The number of its message; `None` if the first chunk of the message was not seen yet.
    pub(crate) number: Option<u32>,
    /// Whether it is the last chunk of its message, or the first one after the last.
    pub(crate) ending: bool,
}

/// A message as its I-DATA chunks name it: stream, unordered, MID.
type Key = (u16, bool, u32);

/// The messages of a host's data chunks, in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageNumbers {
    /// Interleaved messages of several chunks whose first chunk was seen.
    begun: BTreeMap<Key, u32>,
    /// Those whose last chunk was seen before the first one.
    ended: BTreeSet<Key>,
}

impl MessageNumbers {
    /// Reads the next chunk; `None` if it has no user data.
    pub(crate) fn read(&mut self, chunk: &Chunk) -> Option<DataChunk> {
        let data = match chunk {
            Chunk::Data(data) => data,
            Chunk::EData(chunk) => &chunk.data,
            Chunk::IData(data) => return Some(self.read_interleaved(data)),
            Chunk::EIData(chunk) => return Some(self.read_interleaved(&chunk.data)),
            _ => return None,
        };
        Some(DataChunk {
            number: Some(message_of(data.ppid)),
            ending: data.ending,
        })
    }

    fn read_interleaved(&mut self, data: &IData) -> DataChunk {
        let key = (data.stream.0, data.unordered, data.mid.0);
        if data.repair {
            return DataChunk {
                number: self.begun.get(&key).copied(),
                ending: false,
            };
        }
        let mut ending = data.ending;
        let number = if data.beginning {
            let number = message_of(data.ppid);
            if !data.ending {
                self.begun.insert(key, number);
                ending = self.ended.remove(&key);
            }
            Some(number)
        } else {
            self.begun.get(&key).copied()
        };
        if ending && number.is_none() {
            self.ended.insert(key);
        }
        DataChunk { number, ending }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::wire::{Fsn, Mid, Ppid, StreamId, Tsn};

    use super::*;

    /// A chunk of a message with this MID; its first chunk has the number 5.
    fn chunk(mid: u32, fsn: u32, (beginning, ending): (bool, bool)) -> Chunk {
        let first = message_of(Ppid(0)).wrapping_neg();
        Chunk::IData(IData {
            tsn: Tsn(fsn),
            stream: StreamId(1),
            mid: Mid(mid),
            ppid: Ppid(if beginning { first.wrapping_add(5) } else { 0 }),
            fsn: Fsn(fsn),
            unordered: false,
            beginning,
            ending,
            immediate: false,
            repair: false,
            payload: vec![0].into(),
        })
    }

    fn read(numbers: &mut MessageNumbers, chunk: &Chunk) -> (Option<u32>, bool) {
        let chunk = numbers.read(chunk).expect("user data");
        (chunk.number, chunk.ending)
    }

    #[test]
    fn later_chunks_have_the_number_of_the_first() {
        let mut numbers = MessageNumbers::default();
        assert_eq!(read(&mut numbers, &chunk(0, 0, (true, false))), (Some(5), false));
        assert_eq!(read(&mut numbers, &chunk(0, 1, (false, false))), (Some(5), false));
        assert_eq!(read(&mut numbers, &chunk(1, 1, (false, false))), (None, false));
        assert_eq!(read(&mut numbers, &chunk(0, 2, (false, true))), (Some(5), true));
        assert_eq!(read(&mut numbers, &chunk(2, 0, (true, true))), (Some(5), true));
    }

    #[test]
    fn a_message_whose_end_came_first_ends_with_its_beginning() {
        let mut numbers = MessageNumbers::default();
        assert_eq!(read(&mut numbers, &chunk(0, 1, (false, true))), (None, true));
        assert_eq!(read(&mut numbers, &chunk(0, 0, (true, false))), (Some(5), true));
    }
}
