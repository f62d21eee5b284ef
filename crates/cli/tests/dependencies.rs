//! The number of crates that the library needs. `scripts/test` checks the licenses and sources of all crates by `deny.toml`.

use std::collections::BTreeSet;
use std::process::Command;

/// The crates that the library `anabranch` needs with no feature, and with the default ones. More need a reason in `docs/DECISIONS.md`.
const LIBRARY: [(&[&str], usize); 2] = [(&["--no-default-features"], 46), (&[], 58)];

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
