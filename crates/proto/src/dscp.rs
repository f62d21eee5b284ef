//! The Differentiated Services codepoint (DSCP) of IP packets (RFC 2474 §3), and its names in IANA's registry.

use core::fmt;
use core::str::FromStr;

use crate::ecn::EcnCodepoint;

/// A Differentiated Services codepoint: the upper six bits of the Traffic Class or (in IPv4) Type of Service octet, by which routers choose a
/// queue for the packet. Number 0 to 63. The default is 0, best effort.
///
/// ```
/// use anabranch_proto::Dscp;
///
/// assert_eq!("EF".parse(), Ok(Dscp::EF));
/// assert_eq!("AF41".parse::<Dscp>().map(Dscp::number), Ok(34));
/// assert_eq!("46".parse(), Ok(Dscp::EF));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dscp(u8);

/// Names other than the CSx and AFxy, which are computed.
const NAMES: [(&str, u8); 5] = [("DF", 0), ("LE", 1), ("VA", 44), ("VOICE-ADMIT", 44), ("EF", 46)];

impl Dscp {
    /// Expedited Forwarding (RFC 3246): for interactive audio.
    pub const EF: Self = Self(46);
    /// Lower effort (RFC 8622): for bulk data that yields to other traffic.
    pub const LE: Self = Self(1);

    /// The codepoint with this number; `None` above 63.
    #[must_use]
    pub fn new(number: u8) -> Option<Self> {
        (number < 64).then_some(Self(number))
    }

    /// The number, 0 to 63.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// The Traffic Class or Type of Service octet with this codepoint and that of ECN.
    #[must_use]
    pub fn octet(self, ecn: EcnCodepoint) -> u8 {
        self.0 << 2 | ecn.bits()
    }
}

/// A text that names no DSCP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a DSCP: give a number from 0 to 63 or a name: EF, AF11 to AF43, CS0 to CS7, LE, VA (VOICE-ADMIT) or DF"
)]
pub struct DscpError(String);

impl FromStr for Dscp {
    type Err = DscpError;

    fn from_str(text: &str) -> Result<Self, DscpError> {
        let name = text.to_ascii_uppercase();
        let digit = |digit: u8, most: u8| Some(digit.wrapping_sub(b'0')).filter(|digit| *digit <= most);
        let number = match *name.as_bytes() {
            [b'C', b'S', class] => digit(class, 7).map(|class| class << 3),
            [b'A', b'F', class, drop] => digit(class, 4)
                .zip(digit(drop, 3))
                .filter(|(class, drop)| *class > 0 && *drop > 0)
                .map(|(class, drop)| class << 3 | drop << 1),
            _ => NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, number)| *number)
                .or_else(|| name.parse().ok()),
        };
        number
            .and_then(Self::new)
            .ok_or_else(|| DscpError(text.to_owned()))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, drop) = (self.0 >> 3, self.0 & 7);
        match (class, drop) {
            _ if *self == Self::EF => f.write_str("EF"),
            (_, 0) => write!(f, "CS{class}"),
            (1..=4, 2 | 4 | 6) => write!(f, "AF{class}{}", drop / 2),
            _ => match NAMES.iter().find(|(_, number)| *number == self.0) {
                Some((name, _)) => f.write_str(name),
                None => self.0.fmt(f),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_registry() {
        for (name, number) in [
            ("CS0", 0),
            ("DF", 0),
            ("LE", 1),
            ("CS1", 8),
            ("AF11", 10),
            ("AF13", 14),
            ("CS4", 32),
            ("AF41", 34),
            ("AF43", 38),
            ("voice-admit", 44),
            ("va", 44),
            ("ef", 46),
            ("CS7", 56),
            ("0", 0),
            ("63", 63),
        ] {
            assert_eq!(name.parse::<Dscp>().map(Dscp::number), Ok(number), "{name}");
        }
        for wrong in [
            "", "64", "-1", "256", "CS8", "CS", "AF", "AF40", "AF44", "AF51", "AF01", "E F", "0x2e",
        ] {
            let error = wrong.parse::<Dscp>().expect_err(wrong);
            assert!(error.to_string().contains("from 0 to 63"), "{error}");
        }
    }

    #[test]
    fn each_codepoint_is_written_as_it_is_read() {
        for number in 0..64 {
            let dscp = Dscp::new(number).expect("in range");
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
            assert_eq!(dscp.octet(EcnCodepoint::Ce), number * 4 + 3);
        }
        assert_eq!(Dscp::new(64), None);
        let names = [34, 46, 44, 1, 0, 13].map(|number| Dscp(number).to_string());
        assert_eq!(names, ["AF41", "EF", "VA", "LE", "CS0", "13"]);
    }
}
