//! Partial reliability (RFC 3758, RFC 7496), NR-SACK, early discard and selective forward TSN against hand-made packets:
//! a scenario for each rule, its packets drawn. TSNs are numbers counted from the sender's first, which is 0.

mod abandoning;
mod forward_point;
mod frames;
mod receiver;
mod selective;
mod selective_paths;
mod worked_examples;
