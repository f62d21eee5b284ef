//! The book in `docs/` and the repository's other pages: every page is in the table of contents, every link leads somewhere, and every file
//! of the repository that a page names exists.
//!
//! A page of the book may link to any file of the repository by its relative path. In the book that mdBook builds, `scripts/book-links` makes
//! links to files outside of `docs/` lead to the repository.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    let text = std::fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages in a folder and below, by their paths from the root.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).expect("the folder") {
        let path = folder.join(entry.expect("an entry").file_name());
        if root().join(&path).is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The code spans of the text, and the text without them.
fn spans(text: &str) -> (Vec<String>, String) {
    let mut code = Vec::new();
    let mut rest = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            code.push(part.replace('\n', " "));
        } else {
            rest.push_str(part);
        }
    }
    (code, rest)
}

/// The targets of the links and pictures.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.trim().to_owned()));
    targets.filter(|target| !target.contains("://")).collect()
}

/// The anchor that code hosts and mdBook make of a heading: lower case, without punctuation, hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

/// A relative path with its `..` resolved; `None` if it leaves the root.
fn resolve(base: &Path, target: &str) -> Option<PathBuf> {
    let mut path = base.to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    Some(path)
}

/// The faults of a page's links.
fn faults(page: &Path) -> Vec<String> {
    let text = read(page);
    let text = prose(&text).collect::<Vec<_>>().join("\n");
    let (_, text) = spans(&text);
    let folder = page.parent().expect("a folder");
    let mut faults = Vec::new();
    for link in links(&text) {
        let (file, place) = link
            .split_once('#')
            .map_or((link.as_str(), None), |(file, place)| (file, Some(place)));
        let target = if file.is_empty() {
            Some(page.to_path_buf())
        } else {
            resolve(folder, file)
        };
        let Some(target) = target.filter(|target| root().join(target).exists()) else {
            faults.push(format!("{}: {link} leads nowhere", page.display()));
            continue;
        };
        if root().join(&target).is_dir() {
            faults.push(format!("{}: {link} leads to a folder", page.display()));
            continue;
        }
        if place.is_some_and(|place| !anchors(&read(&target)).contains(place)) {
            faults.push(format!("{}: {link} names no heading", page.display()));
        }
    }
    faults
}

fn all_pages() -> Vec<PathBuf> {
    let others = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "scripts/long/README.md",
    ];
    let mut all = pages(Path::new("docs"));
    all.extend(others.iter().map(PathBuf::from));
    all
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let faults: Vec<String> = all_pages().iter().flat_map(|page| faults(page)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_file_that_a_page_names_exists() {
    let mut missing = Vec::new();
    let mut checked = 0;
    let folders = [
        "crates/",
        "docs/",
        "scripts/",
        "examples/",
        "fuzz/",
        "interop/",
        "results/",
        ".ci/",
    ];
    for page in all_pages().iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        let text = read(page);
        let (code, _) = spans(&prose(&text).collect::<Vec<_>>().join("\n"));
        for path in code {
            let path = path.split([' ', ':']).next().unwrap_or_default();
            let plain = !path.contains(['{', '*', '<', '…']) && !path.contains("NAME");
            if plain && folders.iter().any(|folder| path.starts_with(folder)) {
                checked += 1;
                if !root().join(path).exists() {
                    missing.push(format!("{}: {path}", page.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(checked > 40, "{checked}");
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let summary = read(Path::new("docs/SUMMARY.md"));
    let mut listed: Vec<PathBuf> = links(&summary)
        .iter()
        .map(|link| Path::new("docs").join(link))
        .collect();
    listed.sort();
    let mut written = pages(Path::new("docs"));
    written.retain(|page| !page.ends_with("SUMMARY.md"));
    assert_eq!(listed, written);
}

#[test]
fn every_page_begins_with_its_title_alone() {
    for page in pages(Path::new("docs")) {
        let text = read(&page);
        let titles = prose(&text).filter(|line| line.starts_with("# ")).count();
        assert!(text.starts_with("# "), "{}", page.display());
        assert!(titles == 1 || page.ends_with("SUMMARY.md"), "{}", page.display());
    }
}

/// The tables of the drafts' rules: no field is empty, each test that a row names exists, and a row that says *tested* names one.
#[test]
fn every_rule_of_the_drafts_has_a_test_or_a_reason() {
    let text = read(Path::new("docs/DTLS-CHUNK.md"));
    let mut rules = 0;
    for line in prose(&text).filter(|line| line.starts_with('|') && !line.starts_with("| ---")) {
        let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
        let fields: Vec<_> = inner.split('|').map(str::trim).collect();
        let [.., here, reason] = fields[..] else {
            panic!("{line}");
        };
        if fields.len() < 3 || here == "here" {
            continue;
        }
        rules += 1;
        assert!(fields.iter().all(|field| !field.is_empty()), "{line}");
        assert!(
            ["tested", "code", "in part", "not done"].contains(&here),
            "{line}"
        );
        let quoted: Vec<_> = reason.split('`').skip(1).step_by(2).collect();
        let tests = quoted.windows(2).filter(|pair| pair[0].starts_with("crates/"));
        let mut named = 0;
        for pair in tests {
            named += 1;
            let there = read(Path::new(pair[0])).contains(&format!("fn {}(", pair[1]));
            assert!(there, "{} in {}", pair[1], pair[0]);
        }
        assert!(here != "tested" || named > 0, "{line}");
    }
    assert!(rules >= 60, "{rules} rules");
}

/// The tables of the papers' items: no field is empty, the verdict is one of the page's words, and each difference has a cause.
#[test]
fn every_item_of_the_papers_has_a_number_and_a_verdict() {
    const HEADINGS: [&str; 6] = ["item", "here", "paper", "ours", "verdict", "cause or gap"];
    let text = read(Path::new("docs/PAPERS.md"));
    let row = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
        inner.split('|').map(|field| field.trim().to_owned()).collect()
    };
    // Whether the current table has items; `None` between tables.
    let (mut items, mut has_items) = (0, None);
    for line in prose(&text) {
        if !line.starts_with('|') {
            has_items = None;
            continue;
        }
        let fields = row(line);
        let is_first = has_items.is_none();
        let is_item = *has_items.get_or_insert(fields == HEADINGS) && !is_first;
        if !is_item || fields[0].starts_with("---") {
            continue;
        }
        assert_eq!(fields.len(), HEADINGS.len(), "{line}");
        items += 1;
        assert!(fields[..5].iter().all(|field| !field.is_empty()), "{line}");
        let needs_cause = match fields[4].as_str() {
            "agrees" | "same" | "outside" => false,
            "in part" | "differs" | "corrected" => true,
            other => panic!("{other}: {line}"),
        };
        assert!(!needs_cause || !fields[5].is_empty(), "{line}");
    }
    assert!(items >= 150, "{items} items");
}

#[test]
fn links_and_anchors_are_read() {
    let text = "See [a](b.md#c), ![d](e.svg), [f](https://example.org/) and `[g](h)`.\n```sh\n[i](j)\n```\n# The `k`, or: l's";
    let prose = prose(text).collect::<Vec<_>>().join("\n");
    assert_eq!(links(&spans(&prose).1), ["b.md#c", "e.svg"]);
    assert_eq!(anchors(text), BTreeSet::from(["the-k-or-ls".to_owned()]));
    assert_eq!(
        resolve(Path::new("docs/start"), "../LAB.md"),
        Some(PathBuf::from("docs/LAB.md"))
    );
    assert_eq!(resolve(Path::new("docs"), "../../x"), None);
}
