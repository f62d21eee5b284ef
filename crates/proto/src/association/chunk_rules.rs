//! The conditions under which a chunk is processed, by its type: the negotiated extension that it belongs to (§3.2), and the states of the
//! association in which it means something (§4).

use anabranch_wire::chunk::{experimental_kind, kind};

use super::Capabilities;
use crate::association_state::AssociationState;
use crate::association_state::permit::{ANYTHING, EXCHANGE_DATA, NOTHING, SEND_DATA, TAKE_DATA};

/// The conditions under which a chunk is processed.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    /// Without this extension the chunk type is unknown, even if this endpoint could read the chunk.
    pub(super) extension: Capabilities,
    /// In a state that permits none of this the chunk is discarded.
    pub(super) permit: u8,
}

/// The rule for a chunk type, which for an experimental chunk is its type in `anabranch-wire`. The types of RFC 9260 need no extension, and their
/// handlers know the states.
pub(super) fn rule(kind: u8) -> Rule {
    let (extension, permit) = match kind {
        kind::NR_SACK => (Capabilities::NR_SACK, SEND_DATA),
        kind::FORWARD_TSN => (Capabilities::PARTIAL_RELIABILITY, TAKE_DATA),
        kind::I_FORWARD_TSN => (Capabilities::I_FORWARD_TSN, TAKE_DATA),
        kind::ECNE => (Capabilities::ECN, SEND_DATA),
        kind::CWR => (Capabilities::ECN, ANYTHING),
        // The chunks of a DTLS chunk are handled instead of it: here it is within another one.
        kind::DTLS => (Capabilities::PROTECTION, NOTHING),
        kind::RE_CONFIG => (Capabilities::RECONFIGURATION, ANYTHING),
        kind::ASCONF | kind::ASCONF_ACK => (Capabilities::DYNAMIC_ADDRESSES, ANYTHING),
        experimental_kind::SELECTIVE_FORWARD_TSN => (Capabilities::SELECTIVE_FORWARD_TSN, TAKE_DATA),
        experimental_kind::EXTENDED_FORWARD_TSN => (Capabilities::EXTENDED_FORWARD_TSN, TAKE_DATA),
        experimental_kind::E_DATA | experimental_kind::E_I_DATA => (Capabilities::ECA, ANYTHING),
        experimental_kind::COOP_SACK => (Capabilities::ECA, SEND_DATA),
        experimental_kind::FORWARD_PSN => (Capabilities::ECA, TAKE_DATA),
        _ => (Capabilities::default(), ANYTHING),
    };
    Rule { extension, permit }
}

/// The violation, if chunks of this type are of another form of data than was negotiated: with or without interleaving (RFC 8260 §2.2.3,
/// §2.3.1), with or without numbers of transmissions.
#[inline]
pub(super) fn wrong_format(
    capabilities: Capabilities,
    state: AssociationState,
    kind: u8,
) -> Option<&'static str> {
    let unnumbered = matches!(kind, kind::DATA | kind::I_DATA | kind::SACK | kind::NR_SACK);
    if unnumbered && capabilities.has(Capabilities::ECA) && state.may(EXCHANGE_DATA) {
        return Some("data or an acknowledgement without the numbers of transmissions");
    }
    let violation = capabilities.rule_out(kind)?;
    state.may(TAKE_DATA).then_some(violation)
}
