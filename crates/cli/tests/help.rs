//! The form of every command's `--help`: at most 100 columns at any terminal width, the most used options first, and all other
//! options in groups with headings.

mod common;

use common::{anabranch, text};

/// Columns that fit a terminal.
const WIDEST: usize = 100;
/// Options before the first heading: the three most used options, and `--help`.
const MOST_BEFORE_HEADINGS: usize = 4;

/// `--help` of this command in a terminal of this width.
fn help(command: &[String], columns: &str) -> String {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let output = anabranch(&[&words[..], &["--help"]].concat())
        .env("COLUMNS", columns)
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The lines below a heading, up to the next one.
fn group<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| line.starts_with(' ')).collect()
}

/// The long names of the options in these lines.
fn options(lines: &[&str]) -> Vec<String> {
    // A name begins in column 2 or 6; other lines continue the text of an option.
    let is_name = |line: &&&str| line.starts_with("  -") || line.starts_with("      --");
    let written = lines.iter().filter(is_name).filter_map(|line| {
        let line = line.trim_start();
        let name = line
            .strip_prefix("-h, ")
            .or(line.strip_prefix("-V, "))
            .unwrap_or(line);
        let name = name.strip_prefix("--")?;
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        Some(name[..end.unwrap_or(name.len())].to_owned())
    });
    written.collect()
}

/// Every command and subcommand, the program itself first.
fn commands() -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut next = 0;
    while let Some(command) = commands.get(next).cloned() {
        let help = help(&command, "100");
        for line in group(&help, "Commands:") {
            // A name begins in column 2; other lines continue its text.
            let name = line.strip_prefix("  ").and_then(|line| line.split(' ').next());
            if let Some(name) = name.filter(|name| !name.is_empty() && *name != "help") {
                commands.push([&command[..], &[name.to_owned()]].concat());
            }
        }
        next += 1;
    }
    commands
}

#[test]
fn every_help_fits_a_hundred_columns_at_any_terminal_width() {
    for command in commands() {
        for columns in ["40", "80", "100", "200", "1000"] {
            let help = help(&command, columns);
            for line in help.lines() {
                let width = line.chars().count();
                assert!(width <= WIDEST, "{command:?}, {width} columns: {line}");
            }
        }
    }
}

#[test]
fn every_help_begins_with_the_three_most_used_options() {
    let all = commands();
    // The commands on Linux: 11 commands, 2 of `perf`, 4 of `lab`, 2 of `forward` and 4 of `bed`.
    assert!(all.len() >= 1 + 10 + 2 + 4 + 2, "{all:?}");
    for command in all {
        let help = help(&command, "100");
        let before = options(&group(&help, "Options:"));
        assert!(
            (1..=MOST_BEFORE_HEADINGS).contains(&before.len()),
            "{command:?}: {before:?}"
        );
    }
    let first = [
        ("demo", "link compare compare-only"),
        ("listen", "echo output once"),
        ("send", "stream message-size unordered"),
        ("ping", "count size interval"),
        ("perf server", "udp-port one-off interval"),
        ("perf client", "time size rate"),
        ("decrypt", "key-log output json"),
        ("bench", "size udp mib"),
        ("forward server", "allow-to allow-listen udp-port"),
        ("forward client", "udp tcp path"),
        ("lab run", "quick only set"),
        ("lab check", "all quick jobs"),
        ("lab report", "all quick output"),
    ];
    for (command, expected) in first {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let shown = options(&group(&help(&words, "100"), "Options:"));
        let expected: Vec<&str> = expected.split(' ').chain(["help"]).collect();
        assert_eq!(shown, expected, "{command}");
    }
}

/// Users meet the commands in the order in which they need them; those for measurements and research come last.
#[test]
fn the_commands_come_in_the_order_of_a_users_day() {
    let help = help(&[], "100");
    let names = group(&help, "Commands:");
    let is_name = |line: &&&str| line.starts_with("  ") && !line.starts_with("   ");
    let names = names
        .iter()
        .filter(is_name)
        .filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "bed").collect();
    assert_eq!(
        names.join(" "),
        "demo listen send ping perf forward keygen decrypt web completions man bench lab help"
    );
}

#[test]
fn options_for_research_come_last() {
    for command in ["demo", "listen", "send", "ping", "perf server", "perf client"] {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let help = help(&words, "100");
        let is_heading = |line: &&str| line.ends_with(':') && !line.starts_with(' ');
        let headings: Vec<&str> = help.lines().filter(is_heading).collect();
        let last = headings
            .iter()
            .take_while(|heading| **heading != "Examples:")
            .last();
        assert_eq!(last, Some(&"Research and comparison:"), "{command}: {headings:?}");
    }
}

/// Earlier names of options still work.
#[test]
#[cfg(target_os = "linux")]
fn former_names_of_options_are_hidden() {
    let words = ["bed".to_owned(), "run".to_owned()];
    let shown = help(&words, "100");
    for (old, new) in [("--back ", "--reverse-link "), ("--every ", "--interval ")] {
        assert!(!shown.contains(old) && shown.contains(new), "{shown}");
    }
    common::refuses(&[(
        &[
            "bed", "run", "--link", "", "--back", "", "--every", "5", "--", "true",
        ],
        "--interval",
    )]);
}
