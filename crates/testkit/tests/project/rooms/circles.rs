//! No circles of files: if a file needs another one, the other one does not need it in turn, not even through third files. A reader can
//! then understand the files of a crate one after another.
//!
//! The rule:
//! * A file needs another file if its code names something that the other file defines: in a `use`, or by a path that begins with `crate`,
//!   `super`, `self`, a child module or an imported name. Calls of methods name no file. A type and its `impl` blocks may thus be in
//!   different files, if the file with the type does not name those with the blocks.
//! * `mod child;` needs nothing. `pub use child::Type;` (with any visibility) needs nothing either, unless the file uses the name itself.
//!   The files that import the name from there need the file that defines it.
//! * Parents and children are no exception. If a parent names a type of its child, and the child names a type that the parent defines,
//!   they form a circle.
//! * Code that only tests have is free, as are comments. Both files of a module with two (`#[path]`) are needed by those who name it.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Import, occurrences, references};
use super::{Source, module_of, of_the_product, sources_of};

/// The crates without circles.
const CRATES: [&str; 2] = ["anabranch", "proto"];

/// The files of each module. The root of the crate is the module without a name.
struct Modules<'a> {
    files: BTreeMap<String, Vec<&'a str>>,
    /// The re-exports of each module: names, and paths from the root of the crate.
    reexports: BTreeMap<String, Vec<Import>>,
}

fn module_name(file: &str) -> String {
    match file {
        "lib.rs" | "main.rs" => String::new(),
        _ => module_of(file).join("::"),
    }
}

fn segments(module: &str) -> Vec<&str> {
    module.split("::").filter(|segment| !segment.is_empty()).collect()
}

/// The modules that get another file by `#[path]`, and these files.
fn other_files(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("#[path = \"").skip(1).filter_map(|rest| {
        let (file, rest) = rest.split_once("\"]")?;
        let (declaration, _) = rest.split_once(';')?;
        Some((declaration.rsplit_once("mod ")?.1, file))
    })
}

impl<'a> Modules<'a> {
    fn of(sources: &[&'a Source]) -> Self {
        let mut modules = Self {
            files: BTreeMap::new(),
            reexports: BTreeMap::new(),
        };
        for (file, text) in sources {
            let module = module_name(file);
            let mut found = references(&segments(&module), text);
            found.retain(|import| import.is_reexport);
            modules.reexports.insert(module.clone(), found);
            modules.files.entry(module).or_default().push(file);
        }
        for (file, text) in sources {
            let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
            for (name, other) in other_files(text) {
                let other = [folder, other].join("/");
                let other = sources
                    .iter()
                    .find(|(file, _)| *file == other.trim_start_matches('/'));
                let named = modules.files.get_mut(&join(&module_name(file), name));
                if let (Some(named), Some((other, _))) = (named, other) {
                    named.push(other);
                }
            }
        }
        modules
    }

    /// The files that define what this path from the root of the crate leads to.
    fn defining(&self, path: &str, depth: usize) -> Vec<&'a str> {
        let mut module = String::new();
        for name in segments(path) {
            let inner = join(&module, name);
            if self.files.contains_key(&inner) {
                module = inner;
                continue;
            }
            let reexports = &self.reexports[&module];
            let named = reexports
                .iter()
                .find(|import| import.name.as_deref() == Some(name));
            if let Some(import) = named.filter(|_| depth > 0) {
                return self.defining(&import.path, depth - 1);
            }
            break;
        }
        self.files[&module].clone()
    }
}

fn join(module: &str, name: &str) -> String {
    let separator = if module.is_empty() { "" } else { "::" };
    [module, separator, name].concat()
}

/// The names for which each file needs others.
type Needs<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

fn needs(sources: &[Source]) -> Needs<'_> {
    let sources: Vec<_> = sources
        .iter()
        .filter(|(file, _)| matches!(file.as_str(), "lib.rs" | "main.rs"))
        .chain(of_the_product(sources))
        .collect();
    let modules = Modules::of(&sources);
    let mut all = Needs::new();
    for (file, text) in &sources {
        let needed = all.entry(file.as_str()).or_default();
        for import in references(&segments(&module_name(file)), text) {
            let uses = |name: &String| occurrences(name, text);
            if import.is_reexport && import.name.as_ref().is_some_and(|name| uses(name) < 2) {
                continue;
            }
            for other in modules.defining(&import.path, 8) {
                if other != file {
                    needed.entry(other).or_default().insert(import.path.clone());
                }
            }
        }
    }
    all
}

/// The files that each file needs, also through third files.
fn reached<'a>(needs: &Needs<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        for &other in needs[file].keys() {
            if found.insert(other) {
                next.push(other);
            }
        }
    }
    found
}

/// The circles: the files, and each tie between two of them with its names.
fn circles(sources: &[Source]) -> Vec<String> {
    let needs = needs(sources);
    let reached: BTreeMap<_, _> = needs.keys().map(|file| (*file, reached(&needs, file))).collect();
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for (file, others) in &reached {
        if !others.contains(file) || told.contains(file) {
            continue;
        }
        let circle: BTreeSet<_> = others
            .iter()
            .copied()
            .filter(|other| reached[other].contains(file))
            .collect();
        let mut text = format!("a circle of {} files:", circle.len());
        for from in &circle {
            for (to, names) in needs[from].iter().filter(|(to, _)| circle.contains(*to)) {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                text += &format!("\n  {from} -> {to}: {}", names.join(", "));
            }
        }
        told.extend(circle);
        found.push(text);
    }
    found
}

#[test]
fn files_form_no_circles() {
    for name in CRATES {
        let found = circles(&sources_of(name));
        assert!(
            found.is_empty(),
            "crates/{name}/src: move what is named to a file that needs neither:\n{}",
            found.join("\n")
        );
    }
}

fn circles_in(files: &[(&str, &str)]) -> Vec<String> {
    let own = |(file, text): &(&str, &str)| (file.to_string(), text.to_string());
    circles(&files.iter().map(own).collect::<Vec<_>>())
}

#[test]
fn circles_are_found() {
    let pairs: [&[(&str, &str)]; 6] = [
        &[
            ("a.rs", "use crate::b::B; struct A;"),
            ("b.rs", "fn f() { super::a::A::new() }"),
        ],
        // A parent that names a type of its child.
        &[
            ("a.rs", "mod b;\nuse b::B; struct A(B);"),
            ("a/b.rs", "use super::A;"),
        ],
        &[
            ("a/mod.rs", "mod b; struct A(b::B);"),
            ("a/b.rs", "use super::A;"),
        ],
        // A re-export that the parent uses itself.
        &[
            ("a/mod.rs", "mod b; pub(crate) use b::B; struct A(B);"),
            ("a/b.rs", "use super::A;"),
        ],
        // Through a re-export and an imported module.
        &[
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "use crate::b; fn f() -> b::B {}"),
            ("b.rs", "use crate::A; struct B;"),
        ],
        // The other file of a module.
        &[
            (
                "a/mod.rs",
                "#[cfg(not(x))]\n#[path = \"no_b.rs\"]\nmod b;\nstruct A(b::B);",
            ),
            ("a/b.rs", ""),
            ("a/no_b.rs", "use super::A;"),
        ],
    ];
    for files in pairs {
        assert_eq!(circles_in(files).len(), 1, "{files:?}");
    }
    let three = [
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::{C, D as E};"),
        ("c.rs", "use crate::a::A;"),
        ("d.rs", "use crate::a::A;"),
    ];
    assert_eq!(
        circles_in(&three),
        ["a circle of 3 files:\n  a.rs -> b.rs: b::B\n  b.rs -> c.rs: c::C, c::D\n  c.rs -> a.rs: a::A"]
    );
}

#[test]
fn other_files_form_none() {
    let free: [&[(&str, &str)]; 5] = [
        &[
            ("a.rs", "mod b;\npub use b::B; struct A;"),
            ("a/b.rs", "use super::A;"),
        ],
        // The re-export leads to the file that defines the type.
        &[
            ("a/mod.rs", "mod b; mod c; pub(crate) use c::C;"),
            ("a/b.rs", "use super::C;"),
            ("a/c.rs", "use std::b::B;"),
        ],
        &[
            ("a.rs", "struct A;"),
            ("b.rs", "impl crate::a::A { pub(in crate::b) fn f() {} }"),
        ],
        &[
            ("a.rs", "#[cfg(test)]\nmod tests { use crate::b::B; }"),
            ("b.rs", "use crate::a::A;"),
        ],
        &[
            ("a.rs", "/// [`crate::b::B`]\nfn f() { b.g(); }"),
            ("b.rs", "use crate::a::f;"),
        ],
    ];
    for files in free {
        assert_eq!(circles_in(files), [""; 0], "{files:?}");
    }
}
