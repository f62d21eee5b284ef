//! The files that a package installs: completions load in their shells, and manual pages render without warnings. A shell that this
//! machine does not have is left out; the test says so.

mod common;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output};

use common::{anabranch, directory, text};

/// Writes directly to standard error, because the test harness would capture it.
fn skipped(program: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: this machine does not have {program}");
}

/// The output of a program; `None` if this machine does not have it.
fn output(command: &mut Command) -> Option<Output> {
    match command.env("LC_ALL", "C.UTF-8").output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped(&command.get_program().to_string_lossy());
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// Writes the script for a shell to a file of this directory.
fn script(shell: &str, directory: &Path) {
    // The script does not fit a pipe: read it while the program runs.
    let completions = anabranch(&["completions", shell]).output().unwrap();
    assert!(completions.status.success(), "{}", text(&completions.stderr));
    assert_eq!(text(&completions.stderr), "");
    fs::write(directory.join("script"), &completions.stdout).unwrap();
}

/// The words that bash offers for the last of these.
fn offered(words: &str, directory: &Path) -> Option<Vec<String>> {
    let line = format!(
        "source ./script && complete -p anabranch >&2 && COMP_WORDS=(anabranch {words}) && \
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && \
         _anabranch anabranch \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let bash = Command::new("bash")
        .args(["--norc", "-c", &line])
        .current_dir(directory)
        .env("LC_ALL", "C.UTF-8")
        .output();
    let bash = match bash {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped("bash");
            return None;
        }
        bash => bash.unwrap(),
    };
    let said = text(&bash.stderr);
    assert!(said.contains("-F _anabranch anabranch"), "{words}: {said}");
    Some(text(&bash.stdout).lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes_commands_options_and_files() {
    let directory = directory("completions-bash");
    script("bash", &directory);
    fs::create_dir(directory.join("folder")).unwrap();
    let Some(commands) = offered("be", &directory) else {
        return;
    };
    let expected: &[&str] = if cfg!(target_os = "linux") {
        &["bed", "bench"]
    } else {
        &["bench"]
    };
    for name in expected {
        assert!(commands.iter().any(|one| one == name), "{commands:?}");
    }
    let offered = |words: &str| offered(words, &directory).unwrap();
    assert_eq!(offered("ping 127.0.0.1 --interv"), ["--interval"]);
    assert_eq!(offered("ping 127.0.0.1 --no-i"), ["--no-interleaving"]);
    assert_eq!(offered("lab run --no-such"), [""]);
    let files = offered("ping 127.0.0.1 --pcap ''");
    assert!(files.contains(&"script".to_owned()), "{files:?}");
    // A number completes to nothing, and a hidden command is not offered.
    assert_eq!(offered("ping 127.0.0.1 --count ''"), [""]);
    let lab = offered("lab ''");
    assert!(
        lab.contains(&"report".to_owned()) && !lab.contains(&"host".to_owned()),
        "{lab:?}"
    );
}

#[test]
fn other_shells_load_their_completions() {
    for (shell, beginning) in [
        ("zsh", "#compdef anabranch"),
        ("fish", "# Print an optspec for argparse"),
        ("elvish", "\nuse builtin"),
        ("powershell", "\nusing namespace"),
    ] {
        let directory = directory(&format!("completions-{shell}"));
        script(shell, &directory);
        let written = fs::read_to_string(directory.join("script")).unwrap();
        assert!(written.starts_with(beginning), "{shell}: {:.80}", written);
        assert!(
            written.contains("completions") && written.contains("pcap"),
            "{shell}"
        );
        // These check the syntax; only zsh and fish can do so without more programs.
        if matches!(shell, "zsh" | "fish")
            && let Some(checked) = output(Command::new(shell).args(["-n", "script"]).current_dir(&directory))
        {
            assert!(checked.status.success(), "{shell}: {}", text(&checked.stderr));
        }
    }
}

#[test]
fn an_unknown_shell_is_answered_with_the_known_ones() {
    common::refuses(&[(&["completions", "cmd"], "bash")]);
}

#[test]
fn manual_pages_render_without_warnings() {
    let directory = directory("man").join("new/man1");
    let written = anabranch(&["man"]).arg(&directory).output().unwrap();
    assert!(written.status.success(), "{}", text(&written.stderr));
    let pages: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|page| page.unwrap().path())
        .collect();
    assert!(pages.len() >= 15, "{pages:?}");
    for page in &pages {
        let file = page.file_name().unwrap().to_string_lossy();
        let written = fs::read_to_string(page).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES"] {
            assert!(
                written.contains(&format!("\n.SH {section}\n")),
                "{file}: {section}"
            );
        }
        let Some(shown) = output(
            Command::new("groff")
                .args(["-k", "-man", "-Tutf8", "-ww", "-P-cbou"])
                .arg(page),
        ) else {
            continue;
        };
        assert!(
            shown.status.success() && shown.stderr.is_empty(),
            "{file}: {}",
            text(&shown.stderr)
        );
        let shown = text(&shown.stdout);
        let command = file.trim_end_matches(".1").replace('-', " ");
        assert!(shown.contains(&format!("\n       {command} ")), "{file}: {shown}");
    }
    let page = fs::read_to_string(directory.join("anabranch-ping.1")).unwrap();
    assert!(page.contains("\nanabranch ping 127.0.0.1 "), "{page}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let directory = directory("man-refused");
    let file = directory.join("file");
    fs::write(&file, "").unwrap();
    let refused = anabranch(&["man"]).arg(&file).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(
        said.contains("cannot write manual pages to") && said.contains("file"),
        "{said}"
    );
}

/// All files below a directory, relative to it.
fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                left.push(path);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The Debian package is installed in an empty root, its program runs there, and nothing is left after it was removed.
#[test]
fn a_debian_package_is_installed_and_removed() {
    let place = directory("debian-package");
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut build = Command::new(format!("{repository}/scripts/package-deb"));
    build
        .args(["--binary", env!("CARGO_BIN_EXE_anabranch"), "--out"])
        .arg(&place);
    if output(Command::new("dpkg-deb").arg("--version")).is_none() {
        return;
    }
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let package = text(&built.stdout);
    let package = package.lines().last().expect("the name of the package");

    let root = place.join("root");
    let database = root.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(database.join(folder)).unwrap();
    }
    for file in ["status", "available"] {
        fs::write(database.join(file), "").unwrap();
    }
    let dpkg = |arguments: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        // The root has no C library and no other packages.
        dpkg.args([
            "--force-depends",
            "--force-not-root",
            "--force-bad-path",
            "--log=/dev/null",
        ]);
        dpkg.arg(format!("--root={}", root.display())).args(arguments);
        let done = dpkg.output().unwrap();
        assert!(
            done.status.success(),
            "dpkg {arguments:?}: {}",
            text(&done.stderr)
        );
    };
    dpkg(&["--install", package]);
    let installed: Vec<_> = files(&root)
        .into_iter()
        .filter(|file| file.starts_with("usr/"))
        .collect();
    for file in [
        "usr/bin/anabranch",
        "usr/share/man/man1/anabranch-send.1.gz",
        "usr/share/bash-completion/completions/anabranch",
        "usr/share/zsh/vendor-completions/_anabranch",
        "usr/share/fish/vendor_completions.d/anabranch.fish",
        "usr/lib/systemd/system/anabranch-forward-client@.service",
        "usr/lib/systemd/system/anabranch-forward-server@.service",
        "usr/share/anabranch/anabranch.lua",
        "usr/share/doc/anabranch/copyright",
    ] {
        assert!(
            installed.iter().any(|one| one == file),
            "{file} is missing: {installed:?}"
        );
    }
    let version = Command::new(root.join("usr/bin/anabranch"))
        .arg("--version")
        .output()
        .unwrap();
    assert_eq!(
        text(&version.stdout).trim(),
        concat!("anabranch ", env!("CARGO_PKG_VERSION"))
    );
    dpkg(&["--purge", "anabranch"]);
    assert_eq!(
        files(&root)
            .into_iter()
            .filter(|file| file.starts_with("usr/"))
            .count(),
        0
    );
}
