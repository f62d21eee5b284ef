//! The resident memory of processes, for the tests of docs/LIMITS.md.

/// The resident memory of a process in bytes, without that of files, which grows when code runs for the first time. `process` is a number, or
/// `self`. Linux only.
///
/// # Panics
/// If there is no such process, or the system is another one.
#[must_use]
pub fn resident(process: &str) -> usize {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(path).expect("a process, on Linux");
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = anonymous.and_then(|line| line.trim().strip_suffix(" kB"));
    1024 * kib
        .and_then(|kib| kib.parse::<usize>().ok())
        .expect("a number of kB")
}
