//! What a sender did on each of its paths: how it travels to the other side, and how it is told.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::{PathState, PathStats};
use serde_json::{Value, json};

use crate::delays::millis;
use crate::table::{Group, Table};
use crate::units;

/// What was sent by one path, and how the path is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathTally {
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
    pub(crate) state: PathState,
    pub(crate) primary: bool,
    /// Bytes of user data, repeats included.
    pub(crate) bytes: u64,
    /// DATA chunks: all, those found lost, and the repeats (of what this path lost, or another one).
    pub(crate) chunks: u64,
    pub(crate) lost: u64,
    pub(crate) repeats: u64,
    pub(crate) timeouts: u64,
    pub(crate) srtt: Option<Duration>,
    /// Of the congestion window, in bytes.
    pub(crate) cwnd: u64,
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
    /// As the association tells it.
    pub(crate) fn of(path: &PathStats) -> Self {
        Self {
            local: path.local,
            remote: path.remote,
            state: path.state,
            primary: path.primary,
            bytes: path.data_bytes_sent,
            chunks: path.data_chunks_sent,
            lost: path.chunks_lost,
            repeats: path.chunks_repeated,
            timeouts: path.timeouts,
            srtt: path.srtt,
            cwnd: path.cwnd as u64,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "local": self.local.map(|local| local.to_string()), "remote": self.remote.to_string(),
            "state": state_name(self.state), "primary": self.primary, "bytes": self.bytes, "chunks": self.chunks,
            "lost": self.lost, "retransmissions": self.repeats, "timeouts": self.timeouts,
            "srtt_ms": self.srtt.map(millis), "cwnd_bytes": self.cwnd,
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
            repeats: number("retransmissions")?,
            timeouts: number("timeouts")?,
            srtt: value["srtt_ms"]
                .as_f64()
                .and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok()),
            cwnd: number("cwnd_bytes")?,
        })
    }
}

/// Each part of the whole in percent.
pub(crate) fn shares(parts: &[u64]) -> Vec<String> {
    let whole = parts.iter().sum::<u64>().max(1) as f64;
    let share = |part: &u64| format!("{:.0} %", *part as f64 * 100.0 / whole);
    parts.iter().map(share).collect()
}

/// A row for each path; `None` if there is but one.
pub(crate) fn table(title: &str, paths: &[PathTally]) -> Option<String> {
    if paths.len() < 2 {
        return None;
    }
    let columns = [
        "sent",
        "share",
        "round trip",
        "window",
        "chunks",
        "lost",
        "again",
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
        let from = path.local.map_or("any".to_owned(), |local| local.to_string());
        table.row(vec![
            format!("{from} to {}", path.remote.ip()),
            units::size(path.bytes),
            share,
            path.srtt.map_or("?".to_owned(), units::duration),
            units::size(path.cwnd),
            path.chunks.to_string(),
            path.lost.to_string(),
            path.repeats.to_string(),
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
            repeats: 2,
            timeouts: 1,
            srtt: Some(Duration::from_micros(1500)),
            cwnd: 4380,
        }
    }

    #[test]
    fn what_is_told_is_read() {
        for path in [tally(None, 0), tally(Some("fd00::1"), 1 << 40)] {
            assert_eq!(PathTally::from_json(&path.to_json()), Some(path));
        }
        let mut strange = tally(None, 0).to_json();
        strange["state"] = "\x1b[2J".into();
        assert_eq!(PathTally::from_json(&strange), None);
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
