//! Owns the name of an association.

/// The identifier of an association within its endpoint. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub u64);
