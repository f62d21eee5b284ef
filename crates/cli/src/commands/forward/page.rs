//! The page of `--page`: the status in a browser, with curves of the paths.

use std::net::IpAddr;

use hyper::http::uri::Authority;
use hyper::{Request, StatusCode, header};

use super::status::Status;
use crate::http::{self, Answer, BASE, File};

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
/// The path of the status, which the page reads once a second.
const STATUS: &str = "/status";

/// The answer to a request.
pub(super) fn answer<B>(request: &Request<B>, status: impl Fn() -> Status) -> Answer {
    if !is_asked_by_address(request) {
        let text = "open the page by its address, as http://127.0.0.1:8080, or localhost\n";
        return http::plain(StatusCode::MISDIRECTED_REQUEST, text.to_owned());
    }
    if request.uri().path() == STATUS {
        return http::read(request, "application/json", || {
            status().to_json().to_string().into()
        });
    }
    http::file(FILES.iter().chain(&BASE), request).unwrap_or_else(|| {
        let text = format!("there is only the page at /, and {STATUS}\n");
        http::plain(StatusCode::NOT_FOUND, text)
    })
}

/// Whether the request names an address or this machine. The owner of another name can have it lead here, and a page at that name in the same
/// browser could then read the status (DNS rebinding).
fn is_asked_by_address<B>(request: &Request<B>) -> bool {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    host.is_some_and(|host| {
        let host = host.host().trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::*;

    fn ask(method: Method, path: &str, host: &str) -> StatusCode {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", host)
            .body(());
        let status = || Status { clients: Vec::new() };
        answer(&request.expect("a request"), status).status()
    }

    #[test]
    fn a_name_that_leads_here_does_not_read_the_status() {
        for host in [
            "127.0.0.1:8080",
            "192.0.2.1",
            "[::1]:8080",
            "localhost:8080",
            "LOCALHOST",
        ] {
            assert_eq!(ask(Method::GET, STATUS, host), StatusCode::OK, "{host}");
        }
        for host in [
            "example.com",
            "example.com:8080",
            "127.0.0.1.example.com",
            "",
            "user@",
            "localhost.example.com",
        ] {
            for path in ["/", STATUS] {
                let refused = ask(Method::GET, path, host);
                assert_eq!(refused, StatusCode::MISDIRECTED_REQUEST, "{host} {path}");
            }
        }
    }

    #[test]
    fn the_page_can_only_be_read() {
        for (path, ..) in FILES.iter().chain(&BASE) {
            assert_eq!(ask(Method::GET, path, "[::1]"), StatusCode::OK, "{path}");
        }
        for (method, path, expected) in [
            (Method::POST, "/", StatusCode::METHOD_NOT_ALLOWED),
            (Method::POST, STATUS, StatusCode::METHOD_NOT_ALLOWED),
            (Method::HEAD, STATUS, StatusCode::OK),
            (Method::GET, "/metrics", StatusCode::NOT_FOUND),
        ] {
            assert_eq!(ask(method, path, "[::1]"), expected, "{path}");
        }
    }
}
