//! Checks `mutations.txt`, the list of wrong changes that `scripts/mutations` makes: every text to change and every test
//! exists. `ablations.txt`, the list of mechanisms that `scripts/long/ablation` switches off, has no tests.

use std::collections::BTreeSet;

use crate::files::{crate_folder, read};

/// An entry of a list; see the heads of the lists.
#[derive(Debug, Default)]
struct Mutation {
    name: String,
    file: String,
    old: String,
    new: String,
    binary: String,
    test: String,
}

fn mutations() -> Vec<Mutation> {
    entries("mutations.txt")
}

fn entries(list: &str) -> Vec<Mutation> {
    let mut all: Vec<Mutation> = Vec::new();
    for line in read(crate_folder().join(list)).lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, _rule)) = line.strip_prefix('[').and_then(|line| line.split_once("] ")) {
            let name = name.to_owned();
            all.push(Mutation {
                name,
                ..Mutation::default()
            });
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.to_owned();
        let one = all.last_mut().expect("a name comes first");
        let once = |text: &String| assert!(text.is_empty(), "{} has two lines of a kind", one.name);
        match word {
            "in" => once(&one.file),
            "-" => once(&one.old),
            "by" => once(&one.test),
            _ => {}
        }
        match word {
            "in" => one.file = rest,
            "-" => one.old = rest,
            "+" => one.new = rest,
            "by" => {
                let (binary, test) = rest.split_once(' ').expect("a test binary and a test");
                (one.binary, one.test) = (binary.to_owned(), test.to_owned());
            }
            _ => panic!("what is {line:?}?"),
        }
    }
    all
}

#[test]
fn every_text_to_change_is_there_once() {
    let root = crate_folder().join("../..");
    for all in [mutations(), entries("ablations.txt")] {
        let names: BTreeSet<_> = all.iter().map(|one| &one.name).collect();
        assert_eq!(names.len(), all.len(), "names are used once");
        for one in &all {
            let times = read(root.join(&one.file)).matches(&one.old).count();
            assert_eq!(times, 1, "{}: {:?} in {}", one.name, one.old, one.file);
            assert_ne!(one.old, one.new, "{}", one.name);
        }
    }
}

#[test]
fn every_test_is_there() {
    for one in mutations() {
        let folders = [
            ("library/", "../anabranch/tests"),
            ("dtls/", "../dtls/tests"),
            ("tls/", "../tls/tests"),
            ("datachannel/", "../datachannel/tests"),
            ("forward/", "../forward/tests"),
        ];
        let elsewhere = folders
            .into_iter()
            .find_map(|(prefix, folder)| Some((one.binary.strip_prefix(prefix)?, folder)));
        if let Some((binary, folder)) = elsewhere {
            // A module of a test binary has a file in the folder of that name.
            let (module, test) = one.test.split_once("::").unwrap_or(("", &one.test));
            let file = crate_folder().join(folder).join(binary).join(module);
            let file = file.components().as_path().with_extension("rs");
            let there = read(&file).contains(&format!("fn {test}()"));
            assert!(there, "{}: no {}", one.name, one.test);
            continue;
        }
        let of_a_crate = [
            "proto",
            "netsim",
            "cli",
            "dtls",
            "datachannel",
            "forward",
            "library",
        ]
        .contains(&one.binary.as_str());
        let tests = crate_folder().join(match of_a_crate {
            true if one.binary == "library" => "../anabranch/src".to_owned(),
            true => format!("../{}/src", one.binary),
            false => "tests".to_owned(),
        });
        let (modules, function) = one.test.rsplit_once("::").unwrap_or(("", &one.test));
        let file = if modules.is_empty() {
            let alone = tests.join(&one.binary).with_extension("rs");
            if alone.exists() {
                alone
            } else {
                tests.join(&one.binary).join("main.rs")
            }
        } else if of_a_crate {
            // Unit tests are in a file of their own, or in the module `tests` of the file that they test.
            let file = |modules: &str| tests.join(modules.replace("::", "/")).with_extension("rs");
            let own = file(modules);
            match modules.strip_suffix("::tests") {
                Some(inner) if !own.exists() => file(inner),
                _ => own,
            }
        } else {
            tests.join(&one.binary).join(modules).with_extension("rs")
        };
        // Also with other attributes than `#[test]`, and async.
        let there = read(&file).contains(&format!("fn {function}()"));
        assert!(there, "{}: no {}", one.name, one.test);
    }
}
