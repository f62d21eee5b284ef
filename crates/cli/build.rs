//! Tells the program how it is optimised, so that it can say when its measurements would be those of a slow build.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=ANABRANCH_OPT_LEVEL={level}");
}
