//! The SCTP protocol.
