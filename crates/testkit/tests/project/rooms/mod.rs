//! The order of the rooms of `crates/proto/src` (`docs/ARCHITECTURE.md`, *Rooms*), read from what its files import.

mod circles;
mod settings;
mod sizes;
mod source;

use std::path::Path;

use source::{imports, methods, test_modules};

use crate::files::{crate_folder, read};

/// The groups of rooms from left to right. A room imports from its own group and from those to the left.
const ROOMS: [&[&str]; 9] = [
    &["seq", "config"],
    &["path", "congestion", "pacing"],
    &["recovery"],
    &["send", "receive"],
    &["extension"],
    &["control", "negotiation", "transmit"],
    &["trace"],
    &["association"],
    &["endpoint"],
];

/// Files of no room: types that several rooms, or the application and a room, hand to each other. All rooms may import them. They
/// themselves import only the vocabulary and the first group of rooms.
const VOCABULARY: [&str; 19] = [
    "association_state",
    "close_reason",
    "controller",
    "dscp",
    "ecn",
    "error",
    "event",
    "icmp",
    "inbound",
    "journal",
    "message",
    "paged",
    "path_id",
    "random",
    "reconfiguration",
    "setters",
    "stats",
    "time",
    "trace_event",
];

/// The root of the crate is exempt: it declares all modules and re-exports the public types, so it names every room. No other file may
/// import through it, so it hides no import.
///
/// Code that is compiled for tests or fuzzing alone is exempt too: `fuzzing.rs` and the models (`*_model.rs`) drive several rooms
/// from outside, and unit tests build what they need. The `#[cfg(test)]` before such a module says which these are.
const CRATE_ROOT: &str = "lib.rs";

/// A permitted import to the right.
struct Seam {
    file: &'static str,
    import: &'static str,
    /// The reason why this file must name the extension.
    reason: &'static str,
}

/// The base protocol holds the state of an extension in an enum, as one case of several. Only such files may name an extension.
const SEAMS: &[Seam] = &[
    Seam {
        file: "path/gates.rs",
        import: "extension::stream_priority::DelayBound",
        reason: "a path has a delay bound of its own or none, and asks it before less urgent data leaves",
    },
    Seam {
        file: "path/mod.rs",
        import: "extension::early_copies::CopiesInFlight",
        reason: "a path has copies in its network or none, and counts them in its window",
    },
    Seam {
        file: "receive/acknowledgement.rs",
        import: "extension::eca::Arrivals",
        reason: "an acknowledgement is a SACK, an NR-SACK or a COOP-SACK; the last one lists transmissions that arrived",
    },
    Seam {
        file: "receive/interleaved/repairs.rs",
        import: "extension::repair",
        reason: "an incomplete message has repair chunks or none, and they replace its missing fragments",
    },
];
const ROOMS_WITH_SEAMS: [&str; 4] = ["path", "congestion", "send", "receive"];
const MOST_SEAMS_OF_SEND_AND_RECEIVE: usize = 3;

/// Known violations that are still to be fixed: file and import.
const KNOWN: &[(&str, &str)] = &[];

/// The maximum number of methods of `Association`. Lower it when methods have moved to rooms. RFC 4895, RFC 5061 and RFC 6525 added some,
/// because each has chunks, timers and calls of its own; tracing added two calls, and eight entry points have their step in a method.
const MOST_METHODS: usize = 111;

/// A file of `crates/proto/src`: its path from there, and its text.
type Source = (String, String);

/// An import that breaks the order of the rooms.
#[derive(Debug)]
struct Violation {
    file: String,
    line: usize,
    import: String,
    rule: String,
}

impl Violation {
    /// Whether the import is the import of this file or lies in it.
    fn is(&self, file: &str, import: &str) -> bool {
        let rest = self.import.strip_prefix(import);
        self.file == file && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }

    fn is_permitted(&self) -> bool {
        SEAMS.iter().any(|seam| self.is(seam.file, seam.import))
            || KNOWN.iter().any(|(file, import)| self.is(file, import))
    }

    fn text(&self) -> String {
        let Self {
            file,
            line,
            import,
            rule,
        } = self;
        format!("crates/proto/src/{file}:{line} imports crate::{import}: {rule}")
    }
}

/// The module of a file.
fn module_of(file: &str) -> Vec<&str> {
    let mut module: Vec<_> = file.trim_end_matches(".rs").split('/').collect();
    if module.last() == Some(&"mod") {
        module.pop();
    }
    module
}

/// The room, or the file of the vocabulary, that a path from the root of the crate leads to.
fn first(path: &str) -> &str {
    path.split("::").next().unwrap_or("")
}

/// The place of the room's group in the order.
fn group(room: &str) -> Option<usize> {
    ROOMS.iter().position(|group| group.contains(&room))
}

/// The rule that forbids code of one room or file of the vocabulary to import from another; `None` if none does.
fn broken_rule(from: &str, to: &str) -> Option<String> {
    if from == to || VOCABULARY.contains(&to) {
        return None;
    }
    let Some(to_group) = group(to) else {
        return Some(format!(
            "`{to}` is neither a room nor vocabulary; import from the room that defines it"
        ));
    };
    let is_vocabulary = VOCABULARY.contains(&from);
    // A file of no known place is reported by itself.
    let from_group = if is_vocabulary { 0 } else { group(from)? };
    if to_group <= from_group {
        return None;
    }
    let left = ROOMS[..=from_group].concat().join(", ");
    let whose = if is_vocabulary { "vocabulary" } else { "room" };
    Some(format!(
        "the {whose} `{from}` imports only from the vocabulary and from {left}; `{to}` is to the right of these"
    ))
}

/// The sources without the root of the crate and without code that only tests have.
fn of_the_product(sources: &[Source]) -> impl Iterator<Item = &Source> {
    let mut of_tests: Vec<Vec<&str>> = Vec::new();
    for (file, text) in sources {
        let parent = if file == CRATE_ROOT {
            Vec::new()
        } else {
            module_of(file)
        };
        of_tests.extend(test_modules(text).into_iter().map(|module| {
            let mut path = parent.clone();
            path.push(module);
            path
        }));
    }
    sources.iter().filter(move |(file, _)| {
        let module = module_of(file);
        file != CRATE_ROOT && !of_tests.iter().any(|of_tests| module.starts_with(of_tests))
    })
}

fn violations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, text) in of_the_product(sources) {
        let module = module_of(file);
        for import in imports(&module, text) {
            found.extend(broken_rule(module[0], first(&import.path)).map(|rule| Violation {
                file: file.clone(),
                line: import.line,
                import: import.path,
                rule,
            }));
        }
    }
    found
}

fn proto() -> Vec<Source> {
    sources_of("proto")
}

/// The sources of a crate of this project.
fn sources_of(name: &str) -> Vec<Source> {
    let root = crate_folder().join("..").join(name).join("src");
    let mut sources = Vec::new();
    add_folder(&root, &root, &mut sources);
    sources.sort();
    sources
}

fn add_folder(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_folder(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = path.strip_prefix(root).expect("below the root");
            sources.push((file.to_string_lossy().replace('\\', "/"), read(&path)));
        }
    }
}

#[test]
fn rooms_import_only_from_the_left() {
    let mut problems = Vec::new();
    let found = violations(&proto());
    for violation in found.iter().filter(|violation| !violation.is_permitted()) {
        problems.push(violation.text());
    }
    let is_found = |file, import| found.iter().any(|violation| violation.is(file, import));
    for Seam { file, import, .. } in SEAMS {
        if !is_found(file, import) {
            problems.push(format!("{file} does not import {import}: remove it from SEAMS"));
        }
    }
    for (file, import) in KNOWN {
        if !is_found(file, import) {
            problems.push(format!(
                "{file} does not import {import} any more: remove it from KNOWN"
            ));
        }
    }
    assert!(
        problems.is_empty(),
        "move what is imported to where it belongs:\n{}",
        problems.join("\n")
    );
}

#[test]
fn every_file_is_of_a_room_or_of_the_vocabulary() {
    let sources = proto();
    let places: Vec<_> = of_the_product(&sources)
        .map(|(file, _)| (file, module_of(file)[0]))
        .collect();
    for (file, place) in &places {
        assert!(
            group(place).is_some() || VOCABULARY.contains(place),
            "{file}: put it into a room, or list `{place}` in VOCABULARY if several rooms hand its types to each other"
        );
    }
    for word in VOCABULARY {
        assert!(places.iter().any(|(_, place)| *place == word), "no file {word}");
    }
}

#[test]
fn seams_to_extensions_are_few() {
    for seam in SEAMS {
        let room = module_of(seam.file)[0];
        assert!(ROOMS_WITH_SEAMS.contains(&room), "{}", seam.file);
        assert_eq!(first(seam.import), "extension", "{}", seam.file);
        assert!(!seam.reason.is_empty(), "{}: why?", seam.file);
    }
    let mut files: Vec<_> = SEAMS.iter().map(|seam| seam.file).collect();
    files.retain(|file| ["send", "receive"].contains(&module_of(file)[0]));
    files.sort_unstable();
    files.dedup();
    assert!(files.len() <= MOST_SEAMS_OF_SEND_AND_RECEIVE, "{files:?}");
}

#[test]
fn the_association_does_not_grow() {
    let count = |source: &Source| (methods("Association", &source.1), source.0.clone());
    let mut files: Vec<_> = proto().iter().map(count).collect();
    files.retain(|(count, _)| *count > 0);
    files.sort_unstable();
    let all: usize = files.iter().map(|(count, _)| count).sum();
    assert!(
        all <= MOST_METHODS,
        "`impl Association` has {all} methods, and {MOST_METHODS} at most: give the new one to the type of the room whose state it \
         works on, with what it needs as arguments, and return what happened; {files:?}"
    );
}

/// The most fields of `Path`: a new one belongs to one of its parts.
const MOST_FIELDS_OF_A_PATH: usize = 15;

#[test]
fn a_path_has_few_fields() {
    let files = proto();
    let (_, text) = files
        .iter()
        .find(|(file, _)| file == "path/mod.rs")
        .expect("the file");
    let (_, fields) = text.split_once("pub(crate) struct Path {\n").expect("the struct");
    let (fields, _) = fields.split_once("\n}").expect("its end");
    let count = fields.lines().filter(|line| line.ends_with(',')).count();
    assert!((10..=MOST_FIELDS_OF_A_PATH).contains(&count), "{count} fields");
}

/// Calls that change what is waiting to be read or told, and nothing else of an association.
const NO_STEPS: [&str; 10] = [
    "authentication_keys",
    "key_manager",
    "local_addresses",
    "poll_endpoint_event",
    "poll_event",
    "poll_trace",
    "reconfigure",
    "recv",
    "set_tracing",
    "stream",
];

/// `Association::step` is the only way in which an association changes.
#[test]
fn an_association_changes_in_steps() {
    let files = proto();
    let files: Vec<_> = files
        .iter()
        .filter(|(file, _)| file.starts_with("association/") && !file.contains("model"))
        .collect();
    let mut calls = Vec::new();
    for (file, text) in &files {
        for call in text.split("    pub fn ").skip(1) {
            let (name, rest) = call.split_once('(').expect("a function");
            let (head, body) = rest.split_once('{').expect("a body");
            let body = &body[..body.find("\n    }").expect("an end")];
            let steps = [
                "step(",
                "change(",
                "set_classes(",
                "next_batch(",
                "self.set(",
                "self.request(",
            ]
            .iter()
            .any(|by| body.contains(by));
            if head.contains("&mut self") && !steps {
                calls.push(name.to_string());
                assert!(
                    NO_STEPS.contains(&name),
                    "{file}: {name} changes the association without a step"
                );
            }
        }
    }
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls, NO_STEPS, "each of these changes only what is read or told");
    let count = |text: &str| {
        files
            .iter()
            .map(|(_, file)| file.matches(text).count())
            .sum::<usize>()
    };
    assert_eq!(count("self.exhausted = "), 1);
    assert_eq!(count(".settle(now)"), 1);
}

/// The line and the import of each violation in a file with this text.
fn found_in(file: &str, text: &str) -> Vec<String> {
    let found = violations(&[(file.to_owned(), text.to_owned())]);
    let tell = |violation: &Violation| format!("{} {}", violation.line, violation.import);
    found.iter().map(tell).collect()
}

#[test]
fn imports_to_the_right_are_found() {
    let examples: [(&str, &str, &[&str]); 17] = [
        ("seq/runs.rs", "use crate::recovery::Loss;", &["1 recovery::Loss"]),
        ("config.rs", "pub use super::path::Path;", &["1 path::Path"]),
        ("config/rto.rs", "use super::super::path::Rto;", &["1 path::Rto"]),
        (
            "stats.rs",
            "pub(crate) use crate::path::PathId as Id;",
            &["1 path::PathId"],
        ),
        ("message/mod.rs", "use crate::send::*;", &["1 send"]),
        (
            "path/mod.rs",
            "use crate::{\n config::Config,\n send::{self, data::{\nLabel, Name as N}},\n extension as e,\n};",
            &[
                "3 send",
                "4 send::data::Label",
                "4 send::data::Name",
                "5 extension",
            ],
        ),
        (
            "recovery/rack.rs",
            "fn f(x: &crate::send::Queue) {}",
            &["1 send::Queue"],
        ),
        (
            "send/q.rs",
            "mod a {\n  use super::super::super::control::B;\n}\nuse super::super::control::C;",
            &["2 control::B", "4 control::C"],
        ),
        (
            "receive/a.rs",
            "let n = \n<crate::extension::X as Y>::Z;",
            &["2 extension::X"],
        ),
        (
            "receive/a.rs",
            "x(crate::extension::eca::new::<u8>())",
            &["1 extension::eca::new"],
        ),
        ("extension/a.rs", "m!($crate::control::A)", &["1 control::A"]),
        (
            "control/a.rs",
            "#[cfg(not(test))]\nuse crate::association::A;",
            &["2 association::A"],
        ),
        (
            "association/mod.rs",
            "impl crate::endpoint::Table {}",
            &["1 endpoint::Table"],
        ),
        // An import through the root of the crate does not show the room.
        ("endpoint/mod.rs", "use crate::Timestamp;", &["1 Timestamp"]),
        (
            "endpoint/mod.rs",
            "use crate as all;\nuse super::{self as up};",
            &["1 ", "2 "],
        ),
        // Text that looks like a comment or a string must not hide the code after it.
        (
            "path/a.rs",
            "let a = ['\"', '\\'', '\\\\']; let b = \"// \\\" /*\"; let c = r#\" \" \\\"#;\nuse crate::send::A; // use",
            &["2 send::A"],
        ),
        (
            "path/a.rs",
            "#[cfg(test)]\nmod tests {}\nstruct S<'a> { #[cfg(test)] x: [u8; 2], y: &'a crate::send::A }",
            &["3 send::A"],
        ),
    ];
    for (file, text, expected) in examples {
        assert_eq!(found_in(file, text), expected, "{file}: {text}");
    }
}

#[test]
fn other_imports_are_not() {
    let examples = [
        (
            "path/a.rs",
            "use crate::{config::Config, seq::Run, congestion::Control, time::Timestamp};",
        ),
        (
            "path/a.rs",
            "use super::{Path, super::time::Timestamp}; use self::b::C; use std::send::D; use ::e::F;",
        ),
        (
            "send/a/b.rs",
            "use super::super::queue::Queue; use crate::receive::Verdict;",
        ),
        ("path/a.rs", "pub(in crate::path) fn f() { self.x() }"),
        (
            "path/a.rs",
            "/// [`crate::send::A`]\n/* use crate::send::A; /* */ */ const T: &str = \"crate::send::A\";",
        ),
        (
            "path/a.rs",
            "const T: &str = r#\"use crate::send::A;\" use crate::send::A;\"#;",
        ),
        ("path/a.rs", "#[cfg(test)]\nmod tests {\n  use crate::send::A;\n}"),
        (
            "path/a.rs",
            "#[cfg(any(test, feature = \"fuzzing\"))]\nuse crate::{send::A, endpoint::B};",
        ),
        (
            "path/a.rs",
            "#[cfg(test)]\n#[inline]\nfn f<A, B>(x: A) -> Vec<B> { crate::send::f(x) }",
        ),
        (
            "path/a.rs",
            "struct S { #[cfg(test)] x: Map<u8, crate::send::A>, y: u8 }",
        ),
        ("endpoint/mod.rs", "use crate::association::Association;"),
        ("fuzzing.rs", ""),
    ];
    for (file, text) in examples {
        assert_eq!(found_in(file, text), [""; 0], "{file}: {text}");
    }
    let declares = "#[cfg(any(test, feature = \"fuzzing\"))]\n#[doc(hidden)]\npub mod a_model;";
    let model = ("send/a_model.rs".to_owned(), "use crate::endpoint::A;".to_owned());
    assert_eq!(
        violations(&[("send/mod.rs".to_owned(), declares.to_owned()), model.clone()]).len(),
        0
    );
    assert_eq!(
        violations(&[("send/mod.rs".to_owned(), "mod a_model;".to_owned()), model]).len(),
        1
    );
}

#[test]
fn methods_are_counted_at_the_level_of_the_block() {
    let text = "impl A { fn a(f: fn(u8)) { fn b() {} } pub(crate) const fn c(&self) {} #[cfg(test)] fn d() {} }\n\
                impl super::A { /* fn e() {} */ async fn f() {} }\n\
                impl Drop for A { fn drop(&mut self) {} }\n\
                impl B { fn g() {} }";
    assert_eq!(methods("A", text), 3);
}

#[test]
fn a_violation_tells_where_and_why() {
    let source = ("path/a.rs".to_owned(), "\nuse crate::send::A;".to_owned());
    let text = violations(&[source])[0].text();
    assert_eq!(
        text,
        "crates/proto/src/path/a.rs:2 imports crate::send::A: the room `path` imports only from the vocabulary and from seq, config, \
         path, congestion, pacing; `send` is to the right of these"
    );
}
