//! Names the parts of the association that a reconfiguration changes.

use crate::receive::Receiver;
use crate::recovery::Outstanding;
use crate::send::SendQueue;

/// The parts of the association that a reconfiguration changes.
pub(crate) struct Parts<'a> {
    pub(crate) queue: &'a mut SendQueue,
    pub(crate) outstanding: &'a mut Outstanding,
    pub(crate) receiver: &'a mut Receiver,
}
