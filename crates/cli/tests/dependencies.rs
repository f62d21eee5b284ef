//! The crates that the project depends on: their licenses and sources, and how many the library needs.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// A crate must offer one of these licenses. All permit use in closed programs; none asks more than that their text is kept.
const LICENSES: [&str; 11] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unlicense",
    "0BSD",
    "CC0-1.0",
    "Unicode-3.0",
];

/// The crates that the library `anabranch` needs with no feature, and with the default ones. More need a reason in `docs/DECISIONS.md`.
const LIBRARY: [(&[&str], usize); 2] = [(&["--no-default-features"], 46), (&[], 48)];

fn cargo(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Whether a license expression permits the use under the licenses of the list. Parentheses are not nested.
fn is_permitted(expression: &str) -> bool {
    let permits = |alternatives: &str| {
        let mut alternatives = alternatives.split(" OR ").flat_map(|one| one.split('/'));
        alternatives.any(|one| LICENSES.contains(&one.trim().trim_matches(['(', ')'])))
    };
    // `A OR B` binds looser than `AND`, unless it is in parentheses, which all crates with both write.
    expression.split(" AND ").all(permits)
}

#[test]
fn licenses_are_read() {
    for permitted in [
        "MIT",
        "MIT OR Apache-2.0",
        "GPL-3.0 OR ISC",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
    ] {
        assert!(is_permitted(permitted), "{permitted}");
    }
    for refused in ["GPL-3.0", "MIT AND GPL-3.0", "", "LGPL-2.1 OR MPL-2.0"] {
        assert!(!is_permitted(refused), "{refused}");
    }
}

/// Every crate comes from the registry, and its license permits what the project's licenses permit.
#[test]
fn every_crate_is_from_the_registry_and_permitted() {
    let metadata = cargo(&["metadata", "--format-version", "1", "--locked"]);
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50);
    for package in packages {
        let name = &package["name"];
        let license = package["license"].as_str().unwrap_or_default();
        assert!(is_permitted(license), "{name}: {license:?}");
        let source = package["source"].as_str();
        let own = source.is_none() && name.as_str().unwrap().starts_with("anabranch");
        let registry = source.is_some_and(|source| source.starts_with("registry+"));
        assert!(own || registry, "{name} comes from {source:?}");
    }
}

#[test]
fn the_library_needs_few_crates() {
    for (features, most) in LIBRARY {
        let mut arguments = vec![
            "tree",
            "--locked",
            "--package",
            "anabranch",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ];
        arguments.extend(features);
        // Each line begins with the name of a crate; a system other than Linux needs others.
        arguments.extend(["--target", "x86_64-unknown-linux-gnu"]);
        let tree = String::from_utf8(cargo(&arguments)).unwrap();
        let crates: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(
            crates.len() <= most,
            "{} with {features:?}: {crates:?}",
            crates.len()
        );
        assert!(crates.contains("tokio"), "{crates:?}");
    }
}
