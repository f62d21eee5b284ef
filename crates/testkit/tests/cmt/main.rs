//! Concurrent multipath transfer (draft-tuexen-tsvwg-sctp-multipath): several paths at once.

mod aggregation;
mod mechanisms;
mod properties;
