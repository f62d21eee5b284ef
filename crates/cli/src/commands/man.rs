//! `anabranch man`: a manual page for the command and for each subcommand, from the texts of `--help`.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueHint};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::Cli;
use crate::failure::Failure;
use crate::output::note;

/// Section of commands that users run.
const SECTION: &str = "1";

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch man pages
  man -l pages/anabranch-send.1
  anabranch man /usr/local/share/man/man1

The directory is created if it does not exist. Pages in it that have the same names are replaced.")]
pub(crate) struct ManArgs {
    /// Directory for the pages: anabranch.1, anabranch-send.1, anabranch-bed-run.1 and so on
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    let directory = args.directory.display();
    let write = || {
        fs::create_dir_all(&args.directory)?;
        let pages = pages()?;
        for (name, page) in &pages {
            fs::write(args.directory.join(name), page)?;
        }
        Ok(pages.len())
    };
    let written = write().map_err(|error: io::Error| {
        Failure::new(format!(
            "cannot write manual pages to {directory}: {error}; give a directory that you may write to"
        ))
    })?;
    note(format!(
        "{written} pages; read the first one with: man -l {directory}/anabranch.{SECTION}"
    ));
    Ok(())
}

/// The names of all pages and their texts.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, None, &mut pages)?;
    Ok(pages)
}

fn add_pages(
    command: &clap::Command,
    above: Option<&str>,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push((format!("{name}.{SECTION}"), page(command, above)?));
    for below in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add_pages(below, Some(name), pages)?;
    }
    Ok(())
}

/// The page of one command, with a link to the page of the command above it.
fn page(command: &clap::Command, above: Option<&str>) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(concat!("anabranch ", env!("CARGO_PKG_VERSION")))
        .manual("Anabranch");
    let after = command.get_after_help().map(ToString::to_string);
    let after = after.unwrap_or_default();
    let (examples, texts): (Vec<&str>, Vec<&str>) = after
        .split("\n\n")
        .partition(|block| block.starts_with("Example"));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // No hyphens in the names of options, and no spaces to fill the lines.
    Roff::new()
        .control("nh", [])
        .control("ad", ["l"])
        .to_writer(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut rest = Roff::new();
    for text in texts {
        rest.control("PP", []);
        for line in text.lines() {
            rest.text([roman(line)]);
        }
    }
    rest.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    for block in examples {
        rest.control("SH", ["EXAMPLES"]).control("nf", []);
        // The first line is the heading.
        for line in block.lines().skip(1) {
            rest.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        rest.control("fi", []);
    }
    if let Some(above) = above {
        rest.control("SH", ["SEE ALSO"]);
        rest.text([roman(format!("{above}({SECTION})"))]);
    }
    rest.to_writer(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that `--help` shows, with the names of their pages.
    fn shown(command: &clap::Command, name: &str) -> Vec<String> {
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below = below.flat_map(|command| shown(command, &format!("{name}-{}", command.get_name())));
        std::iter::once(format!("{name}.{SECTION}"))
            .chain(below)
            .collect()
    }

    #[test]
    fn every_command_has_a_page_with_all_sections_and_options() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, shown(&Cli::command(), "anabranch"));
        for (name, page) in &pages {
            let page = str::from_utf8(page).unwrap();
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES"] {
                let heading = format!(".SH {section}\n");
                assert_eq!(page.matches(&heading).count(), 1, "{name}: {section}");
            }
            assert!(page.contains("\\-\\-help"), "{name}");
            assert!(!page.contains("lab\\-host"), "{name}");
        }
    }

    #[test]
    fn a_page_has_the_texts_of_help() {
        let pages = pages().unwrap();
        let page = |wanted: &str| {
            let found = pages.iter().find(|(name, _)| name == wanted);
            String::from_utf8(found.unwrap().1.clone()).unwrap()
        };
        let run = page("anabranch-bed-run.1");
        assert!(
            run.starts_with(".ie") || run.starts_with(".TH anabranch\\-bed\\-run 1"),
            "{run}"
        );
        assert!(run.contains(".SH \"SEE ALSO\"\nanabranch\\-bed(1)\n"), "{run}");
        assert!(run.contains("iperf3 \\-c 10.77.1.1\n"), "{run}");
        assert!(run.contains(".PP\nThe exit status is that of COMMAND"), "{run}");
        assert!(page("anabranch.1").contains("anabranch\\-completions(1)"));
    }
}
