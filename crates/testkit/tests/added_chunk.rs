//! The example of `docs/how-to/add-a-chunk-type.md`: its patch fits the sources, changes as few files as the page says, and compiles.

use std::path::{Path, PathBuf};
use std::process::Command;

const PATCH: &str = "docs/how-to/add-a-chunk-type.patch";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Copies the sources below a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("the folder") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().expect("its type") {
            kind if kind.is_dir() && entry.file_name() != "target" => copy(&path, &target),
            kind if kind.is_file() => drop(std::fs::copy(&path, &target).expect("a copy")),
            _ => {}
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

#[test]
fn the_patch_touches_nine_files_of_the_stack() {
    let patch = std::fs::read_to_string(root().join(PATCH)).expect("the patch");
    let files = patch.lines().filter_map(|line| line.strip_prefix("+++ b/"));
    let of_the_stack: Vec<&str> = files.filter(|file| !file.contains("/tests/")).collect();
    assert_eq!(of_the_stack.len(), 9, "{of_the_stack:?}");
    let page = std::fs::read_to_string(root().join("docs/how-to/add-a-chunk-type.md")).expect("the page");
    let named = |file: &&&str| {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        page.contains(**file) || (file.ends_with("send_time.rs") && page.contains(folder))
    };
    let missing: Vec<_> = of_the_stack.iter().filter(|file| !named(file)).collect();
    assert!(missing.is_empty(), "the page does not name {missing:?}");
}

#[test]
fn the_patch_compiles() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("added-chunk");
    let tree = scratch.join("tree");
    let _ = std::fs::remove_dir_all(&tree);
    copy(&root().join("crates"), &tree.join("crates"));
    copy(&root().join("docs"), &tree.join("docs"));
    for file in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "README.md"] {
        if root().join(file).exists() {
            std::fs::copy(root().join(file), tree.join(file)).expect("a copy");
        }
    }
    // Without the ceiling, the patch would be for the repository around the copy.
    run(Command::new("git")
        .args(["apply", PATCH])
        .env("GIT_CEILING_DIRECTORIES", &scratch)
        .current_dir(&tree));
    assert!(
        tree.join("crates/wire/src/chunk/send_time.rs").exists(),
        "the patch was applied"
    );
    run(Command::new(env!("CARGO"))
        .args(["check", "--quiet", "--offline", "--package", "anabranch-testkit"])
        .args(["--test", "send_time"])
        .env("CARGO_TARGET_DIR", scratch.join("target"))
        .current_dir(&tree));
}
