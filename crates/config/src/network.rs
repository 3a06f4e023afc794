//! Networks of addresses: elements of `proxy_protocol_from`.

use std::fmt;
use std::net::IpAddr;

use crate::options::Field;
use crate::value::Value;

/// Addresses with the same leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// First address. The bits behind the prefix are zero.
    address: IpAddr,
    /// Number of leading bits.
    prefix: u8,
}

impl Network {
    /// Parses `ADDRESS` or `ADDRESS/BITS`.
    ///
    /// # Errors
    /// Describes the mistake in the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str =
            "must be ADDRESS or ADDRESS/BITS, such as 10.0.0.7, 10.0.0.0/24 or fd00::/8";
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| SHAPE)?;
        let bits_max: u8 = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = match bits {
            None => bits_max,
            Some(bits) => {
                let bits = Some(bits)
                    .filter(is_number)
                    .and_then(|bits| bits.parse().ok());
                bits.filter(|bits| *bits <= bits_max).ok_or(SHAPE)?
            }
        };
        if masked(address, prefix) != address {
            return Err("has bits behind the mask; write the first address of the network");
        }
        Ok(Self { address, prefix })
    }

    /// True if the address lies in the network. An IPv4 address counts as such in its IPv6 form, too.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_ipv4() == self.address.is_ipv4() && masked(ip, self.prefix) == self.address
    }

    /// True if the network has every address of its family.
    pub(crate) fn is_everything(&self) -> bool {
        self.prefix == 0
    }
}

/// Returns the address with the bits behind the prefix cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix));
            IpAddr::V4((ip.to_bits() & mask.unwrap_or_default()).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix));
            IpAddr::V6((ip.to_bits() & mask.unwrap_or_default()).into())
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Field for Vec<Network> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items
                .iter()
                .filter_map(|item| Network::parse(item).ok())
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
    fn a_network_has_the_addresses_with_its_leading_bits() {
        let check = |text: &str, shown: &str, inside: &[&str], outside: &[&str]| {
            let network = Network::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(network.to_string(), shown);
            assert_eq!(Network::parse(shown), Ok(network));
            for ip in inside {
                assert!(network.contains(ip.parse().unwrap()), "{ip} in {text}");
            }
            for ip in outside {
                assert!(!network.contains(ip.parse().unwrap()), "{ip} not in {text}");
            }
        };
        check(
            "10.0.0.7",
            "10.0.0.7/32",
            &["10.0.0.7", "::ffff:10.0.0.7"],
            &["10.0.0.6"],
        );
        check(
            "10.1.2.0/23",
            "10.1.2.0/23",
            &["10.1.3.255"],
            &["10.1.4.0", "10.1.1.255"],
        );
        check("0.0.0.0/0", "0.0.0.0/0", &["1.2.3.4"], &["::1"]);
        check("::1", "::1/128", &["::1"], &["::2", "0.0.0.1"]);
        check(
            "fd00::/8",
            "fd00::/8",
            &["fdff::1"],
            &["fe00::", "10.0.0.1"],
        );
        check(
            "::/0",
            "::/0",
            &["fe80::1"],
            &["10.0.0.1", "::ffff:10.0.0.1"],
        );
    }

    #[test]
    fn texts_that_are_no_network_are_refused() {
        for text in [
            "",
            "a",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.1/24",
            "::1/64",
            "::/129",
            "[::1]",
            "10.0.0/24",
            "10.0.0.0/256",
            "10.0.0.0/8/8",
        ] {
            assert!(Network::parse(text).is_err(), "{text:?}");
        }
    }
}
