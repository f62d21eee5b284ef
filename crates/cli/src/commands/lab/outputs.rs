//! The files and directories that a command writes, checked before the runs, because runs may take hours.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::failure::Failure;

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
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| {
        wrong(&format!(
            "{error}; give a file in an existing directory that you may write to"
        ))
    })?;
    if found.is_err() {
        let _ = fs::remove_file(path);
    }
    Ok(())
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
    let probe = path.join(format!(".anabranch-{}", std::process::id()));
    fs::create_dir_all(path)
        .and_then(|()| fs::write(&probe, ""))
        .map_err(|error| wrong(&format!("{error}; give a directory that you may write to")))?;
    let _ = fs::remove_file(probe);
    Ok(())
}
