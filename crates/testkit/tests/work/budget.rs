//! Counts work in instructions, by valgrind, so that the speed and the load of the machine do not matter. All executed
//! instructions count, copies of memory included. The test runs itself under valgrind once. That run plays every shape: it
//! prepares an endpoint and hands the shape's packets to [`attack_with_counted_work`], the only function in which valgrind
//! counts.

use std::path::Path;
use std::process::Command;

use crate::extensions::FAMILY_SHAPES;
use crate::shapes::{SHAPES, Shape};
use anabranch_testkit::victim::Victim;

/// The maximum of instructions that a peer may cause for each byte that it sends, IP and UDP headers included. docs/LIMITS.md
/// says how the value was found: it is more than five times the cost of the costliest ordinary traffic.
pub(crate) const BOUND: u64 = 2000;

/// If this variable is set, the test plays the shapes instead of counting.
const PLAY: &str = "ANABRANCH_WORK_PLAY";

/// Bytes of IPv4 and UDP headers of each datagram.
const HEADERS: usize = 28;

/// All shapes, in the order in which they are played.
fn all() -> impl Iterator<Item = &'static Shape> {
    SHAPES.iter().chain(FAMILY_SHAPES)
}

/// Hands a shape's packets to the victim, and takes all answers and events.
#[inline(never)]
fn attack_with_counted_work(victim: &mut Victim, datagrams: &[bytes::Bytes]) {
    for datagram in datagrams {
        victim.handle(datagram.clone());
        victim.drain();
    }
}

/// Valgrind writes its count here and starts again at 0.
#[inline(never)]
fn shape_ends_here(name: &str, bytes: usize) {
    println!("\nshape {name} {bytes}");
}

/// Plays all shapes, and prints the number of bytes that each sends.
fn play() {
    for shape in all() {
        let (mut victim, datagrams) = (shape.prepare)();
        assert!(!datagrams.is_empty());
        attack_with_counted_work(&mut victim, &datagrams);
        (shape.check)(&victim);
        let bytes: usize = datagrams.iter().map(|datagram| datagram.len() + HEADERS).sum();
        shape_ends_here(shape.name, bytes);
    }
}

/// Runs this test under valgrind; returns the instructions and bytes of each shape, in order.
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

/// No shape costs more than the bound, and ordinary traffic costs at most a fifth of it.
#[test]
fn work_for_each_byte() {
    if std::env::var_os(PLAY).is_some() {
        return play();
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("work");
    let counts = count(&folder);
    assert_eq!(counts.len(), all().count());
    let mut above = Vec::new();
    for (Shape { name, bound, .. }, (instructions, bytes)) in all().zip(counts) {
        let each = instructions / bytes;
        println!("{name}: {each} instructions for each of {bytes} bytes");
        assert!(instructions > 1000, "{name}: something was counted");
        if each > *bound {
            above.push(format!("{name}: {each} instructions a byte, not {bound}"));
        }
    }
    assert!(above.is_empty(), "{}", above.join("\n"));
}
