//! Counts allocated memory, for the targets that limit it.

use peak_alloc::PeakAlloc;

#[global_allocator]
pub(crate) static ALLOCATED: PeakAlloc = PeakAlloc;
