//! Capability negotiation: the extensions that an endpoint offers or supports, and those negotiated, which the state cookie holds.

use anabranch_wire::chunk::{ExperimentalChunkTypes, experimental_kind, kind};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};

use crate::config::{Config, MultipathMode};
use crate::send::DataFormat;
use crate::stats::Extensions;

/// SCTP over DTLS as error detection method (RFC 9653 §6).
pub(super) const ERROR_DETECTION_DTLS: u32 = 1;

/// The extensions negotiated: one bit each. RFC 9260 alone needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Capabilities(u32);

impl Capabilities {
    /// FORWARD-TSN (RFC 3758).
    pub(crate) const PARTIAL_RELIABILITY: Self = Self(1);
    /// NR-SACK (draft-tuexen-tsvwg-sctp-multipath §4).
    pub(crate) const NR_SACK: Self = Self(1 << 1);
    /// Selective forward TSN, which needs FORWARD-TSN as well.
    pub(crate) const SELECTIVE_FORWARD_TSN: Self = Self(1 << 2);
    /// Extended FORWARD-TSN, which needs FORWARD-TSN as well.
    pub(crate) const EXTENDED_FORWARD_TSN: Self = Self(1 << 16);
    /// I-DATA in place of DATA (RFC 8260).
    pub(crate) const INTERLEAVING: Self = Self(1 << 3);
    /// I-FORWARD-TSN: with I-DATA, partial reliability uses it in place of FORWARD-TSN.
    pub(crate) const I_FORWARD_TSN: Self = Self(1 << 4);

    /// E-DATA, COOP-SACK and FORWARD-PSN: transmissions have numbers, and acknowledgements name them (ECA-SCTP).
    pub(crate) const ECA: Self = Self(7 << 5);
    const E_DATA: Self = Self(1 << 5);
    const COOP_SACK: Self = Self(1 << 6);
    const FORWARD_PSN: Self = Self(1 << 7);
    /// E-I-DATA: with I-DATA, ECA-SCTP needs it.
    const E_I_DATA: Self = Self(1 << 8);
    /// ECNE and CWR (draft-stewart-tsvwg-sctpecn): offered by a parameter of their own.
    pub(crate) const ECN: Self = Self(1 << 9);
    /// The Adaptation Layer Indication (RFC 5061 §4.2.6): the peer sent one.
    pub(crate) const ADAPTATION_LAYER: Self = Self(1 << 14);
    /// ASCONF and ASCONF-ACK (RFC 5061), which need AUTH or DTLS chunks.
    pub(crate) const DYNAMIC_ADDRESSES: Self = Self(3 << 12);
    const ASCONF: Self = Self(1 << 12);
    const ASCONF_ACK: Self = Self(1 << 13);
    /// AUTH (RFC 4895): offered by parameters of its own, and listed.
    pub(crate) const AUTHENTICATION: Self = Self(1 << 11);
    /// The peer accepts packets with a checksum of zero, by the method that this endpoint uses too (RFC 9653). For packets to the peer only.
    pub(crate) const ZERO_CHECKSUM: Self = Self(1 << 15);
    /// Paths that differ by the UDP port of the peer alone (experimental): offered by a parameter of its own. They need dynamic addresses.
    pub(crate) const PORT_PAIRS: Self = Self(1 << 17);

    /// Repair of messages (experimental): offered by a parameter of its own. It needs I-DATA and I-FORWARD-TSN.
    pub(crate) const REPAIR: Self = Self(1 << 19);

    /// DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk): offered by a parameter of their own.
    pub(crate) const PROTECTION: Self = Self(1 << 18);

    /// RE-CONFIG (RFC 6525).
    pub(crate) const RECONFIGURATION: Self = Self(1 << 10);

    /// The chunk types whose listing in the Supported Extensions parameter offers each extension (RFC 5061 §4.2.7).
    const CHUNKS: [(u8, Self); 13] = [
        (kind::FORWARD_TSN, Self::PARTIAL_RELIABILITY),
        (kind::NR_SACK, Self::NR_SACK),
        (
            experimental_kind::SELECTIVE_FORWARD_TSN,
            Self::SELECTIVE_FORWARD_TSN,
        ),
        (
            experimental_kind::EXTENDED_FORWARD_TSN,
            Self::EXTENDED_FORWARD_TSN,
        ),
        (kind::I_DATA, Self::INTERLEAVING),
        (kind::I_FORWARD_TSN, Self::I_FORWARD_TSN),
        (experimental_kind::E_DATA, Self::E_DATA),
        (experimental_kind::COOP_SACK, Self::COOP_SACK),
        (experimental_kind::FORWARD_PSN, Self::FORWARD_PSN),
        (experimental_kind::E_I_DATA, Self::E_I_DATA),
        (kind::ASCONF, Self::ASCONF),
        (kind::ASCONF_ACK, Self::ASCONF_ACK),
        (kind::RE_CONFIG, Self::RECONFIGURATION),
    ];

    /// The extensions that this endpoint offers.
    pub(crate) fn offered(config: &Config) -> Self {
        let partial = &config.partial_reliability;
        let eca = config.multipath.mode == MultipathMode::Eca;
        let offers = [
            (partial.offer, Self::PARTIAL_RELIABILITY),
            (config.nr_sack.offer, Self::NR_SACK),
            (
                partial.offer && partial.selective_forward_tsn.is_some(),
                Self::SELECTIVE_FORWARD_TSN,
            ),
            (
                partial.offer && partial.extended_forward_tsn,
                Self::EXTENDED_FORWARD_TSN,
            ),
            (config.interleaving.offer, Self::INTERLEAVING),
            (
                config.interleaving.offer && partial.offer,
                Self::I_FORWARD_TSN.with(Self::REPAIR),
            ),
            (eca, Self::ECA),
            (eca && config.interleaving.offer, Self::E_I_DATA),
            (config.ecn, Self::ECN),
            (config.lower_layer.detects_errors(), Self::ZERO_CHECKSUM),
            (
                config.authentication.is_some()
                    || config.dynamic_addresses.is_some() && config.protection.is_none(),
                Self::AUTHENTICATION,
            ),
            (config.protection.is_some(), Self::PROTECTION),
            (config.dynamic_addresses.is_some(), Self::DYNAMIC_ADDRESSES),
            (
                config.dynamic_addresses.is_some() && config.may_pair_by_port(),
                Self::PORT_PAIRS,
            ),
            (config.reconfiguration.offer, Self::RECONFIGURATION),
        ];
        let offered = offers.into_iter().filter(|(offered, _)| *offered);
        Self(offered.fold(0, |bits, (_, one)| bits | one.0))
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The extensions that are in both.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The extensions negotiated if both endpoints listed these. With I-DATA, partial reliability needs I-FORWARD-TSN, which has
    /// no use without I-DATA (RFC 8260 §2.3.1). ECA-SCTP needs all its chunks, and with I-DATA also E-I-DATA. Extended FORWARD-TSN needs
    /// DATA: the acknowledgements of ECA-SCTP list no TSNs, and an I-FORWARD-TSN would have to list unordered messages too. Interleaving
    /// yields to it, because interleaving is offered by default and extended FORWARD-TSN is not.
    #[must_use]
    pub(crate) fn settled(self) -> Self {
        let extends =
            self.has(Self::EXTENDED_FORWARD_TSN.with(Self::PARTIAL_RELIABILITY)) && !self.has(Self::ECA);
        let interleaves = self.has(Self::INTERLEAVING) && !extends;
        let settled = if !interleaves {
            self.without(Self::INTERLEAVING.with(Self::I_FORWARD_TSN).with(Self::REPAIR))
        } else if self.has(Self::I_FORWARD_TSN) {
            self.with(Self::PARTIAL_RELIABILITY)
        } else {
            self.without(Self::PARTIAL_RELIABILITY.with(Self::SELECTIVE_FORWARD_TSN))
                .without(Self::REPAIR)
        };
        let authentic = self.has(Self::AUTHENTICATION) || self.has(Self::PROTECTION);
        let settled = if self.has(Self::DYNAMIC_ADDRESSES) && authentic {
            settled
        } else {
            settled.without(Self::DYNAMIC_ADDRESSES.with(Self::PORT_PAIRS))
        };
        let cooperates = self.has(Self::ECA) && (!interleaves || self.has(Self::E_I_DATA));
        let settled = if extends {
            settled
        } else {
            settled.without(Self::EXTENDED_FORWARD_TSN)
        };
        match (cooperates, interleaves) {
            (false, _) => settled.without(Self::ECA.with(Self::E_I_DATA)),
            (true, false) => settled.without(Self::E_I_DATA),
            (true, true) => settled,
        }
    }

    /// The chunk type that carries user data.
    pub(crate) fn data_format(self) -> DataFormat {
        match (self.has(Self::INTERLEAVING), self.has(Self::ECA)) {
            (false, false) => DataFormat::Data,
            (true, false) => DataFormat::IData,
            (false, true) => DataFormat::EData,
            (true, true) => DataFormat::EIData,
        }
    }

    /// The violation, if interleaving was negotiated and chunks of this type rule it out, or the reverse (RFC 8260 §2.2.3, §2.3.1).
    #[inline]
    pub(crate) fn rule_out(self, kind: u8) -> Option<&'static str> {
        let interleaves = self.has(Self::INTERLEAVING);
        let ruled_out = match kind {
            kind::DATA | kind::FORWARD_TSN => interleaves,
            kind::I_DATA | kind::I_FORWARD_TSN => !interleaves,
            _ => false,
        };
        ruled_out.then_some(match kind {
            kind::DATA | kind::I_DATA => "DATA where messages interleave, or I-DATA where they do not",
            _ => "FORWARD-TSN where messages interleave, or I-FORWARD-TSN where they do not",
        })
    }

    /// The extensions that a list of supported chunk types offers.
    pub(crate) fn from_chunk_types(types: &[u8], numbers: ExperimentalChunkTypes) -> Self {
        let is_listed = |kind: u8| types.contains(&numbers.on_wire(kind));
        let listed = Self::CHUNKS.into_iter().filter(|(kind, _)| is_listed(*kind));
        listed.fold(Self::default(), |all, (_, one)| all.with(one))
    }

    /// The extension that a parameter without content offers.
    pub(super) fn of_parameter(parameter: &Parameter) -> Option<Self> {
        match parameter {
            Parameter::ForwardTsnSupported => Some(Self::PARTIAL_RELIABILITY),
            Parameter::EcnCapable => Some(Self::ECN),
            Parameter::PortPairsSupported => Some(Self::PORT_PAIRS),
            Parameter::RepairSupported => Some(Self::REPAIR),
            _ => None,
        }
    }

    /// Adds the parameters that offer the extensions to an INIT or INIT ACK; none if there is nothing to offer.
    pub(crate) fn push_parameters(
        self,
        mut parameters: ParametersBuilder,
        numbers: ExperimentalChunkTypes,
    ) -> ParametersBuilder {
        let types = Self::CHUNKS.iter().filter(|(_, one)| self.has(*one));
        let mut types: Vec<u8> = types.map(|(kind, _)| numbers.on_wire(*kind)).collect();
        if self.has(Self::AUTHENTICATION) {
            types.push(kind::AUTH);
        }
        if !types.is_empty() {
            parameters = parameters.push(&Parameter::SupportedExtensions(types.into()));
        }
        if self.has(Self::PARTIAL_RELIABILITY) {
            parameters = parameters.push(&Parameter::ForwardTsnSupported);
        }
        if self.has(Self::ECN) {
            parameters = parameters.push(&Parameter::EcnCapable);
        }
        if self.has(Self::PORT_PAIRS) {
            parameters = parameters.push(&Parameter::PortPairsSupported);
        }
        if self.has(Self::REPAIR) {
            parameters = parameters.push(&Parameter::RepairSupported);
        }
        parameters
    }

    /// The extensions negotiated, for the application.
    pub(crate) fn extensions(self) -> Extensions {
        Extensions {
            partial_reliability: self.has(Self::PARTIAL_RELIABILITY),
            nr_sack: self.has(Self::NR_SACK),
            selective_forward_tsn: self.has(Self::SELECTIVE_FORWARD_TSN),
            extended_forward_tsn: self.has(Self::EXTENDED_FORWARD_TSN),
            interleaving: self.has(Self::INTERLEAVING),
            eca: self.has(Self::ECA),
            ecn: self.has(Self::ECN),
            zero_checksum: self.has(Self::ZERO_CHECKSUM),
            authentication: self.has(Self::AUTHENTICATION),
            dynamic_addresses: self.has(Self::DYNAMIC_ADDRESSES),
            port_pairs: self.has(Self::PORT_PAIRS),
            repair: self.has(Self::REPAIR),
            reconfiguration: self.has(Self::RECONFIGURATION),
            protection: self.has(Self::PROTECTION),
        }
    }

    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_and_partial_reliability_go_together_or_not_at_all() {
        let settled =
            |kinds: &[u8]| Capabilities::from_chunk_types(kinds, ExperimentalChunkTypes::default()).settled();
        let partial = Capabilities::PARTIAL_RELIABILITY;
        let both = partial
            .with(Capabilities::INTERLEAVING)
            .with(Capabilities::I_FORWARD_TSN);
        assert_eq!(settled(&[kind::I_DATA, kind::I_FORWARD_TSN]), both);
        assert_eq!(
            settled(&[kind::I_DATA, kind::FORWARD_TSN]),
            Capabilities::INTERLEAVING
        );
        assert_eq!(settled(&[kind::FORWARD_TSN, kind::I_FORWARD_TSN]), partial);
        let all = [
            kind::FORWARD_TSN,
            experimental_kind::SELECTIVE_FORWARD_TSN,
            kind::I_DATA,
        ];
        assert_eq!(settled(&all), Capabilities::INTERLEAVING);
    }

    #[test]
    fn extended_forward_tsn_needs_data_and_forward_tsn() {
        let settled =
            |kinds: &[u8]| Capabilities::from_chunk_types(kinds, ExperimentalChunkTypes::default()).settled();
        let extended = experimental_kind::EXTENDED_FORWARD_TSN;
        let both = Capabilities::PARTIAL_RELIABILITY.with(Capabilities::EXTENDED_FORWARD_TSN);
        assert_eq!(settled(&[kind::FORWARD_TSN, extended]), both);
        assert_eq!(settled(&[extended]), Capabilities::default());
        // An I-FORWARD-TSN alone makes partial reliability with I-DATA.
        let interleaving = settled(&[kind::I_DATA, kind::I_FORWARD_TSN, extended]);
        assert!(!interleaving.has(Capabilities::EXTENDED_FORWARD_TSN));
        assert!(interleaving.has(Capabilities::INTERLEAVING));
        let all = [kind::FORWARD_TSN, kind::I_DATA, kind::I_FORWARD_TSN, extended];
        assert_eq!(settled(&all), both, "interleaving yields");
        let eca = [
            kind::FORWARD_TSN,
            experimental_kind::E_DATA,
            experimental_kind::COOP_SACK,
            experimental_kind::FORWARD_PSN,
            extended,
        ];
        let eca = settled(&eca);
        assert!(eca.has(Capabilities::ECA) && !eca.has(Capabilities::EXTENDED_FORWARD_TSN));
    }

    #[test]
    fn eca_needs_all_of_its_chunks() {
        let settled =
            |kinds: &[u8]| Capabilities::from_chunk_types(kinds, ExperimentalChunkTypes::default()).settled();
        let three = [
            experimental_kind::E_DATA,
            experimental_kind::COOP_SACK,
            experimental_kind::FORWARD_PSN,
        ];
        assert_eq!(settled(&three), Capabilities::ECA);
        for missing in 0..3 {
            let mut two = three.to_vec();
            two.remove(missing);
            assert_eq!(settled(&two), Capabilities::default());
        }
        let four = [&three[..], &[experimental_kind::E_I_DATA]].concat();
        assert_eq!(settled(&four), Capabilities::ECA);
        let interleaving = [&three[..], &[kind::I_DATA]].concat();
        assert_eq!(settled(&interleaving), Capabilities::INTERLEAVING);
        let both = settled(&[&four[..], &[kind::I_DATA]].concat());
        assert!(both.has(Capabilities::ECA.with(Capabilities::INTERLEAVING)));
        assert_eq!(both.data_format(), DataFormat::EIData);
    }
}
