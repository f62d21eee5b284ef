//! Captures of what tests send, for another program to judge: if the environment says where to put them.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// If this variable of the environment names a folder, every pair writes a capture of all its packets there, and every
/// script one of its endpoint's packets (what its hand-made peer sends may be wrong on purpose).
const CAPTURES: &str = "ANABRANCH_CAPTURES";

/// A new file for the captures of the test that runs; `None` if none are wanted. A thread without a name runs some of the many seeds
/// of a search (`seeds.rs`): those are not captured, or judging them would take longer than the tests.
///
/// # Panics
/// If it cannot be made.
pub(crate) fn capture_file(seed: u64) -> Option<BufWriter<File>> {
    let directory = std::env::var_os(CAPTURES)?;
    let test = std::thread::current().name()?.replace("::", ".");
    let file = new_file(Path::new(&directory), &test, seed).expect("a capture file can be made");
    Some(BufWriter::new(file))
}

/// A new file named after the test that runs, its seed, and a number if the test has several pairs of one seed.
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
