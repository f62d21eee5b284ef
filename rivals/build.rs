//! Compiles the C files that join the programs to libraries of the distribution, one for each enabled feature.

fn main() {
    #[cfg(any(feature = "srt", feature = "rist", feature = "usrsctp"))]
    {
        let libraries = [
            ("srt", cfg!(feature = "srt"), "srt-gnutls"),
            ("rist", cfg!(feature = "rist"), "rist"),
            ("usrsctp", cfg!(feature = "usrsctp"), "usrsctp"),
        ];
        for (name, enabled, library) in libraries {
            if enabled {
                let file = format!("src/{name}.c");
                println!("cargo::rerun-if-changed={file}");
                cc::Build::new().file(file).compile(&format!("rival_{name}"));
                println!("cargo::rustc-link-lib={library}");
            }
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
}
