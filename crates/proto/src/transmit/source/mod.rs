//! The sources of a packet's chunks. Each has one file. A source may ask for a packet ([`Assembler::asks`]), and adds its chunks to the packets
//! that leave, whoever asked for them ([`Assembler::write`]). Sources whose turn comes at a time are in [`Sender::deadline`].

mod control;
mod coop_sack;
mod copies;
mod data;
mod extended_forward;
mod forward_psn;
mod forward_tsn;
mod notices;
mod repairs;
mod sack;

use anabranch_wire::packet::PacketWriter;

use super::eligibility::DataTurn;
use super::{Assembler, Cx, SourceSet};
use crate::association_state::permit;
use crate::config::Config;
use crate::ecn::EcnCodepoint;
use crate::negotiation::Capabilities;
use crate::path::PathId;
pub(super) use control::needs_checksum;

/// A source of chunks. The order is that of the chunks in a packet (RFC 9260 §6.10), and the order in which sources are asked for the path
/// of the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Control,
    Sack,
    ForwardTsn,
    ExtendedForward,
    ForwardPsn,
    Notices,
    /// Retransmissions, then chunks that are sent for the first time.
    Data,
    Copies,
    Repairs,
}

/// Does the same for each source, in their order. A loop would ask for each packet which source it is about.
macro_rules! for_each_source {
    ($source:ident, $work:expr) => {
        for_each_source!(@ $source, $work,
            Control Sack ForwardTsn ExtendedForward ForwardPsn Notices Data Copies Repairs)
    };
    (@ $source:ident, $work:expr, $($name:ident)*) => {
        $({
            let $source = Source::$name;
            $work
        })*
    };
}

impl SourceSet {
    /// The sources of an association that negotiated this.
    pub(super) fn of(capabilities: Capabilities, config: &Config) -> Self {
        let has = |extension| capabilities.has(extension);
        let partial = has(Capabilities::PARTIAL_RELIABILITY);
        let sources = [
            (Source::Control, true),
            (Source::Sack, true),
            (Source::ForwardTsn, partial),
            (Source::ExtendedForward, has(Capabilities::EXTENDED_FORWARD_TSN)),
            (
                Source::ForwardPsn,
                has(Capabilities::ECA) && config.multipath.eca.forward_psn,
            ),
            (
                Source::Notices,
                partial && has(Capabilities::SELECTIVE_FORWARD_TSN),
            ),
            (Source::Data, true),
        ];
        let mut set = Self(0);
        let present = sources.into_iter().filter(|(_, present)| *present);
        present.for_each(|(source, _)| set.add(source));
        set
    }

    /// Adds a source that needs no negotiation, from its first use on.
    fn add(&mut self, source: Source) {
        self.0 |= 1 << source as u16;
    }

    #[inline(always)]
    fn has(self, source: Source) -> bool {
        self.0 & (1 << source as u16) != 0
    }
}

/// A packet that is being built.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) path: PathId,
    /// The data of the packet, if it has any.
    pub(super) data: Option<DataTurn>,
    /// Whether the packet may be ECN-capable.
    pub(super) may_mark: bool,
    pub(super) ecn: EcnCodepoint,
}

impl Assembler<'_> {
    /// The first source that asks for a packet, and the path that it asks for.
    pub(super) fn first_to_ask(
        &mut self,
        cx: &mut Cx<'_>,
        turn: Option<DataTurn>,
    ) -> Option<(Source, PathId)> {
        let present = self.sender.present;
        for_each_source!(source, {
            if present.has(source)
                && let Some(path) = self.asks(cx, source, turn)
            {
                return Some((source, path));
            }
        });
        None
    }

    /// The path on which a source wants a packet now; `None` if it has nothing, or only what can wait for the packet of another source.
    #[inline(always)]
    fn asks(&mut self, cx: &mut Cx<'_>, source: Source, turn: Option<DataTurn>) -> Option<PathId> {
        let set_up = cx.state.may(permit::SET_UP);
        match source {
            Source::Control => self.control.peek().map(|waiting| waiting.path),
            Source::Sack => self.sack_asks(cx),
            Source::ForwardTsn => self.sender.forward_due(cx).then(|| cx.paths.data_path()),
            Source::ExtendedForward => self.sender.extended_due(cx).then(|| cx.paths.data_path()),
            Source::ForwardPsn => self.sender.forward_psn_asks(cx),
            // In set-up data leaves only with a COOKIE ECHO (§5.1).
            Source::Notices | Source::Data | Source::Copies | Source::Repairs if set_up => None,
            Source::Notices if turn.is_some() => None,
            Source::Notices => self.sender.notices_ask(cx),
            Source::Data => turn.map(|turn| turn.path),
            Source::Copies => self.sender.copies_ask(cx),
            Source::Repairs => self.sender.repairs_ask(cx),
        }
    }

    /// Adds the chunks of all sources that are to leave with this packet.
    #[inline(always)]
    pub(super) fn write_all(&mut self, cx: &mut Cx<'_>, plan: &mut Plan, packet: &mut PacketWriter<'_>) {
        let others_may_follow = self.write_control(cx, plan, packet);
        if others_may_follow {
            let present = self.sender.present;
            for_each_source!(source, {
                if present.has(source) {
                    self.write(cx, source, plan, packet);
                }
            });
        }
    }

    /// Adds the chunks of a source that are to leave with this packet.
    #[inline(always)]
    fn write(&mut self, cx: &mut Cx<'_>, source: Source, plan: &mut Plan, packet: &mut PacketWriter<'_>) {
        let Plan { path, data, .. } = *plan;
        match source {
            // Written before all others: see `write_all`.
            Source::Control => {}
            Source::Sack => self.push_sack(cx, path, data.is_some(), packet),
            Source::ForwardTsn => self.sender.push_forward_tsn(cx, path, packet),
            Source::ExtendedForward => self.sender.push_extended(cx, path, packet),
            Source::ForwardPsn => self.sender.push_forward_psn(cx, path, packet),
            Source::Notices => self.sender.push_notices(cx, path, data, packet),
            Source::Data => self.push_turn(cx, plan, packet),
            Source::Copies => self.sender.push_copies(cx, path, data.is_some(), packet),
            Source::Repairs => self.sender.push_repairs(cx, path, packet),
        }
    }
}
