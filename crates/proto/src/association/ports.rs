//! New UDP ports of the peer (RFC 6951 §5.4), where several paths lead to one address: see `path/ports.rs` for the rules.

use anabranch_wire::chunk::{self, Chunk};

use super::Association;
use crate::association_state::permit;
use crate::event::{EndpointEvent, Reply};
use crate::inbound::Inbound;
use crate::time::Timestamp;
use crate::transmit::write_packet;

/// The chunks of a packet were handled: its UDP port may be new.
pub(super) fn on_port(association: &mut Association, now: Timestamp, inbound: &Inbound) {
    if !association.state.may(permit::HEARTBEAT) {
        return;
    }
    let random = &mut association.random;
    let change = association.paths.on_port(now, inbound, || random.next_u64());
    if let Some(info) = change.heartbeat {
        let heartbeat = Chunk::Heartbeat(chunk::Heartbeat::new(info.encode()));
        let signer = association.authentication.signer();
        association.control.reply(Reply {
            source: inbound.local,
            destination: inbound.remote,
            packet: write_packet(association.identity.header(), &[heartbeat], signer).into(),
        });
        association.counters.heartbeats_sent += 1;
    }
    for path in change.tested {
        association.send_heartbeat(now, path);
    }
    move_port(association, now);
}

/// An answer arrived, or none in time: a new port may replace that of a path.
pub(super) fn move_port(association: &mut Association, now: Timestamp) {
    if let Some(path) = association.paths.move_port(now) {
        association.on_path_answered(path);
        association.paths.path_mut(path).end_back_off(now);
        tell_ports(association);
    }
}

/// The addresses and ports of the peer may have changed: the endpoint finds the association by them.
pub(super) fn tell_ports(association: &mut Association) {
    if association.paths.is_by_port() {
        let remotes = association.paths.present().map(|path| path.route.remote);
        let event = EndpointEvent::PeerPorts(remotes.collect());
        association.notices.tell_endpoint(event);
    }
}
