//! The address column of a rule.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::Mistake;
use crate::names::{Fit, word};
use crate::tokens::Token;
use crate::visitor::{Answer, Fact, Facts, Interface};

/// A network: addresses with the same leading bits, or with the same bits under any mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    V4 { address: u32, mask: u32 },
    V6 { address: u128, mask: u128 },
}

impl Network {
    /// True if the address lies in this network. As in PostgreSQL's `pg_range_sockaddr`, the families must be the same,
    /// and bits of the address outside the mask do not count.
    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        match (self, ip) {
            (Self::V4 { address, mask }, IpAddr::V4(ip)) => (u32::from(ip) ^ address) & mask == 0,
            (Self::V6 { address, mask }, IpAddr::V6(ip)) => (u128::from(ip) ^ address) & mask == 0,
            _ => false,
        }
    }

    /// Returns the network of the address with this many leading bits; a larger number than the address has counts as
    /// all.
    fn with_prefix(address: IpAddr, bits: u32) -> Self {
        match address {
            IpAddr::V4(ip) => Self::V4 {
                address: ip.into(),
                mask: leading_u32(bits),
            },
            IpAddr::V6(ip) => Self::V6 {
                address: ip.into(),
                mask: leading_u128(bits),
            },
        }
    }

    fn with_mask(address: IpAddr, mask: IpAddr) -> Result<Self, Mistake> {
        match (address, mask) {
            (IpAddr::V4(address), IpAddr::V4(mask)) => Ok(Self::V4 {
                address: address.into(),
                mask: mask.into(),
            }),
            (IpAddr::V6(address), IpAddr::V6(mask)) => Ok(Self::V6 {
                address: address.into(),
                mask: mask.into(),
            }),
            _ => Err(Mistake::MaskFamily),
        }
    }
}

fn leading_u32(bits: u32) -> u32 {
    u32::MAX
        .checked_shl(32_u32.saturating_sub(bits))
        .unwrap_or_default()
}

fn leading_u128(bits: u32) -> u128 {
    u128::MAX
        .checked_shl(128_u32.saturating_sub(bits))
        .unwrap_or_default()
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4 { address, mask } => {
                let bits = mask.leading_ones();
                let address = Ipv4Addr::from(address);
                match leading_u32(bits) == mask {
                    true => write!(f, "{address}/{bits}"),
                    false => write!(f, "{address} {}", Ipv4Addr::from(mask)),
                }
            }
            Self::V6 { address, mask } => {
                let bits = mask.leading_ones();
                let address = Ipv6Addr::from(address);
                match leading_u128(bits) == mask {
                    true => write!(f, "{address}/{bits}"),
                    false => write!(f, "{address} {}", Ipv6Addr::from(mask)),
                }
            }
        }
    }
}

/// Criterion for the source address of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    All,
    HostName(String),
    Network(Network),
    SameHost,
    SameNet,
    /// `.example.com`: every name with this suffix.
    Suffix(String),
}

impl Address {
    /// Reads the column; an address without a mask length takes the next field as its mask.
    pub(crate) fn parse<'t>(
        token: &Token,
        mask: impl FnOnce() -> Result<&'t Token, Mistake>,
    ) -> Result<Self, Mistake> {
        if !token.quoted {
            match token.text.as_str() {
                "all" => return Ok(Self::All),
                "samehost" => return Ok(Self::SameHost),
                "samenet" => return Ok(Self::SameNet),
                _ => {}
            }
        }
        let text = token.text.as_str();
        if let Some((ip, bits)) = text.split_once('/') {
            return cidr(text, ip, bits);
        }
        let Ok(address) = text.parse::<IpAddr>() else {
            return host_name(text);
        };
        let mask = mask()?;
        let mask = mask
            .text
            .parse()
            .map_err(|_| Mistake::BadMask(mask.text.to_string()))?;
        Network::with_mask(address, mask).map(Self::Network)
    }

    /// Compares the column with a client's address. `ip` is canonical: never an IPv4-mapped one.
    pub(crate) fn fits(
        &self,
        ip: IpAddr,
        interfaces: Option<&[Interface]>,
        facts: &Facts<'_>,
    ) -> Reach {
        match self {
            Self::All => Reach::Known(Fit::Yes),
            Self::HostName(name) => named(facts, |found| found.eq_ignore_ascii_case(name)),
            Self::Network(network) => Reach::Known(Fit::from_bool(network.contains(ip))),
            Self::SameHost => ours(interfaces, |interface| {
                interface.address.to_canonical() == ip
            }),
            Self::SameNet => ours(interfaces, |interface| {
                Network::with_prefix(interface.address, u32::from(interface.prefix)).contains(ip)
            }),
            Self::Suffix(suffix) => named(facts, |found| ends_with(found, suffix)),
        }
    }
}

/// Result of comparing an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Known(Fit),
    /// The addresses of this machine could not be listed.
    NoInterfaces,
}

fn ours(interfaces: Option<&[Interface]>, test: impl Fn(&Interface) -> bool) -> Reach {
    match interfaces {
        Some(list) => Reach::Known(Fit::from_bool(list.iter().any(test))),
        None => Reach::NoInterfaces,
    }
}

fn named(facts: &Facts<'_>, test: impl Fn(&str) -> bool) -> Reach {
    Reach::Known(match facts.host_name {
        Answer::Failed => Fit::Unknown(Fact::HostName),
        Answer::Known(name) => Fit::from_bool(name.is_some_and(test)),
        Answer::NotAsked => Fit::Needs(Fact::HostName),
    })
}

/// True if the name ends with the suffix, without regard to case. Compares bytes, because a part of a DNS name need not
/// be UTF-8.
fn ends_with(name: &str, suffix: &str) -> bool {
    name.len()
        .checked_sub(suffix.len())
        .and_then(|start| name.as_bytes().get(start..))
        .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
}

fn cidr(text: &str, ip: &str, bits: &str) -> Result<Address, Mistake> {
    let Ok(address) = ip.parse::<IpAddr>() else {
        return Err(match looks_numeric(ip) {
            true => Mistake::BadAddress(text.to_owned()),
            false => Mistake::HostNameWithMask(text.to_owned()),
        });
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let digits = (1..=3).contains(&bits.len()) && bits.bytes().all(|byte| byte.is_ascii_digit());
    match bits.parse::<u32>() {
        Ok(bits) if digits && bits <= most => {
            Ok(Address::Network(Network::with_prefix(address, bits)))
        }
        _ => Err(Mistake::BadCidr(text.to_owned())),
    }
}

/// True if the text can only be meant as an address, because no host has such a name.
fn looks_numeric(text: &str) -> bool {
    text.contains(':')
        || text.bytes().any(|b| b.is_ascii_digit())
            && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

fn host_name(text: &str) -> Result<Address, Mistake> {
    let labels = text.strip_prefix('.').unwrap_or(text);
    let part_of_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if looks_numeric(text) {
        Err(Mistake::BadAddress(text.to_owned()))
    } else if labels.is_empty()
        || labels.len() > 253
        || labels.split('.').any(str::is_empty)
        || !labels.bytes().all(part_of_name)
    {
        Err(Mistake::BadHostName(text.to_owned()))
    } else if labels.len() < text.len() {
        Ok(Address::Suffix(text.to_owned()))
    } else {
        Ok(Address::HostName(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::HostName(name) => word(
                f,
                name,
                matches!(name.as_str(), "all" | "samehost" | "samenet"),
            ),
            Self::Network(network) => network.fmt(f),
            Self::SameHost => f.write_str("samehost"),
            Self::SameNet => f.write_str("samenet"),
            Self::Suffix(suffix) => f.write_str(suffix),
        }
    }
}

#[cfg(test)]
mod tests;
