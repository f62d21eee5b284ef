//! The page over HTTP, and the one request that it makes: an offer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch::{LinkedSocket, host_addresses};
use anabranch_datachannel::{
    ChannelLimits, PeerConnection, SessionConfig, SessionError, candidate_addresses,
};
use anabranch_dtls::Certificate;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};

use super::visit::Visit;
use super::{WebArgs, game};
use crate::failure::Failure;
use crate::http::{self, Answer, BASE, Ends, File, not_allowed, plain, with_type};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::places::{Places, Refused};
use crate::units;

/// The files of the page.
const FILES: [File; 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    (
        "/page.css",
        "text/css; charset=utf-8",
        include_str!("page/page.css"),
    ),
    (
        "/page.js",
        "text/javascript; charset=utf-8",
        include_str!("page/page.js"),
    ),
];
/// The largest offer in bytes.
const OFFER: usize = 64 << 10;
/// Channels of a visitor, and the largest message that is accepted in one, in bytes: an echo holds one.
const CHANNELS: usize = 64;
const MESSAGE: usize = 64 << 10;
/// The most addresses in an answer: a session has no more.
const MOST_ANNOUNCED: usize = 16;
/// How often a free UDP port is looked for, and the time between: a visit that ended frees its port a little later.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(50);
/// How long a connection may take for the body of a request.
const BODY: Duration = Duration::from_secs(10);
/// When a refused visitor may ask again, in seconds.
const RETRY: &str = "30";
/// How long visitors may take to leave after Ctrl-C.
const HURRY: Duration = Duration::from_secs(3);

/// The server's visits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) visits: u64,
    /// Offers that were answered and whose visitors never connected.
    pub(super) unconnected: u64,
    pub(super) refused: u64,
}

/// The server of the page.
#[derive(Debug)]
pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    house: Arc<House>,
}

/// The state that all visitors share.
#[derive(Debug)]
struct House {
    certificate: Certificate,
    /// The addresses of `--address`.
    given: Vec<IpAddr>,
    ports: RangeInclusive<u16>,
    places: Arc<Places>,
    visitors: u16,
    longest: Duration,
    output: Output,
    answered: AtomicU64,
    visits: AtomicU64,
    refused: AtomicU64,
    /// Ended at Ctrl-C.
    stop: tokio::sync::watch::Sender<bool>,
}

impl Server {
    pub(super) async fn bind(args: &WebArgs) -> Result<Self, Failure> {
        if let Some(address) = args.address.iter().find(|address| address.is_unspecified()) {
            return Err(Failure::new(format!(
                "--address {address}: give an address to which visitors can send"
            )));
        }
        let (listener, address) = http::bind("--listen", args.listen).await?;
        let certificate =
            Certificate::generate().map_err(|error| Failure::new(format!("no certificate: {error}")))?;
        Ok(Self {
            listener,
            address,
            house: Arc::new(House {
                certificate,
                given: args.address.clone(),
                ports: args.udp_ports.clone(),
                places: Places::new(args.visitors.into(), share(args.visitors)),
                visitors: args.visitors,
                longest: args.visit,
                output: args.observe.output(),
                answered: AtomicU64::new(0),
                visits: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                stop: tokio::sync::watch::Sender::new(false),
            }),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the user asks to stop.
    pub(super) async fn serve(self, interrupt: Interrupt) -> Totals {
        let house = self.house;
        let answering = {
            let house = Arc::clone(&house);
            http::serve(self.listener, move |request, ends| {
                Arc::clone(&house).answer(request, ends)
            })
        };
        tokio::select! {
            () = answering => {}
            () = interrupt.wait() => {}
        }
        house.stop.send_replace(true);
        let _ = tokio::time::timeout(HURRY, house.places.empty()).await;
        let visits = house.visits.load(Ordering::Relaxed);
        Totals {
            visits,
            unconnected: house.answered.load(Ordering::Relaxed).saturating_sub(visits),
            refused: house.refused.load(Ordering::Relaxed),
        }
    }
}

impl House {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, ends: Ends) -> Answer {
        let path = request.uri().path();
        if path == "/offer" {
            if request.method() != Method::POST {
                return not_allowed("POST");
            }
            return match Arc::clone(&self).admit(request, ends).await {
                Ok(answer) => answer,
                Err((status, reason)) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    let mut answer = plain(status, format!("{reason}\n"));
                    if status == StatusCode::SERVICE_UNAVAILABLE {
                        let retry = HeaderValue::from_static(RETRY);
                        answer.headers_mut().insert(header::RETRY_AFTER, retry);
                    }
                    answer
                }
            };
        }
        http::file(FILES.iter().chain(&BASE), &request).unwrap_or_else(|| {
            plain(
                StatusCode::NOT_FOUND,
                "there is only the page at /, and /offer\n".to_owned(),
            )
        })
    }

    /// Answers an offer, and begins the visit.
    async fn admit(
        self: Arc<Self>,
        request: Request<Incoming>,
        Ends { own, peer }: Ends,
    ) -> Result<Answer, (StatusCode, String)> {
        let offer = read_offer(request).await?;
        let refuse = |error: &dyn std::fmt::Display| (StatusCode::BAD_REQUEST, error.to_string());
        let unable = |error: std::io::Error| {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("no UDP port is free: {error}"),
            )
        };
        // An offer that cannot be used displaces nobody.
        candidate_addresses(&offer).map_err(|error| refuse(&SessionError::from(error)))?;
        let (place, displaced) = self.places.take(peer.ip()).map_err(|why| self.refusal(why))?;
        let (bound, announced) = reach(own.ip().to_canonical(), &self.given, || {
            // Without the list, a page at a loopback address works in Chromium only.
            host_addresses().unwrap_or_default()
        });
        let socket = self.bind(bound).await.map_err(unable)?;
        let port = socket.local_addr().map_err(unable)?.port();
        let with_port = |address: &IpAddr| SocketAddr::new(*address, port);
        // The first one stands for all in the session: it only answers checks, and the system chooses the address that an answer leaves from.
        let announced: Vec<_> = announced.iter().map(with_port).collect();
        let answered = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
        let socket = Arc::new(LinkedSocket::new(
            socket,
            announced[0],
            &game::first_link(),
            answered,
        ));
        let mut config = SessionConfig::new(self.certificate.clone(), announced)
            .ice_lite(true)
            .limits(limits());
        // The link needs no larger window.
        config.sctp.buffers.growth = 1;
        let (connection, answer) = PeerConnection::answer(Arc::clone(&socket), config, &offer)
            .map_err(|error| refuse(&error))
            .inspect_err(|_| {
                self.answered.fetch_sub(1, Ordering::Relaxed);
            })?;
        let visit = Visit {
            connection,
            socket,
            place,
            longest: self.longest,
            stop: self.stop.subscribe(),
        };
        tokio::spawn(self.host(visit, peer, displaced));
        Ok(with_type(StatusCode::CREATED, "application/sdp", answer.into()))
    }

    fn refusal(&self, why: Refused) -> (StatusCode, String) {
        let there_are = |visitors: usize, whence: &str| {
            let visitors = units::counted(visitors as u64, "visitor");
            format!("there are {visitors}{whence} already; come back in {RETRY} seconds")
        };
        let reason = match why {
            Refused::Full => there_are(self.visitors.into(), ""),
            Refused::Share => there_are(share(self.visitors), " from your address"),
        };
        (StatusCode::SERVICE_UNAVAILABLE, reason)
    }

    /// A visit, from the answer to the end. Offers whose visitors never connect print nothing: strangers could fill the output with them.
    async fn host(self: Arc<Self>, mut visit: Visit, peer: SocketAddr, displaced: impl Future<Output = ()>) {
        let mut arrived = None;
        let arrive = || {
            let visit = self.visits.fetch_add(1, Ordering::Relaxed) + 1;
            arrived = Some((visit, Instant::now()));
            self.output.fact(
                format!("visitor {visit} from {peer}"),
                &json!({ "event": "visitor", "visit": visit, "peer": peer.to_string() }),
            );
        };
        let reason = visit.serve(displaced, arrive).await;
        if let Some((visit, begun)) = arrived {
            self.output.fact(
                format!("visitor {visit} after {}: {reason}", units::duration(begun.elapsed())),
                &json!({ "event": "left", "visit": visit, "seconds": begun.elapsed().as_secs_f64(), "reason": reason }),
            );
        }
    }

    /// A UDP socket at this address, with the first free one of the ports.
    async fn bind(&self, address: IpAddr) -> std::io::Result<UdpSocket> {
        let mut last = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(BETWEEN).await;
            }
            for port in self.ports.clone() {
                match UdpSocket::bind((address, port)).await {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }
}

/// The address to bind for a visitor whose request arrived at `own`, and the addresses that the answer announces. These are the `given` ones,
/// else `own`. If `own` is a loopback address, those of the `host` come after it: Firefox neither has loopback candidates nor sends to
/// 127.0.0.1 from another address.
fn reach(own: IpAddr, given: &[IpAddr], host: impl FnOnce() -> Vec<IpAddr>) -> (IpAddr, Vec<IpAddr>) {
    let mut announced = given.to_vec();
    if announced.is_empty() {
        announced.push(own);
        if own.is_loopback() {
            // One socket receives at all of them, so they have its version of IP.
            announced.extend(host().into_iter().filter(|ip| ip.is_ipv4() == own.is_ipv4()));
            announced.truncate(MOST_ANNOUNCED);
        }
    }
    // A socket at a loopback address receives nothing at other addresses.
    let outside = announced.iter().find(|ip| own.is_loopback() && !ip.is_loopback());
    let bound = match outside {
        Some(IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
        Some(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        None => own,
    };
    (bound, announced)
}

/// The places of an address: a quarter.
fn share(visitors: u16) -> usize {
    usize::from(visitors).div_ceil(4)
}

/// The limits of a visitor's channels.
fn limits() -> ChannelLimits {
    let mut limits = ChannelLimits::default();
    limits.max_channels = CHANNELS;
    limits.max_message = MESSAGE;
    limits
}

async fn read_offer(request: Request<Incoming>) -> Result<String, (StatusCode, String)> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/sdp") {
        let reason = "the offer must have the type application/sdp".to_owned();
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    let too_large = || {
        let reason = format!("an offer has at most {OFFER} bytes");
        (StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    let body = Limited::new(request.into_body(), OFFER).collect();
    let body = match tokio::time::timeout(BODY, body).await {
        Err(_) => {
            let reason = format!("the offer took longer than {} seconds", BODY.as_secs());
            return Err((StatusCode::REQUEST_TIMEOUT, reason));
        }
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(too_large()),
        Ok(Err(error)) => return Err((StatusCode::BAD_REQUEST, error.to_string())),
        Ok(Ok(body)) => body.to_bytes(),
    };
    String::from_utf8(body.into()).map_err(|_| (StatusCode::BAD_REQUEST, "the offer is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound address, and after it the announced ones.
    fn reached(own: &str, given: &str, host: &str) -> String {
        let read = |text: &str| -> Vec<IpAddr> {
            let addresses = text.split_whitespace();
            addresses.map(|address| address.parse().unwrap()).collect()
        };
        let (bound, announced) = reach(read(own)[0], &read(given), || read(host));
        let announced = announced.iter().map(|address| format!(" {address}"));
        format!("{bound}:{}", announced.collect::<String>())
    }

    #[test]
    fn a_request_at_a_loopback_address_gets_the_addresses_of_the_host() {
        let host = "192.0.2.1 2001:db8::1 198.51.100.1";
        for (own, host, expected) in [
            ("127.0.0.1", host, "0.0.0.0: 127.0.0.1 192.0.2.1 198.51.100.1"),
            ("::1", host, "::: ::1 2001:db8::1"),
            // Nothing is opened if nothing else can be announced.
            ("127.0.0.1", "", "127.0.0.1: 127.0.0.1"),
            ("127.0.0.1", "2001:db8::1", "127.0.0.1: 127.0.0.1"),
            ("192.0.2.1", host, "192.0.2.1: 192.0.2.1"),
        ] {
            assert_eq!(reached(own, "", host), expected);
        }
    }

    #[test]
    fn given_addresses_are_announced_alone() {
        for (own, given, expected) in [
            ("192.0.2.1", "203.0.113.7", "192.0.2.1: 203.0.113.7"),
            // A proxy on this machine sends its requests to a loopback address, and its visitors their datagrams to another one.
            ("127.0.0.1", "203.0.113.7", "0.0.0.0: 203.0.113.7"),
            ("127.0.0.1", "2001:db8::7", "::: 2001:db8::7"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.1: 127.0.0.1"),
        ] {
            assert_eq!(reached(own, given, "192.0.2.1"), expected);
        }
    }

    #[test]
    fn a_session_takes_all_announced_addresses() {
        let host = vec![IpAddr::from([192, 0, 2, 1]); 100];
        let (_, announced) = reach(IpAddr::from([127, 0, 0, 1]), &[], || host);
        let certificate = Certificate::generate().unwrap();
        let with_port = announced.into_iter().map(|address| SocketAddr::new(address, 1));
        let config = SessionConfig::new(certificate, with_port.collect::<Vec<_>>());
        let session = anabranch_datachannel::Session::offer(anabranch_proto::Timestamp::ZERO, config);
        assert!(session.is_ok());
    }
}
