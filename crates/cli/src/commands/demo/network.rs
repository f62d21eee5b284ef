//! Two hosts in virtual time, and an association between them over one or several links.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::{Config, LinkConfig};
use anabranch_netsim::{Host, LinkId, Network, NodeId};
use anabranch_proto::{AssociationId, AssociationState, ConnectOptions, Timestamp};

use super::PORT;
use crate::units;

const UDP_PORT: u16 = 9899;
/// Time limit of the association setup.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts and an association between them.
pub(super) struct Established {
    pub(super) network: Network,
    pub(super) sender: NodeId,
    pub(super) receiver: NodeId,
    pub(super) id: AssociationId,
    /// The links of each path: forward and reverse.
    pub(super) links: Vec<(LinkId, LinkId)>,
}

/// The address of a side (1 sends, 2 receives) on a path.
fn address(path: usize, side: u8) -> IpAddr {
    IpAddr::from([10, path as u8, 0, side])
}

fn host(network: &mut Network, name: &str, config: &Config, addresses: &[IpAddr]) -> Result<NodeId, String> {
    let mut config = config.clone();
    if addresses.len() > 1 {
        config.local_addresses = addresses.to_vec();
    }
    let seed = network.generator(name).bytes();
    let host = Host::new(config, UDP_PORT, seed).map_err(|error| error.to_string())?;
    Ok(network.add_node(name, addresses, host))
}

/// Sets up an association over links with equal settings in both directions.
///
/// # Errors
/// No association can be set up over the links, or the settings are out of range.
pub(super) fn establish(config: &Config, links: &[LinkConfig], seed: u64) -> Result<Established, String> {
    let mut network = Network::new(seed);
    let addresses = [1, 2].map(|side| {
        (0..links.len())
            .map(|path| address(path, side))
            .collect::<Vec<_>>()
    });
    let sender = host(&mut network, "sender", config, &addresses[0])?;
    let receiver = host(&mut network, "receiver", config, &addresses[1])?;
    let each = links.iter().enumerate().map(|(path, link)| {
        let (from, to) = ((sender, addresses[0][path]), (receiver, addresses[1][path]));
        network.connect(from, to, link.clone(), link.clone())
    });
    let ids = each.collect();
    let listening = network.host_mut(receiver).endpoint_mut().listen(PORT);
    listening.map_err(|error| error.to_string())?;
    let remote = SocketAddr::new(address(0, 2), UDP_PORT);
    let id = network
        .host_mut(sender)
        .connect(Timestamp::ZERO, remote, PORT, ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let setting_up = |network: &mut Network| {
        let association = network.host(sender).association(id);
        association.is_some_and(|association| association.state() != AssociationState::Established)
    };
    network.run_while(Timestamp::ZERO + PATIENCE, setting_up);
    if setting_up(&mut network) {
        let links: Vec<String> = links.iter().map(LinkConfig::to_string).collect();
        return Err(format!(
            "no association was set up within {} over --link {}: give a faster link, or a link with fewer losses",
            units::duration(PATIENCE),
            links.join(" and ")
        ));
    }
    Ok(Established {
        network,
        sender,
        receiver,
        id,
        links: ids,
    })
}
