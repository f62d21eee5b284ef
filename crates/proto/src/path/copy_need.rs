//! Why an early copy is to leave.

/// Why a copy is to leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyNeed {
    /// The transmission may be lost.
    MayBeLost,
    /// The transmission was not answered when it should have been.
    Overdue,
    /// Nothing on the path of the transmission is answered: all that was in flight there needs a copy at once.
    Silent,
}
