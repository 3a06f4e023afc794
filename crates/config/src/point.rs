//! Address of a host with an optional port: elements of `replicas`, and the names of `hosts` tables.

use std::fmt;
use std::net::IpAddr;

use crate::options::Field;
use crate::types::HostAddr;
use crate::value::Value;

/// A host as a file names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPoint {
    /// The address.
    pub address: HostAddr,
    /// The port; `None` = the database's.
    pub port: Option<u16>,
}

impl HostPoint {
    /// Parses `HOST` or `HOST:PORT`. An IPv6 address with a port needs brackets. In the path of a unix socket
    /// directory, digits behind the last colon are a port.
    ///
    /// # Errors
    /// Describes the mistake in the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str =
            "a host must be HOST or HOST:PORT, such as db1:5433, 10.0.0.7 or [::1]:5433";
        if text.contains(char::is_control) {
            return Err("a host has no control characters");
        }
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (address, port) = match text.rsplit_once(':') {
            // A bare IPv6 address may end in digits as well.
            Some((address, digits)) if is_digits(digits) && text.parse::<IpAddr>().is_err() => {
                let port = digits.parse().ok().filter(|port| *port > 0);
                let port = port.ok_or("a port must be from 1 to 65535")?;
                (address, Some(port))
            }
            _ => (text, None),
        };
        // Without brackets, `1::2:5433` could mean either.
        let is_bare = port.is_some() && address.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
        let is_path = address.starts_with(['/', '@']);
        let has_colon = address.contains(':') && !address.starts_with('[');
        if is_bare || (has_colon && !is_path && address.parse::<IpAddr>().is_err()) {
            return Err(SHAPE);
        }
        let address = HostAddr::parse(address)?;
        Ok(Self { address, port })
    }

    /// Returns the address, and the port or this one.
    pub(crate) fn resolved(&self, port: u16) -> (HostAddr, u16) {
        (self.address.clone(), self.port.unwrap_or(port))
    }
}

impl fmt::Display for HostPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.address, self.port) {
            (HostAddr::Ip(IpAddr::V6(ip)), Some(port)) => write!(f, "[{ip}]:{port}"),
            (address, Some(port)) => write!(f, "{address}:{port}"),
            (address, None) => address.fmt(f),
        }
    }
}

impl Field for Vec<HostPoint> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items
                .iter()
                .filter_map(|item| HostPoint::parse(item).ok())
                .collect(),
            _ => Self::new(),
        }
    }
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(ToString::to_string).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_with_and_without_a_port() {
        let check = |text: &str, address: &str, port: Option<u16>| {
            let read = HostPoint::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(read.address.to_string(), address, "{text}");
            assert_eq!(read.port, port, "{text}");
            assert_eq!(HostPoint::parse(&read.to_string()), Ok(read), "{text}");
        };
        check("db1", "db1", None);
        check("db1:5433", "db1", Some(5433));
        check("10.0.0.7", "10.0.0.7", None);
        check("10.0.0.7:1", "10.0.0.7", Some(1));
        check("::1", "::1", None);
        check("[::1]", "::1", None);
        check("[::1]:65535", "::1", Some(65535));
        check("fe80::1:5433", "fe80::1:5433", None);
        check("/tmp", "/tmp", None);
        check("/tmp:5433", "/tmp", Some(5433));
        check("/tmp/a:b", "/tmp/a:b", None);
        check("/tmp/a:b:2", "/tmp/a:b", Some(2));
        check("@weir:5433", "@weir", Some(5433));
    }

    #[test]
    fn hosts_that_could_mean_two_things_are_refused() {
        for text in [
            "",
            ":",
            ":5433",
            "db1:",
            "db1:x",
            "db1:0",
            "db1:65536",
            "db1:+5",
            "a:b:5433",
            "a b",
            "[::1",
            "::1]:5433",
            "[::1]5433",
            "1:2:3:4:5:6:7:8:5433",
            "[db1]:5433",
            "a/b",
            "@",
            "@:5433",
            "/tmp\n",
            "x\0y",
            "db1:99999999999999999999",
        ] {
            assert!(HostPoint::parse(text).is_err(), "{text:?}");
        }
    }
}
