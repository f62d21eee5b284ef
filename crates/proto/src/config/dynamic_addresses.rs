//! The settings of dynamic address reconfiguration (RFC 5061).

use std::net::IpAddr;

use anabranch_wire::chunk::kind;

use super::{AuthenticationConfig, Config};

/// Dynamic address reconfiguration (RFC 5061): an endpoint tells its peer of new addresses and of addresses that it no longer has, so that
/// an association survives a change of the network.
///
/// It needs authenticated chunks (RFC 4895): with this setting both endpoints sign ASCONF and ASCONF-ACK, with the keys of
/// [`Config::authentication`] if that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DynamicAddressConfig {
    /// How requests name this endpoint's addresses. Default [`AddressForm::ByEncapsulation`].
    pub form: AddressForm,
}

/// How the requests of an endpoint name its addresses (RFC 5061 §4.2, RFC 6951 §5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AddressForm {
    /// Wildcard addresses if packets are encapsulated in UDP, otherwise explicit ones.
    #[default]
    ByEncapsulation,
    /// The addresses themselves. They are signed, so that nobody on the path can change them.
    Explicit,
    /// The unspecified address, which stands for the source address of the packet: the only form that works through an address translator.
    /// The source address is not signed: an attacker on the path can replace it (RFC 5061 §6).
    Wildcard,
}

impl AddressForm {
    /// Whether requests to a peer at `encapsulated` (in UDP) or not have wildcard addresses.
    pub(crate) fn is_wildcard(self, encapsulated: bool) -> bool {
        match self {
            Self::ByEncapsulation => encapsulated,
            Self::Explicit => false,
            Self::Wildcard => true,
        }
    }
}

impl Config {
    /// The authentication that this endpoint offers. RFC 5061 demands that ASCONF and ASCONF-ACK are authenticated.
    pub(crate) fn offered_authentication(&self) -> Option<AuthenticationConfig> {
        let asked = self.authentication.clone();
        if self.dynamic_addresses.is_none() {
            return asked;
        }
        let mut authentication = asked.unwrap_or_else(|| AuthenticationConfig {
            required: false,
            ..AuthenticationConfig::default()
        });
        for kind in [kind::ASCONF, kind::ASCONF_ACK] {
            if !authentication.chunks.contains(&kind) {
                authentication.chunks.push(kind);
            }
        }
        Some(authentication)
    }

    /// The same settings for an endpoint that has these addresses now. Settings that list none, because the endpoint has one address or an
    /// address translator, stay so.
    #[must_use]
    pub(crate) fn with_local_addresses(&self, addresses: &[IpAddr]) -> Self {
        let mut config = self.clone();
        if !config.local_addresses.is_empty() {
            config.local_addresses = addresses.to_vec();
        }
        config
    }
}
