//! What both ends agreed to use beyond the base protocol; it travels in the state cookie.

/// The extensions negotiated: one bit each. The base needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Capabilities(u32);

impl Capabilities {
    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}
