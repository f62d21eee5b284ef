//! User messages: their chunks and packets, their streams, and when they expire.

mod batches;
mod bundling;
mod deadlines;
mod expiry;
mod lifetimes;
mod separate_streams;
mod shared_deadlines;
mod trace;
mod whole_runs;
