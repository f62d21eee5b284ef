//! How a fragment is written to the wire, and how messages are numbered: DATA (RFC 9260 §3.3.1), I-DATA (RFC 8260 §2.1), and
//! E-DATA and E-I-DATA (ECA-SCTP).

use anabranch_wire::chunk::{
    AckPolicy, Data, DataWriter, EData, EDataWriter, EIData, EIDataWriter, ExperimentalChunkTypes, IData,
    IDataWriter, MessageNumber, PathSequence, kind, padded,
};
use anabranch_wire::packet::PacketWriter;
use anabranch_wire::{Fsn, Mid, Ssn, Tsn};

use crate::message::Fragment;

/// The chunk types that carry user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum DataFormat {
    #[default]
    Data,
    /// I-DATA: messages have MIDs and fragments FSNs, so that fragments of several messages may alternate.
    IData,
    /// E-DATA: DATA with a path sequence number.
    EData,
    /// E-I-DATA: I-DATA with a path sequence number.
    EIData,
}

/// The fields of a chunk that do not come from its fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) tsn: Tsn,
    /// Asks for an acknowledgement at once (I bit, RFC 7053).
    pub(crate) immediate: bool,
    /// With ECA-SCTP: the name of the transmission.
    pub(crate) named: Option<TransmissionName>,
}

/// The name of a transmission in its chunk (ECA-SCTP).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransmissionName {
    pub(crate) number: PathSequence,
    /// The path on which it is to be acknowledged.
    pub(crate) policy: AckPolicy,
    /// The numbers of the experimental chunk types.
    pub(crate) types: ExperimentalChunkTypes,
}

/// The numbers of the next messages of a stream: SSN, or MIDs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageNumbers {
    ordered: u32,
    unordered: u32,
}

impl MessageNumbers {
    /// The number of the next ordered message.
    pub(super) fn ordered(&self) -> u32 {
        self.ordered
    }

    /// The number of the next unordered message; 0 without interleaving.
    pub(super) fn unordered(&self) -> u32 {
        self.unordered
    }
}

impl DataFormat {
    /// The chunk type on the wire, with these numbers of the experimental chunk types.
    pub(crate) fn kind(self, types: ExperimentalChunkTypes) -> u8 {
        match self {
            Self::Data => kind::DATA,
            Self::IData => kind::I_DATA,
            Self::EData => types.e_data,
            Self::EIData => types.e_i_data,
        }
    }

    /// Length of the chunk header in bytes, up to the user data.
    pub(crate) fn header_len(self) -> usize {
        match self {
            Self::Data => Data::HEADER_LEN,
            Self::IData => IData::HEADER_LEN,
            Self::EData => EData::HEADER_LEN,
            Self::EIData => EIData::HEADER_LEN,
        }
    }

    /// Length in a packet in bytes of a chunk with `payload` bytes of user data: with header and padding.
    pub(crate) fn wire_len(self, payload: usize) -> usize {
        padded(self.header_len() + payload)
    }

    /// Whether fragments of several messages may alternate.
    pub(crate) fn interleaves(self) -> bool {
        matches!(self, Self::IData | Self::EIData)
    }

    /// Whether every transmission has a path sequence number, and acknowledgements name transmissions.
    pub(crate) fn numbers_transmissions(self) -> bool {
        matches!(self, Self::EData | Self::EIData)
    }

    /// The number of the next message: its MID; or its SSN, which is 0 if the message is unordered.
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

    /// The number of a message as other chunks contain it.
    pub(crate) fn message_number(self, number: u32) -> MessageNumber {
        if self.interleaves() {
            MessageNumber::Mid(Mid(number))
        } else {
            MessageNumber::Ssn(Ssn(number as u16))
        }
    }

    /// Writes the chunk. `label` names its transmission exactly if this format has path sequence numbers.
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
        beginning: fragment.beginning && !fragment.repair,
        ending: fragment.ending && !fragment.repair,
        immediate: label.immediate || fragment.immediate,
        repair: fragment.repair,
        payload: &fragment.payload,
    }
}
