//! TCP as cross traffic.

mod segment;

pub use segment::{SackBlocks, Segment, SynOptions};
