//! The files and directories that a command writes, checked before the runs, because runs may take hours.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::failure::Failure;

/// Limit of names to try for a probe.
const TRIES: u32 = 16;

/// Checks that a file can be written. A file that exists keeps its content; a file that does not exist is not left behind.
///
/// # Errors
/// The path is a directory, its directory does not exist, or one of them cannot be written.
pub(super) fn check_file(flag: &str, path: &Path) -> Result<(), Failure> {
    let wrong = |problem: &str| Failure::new(format!("{flag}: cannot write {}: {problem}", path.display()));
    let found = fs::metadata(path);
    if found.as_ref().is_ok_and(fs::Metadata::is_dir) {
        return Err(wrong("it is a directory; give the name of a file"));
    }
    // Pipes and terminals are not opened: the reader of a pipe would see its end.
    if found.as_ref().is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    let problem = |error| {
        wrong(&format!(
            "{error}; give a file in an existing directory that you may write to"
        ))
    };
    match found {
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        // A link to a file that does not exist: only the run itself writes through it.
        Err(_) if path.is_symlink() => Ok(()),
        Err(_) => File::create_new(path).and_then(|_| fs::remove_file(path)),
    }
    .map_err(problem)
}

/// Creates a directory, if necessary, and checks that files can be created in it.
///
/// # Errors
/// The path is a file, or the directory cannot be created or written.
pub(super) fn check_directory(flag: &str, path: &Path) -> Result<(), Failure> {
    let wrong = |problem: &str| {
        Failure::new(format!(
            "{flag}: cannot write to the directory {}: {problem}",
            path.display()
        ))
    };
    if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        return Err(wrong("it is a file; give a directory"));
    }
    fs::create_dir_all(path)
        .and_then(|()| probe(path))
        .map_err(|error| wrong(&format!("{error}; give a directory that you may write to")))
}

/// Creates a file in the directory and removes it. The file is new: nothing is written through a link that somebody else has put there.
fn probe(directory: &Path) -> io::Result<()> {
    for _ in 0..TRIES {
        // Each hasher has other keys.
        let random = RandomState::new().build_hasher().finish();
        let path = directory.join(format!(".anabranch-{random:016x}"));
        match File::create_new(&path) {
            Ok(_) => return fs::remove_file(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("anabranch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    #[cfg(unix)]
    fn nothing_is_written_through_a_link() {
        let directory = directory("links");
        let target = directory.join("target");
        fs::write(&target, "precious").unwrap();
        // The name that the probe used to have.
        let inside = directory.join("inside");
        fs::create_dir(&inside).unwrap();
        let link = inside.join(format!(".anabranch-{}", std::process::id()));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(check_directory("--results", &inside).is_ok());
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 1, "no probe is left");
        let dangling = directory.join("dangling");
        let missing = directory.join("missing");
        std::os::unix::fs::symlink(&missing, &dangling).unwrap();
        assert!(check_file("--csv", &dangling).is_ok());
        assert!(dangling.is_symlink() && !missing.exists());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_can_be_written_is_left_as_it_was() {
        let directory = directory("files");
        let path = directory.join("table.csv");
        assert!(check_file("--csv", &path).is_ok());
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        assert!(check_file("--csv", &path).is_ok());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert!(check_file("--csv", &directory).is_err());
        assert!(check_file("--csv", &directory.join("none/table.csv")).is_err());
        assert!(check_directory("--svg", &path).is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
