//! Chunks that tell the receiver which data it need not wait for: FORWARD-TSN (RFC 3758 §3.6), I-FORWARD-TSN (RFC 8260 §2.3.1), selective
//! forward TSN and extended FORWARD-TSN.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{
    ExtendedForwardTsn, ForwardTsn, IForwardTsn, MessageNumber, SelectiveForwardTsn,
};

use super::packet_notes::PacketNotes;
use super::{Association, Capabilities};
use crate::receive::Receiver;
use crate::time::Timestamp;

pub(super) fn on_forward_tsn(
    association: &mut Association,
    now: Timestamp,
    forward: &ForwardTsn,
    notes: &mut PacketNotes,
) {
    let skipped = forward.skipped();
    let skipped = skipped.map(|skipped| (skipped.stream, skipped.ssn.0.into()));
    on_forward(association, now, forward.new_cumulative_tsn, notes, |receiver| {
        receiver.on_forward(forward.new_cumulative_tsn, skipped)
    });
}

pub(super) fn on_i_forward_tsn(
    association: &mut Association,
    now: Timestamp,
    forward: &IForwardTsn,
    notes: &mut PacketNotes,
) {
    on_forward(association, now, forward.new_cumulative_tsn, notes, |receiver| {
        receiver.on_i_forward(forward.new_cumulative_tsn, forward.skipped())
    });
}

pub(super) fn on_extended_forward_tsn(
    association: &mut Association,
    now: Timestamp,
    forward: &ExtendedForwardTsn,
    notes: &mut PacketNotes,
) {
    let base = forward.cumulative_tsn;
    if !association.reconfiguration.is_former_data(now, base) {
        notes.data = true;
        association.counters.extended_forwards_received += 1;
        association.receiver.on_extended_forward(base, forward.blocks());
    }
}

/// A FORWARD-TSN (RFC 3758 §3.6) or I-FORWARD-TSN (RFC 8260 §2.3.1) arrived: acknowledged by the same rules as DATA.
fn on_forward(
    association: &mut Association,
    now: Timestamp,
    tsn: Tsn,
    notes: &mut PacketNotes,
    forward: impl FnOnce(&mut Receiver) -> Result<(), &'static str>,
) {
    if association.reconfiguration.is_former_data(now, tsn) {
        return;
    }
    notes.data = true;
    association.counters.forward_tsns_received += 1;
    if let Err(what) = forward(&mut association.receiver) {
        association.abort_for_violation(what);
    }
}

/// A notice of selective forward TSN arrived.
pub(super) fn on_selective_forward_tsn(association: &mut Association, notice: &SelectiveForwardTsn) {
    let interleaves = association.capabilities.has(Capabilities::INTERLEAVING);
    let number = match notice.number {
        MessageNumber::Ssn(ssn) if !interleaves => ssn.0.into(),
        MessageNumber::Mid(mid) if interleaves => mid.0,
        _ => {
            association.abort_for_violation("a selective forward TSN with the wrong kind of number");
            return;
        }
    };
    association.counters.selective_notices_received += 1;
    association
        .receiver
        .on_selective_forward(notice.tsn, notice.stream, number);
}
