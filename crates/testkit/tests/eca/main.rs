//! ECA-SCTP (Kim, Seo and Song): every transmission has a number on its path, and acknowledgements list these numbers. The
//! rules are those of `docs/MULTIPATH.md`.

mod aggregation;
mod fixture;
#[path = "../common/lines.rs"]
mod lines;
mod negotiation;
mod properties;
mod receiver;
mod sender;
mod transfers;
