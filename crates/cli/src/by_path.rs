//! The counters and state of a sender's paths, in total and for an interval, as JSON for the peer and as text for the user.
//! The retransmissions of a path are the chunks that it retransmitted, whichever path lost them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::{PathState, PathStats};
use serde_json::{Value, json};

use crate::delays::millis;
use crate::table::{Group, Table};
use crate::units;

/// Counters and state of a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathTally {
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
    pub(crate) state: PathState,
    pub(crate) primary: bool,
    /// Bytes of user data, retransmissions included.
    pub(crate) bytes: u64,
    /// DATA chunks sent (with retransmissions), chunks found lost, and retransmissions.
    pub(crate) chunks: u64,
    pub(crate) lost: u64,
    pub(crate) retransmissions: u64,
    pub(crate) timeouts: u64,
    /// Packets that the receiver reported as marked (ECN).
    pub(crate) marked: u64,
    pub(crate) srtt: Option<Duration>,
    /// The congestion window, in bytes.
    pub(crate) cwnd: u64,
    /// The pacing rate in bytes per second; `None` for an algorithm that does not pace.
    pub(crate) pacing_rate: Option<u64>,
}

/// Counters of a path in an interval, and its state at the end of the interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathInterval {
    local: Option<IpAddr>,
    remote: SocketAddr,
    /// Bytes of user data, retransmissions included.
    pub(crate) bytes: u64,
    /// Chunks found lost, and chunks retransmitted.
    pub(crate) lost: u64,
    retransmissions: u64,
    /// Packets that the receiver reported as marked (ECN).
    pub(crate) marked: u64,
    srtt: Option<Duration>,
    /// The congestion window, in bytes.
    cwnd: u64,
    /// The pacing rate in bytes per second; `None` for an algorithm that does not pace.
    pacing_rate: Option<u64>,
}

const STATES: [(PathState, &str); 4] = [
    (PathState::Unconfirmed, "unconfirmed"),
    (PathState::Active, "active"),
    (PathState::PotentiallyFailed, "potentially failed"),
    (PathState::Inactive, "inactive"),
];

fn state_name(state: PathState) -> &'static str {
    STATES
        .iter()
        .find(|(known, _)| *known == state)
        .map_or("unknown", |(_, name)| name)
}

impl PathTally {
    /// The counters and state that the association reports.
    pub(crate) fn of(path: &PathStats) -> Self {
        Self {
            local: path.local,
            remote: path.remote,
            state: path.state,
            primary: path.primary,
            bytes: path.data_bytes_sent,
            chunks: path.data_chunks_sent,
            lost: path.chunks_lost,
            retransmissions: path.chunks_retransmitted,
            timeouts: path.timeouts,
            marked: path.ecn.packets_marked,
            srtt: path.srtt,
            cwnd: path.cwnd as u64,
            pacing_rate: path.pacing_rate,
        }
    }

    /// The difference to an earlier reading of the path; without one, since the association setup.
    pub(crate) fn since(&self, earlier: Option<&Self>) -> PathInterval {
        let grown = |counter: fn(&Self) -> u64| counter(self).saturating_sub(earlier.map_or(0, counter));
        PathInterval {
            local: self.local,
            remote: self.remote,
            bytes: grown(|path| path.bytes),
            lost: grown(|path| path.lost),
            retransmissions: grown(|path| path.retransmissions),
            marked: grown(|path| path.marked),
            srtt: self.srtt,
            cwnd: self.cwnd,
            pacing_rate: self.pacing_rate,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "local": self.local.map(|local| local.to_string()), "remote": self.remote.to_string(),
            "state": state_name(self.state), "primary": self.primary, "bytes": self.bytes, "chunks": self.chunks,
            "lost": self.lost, "retransmissions": self.retransmissions, "timeouts": self.timeouts,
            "marked": self.marked,
            "srtt_ms": self.srtt.map(millis), "cwnd_bytes": self.cwnd,
            "pacing_bits_per_second": self.pacing_rate.map(|rate| rate.saturating_mul(8)),
        })
    }

    /// Reads what [`PathTally::to_json`] writes.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        let state = value["state"].as_str()?;
        Some(Self {
            local: value["local"].as_str().and_then(|local| local.parse().ok()),
            remote: value["remote"].as_str()?.parse().ok()?,
            state: STATES.iter().find(|(_, name)| *name == state)?.0,
            primary: value["primary"].as_bool()?,
            bytes: number("bytes")?,
            chunks: number("chunks")?,
            lost: number("lost")?,
            retransmissions: number("retransmissions")?,
            timeouts: number("timeouts")?,
            // Versions before ECN do not send it.
            marked: number("marked").unwrap_or_default(),
            srtt: value["srtt_ms"]
                .as_f64()
                .and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok()),
            cwnd: number("cwnd_bytes")?,
            pacing_rate: number("pacing_bits_per_second").map(|bits| bits / 8),
        })
    }
}

impl PathInterval {
    /// The window and the RTT, and the pacing rate if there is one.
    pub(crate) fn condition(&self) -> String {
        let pacing = self.pacing_rate.map_or(String::new(), |rate| {
            format!(", paced at {}", units::rate(rate, Duration::from_secs(1)))
        });
        format!(
            "cwnd {}, RTT {}{pacing}",
            units::size(self.cwnd),
            self.srtt.map_or("unknown".to_owned(), units::duration)
        )
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "local": self.local.map(|local| local.to_string()), "remote": self.remote.to_string(),
            "bytes": self.bytes, "lost": self.lost, "retransmissions": self.retransmissions,
            "marked": self.marked, "srtt_ms": self.srtt.map(millis), "cwnd_bytes": self.cwnd,
            "pacing_bits_per_second": self.pacing_rate.map(|rate| rate.saturating_mul(8)),
        })
    }
}

/// A line for each path that carried data in an interval; no lines if there is only one path.
pub(crate) fn interval_lines(paths: &[PathInterval]) -> Vec<String> {
    if paths.len() < 2 {
        return Vec::new();
    }
    let bytes: Vec<u64> = paths.iter().map(|path| path.bytes).collect();
    let carried = paths.iter().zip(shares(&bytes));
    let carried = carried.filter(|(path, _)| path.bytes > 0);
    let line = |(path, share): (&PathInterval, String)| {
        format!(
            "        {}: {share} of the data, {}, {}",
            route(path.local, path.remote),
            path.condition(),
            losses(path.lost, path.retransmissions, path.marked),
        )
    };
    carried.map(line).collect()
}

/// Chunks lost and chunks retransmitted, and packets marked if there are any.
pub(crate) fn losses(lost: u64, retransmitted: u64, marked: u64) -> String {
    let marked = match marked {
        0 => String::new(),
        marked => format!(", {} marked", units::counted(marked, "packet")),
    };
    format!(
        "{} lost, {retransmitted} retransmitted{marked}",
        units::counted(lost, "chunk")
    )
}

fn route(local: Option<IpAddr>, remote: SocketAddr) -> String {
    let from = local.map_or("any".to_owned(), |local| local.to_string());
    format!("{from} to {}", remote.ip())
}

/// The share of each part, in percent.
fn shares(parts: &[u64]) -> Vec<String> {
    let whole = parts.iter().sum::<u64>().max(1) as f64;
    let share = |part: &u64| format!("{:.0} %", *part as f64 * 100.0 / whole);
    parts.iter().map(share).collect()
}

/// A row for each path; `None` if there is only one path.
pub(crate) fn table(title: &str, paths: &[PathTally]) -> Option<String> {
    if paths.len() < 2 {
        return None;
    }
    let columns = [
        "sent",
        "share",
        "RTT",
        "cwnd",
        "chunks",
        "lost",
        "retransmitted",
        "timeouts",
        "state",
    ];
    let group = Group {
        title: title.to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
    };
    let mut table = Table::new("path", vec![group]);
    let bytes: Vec<u64> = paths.iter().map(|path| path.bytes).collect();
    for (path, share) in paths.iter().zip(shares(&bytes)) {
        table.row(vec![
            route(path.local, path.remote),
            units::size(path.bytes),
            share,
            path.srtt.map_or("?".to_owned(), units::duration),
            units::size(path.cwnd),
            path.chunks.to_string(),
            path.lost.to_string(),
            path.retransmissions.to_string(),
            path.timeouts.to_string(),
            state_name(path.state).to_owned(),
        ]);
    }
    Some(table.render())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn tally(local: Option<&str>, bytes: u64) -> PathTally {
        PathTally {
            local: local.map(|local| local.parse().unwrap()),
            remote: "10.0.0.9:9899".parse().unwrap(),
            state: PathState::PotentiallyFailed,
            primary: true,
            bytes,
            chunks: 20,
            lost: 3,
            retransmissions: 2,
            timeouts: 1,
            marked: 4,
            srtt: Some(Duration::from_micros(1500)),
            cwnd: 4380,
            pacing_rate: None,
        }
    }

    #[test]
    fn written_records_are_read() {
        for path in [tally(None, 0), tally(Some("fd00::1"), 1 << 40)] {
            assert_eq!(PathTally::from_json(&path.to_json()), Some(path));
        }
        let mut strange = tally(None, 0).to_json();
        strange["state"] = "\x1b[2J".into();
        assert_eq!(PathTally::from_json(&strange), None);
    }

    #[test]
    fn an_interval_has_the_changes_and_the_present_state() {
        let earlier = tally(Some("10.0.0.1"), 1000);
        let later = PathTally {
            bytes: 4000,
            lost: 5,
            retransmissions: 6,
            srtt: None,
            cwnd: 8760,
            ..earlier.clone()
        };
        let recent = later.since(Some(&earlier));
        let mut told = json!({
            "local": "10.0.0.1", "remote": "10.0.0.9:9899", "bytes": 3000, "lost": 2, "retransmissions": 4,
            "marked": 0, "srtt_ms": null, "cwnd_bytes": 8760, "pacing_bits_per_second": null,
        });
        assert_eq!(recent.to_json(), told);
        assert_eq!(recent.condition(), "cwnd 8.6 KiB, RTT unknown");
        let paced = PathTally {
            pacing_rate: Some(125_000),
            ..later.clone()
        };
        assert_eq!(PathTally::from_json(&paced.to_json()), Some(paced.clone()));
        let paced = paced.since(Some(&earlier));
        told["pacing_bits_per_second"] = 1_000_000.into();
        assert_eq!(paced.to_json(), told);
        assert_eq!(
            paced.condition(),
            "cwnd 8.6 KiB, RTT unknown, paced at 1.00 Mbit/s"
        );
        assert_eq!(later.since(None).bytes, 4000);
    }

    #[test]
    fn paths_that_carry_data_have_lines() {
        let [first, idle, third] = [3000, 0, 1000].map(|bytes| tally(Some("10.0.0.1"), bytes).since(None));
        assert!(interval_lines(std::slice::from_ref(&first)).is_empty());
        let lines = interval_lines(&[first, idle, third]);
        assert_eq!(
            lines[0],
            "        10.0.0.1 to 10.0.0.9: 75 % of the data, cwnd 4.3 KiB, RTT 1.50 ms, 3 chunks lost, 2 retransmitted, \
             4 packets marked"
        );
        assert!(lines.len() == 2 && lines[1].contains("25 %"), "{lines:?}");
    }

    #[test]
    fn one_path_needs_no_table_and_two_have_shares() {
        let path = tally(Some("10.0.0.1"), 3000);
        assert_eq!(table("forward", std::slice::from_ref(&path)), None);
        let both = table("forward", &[path, tally(None, 1000)]).unwrap();
        assert!(
            both.contains("10.0.0.1 to 10.0.0.9") && both.contains("75 %") && both.contains("25 %"),
            "{both}"
        );
        assert_eq!(shares(&[0, 0]), ["0 %", "0 %"]);
    }
}
