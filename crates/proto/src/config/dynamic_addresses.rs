//! The settings of dynamic address reconfiguration (RFC 5061).

/// Dynamic address reconfiguration (RFC 5061): an endpoint tells its peer of new addresses and of addresses that it no longer has, so that
/// an association survives a change of the network.
///
/// It needs authenticated chunks (RFC 4895): with this setting both endpoints sign ASCONF and ASCONF-ACK, with the keys of
/// [`crate::Config::authentication`] if that is set.
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
