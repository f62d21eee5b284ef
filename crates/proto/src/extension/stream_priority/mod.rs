//! What stream priorities add beyond the order of sending (`send/scheduler`): a bound on the delay that less urgent data
//! causes once it has left.

mod delay_bound;

pub(crate) use delay_bound::DelayBound;
