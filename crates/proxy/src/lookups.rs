//! Facts from the operating system that logins need: names of users, names of addresses, addresses of this machine. The
//! calls may block (NSS, DNS), so helper threads make them, never a worker.

use std::net::{IpAddr, ToSocketAddrs};

use dns_lookup::{LookupErrorKind, getnameinfo};
use nix::ifaddrs::getifaddrs;
use nix::libc::{NI_NAMEREQD, NI_NUMERICSERV};
use nix::unistd::{Uid, User};
use weir_access::{Answer, Interface};

/// Returns the name of a user of this machine, or `None` if there is no such user.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    Some(User::from_uid(Uid::from_raw(uid)).ok()??.name)
}

/// Returns the name of an address, if the name resolves to that address (PostgreSQL manual 21.1: a reverse lookup, then
/// a forward one).
pub(crate) fn host_name(address: IpAddr) -> Answer<Option<String>> {
    let address = address.to_canonical();
    let socket = (address, 0).into();
    let name = match getnameinfo(&socket, NI_NAMEREQD | NI_NUMERICSERV) {
        Ok((name, _)) => name,
        Err(error) => return without_name(error.kind()),
    };
    // For an address without a name, the resolver returns the address as text.
    if name.parse::<IpAddr>().is_ok() {
        return Answer::Known(None);
    }
    match (name.as_str(), 0).to_socket_addrs() {
        Ok(mut found) => {
            let leads_back = found.any(|found| found.ip().to_canonical() == address);
            let name = name.trim_end_matches('.').to_owned();
            Answer::Known(leads_back.then_some(name))
        }
        Err(_) => Answer::Failed,
    }
}

/// Returns what a failed look-up of an address says: that it has no name, or nothing.
fn without_name(kind: LookupErrorKind) -> Answer<Option<String>> {
    match kind {
        LookupErrorKind::NoName | LookupErrorKind::NoData => Answer::Known(None),
        _ => Answer::Failed,
    }
}

/// Returns the addresses of this machine with their prefix lengths, or `None` if they cannot be listed.
#[must_use]
pub fn interfaces() -> Option<Vec<Interface>> {
    let listed = getifaddrs().ok()?;
    let found = listed.filter_map(|interface| {
        let address = ip(interface.address?)?;
        let prefix = match ip(interface.netmask?)? {
            IpAddr::V4(mask) => mask.to_bits().leading_ones(),
            IpAddr::V6(mask) => mask.to_bits().leading_ones(),
        };
        let prefix = u8::try_from(prefix).ok()?;
        Some(Interface { address, prefix })
    });
    Some(found.collect())
}

fn ip(address: nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_the_interfaces_with_its_network() {
        let loopback = Interface {
            address: [127, 0, 0, 1].into(),
            prefix: 8,
        };
        assert!(interfaces().unwrap().contains(&loopback));
    }

    #[test]
    fn an_address_without_a_name_is_known_to_have_none() {
        // The numbers are those of getaddrinfo(3).
        let answer = |code| without_name(dns_lookup::LookupError::new(code).kind());
        assert_eq!(answer(nix::libc::EAI_NONAME), Answer::Known(None));
        assert_eq!(answer(nix::libc::EAI_AGAIN), Answer::Failed);
    }

    #[test]
    fn user_0_is_root_and_a_number_of_nobody_has_no_name() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(user_name(3_999_999_999), None);
    }
}
