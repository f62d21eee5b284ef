//! docs/LIMITS.md, row by row: for each kind of stored data, a hostile peer sends at least four times what the limit would take, in the
//! worst shape, and the resident memory of the process that it attacks grows by no more than the row says. Each row has a process of its
//! own. No time is asserted. `LIMITS_ROWS=unread` measures the rows whose names contain this text.
#![cfg(target_os = "linux")]

mod attack;
mod channels;
mod core_rows;
mod document;
mod dtls;
mod endpoint;
mod over_udp;
mod web;

use std::process::Command;
use std::sync::Mutex;
use std::thread;

use attack::Attack;
use document::{Document, Row};

/// Attacks the row that [`attack::ROW`] names. Prints the growth.
type Scenario = (&'static str, fn(&mut Attack));

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let rows = [
        core_rows::SCENARIOS,
        endpoint::SCENARIOS,
        dtls::SCENARIOS,
        channels::SCENARIOS,
        over_udp::SCENARIOS,
        web::SCENARIOS,
    ];
    rows.into_iter().flatten()
}

fn scenario(name: &str) -> Option<&'static Scenario> {
    scenarios().find(|(of, _)| *of == name)
}

/// The process of one row.
#[test]
#[ignore = "runs in a process of its own, which `every_row_holds` starts"]
fn one_row() {
    let name = std::env::var(attack::ROW).expect("the name of a row");
    let row = Document::read().resident(&name).expect("the row").clone();
    let (_, run) = scenario(&name).expect("a scenario");
    let mut attack = Attack::new(row.packets.expect("a number of packets"));
    run(&mut attack);
    println!("{}", attack.result());
}

/// Runs a row's scenario in a process of its own. Returns what is wrong.
fn measure(row: &Row) -> Result<String, String> {
    let output = Command::new(std::env::current_exe().expect("this program has a path"))
        .args([
            "--exact",
            "one_row",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(attack::ROW, &row.name)
        .env_remove("ANABRANCH_CAPTURES")
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let complaints = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {text}\n{complaints}", row.name));
    }
    let result = text.lines().find_map(attack::Measured::parse).expect("a result");
    let (limit, packets) = (row.bytes.expect("a limit"), row.packets.expect("a number"));
    let said = format!("{}: {result} of {limit} bytes", row.name);
    if result.packets != packets {
        return Err(format!("{said}: not {packets} packets"));
    }
    if result.would_take < 4 * limit {
        return Err(format!(
            "{said}: what was sent takes less than four times the limit"
        ));
    }
    if result.growth > limit {
        return Err(format!("{said}: too much"));
    }
    Ok(said)
}

/// Each row of the tables of stored data has a row in the table of resident memory, and the other way round; each of these rows has a
/// scenario, or says why it has none.
#[test]
fn every_row_has_a_scenario() {
    let document = Document::read();
    let stored: Vec<_> = document.stored.iter().collect();
    assert!(stored.len() > 40, "{} rows", stored.len());
    let mut wrong = Vec::new();
    for name in &stored {
        if document.resident(name).is_none() {
            wrong.push(format!("not in the table of resident memory: {name}"));
        }
    }
    for row in &document.resident {
        if !document.stored.contains(&row.name) {
            wrong.push(format!("not in a table of stored data: {}", row.name));
        }
        if row.packets.is_some() != scenario(&row.name).is_some() {
            wrong.push(format!(
                "a number of packets without a scenario, or the other way round: {}",
                row.name
            ));
        }
        if row.packets.is_none() && row.attack.len() < 20 {
            wrong.push(format!("neither measured nor a reason: {}", row.name));
        }
    }
    for (name, _) in scenarios() {
        if document.resident(name).is_none() {
            wrong.push(format!("a scenario without a row: {name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_row_holds() {
    let chosen = std::env::var("LIMITS_ROWS").unwrap_or_default();
    let document = Document::read();
    let rows = document.resident.iter().filter(|row| row.packets.is_some());
    let rows: Vec<_> = rows.filter(|row| row.name.contains(&chosen)).collect();
    assert!(!rows.is_empty(), "no row has {chosen:?} in its name");
    let (rows, wrong) = (Mutex::new(rows.into_iter()), Mutex::new(Vec::new()));
    let measure_rows = || {
        while let Some(row) = { rows.lock().expect("no row panics").next() } {
            match measure(row) {
                Ok(said) => println!("{said}"),
                Err(said) => wrong.lock().expect("no row panics").push(said),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(measure_rows);
        }
    });
    let wrong = wrong.into_inner().expect("no row panics");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
