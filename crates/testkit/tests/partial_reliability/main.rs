//! Partial reliability (RFC 3758, RFC 7496), NR-SACK, early discard, selective forward TSN and extended FORWARD-TSN with hand-made
//! packets: a test for each rule, with the packets drawn. TSNs count from the sender's initial TSN, which is 0.

mod abandoning;
mod early_discard;
mod extended;
mod forward_point;
mod frames;
mod receiver;
mod selective;
mod selective_paths;
mod worked_examples;
