//! Computes the digest of the sources that determine an experiment's numbers, so that results tell which code made them.

use std::path::PathBuf;
use std::{env, io};

#[path = "src/sources.rs"]
mod sources;

/// The crates whose code runs in an experiment, besides this one.
const CRATES: [&str; 3] = ["netsim", "proto", "wire"];

fn main() -> io::Result<()> {
    let own = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let beside = CRATES.map(|name| own.join("..").join(name).join("src"));
    let mut digest = sources::Digest::new();
    println!("cargo::rerun-if-changed=build.rs");
    for directory in std::iter::once(own.join("src")).chain(beside) {
        // A published crate has no sources of other crates beside it. Its digest is that of its own sources.
        if directory.is_dir() {
            println!("cargo::rerun-if-changed={}", directory.display());
            digest.add_directory(&directory)?;
        }
    }
    println!("cargo::rustc-env=ANABRANCH_LAB_SOURCES={}", digest.finish());
    Ok(())
}
