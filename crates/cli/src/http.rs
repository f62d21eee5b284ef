//! The HTTP servers of commands: connections with limits of time and number, and answers that a browser keeps apart from other pages.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::places::Places;

/// The page loads nothing from elsewhere, and no other page may show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// The largest head of a request in bytes.
const MOST_HEAD: usize = 16 << 10;
/// TCP connections at a time, and those of an address; a further one takes the place of the oldest.
const CONNECTIONS: usize = 256;
const CONNECTIONS_OF_ADDRESS: usize = 32;
/// How long a connection may take for the head of a request, and altogether.
const HEAD: Duration = Duration::from_secs(10);
const CONNECTION: Duration = Duration::from_secs(120);
/// The pause after an error of `accept`, for example too many open files, which would otherwise come again at once.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) type Answer = Response<Full<Bytes>>;

/// A file of a page: path, type, content.
pub(crate) type File = (&'static str, &'static str, &'static str);

/// The files that all pages have.
pub(crate) const BASE: [File; 2] = [
    (
        "/base.css",
        "text/css; charset=utf-8",
        include_str!("http/base.css"),
    ),
    (
        "/base.js",
        "text/javascript; charset=utf-8",
        include_str!("http/base.js"),
    ),
];

/// The addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) own: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// Binds the port that `option` names, and returns its address too.
pub(crate) async fn bind(option: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let problem = |error| {
        Failure::new(format!(
            "{option} {address}: {error}; give an address of this machine and a free port (0 takes any)"
        ))
    };
    let listener = TcpListener::bind(address).await.map_err(problem)?;
    let bound = listener.local_addr().map_err(problem)?;
    Ok((listener, bound))
}

/// Answers requests until the future is dropped.
pub(crate) async fn serve<F: Future<Output = Answer> + Send>(
    listener: TcpListener,
    answer: impl Fn(Request<Incoming>, Ends) -> F + Clone + Send + Sync + 'static,
) {
    let places = Places::new(CONNECTIONS, CONNECTIONS_OF_ADDRESS);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Ok((place, displaced)) = places.take(peer.ip()) else { continue };
                    let answer = answer.clone();
                    connections.spawn(async move {
                        tokio::select! {
                            () = converse(stream, peer, answer) => {}
                            () = displaced => {}
                        }
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The requests of one TCP connection.
async fn converse<F: Future<Output = Answer>>(
    stream: TcpStream,
    peer: SocketAddr,
    answer: impl Fn(Request<Incoming>, Ends) -> F,
) {
    let Ok(own) = stream.local_addr() else { return };
    let service = service_fn(|request| {
        let answer = answer(request, Ends { own, peer });
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MOST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // An error is the visitor's: the connection is closed.
    let _ = tokio::time::timeout(CONNECTION, connection).await;
}

/// The answer to a request for one of these files. `None` if there is none at this path.
pub(crate) fn file<'a, B>(files: impl IntoIterator<Item = &'a File>, request: &Request<B>) -> Option<Answer> {
    let (_, kind, content) = files
        .into_iter()
        .find(|(path, ..)| *path == request.uri().path())?;
    Some(read(request, kind, || Bytes::from_static(content.as_bytes())))
}

/// The answer to a request that only reads.
pub(crate) fn read<B>(request: &Request<B>, kind: &'static str, content: impl FnOnce() -> Bytes) -> Answer {
    match *request.method() {
        Method::GET | Method::HEAD => with_type(StatusCode::OK, kind, content()),
        _ => not_allowed("GET, HEAD"),
    }
}

pub(crate) fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, format!("use {methods}\n"));
    answer
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(methods));
    answer
}

pub(crate) fn plain(status: StatusCode, text: String) -> Answer {
    with_type(status, "text/plain; charset=utf-8", text.into())
}

pub(crate) fn with_type(status: StatusCode, kind: &'static str, content: Bytes) -> Answer {
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
