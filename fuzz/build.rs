//! Builds the counter of work; see `counter/work.c`.

fn main() {
    println!("cargo::rerun-if-changed=counter/work.c");
    // The compiler must not turn the loops of `memmove` into calls of `memmove`.
    cc::Build::new()
        .file("counter/work.c")
        .opt_level(2)
        .flag("-fno-builtin")
        .flag_if_supported("-fno-tree-loop-distribute-patterns")
        .compile("anabranch_work");
    // libFuzzer also has an empty function with this name. The linker takes the first definition, which counts.
    println!("cargo::rustc-link-arg-bins=-Wl,--allow-multiple-definition");
}
