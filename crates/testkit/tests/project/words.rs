//! The project is written in the terms of the RFCs: no comment, string, document or script has a word of `words.txt`, except where
//! that file allows it.

use std::collections::BTreeSet;
use std::path::Path;

use regex_lite::Regex;

use crate::files::{crate_folder, read};
use crate::rust::{comment_len, is_word_character, quote_len, string_len, word_len};

/// A line of `words.txt` that names a word.
struct Word {
    pattern: Regex,
    instead: String,
}

/// A line of `words.txt` that names an exception.
struct Allow {
    file: String,
    text: String,
}

/// The content of `words.txt`. Its head describes the format.
#[derive(Default)]
struct Rules {
    words: Vec<Word>,
    allows: Vec<Allow>,
    skips: Vec<String>,
}

impl Rules {
    fn parse(text: &str) -> Self {
        let mut rules = Self::default();
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match (kind, rest.split_once(" => "), rest.split_once(": ")) {
                ("word", Some((pattern, instead)), _) => {
                    let any_case = !pattern.contains(char::is_uppercase);
                    let pattern = format!("{}{pattern}", if any_case { "(?i)" } else { "" });
                    rules.words.push(Word {
                        pattern: Regex::new(&pattern).unwrap_or_else(|error| panic!("{line}: {error}")),
                        instead: instead.to_owned(),
                    });
                }
                ("allow", _, Some((file, text))) => rules.allows.push(Allow {
                    file: file.to_owned(),
                    text: text.to_owned(),
                }),
                ("skip", _, _) if !rest.is_empty() => rules.skips.push(rest.to_owned()),
                _ => panic!("words.txt has the line {line:?}, which is neither word, allow nor skip"),
            }
        }
        rules
    }
}

/// Searches files and remembers what was found.
struct Search<'a> {
    rules: &'a Rules,
    /// `file:line: text [words to write]`
    found: Vec<String>,
    /// The positions of the exceptions that a line needed.
    needed: BTreeSet<usize>,
}

impl<'a> Search<'a> {
    fn new(rules: &'a Rules) -> Self {
        Self {
            rules,
            found: Vec::new(),
            needed: BTreeSet::new(),
        }
    }

    /// Searches a file whose name is relative to the root of the workspace. Each line is listed once.
    fn file(&mut self, name: &str, content: &str) {
        let lines: Vec<_> = content.lines().collect();
        let mut last = 0;
        for (line, text) in texts(name, content) {
            let word = self.rules.words.iter().find(|word| word.pattern.is_match(text));
            let Some(word) = word.filter(|_| line != last) else {
                continue;
            };
            last = line;
            let whole = lines[line - 1].trim();
            let allows = self.rules.allows.iter().enumerate();
            let mut allows = allows.filter(|(_, allow)| allow.file == name && whole.contains(&allow.text));
            if let Some((at, _)) = allows.next() {
                self.needed.insert(at);
            } else {
                self.found
                    .push(format!("{name}:{line}: {whole} [{}]", word.instead));
            }
        }
    }

    /// Searches a folder and the folders in it; `name` is its path from the root of the workspace, empty for the root.
    fn folder(&mut self, folder: &Path, name: &str) {
        let mut entries: Vec<_> = std::fs::read_dir(folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("an entry of a folder"))
            .collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let last = entry.file_name().to_string_lossy().into_owned();
            let name = if name.is_empty() {
                last.clone()
            } else {
                format!("{name}/{last}")
            };
            if self.rules.skips.contains(&name) {
                continue;
            }
            let kind = entry.file_type().expect("the type of an entry");
            if kind.is_dir() && last != "target" && !last.starts_with('.') {
                self.folder(&entry.path(), &name);
            } else if kind.is_file()
                && let Some(content) = text_of(&entry.path())
            {
                self.file(&name, &content);
            }
        }
    }

    /// The exceptions that no line needed.
    fn unneeded(&self) -> Vec<String> {
        let all = self.rules.allows.iter().enumerate();
        all.filter(|(at, _)| !self.needed.contains(at))
            .map(|(_, allow)| format!("allow {}: {}", allow.file, allow.text))
            .collect()
    }
}

/// The content of a file that is searched: of Rust, documentation, settings and lists by the end of the name, of scripts by `#!`.
fn text_of(path: &Path) -> Option<String> {
    match path.extension().and_then(std::ffi::OsStr::to_str) {
        Some("rs" | "md" | "toml" | "txt") => Some(read(path)),
        Some("py" | "sh") | None => {
            let content = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let script = content.starts_with(b"#!");
            script.then(|| String::from_utf8_lossy(&content).into_owned())
        }
        _ => None,
    }
}

/// The texts in a file that are searched, with the numbers of their lines.
fn texts<'a>(name: &str, content: &'a str) -> Vec<(usize, &'a str)> {
    let before_text = |c: char| c.is_whitespace() || c.is_ascii_digit() || "#>*-|.".contains(c);
    if !name.ends_with(".rs") {
        let lines = content.lines().enumerate();
        return lines
            .map(|(at, line)| (at + 1, line.trim_start_matches(before_text)))
            .collect();
    }
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = content[at..].chars().next() {
        let rest = &content[at..];
        let prose = comment_len(rest).or_else(|| string_len(rest));
        let len = prose.unwrap_or_else(|| {
            if first == '\'' {
                quote_len(rest)
            } else if is_word_character(first) {
                word_len(rest)
            } else {
                first.len_utf8()
            }
        });
        let token = &rest[..len];
        if prose.is_some() {
            let quote = if first == '/' { None } else { token.find('"') };
            let text = &token[quote.map_or(0, |quote| quote + 1)..];
            let marks = |c: char| c.is_whitespace() || "/!*".contains(c);
            let lines = text.lines().enumerate();
            found.extend(lines.map(|(offset, text)| (line + offset, text.trim_start_matches(marks))));
        }
        line += token.matches('\n').count();
        at += len;
    }
    found
}

#[test]
fn the_project_has_no_word_of_the_list() {
    let root = crate_folder().join("../..");
    let rules = Rules::parse(&read(crate_folder().join("words.txt")));
    let mut search = Search::new(&rules);
    search.folder(&root, "");
    let (found, unneeded) = (&search.found, search.unneeded());
    assert!(
        found.is_empty() && unneeded.is_empty(),
        "{} lines have words of crates/testkit/words.txt:\n{}\n{} exceptions are not needed:\n{}",
        found.len(),
        found.join("\n"),
        unneeded.len(),
        unneeded.join("\n")
    );
}

const SMALL: &str = "\
# A comment.
word \\bcolou?rs?\\b => paint
word (^|[.!] )What [a-z][^?]*$ => begin with a noun
allow a.md: as it is
skip results
";

/// The lines that are found in a file, and the exceptions that no line needed.
fn found_in(name: &str, content: &str) -> (Vec<String>, Vec<String>) {
    let rules = Rules::parse(SMALL);
    let mut search = Search::new(&rules);
    search.file(name, content);
    let unneeded = search.unneeded();
    (search.found, unneeded)
}

#[test]
fn a_word_is_found_in_any_case_and_an_allowed_line_is_not_listed() {
    let (found, unneeded) = found_in(
        "a.md",
        "# Colors, all\n\nthe colour as it is\nthe colour\ncolourful\n",
    );
    assert_eq!(
        found,
        ["a.md:1: # Colors, all [paint]", "a.md:4: the colour [paint]"]
    );
    assert_eq!(unneeded, [""; 0]);
}

#[test]
fn an_exception_that_no_line_needs_is_listed() {
    for (name, content) in [("a.md", "it stays as it is"), ("b.md", "the color as it is")] {
        assert_eq!(found_in(name, content).1, ["allow a.md: as it is"]);
    }
}

#[test]
fn a_pattern_with_a_capital_letter_begins_a_sentence_that_is_no_question() {
    let (found, _) = found_in(
        "b.toml",
        "# What comes last\nwhat comes\nSo. What is it?\nSo. What goes\n",
    );
    assert_eq!(
        found,
        [
            "b.toml:1: # What comes last [begin with a noun]",
            "b.toml:4: So. What goes [begin with a noun]"
        ]
    );
}

#[test]
fn of_rust_comments_and_strings_are_searched() {
    let source = "\
let color = 'c'; // No hit in code.
/// What it is.
let a = (\"color\", b\"color\"); // once a line
let b = r#\"a \"color\" b\"#;
let c = \"first \\
         color\";
/* a
   color */
let d = '\"'; let color: &'static str = \"\";
";
    let (found, _) = found_in("src/c.rs", source);
    let lines: Vec<_> = found
        .iter()
        .map(|line| line.split(": ").next().expect("a place"))
        .collect();
    assert_eq!(lines, [2, 3, 4, 6, 8].map(|line| format!("src/c.rs:{line}")));
}

#[test]
fn folders_are_searched_but_for_target_hidden_and_skipped_ones() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("words");
    let files = [
        ("a.md", "color"),
        ("inner/b.txt", "color"),
        ("inner/script", "#!/bin/sh\necho color"),
        ("inner/binary", "color"),
        ("inner/c.svg", "color"),
        ("inner/target/d.md", "color"),
        ("inner/.hidden/e.md", "color"),
        ("results/f.md", "color"),
    ];
    for (name, content) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        std::fs::write(path, content).expect("a file can be written");
    }
    let rules = Rules::parse(SMALL);
    let mut search = Search::new(&rules);
    search.folder(&root, "");
    let expected = [
        "a.md:1: color",
        "inner/b.txt:1: color",
        "inner/script:2: echo color",
    ];
    assert_eq!(search.found, expected.map(|line| format!("{line} [paint]")));
}

#[test]
#[should_panic(expected = "neither word, allow nor skip")]
fn a_line_of_another_kind_is_refused() {
    let _ = Rules::parse("allow a.md");
}
