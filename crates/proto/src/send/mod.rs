//! The send queue: messages that wait for their first transmission, stream schedulers (RFC 8260 §3), and the chunks of user data.

mod budget;
mod buffer;
mod data_format;
mod perishable;
mod scheduler;
mod send_queue;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod send_queue_model;

pub(crate) use buffer::SendBuffer;
pub(crate) use data_format::{DataFormat, Label, TransmissionName};
pub(crate) use send_queue::SendQueue;
