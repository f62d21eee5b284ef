//! Owns what the handlers of the chunks of one packet tell each other.

use core::ops::ControlFlow;

use anabranch_wire::Tsn;

/// Facts about the chunks of one packet that are needed after its last chunk.
#[derive(Default)]
pub(super) struct PacketNotes {
    /// The packet had DATA.
    pub(super) data: bool,
    /// The peer asks for an acknowledgement at once (I bit, RFC 7053).
    pub(super) immediate: bool,
    /// The lowest TSN of its new data: that of the first chunk, because chunks are in the order of TSNs (§6.10).
    pub(super) new: Option<Tsn>,
    /// Bytes of the control chunks queued in answer.
    pub(super) answered: usize,
    /// The packet had ASCONF.
    pub(super) asconf: bool,
}

/// Whether the next chunk of the packet is handled too.
pub(super) type Onward = ControlFlow<()>;
