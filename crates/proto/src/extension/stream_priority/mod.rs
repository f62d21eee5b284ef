//! Extends the stream priorities of the send scheduler (`send/scheduler`): limits the delay that less urgent data in flight causes for
//! urgent data.

mod delay_bound;

pub(crate) use delay_bound::DelayBound;
