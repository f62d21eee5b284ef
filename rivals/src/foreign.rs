//! The libraries of the distribution that are written in C and C++: SRT, RIST and usrsctp. For each, a file of C code (`srt.c`, `rist.c`,
//! `usrsctp.c`) has four functions of the same shape.

#![allow(unsafe_code, reason = "calls to foreign libraries are unsafe")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::net::SocketAddr;

use crate::Outcome;
use crate::traffic::LONGEST;

/// The four functions of a library. Addresses are IPv4.
pub(crate) struct Library {
    name: &'static str,
    accept: Open,
    connect: Open,
    send: Send,
    receive: Receive,
}

/// Settings of a connection: one number for each library, and flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// SRT, RIST: the latency in ms. usrsctp: the lifetime of the messages in ms, 0 for reliable messages.
    pub(crate) milliseconds: u64,
    /// Whether the connection is for a file.
    pub(crate) is_file: bool,
}

type Open = unsafe extern "C" fn(*const c_char, c_int, c_int, c_int) -> c_int;
type Send = unsafe extern "C" fn(c_int, *const c_void, c_int) -> c_int;
type Receive = unsafe extern "C" fn(c_int, *mut c_void, c_int) -> c_int;

macro_rules! library {
    ($feature:literal, $constant:ident, $accept:ident, $connect:ident, $send:ident, $receive:ident) => {
        #[cfg(feature = $feature)]
        unsafe extern "C" {
            fn $accept(ip: *const c_char, port: c_int, milliseconds: c_int, is_file: c_int) -> c_int;
            fn $connect(ip: *const c_char, port: c_int, milliseconds: c_int, is_file: c_int) -> c_int;
            fn $send(handle: c_int, bytes: *const c_void, length: c_int) -> c_int;
            fn $receive(handle: c_int, bytes: *mut c_void, most: c_int) -> c_int;
        }

        #[cfg(feature = $feature)]
        pub(crate) const $constant: Library = Library {
            name: $feature,
            accept: $accept,
            connect: $connect,
            send: $send,
            receive: $receive,
        };
    };
}

library!(
    "srt",
    SRT,
    rival_srt_accept,
    rival_srt_connect,
    rival_srt_send,
    rival_srt_receive
);
library!(
    "rist",
    RIST,
    rival_rist_accept,
    rival_rist_connect,
    rival_rist_send,
    rival_rist_receive
);
library!(
    "usrsctp",
    USRSCTP,
    rival_usrsctp_accept,
    rival_usrsctp_connect,
    rival_usrsctp_send,
    rival_usrsctp_receive
);

/// A connection of a library.
#[derive(Clone, Copy)]
pub(crate) struct Connection {
    library: &'static Library,
    handle: c_int,
}

impl Library {
    /// Waits for a peer.
    pub(crate) fn accept(&'static self, addr: SocketAddr, settings: Settings) -> Outcome<Connection> {
        self.begin("accept", self.accept, addr, settings)
    }

    /// Connects to a peer.
    pub(crate) fn connect(&'static self, addr: SocketAddr, settings: Settings) -> Outcome<Connection> {
        self.begin("connect", self.connect, addr, settings)
    }

    fn begin(
        &'static self,
        what: &str,
        function: Open,
        addr: SocketAddr,
        settings: Settings,
    ) -> Outcome<Connection> {
        let ip = CString::new(addr.ip().to_string())?;
        let (milliseconds, is_file) = (
            c_int::try_from(settings.milliseconds)?,
            c_int::from(settings.is_file),
        );
        // SAFETY: the function reads the text until it returns, and keeps no pointer to it.
        let handle = unsafe { function(ip.as_ptr(), c_int::from(addr.port()), milliseconds, is_file) };
        let connection = Connection {
            library: self,
            handle,
        };
        connection.checked(what, handle).map(|_| connection)
    }
}

impl Connection {
    fn checked(&self, what: &str, answer: c_int) -> Outcome<usize> {
        usize::try_from(answer)
            .map_err(|_| format!("{}: {what} failed, as the line above says", self.library.name).into())
    }

    /// Sends bytes as one message.
    pub(crate) fn send(&self, bytes: &[u8]) -> Outcome<()> {
        let length = c_int::try_from(bytes.len())?;
        // SAFETY: the function reads `length` bytes and copies them.
        let answer = unsafe { (self.library.send)(self.handle, bytes.as_ptr().cast(), length) };
        self.checked("send", answer).map(drop)
    }

    /// Receives messages, or parts of a file, until the connection ends.
    pub(crate) fn receive_all(&self, mut got: impl FnMut(&[u8])) -> Outcome<()> {
        let mut bytes = vec![0_u8; LONGEST];
        loop {
            // SAFETY: the function writes at most as many bytes as it is told, and returns their number.
            let answer =
                unsafe { (self.library.receive)(self.handle, bytes.as_mut_ptr().cast(), LONGEST as c_int) };
            let length = self.checked("receive", answer)?;
            got(&bytes[..length.min(LONGEST)]);
        }
    }
}
