//! The state and counters of a testbed as a record and as text. The text is made from the record, so that the text of a testbed of
//! another process looks the same.

use std::fmt::Write;
use std::time::Duration;

use anabranch_bed::{Bed, HELD_WITHIN, Side, WayCounters};
use serde_json::{Value, json};

use crate::table::{Group, Table};
use crate::units;

const WAYS: [(&str, &str); 2] = [("leftward", "to the left"), ("rightward", "to the right")];

/// The addresses of the hosts, a line for each host.
pub(super) fn made(bed: &Bed) -> String {
    let mut text = format!("testbed {}", bed.id());
    for side in Side::BOTH {
        let addresses = (1..).take(bed.paths()).flat_map(|path| {
            let v6 = bed.has_ipv6().then(|| side.ipv6(path).to_string());
            std::iter::once(side.ipv4(path).to_string()).chain(v6)
        });
        let addresses: Vec<String> = addresses.collect();
        let _ = write!(text, "\n  {side:<5}  {}", addresses.join("  "));
    }
    text
}

/// The instructions for starting a command on each host.
pub(super) fn how_to_enter(bed: &Bed) -> String {
    let enter = |side| format!("ip netns exec {}", bed.id().namespace(side));
    format!(
        "start commands on the left and on the right with\n  {} COMMAND\n  {} COMMAND\nCtrl-C ends these commands and removes the testbed",
        enter(Side::Left),
        enter(Side::Right)
    )
}

/// The addresses and namespaces as a record.
pub(super) fn made_record(bed: &Bed) -> Value {
    let mut record = json!({ "event": "up", "bed": bed.id().to_string() });
    for (name, value) in bed.environment() {
        let key = name.trim_start_matches("ANABRANCH_BED_").to_lowercase();
        if name != "ANABRANCH_BED" {
            record[key] = value.into();
        }
    }
    record
}

/// The counters so far.
pub(super) fn record(bed: &Bed) -> Value {
    let elapsed = bed.elapsed();
    let paths = bed.counters();
    let held = paths.iter().flatten().all(|way| way.lateness.is_held());
    let paths: Vec<Value> = (1..)
        .zip(&paths)
        .map(|(path, [rightward, leftward])| {
            json!({
                "path": path,
                "leftward": way_record(leftward, elapsed),
                "rightward": way_record(rightward, elapsed),
            })
        })
        .collect();
    json!({
        "event": "bed",
        "bed": bed.id().to_string(),
        "seconds": elapsed.as_secs_f64(),
        "held": held,
        // The standard term; `held` is kept for programs that read it.
        "on_time": held,
        "stolen": bed.stolen(),
        "paths": paths,
    })
}

fn way_record(way: &WayCounters, elapsed: Duration) -> Value {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let late = |share| ms(way.lateness.quantile(share));
    let link = &way.link;
    json!({
        "offered": link.offered + way.lost_full + way.lost_before,
        "delivered": link.delivered,
        "delivered_bytes": link.delivered_bytes,
        "lost": way.lost(),
        "lost_by": {
            "queue": link.lost_queue,
            "aqm": link.lost_aqm,
            "model": link.lost_model,
            "down": link.lost_down,
            "mtu": link.lost_too_large,
            "full": way.lost_full,
            "refused": way.lost_refused,
            "late": way.lost_before,
        },
        "marked": link.marked,
        "duplicated": link.duplicated,
        "corrupted": link.corrupted,
        "reordered": link.reordered,
        "queue_bytes": way.queue_bytes,
        "queue_max_bytes": link.queue_max_bytes,
        "queue_max_packets": link.queue_max_packets,
        "queue_mean_bytes": link.queue_mean_bytes(elapsed),
        "late_ms": { "median": late(0.5), "p99": late(0.99), "max": ms(way.lateness.max()) },
        "busy_seconds": way.handed_over.map_or(0.0, |(first, last)| (last - first).as_secs_f64()),
    })
}

/// The directions of all paths, with their names.
fn ways(record: &Value) -> Vec<(String, &Value)> {
    let paths = record["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_path = |path| {
        WAYS.map(|(key, name): (&str, &str)| (format!("path {} {name}", path_number(path)), &path[key]))
    };
    paths.iter().flat_map(of_path).collect()
}

fn path_number(path: &Value) -> u64 {
    path["path"].as_u64().unwrap_or_default()
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn seconds(value: &Value) -> Duration {
    Duration::try_from_secs_f64(value.as_f64().unwrap_or_default()).unwrap_or_default()
}

/// A number of milliseconds as text.
fn late(value: &Value) -> String {
    let ms = value.as_f64().unwrap_or_default();
    units::duration(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
}

/// A line of counters while the testbed runs.
pub(super) fn now(record: &Value) -> String {
    let mut text = format!("{:6.1} s", record["seconds"].as_f64().unwrap_or_default());
    for (name, way) in ways(record) {
        let _ = write!(
            text,
            "  | {name}: {}, {}, {} lost, queue {}, {} late (p99)",
            units::counted(whole(&way["delivered"]), "packet"),
            units::size(whole(&way["delivered_bytes"])),
            whole(&way["lost"]),
            units::size(whole(&way["queue_bytes"])),
            late(&way["late_ms"]["p99"]),
        );
    }
    text
}

/// The counters as a table, and whether the machine was too busy.
pub(super) fn summary(record: &Value) -> String {
    let group = |title: &str, columns: &[&str]| Group {
        title: title.to_owned(),
        columns: columns.iter().map(ToString::to_string).collect(),
    };
    let mut table = Table::new(
        "",
        vec![
            group("delivered", &["packets", "bytes", "rate"]),
            group("", &["lost"]),
            group("queue", &["now", "max"]),
            group("delivered late by", &["median", "p99", "max"]),
        ],
    );
    let mut notes = Vec::new();
    for (name, way) in ways(record) {
        let (late_ms, busy) = (&way["late_ms"], seconds(&way["busy_seconds"]));
        table.row(vec![
            name.clone(),
            whole(&way["delivered"]).to_string(),
            units::size(whole(&way["delivered_bytes"])),
            units::rate(whole(&way["delivered_bytes"]), busy),
            whole(&way["lost"]).to_string(),
            units::size(whole(&way["queue_bytes"])),
            units::size(whole(&way["queue_max_bytes"])),
            late(&late_ms["median"]),
            late(&late_ms["p99"]),
            late(&late_ms["max"]),
        ]);
        notes.extend(losses(way).map(|losses| format!("{name}: lost {losses}")));
        let marked = whole(&way["marked"]);
        if marked > 0 {
            notes.push(format!("{name}: marked {} CE", units::counted(marked, "packet")));
        }
    }
    let mut text = format!(
        "testbed {} after {}\n{}",
        record["bed"].as_str().unwrap_or_default(),
        units::duration(seconds(&record["seconds"])),
        table.render()
    );
    if record["held"] == false {
        notes.push(format!(
            "the machine was too busy for exact timing: more than 1 % of the packets were {} or more late",
            units::duration(HELD_WITHIN)
        ));
        let stolen = record["stolen"].as_f64().unwrap_or_default() * 100.0;
        if stolen >= 0.1 {
            notes.push(format!(
                "meanwhile the host of this virtual machine took {stolen:.1} % of its processor time (steal time)"
            ));
        }
    }
    for note in notes {
        text.push('\n');
        text.push_str(&note);
    }
    text
}

/// The causes of losses, with the number of packets; `None` without losses.
fn losses(way: &Value) -> Option<String> {
    let causes = [
        ("queue", "by the queue"),
        ("aqm", "by active queue management"),
        ("model", "by chance"),
        ("down", "while the link was down"),
        ("mtu", "for the link's MTU"),
        ("full", "because the testbed holds at most 128 MiB"),
        ("refused", "because the kernel did not accept them"),
        ("late", "because the testbed was too busy to read them"),
    ];
    let lost = causes.iter().filter_map(|(key, text)| {
        let count = whole(&way["lost_by"][key]);
        (count > 0).then(|| format!("{count} {text}"))
    });
    let lost: Vec<String> = lost.collect();
    (!lost.is_empty()).then(|| lost.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_every_loss_and_says_when_the_machine_was_too_busy() {
        let mut way = WayCounters::default();
        way.link.delivered = 10;
        way.link.delivered_bytes = 12_500;
        way.link.lost_queue = 3;
        way.link.lost_aqm = 4;
        way.link.marked = 6;
        way.lost_before = 2;
        way.handed_over = Some((Duration::from_secs(1), Duration::from_secs(2)));
        let record = |held: bool| {
            let idle = way_record(&WayCounters::default(), Duration::from_secs(3));
            let busy = way_record(&way, Duration::from_secs(3));
            json!({ "bed": "1-2-3", "seconds": 3.0, "held": held, "stolen": 0.034, "paths": [{ "path": 1, "leftward": busy, "rightward": idle }] })
        };
        let text = summary(&record(true));
        assert!(text.starts_with("testbed 1-2-3 after 3.00 s"), "{text}");
        assert!(text.contains("100.0 kbit/s"), "{text}");
        assert!(
            text.contains(
                "path 1 to the left: lost 3 by the queue, 4 by active queue management, 2 because the testbed was too busy \
                 to read them\npath 1 to the left: marked 6 packets CE"
            ),
            "{text}"
        );
        assert!(
            !text.contains("path 1 to the right: lost") && !text.contains("too busy for exact timing"),
            "{text}"
        );
        let late = summary(&record(false));
        assert!(
            late.contains("the machine was too busy for exact timing") && late.contains("took 3.4 % of"),
            "{late}"
        );
        assert!(now(&record(true)).contains("10 packets, 12.2 KiB, 9 lost"));
        assert_eq!(record(true)["paths"][0]["leftward"]["offered"], 2);
    }
}
