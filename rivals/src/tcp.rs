//! The kernel's TCP and MPTCP: a connection for the messages, another one for the file.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::files::{read_all, write_file, write_messages};
use crate::traffic::generate;
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new("tcp-cubic", "tcp", "CUBIC, TCP_NODELAY"),
    Rival::new("tcp-bbr", "tcp", "BBR, TCP_NODELAY"),
    Rival::new("tcp-reno", "tcp", "Reno, TCP_NODELAY").second(),
    Rival::new(
        "mptcp",
        "mptcp",
        "CUBIC on each path, TCP_NODELAY, default scheduler",
    )
    .with_paths(),
];

/// `IPPROTO_MPTCP` of Linux.
const MPTCP: i32 = 262;

fn socket(job: &Job) -> Outcome<Socket> {
    let protocol = if job.rival == "mptcp" {
        Protocol::from(MPTCP)
    } else {
        Protocol::TCP
    };
    Ok(Socket::new(
        Domain::for_address(job.addr),
        Type::STREAM,
        Some(protocol),
    )?)
}

fn listener(job: &Job) -> Outcome<TcpListener> {
    let socket = socket(job)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(job.addr))?;
    socket.listen(16)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into())?)
}

fn connect(job: &Job) -> Outcome<TcpStream> {
    let socket = socket(job)?;
    let algorithm = job.rival.strip_prefix("tcp-").unwrap_or("cubic");
    socket.set_tcp_congestion(algorithm.as_bytes())?;
    socket.set_tcp_nodelay(true)?;
    socket.connect(&SockAddr::from(job.addr))?;
    socket.set_nonblocking(true)?;
    Ok(TcpStream::from_std(socket.into())?)
}

pub(crate) async fn run(side: Side, job: &Job) -> Outcome<()> {
    if side == Side::Receiver {
        let listener = listener(job)?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            tokio::spawn(async move { read_all(&mut stream).await });
        }
    }
    let mut messages = connect(job)?;
    if job.file {
        let mut file = connect(job)?;
        tokio::spawn(async move { write_file(&mut file).await });
    }
    write_messages(generate(job), &mut messages).await
}
