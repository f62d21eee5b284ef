//! Captures of a build without the feature `capture`: there are none.

use std::net::SocketAddr;

use anabranch_proto::Timestamp;

#[derive(Debug)]
pub(crate) enum Capture {}

impl Capture {
    pub(crate) fn sent<'a>(
        &self,
        _now: Timestamp,
        _source: SocketAddr,
        _destination: SocketAddr,
        _packets: impl Iterator<Item = &'a [u8]>,
    ) {
        match *self {}
    }

    pub(crate) fn received(&self, _now: Timestamp, _remote: SocketAddr, _local: SocketAddr, _packet: &[u8]) {
        match *self {}
    }

    pub(crate) async fn flush(&self) {
        match *self {}
    }
}
