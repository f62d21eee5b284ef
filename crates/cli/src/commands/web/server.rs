//! The page over HTTP, and the one request that it makes: an offer.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch::LinkedSocket;
use anabranch_datachannel::{PeerConnection, SessionConfig};
use anabranch_dtls::Certificate;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::{WebArgs, game, visit};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::units;

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 3] = [
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
/// The page loads nothing from elsewhere, and no other page may show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// The largest offer in bytes.
const OFFER: usize = 64 << 10;
/// TCP connections at a time; further ones wait.
const CONNECTIONS: usize = 256;
/// How long a connection may take for the head of a request, for its body, and altogether.
const HEAD: Duration = Duration::from_secs(10);
const BODY: Duration = Duration::from_secs(10);
const CONNECTION: Duration = Duration::from_secs(120);
/// When a refused visitor may ask again, in seconds.
const RETRY: &str = "30";
/// How long visitors may take to leave after Ctrl-C.
const HURRY: Duration = Duration::from_secs(3);

type Answer = Response<Full<Bytes>>;

/// The server's visits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) visits: u64,
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
    /// The addresses of this machine as visitors see it; empty: that at which the request arrived.
    announced: Vec<IpAddr>,
    ports: RangeInclusive<u16>,
    rooms: Arc<Semaphore>,
    visitors: u16,
    longest: Duration,
    output: Output,
    visits: AtomicU64,
    refused: AtomicU64,
    /// Ended at Ctrl-C.
    stop: tokio::sync::watch::Sender<bool>,
}

impl Server {
    pub(super) async fn bind(args: &WebArgs) -> Result<Self, Failure> {
        let failure = |error: std::io::Error| {
            Failure::new(format!(
                "--listen {}: {error}; give an address of this machine and a free port (0 takes any)",
                args.listen
            ))
        };
        if let Some(address) = args.address.iter().find(|address| address.is_unspecified()) {
            return Err(Failure::new(format!(
                "--address {address}: give an address to which visitors can send"
            )));
        }
        let listener = TcpListener::bind(args.listen).await.map_err(failure)?;
        let certificate =
            Certificate::generate().map_err(|error| Failure::new(format!("no certificate: {error}")))?;
        Ok(Self {
            address: listener.local_addr().map_err(failure)?,
            listener,
            house: Arc::new(House {
                certificate,
                announced: args.address.clone(),
                ports: args.udp_ports.clone(),
                rooms: Arc::new(Semaphore::new(args.visitors.into())),
                visitors: args.visitors,
                longest: args.visit,
                output: args.observe.output(),
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
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok((stream, peer)) => {
                        connections.spawn(Arc::clone(&house).converse(stream, peer));
                    }
                    // For example too many open files: wait for some to be closed.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                Some(_) = connections.join_next() => {}
                () = interrupt.wait() => break,
            }
        }
        connections.abort_all();
        house.stop.send_replace(true);
        let everyone = house.rooms.acquire_many(house.visitors.into());
        let _ = tokio::time::timeout(HURRY, everyone).await;
        Totals {
            visits: house.visits.load(Ordering::Relaxed),
            refused: house.refused.load(Ordering::Relaxed),
        }
    }
}

impl House {
    /// The requests of one TCP connection.
    async fn converse(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Ok(own) = stream.local_addr() else { return };
        let service = service_fn(|request| {
            let house = Arc::clone(&self);
            async move { Ok::<_, std::convert::Infallible>(house.answer(request, own, peer).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(stream), service);
        // An error is the visitor's: the connection is closed.
        let _ = tokio::time::timeout(CONNECTION, connection).await;
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        own: SocketAddr,
        peer: SocketAddr,
    ) -> Answer {
        let path = request.uri().path();
        if path == "/offer" {
            if request.method() != Method::POST {
                return not_allowed("POST");
            }
            return match Arc::clone(&self).admit(request, own, peer).await {
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
        let Some((_, kind, content)) = FILES.iter().find(|(name, ..)| *name == path) else {
            return plain(
                StatusCode::NOT_FOUND,
                "there is only the page at /, and /offer\n".to_owned(),
            );
        };
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return not_allowed("GET, HEAD");
        }
        with_type(StatusCode::OK, kind, Bytes::from_static(content.as_bytes()))
    }

    /// Answers an offer, and begins the visit.
    async fn admit(
        self: Arc<Self>,
        request: Request<Incoming>,
        own: SocketAddr,
        peer: SocketAddr,
    ) -> Result<Answer, (StatusCode, String)> {
        let room = Arc::clone(&self.rooms).try_acquire_owned().map_err(|_| {
            let visitors = units::counted(self.visitors.into(), "visitor");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("there are {visitors} already; come back in {RETRY} seconds"),
            )
        })?;
        let offer = read_offer(request).await?;
        let refuse = |error: &dyn std::fmt::Display| (StatusCode::BAD_REQUEST, error.to_string());
        let unable = |error: std::io::Error| {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("no UDP port is free: {error}"),
            )
        };
        let socket = self.bind(own.ip()).await.map_err(unable)?;
        let bound = socket.local_addr().map_err(unable)?;
        let announced = if self.announced.is_empty() {
            vec![bound]
        } else {
            let with_port = |address: &IpAddr| SocketAddr::new(*address, bound.port());
            self.announced.iter().map(with_port).collect()
        };
        let visit = self.visits.fetch_add(1, Ordering::Relaxed) + 1;
        let socket = Arc::new(LinkedSocket::new(
            socket,
            announced[0],
            &game::first_link(),
            visit,
        ));
        let config = SessionConfig::new(self.certificate.clone(), announced).ice_lite(true);
        let (connection, answer) = PeerConnection::answer(Arc::clone(&socket), config, &offer)
            .map_err(|error| refuse(&error))
            .inspect_err(|_| {
                self.visits.fetch_sub(1, Ordering::Relaxed);
            })?;
        tokio::spawn(self.host(visit, peer, connection, socket, room));
        Ok(with_type(StatusCode::CREATED, "application/sdp", answer.into()))
    }

    /// A visit, from the answer to the end.
    async fn host(
        self: Arc<Self>,
        visit: u64,
        peer: SocketAddr,
        connection: PeerConnection,
        socket: Arc<LinkedSocket>,
        room: OwnedSemaphorePermit,
    ) {
        let begun = Instant::now();
        self.output.fact(
            format!("visitor {visit} from {peer}"),
            &json!({ "event": "visitor", "visit": visit, "peer": peer.to_string() }),
        );
        let reason = visit::serve(connection, socket, self.longest, self.stop.subscribe()).await;
        self.output.fact(
            format!("visitor {visit} after {}: {reason}", units::duration(begun.elapsed())),
            &json!({ "event": "left", "visit": visit, "seconds": begun.elapsed().as_secs_f64(), "reason": reason }),
        );
        drop(room);
    }

    /// A UDP socket at this address, with the first free one of the ports.
    async fn bind(&self, address: IpAddr) -> std::io::Result<UdpSocket> {
        let mut last = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        for port in self.ports.clone() {
            match UdpSocket::bind((address, port)).await {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
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

fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, format!("use {methods}\n"));
    answer
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(methods));
    answer
}

fn plain(status: StatusCode, text: String) -> Answer {
    with_type(status, "text/plain; charset=utf-8", text.into())
}

fn with_type(status: StatusCode, kind: &'static str, content: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(content));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
