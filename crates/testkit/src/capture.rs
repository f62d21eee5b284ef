//! Writes the packets of tests into capture files for an external checker, if an environment variable asks for it.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// If this environment variable names a folder, every pair writes a capture of all its packets there. Every script writes a
/// capture of its endpoint's packets only, because the packets of its peer may be malformed on purpose.
const CAPTURES: &str = "ANABRANCH_CAPTURES";

/// A new file for the captures of the running test; `None` if the variable is not set. A thread without a name runs some of the
/// many seeds of a search (`seeds.rs`). Their packets are not captured, because checking them would take longer than the tests.
///
/// # Panics
/// If the file cannot be created.
pub(crate) fn capture_file(seed: u64) -> Option<BufWriter<File>> {
    let directory = std::env::var_os(CAPTURES)?;
    let test = std::thread::current().name()?.replace("::", ".");
    let file = new_file(Path::new(&directory), &test, seed).expect("a capture file can be made");
    Some(BufWriter::new(file))
}

/// A new file named after the running test, its seed, and a number if the test has several pairs with one seed.
fn new_file(directory: &Path, test: &str, seed: u64) -> io::Result<File> {
    std::fs::create_dir_all(directory)?;
    for number in 0.. {
        let path = directory.join(format!("{test}-{seed}-{number}.pcapng"));
        match File::create_new(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result,
        }
    }
    unreachable!("the loop has no end")
}
