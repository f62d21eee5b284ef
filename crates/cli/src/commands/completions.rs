//! `anabranch completions`: a script with which a shell completes the command line.

use std::io::{self, Write};

use clap::{Args, CommandFactory, ValueHint};
use clap_complete::Shell;

use crate::Cli;
use crate::failure::Failure;

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(anabranch completions bash)
  anabranch completions bash > ~/.local/share/bash-completion/completions/anabranch
  anabranch completions zsh > \"${fpath[1]}/_anabranch\"
  anabranch completions fish > ~/.config/fish/completions/anabranch.fish

The script goes to standard output. The first example completes in this shell only. The other
examples install the script for the next shells.")]
pub(crate) struct CompletionsArgs {
    /// Shell that reads the script
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut visible(&Cli::command()),
        "anabranch",
        &mut script,
    );
    io::stdout()
        .write_all(&script)
        .map_err(|error| Failure::new(format!("cannot write the script to standard output: {error}")))
}

/// The command without the options and subcommands that `--help` does not show: the generators would offer them. A value completes to
/// files only if it is a file.
fn visible(command: &clap::Command) -> clap::Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let arguments = arguments.map(|argument| match argument.get_value_hint() {
        ValueHint::Unknown if argument.get_action().takes_values() => {
            argument.clone().value_hint(ValueHint::Other)
        }
        _ => argument.clone(),
    });
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    clap::Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(arguments)
        .subcommands(subcommands.map(visible))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn all(command: &Command) -> Vec<Command> {
        let below = command.get_subcommands().flat_map(all);
        [command.clone()].into_iter().chain(below).collect()
    }

    #[test]
    fn files_and_directories_complete_to_files() {
        let mut files = 0;
        for command in all(&visible(&Cli::command())) {
            for argument in command.get_arguments() {
                let names = argument.get_value_names().unwrap_or_default();
                let expected = match names.first().map(|name| name.as_str()) {
                    Some("FILE") => ValueHint::FilePath,
                    Some("DIR" | "DIRECTORY") => ValueHint::DirPath,
                    _ => continue,
                };
                files += 1;
                let place = (command.get_name(), argument.get_id());
                assert_eq!(argument.get_value_hint(), expected, "{place:?}");
            }
        }
        assert!(files >= 15, "{files}");
    }

    /// Every value says what completes it, so that a number does not complete to the names of files.
    #[test]
    fn other_values_complete_to_no_files() {
        for command in all(&visible(&Cli::command())) {
            for argument in command
                .get_arguments()
                .filter(|one| one.get_action().takes_values())
            {
                let hint = argument.get_value_hint();
                assert!(
                    !matches!(hint, ValueHint::Unknown | ValueHint::AnyPath),
                    "{} {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
        }
    }

    #[test]
    fn what_help_hides_is_not_completed() {
        let visible = all(&visible(&Cli::command()));
        assert!(all(&Cli::command()).iter().any(Command::is_hide_set));
        assert!(visible.iter().all(|command| command.get_name() != "host"));
        assert!(
            visible
                .iter()
                .flat_map(Command::get_arguments)
                .all(|argument| !Arg::is_hide_set(argument))
        );
        assert!(visible.iter().any(|command| command.get_name() == "run"));
    }
}
