//! The requests of this endpoint (RFC 5061 §5.1): the addresses that it should have, those that the peer knows, and the ASCONF that makes
//! the second list equal the first. One ASCONF is outstanding at a time, and T4-rto retransmits it unchanged.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::chunk::{Asconf, AsconfAck};
use anabranch_wire::parameter::{AddressAction, Parameter, ParametersBuilder};

use super::change::Change;
use super::outstanding::{MOST_FROM_NEW, Outstanding};
use super::own::{Knowledge, OwnAddress, OwnAddresses};
use super::results::{DELETES_LAST, DELETES_SOURCE, Results, UNRECOGNIZED_PARAMETERS};
use crate::path::PathId;
use crate::time::Timestamp;

/// How many times the addresses are told anew after one call of the application.
const MOST_RENEWALS: u32 = 3;

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The peer knows the address now.
    Added(IpAddr),
    /// The peer does not use the address any more.
    Removed(IpAddr),
    /// The peer refused a change of this address; the cause code, 0 if it named none.
    Refused(IpAddr, u16),
}

/// The meaning of an ASCONF-ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AckVerdict {
    /// It answers an earlier ASCONF.
    Old,
    /// No ASCONF has this Sequence Number yet: the association is to be aborted (§5.3 F0).
    Illegal,
    /// It answers the outstanding ASCONF.
    Answer {
        outcomes: Vec<Outcome>,
        /// The path of the only transmission, and its time: a measurement of the RTT.
        sample: Option<(PathId, Timestamp)>,
    },
}

/// Whether the peer does not know this address, and others are usable.
fn is_new(source: IpAddr, usable: &[IpAddr]) -> bool {
    !usable.is_empty() && !usable.contains(&source)
}

/// An ASCONF to be sent, and where from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sending {
    pub(crate) asconf: Asconf,
    pub(crate) source: IpAddr,
}

#[derive(Debug)]
pub(crate) struct Requests {
    next_serial: u32,
    next_correlation: u32,
    wildcard: bool,
    /// Whether the Address Parameter for the lookup is a wildcard, whatever the requests are.
    hides_lookup: bool,
    /// Whether pairs have names, because these were negotiated.
    names_pairs: bool,
    /// The addresses that the peer knows or that requests were about.
    own: OwnAddresses,
    /// The addresses that this endpoint has.
    wanted: Vec<IpAddr>,
    /// The address that replaces all others as soon as the peer has tested it, and whether it has tested it already.
    successor: Option<(IpAddr, bool)>,
    /// The address that the peer is to use as primary destination, until it was asked.
    primary: Option<IpAddr>,
    /// How many times more the addresses are told anew, because the peer did not know the source of a wildcard.
    renewals: u32,
    outstanding: Option<Outstanding>,
    /// The peer does not understand ASCONF, or not these requests (§5.1 A9, §5.3 F3a).
    is_stopped: bool,
}

impl Requests {
    pub(super) fn new(initial_tsn: u32, local: Vec<IpAddr>, wildcard: bool) -> Self {
        Self {
            next_serial: initial_tsn,
            next_correlation: 1,
            wildcard,
            hides_lookup: false,
            names_pairs: false,
            own: OwnAddresses::new(&local),
            wanted: local,
            successor: None,
            primary: None,
            renewals: MOST_RENEWALS,
            outstanding: None,
            is_stopped: false,
        }
    }

    /// Pairs were negotiated: requests name them. The pair that set-up used, from this address, has the name 0.
    pub(crate) fn name_pairs(&mut self, set_up: Option<IpAddr>) {
        self.names_pairs = self.wildcard;
        if let (Some(address), true) = (set_up, self.names_pairs) {
            self.own.of(address).name = Some(0);
        }
    }

    /// The peer was told this address, beside those that it was listed.
    pub(crate) fn on_told(&mut self, address: IpAddr) {
        self.own.of(address).knowledge = Knowledge::Known;
    }

    /// The peer may have set up the association with another pair.
    pub(crate) fn forget_set_up(&mut self) {
        for own in self.own.iter_mut().filter(|own| own.name == Some(0)) {
            own.name = None;
        }
    }

    /// The name of the pair that has this address.
    fn name(&self, address: IpAddr) -> Option<u32> {
        self.own.iter().find(|own| own.address == address)?.name
    }

    /// Nobody answers packets from this address, which the peer knows. Returns whether its pair can be renewed: the translator before it
    /// may have another port or address now.
    pub(crate) fn on_silence(&mut self, local: IpAddr) -> bool {
        let renews = self.own.is(local, |own| own.name.is_some() && !own.is_silent);
        if renews {
            self.own.of(local).is_silent = true;
        }
        renews
    }

    /// The addresses that this endpoint has, as far as the application said.
    pub(crate) fn wanted(&self) -> &[IpAddr] {
        &self.wanted
    }

    /// The addresses from which packets may leave: those that the peer knows and this endpoint keeps (§5.3 F1, F4). If the application wants an
    /// address again whose deletion is not answered yet, the peer may have deleted it.
    pub(crate) fn usable(&self) -> Vec<IpAddr> {
        let keeps = |address: &IpAddr| self.wanted.contains(address) && !self.is_leaving(*address);
        self.own.known().filter(keeps).collect()
    }

    /// Sets the list of this endpoint's addresses.
    pub(crate) fn want(&mut self, addresses: Vec<IpAddr>) {
        self.successor = None;
        self.wanted = addresses;
        self.renewals = MOST_RENEWALS;
        let wanted = &self.wanted;
        self.own.on_wanted(wanted);
        self.primary = self.primary.filter(|address| wanted.contains(address));
    }

    /// Replaces all addresses of the list by this one, as soon as the peer knows it and has tested it: before, the peer could send nothing
    /// to it.
    pub(crate) fn replace_all(&mut self, address: IpAddr) {
        if self.own.knows(address) {
            self.want(vec![address]);
            return;
        }
        let mut wanted = self.wanted.clone();
        if !wanted.contains(&address) {
            wanted.push(address);
        }
        self.want(wanted);
        self.successor = Some((address, false));
    }

    /// A HEARTBEAT arrived at this local address. Returns whether the addresses changed, or a request is due.
    pub(crate) fn on_heartbeat(&mut self, local: Option<IpAddr>) -> bool {
        let at = self.own.iter_mut().filter(|own| Some(own.address) == local);
        at.for_each(|own| own.is_silent = false);
        let works = self.end_rests(|own| Some(own.address) == local);
        let Some((successor, is_tested)) = &mut self.successor else {
            return works;
        };
        *is_tested |= local.is_none_or(|local| local == *successor);
        self.succeed() || works
    }

    /// Addresses that have rested are added again, if no request is outstanding. Returns whether there are such.
    pub(crate) fn on_time(&mut self, now: Timestamp) -> bool {
        let is_due = self.rest_ends().is_some_and(|due| due <= now);
        is_due && self.end_rests(|own| own.rests_until.is_some_and(|until| until <= now))
    }

    fn end_rests(&mut self, of: impl Fn(&OwnAddress) -> bool) -> bool {
        let due = self.own.iter_mut().filter(|own| of(own));
        due.filter_map(|own| own.rests_until.take()).count() > 0
    }

    /// When the first address has rested, if no request is outstanding.
    pub(crate) fn rest_ends(&self) -> Option<Timestamp> {
        let idle = self.outstanding.is_none() && !self.is_stopped;
        let resting = self.own.iter().filter(|_| idle);
        resting.filter_map(|own| own.rests_until).min()
    }

    /// The successor replaces the other addresses, if the peer knows it and has tested it.
    fn succeed(&mut self) -> bool {
        let ready = |(successor, is_tested): &mut (IpAddr, bool)| *is_tested && self.own.knows(*successor);
        match self.successor.take_if(ready) {
            Some((successor, _)) => {
                self.wanted = vec![successor];
                true
            }
            None => false,
        }
    }

    /// The peer seems not to know this address, although it was told: an answer that was lost looks alike. Returns whether it can be told by a
    /// wildcard, because it knows others.
    pub(crate) fn on_unknown(&mut self, local: IpAddr) -> bool {
        let told = self.wildcard && self.usable().iter().any(|one| *one != local);
        if told {
            let own = self.own.of(local);
            own.is_silent = false;
            own.knowledge = Knowledge::Doubtful;
        }
        told
    }

    /// Asks the peer to use this address as primary destination.
    pub(crate) fn ask_primary(&mut self, address: IpAddr) {
        self.primary = Some(address);
    }

    /// Lists no address for the lookup of the association: the tag of a protected packet is enough
    /// (draft-ietf-tsvwg-sctp-dtls-chunk §3.2).
    pub(crate) fn hide_lookup_address(&mut self) {
        self.hides_lookup = true;
    }

    /// Whether requests name addresses by wildcards.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// Whether pairs have names, because these were negotiated.
    pub(crate) fn names_pairs(&self) -> bool {
        self.names_pairs
    }

    /// Whether the peer understands no requests.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The peer does not understand ASCONF (§5.1 A9). Returns whether that is new.
    pub(crate) fn stop(&mut self) -> bool {
        self.outstanding = None;
        !core::mem::replace(&mut self.is_stopped, true)
    }

    pub(super) fn is_between_addresses(&self) -> bool {
        let knows_some = self.own.iter().any(|own| own.knowledge != Knowledge::Unknown);
        knows_some && !self.own.known().any(|address| self.wanted.contains(&address))
    }

    pub(super) fn is_leaving(&self, address: IpAddr) -> bool {
        let deletes = |change: &Change| change.action == AddressAction::Delete && change.address == address;
        let outstanding = self.outstanding.as_ref();
        outstanding.is_some_and(|outstanding| outstanding.changes.iter().any(deletes))
    }

    /// When T4-rto expires, while it runs.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.outstanding.as_ref().map(|outstanding| outstanding.timer)
    }

    /// The path of the last transmission of the outstanding ASCONF.
    pub(crate) fn path(&self) -> Option<PathId> {
        self.outstanding.as_ref().map(|outstanding| outstanding.path)
    }

    /// Builds the next ASCONF, if none is outstanding and the lists differ. `reaches` says whether some address of the peer can be reached
    /// from a local address: no other address is added. Other requests than to add an address leave from one that `works`, if there is one.
    pub(crate) fn next(
        &mut self,
        reaches: impl Fn(IpAddr) -> bool,
        works: impl Fn(IpAddr) -> bool,
    ) -> Option<Sending> {
        if self.outstanding.is_some() || self.is_stopped {
            return None;
        }
        let is_due = |address: &IpAddr| {
            let shut = |own: &OwnAddress| {
                own.knowledge == Knowledge::Known || own.is_refused || own.rests_until.is_some()
            };
            !self.own.is(*address, shut)
        };
        let adds = self.wanted.iter().copied().filter(is_due);
        let adds: Vec<_> = adds.filter(|address| reaches(*address)).collect();
        let leaves = |own: &&OwnAddress| {
            own.knowledge != Knowledge::Unknown && !own.is_refused && !self.wanted.contains(&own.address)
        };
        let deletes = self.own.iter().filter(leaves).map(|own| own.address);
        let deletes: Vec<_> = deletes.collect();
        let mut usable = self.usable();
        usable.sort_by_key(|address| !works(*address));
        // The last address is never deleted (§5.3 F5).
        let may_delete = !usable.is_empty() || !adds.is_empty();
        let (source, changes) = if self.wildcard {
            let all = self.own.iter_mut();
            all.for_each(|own| own.is_silent &= !works(own.address));
            let silent = |own: &&OwnAddress| {
                own.is_silent && own.rests_until.is_none() && usable.contains(&own.address)
            };
            let mut silent = self.own.iter().filter(silent).map(|own| own.address);
            let silent = silent.find(|address| reaches(*address));
            self.wildcard_changes(&usable, &adds, &deletes, silent)?
        } else {
            let change = |action| move |address: &IpAddr| Change::new(action, *address);
            let all = adds.iter().map(change(AddressAction::Add));
            let primary = self
                .primary
                .take_if(|one| usable.contains(one) || adds.contains(one));
            let all = all.chain(primary.as_ref().map(change(AddressAction::SetPrimary)));
            let deletes = deletes.iter().filter(|_| may_delete);
            let all = all.chain(deletes.map(change(AddressAction::Delete)));
            // §5.3 F1, F6: the source is an address that the peer knows and that stays, otherwise one that is being added.
            let source = usable
                .iter()
                .chain(&adds)
                .copied()
                .find(|address| reaches(*address))?;
            (source, all.collect::<Vec<_>>())
        };
        if changes.is_empty() {
            return None;
        }
        Some(self.build(source, &changes))
    }

    /// The next change with a wildcard address, which stands for the source of the packet, and that source. `silent` is an address to be
    /// renewed.
    fn wildcard_changes(
        &mut self,
        usable: &[IpAddr],
        adds: &[IpAddr],
        deletes: &[IpAddr],
        silent: Option<IpAddr>,
    ) -> Option<(IpAddr, Vec<Change>)> {
        if let Some(address) = adds.first().copied() {
            let mut changes = vec![Change::new(AddressAction::Add, address)];
            changes.extend(self.deletions(deletes, usable.len() + adds.len()));
            return Some((address, changes));
        }
        if let Some(address) = self.primary.take_if(|one| usable.contains(one)) {
            return Some((address, vec![Change::new(AddressAction::SetPrimary, address)]));
        }
        let deletions = self.deletions(deletes, usable.len());
        if let (Some(source), false) = (usable.first(), deletions.is_empty()) {
            return Some((*source, deletions));
        }
        let address = silent?;
        let renewal = match self.name(address) {
            Some(pair) => Change::of_pair(AddressAction::Add, address, pair),
            // The peer does not know the pair any more.
            None => Change::new(AddressAction::Add, address),
        };
        Some((address, vec![renewal]))
    }

    /// The requests that delete these addresses when so many stay. To delete by a wildcard deletes all addresses but one (§4.2.2), so that
    /// addresses whose pairs have no names, or may have others, can be deleted only if a single one stays.
    fn deletions(&self, deletes: &[IpAddr], kept: usize) -> Vec<Change> {
        let mut all = Vec::new();
        for address in deletes.iter().filter(|_| kept > 0) {
            let pair = self.name(*address);
            all.extend(pair.map(|pair| Change::of_pair(AddressAction::Delete, *address, pair)));
            if kept == 1 && (pair.is_none() || !self.own.knows(*address)) {
                all.push(Change::new(AddressAction::Delete, *address));
            }
        }
        all
    }

    fn build(&mut self, source: IpAddr, changes: &[Change]) -> Sending {
        let unspecified = match source {
            IpAddr::V4(_) => IpAddr::from([0; 4]),
            IpAddr::V6(_) => IpAddr::from([0; 16]),
        };
        // §5.3.2: an address of the association, even one that is being deleted, by which the peer can find the association.
        let kept = self.own.known().find(|address| self.wanted.contains(address));
        let known = kept.or(self.own.known().next());
        let lookup = known.filter(|_| !self.wildcard && !self.hides_lookup);
        let lookup = lookup.unwrap_or(unspecified);
        let mut parameters = ParametersBuilder::new().push(&match lookup {
            IpAddr::V4(ip) => Parameter::Ipv4(ip),
            IpAddr::V6(ip) => Parameter::Ipv6(ip),
        });
        let mut sent: Vec<Change> = Vec::new();
        for change in changes {
            // One wildcard deletes all old addresses.
            let is_same = |last: &&Change| last.action == change.action && last.pair == change.pair;
            let again = sent.last().filter(|last| self.wildcard && is_same(last));
            // The peer may have added this pair already: its name stays.
            let adds = change.action == AddressAction::Add && change.pair.is_none();
            let name = self.name(change.address).filter(|_| adds);
            let correlation = again.map(|last| last.correlation).or(name);
            let correlation = correlation.unwrap_or(self.next_correlation);
            let change = Change {
                correlation,
                ..*change
            };
            if again.is_none() {
                self.next_correlation = self.next_correlation.wrapping_add(1);
                let wildcard = self.wildcard.then_some(unspecified);
                parameters = parameters.push(&change.parameter(wildcard));
            }
            sent.push(change);
        }
        let asconf = Asconf {
            serial: self.next_serial,
            parameters: parameters.finish(),
        };
        self.next_serial = self.next_serial.wrapping_add(1);
        let is_renewal =
            |change: &Change| change.action == AddressAction::Add && self.own.knows(change.address);
        let renews = sent.iter().any(is_renewal);
        self.outstanding = Some(Outstanding {
            asconf: asconf.clone(),
            changes: sent,
            wildcard_source: self.wildcard.then_some(source),
            withdrawn: None,
            from_deleted: false,
            other_sources: Vec::new(),
            sent_at: Timestamp::ZERO,
            path: PathId(0),
            timer: Timestamp::ZERO,
            retransmissions: 0,
            from_new: is_new(source, &self.usable()) || renews,
            renews,
        });
        Sending { asconf, source }
    }

    /// The ASCONF left on this path: T4-rto runs until `timer`.
    pub(crate) fn on_sent(&mut self, now: Timestamp, path: PathId, timer: Timestamp) {
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.sent_at = now;
            outstanding.path = path;
            outstanding.timer = timer;
        }
    }

    /// Whether the last transmission left from a new address, although others work: T4-rto says nothing about these.
    pub(crate) fn is_from_new(&self) -> bool {
        self.outstanding
            .as_ref()
            .is_some_and(|outstanding| outstanding.from_new)
    }

    /// How long T4-rto runs if the path of the request has this RTO. That of a new address is not known, so that it backs off here.
    pub(crate) fn wait(&self, rto: Duration) -> Duration {
        let new = self
            .outstanding
            .as_ref()
            .filter(|outstanding| outstanding.from_new);
        rto * new.map_or(1, |outstanding| {
            1 << outstanding.retransmissions.min(MOST_FROM_NEW)
        })
    }

    /// T4-rto expired: the same ASCONF again (§5.1 B4), from an address that this endpoint still has. If the peer tells ports apart, it would
    /// take the port of another source for that of the named pair, or add it: from there the ASCONF leaves without requests, which are built
    /// anew after the answer. One that `works` is preferred.
    pub(crate) fn again(
        &mut self,
        reaches: impl Fn(IpAddr) -> bool,
        works: impl Fn(IpAddr) -> bool,
    ) -> Option<Sending> {
        let mut usable = self.usable();
        usable.sort_by_key(|address| !works(*address));
        let wanted = &self.wanted;
        let outstanding = self.outstanding.as_mut()?;
        outstanding.retransmissions += 1;
        let added = outstanding
            .changes
            .iter()
            .filter(|change| change.action == AddressAction::Add);
        let added = added
            .map(|change| change.address)
            .filter(|one| wanted.contains(one));
        let first = outstanding.wildcard_source.filter(|one| wanted.contains(one));
        if outstanding.renews || outstanding.withdrawn.is_some() {
            usable.retain(|address| Some(*address) != outstanding.wildcard_source);
        }
        let gives_up = outstanding.gives_up(&usable);
        let first = first.filter(|one| !gives_up || usable.contains(one));
        let candidates = first
            .into_iter()
            .chain(usable.iter().copied())
            .chain(added)
            .chain(wanted.iter().copied());
        let candidates: Vec<_> = candidates.filter(|address| reaches(*address)).collect();
        let deletes = |address: &IpAddr| {
            let mut changes = outstanding.changes.iter();
            changes.any(|change| change.action == AddressAction::Delete && change.address == *address)
        };
        // §5.3 F6: not from an address that the request deletes, unless there is no other one.
        let allowed = candidates.iter().copied().find(|address| !deletes(address));
        let source = allowed.or(candidates.first().copied())?;
        outstanding.from_deleted |= deletes(&source);
        let mut withdrawn = Vec::new();
        let first = outstanding.wildcard_source.filter(|first| *first != source);
        if let (Some(first), true) = (first, self.names_pairs) {
            withdrawn = outstanding.withdraw(first);
        } else if first.is_some() && !outstanding.other_sources.contains(&source) {
            outstanding.other_sources.push(source);
        }
        outstanding.from_new = is_new(source, &usable) || outstanding.renews;
        let asconf = outstanding.asconf.clone();
        withdrawn.iter().for_each(|change| self.on_withdrawn(change));
        Some(Sending { asconf, source })
    }

    /// An ASCONF-ACK arrived (§5.1 A5 to A8). A new address from which nothing reached the peer rests, for
    /// `longest_rest` at most, before it is added again.
    pub(crate) fn on_ack(&mut self, ack: &AsconfAck, now: Timestamp, longest_rest: Duration) -> AckVerdict {
        let distance = ack.serial.wrapping_sub(self.next_serial).cast_signed();
        if distance >= 0 {
            return AckVerdict::Illegal;
        }
        let answered = |outstanding: &mut Outstanding| outstanding.asconf.serial == ack.serial;
        let Some(outstanding) = self.outstanding.take_if(answered) else {
            return AckVerdict::Old;
        };
        let mut outcomes = Vec::new();
        let is_ambiguous = !outstanding.other_sources.is_empty();
        let gave_up = outstanding
            .wildcard_source
            .filter(|_| is_ambiguous && outstanding.gives_up(&self.usable()));
        if let Some(source) = outstanding.withdrawn.or(gave_up) {
            self.own.of(source).rest(now, longest_rest);
        }
        let before: Vec<_> = self.own.known().collect();
        let mut is_unknown = false;
        let results = Results::of(ack, &outstanding.changes);
        for change in &outstanding.changes {
            match results.error(change) {
                // §5.3 F8: requested again from another source.
                Some(DELETES_SOURCE) if outstanding.from_deleted => {}
                // The peer does not know the source, which alone would stay: all addresses are added again.
                Some(DELETES_LAST) if self.wildcard && self.renewals > 0 => is_unknown = true,
                // The peer does not know the pair: the address is added again.
                Some(_) if change.renews() => self.own.of(change.address).name = None,
                Some(code) => {
                    self.on_refused(change, code);
                    outcomes.push(Outcome::Refused(change.address, code));
                }
                None => outcomes.extend(self.on_performed(change, is_ambiguous)),
            }
        }
        if is_unknown {
            self.renewals -= 1;
            let known: Vec<_> = self.own.known().collect();
            self.doubt_all(&known);
        }
        if is_ambiguous {
            // The peer processed the request with the source of one of the transmissions, and which one is unknown.
            let deletes = |change: &Change| change.action == AddressAction::Delete;
            let sources = outstanding.other_sources.iter().copied();
            if outstanding.changes.iter().any(deletes) {
                self.doubt_all(&before);
            }
            sources.for_each(|source| self.own.of(source).doubt());
        }
        // The answer to a request from a new address says nothing about the path that data takes.
        let measures = outstanding.retransmissions == 0 && !outstanding.from_new;
        let sample = measures.then_some((outstanding.path, outstanding.sent_at));
        AckVerdict::Answer { outcomes, sample }
    }

    /// The peer performed a change. An addition whose source address changed meanwhile is requested again: which address the peer added is
    /// unknown, and to add an address that it has already succeeds.
    fn on_performed(&mut self, change: &Change, is_ambiguous: bool) -> Option<Outcome> {
        let names_pairs = self.names_pairs;
        let own = self.own.of(change.address);
        let was_known = own.knowledge == Knowledge::Known;
        match change.action {
            AddressAction::Add if is_ambiguous => {
                own.doubt();
                None
            }
            AddressAction::Add => {
                own.knowledge = Knowledge::Known;
                own.is_silent = false;
                own.end_rests();
                let name = change.pair.unwrap_or(change.correlation);
                own.name = names_pairs.then_some(name);
                self.succeed();
                (!was_known).then_some(Outcome::Added(change.address))
            }
            AddressAction::Delete => {
                own.forget();
                was_known.then_some(Outcome::Removed(change.address))
            }
            AddressAction::SetPrimary => None,
        }
    }

    /// A request was withdrawn. The peer may have performed it, so that it may know the address or not.
    fn on_withdrawn(&mut self, change: &Change) {
        let own = self.own.of(change.address);
        match change.action {
            AddressAction::Add if change.pair.is_none() => own.name = Some(change.correlation),
            AddressAction::Delete => own.knowledge = Knowledge::Unknown,
            _ => return,
        }
        own.doubt();
    }

    /// The peer may know these addresses, or not.
    fn doubt_all(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            self.own.of(*address).knowledge = Knowledge::Doubtful;
        }
    }

    fn on_refused(&mut self, change: &Change, code: u16) {
        // §5.3 F3a: the peer does not understand Add or Delete.
        self.is_stopped |= code == UNRECOGNIZED_PARAMETERS && change.action != AddressAction::SetPrimary;
        if change.action != AddressAction::SetPrimary {
            self.own.of(change.address).is_refused = true;
        }
    }
}
