//! The paths and rules of clients at one time: as a table, as JSON, and for [`super::metrics`] and [`super::page`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch::{AssociationStats, PathState, PathStats};
use anabranch_forward::{Client, RuleStats, Server};
use serde_json::{Value, json};

use crate::table::{Group, Table};
use crate::units;

/// A client, as it sees itself or as its server does.
#[derive(Clone, Debug)]
pub(super) struct ClientView {
    /// The client's address at the server; empty at the client.
    pub(super) remote: String,
    /// `None` while there is no association.
    pub(super) association: Option<AssociationStats>,
    /// The interface of each local address, if paths come from it.
    pub(super) interfaces: BTreeMap<IpAddr, String>,
    pub(super) rules: Vec<(String, RuleStats)>,
}

/// All clients.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) clients: Vec<ClientView>,
}

impl Status {
    pub(super) fn of_client(client: &Client) -> Self {
        Self {
            clients: vec![ClientView::of(client)],
        }
    }

    pub(super) fn of_server(server: &Server) -> Self {
        let clients = server.clients().into_iter().map(|client| ClientView {
            remote: client.remote.to_string(),
            association: Some(client.association),
            interfaces: BTreeMap::new(),
            rules: client.rules,
        });
        Self {
            clients: clients.collect(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let clients: Vec<Value> = self.clients.iter().map(ClientView::to_json).collect();
        json!({ "event": "status", "clients": clients })
    }

    fn tables(&self) -> String {
        let tables: Vec<String> = self.clients.iter().map(ClientView::table).collect();
        if tables.is_empty() {
            return "no client".to_owned();
        }
        tables.join("\n\n")
    }
}

/// The local and the remote address of a path.
pub(super) fn addresses(path: &PathStats) -> String {
    let local = path
        .local
        .map_or_else(|| "any".to_owned(), |local| local.to_string());
    format!("{local} – {}", path.remote)
}

pub(super) fn state_name(state: PathState) -> &'static str {
    match state {
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially failed",
        PathState::Inactive => "inactive",
        PathState::Unconfirmed => "unconfirmed",
    }
}

/// Why a path is not used, in words.
pub(super) fn remark(state: PathState) -> &'static str {
    match state {
        PathState::Active => "",
        PathState::PotentiallyFailed => "a timeout: heartbeats test it",
        PathState::Inactive => "no answers",
        PathState::Unconfirmed => "no heartbeat was answered yet",
    }
}

/// The share of chunks that were lost on a path.
fn loss(path: &PathStats) -> f64 {
    match path.data_chunks_sent {
        0 => 0.0,
        sent => path.chunks_lost as f64 / sent as f64,
    }
}

impl ClientView {
    pub(super) fn of(client: &Client) -> Self {
        let names = client.rules().into_iter().map(|rule| rule.to_string());
        let association = client.association();
        let paths = association.iter().flat_map(|association| &association.paths);
        let interface = |local: IpAddr| Some((local, client.interface(local)?));
        Self {
            remote: String::new(),
            interfaces: paths.filter_map(|path| interface(path.local?)).collect(),
            association,
            rules: names.zip(client.stats()).collect(),
        }
    }

    pub(super) fn paths(&self) -> &[PathStats] {
        self.association
            .as_ref()
            .map_or(&[], |association| &association.paths)
    }

    pub(super) fn interface(&self, path: &PathStats) -> Option<&str> {
        self.interfaces.get(&path.local?).map(String::as_str)
    }

    /// The interface of a path, if it has one, and its addresses.
    pub(super) fn path_name(&self, path: &PathStats) -> String {
        match self.interface(path) {
            Some(interface) => format!("{interface} {}", addresses(path)),
            None => addresses(path),
        }
    }

    fn to_json(&self) -> Value {
        let path = |path: &PathStats| {
            json!({
                "interface": self.interface(path), "local": path.local.map(|local| local.to_string()), "remote": path.remote.to_string(),
                "state": state_name(path.state), "remark": Some(remark(path.state)).filter(|remark| !remark.is_empty()), "srtt_ms": path.srtt.map(|rtt| rtt.as_secs_f64() * 1e3),
                "rate_bits_per_second": path.pacing_rate.map(|rate| rate * 8),
                "bytes_sent": path.data_bytes_sent, "chunks_sent": path.data_chunks_sent,
                "chunks_lost": path.chunks_lost, "chunks_retransmitted": path.chunks_retransmitted,
            })
        };
        let rule = |(name, stats): &(String, RuleStats)| {
            json!({
                "rule": name, "flows": stats.flows, "flows_opened": stats.flows_opened, "flows_refused": stats.flows_refused,
                "messages_sent": stats.messages_sent, "bytes_sent": stats.bytes_sent,
                "messages_received": stats.messages_received, "bytes_received": stats.bytes_received,
                "dropped": stats.dropped, "abandoned": stats.abandoned,
            })
        };
        json!({
            "remote": Some(&self.remote).filter(|remote| !remote.is_empty()), "connected": self.association.is_some(),
            "paths": self.paths().iter().map(path).collect::<Vec<_>>(),
            "rules": self.rules.iter().map(rule).collect::<Vec<_>>(),
        })
    }

    /// A table of paths and one of rules.
    fn table(&self) -> String {
        let group = |title: &str, columns: &[&str]| Group {
            title: title.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
        };
        let head = match (self.remote.as_str(), &self.association) {
            ("", None) => "not connected\n".to_owned(),
            ("", Some(_)) => String::new(),
            (remote, _) => format!("{remote}\n"),
        };
        let columns = ["state", "RTT", "rate", "sent", "loss", "remark"];
        let mut paths = Table::new("path", vec![group("", &columns)]);
        for path in self.paths() {
            paths.row(vec![
                self.path_name(path),
                state_name(path.state).to_owned(),
                path.srtt.map_or_else(String::new, units::duration),
                path.pacing_rate.map_or_else(String::new, |rate| {
                    units::rate(rate, std::time::Duration::from_secs(1))
                }),
                units::size(path.data_bytes_sent),
                format!("{:.1} %", loss(path) * 100.0),
                remark(path.state).to_owned(),
            ]);
        }
        let columns = [
            "flows", "sent", "bytes", "received", "bytes", "dropped", "too late", "refused",
        ];
        let mut rules = Table::new("rule", vec![group("", &columns)]);
        for (name, stats) in &self.rules {
            rules.row(vec![
                name.clone(),
                stats.flows.to_string(),
                stats.messages_sent.to_string(),
                units::size(stats.bytes_sent),
                stats.messages_received.to_string(),
                units::size(stats.bytes_received),
                stats.dropped.to_string(),
                stats.abandoned.to_string(),
                stats.flows_refused.to_string(),
            ]);
        }
        let paths = match self.paths() {
            [] => String::new(),
            _ => format!("{}\n\n", paths.render()),
        };
        format!("{head}{paths}{}", rules.render())
    }
}

/// Draws tables: on a terminal over the ones before, otherwise below them.
#[derive(Debug)]
pub(super) struct Screen {
    is_terminal: bool,
}

impl Screen {
    pub(super) fn new(is_terminal: bool) -> Self {
        Self { is_terminal }
    }

    pub(super) fn draw(&mut self, status: &Status) -> String {
        // The sequences of ECMA-48: the cursor to the first line, and erase what follows.
        const OVER: &str = "\x1b[H\x1b[J";
        let over = if self.is_terminal { OVER } else { "" };
        format!("{over}{}\n", status.tables())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_association_has_its_rules() {
        let status = Status {
            clients: vec![ClientView {
                remote: String::new(),
                association: None,
                interfaces: BTreeMap::new(),
                rules: vec![("udp 127.0.0.1:5000=h:1".to_owned(), RuleStats::default())],
            }],
        };
        let drawn = Screen::new(false).draw(&status);
        assert!(drawn.starts_with("not connected\nrule"), "{drawn}");
        assert!(drawn.contains("udp 127.0.0.1:5000=h:1"), "{drawn}");
        let over = Screen::new(true).draw(&status);
        assert!(over.ends_with(&drawn) && over.starts_with("\x1b[H"));
        assert_eq!(status.to_json()["clients"][0]["connected"], false);
        let none = Status { clients: Vec::new() };
        assert_eq!(Screen::new(false).draw(&none), "no client\n");
    }
}
