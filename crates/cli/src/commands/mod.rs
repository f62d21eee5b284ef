//! One file for each subcommand.

#[cfg(target_os = "linux")]
pub(crate) mod bed;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod decrypt;
pub(crate) mod demo;
pub(crate) mod forward;
pub(crate) mod keygen;
pub(crate) mod lab;
pub(crate) mod listen;
pub(crate) mod man;
pub(crate) mod perf;
pub(crate) mod ping;
pub(crate) mod send;
pub(crate) mod web;
