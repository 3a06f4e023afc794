//! Header of the PROXY protocol, version 2, in front of a connection that a proxy has forwarded.
//!
//! Layout and rules are those of HAProxy's `doc/proxy-protocol.txt`, section 2.2. Weir needs the source address only, so
//! extensions (TLVs) are skipped. The limit has to be checked before a header is complete, and a first wrong byte has to
//! be told from a missing one. A library for the rest would read the 36 bytes of two addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header in bytes, extensions included. The document promises that receivers get so many bytes at once.
pub const LEN_MAX: usize = 536;

/// First bytes of each header. No start-up packet of PostgreSQL begins with them.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes in front of the addresses: the signature, the version and command, the family, and the length of the rest.
const FIXED_LEN: usize = 16;

/// Complete header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Number of bytes of the header.
    pub len: usize,
    /// Address and port of the client. None if the proxy speaks for itself (LOCAL), such as in a health check, or does not
    /// know an IP address of its client: the connection's own address counts then.
    pub source: Option<SocketAddr>,
}

/// Reason why bytes are not a header that Weir accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyHeaderError {
    /// The bytes are not the beginning of a header of version 2.
    Missing,
    /// The header has another version, or a command that does not exist: this byte.
    Command(u8),
    /// The header is for another kind of connection than a stream: this byte.
    Family(u8),
    /// The header is too short for its addresses.
    TooShort,
    /// The header has so many bytes, more than [`LEN_MAX`].
    TooLong(usize),
}

impl std::fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("no PROXY protocol v2 header"),
            Self::Command(byte) => write!(f, "PROXY header with unknown command {byte:#04x}"),
            Self::Family(byte) => write!(f, "PROXY header with unknown family {byte:#04x}"),
            Self::TooShort => f.write_str("PROXY header without the addresses that it announces"),
            Self::TooLong(len) => {
                write!(f, "PROXY header of {len} bytes; at most {LEN_MAX} are read")
            }
        }
    }
}

impl std::error::Error for ProxyHeaderError {}

/// Reads the header at the beginning of a connection. `Ok(None)` means that more bytes are needed; the caller never
/// needs to keep [`LEN_MAX`] bytes without a result.
///
/// # Errors
/// The bytes can never become a header, however many follow.
pub fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let seen = bytes.get(..SIGNATURE.len()).unwrap_or(bytes);
    if !SIGNATURE.starts_with(seen) {
        return Err(ProxyHeaderError::Missing);
    }
    let is_local = match bytes.get(12) {
        None => return Ok(None),
        Some(0x20) => true,
        Some(0x21) => false,
        Some(byte) => return Err(ProxyHeaderError::Command(*byte)),
    };
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_LEN>() else {
        return Ok(None);
    };
    let [.., family, high, low] = *fixed;
    let rest_len = usize::from(u16::from_be_bytes([high, low]));
    let len = FIXED_LEN + rest_len;
    if len > LEN_MAX {
        return Err(ProxyHeaderError::TooLong(len));
    }
    let Some(rest) = rest.get(..rest_len) else {
        return Ok(None);
    };
    let source = if is_local {
        None
    } else {
        source(family, rest)?
    };
    Ok(Some(ProxyHeader { len, source }))
}

/// Reads the source address.
fn source(family: u8, rest: &[u8]) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let (ip, ports): (IpAddr, _) = match family {
        // TCP over IPv4: source, destination, and their ports.
        0x11 => {
            let (addresses, ports) = cut::<8>(rest)?;
            let [a, b, c, d, ..] = *addresses;
            (Ipv4Addr::new(a, b, c, d).into(), ports)
        }
        // Likewise over IPv6.
        0x21 => {
            let (source, rest) = cut::<16>(rest)?;
            let (_, ports) = cut::<16>(rest)?;
            (Ipv6Addr::from(*source).to_canonical(), ports)
        }
        // Unspecified, and a unix socket.
        0x00 | 0x31 => return Ok(None),
        family => return Err(ProxyHeaderError::Family(family)),
    };
    let ([high, low, ..], _) = cut::<4>(ports)?;
    Ok(Some((ip, u16::from_be_bytes([*high, *low])).into()))
}

fn cut<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), ProxyHeaderError> {
    bytes.split_first_chunk().ok_or(ProxyHeaderError::TooShort)
}

#[cfg(test)]
mod tests;
