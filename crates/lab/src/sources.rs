//! The digest of the sources that determine an experiment's numbers. The build script computes it, and every row of results has it.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// FNV-1a with 64 bits.
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds the lines of code. Comments on lines of their own, indentation, empty lines and the tests at the end of a file have no effect on
    /// numbers.
    fn add_text(&mut self, text: &str) {
        let code = text.split("\n#[cfg(test)]\nmod tests {").next();
        let lines = code.unwrap_or(text).lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
            self.update(line.as_bytes());
            self.update(b"\n");
        }
    }

    /// Adds the `.rs` files below a directory, in the order of their paths, without files of tests alone.
    pub(crate) fn add_directory(&mut self, directory: &Path) -> io::Result<()> {
        let entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
        let mut paths: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
        paths.sort();
        for path in paths {
            if path.is_dir() {
                self.add_directory(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                self.add_text(&fs::read_to_string(path)?);
            }
        }
        Ok(())
    }

    /// 16 hexadecimal digits.
    pub(crate) fn finish(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> String {
        let mut digest = Digest::new();
        digest.add_text(text);
        digest.finish()
    }

    #[test]
    fn only_code_changes_the_digest() {
        let code = "fn two() -> u32 {\n    2\n}\n";
        assert_eq!(
            digest(code),
            digest("/// Two.\nfn two() -> u32 {\n\n2 \n    // It is.\n}\n")
        );
        assert_ne!(digest(code), digest(&code.replace("    2", "    3")));
        assert_ne!(digest("ab\nc"), digest("a\nbc"));
        let test = "\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n";
        assert_eq!(digest(code), digest(&format!("{code}{test}")));
    }

    /// The build script's digest is the one of the sources that this test was built from.
    #[test]
    fn the_digest_is_of_all_crates_that_run_in_an_experiment() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut digest = Digest::new();
        for name in ["lab", "netsim", "proto", "wire"] {
            let directory = own.join("..").join(name).join("src");
            digest.add_directory(&directory).unwrap();
        }
        assert_eq!(digest.finish(), crate::SOURCES);
    }
}
