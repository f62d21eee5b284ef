//! The tables of docs/LIMITS.md.

use std::path::Path;

/// A row of the table of resident memory.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The stored data, as in the tables of stored data.
    pub(crate) name: String,
    /// The peer's packets, or why nothing is measured.
    pub(crate) attack: String,
    pub(crate) packets: Option<u64>,
    /// The growth of resident memory, in bytes.
    pub(crate) bytes: Option<u64>,
}

pub(crate) struct Document {
    /// The names of the rows of all tables of stored data.
    pub(crate) stored: Vec<String>,
    pub(crate) resident: Vec<Row>,
}

/// "384 KiB" in bytes.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let unit = match unit {
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * unit) as u64)
}

impl Document {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/LIMITS.md");
        let text = std::fs::read_to_string(path).expect("docs/LIMITS.md");
        let mut document = Self {
            stored: Vec::new(),
            resident: Vec::new(),
        };
        let mut section = "";
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title;
            }
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let is_row =
                line.starts_with('|') && !cells[0].starts_with("---") && !cells[0].starts_with("stored data");
            match section {
                _ if !is_row => {}
                "Resident memory" => {
                    let [name, attack, packets, limit] = cells[..] else {
                        panic!("four cells, not {line}")
                    };
                    document.resident.push(Row {
                        name: name.to_owned(),
                        attack: attack.to_owned(),
                        packets: packets.replace(',', "").parse().ok(),
                        bytes: bytes(limit),
                    });
                }
                title if title.starts_with("Kept for ") => document.stored.push(cells[0].to_owned()),
                _ => {}
            }
        }
        document
    }

    pub(crate) fn resident(&self, name: &str) -> Option<&Row> {
        self.resident.iter().find(|row| row.name == name)
    }
}
