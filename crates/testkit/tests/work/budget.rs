//! Work is counted in instructions, by valgrind, so that neither a fast nor a busy machine matters, and nothing that is
//! executed goes uncounted, moves of memory included. The test runs itself under valgrind once; that run plays every
//! shape: it prepares an endpoint, and hands what the shape sends then to [`attack_with_counted_work`], the only function in
//! which valgrind counts.

use std::path::Path;
use std::process::Command;

use crate::shapes::{SHAPES, Shape};
use crate::victim::Victim;

/// Instructions that a peer may cause for each byte that it sends, IP and UDP headers included. See docs/LIMITS.md for how it
/// was found: more than five times what the costliest ordinary traffic takes.
pub(crate) const BOUND: u64 = 2000;

/// The variable whose presence makes the test play the shapes instead of counting.
const PLAY: &str = "ANABRANCH_WORK_PLAY";

/// Bytes of IPv4 and UDP headers of each datagram.
const HEADERS: usize = 28;

/// Hands the victim what a shape sends, and takes all that follows.
#[inline(never)]
fn attack_with_counted_work(victim: &mut Victim, datagrams: &[bytes::Bytes]) {
    for datagram in datagrams {
        victim.handle(datagram.clone());
        victim.drain();
    }
}

/// Here valgrind writes what it counted, and begins anew.
#[inline(never)]
fn shape_ends_here(name: &str, bytes: usize) {
    println!("\nshape {name} {bytes}");
}

/// Plays all shapes, and prints how many bytes each sends.
fn play() {
    for shape in &SHAPES {
        let (mut victim, datagrams) = (shape.prepare)();
        assert!(!datagrams.is_empty());
        attack_with_counted_work(&mut victim, &datagrams);
        (shape.check)(&victim);
        let bytes: usize = datagrams.iter().map(|datagram| datagram.len() + HEADERS).sum();
        shape_ends_here(shape.name, bytes);
    }
}

/// Runs this test under valgrind; for each shape in order the instructions and the bytes.
fn count(folder: &Path) -> Vec<(u64, u64)> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).expect("a folder for what valgrind writes");
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg("--toggle-collect=*attack_with_counted_work*")
        .arg("--dump-before=*shape_ends_here*")
        .arg(format!("--callgrind-out-file={}/counts", folder.display()))
        .arg(program)
        .args([
            "--exact",
            "budget::work_for_each_byte",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PLAY, "1")
        .output()
        .expect("valgrind runs; scripts/setup installs it");
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{complaints}");
    let played = text.lines().filter_map(|line| line.strip_prefix("shape "));
    let counts = played.enumerate().map(|(number, line)| {
        let file = folder.join(format!("counts.{}", number + 1));
        let counts = std::fs::read_to_string(&file).expect("valgrind wrote a file for each shape");
        let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
        let total = total.and_then(|total| total.trim().parse().ok());
        let bytes = line.rsplit_once(' ').and_then(|(_, bytes)| bytes.parse().ok());
        (
            total.expect("a number of instructions"),
            bytes.expect("a number of bytes"),
        )
    });
    counts.collect()
}

/// No shape costs more than the bound, and ordinary traffic costs a fifth of it at most.
#[test]
fn work_for_each_byte() {
    if std::env::var_os(PLAY).is_some() {
        return play();
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("work");
    let counts = count(&folder);
    assert_eq!(counts.len(), SHAPES.len());
    let mut above = Vec::new();
    for (Shape { name, bound, .. }, (instructions, bytes)) in SHAPES.iter().zip(counts) {
        let each = instructions / bytes;
        println!("{name}: {each} instructions for each of {bytes} bytes");
        assert!(instructions > 1000, "{name}: something was counted");
        if each > *bound {
            above.push(format!("{name}: {each} instructions a byte, not {bound}"));
        }
    }
    assert!(above.is_empty(), "{}", above.join("\n"));
}
