//! Control chunks: the queue of those to be sent; requests with a retransmission timer (T1-init, T1-cookie, T2-shutdown); answers to
//! packets without an association (RFC 9260 §8.4).

mod out_of_the_blue;
mod queue;
mod reply;
mod request;

pub(crate) use out_of_the_blue::{answer as answer_out_of_the_blue, answer_after_end};
pub(crate) use queue::ControlQueue;
pub(crate) use reply::{refuse, reply};
pub(crate) use request::Request;
