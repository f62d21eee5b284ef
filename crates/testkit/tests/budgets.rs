//! The cost of ordinary work in instructions, against `budgets.txt`: an extension that is off costs nothing, and no change makes a message
//! dearer unnoticed. Valgrind counts, so neither the speed nor the load of the machine matters.

#[path = "common/files.rs"]
mod files;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use files::{crate_folder, read};

/// The compiler that made the numbers; others lay code out differently.
const MADE_BY: &str = "# made by: ";

/// The programs that do the work: examples of this package. The first word of a line chooses one of them; the first one does the rest.
const PROGRAMS: [&str; 3] = ["instructions", "driver_instructions", "path_instructions"];
/// The words that choose a program.
const WORDS: [&str; 3] = ["", "driver ", "path "];

/// A line of `budgets.txt`.
#[derive(Debug)]
struct Budget {
    /// The program that does the work: an index of [`PROGRAMS`].
    program: usize,
    /// Its arguments, without the count.
    work: String,
    /// Units of work in the short and in the long run.
    counts: [u64; 2],
    /// Instructions for each.
    most: u64,
}

fn budgets(text: &str) -> Vec<Budget> {
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let budget = |line: &str| {
        let columns: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [work, short, long, most] = columns.as_slice() else {
            panic!("not a line with work, two counts and a budget: {line}");
        };
        let number = |text: &str| text.replace(',', "").parse().expect("a number");
        let program = WORDS.iter().rposition(|word| work.starts_with(word));
        let program = program.expect("every line starts with nothing");
        Budget {
            program,
            work: work[WORDS[program].len()..].to_owned(),
            counts: [number(short), number(long)],
            most: number(most),
        }
    };
    lines.map(budget).collect()
}

/// Builds the programs whose instructions are counted, as fast as programs are measured.
fn programs() -> [PathBuf; 3] {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("budgets");
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--profile", "dist"])
        .args(["--package", "anabranch-testkit"])
        .args(PROGRAMS.map(|example| format!("--example={example}")))
        .arg("--target-dir")
        .arg(&target)
        .current_dir(crate_folder())
        // An incremental build has other units of code, and other costs.
        .env("CARGO_INCREMENTAL", "0")
        .status();
    assert!(
        build.is_ok_and(|status| status.success()),
        "the examples are built"
    );
    PROGRAMS.map(|example| target.join("dist/examples").join(example))
}

/// Instructions of the program with this much work.
fn count(program: &Path, work: &str, count: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(work.split(' '))
        .arg(count.to_string())
        // Copies of memory take the same way on all processors.
        .env(
            "GLIBC_TUNABLES",
            "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-ERMS",
        )
        .output()
        .expect("valgrind runs; scripts/setup installs it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{work} {count}: {said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, number) = collected.expect("valgrind tells the number of instructions");
    number.trim().parse().expect("a number")
}

fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.split(" (").next().unwrap_or_default().to_owned()
}

#[test]
fn no_work_is_dearer_than_its_budget() {
    let text = read(crate_folder().join("budgets.txt"));
    let made_by = text.lines().find_map(|line| line.strip_prefix(MADE_BY));
    // In per cent. Another compiler may cost more, and is not held to lower budgets.
    let (above, below) = if made_by == Some(compiler().as_str()) {
        (2, 5)
    } else {
        (10, 100)
    };
    let programs = programs();
    let budgets = budgets(&text);
    assert!(budgets.len() >= 14, "{budgets:?}");
    let (mut table, mut wrong) = (String::new(), false);
    for Budget {
        program,
        work,
        counts,
        most,
    } in budgets
    {
        let [short, long] = counts;
        let spent = count(&programs[program], &work, long) - count(&programs[program], &work, short);
        let work = WORDS[program].to_owned() + &work;
        let each = spent / (long - short);
        assert!(each > 100, "{work}: something was counted");
        let off = each * 100 > most * (100 + above) || each * 100 < most * (100 - below);
        wrong |= off;
        let mark = if off { "  <- out of bounds" } else { "" };
        writeln!(table, "{work} | {short} | {long} | {each}  (budget {most}){mark}").expect("a string");
    }
    println!("{table}");
    assert!(!wrong, "within {above} % above and {below} % below:\n{table}");
}
