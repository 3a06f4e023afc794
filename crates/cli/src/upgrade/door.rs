//! Socket for upgrade requests to a running process, in Linux's abstract name space and named after the process.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use crossbeam_channel::{Receiver, bounded};
use rustix::net::sockopt::socket_peercred;

use super::tell;

/// Address of a process's socket.
pub(super) fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("weir-upgrade-{pid}"))
}

/// Receives requests for upgrades from now on; only root and the user of this process may send them.
///
/// # Errors
/// If the socket or the thread cannot be created.
pub(super) fn open() -> io::Result<Receiver<UnixStream>> {
    let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
    let (sender, asked) = bounded(1);
    std::thread::Builder::new()
        .name("weir-door".to_owned())
        .spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if !is_allowed(&stream) {
                    tell(&stream, "failed: not allowed");
                } else if sender.send(stream).is_err() {
                    return;
                }
            }
        })?;
    Ok(asked)
}

fn is_allowed(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}
