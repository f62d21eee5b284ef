//! `anabranch web`: serves a page that compares, in the visitor's own browser, a game's messages beside a file: in the file's channel,
//! reliable, expiring, prioritised, and with a deadline. Each visitor has a link of its own in front of the socket.

mod game;
mod server;
mod visit;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Observe, no_files};
use crate::output;
use crate::units;
use server::Server;

/// Arguments of `web`.
#[derive(Debug, Args)]
#[command(
    mut_args(no_files),
    after_help = "\
Examples:
  anabranch web
  anabranch web --listen 0.0.0.0:8080 --udp-ports 50000-50015
  anabranch web --listen 10.0.0.5:8080 --address 203.0.113.7 --udp-ports 50000-50015

Open the address of the first line in a browser. The page receives the messages of a game beside a
file over WebRTC data channels, and plots their delays; sliders set loss and delay of a link between
this program and the browser, one link for each visitor. All messages are encrypted with DTLS; the
page itself is not, so put a proxy with HTTPS in front of it on a public host. The link is a part of
this program: nothing else on the machine is slower.
By default only this machine can open the page. For a page at a loopback address, each visit opens a
UDP port at all addresses of this machine and announces those of the page's version of IP, because
Firefox does not use loopback addresses. The port serves only the browser that has the answer: ICE
checks the password in the answer, and DTLS the browser's fingerprint.
Programs can use it too: POST an SDP offer to /offer as application/sdp, and the answer is the body
of the response. Channels with labels that the page does not use are echoed."
)]
pub(crate) struct WebArgs {
    /// Address and TCP port of the page; port 0 takes any free port
    #[arg(long, display_order = 0, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = parse_listen)]
    listen: SocketAddr,
    /// Address of this machine as visitors see it, if a network address translator is in front of it; may be given several
    /// times [default: the address at which the request arrived; if that is a loopback address, also the machine's others]
    #[arg(long, help_heading = LIMITS, value_name = "ADDRESS")]
    address: Vec<IpAddr>,
    /// UDP ports for visitors, one for each [default: any free port]
    #[arg(long, help_heading = LIMITS, value_name = "FIRST-LAST", default_value = "0-0", hide_default_value = true, value_parser = parse_ports)]
    udp_ports: RangeInclusive<u16>,
    /// Visitors at the same time, 1 to 1000, and a quarter of them from one address (IPv6: one /64), except loopback
    /// addresses; further ones are asked to come back
    #[arg(long, display_order = 1, value_name = "NUMBER", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=1000))]
    visitors: u16,
    /// The longest visit, 1s to 1d
    #[arg(long, display_order = 2, value_name = "TIME", default_value = "10m", value_parser = parse_visit)]
    visit: Duration,
    #[command(flatten)]
    pub(crate) observe: Observe,
}

const LIMITS: &str = "Network";

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an IP address and a port, like 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080".to_owned()
    })
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("give the first and the last port, like 50000-50015".to_owned()),
    }
}

fn parse_visit(text: &str) -> Result<Duration, String> {
    let time = units::parse_duration(text)?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(86_400);
    allowed
        .contains(&time)
        .then_some(time)
        .ok_or_else(|| "give 1s to 1d, like 10m".to_owned())
}

/// Runs the command.
pub(crate) async fn run(args: WebArgs, interrupt: Interrupt) -> Result<(), Failure> {
    args.observe
        .refuse_files("this command writes no capture; run Wireshark or tcpdump, or give --pcap to demo, listen, send, ping or perf")?;
    let output = args.observe.output();
    output::serve(output)?;
    let begun = Instant::now();
    let server = Server::bind(&args).await?;
    let address = server.address();
    output.fact(
        format!("open http://{address}; messages are encrypted with DTLS, the page is not encrypted"),
        &json!({
            "event": "listening", "url": format!("http://{address}"), "encryption": { "protocol": "DTLS" }, "page_encryption": null,
        }),
    );
    let totals = server.serve(interrupt).await;
    output.fact(
        format!(
            "{}, {} not connected, {} refused, in {}",
            units::counted(totals.visits, "visit"),
            units::counted(totals.unconnected, "offer"),
            totals.refused,
            units::duration(begun.elapsed())
        ),
        &json!({ "event": "summary", "visits": totals.visits, "unconnected": totals.unconnected, "refused": totals.refused, "seconds": begun.elapsed().as_secs_f64() }),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_ports_and_times_are_checked() {
        assert_eq!(parse_ports("50000-50015"), Ok(50_000..=50_015));
        assert_eq!(parse_ports("50000"), Ok(50_000..=50_000));
        for wrong in ["5-4", "x", "1-70000", ""] {
            assert!(parse_ports(wrong).unwrap_err().contains("50000-50015"));
        }
        assert!(parse_listen("localhost").unwrap_err().contains("127.0.0.1:8080"));
        assert!(parse_visit("2d").unwrap_err().contains("10m"));
        assert_eq!(parse_visit("90s"), Ok(Duration::from_secs(90)));
    }
}
