//! Messages that wait to be sent: the queue, the schedulers of streams, and how chunks of user data are written.

mod data_format;
mod perishable;
mod scheduler;
mod send_queue;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod send_queue_model;

pub(crate) use data_format::{DataFormat, Label, TransmissionName};
pub(crate) use send_queue::SendQueue;
