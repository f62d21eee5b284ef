//! The packets that crossed the links: kept in memory for failing tests, written as pcapng for Wireshark, or both.
//!
//! A packet is recorded once, when it enters its link, as the sender's own capture would show it. A comment tells the packet's fate on the
//! link.

use std::collections::VecDeque;
use std::io::{self, Write};

use anabranch_proto::Timestamp;

use crate::link::{Fate, LossCause};
use crate::network::LinkId;
use crate::packet::Packet;
use crate::pcapng::{InterfaceId, PcapngWriter};

/// A packet that entered a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the packet entered the link.
    pub at: Timestamp,
    /// The link.
    pub link: LinkId,
    /// The packet as it was sent.
    pub packet: Packet,
    /// The packet's fate.
    pub fate: Fate,
}

/// A description of a fate; `None` if the packet just arrives.
#[must_use]
pub fn describe(fate: Fate) -> Option<&'static str> {
    match fate {
        Fate {
            lost: Some(LossCause::Queue),
            ..
        } => Some("lost: queue full"),
        Fate {
            lost: Some(LossCause::Model),
            ..
        } => Some("lost"),
        Fate {
            lost: Some(LossCause::Down),
            ..
        } => Some("lost: link down"),
        Fate {
            lost: Some(LossCause::TooLarge),
            ..
        } => Some("lost: larger than the MTU"),
        Fate {
            corrupted: true,
            duplicated: true,
            ..
        } => Some("corrupted, duplicated"),
        Fate { corrupted: true, .. } => Some("corrupted"),
        Fate {
            duplicated: true,
            late: true,
            ..
        } => Some("duplicated, late"),
        Fate { duplicated: true, .. } => Some("duplicated"),
        Fate { late: true, .. } => Some("late"),
        Fate { marked: true, .. } => Some("marked CE"),
        Fate { .. } => None,
    }
}

/// Records the packets of all links of a network.
#[derive(Default)]
pub(crate) struct Trace {
    records: VecDeque<Record>,
    /// Number of records to keep; 0 keeps none.
    keep: usize,
    capture: Option<Capture>,
}

struct Capture {
    writer: PcapngWriter<Box<dyn Write + Send>>,
    /// The capture's interface of each link.
    interfaces: Vec<InterfaceId>,
    /// The first error. It is returned when the capture is finished, because a full disk does not end a run.
    error: Option<io::Error>,
}

impl Trace {
    /// Whether packets are recorded; if not, the caller need not copy the packet.
    pub(crate) fn is_on(&self) -> bool {
        self.keep > 0 || self.capture.is_some()
    }

    pub(crate) fn keep(&mut self, records: usize) {
        self.keep = records;
        let excess = self.records.len().saturating_sub(records);
        self.records.drain(..excess);
    }

    pub(crate) fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.records.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.records.clear();
    }

    /// Begins a capture with one interface for each existing link.
    pub(crate) fn capture<'a>(
        &mut self,
        out: Box<dyn Write + Send>,
        links: impl Iterator<Item = &'a str>,
    ) -> io::Result<()> {
        let mut writer = PcapngWriter::new(out, 0)?;
        let interfaces = links
            .map(|name| writer.add_interface(name))
            .collect::<io::Result<_>>()?;
        self.capture = Some(Capture {
            writer,
            interfaces,
            error: None,
        });
        Ok(())
    }

    pub(crate) fn add_link(&mut self, name: &str) {
        let Some(capture) = &mut self.capture else { return };
        match capture.writer.add_interface(name) {
            Ok(interface) => capture.interfaces.push(interface),
            Err(error) => capture.error = capture.error.take().or(Some(error)),
        }
    }

    pub(crate) fn finish_capture(&mut self) -> io::Result<()> {
        match self.capture.take() {
            Some(Capture {
                error: Some(error), ..
            }) => Err(error),
            Some(mut capture) => capture.writer.flush(),
            None => Ok(()),
        }
    }

    pub(crate) fn record(&mut self, record: Record) {
        if let Some(capture) = &mut self.capture
            && capture.error.is_none()
        {
            let interface = capture.interfaces[record.link.index()];
            let comment = describe(record.fate);
            let written = capture
                .writer
                .write_packet(interface, record.at, &record.packet, comment);
            capture.error = written.err();
        }
        if self.keep > 0 {
            if self.records.len() == self.keep {
                self.records.pop_front();
            }
            self.records.push_back(record);
        }
    }
}
