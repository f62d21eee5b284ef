//! Owns what an acknowledgement shows about the transmissions of a chunk.

/// How an acknowledgement shows which transmission of a chunk arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The acknowledgement names the transmission (ECA-SCTP).
    Named,
    /// The acknowledgement names only the TSN: the last transmission is assumed.
    LastSending,
    /// The same, but an earlier transmission may just as well have arrived late: the acknowledgement says nothing about the last one's
    /// path.
    Uncertain,
    /// As [`Evidence::LastSending`], for the packet that was sent because an uncertain acknowledgement had shown nothing.
    Asked,
}
