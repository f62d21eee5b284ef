//! Control chunks: the queue of those that wait to leave, requests that are retransmitted until they are answered, and packets
//! that answer others outside an association's own tags.

mod out_of_the_blue;
mod queue;
mod reply;
mod request;

pub(crate) use out_of_the_blue::{answer as answer_out_of_the_blue, answer_after_end};
pub(crate) use queue::ControlQueue;
pub(crate) use reply::{refuse, reply};
pub(crate) use request::Request;
