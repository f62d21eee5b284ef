//! Concurrent multipath transfer (draft-tuexen-tsvwg-sctp-multipath): several paths at once.

mod aggregation;
#[path = "../common/lines.rs"]
mod lines;
mod mechanisms;
mod properties;
