//! Congestion control and queues: controllers alone, beside each other and beside TCP.

mod congestion_controllers;
mod cubic;
mod fairness;
mod long_fat;
mod low_latency;
mod queue_management;
mod tcp_cubic;
