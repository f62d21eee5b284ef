//! Builds what counts work; see `counter/work.c`.

fn main() {
    println!("cargo::rerun-if-changed=counter/work.c");
    // Its own loops must not become calls of what they are.
    cc::Build::new()
        .file("counter/work.c")
        .opt_level(2)
        .flag("-fno-builtin")
        .flag_if_supported("-fno-tree-loop-distribute-patterns")
        .compile("anabranch_work");
    // libFuzzer has a function of the same name that does nothing; the first one counts, where anything calls it.
    println!("cargo::rustc-link-arg-bins=-Wl,--allow-multiple-definition");
}
