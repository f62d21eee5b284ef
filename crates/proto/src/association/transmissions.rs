//! Data whose transmissions have numbers (ECA-SCTP): E-DATA and E-I-DATA.

use anabranch_wire::chunk::{EData, EIData};

use super::Association;
use super::arrival::Arrival;
use super::packet_notes::PacketNotes;
use crate::receive::Origin;
use crate::send::DataFormat;
use crate::time::Timestamp;

/// E-DATA arrived in this packet.
pub(super) fn on_e_data(
    association: &mut Association,
    now: Timestamp,
    chunk: EData,
    packet: (usize, Origin),
    notes: &mut PacketNotes,
) {
    if association.capabilities.data_format() != DataFormat::EData {
        return association.abort_for_violation("E-DATA where messages interleave");
    }
    let carried = Some((chunk.transmission, chunk.policy));
    association.on_data(now, Arrival::of_data(chunk.data, carried, packet), notes);
}

/// E-I-DATA arrived in this packet.
pub(super) fn on_e_i_data(
    association: &mut Association,
    now: Timestamp,
    chunk: EIData,
    packet: (usize, Origin),
    notes: &mut PacketNotes,
) {
    if association.capabilities.data_format() != DataFormat::EIData {
        return association.abort_for_violation("E-I-DATA where messages do not interleave");
    }
    let carried = Some((chunk.transmission, chunk.policy));
    association.on_data(now, Arrival::of_i_data(chunk.data, carried, packet), notes);
}
