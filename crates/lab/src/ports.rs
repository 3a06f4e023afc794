//! Ports on loopback for servers that are about to start.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// Ports claimed by this process, for as long as it runs.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Returns an unused port on loopback. No other process that asks this function gets it while this process runs, or touches it.
///
/// Its server starts later, so the port is claimed by an abstract unix socket of that name: such a claim ends with its process,
/// and shares the network name space of the ports. The ports lie below those that the kernel gives to outgoing connections
/// (from 32768 on), so that no client takes one either.
///
/// # Errors
/// No port was free in a thousand tries.
pub fn free_port() -> Result<u16> {
    (0..1000)
        .map(|_| fastrand::u16(10_000..32_000))
        .find_map(|port| {
            let claim = claim(port)?;
            TcpListener::bind(("127.0.0.1", port)).ok()?;
            let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
            claims.push(claim);
            Some(port)
        })
        .ok_or(Error::NoPort)
}

/// Claims a port; None if a process has claimed it already.
fn claim(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("weir-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_gets_a_port_before_its_server_listens() {
        let port = free_port().unwrap();
        assert!(claim(port).is_none());
    }
}
