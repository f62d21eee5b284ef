//! The answers to the peer's requests (RFC 5061 §5.2): which ASCONF is processed, the ASCONF-ACKs that are kept for retransmitted ones, and
//! the rules of §5.3 for each request.

use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Asconf, AsconfAck, UnknownAction};
use anabranch_wire::parameter::{
    AddressAction, PairAction, Parameter, ParametersBuilder, RawParameter, unknown_parameter_action,
};
use bytes::Bytes;

/// The most ASCONF-ACKs kept: a peer bundles few ASCONFs in a packet (§5.5).
const MOST_KEPT: usize = 8;
/// The most requests of an ASCONF that are performed; further ones are refused.
const MOST_REQUESTS: usize = 32;
/// Bytes of a success indication.
const SUCCESS_LEN: usize = 8;

/// Answers the requests of the peer.
#[derive(Debug)]
pub(crate) struct Responses {
    /// The Sequence Number of the next ASCONF.
    expected: u32,
    kept: VecDeque<AsconfAck>,
    /// The ASCONF-ACKs for the packet that is being handled.
    answers: Vec<AsconfAck>,
    /// A deletion that waits.
    pub(crate) deferred: Option<DeferredDeletion>,
}

/// Deletions of pairs, or of all addresses but the source, in protected packets from an address that is not confirmed. An attacker on the
/// path may have sent the packet on from an address of its own: with all others gone, the peer would not be reached any more.
#[derive(Debug, Default)]
pub(crate) struct DeferredDeletion {
    /// The address from which the last request came. When a heartbeat has confirmed it, the deletions are performed.
    pub(crate) source: Option<IpAddr>,
    /// The addresses at that time, without those that the peer added since. The source stays.
    pub(crate) addresses: Vec<IpAddr>,
    /// The pairs.
    pub(crate) pairs: Vec<u32>,
}

/// Whether an ASCONF is to be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is the next one (§5.2 E1).
    New,
    /// It was processed before, or is not the next one: nothing more is to be done (§5.2 E2, E5).
    Handled,
}

impl Responses {
    pub(super) fn new(peer_initial_tsn: u32) -> Self {
        Self {
            expected: peer_initial_tsn,
            kept: VecDeque::new(),
            answers: Vec::new(),
            deferred: None,
        }
    }

    /// An ASCONF with this Sequence Number arrived; `first` if it is the first one of its packet.
    pub(crate) fn on_arrival(&mut self, serial: u32, first: bool) -> Known {
        if serial == self.expected {
            if first {
                self.kept.clear();
            }
            return Known::New;
        }
        let kept = self.kept.iter().find(|ack| ack.serial == serial);
        self.answers.extend(kept.cloned());
        Known::Handled
    }

    /// The ASCONF that was expected is processed, with these responses.
    pub(crate) fn on_processed(&mut self, ack: AsconfAck) {
        self.expected = self.expected.wrapping_add(1);
        if self.kept.len() == MOST_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(ack.clone());
        self.answers.push(ack);
    }

    /// The ASCONF-ACKs for the packet that was handled.
    pub(crate) fn take_answers(&mut self) -> Vec<AsconfAck> {
        core::mem::take(&mut self.answers)
    }
}

/// The addresses of the peer, which the requests of an ASCONF change.
pub(crate) trait Responder {
    /// Adds an address of the peer; false if there are not enough resources. The source of the packet is added as a pair with this name.
    fn add(&mut self, address: IpAddr, pair: Option<u32>) -> bool;
    /// Whether the peer has other addresses than this one.
    fn has_other_than(&self, address: IpAddr) -> bool;
    /// Whether this is an address of the peer.
    fn knows(&self, address: IpAddr) -> bool;
    fn delete(&mut self, address: IpAddr);
    fn delete_all_but(&mut self, address: IpAddr);
    fn prefer(&mut self, address: IpAddr);
    /// Whether an address can belong to a host.
    fn is_usable(&self, address: IpAddr) -> bool;
    /// Whether requests for pairs were negotiated.
    fn tells_ports_apart(&self) -> bool;
    /// The pair with this name, if there is one.
    fn pair(&self, pair: u32) -> Option<PairPlace>;
    /// The source of the packet replaces the address and the port of this pair; false if there are not enough resources.
    fn renew(&mut self, pair: u32) -> bool;
    fn delete_pair(&mut self, pair: u32);
}

/// Which pair a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairPlace {
    /// The only pair.
    Only,
    /// One of several, from which the packet came.
    Source,
    /// One of several, from which the packet did not come.
    Elsewhere,
}

/// Performs the requests of an ASCONF from `source`, in order (§5.2 V1 to V3). The responses take at most `room` bytes: requests whose
/// response does not fit are not performed. After the first failure each success is reported, because the peer takes requests without
/// response for failed (§5.1 A7).
pub(super) fn perform(
    asconf: &Asconf,
    source: IpAddr,
    room: usize,
    responder: &mut impl Responder,
) -> AsconfAck {
    let mut work = Work {
        source,
        fails: false,
        reported: false,
        responses: ParametersBuilder::new(),
        left: room,
    };
    for (place, request) in asconf.requests().map_while(Result::ok).enumerate() {
        if place >= MOST_REQUESTS {
            work.fails = true;
        }
        if !work.handle(request, responder) {
            break;
        }
    }
    AsconfAck {
        serial: asconf.serial,
        parameters: work.responses.finish(),
    }
}

struct Work {
    source: IpAddr,
    /// A request to add or delete failed for want of resources: all further ones of this ASCONF fail (§5.3 F11).
    fails: bool,
    /// A failure was reported.
    reported: bool,
    responses: ParametersBuilder,
    /// Bytes left for responses.
    left: usize,
}

impl Work {
    /// Performs one request; false if the rest of the ASCONF is not processed.
    fn handle(&mut self, request: RawParameter, responder: &mut impl Responder) -> bool {
        let whole = request.whole();
        // The largest response: an error with the request in it.
        if self.left < 12 + whole.len().next_multiple_of(4) {
            return false;
        }
        let kind = request.kind;
        let (correlation, result) = match Parameter::decode(request) {
            Ok(Parameter::Address {
                correlation,
                action,
                address,
            }) => {
                let address = address.to_canonical();
                (
                    correlation,
                    self.perform(action, correlation, address, &whole, responder),
                )
            }
            Ok(Parameter::Pair {
                action,
                correlation,
                pair,
            }) if responder.tells_ports_apart() => {
                (correlation, self.perform_on_pair(action, pair, &whole, responder))
            }
            // An unrecognized parameter has no Correlation ID that could be known; the first 4 bytes are one in all requests (§4.2).
            _ => {
                let correlation = whole.get(4..8).and_then(|id| id.try_into().ok());
                let correlation = correlation.map_or(0, u32::from_be_bytes);
                let (goes_on, report) = match unknown_parameter_action(kind) {
                    UnknownAction::Discard { report } => (false, report),
                    UnknownAction::Skip { report } => (true, report),
                };
                if report {
                    self.fail(correlation, Cause::UnrecognizedParameters(whole));
                }
                return goes_on;
            }
        };
        match result {
            Ok(()) if self.reported => self.push(&Parameter::AsconfSuccess { correlation }, SUCCESS_LEN),
            Ok(()) => {}
            Err(cause) => self.fail(correlation, cause),
        }
        true
    }

    fn perform(
        &mut self,
        action: AddressAction,
        correlation: u32,
        address: IpAddr,
        whole: &Bytes,
        responder: &mut impl Responder,
    ) -> Result<(), Cause> {
        let wildcard = address.is_unspecified();
        let named = if wildcard { self.source } else { address };
        let copy = || whole.clone();
        if self.fails && action != AddressAction::SetPrimary {
            return Err(Cause::ResourceShortage(copy()));
        }
        match action {
            AddressAction::Add => {
                if !responder.is_usable(named) {
                    return Err(Cause::NoAuthorization(copy()));
                }
                if !responder.add(named, wildcard.then_some(correlation)) {
                    self.fails = true;
                    return Err(Cause::ResourceShortage(copy()));
                }
            }
            AddressAction::Delete if wildcard => {
                // All addresses but a source that is none of the peer's would be all addresses (§5.3 F7).
                if !responder.knows(self.source) {
                    return Err(Cause::DeleteLastAddress(copy()));
                }
                responder.delete_all_but(self.source);
            }
            AddressAction::Delete => {
                if !responder.knows(named) {
                    // The address is gone already.
                    return Ok(());
                }
                if !responder.has_other_than(named) {
                    return Err(Cause::DeleteLastAddress(copy()));
                }
                if named == self.source {
                    return Err(Cause::DeleteSourceAddress(copy()));
                }
                responder.delete(named);
            }
            AddressAction::SetPrimary => {
                if !responder.knows(named) {
                    return Err(Cause::UnresolvableAddress(copy().slice(8..)));
                }
                responder.prefer(named);
            }
        }
        Ok(())
    }

    /// A request for a pair of addresses, under the rules of §5.3 for addresses.
    fn perform_on_pair(
        &mut self,
        action: PairAction,
        pair: u32,
        whole: &Bytes,
        responder: &mut impl Responder,
    ) -> Result<(), Cause> {
        let copy = || whole.clone();
        if self.fails {
            return Err(Cause::ResourceShortage(copy()));
        }
        match (action, responder.pair(pair)) {
            (PairAction::Renew, None) => return Err(Cause::UnresolvableAddress(copy())),
            (PairAction::Renew, Some(_)) if !responder.is_usable(self.source) => {
                return Err(Cause::NoAuthorization(copy()));
            }
            (PairAction::Renew, Some(_)) => {
                if !responder.renew(pair) {
                    self.fails = true;
                    return Err(Cause::ResourceShortage(copy()));
                }
            }
            // The pair is gone already.
            (PairAction::Delete, None) => {}
            (PairAction::Delete, Some(PairPlace::Only)) => return Err(Cause::DeleteLastAddress(copy())),
            (PairAction::Delete, Some(PairPlace::Source)) => return Err(Cause::DeleteSourceAddress(copy())),
            (PairAction::Delete, Some(PairPlace::Elsewhere)) => responder.delete_pair(pair),
        }
        Ok(())
    }

    fn fail(&mut self, correlation: u32, cause: Cause) {
        self.reported = true;
        let causes = Causes::from_causes(&[cause]).as_bytes().clone();
        let len = 8 + causes.len();
        self.push(&Parameter::AsconfError { correlation, causes }, len);
    }

    fn push(&mut self, response: &Parameter, len: usize) {
        let responses = core::mem::take(&mut self.responses);
        self.responses = responses.push(response);
        self.left = self.left.saturating_sub(len.next_multiple_of(4));
    }
}

impl Responses {
    /// Processes the expected ASCONF: see [`perform`].
    pub(crate) fn process(
        &mut self,
        asconf: &Asconf,
        source: IpAddr,
        room: usize,
        responder: &mut impl Responder,
    ) {
        let ack = perform(asconf, source, room, responder);
        self.on_processed(ack);
    }
}
