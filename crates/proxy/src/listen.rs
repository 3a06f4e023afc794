//! Listening sockets: TCP on several addresses, unix (file or abstract), with PgBouncer's options.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{acceptfrom_with, getpeername};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weir_config::{Global, HostAddr, ListenAddr, ListenPoint, Settings};
use weir_stats::Endpoint;

use crate::socket::{FLAGS, Socket as Connected, Stream, TcpOptions};

mod passed;

use passed::Kind;
pub use passed::Passed;

/// Backlog of a monitoring socket; scrapers are few.
const PLAIN_BACKLOG: i32 = 16;

/// Newly accepted connection.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: Stream,
    pub(crate) remote: Endpoint,
    pub(crate) local: Endpoint,
    /// True if the peer is on this machine.
    pub(crate) is_loopback: bool,
    /// Process id of the peer of a unix socket, else 0.
    pub(crate) remote_pid: u32,
    /// User id of the peer of a unix socket.
    pub(crate) remote_uid: Option<u32>,
}

#[derive(Debug)]
enum Socketed {
    Tcp(TcpListener),
    Unix(UnixListener, Option<PathBuf>),
}

/// Listening socket. Its socket file, if it has one, is removed on drop.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socketed,
    port: u16,
    name: String,
    /// True if a successor has the socket, and so its file.
    is_passed_on: Arc<AtomicBool>,
}

/// See [`Listener::share`].
pub(crate) type Shared = (Passed, Arc<AtomicBool>);

/// Reason for which listening failed.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be bound or listened on.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// Address, as configured.
        address: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Another process listens on the socket file.
    #[error("unix socket is in use, cannot continue: {path}")]
    InUse {
        /// Path of the socket.
        path: String,
    },
    /// A socket passed by another process cannot be used.
    #[error("cannot use a socket that was passed: {0}")]
    Passed(io::Error),
    /// The group does not exist, or mode or group of the file cannot be set.
    #[error("cannot set mode or group of unix socket {path}: {error}")]
    Permission {
        /// Path of the socket.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// Opens all listening sockets of a configuration, or none. Sockets that were `passed` replace all that the
/// configuration names.
pub(crate) fn open(settings: &Settings, passed: Vec<Passed>) -> Result<Vec<Listener>, ListenError> {
    let port = settings.global.listen_port;
    if !passed.is_empty() {
        let adopted = passed.into_iter().map(|passed| adopt(passed, port));
        return adopted
            .collect::<io::Result<_>>()
            .map_err(ListenError::Passed);
    }
    let mut listeners = Vec::new();
    for options in settings.listening() {
        open_with(&options, &mut listeners)?;
    }
    Ok(listeners)
}

/// Opens all listening sockets of a configuration and closes them again: what a process does before it goes into the
/// background, where nobody would hear that an address is in use.
///
/// # Errors
/// As at the start, if an address cannot be listened on.
pub fn try_listen(settings: &Settings) -> Result<(), ListenError> {
    open(settings, Vec::new()).map(drop)
}

/// Opens the sockets of the main listener, or of one of `[listeners]`.
fn open_with(global: &Global, listeners: &mut Vec<Listener>) -> Result<(), ListenError> {
    for address in addresses(&global.listen_addr, global.listen_port)? {
        listeners.push(tcp(address, global).map_err(|error| ListenError::Bind {
            address: address.to_string(),
            error,
        })?);
    }
    match global.unix_socket() {
        Some(HostAddr::Abstract(name)) => listeners.push(unix_abstract(&name, global)?),
        Some(HostAddr::UnixDir(directory)) => listeners.push(unix(&directory, global)?),
        _ => {}
    }
    Ok(())
}

/// Opens the sockets of `metrics_listen`, or none. They block: each has its own accepting thread.
pub(crate) fn open_plain(points: &[ListenPoint]) -> Result<Vec<TcpListener>, ListenError> {
    let mut listeners = Vec::new();
    for point in points {
        for address in addresses(std::slice::from_ref(&point.addr), point.port)? {
            listeners.push(plain(address).map_err(|error| ListenError::Bind {
                address: address.to_string(),
                error,
            })?);
        }
    }
    Ok(listeners)
}

fn plain(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(PLAIN_BACKLOG)?;
    Ok(socket.into())
}

fn addresses(listen: &[ListenAddr], port: u16) -> Result<Vec<SocketAddr>, ListenError> {
    let mut found = Vec::new();
    for address in listen {
        match address {
            ListenAddr::All => {
                found.push((Ipv4Addr::UNSPECIFIED, port).into());
                found.push((Ipv6Addr::UNSPECIFIED, port).into());
            }
            ListenAddr::Ip(ip) => found.push((*ip, port).into()),
            ListenAddr::Name(name) => {
                let resolved = (name.as_str(), port).to_socket_addrs();
                found.extend(resolved.map_err(|error| ListenError::Bind {
                    address: name.clone(),
                    error,
                })?);
            }
        }
    }
    found.dedup();
    // A machine without IPv6 is served on IPv4 alone, unless the IPv6 address was the only one asked for.
    let has_v4 = found.iter().any(SocketAddr::is_ipv4);
    if has_v4 && Socket::new(Domain::IPV6, Type::STREAM, None).is_err() {
        found.retain(SocketAddr::is_ipv4);
    }
    if has_v4 && !can_bind(Ipv6Addr::LOCALHOST.into()) {
        found.retain(|address| address.ip() != IpAddr::V6(Ipv6Addr::LOCALHOST));
    }
    Ok(found)
}

fn can_bind(ip: IpAddr) -> bool {
    TcpListener::bind((ip, 0)).is_ok()
}

fn adopt(passed: Passed, port: u16) -> io::Result<Listener> {
    let owns_file = passed.owns_file;
    match passed.kind {
        Kind::Tcp(listener) => {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Listener {
                socket: Socketed::Tcp(listener),
                port: address.port(),
                name: address.to_string(),
                is_passed_on: Arc::default(),
            })
        }
        Kind::Unix(listener) => {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let name = match address.as_pathname() {
                Some(path) => path.display().to_string(),
                None => "@".to_owned(),
            };
            Ok(Listener {
                socket: Socketed::Unix(
                    listener,
                    address.as_pathname().filter(|_| owns_file).map(Into::into),
                ),
                port: port_in(&name).unwrap_or(port),
                name: format!("unix:{name}"),
                is_passed_on: Arc::default(),
            })
        }
    }
}

/// Returns the port in `.s.PGSQL.<port>`.
fn port_in(path: &str) -> Option<u16> {
    let (_, port) = path.rsplit_once(".s.PGSQL.")?;
    port.parse().ok()
}

fn tcp(address: SocketAddr, global: &Global) -> io::Result<Listener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if global.so_reuseport {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(global.listen_backlog).unwrap_or(i32::MAX))?;
    let listener = TcpListener::from(socket);
    let name = listener.local_addr()?.to_string();
    Ok(Listener {
        socket: Socketed::Tcp(listener),
        port: address.port(),
        name,
        is_passed_on: Arc::default(),
    })
}

fn unix(directory: &Path, global: &Global) -> Result<Listener, ListenError> {
    let path = directory.join(format!(".s.PGSQL.{}", global.listen_port));
    let text = path.display().to_string();
    match std::os::unix::net::UnixStream::connect(&path) {
        Ok(_) => return Err(ListenError::InUse { path: text }),
        // A socket file without a listener was left by a process that was killed.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => drop(fs::remove_file(&path)),
        Err(_) => {}
    }
    let address = SockAddr::unix(&path);
    let bound = address.and_then(|address| unix_socket(&address, global.listen_backlog));
    let listener = bound.map_err(|error| ListenError::Bind {
        address: text.clone(),
        error,
    })?;
    permit(&path, global).map_err(|error| ListenError::Permission {
        path: text.clone(),
        error,
    })?;
    let name = format!("unix:{text}");
    Ok(Listener {
        socket: Socketed::Unix(listener, Some(path)),
        port: global.listen_port,
        name,
        is_passed_on: Arc::default(),
    })
}

/// Opens a listening unix socket with the configured backlog, unlike std.
fn unix_socket(address: &SockAddr, backlog: u32) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(address)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(OwnedFd::from(socket).into())
}

fn unix_abstract(name: &str, global: &Global) -> Result<Listener, ListenError> {
    let port = global.listen_port;
    let full = format!("{name}/.s.PGSQL.{port}");
    let address = SockAddr::unix(format!("\0{full}"));
    let bound = address.and_then(|address| unix_socket(&address, global.listen_backlog));
    let listener = bound.map_err(|error| ListenError::Bind {
        address: format!("@{full}"),
        error,
    })?;
    Ok(Listener {
        socket: Socketed::Unix(listener, None),
        port,
        name: format!("unix:@{full}"),
        is_passed_on: Arc::default(),
    })
}

fn permit(path: &Path, global: &Global) -> io::Result<()> {
    if !global.unix_socket_group.is_empty() {
        let group = group_id(&global.unix_socket_group)?;
        std::os::unix::fs::chown(path, None, Some(group))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(global.unix_socket_mode))
}

/// Returns the id of a group, given by number or by its name in the group file.
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let file = fs::read_to_string("/etc/group")?;
    let mut entries = file.lines().map(|line| line.split(':'));
    let entry =
        entries.find_map(|mut fields| (fields.next() == Some(group)).then(|| fields.nth(1)));
    let id = entry.flatten().and_then(|id| id.parse().ok());
    id.ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("no group \"{group}\"")))
}

// === impl Listener ===

impl Listener {
    /// True for a unix socket, with a file or abstract.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.socket, Socketed::Unix(..))
    }

    /// Returns the address as the log shows it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Duplicates the socket for a successor. Returns also the flag that keeps its file once the socket is passed on.
    pub(crate) fn share(&self) -> io::Result<Shared> {
        let passed = match &self.socket {
            Socketed::Tcp(listener) => {
                let socket = listener.as_fd().try_clone_to_owned()?;
                TcpListener::from(socket).into()
            }
            Socketed::Unix(listener, path) => {
                let socket = listener.as_fd().try_clone_to_owned()?;
                Passed::unix(socket.into(), path.is_some())
            }
        };
        let is_passed_on = Arc::clone(&self.is_passed_on);
        Ok((passed, is_passed_on))
    }

    /// Accepts the next connection.
    pub(crate) fn accept(&self, options: &TcpOptions) -> io::Result<Accepted> {
        match &self.socket {
            Socketed::Tcp(listener) => {
                let (stream, peer) = acceptfrom_with(listener, FLAGS)?;
                let peer = SocketAddr::try_from(peer.ok_or(Errno::AFNOSUPPORT)?)?;
                Ok(self.greet_tcp(stream, peer, options))
            }
            Socketed::Unix(listener, _) => {
                let (stream, _) = acceptfrom_with(listener, FLAGS)?;
                Ok(self.greet_unix(stream))
            }
        }
    }

    /// Takes a connection that the kernel has accepted for us.
    ///
    /// # Errors
    /// The client of a TCP connection has gone already (`NotConnected`).
    pub(crate) fn greet(&self, stream: OwnedFd, options: &TcpOptions) -> io::Result<Accepted> {
        match &self.socket {
            Socketed::Tcp(_) => {
                let peer = SocketAddr::try_from(getpeername(&stream)?.ok_or(Errno::AFNOSUPPORT)?)?;
                Ok(self.greet_tcp(stream, peer, options))
            }
            Socketed::Unix(..) => Ok(self.greet_unix(stream)),
        }
    }

    fn greet_tcp(&self, stream: OwnedFd, peer: SocketAddr, options: &TcpOptions) -> Accepted {
        let socket = Connected::accepted(stream.into(), options);
        Accepted {
            local: socket.local(self.port),
            stream: socket.into(),
            remote: Endpoint {
                address: peer.ip().to_string(),
                port: peer.port(),
            },
            is_loopback: peer.ip().to_canonical().is_loopback(),
            remote_pid: 0,
            remote_uid: None,
        }
    }

    fn greet_unix(&self, stream: OwnedFd) -> Accepted {
        let (remote_pid, remote_uid) = peer_of(&stream);
        let endpoint = Endpoint {
            address: "unix".to_owned(),
            port: self.port,
        };
        Accepted {
            stream: Connected::Unix(stream.into()).into(),
            remote: endpoint.clone(),
            local: endpoint,
            is_loopback: true,
            remote_pid,
            remote_uid,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socketed::Tcp(listener) => listener.as_fd(),
            Socketed::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socketed::Unix(_, Some(path)) = &self.socket
            && !self.is_passed_on.load(Ordering::Relaxed)
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn peer_of(stream: &OwnedFd) -> (u32, Option<u32>) {
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => {
            let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or_default();
            (pid, Some(peer.uid.as_raw()))
        }
        Err(_) => (0, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of clients that a unix socket with this backlog takes before any is accepted.
    fn taken(listen_backlog: u32) -> usize {
        let directory = std::env::temp_dir().join(format!(
            "weir-backlog-{}-{listen_backlog}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let text = format!(
            "[pgbouncer]\nauth_type = any\nunix_socket_dir = {}\nlisten_backlog = {listen_backlog}\n",
            directory.display()
        );
        let mut read = |_: &Path| Ok(text.clone());
        let loaded = weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty());
        let listeners = open(&loaded.unwrap().settings, Vec::new()).unwrap();
        let address = SockAddr::unix(directory.join(".s.PGSQL.6432")).unwrap();
        let mut clients = Vec::new();
        loop {
            let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            client.set_nonblocking(true).unwrap();
            match client.connect(&address) {
                Ok(()) => clients.push(client),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        drop(listeners);
        let _ = fs::remove_dir_all(&directory);
        clients.len()
    }

    #[test]
    fn listen_backlog_is_the_length_of_the_queue() {
        // The kernel takes one more than asked for.
        assert_eq!(taken(1), 2);
        assert_eq!(taken(9), 10);
    }
}
