//! The lines of a description (RFC 8866): the attributes of the session and of each section, and the BUNDLE groups (RFC 9143), which say
//! where the transport attributes of a section are.

use super::SdpError;

/// Limits of what a peer may send.
const MOST_BYTES: usize = 64 << 10;
const MOST_SECTIONS: usize = 32;

/// The protocols of a section for data channels. The last one is of earlier drafts (RFC 9429 §5.1.2).
const PROTOCOLS: [&str; 3] = ["UDP/DTLS/SCTP", "TCP/DTLS/SCTP", "DTLS/SCTP"];

/// The lines `a=` of the session or of a section, without `a=`.
#[derive(Default)]
pub(super) struct Attributes<'a>(Vec<&'a str>);

impl<'a> Attributes<'a> {
    /// Whether there is this attribute, which has no value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// The lines that a section for RTP needs beside its first line: those that say what its formats are, and that RTP and RTCP share a port.
    pub(super) fn of_formats(&self) -> impl Iterator<Item = &'a str> {
        let lines = self.0.iter().copied();
        lines.filter(|line| *line == "rtcp-mux" || line.starts_with("rtpmap:"))
    }

    /// The values of an attribute that may have several.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let values = self
            .0
            .iter()
            .filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'));
        values.map(str::trim)
    }

    /// The value of an attribute that has one. Two values are an error, because the peer may mean either (RFC 9429 §5.8).
    pub(super) fn one(&self, name: &'static str) -> Result<Option<&'a str>, SdpError> {
        let mut values = self.all(name);
        let first = values.next();
        if values.all(|value| Some(value) == first) {
            Ok(first)
        } else {
            Err(SdpError::Attribute(name))
        }
    }
}

/// A section of a description.
pub(super) struct Section<'a> {
    pub(super) media: &'a str,
    port: usize,
    /// The protocol and the formats, with spaces between them.
    pub(super) formats: &'a str,
    pub(super) attributes: Attributes<'a>,
    /// The identification (RFC 5888).
    pub(super) mid: Option<&'a str>,
}

impl<'a> Section<'a> {
    /// Reads the line behind `m=` (RFC 8866 §5.14).
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let (media, port, formats) = (words.next()?, words.next()?, words.next()?);
        let (port, _number_of_ports) = port.split_once('/').unwrap_or((port, ""));
        formats.split_once(' ')?;
        Some(Self {
            media,
            port: number(port).filter(|port| *port <= usize::from(u16::MAX))?,
            formats,
            attributes: Attributes::default(),
            mid: None,
        })
    }

    /// Whether a section of a BUNDLE group has another transport than the group's first section, which are both in an offer: other candidates,
    /// or other credentials, which are unique for each transport (RFC 9429 §5.2.1). Chromium with the bundle policy `max-bundle` and pion write
    /// the credentials of one transport in all sections, and the candidates in the first one.
    fn has_transport_beside(&self, tagged: &Self) -> bool {
        let user = |section: &Self| section.attributes.all("ice-ufrag").next();
        let has_candidates = self.attributes.all("candidate").next().is_some();
        let has_user = user(self).is_some() && user(self) != user(tagged);
        self.port > 0 && (has_candidates || has_user)
    }

    /// Whether the section is for data channels (RFC 8841 §4).
    fn is_data(&self) -> bool {
        let words = self.formats.split_once(' ');
        let is_known = |(protocol, format)| PROTOCOLS.contains(&protocol) && format == "webrtc-datachannel";
        self.media == "application" && words.is_some_and(is_known)
    }
}

/// The lines of a description.
pub(super) struct Text<'a> {
    pub(super) session: Attributes<'a>,
    pub(super) sections: Vec<Section<'a>>,
    /// The identifications of the sections of each BUNDLE group.
    groups: Vec<Vec<&'a str>>,
}

impl<'a> Text<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, SdpError> {
        if text.len() > MOST_BYTES {
            return Err(SdpError::TooLong);
        }
        let mut session = Attributes::default();
        let mut sections: Vec<Section> = Vec::new();
        for (place, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            let wrong = SdpError::Line(place + 1);
            let is_allowed = |(kind, value): &(&str, &str)| kind.len() == 1 && !value.contains(['\r', '\0']);
            match line.split_once('=').filter(is_allowed) {
                None => return Err(wrong),
                Some(("m", _)) if sections.len() >= MOST_SECTIONS => return Err(SdpError::TooLong),
                Some(("m", line)) => sections.push(Section::read(line).ok_or(wrong)?),
                Some(("a", line)) => {
                    let last = sections.last_mut().map(|section| &mut section.attributes);
                    last.unwrap_or(&mut session).0.push(line);
                }
                Some(_) => {}
            }
        }
        let groups = session
            .all("group")
            .filter_map(|group| group.strip_prefix("BUNDLE "));
        let mut text = Self {
            groups: groups
                .map(|tags| tags.split_ascii_whitespace().collect())
                .collect(),
            session,
            sections,
        };
        text.identify()?;
        Ok(text)
    }

    /// Reads the sections' identifications. Each belongs to one section (RFC 5888 §4) and to at most one group (RFC 9143 §5).
    fn identify(&mut self) -> Result<(), SdpError> {
        let mut known: Vec<&str> = Vec::new();
        for section in &mut self.sections {
            section.mid = section.attributes.one("mid")?;
            let Some(mid) = section.mid else { continue };
            if mid.is_empty() || mid.contains(char::is_whitespace) || known.contains(&mid) {
                return Err(SdpError::Attribute("mid"));
            }
            if self.groups.iter().filter(|group| group.contains(&mid)).count() > 1 {
                return Err(SdpError::Attribute("group"));
            }
            known.push(mid);
        }
        Ok(())
    }

    /// The place of the first section for data channels that is not rejected, and the place of the section with its transport attributes.
    pub(super) fn data(&self) -> Result<(usize, usize), SdpError> {
        let is_data = |place: &usize| self.sections[*place].is_data();
        let mut places = (0..self.sections.len()).filter(is_data).peekable();
        if places.peek().is_none() {
            return Err(SdpError::NoDataChannel);
        }
        let usable = places.find_map(|place| Some((place, self.transport(place)?)));
        usable.ok_or(SdpError::Rejected)
    }

    /// Whether the section is in a BUNDLE group.
    pub(super) fn is_bundled(&self, place: usize) -> bool {
        self.group(place).is_some()
    }

    fn group(&self, place: usize) -> Option<&[&'a str]> {
        let mid = self.sections[place].mid?;
        let group = self.groups.iter().find(|group| group.contains(&mid));
        group.map(Vec::as_slice)
    }

    /// The place of the section with the transport attributes of the section at `place`, which are those of ICE and DTLS; `None` if that
    /// section is rejected.
    ///
    /// A bundled section has those of the first section of its group that has a port, unless it has its own: an answerer that rejects the
    /// sections before it uses these (RFC 9143 §7.1.3, §7.3.1). A bundle-only section has none of its own.
    fn transport(&self, place: usize) -> Option<usize> {
        let section = &self.sections[place];
        if section.port == 0 && !section.attributes.has("bundle-only") {
            return None;
        }
        let tagged = self.group(place).and_then(|group| {
            group.iter().find_map(|tag| {
                let mut sections = self.sections.iter();
                sections.position(|section| section.mid == Some(*tag) && section.port > 0)
            })
        });
        match tagged {
            Some(tagged) if !section.has_transport_beside(&self.sections[tagged]) => Some(tagged),
            _ => Some(place).filter(|_| section.port > 0),
        }
    }
}

/// A number of digits alone, without leading zeros (RFC 8841 §5.2, §6.2); `usize::MAX` if it is larger.
pub(super) fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    (is_number && !has_leading_zero).then(|| text.parse().unwrap_or(usize::MAX))
}
