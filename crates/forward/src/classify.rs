//! The priority class of a flow whose rule names none: by the size of its datagrams or reads, and by the formats of RTP (RFC 3550) and SRT
//! (draft-sharabayko-srt).

use std::time::Duration;

/// Interactive flows: small datagrams, and connections that send little at a time.
pub(crate) const SMALL: u8 = 0;
/// Audio and video.
pub(crate) const MEDIA: u8 = 1;
/// Other datagrams.
pub(crate) const LARGE: u8 = 2;
/// Other connections.
pub(crate) const BYTES: u8 = 3;

/// The deadline of audio and video whose rule and format name none.
const MEDIA_DEADLINE: Duration = Duration::from_millis(300);
/// How long other datagrams may be retransmitted.
pub(crate) const LIFETIME: Duration = Duration::from_secs(1);

/// A datagram of at most this size is small: voice, the state of a game, telemetry, acknowledgements.
const SMALL_SIZE: usize = 400;
/// A flow is interactive if its last datagrams, this many, were small.
const SMALL_IN_A_ROW: u8 = 16;
/// Datagrams in a row that must look like RTP.
const RTP_IN_A_ROW: u8 = 4;

/// A format of audio and video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Rtp,
    Srt {
        /// The latency that its endpoint asked for, if it was read: a packet that comes later is of no use.
        latency: Option<Duration>,
    },
}

impl Media {
    /// The deadline of a datagram whose rule names none.
    pub(crate) fn deadline(self) -> Duration {
        match self {
            Self::Srt {
                latency: Some(latency),
            } => latency,
            Self::Srt { latency: None } | Self::Rtp => MEDIA_DEADLINE,
        }
    }

    /// Whether datagrams arrive in order. A receiver of SRT requests each packet that a later one overtook at once (draft-sharabayko-srt
    /// §4.8), and on several paths most packets would be sent twice. A receiver of RTP has a buffer for this.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Self::Srt { .. })
    }
}

/// The judgement about one direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Classifier {
    media: Option<Media>,
    /// The SSRC and the sequence number of the last datagram, if it looked like RTP.
    rtp: Option<(u32, u16)>,
    rtp_in_a_row: u8,
    /// How many more small datagrams make the flow interactive again.
    small_left: u8,
}

impl Classifier {
    /// The class of this datagram and, as far as is known, of those that follow.
    pub(crate) fn judge(&mut self, datagram: &[u8]) -> u8 {
        if is_srt_handshake(datagram) {
            let latency = read_srt_latency(datagram).or(self.srt_latency());
            self.media = Some(Media::Srt { latency });
        } else if self.media.is_none() && self.follows_rtp(datagram) {
            self.media = Some(Media::Rtp);
        }
        let is_small = self.is_interactive(datagram.len());
        match (self.media, is_small) {
            (Some(_), _) => MEDIA,
            (None, true) => SMALL,
            (None, false) => LARGE,
        }
    }

    /// The class of a connection of which so many bytes could be read at once: a keystroke, or what a transfer has ready.
    pub(crate) fn judge_read(&mut self, bytes: usize) -> u8 {
        if self.is_interactive(bytes) { SMALL } else { BYTES }
    }

    fn is_interactive(&mut self, bytes: usize) -> bool {
        if bytes > SMALL_SIZE {
            self.small_left = SMALL_IN_A_ROW;
        } else {
            self.small_left = self.small_left.saturating_sub(1);
        }
        self.small_left == 0
    }

    pub(crate) fn media(self) -> Option<Media> {
        self.media
    }

    fn srt_latency(self) -> Option<Duration> {
        match self.media {
            Some(Media::Srt { latency }) => latency,
            _ => None,
        }
    }

    /// Whether enough datagrams in a row have one SSRC, and sequence numbers that rise by one or a few.
    fn follows_rtp(&mut self, datagram: &[u8]) -> bool {
        const MOST_SKIPPED: u16 = 16;
        let now = read_rtp(datagram);
        let follows = match (self.rtp, now) {
            (Some((ssrc, last)), Some((own, number))) => {
                ssrc == own && (1..=MOST_SKIPPED).contains(&number.wrapping_sub(last))
            }
            _ => false,
        };
        self.rtp = now;
        self.rtp_in_a_row = if follows {
            self.rtp_in_a_row.saturating_add(1)
        } else {
            0
        };
        self.rtp_in_a_row >= RTP_IN_A_ROW
    }
}

/// The SSRC and the sequence number, if this can be an RTP packet (RFC 3550 §5.1; its payload types exclude RTCP, RFC 5761 §4).
fn read_rtp(datagram: &[u8]) -> Option<(u32, u16)> {
    let header: &[u8; 12] = datagram.first_chunk()?;
    let version = header[0] >> 6;
    let payload_type = header[1] & 0x7f;
    if version != 2 || (64..96).contains(&payload_type) {
        return None;
    }
    let [_, _, a, b, _, _, _, _, c, d, e, f] = *header;
    Some((u32::from_be_bytes([c, d, e, f]), u16::from_be_bytes([a, b])))
}

/// Whether this is the handshake of SRT: a control packet of type 0 with the version 4 or 5 (draft-sharabayko-srt §3.2.1).
fn is_srt_handshake(datagram: &[u8]) -> bool {
    let Some(header) = datagram.first_chunk::<20>() else {
        return false;
    };
    datagram.len() >= 64
        && header[..4] == [0x80, 0, 0, 0]
        && matches!(header[16..20], [0, 0, 0, 4] | [0, 0, 0, 5])
}

/// The longer one of the two latencies in a handshake of SRT: its extension 1 or 2 (HSREQ, HSRSP) has, after a version and flags, the latency
/// of the receiver and that of the sender, in milliseconds (draft-sharabayko-srt §3.2.1.1). None if it is 0.
fn read_srt_latency(handshake: &[u8]) -> Option<Duration> {
    let mut extensions = handshake.get(64..)?;
    loop {
        let (header, rest) = extensions.split_first_chunk::<4>()?;
        let [kind, words] = [[header[0], header[1]], [header[2], header[3]]].map(u16::from_be_bytes);
        let (content, others) = rest.split_at_checked(4 * usize::from(words))?;
        if matches!(kind, 1 | 2) {
            let latencies = content.get(8..12)?.as_chunks::<2>().0;
            let longest = latencies
                .iter()
                .map(|latency| u16::from_be_bytes(*latency))
                .max()?;
            let longest = Duration::from_millis(longest.into());
            return Some(longest).filter(|longest| !longest.is_zero());
        }
        extensions = others;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtp(number: u16, len: usize) -> Vec<u8> {
        let mut packet = vec![0x80, 96, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        packet[2..4].copy_from_slice(&number.to_be_bytes());
        packet.resize(len, 0);
        packet
    }

    #[test]
    fn small_datagrams_are_first_until_a_large_one() {
        let mut classifier = Classifier::default();
        assert_eq!(classifier.judge(&[0; 60]), SMALL);
        assert_eq!(classifier.judge(&[0; 1200]), LARGE);
        for _ in 1..SMALL_IN_A_ROW {
            assert_eq!(
                classifier.judge(&[0; 60]),
                LARGE,
                "the acknowledgements of a transfer"
            );
        }
        assert_eq!(classifier.judge(&[0; 60]), SMALL);
    }

    #[test]
    fn a_connection_is_interactive_while_it_sends_little_at_a_time() {
        let mut classifier = Classifier::default();
        assert_eq!(classifier.judge_read(36), SMALL);
        assert_eq!(classifier.judge_read(16_384), BYTES);
        let reads = std::iter::repeat_with(|| classifier.judge_read(36));
        assert_eq!(reads.take_while(|class| *class == BYTES).count(), 15);
    }

    #[test]
    fn rtp_is_media_after_a_few_packets() {
        let mut classifier = Classifier::default();
        for number in 0..4_u16 {
            let class = classifier.judge(&rtp(number.wrapping_sub(2), 1200));
            assert_eq!(class, LARGE, "{number}");
        }
        assert_eq!(classifier.judge(&rtp(2, 1200)), MEDIA);
        assert_eq!(classifier.judge(&[0; 8]), MEDIA, "from then on");
        assert_eq!(classifier.media(), Some(Media::Rtp));
    }

    #[test]
    fn other_datagrams_are_not_media() {
        for datagrams in [
            vec![rtp(1, 500); 20],
            (0..20)
                .map(|index| {
                    if index % 2 == 0 {
                        rtp(index, 500)
                    } else {
                        vec![0; 500]
                    }
                })
                .collect(),
            (0..20).map(|index| rtp(index * 1000, 500)).collect(),
            vec![vec![0x80; 11]; 20],
        ] {
            let mut classifier = Classifier::default();
            for datagram in &datagrams {
                assert_ne!(classifier.judge(datagram), MEDIA);
            }
        }
    }

    /// A handshake of SRT, with this extension.
    fn handshake(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut handshake = vec![0; 64];
        handshake[0] = 0x80;
        handshake[19] = 5;
        handshake.extend(kind.to_be_bytes());
        handshake.extend((content.len() as u16 / 4).to_be_bytes());
        handshake.extend(content);
        handshake
    }

    #[test]
    fn srt_is_media_from_its_handshake() {
        let mut handshake = handshake(5, &[]);
        handshake[19] = 4;
        assert_eq!(Classifier::default().judge(&handshake[..64]), MEDIA);
        handshake[19] = 3;
        assert_ne!(Classifier::default().judge(&handshake[..64]), MEDIA);
        assert_ne!(Classifier::default().judge(&handshake[..63]), MEDIA);
    }

    #[test]
    fn the_latency_of_srt_is_its_deadline() {
        let request = |receiver: u16, sender: u16| {
            let mut content = vec![0; 8];
            content.extend(receiver.to_be_bytes());
            content.extend(sender.to_be_bytes());
            content
        };
        let deadline = |handshakes: &[Vec<u8>]| {
            let mut classifier = Classifier::default();
            for handshake in handshakes {
                classifier.judge(handshake);
            }
            let media = classifier.media().expect("SRT");
            assert!(media.is_ordered());
            media.deadline().as_millis()
        };
        let first = handshake(5, &[0; 8]);
        let conclusion = handshake(1, &request(120, 500));
        assert_eq!(deadline(std::slice::from_ref(&first)), 300, "none is named yet");
        assert_eq!(
            deadline(&[first.clone(), conclusion.clone()]),
            500,
            "the longer one"
        );
        assert_eq!(deadline(&[conclusion.clone(), first.clone()]), 500, "it is kept");
        let mut after_another = first;
        after_another.extend(&handshake(2, &request(800, 0))[64..]);
        assert_eq!(deadline(&[after_another]), 800, "in a later extension");
        for malformed in [
            handshake(1, &request(0, 0)),
            handshake(1, &[0; 4]),
            conclusion[..75].to_vec(),
            conclusion[..66].to_vec(),
        ] {
            assert_eq!(deadline(&[malformed]), 300);
        }
    }
}
