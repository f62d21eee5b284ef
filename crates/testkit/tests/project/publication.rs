//! Tests of the papers that each published crate carries, and of the few files that name the address of the project.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{crate_folder, read};

/// RELEASING.md says that the address has to be replaced in these files, and that no other file names it.
const FILES_WITH_THE_ADDRESS: [&str; 5] = [
    "CITATION.cff",
    "Cargo.toml",
    "RELEASING.md",
    "crates/python/pyproject.toml",
    "crates/testkit/tests/project/publication.rs",
];

fn root() -> PathBuf {
    crate_folder().join("../..")
}

/// The folders of the crates that are published.
fn published() -> Vec<PathBuf> {
    let all = std::fs::read_dir(root().join("crates")).expect("the folder of the crates");
    let mut folders: Vec<PathBuf> = all.map(|entry| entry.expect("a folder").path()).collect();
    folders.sort();
    let own = |folder: &PathBuf| {
        let manifest = read(folder.join("Cargo.toml"));
        manifest.contains("version.workspace = true") && !manifest.contains("publish = false")
    };
    folders.into_iter().filter(own).collect()
}

fn same_file(one: &Path, other: &Path) -> bool {
    read(one) == read(other)
}

#[test]
fn every_published_crate_has_its_papers() {
    let crates = published();
    assert!(crates.len() >= 11, "{crates:?}");
    for folder in crates {
        let manifest = read(folder.join("Cargo.toml"));
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        for field in ["license", "repository", "homepage", "documentation", "keywords"] {
            let line = format!("\n{field}.workspace = true\n");
            assert!(
                manifest.contains(&line),
                "{name}: Cargo.toml takes `{field}` from the workspace"
            );
        }
        assert!(
            manifest.contains("\nreadme = \"README.md\"\n"),
            "{name}: Cargo.toml names its own README"
        );
        let title = match name {
            "anabranch" => "# anabranch\n".to_owned(),
            name => format!("# anabranch-{name}\n"),
        };
        assert!(
            read(folder.join("README.md")).starts_with(&title),
            "{name}: README.md is of this crate"
        );
        for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let (own, shared) = (folder.join(license), root().join(license));
            assert!(
                same_file(&own, &shared),
                "{name}: {license} is that of the project"
            );
        }
    }
}

#[test]
fn the_placeholder_of_the_address_stands_where_the_page_says() {
    let output = Command::new("git")
        .args(["grep", "--name-only", "--fixed-strings", "example.org/anabranch"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let files = String::from_utf8(output.stdout).expect("names");
    let files: Vec<&str> = files.lines().collect();
    assert_eq!(files, FILES_WITH_THE_ADDRESS);
    let page = read(root().join("RELEASING.md"));
    for file in &FILES_WITH_THE_ADDRESS[..2] {
        assert!(page.contains(&format!("`{file}`")), "RELEASING.md names {file}");
    }
}

#[test]
fn every_place_of_the_version_has_the_same() {
    let version_after = |text: &str, start: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(start))
            .expect(start);
        line.trim_matches(['"', ' ']).to_owned()
    };
    let version = version_after(&read(root().join("Cargo.toml")), "version = ");
    assert_eq!(
        version_after(&read(root().join("CITATION.cff")), "version: "),
        version
    );
    let python = read(root().join("crates/python/Cargo.toml"));
    assert_eq!(version_after(&python, "version = "), version);
}

/// Nobody has seen the workflows run, and each of them says so until somebody has.
#[test]
fn untried_workflows_say_so() {
    let folder = root().join(".github/workflows");
    let files = std::fs::read_dir(folder).expect("the workflows");
    let files: Vec<PathBuf> = files.map(|entry| entry.expect("a file").path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert!(read(&file).starts_with("# Not run yet"), "{}", file.display());
    }
}
