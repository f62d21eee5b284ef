//! How packets of a path are spread in time. Of RFC 9260 that is `Max.Burst` alone (§6.1 D).

mod burst;

pub(crate) use burst::Burst;
