//! Dynamic addresses (RFC 5061) on the command line.

use anabranch::{Config, DynamicAddressConfig, EndpointBuilder, Extensions};
use clap::Args;

use crate::failure::Failure;
use crate::options::CARRY;

/// Whether associations follow the addresses of this host.
#[derive(Clone, Debug, Args)]
pub(crate) struct Mobility {
    /// Keep associations when the addresses of this host change, for example from Wi-Fi to a mobile network (RFC 5061, Linux
    /// only). With --path, a path leaves and joins as this host loses and gets its address, and an interface may appear
    /// later. `listen` and `perf server` always accept the changes of their peers
    #[arg(long, help_heading = CARRY, )]
    watch_interfaces: bool,
}

impl Mobility {
    /// Applies the option to a client's settings.
    pub(crate) fn apply(&self, config: &mut Config) {
        if self.watch_interfaces {
            config.dynamic_addresses = Some(DynamicAddressConfig::default());
        }
    }

    /// Applies the option to a listener's settings. The peers decide whether to change their addresses.
    pub(crate) fn apply_to_server(config: &mut Config) {
        config.dynamic_addresses = Some(DynamicAddressConfig::default());
    }

    pub(crate) fn watches(&self) -> bool {
        self.watch_interfaces
    }

    pub(crate) fn build(&self, builder: EndpointBuilder) -> EndpointBuilder {
        builder.watch_interfaces(self.watch_interfaces)
    }

    /// Refuses the option with an address that would be bound.
    pub(crate) fn judge_bind(&self, binds: bool) -> Result<(), Failure> {
        if self.watch_interfaces && binds {
            return Err(Failure::new(
                "--watch-interfaces needs all addresses of this host: leave --bind out",
            ));
        }
        Ok(())
    }

    /// A note if the peer does not offer dynamic addresses.
    pub(crate) fn refused(&self, negotiated: &Extensions) -> Option<&'static str> {
        let refused = self.watch_interfaces && !negotiated.dynamic_addresses;
        refused.then_some(
            "the peer does not offer dynamic addresses (RFC 5061): the association ends if this host loses its address",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_offers_dynamic_addresses_only_if_asked() {
        for watch_interfaces in [false, true] {
            let mobility = Mobility { watch_interfaces };
            let mut config = Config::default();
            mobility.apply(&mut config);
            assert_eq!(config.dynamic_addresses.is_some(), watch_interfaces);
            assert_eq!(mobility.judge_bind(true).is_err(), watch_interfaces);
            let mut extensions = Extensions::default();
            assert_eq!(mobility.refused(&extensions).is_some(), watch_interfaces);
            extensions.dynamic_addresses = true;
            assert_eq!(mobility.refused(&extensions), None);
        }
        let mut config = Config::default();
        Mobility::apply_to_server(&mut config);
        assert!(config.dynamic_addresses.is_some());
    }
}
