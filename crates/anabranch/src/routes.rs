//! The system's list of routes: the messages of rtnetlink(7) that ask for it and that answer.

/// `RTM_GETROUTE`, and `NLM_F_REQUEST | NLM_F_DUMP`.
const GET_ROUTE: u16 = 26;
const REQUEST_ALL: u16 = 0x301;
/// The types of the answers: `RTM_NEWROUTE`; `NLMSG_ERROR` and `NLMSG_DONE` end the list.
const ROUTE: u16 = 24;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The lengths of `nlmsghdr`, `rtmsg`, `rtattr` and `rtnexthop`.
const HEADER: usize = 16;
const MESSAGE: usize = 12;
const ATTRIBUTE: usize = 4;
const NEXT_HOP: usize = 8;
/// `RTA_OIF`, `RTA_PRIORITY`, `RTA_MULTIPATH`.
const INTERFACE: u16 = 4;
const METRIC: u16 = 6;
const SEVERAL: u16 = 9;
/// `RTN_UNICAST`: other default routes discard packets.
const UNICAST: u8 = 1;

/// Asks for all routes of IPv4 and IPv6.
pub(crate) fn request() -> [u8; HEADER + MESSAGE] {
    let mut request = [0; HEADER + MESSAGE];
    request[..4].copy_from_slice(&((HEADER + MESSAGE) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&GET_ROUTE.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_ALL.to_ne_bytes());
    request
}

/// Adds the default routes in this part of the answer: metric and index of the interface. Returns whether it is the last part.
pub(crate) fn read(mut part: &[u8], found: &mut Vec<(u32, u32)>) -> bool {
    while let Some(len) = u32_at(part, 0).map(|len| len as usize) {
        let message = part.get(..len).filter(|_| len >= HEADER);
        let (Some(message), Some(kind)) = (message, u16_at(part, 4)) else {
            return true;
        };
        match kind {
            ERROR | DONE => return true,
            ROUTE => default_route(&message[HEADER..], found),
            _ => {}
        }
        part = part.get(aligned(len)..).unwrap_or_default();
    }
    false
}

/// Adds the interfaces of this route if it is a default route.
fn default_route(message: &[u8], found: &mut Vec<(u32, u32)>) {
    let (Some(destination_len), Some(kind)) = (message.get(1), message.get(7)) else {
        return;
    };
    if *destination_len != 0 || *kind != UNICAST {
        return;
    }
    let (mut metric, mut interfaces) = (0, Vec::new());
    let mut rest = message.get(MESSAGE..).unwrap_or_default();
    while let Some((kind, value, after)) = attribute(rest) {
        match kind {
            METRIC => metric = u32_at(value, 0).unwrap_or_default(),
            INTERFACE => interfaces.extend(u32_at(value, 0)),
            SEVERAL => next_hops(value, &mut interfaces),
            _ => {}
        }
        rest = after;
    }
    found.extend(interfaces.into_iter().map(|interface| (metric, interface)));
}

/// The interfaces of a route with several next hops.
fn next_hops(mut hops: &[u8], interfaces: &mut Vec<u32>) {
    while let (Some(len), Some(interface)) = (u16_at(hops, 0), u32_at(hops, 4)) {
        if usize::from(len) < NEXT_HOP {
            return;
        }
        interfaces.push(interface);
        hops = hops.get(aligned(len.into())..).unwrap_or_default();
    }
}

/// The type and the value of the first attribute, and the bytes after it.
fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = usize::from(u16_at(bytes, 0)?);
    let kind = u16_at(bytes, 2)?;
    let value = bytes.get(ATTRIBUTE..len)?;
    Some((kind, value, bytes.get(aligned(len)..).unwrap_or_default()))
}

/// Messages and attributes begin at multiples of 4 bytes.
fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    bytes
        .get(place..)?
        .first_chunk()
        .map(|two| u16::from_ne_bytes(*two))
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    bytes
        .get(place..)?
        .first_chunk()
        .map(|four| u32::from_ne_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = ((ATTRIBUTE + value.len()) as u16).to_ne_bytes();
        [&len[..], &kind.to_ne_bytes(), value].concat()
    }

    fn message(kind: u16, destination_len: u8, route_kind: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let attributes = attributes.concat();
        let len = ((HEADER + MESSAGE + attributes.len()) as u32).to_ne_bytes();
        let mut fixed = [0; HEADER - 4 + MESSAGE];
        fixed[..2].copy_from_slice(&kind.to_ne_bytes());
        fixed[HEADER - 4 + 1] = destination_len;
        fixed[HEADER - 4 + 7] = route_kind;
        [&len[..], &fixed, &attributes].concat()
    }

    fn route(destination_len: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        message(ROUTE, destination_len, UNICAST, attributes)
    }

    #[test]
    fn default_routes_are_found_and_others_are_not() {
        let on = |interface: u32| attribute(INTERFACE, &interface.to_ne_bytes());
        let metric = attribute(METRIC, &600_u32.to_ne_bytes());
        let hop = |interface: u32| [&8_u16.to_ne_bytes()[..], &[0; 2], &interface.to_ne_bytes()].concat();
        let several = attribute(SEVERAL, &[hop(5), hop(6)].concat());
        let part = [
            route(0, &[metric, on(3)]),
            route(24, &[on(2)]),
            route(0, &[on(4)]),
            message(ROUTE, 0, 7, &[on(1)]),
            route(0, &[several]),
        ];
        let mut found = Vec::new();
        assert!(!read(&part.concat(), &mut found), "more parts follow");
        assert_eq!(found, [(600, 3), (0, 4), (0, 5), (0, 6)]);
        assert!(read(&message(DONE, 0, 0, &[]), &mut found));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_part_that_is_cut_off_ends_the_list() {
        let whole = route(0, &[attribute(INTERFACE, &7_u32.to_ne_bytes())]);
        for len in 0..whole.len() {
            let mut found = Vec::new();
            let is_last = read(&whole[..len], &mut found);
            assert!(found.is_empty() && is_last == (len >= 4), "{len} bytes");
        }
    }
}
