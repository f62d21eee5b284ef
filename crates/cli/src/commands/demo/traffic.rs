//! The traffic of the demonstration and its receiver: a file at full rate, a line of chat twice a second, and a telemetry reading
//! fifty times a second, once with a deadline and once reliable.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch::{Association, Reliability, StreamHandle};
use sha2::Digest;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::board::{Board, Kind};
use crate::failure::Failure;

/// Bytes of the file in a message, which fits one packet. Round-robin gives each stream one message in turn, so that larger
/// messages would give the file more than its share and delay the telemetry.
const FILE_MESSAGE: usize = 1 << 10;
/// Limit of the file's bytes that wait to be sent, so that the demonstration ends soon after its time is over.
const FILE_AHEAD: usize = 64 << 10;
const CHAT_INTERVAL: Duration = Duration::from_millis(500);
pub(super) const TELEMETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The time after which a reading is of no use.
pub(super) const DEADLINE: Duration = Duration::from_millis(150);
/// Bytes of a reading.
const TELEMETRY_LEN: usize = 100;

const LINES: [&str; 6] = [
    "Are you there?",
    "Yes. The file is still being sent.",
    "And you write while it is?",
    "On a stream of my own: a packet it loses does not hold me up.",
    "How is the boat?",
    "See the telemetry; nobody waits for an old reading.",
];

/// The chat's message with this number.
pub(super) fn chat(number: u64) -> String {
    let line = LINES[usize::try_from(number % LINES.len() as u64).unwrap_or(0)];
    format!("{number}: {line}")
}

/// The reading with this number.
pub(super) fn telemetry(seed: u64, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; TELEMETRY_LEN];
    Noise::new(seed ^ number.rotate_left(32)).fill(&mut bytes);
    bytes
}

/// Reproducible bytes that do not compress: splitmix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
struct Noise(u64);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            word.copy_from_slice(&mixed.to_be_bytes()[..word.len()]);
        }
    }
}

/// The file: a real file, or generated content.
#[derive(Debug)]
pub(super) struct FileSource {
    content: Content,
    length: u64,
}

#[derive(Debug)]
enum Content {
    Real(File),
    MadeUp { noise: Noise, left: u64 },
}

impl FileSource {
    pub(super) fn open(path: Option<&Path>, size: u64, seed: u64) -> Result<Self, Failure> {
        let Some(path) = path else {
            let content = Content::MadeUp {
                noise: Noise::new(seed),
                left: size,
            };
            return Ok(Self {
                content,
                length: size,
            });
        };
        let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        match opened {
            Ok((_, metadata)) if metadata.is_dir() => Err(Failure::new(format!(
                "--file {}: is a directory; give a file",
                path.display()
            ))),
            Ok((file, metadata)) => Ok(Self {
                content: Content::Real(file),
                length: metadata.len(),
            }),
            Err(error) => Err(Failure::new(format!(
                "--file {}: cannot be read: {error}; check name and permission",
                path.display()
            ))),
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The content of the next message; empty at the end.
    fn next(&mut self) -> std::io::Result<Vec<u8>> {
        let mut piece = Vec::new();
        match &mut self.content {
            Content::Real(file) => {
                tokio::task::block_in_place(|| file.take(FILE_MESSAGE as u64).read_to_end(&mut piece))?;
            }
            Content::MadeUp { noise, left } => {
                let len = (*left).min(FILE_MESSAGE as u64);
                *left -= len;
                piece.resize(usize::try_from(len).unwrap_or(FILE_MESSAGE), 0);
                noise.fill(&mut piece);
            }
        }
        Ok(piece)
    }
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything a source needs.
#[derive(Clone, Debug)]
struct Outlet {
    kind: Kind,
    stream: StreamHandle,
    board: Arc<Mutex<Board>>,
    stop: watch::Receiver<bool>,
}

/// Starts the sources. They end when `stop` is set or the association ends, and return an error if one occurred.
pub(super) fn start(
    association: &Association,
    file: FileSource,
    reliability: Reliability,
    board: &Arc<Mutex<Board>>,
    stop: &watch::Receiver<bool>,
) -> Vec<JoinHandle<Result<(), String>>> {
    let outlet = |kind: Kind| Outlet {
        kind,
        stream: match (kind, reliability) {
            (Kind::Telemetry, Reliability::Reliable) => association.stream(kind.stream()).deadline(DEADLINE),
            (Kind::Telemetry, chosen) => association
                .stream(kind.stream())
                .unordered(true)
                .reliability(chosen),
            (Kind::File | Kind::Chat | Kind::Reliable, _) => association.stream(kind.stream()),
        },
        board: Arc::clone(board),
        stop: stop.clone(),
    };
    let seed_board = lock(board).seed();
    let mut sources = vec![
        tokio::spawn(outlet(Kind::File).send_file(file)),
        tokio::spawn(outlet(Kind::Chat).repeat(CHAT_INTERVAL, |number| chat(number).into_bytes())),
    ];
    let readings = move |number| telemetry(seed_board, number);
    sources
        .extend(Kind::READINGS.map(|kind| tokio::spawn(outlet(kind).repeat(TELEMETRY_INTERVAL, readings))));
    sources
}

impl Outlet {
    /// Sends a message; false if it is time to stop.
    async fn send(&mut self, payload: &[u8]) -> Result<bool, String> {
        let message = lock(&self.board).stamp(self.kind, payload);
        let result = tokio::select! {
            // Check the send first: an accepted message must be counted, even if `stop` is set at the same time.
            biased;
            result = self.stream.send(message) => result,
            _ = self.stop.wait_for(|stop| *stop) => {
                lock(&self.board).unsent(self.kind);
                return Ok(false);
            }
        };
        result.map(|_| true).map_err(|error| {
            lock(&self.board).unsent(self.kind);
            format!("{}: {error}", self.kind.name())
        })
    }

    async fn send_file(mut self, mut file: FileSource) -> Result<(), String> {
        loop {
            let piece = file
                .next()
                .map_err(|error| format!("--file: cannot be read to its end: {error}"))?;
            if piece.is_empty() {
                lock(&self.board).file_read = true;
                return Ok(());
            }
            tokio::select! {
                // An end of the association is told by `send`.
                _ = self.stream.buffered_amount_low(FILE_AHEAD) => {}
                _ = self.stop.wait_for(|stop| *stop) => return Ok(()),
            }
            if !self.send(&piece).await? {
                return Ok(());
            }
            lock(&self.board).digest_sent.update(&piece);
        }
    }

    async fn repeat(
        mut self,
        interval: Duration,
        make: impl Fn(u64) -> Vec<u8> + Send,
    ) -> Result<(), String> {
        let mut ticks = tokio::time::interval(interval);
        for number in 0.. {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = self.stop.wait_for(|stop| *stop) => return Ok(()),
            }
            if !self.send(&make(number)).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Receives all messages. The sending side reports how the association ended.
pub(super) async fn receive(association: Association, board: Arc<Mutex<Board>>) {
    while let Ok(Some(message)) = association.recv().await {
        let stream = message.stream;
        let bytes = message.into_bytes();
        lock(&board).deliver(stream, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_file_has_its_length_and_repeats_with_the_seed() {
        let all = |seed| {
            let mut source = FileSource::open(None, 20_001, seed).unwrap();
            let mut content = Vec::new();
            loop {
                let piece = source.next().unwrap();
                if piece.is_empty() {
                    return content;
                }
                content.extend(piece);
            }
        };
        assert_eq!(all(1).len(), 20_001);
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }
}
