//! The limits of a server for each client, and of a client for its server.

/// Limits on what one association may occupy. A peer that reaches one harms only itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows at the same time: connections and sources of datagrams. 1 to 16,384, default 1,024.
    pub flows: u32,
    /// Bytes that may wait in this endpoint's memory for the programs, in addition to the buffers of the association. Each connection takes
    /// 64 KiB at least. Default 64 MiB.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 1024,
            memory: 64 << 20,
        }
    }
}

/// The most flows that [`Limits::flows`] may allow.
pub const MOST_FLOWS: u32 = 16_384;
