//! Converts requests and lists of streams to the parameters of RE-CONFIG, and back.

use anabranch_wire::StreamId;
use anabranch_wire::chunk::ReConfig;
use anabranch_wire::parameter::{Parameter, ParametersBuilder, StreamList};

use crate::reconfiguration::StreamSelection;

/// A RE-CONFIG of these parameters.
pub(super) fn chunk_of(parameters: &[Parameter]) -> ReConfig {
    let builder = parameters
        .iter()
        .fold(ParametersBuilder::new(), ParametersBuilder::push);
    ReConfig {
        parameters: builder.finish(),
    }
}

pub(super) fn selection(streams: &StreamList) -> StreamSelection {
    if streams.is_all() {
        return StreamSelection::All;
    }
    let mut listed: Vec<StreamId> = streams.iter().collect();
    listed.sort_unstable();
    listed.dedup();
    StreamSelection::Listed(listed)
}

/// The list of a request: empty for all streams (§5.1.2 A4, §5.1.3 B2).
pub(super) fn list(selection: &StreamSelection) -> StreamList {
    match selection {
        StreamSelection::All => StreamList::default(),
        StreamSelection::Listed(streams) => StreamList::from_streams(streams.iter().copied()),
    }
}

/// The Re-configuration Request Sequence Number of a request.
pub(super) fn sequence_of(request: &Parameter) -> u32 {
    match request {
        Parameter::OutgoingReset { request, .. }
        | Parameter::IncomingReset { request, .. }
        | Parameter::TsnReset { request }
        | Parameter::AddOutgoing { request, .. }
        | Parameter::AddIncoming { request, .. } => *request,
        _ => 0,
    }
}
