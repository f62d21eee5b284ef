//! The reason why an association ended, and its text.

use std::borrow::Cow;
use std::net::SocketAddr;

use anabranch_wire::cause::{Cause, Causes};

/// Why an association ended. Its text says it in words, with a remedy where there is one. Control characters in the texts of the peer are
/// escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// A graceful shutdown (RFC 9260 §9.2): all data was acknowledged.
    #[error("graceful shutdown")]
    Shutdown,
    /// The peer sent ABORT (RFC 9260 §9.1).
    #[error("the peer aborted it ({})", in_words(.0))]
    AbortedByPeer(Causes),
    /// The application of this endpoint aborted the association.
    #[error("this side aborted it")]
    Aborted,
    /// The peer violated the protocol, and this endpoint sent ABORT.
    #[error("the peer violated the protocol: {0}")]
    ProtocolViolation(&'static str),
    /// More than `Association.Max.Retrans` consecutive transmissions were not answered (RFC 9260 §8.1).
    #[error("the peer stopped answering: check the network, then connect again")]
    Unreachable,
    /// The peer did not answer INIT or COOKIE ECHO after `Max.Init.Retransmits` retransmissions (RFC 9260 §5.1).
    #[error("the peer did not answer: check that it listens, and its address and ports")]
    SetUpTimedOut,
    /// The peer reported a stale cookie, and new cookies became stale too (RFC 9260 §5.2.6).
    #[error("the peer's state cookie expired during the setup: connect again")]
    StaleCookie,
    /// The shutdown took longer than T5-shutdown-guard (RFC 9260 §9.2): see `Config::shutdown_guard`.
    #[error(
        "the shutdown did not end in time: the peer was silent, or one side had more messages to send; let both sides receive all messages first, or give the shutdown more time (`shutdown_guard`)"
    )]
    ShutdownTimedOut,
    /// An ICMP message that quotes a packet of this association reported that nothing receives SCTP at this address of the peer. The UDP
    /// port is closed (RFC 6951 §5.5), or, over raw IP (UDP port 0), the peer's system has no SCTP (RFC 9260 §10, ICMP8).
    #[error("{}", nothing_at(*.remote))]
    ProtocolUnreachable {
        /// The destination of the quoted packet: address and UDP port.
        remote: SocketAddr,
    },
    /// This endpoint ended the association because its packets could not be protected, or not any more; the text says why.
    #[error("the association cannot be encrypted: {0}")]
    ProtectionFailed(Cow<'static, str>),
    /// The layer below SCTP closed its connection ([`crate::PathError::Closed`]), as DTLS does when the peer closes it.
    #[error("the peer closed the DTLS connection")]
    LowerLayerClosed,
    /// The code of this association panicked, which ended the association; this endpoint tried to send an ABORT. Messages that were not
    /// acknowledged or not read are lost, and [`crate::Event::Undelivered`] does not report them.
    #[error("the SCTP stack of this program panicked; the message is on standard error")]
    InternalError,
}

/// The causes in an ABORT.
fn in_words(causes: &Causes) -> String {
    let words = causes.iter().map(|cause| match cause {
        Ok(Cause::UserInitiatedAbort(text)) if text.is_empty() => {
            "by its application, without a reason".to_owned()
        }
        Ok(Cause::UserInitiatedAbort(text)) => format!("{:?}", String::from_utf8_lossy(&text)),
        Ok(Cause::ProtocolViolation(text)) => {
            format!("protocol violation: {:?}", String::from_utf8_lossy(&text))
        }
        Ok(Cause::OutOfResource) => "out of resource".to_owned(),
        Ok(Cause::MissingDtlsSupport) => {
            "it requires encryption (DTLS chunks), and this side offered none".to_owned()
        }
        Ok(Cause::NoCommonKeyManagement) => "it supports no key management method of this side".to_owned(),
        Ok(Cause::IncompatibleKeyManagementRoles) => {
            "it cannot complement the role of this side in key management".to_owned()
        }
        Ok(Cause::TieBreakerCollision) => "both sides drew the same tie breaker: connect again".to_owned(),
        Ok(cause) => format!("{cause:?}"),
        Err(_) => "a malformed cause".to_owned(),
    });
    let words = words.collect::<Vec<_>>().join(", ");
    if words.is_empty() {
        "without a reason".to_owned()
    } else {
        words
    }
}

/// The meaning of an ICMP message about this address; port 0 means raw IP.
fn nothing_at(remote: SocketAddr) -> String {
    match remote.port() {
        0 => format!(
            "{} does not support SCTP over IP (protocol unreachable)",
            remote.ip()
        ),
        _ => format!("no program receives at {remote} (port unreachable)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_the_peer_are_escaped() {
        let causes = Causes::from_causes(&[
            Cause::UserInitiatedAbort(b"\x1b[2Jbye"[..].to_vec().into()),
            Cause::OutOfResource,
        ]);
        let told = CloseReason::AbortedByPeer(causes).to_string();
        assert_eq!(told, "the peer aborted it (\"\\u{1b}[2Jbye\", out of resource)");
        let none = CloseReason::AbortedByPeer(Causes::empty()).to_string();
        assert_eq!(none, "the peer aborted it (without a reason)");
    }

    #[test]
    fn an_end_is_an_error_with_a_remedy() {
        let error: Box<dyn std::error::Error> = Box::new(CloseReason::Unreachable);
        assert!(error.to_string().contains("connect again"), "{error}");
        let remote = "192.0.2.1:9899".parse().unwrap();
        let nothing = CloseReason::ProtocolUnreachable { remote }.to_string();
        assert_eq!(
            nothing,
            "no program receives at 192.0.2.1:9899 (port unreachable)"
        );
    }
}
