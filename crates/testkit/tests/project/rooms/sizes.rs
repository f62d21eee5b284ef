//! The size of what a reader must hold in mind at once: a function of the core, and the parts of a path.

use super::source::{field_count, functions};
use super::{of_the_product, proto};

/// The most lines of a function.
const MOST_LINES: usize = 80;
/// The most fields of a path. A field more belongs to one of its parts.
const MOST_FIELDS_OF_A_PATH: usize = 15;

#[test]
fn functions_are_short() {
    let sources = proto();
    let all = of_the_product(&sources).flat_map(|(file, text)| {
        let long = functions(text)
            .into_iter()
            .filter(|(_, _, lines)| *lines > MOST_LINES);
        long.map(move |(name, line, lines)| format!("{file}:{line}: {name} has {lines} lines"))
    });
    let long: Vec<String> = all.collect();
    assert!(long.is_empty(), "more than {MOST_LINES} lines: {long:#?}");
}

#[test]
fn a_path_has_few_parts() {
    let counts: Vec<usize> = proto()
        .iter()
        .filter_map(|(_, text)| field_count("Path", text))
        .collect();
    assert_eq!(counts.len(), 1, "one structure is called Path");
    assert!(counts[0] <= MOST_FIELDS_OF_A_PATH, "{counts:?}");
}

#[test]
fn sizes_are_read() {
    let text = "/// fn no() {}\nstruct Path { id: u8, of: Vec<(u8, u8)>,\n to: [u8; 2] }\nfn one() {}\nfn two(a: u8) -> u8 {\n match a { _ => 1 }\n}\n";
    assert_eq!(functions(text), [("one", 4, 1), ("two", 5, 3)]);
    assert_eq!(
        (field_count("Path", text), field_count("Pat", text)),
        (Some(3), None)
    );
}
