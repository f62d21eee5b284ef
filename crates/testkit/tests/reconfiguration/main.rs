//! RFC 6525, stream reconfiguration, with the packets of each test as text. Sequence numbers and TSNs are relative to the Initial TSN of
//! the endpoint that counts them: the first request of each endpoint has sequence number 0, its first chunk TSN 0.

mod association;
mod chunks;
mod fixture;
mod incoming;
mod network;
mod outgoing;
mod streams;
