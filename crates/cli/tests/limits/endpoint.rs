//! The memory of an endpoint for peers that have no association: hostile hosts against the core.

use anabranch_proto::{EcnCodepoint, Handling};
use anabranch_testkit::{Script, shutdown_chunk};
use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::{Chunk, ShutdownComplete};
use anabranch_wire::parameter::Parameters;

use crate::Scenario;
use crate::attack::Attack;
use crate::core_rows::config;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("half-open set-ups", half_open),
    ("associations that ended and are remembered", ended),
];

/// INITs from many ports and addresses.
fn half_open(attack: &mut Attack) {
    let mut script = Script::new(config(), 1).without_log();
    let now = script.now();
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let mut remote = script.remote;
        remote.set_ip(std::net::IpAddr::V4((0x0b00_0000 + number).into()));
        script.port = 1 + (number % 60_000) as u16;
        let init = script.packet(
            VerificationTag(0),
            &[Chunk::Init(script.init(Parameters::empty()))],
        );
        let len = init.len();
        let endpoint = script.host_mut().endpoint_mut();
        let handling = endpoint.handle_datagram(now, None, remote, init.into(), EcnCodepoint::NotEct);
        assert!(matches!(handling, Handling::Reply(_)), "{handling:?}");
        attack.sent(len);
    }
}

/// Associations that are set up and shut down at once: four packets each.
fn ended(attack: &mut Attack) {
    let mut script = Script::new(config(), 1).without_log();
    attack.begins();
    for number in 0..attack.planned() as u32 / 4 {
        script
            .remote
            .set_ip(std::net::IpAddr::V4((0x0b00_0000 + number).into()));
        script.tag = VerificationTag(0x5000 + number);
        script.set_up();
        script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
        assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
        let complete = ShutdownComplete { reflected_tag: false };
        script.send(&[Chunk::ShutdownComplete(complete)]);
        let id = script.id().expect("it was set up");
        script.host_mut().forget(id);
        script.events();
        for len in [52, 140, 20, 16] {
            attack.sent(len);
        }
    }
}
