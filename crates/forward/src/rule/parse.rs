//! Reads rules: `[ADDRESS:]PORT=TARGET[,OPTION…]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anabranch_netsim::units;

use super::{CLASSES, LONGEST_DEADLINE, Listen, Protocol, Rule, Target, Traffic, allowed_idle};

/// A text that is no rule. The message names the part that is wrong and how it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub(crate) String);

fn wrong(message: impl Into<String>) -> RuleError {
    RuleError(message.into())
}

/// The length of the path of a Unix socket on Linux, without the final zero.
const LONGEST_PATH: usize = 107;
/// The length of a name in DNS.
const LONGEST_NAME: usize = 253;

fn unix_path(path: &str) -> Result<PathBuf, RuleError> {
    if cfg!(not(unix)) {
        return Err(wrong("Unix sockets need a Unix system"));
    }
    if path.is_empty() || path.len() > LONGEST_PATH || !path.starts_with('/') {
        return Err(wrong(format!(
            "unix:{path} must have an absolute path of at most {LONGEST_PATH} bytes, like unix:/run/program.sock"
        )));
    }
    Ok(path.into())
}

impl FromStr for Listen {
    type Err = RuleError;

    /// Reads `PORT` (at 127.0.0.1), `ADDRESS:PORT` or `unix:PATH`.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix_path(path).map(Self::Unix);
        }
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::Socket((Ipv4Addr::LOCALHOST, port).into()));
        }
        text.parse::<SocketAddr>().map(Self::Socket).map_err(|_| {
            wrong(format!(
                "{text:?} is no place to listen: give a port, as in 5000, an IP address and a port, as in 0.0.0.0:5000 or [::1]:5000, or \
                 unix:/PATH"
            ))
        })
    }
}

impl FromStr for Target {
    type Err = RuleError;

    /// Reads `HOST:PORT` or `unix:PATH`.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix_path(path).map(Self::Unix);
        }
        let problem = || {
            wrong(format!(
                "{text:?} is no target: give a host and a port, as in 127.0.0.1:22, [::1]:22 or example.net:22, or unix:/PATH"
            ))
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(problem)?;
        let port: u16 = port.parse().map_err(|_| problem())?;
        if port == 0 {
            return Err(wrong(format!("{text:?} is no target: port 0 cannot be reached")));
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(address) => {
                let address: IpAddr = address.parse().map_err(|_| problem())?;
                address.to_string()
            }
            None if is_name(host) => host.to_ascii_lowercase(),
            None => return Err(problem()),
        };
        Ok(Self::Host { host, port })
    }
}

/// Whether the text can be a name or an IPv4 address.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(fits)
}

impl Traffic {
    /// Reads an option of a rule.
    fn set(&mut self, option: &str, protocol: Protocol) -> Result<(), RuleError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let of_udp = |name: &str, why: &str| match protocol {
            Protocol::Udp => Ok(()),
            Protocol::Tcp => Err(wrong(format!("{name} is for datagrams only: {why}"))),
        };
        let time = |most: Duration, least: Duration, example: &str| {
            let time = units::parse_duration(value).map_err(|error| wrong(format!("{name}: {error}")))?;
            if (least..=most).contains(&time) {
                return Ok(time);
            }
            Err(wrong(format!(
                "{name}={value} is out of range: give {least:?} to {most:?}, as in {example}"
            )))
        };
        match name {
            "deadline" => {
                of_udp(name, "all bytes of a connection must arrive")?;
                let deadline = time(LONGEST_DEADLINE, Duration::from_millis(1), "deadline=300ms")?;
                self.deadline = Some(deadline);
            }
            "idle" => {
                of_udp(name, "a connection says itself when it ends")?;
                let allowed = allowed_idle();
                self.idle = time(*allowed.end(), *allowed.start(), "idle=2min")?;
            }
            "ordered" if value.is_empty() => {
                of_udp(name, "the bytes of a connection are always in order")?;
                self.ordered = true;
            }
            "class" => {
                let class = value.parse().ok().filter(|class| CLASSES.contains(class));
                self.class = Some(class.ok_or_else(|| {
                    wrong(format!(
                        "class={value} is no priority class: give 0 (first) to 7 (last)"
                    ))
                })?);
            }
            "rate" => {
                let rate = units::parse_rate(value).map_err(|error| wrong(format!("rate: {error}")))?;
                self.rate = Some(rate);
            }
            _ => {
                return Err(wrong(format!(
                    "{option:?} is no option of a rule: give deadline=TIME, class=0..7, rate=RATE, ordered or idle=TIME"
                )));
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Reads `[ADDRESS:]PORT=TARGET[,OPTION…]`, for example `5000=127.0.0.1:9000,deadline=300ms`. A port without an address listens at
    /// 127.0.0.1. Instead of `[ADDRESS:]PORT` and of `HOST:PORT` in the target, connections may have `unix:PATH`.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn parse(protocol: Protocol, reverse: bool, text: &str) -> Result<Self, RuleError> {
        let (listen, rest) = text.split_once('=').ok_or_else(|| {
            wrong(format!(
                "{text:?} has no target: write [ADDRESS:]PORT=HOST:PORT, as in 5000=127.0.0.1:9000"
            ))
        })?;
        let mut parts = rest.split(',');
        let listen: Listen = listen.parse()?;
        let target: Target = parts.next().unwrap_or_default().parse()?;
        if protocol == Protocol::Udp
            && (matches!(listen, Listen::Unix(_)) || matches!(target, Target::Unix(_)))
        {
            return Err(wrong(
                "Unix sockets carry connections: use a rule for TCP, as in --tcp 2222=unix:/run/program.sock",
            ));
        }
        let mut traffic = Traffic::default();
        parts.try_for_each(|option| traffic.set(option, protocol))?;
        Ok(Self {
            protocol,
            reverse,
            listen,
            target,
            traffic,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(text: &str) -> Result<Rule, RuleError> {
        Rule::parse(Protocol::Udp, false, text)
    }

    fn tcp(text: &str) -> Result<Rule, RuleError> {
        Rule::parse(Protocol::Tcp, false, text)
    }

    #[test]
    fn a_rule_has_a_place_a_target_and_options() {
        let rule =
            udp("5000=127.0.0.1:9000,deadline=300ms,class=1,rate=2mbit,ordered,idle=30s").expect("a rule");
        assert_eq!(
            rule.listen,
            Listen::Socket(([127, 0, 0, 1], 5000).into()),
            "loopback by default"
        );
        assert_eq!(
            rule.target,
            Target::Host {
                host: "127.0.0.1".to_owned(),
                port: 9000
            }
        );
        let traffic = Traffic {
            deadline: Some(Duration::from_millis(300)),
            class: Some(1),
            rate: Some(2_000_000),
            ordered: true,
            idle: Duration::from_secs(30),
        };
        assert_eq!(rule.traffic, traffic);
        assert_eq!(rule.to_string(), "udp 127.0.0.1:5000=127.0.0.1:9000");
        let rule = Rule::parse(Protocol::Tcp, true, "[::]:80=Example.NET:8080").expect("a rule");
        assert_eq!(rule.to_string(), "reverse-tcp [::]:80=example.net:8080");
        assert_eq!(rule.traffic, Traffic::default());
        let rule = tcp("2222=[::1]:22").expect("a rule");
        assert_eq!(rule.target.to_string(), "[::1]:22");
    }

    #[test]
    #[cfg(unix)]
    fn connections_may_use_unix_sockets() {
        let rule = tcp("unix:/tmp/here=unix:/tmp/there,class=2").expect("a rule");
        assert_eq!(rule.to_string(), "tcp unix:/tmp/here=unix:/tmp/there");
        let problem = udp("5000=unix:/tmp/there").expect_err("no datagrams");
        assert!(problem.to_string().contains("--tcp"), "{problem}");
    }

    #[test]
    fn errors_say_how_it_is_written() {
        for (rule, part) in [
            (udp("5000"), "has no target: write [ADDRESS:]PORT=HOST:PORT"),
            (udp("localhost:5000=h:1"), "0.0.0.0:5000"),
            (udp("5000=9000"), "example.net:22"),
            (udp("5000=host:0"), "port 0"),
            (udp("5000=ho st:9000"), "is no target"),
            (udp("5000=[host]:9000"), "is no target"),
            (udp("5000=::1:9000"), "[::1]:22"),
            (udp("5000=h:1,deadline=0ms"), "deadline=300ms"),
            (udp("5000=h:1,deadline=300"), "a duration is a number with a unit"),
            (udp("5000=h:1,class=8"), "0 (first) to 7 (last)"),
            (udp("5000=h:1,rate=fast"), "500kbit"),
            (udp("5000=h:1,idle=2d"), "idle"),
            (udp("5000=h:1,order"), "deadline=TIME, class=0..7"),
            (udp("5000=h:1,ordered=yes"), "deadline=TIME, class=0..7"),
            (
                tcp("5000=h:1,deadline=1s"),
                "all bytes of a connection must arrive",
            ),
            (tcp("5000=h:1,ordered"), "always in order"),
            (tcp("5000=unix:relative"), "absolute path"),
        ] {
            let problem = rule.expect_err(part).to_string();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
