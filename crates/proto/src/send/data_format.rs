//! How a fragment is written to the wire, and how messages are numbered: the seam, with DATA (RFC 9260 §3.3.1), I-DATA
//! (RFC 8260 §2.1) and ECA-SCTP's forms of both in it.

use anabranch_wire::chunk::{
    AckPolicy, Data, DataWriter, EData, EDataWriter, EIData, EIDataWriter, IData, IDataWriter, MessageNumber,
    OwnChunkTypes, PathSequence, padded,
};
use anabranch_wire::packet::PacketWriter;
use anabranch_wire::{Fsn, Mid, Ssn, Tsn};

use crate::message::Fragment;

/// The chunk types that carry user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum DataFormat {
    #[default]
    Data,
    /// Every message has a number, and every fragment one within it: fragments of several messages may alternate.
    IData,
    /// DATA with the transmission's number in front.
    EData,
    /// I-DATA with it.
    EIData,
}

/// What a chunk says beside its fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) tsn: Tsn,
    /// An answer is wanted at once (RFC 7053).
    pub(crate) immediate: bool,
    /// Where transmissions have numbers: what names this one.
    pub(crate) named: Option<TransmissionName>,
}

/// What the chunk of a transmission that has a number says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransmissionName {
    pub(crate) number: PathSequence,
    /// Where it is to be acknowledged.
    pub(crate) policy: AckPolicy,
    /// The numbers of chunk types that are not a standard's.
    pub(crate) types: OwnChunkTypes,
}

/// The numbers of the next messages of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageNumbers {
    ordered: u32,
    unordered: u32,
}

impl DataFormat {
    /// Bytes of the chunk before the user data.
    pub(crate) fn header_len(self) -> usize {
        match self {
            Self::Data => Data::HEADER_LEN,
            Self::IData => IData::HEADER_LEN,
            Self::EData => EData::HEADER_LEN,
            Self::EIData => EIData::HEADER_LEN,
        }
    }

    /// Bytes that `payload` bytes of user data take in a packet: with the chunk's header and padding.
    pub(crate) fn wire_len(self, payload: usize) -> usize {
        padded(self.header_len() + payload)
    }

    /// Whether fragments of other messages may come between those of one.
    pub(crate) fn interleaves(self) -> bool {
        matches!(self, Self::IData | Self::EIData)
    }

    /// Whether every transmission has a number on its path, and acknowledgements name transmissions.
    pub(crate) fn numbers_transmissions(self) -> bool {
        matches!(self, Self::EData | Self::EIData)
    }

    /// The number of the next message: its SSN, 0 if it is unordered and so has none; or its MID.
    pub(super) fn number(self, next: &MessageNumbers, unordered: bool) -> u32 {
        match (self.interleaves(), unordered) {
            (false, true) => 0,
            (true, true) => next.unordered,
            (_, false) => next.ordered,
        }
    }

    /// A message has used its number.
    pub(super) fn count(self, next: &mut MessageNumbers, unordered: bool) {
        match (self.interleaves(), unordered) {
            (false, true) => {}
            (false, false) => next.ordered = u32::from((next.ordered as u16).wrapping_add(1)),
            (true, true) => next.unordered = next.unordered.wrapping_add(1),
            (true, false) => next.ordered = next.ordered.wrapping_add(1),
        }
    }

    /// A message's number as other chunks have it.
    pub(crate) fn message_number(self, number: u32) -> MessageNumber {
        if self.interleaves() {
            MessageNumber::Mid(Mid(number))
        } else {
            MessageNumber::Ssn(Ssn(number as u16))
        }
    }

    /// Writes the chunk; `label` names its transmission exactly where this format has numbers for them.
    pub(crate) fn write(self, fragment: &Fragment, label: &Label, packet: &mut PacketWriter<'_>) {
        match (self.interleaves(), label.named) {
            (false, None) => packet.push(&data(fragment, label)),
            (true, None) => packet.push(&i_data(fragment, label)),
            (false, Some(name)) => packet.push_as(
                name.types.e_data,
                &EDataWriter {
                    transmission: name.number,
                    policy: name.policy,
                    data: data(fragment, label),
                },
            ),
            (true, Some(name)) => packet.push_as(
                name.types.e_i_data,
                &EIDataWriter {
                    transmission: name.number,
                    policy: name.policy,
                    data: i_data(fragment, label),
                },
            ),
        }
    }
}

fn data<'a>(fragment: &'a Fragment, label: &Label) -> DataWriter<'a> {
    DataWriter {
        tsn: label.tsn,
        stream: fragment.stream,
        ssn: Ssn(fragment.sequence as u16),
        ppid: fragment.ppid,
        unordered: fragment.unordered,
        beginning: fragment.beginning,
        ending: fragment.ending,
        immediate: label.immediate || fragment.immediate,
        payload: &fragment.payload,
    }
}

fn i_data<'a>(fragment: &'a Fragment, label: &Label) -> IDataWriter<'a> {
    IDataWriter {
        tsn: label.tsn,
        stream: fragment.stream,
        mid: Mid(fragment.sequence),
        ppid: fragment.ppid,
        fsn: Fsn(fragment.fsn),
        unordered: fragment.unordered,
        beginning: fragment.beginning,
        ending: fragment.ending,
        immediate: label.immediate || fragment.immediate,
        payload: &fragment.payload,
    }
}
