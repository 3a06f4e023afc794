//! TCP and unix sockets, their options, and the TLS session that may protect them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use socket2::{SockRef, TcpKeepalive};
use weir_config::Global;
use weir_stats::Endpoint;

use crate::tls::Session;

/// Address to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// IP address, and the host name that it was resolved from: certificates are checked against the name.
    Tcp(SocketAddr, Option<Arc<str>>),
    /// Socket file, and the port in its name.
    Unix(PathBuf, u16),
    /// Name in Linux's abstract namespace, and the port in it.
    Abstract(String, u16),
}

impl Target {
    pub(crate) fn endpoint(&self) -> Endpoint {
        match self {
            Self::Tcp(address, _) => Endpoint {
                address: address.ip().to_string(),
                port: address.port(),
            },
            Self::Unix(_, port) | Self::Abstract(_, port) => Endpoint {
                address: "unix".to_owned(),
                port: *port,
            },
        }
    }
}

/// `tcp_*` options, for connections to clients and to servers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TcpOptions {
    keepalive: bool,
    count: u32,
    idle: Option<Duration>,
    interval: Option<Duration>,
    user_timeout: Option<Duration>,
    buffer: usize,
}

impl TcpOptions {
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            keepalive: global.tcp_keepalive,
            count: global.tcp_keepcnt,
            idle: global.tcp_keepidle,
            interval: global.tcp_keepintvl,
            user_timeout: global.tcp_user_timeout,
            buffer: usize::try_from(global.tcp_socket_buffer).unwrap_or_default(),
        }
    }

    /// Sets the options of a socket. Failures are not fatal: a connection without keep-alive is better than none.
    fn apply(&self, stream: &TcpStream) {
        let _ = stream.set_nodelay(true);
        let socket = SockRef::from(stream);
        if self.keepalive {
            let mut keepalive = TcpKeepalive::new();
            if let Some(idle) = self.idle {
                keepalive = keepalive.with_time(idle);
            }
            if let Some(interval) = self.interval {
                keepalive = keepalive.with_interval(interval);
            }
            if self.count > 0 {
                keepalive = keepalive.with_retries(self.count);
            }
            let _ = socket.set_tcp_keepalive(&keepalive);
        }
        if self.user_timeout.is_some() {
            let _ = socket.set_tcp_user_timeout(self.user_timeout);
        }
        if self.buffer > 0 {
            let _ = socket.set_recv_buffer_size(self.buffer);
            let _ = socket.set_send_buffer_size(self.buffer);
        }
    }
}

/// Connection that can be handed over.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) socket: Socket,
    /// TLS session; `None` for plain bytes.
    pub(crate) tls: Option<Box<Session>>,
    /// Bytes that a driver has received, and has not reported. The next driver reports them first.
    pub(crate) received: Vec<u8>,
}

impl From<Socket> for Stream {
    fn from(socket: Socket) -> Self {
        Self {
            socket,
            tls: None,
            received: Vec::new(),
        }
    }
}

/// Flags of all sockets of a driver: they never block, and programs that we start do not get them.
pub(crate) const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Socket that is connected, or connecting; it never blocks. Its bytes are not interpreted: the driver opens and seals TLS records.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Memory connection of a test; only the test driver carries it.
    #[cfg(test)]
    Memory(crate::driver::MemoryStream),
}

impl Socket {
    /// Wraps an accepted TCP connection, and sets its options.
    pub(crate) fn accepted(stream: TcpStream, options: &TcpOptions) -> Self {
        options.apply(&stream);
        Self::Tcp(stream)
    }

    /// Begins to connect.
    pub(crate) fn connect(target: &Target, options: &TcpOptions) -> io::Result<Self> {
        match target {
            Target::Tcp(address, _) => {
                let family = match address {
                    SocketAddr::V4(_) => AddressFamily::INET,
                    SocketAddr::V6(_) => AddressFamily::INET6,
                };
                let stream = begin_connect(family, address)?.into();
                options.apply(&stream);
                Ok(Self::Tcp(stream))
            }
            Target::Unix(path, _) => Self::connect_unix(&SocketAddrUnix::new(path)?),
            Target::Abstract(name, _) => {
                Self::connect_unix(&SocketAddrUnix::new_abstract_name(name.as_bytes())?)
            }
        }
    }

    fn connect_unix(address: &SocketAddrUnix) -> io::Result<Self> {
        let socket = begin_connect(AddressFamily::UNIX, address)?;
        Ok(Self::Unix(socket.into()))
    }

    /// Receives bytes into `buffer`. Returns their number; 0 is the end. The system call bypasses the C library, whose
    /// thread cancellation costs as much as our own work on the bytes.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => Ok(recv(stream, buffer, RecvFlags::empty())?.0),
            Self::Unix(stream) => Ok(recv(stream, buffer, RecvFlags::empty())?.0),
            #[cfg(test)]
            Self::Memory(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// True if there is something to receive: bytes, the end, or an error. Takes nothing.
    pub(crate) fn has_news(&self) -> bool {
        let mut byte = [0];
        let looked = match self {
            Self::Tcp(stream) => recv(stream, &mut byte, RecvFlags::PEEK),
            Self::Unix(stream) => recv(stream, &mut byte, RecvFlags::PEEK),
            #[cfg(test)]
            Self::Memory(_) => return false,
        };
        !matches!(looked, Err(Errno::AGAIN))
    }

    /// Sends bytes, as many as the socket takes now.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => Ok(send(stream, bytes, SendFlags::NOSIGNAL)?),
            Self::Unix(stream) => Ok(send(stream, bytes, SendFlags::NOSIGNAL)?),
            #[cfg(test)]
            Self::Memory(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the outcome of a connect, or `None` while it is in progress.
    pub(crate) fn connected(&self) -> Option<io::Result<()>> {
        let (error, peer) = match self {
            Self::Tcp(stream) => (stream.take_error(), stream.peer_addr().map(drop)),
            Self::Unix(stream) => (stream.take_error(), stream.peer_addr().map(drop)),
            #[cfg(test)]
            Self::Memory(_) => return Some(Err(io::ErrorKind::Unsupported.into())),
        };
        match (error, peer) {
            (Ok(Some(error)) | Err(error), _) => Some(Err(error)),
            (Ok(None), Ok(())) => Some(Ok(())),
            (Ok(None), Err(error)) if error.kind() == io::ErrorKind::NotConnected => None,
            (Ok(None), Err(error)) => Some(Err(error)),
        }
    }

    /// Returns our own address of the connection.
    pub(crate) fn local(&self, unix_port: u16) -> Endpoint {
        match self {
            Self::Tcp(stream) => stream.local_addr().map_or_else(
                |_| Endpoint::default(),
                |address| Endpoint {
                    address: address.ip().to_string(),
                    port: address.port(),
                },
            ),
            Self::Unix(_) => Endpoint {
                address: "unix".to_owned(),
                port: unix_port,
            },
            #[cfg(test)]
            Self::Memory(_) => Endpoint::default(),
        }
    }

    /// Returns the descriptor, to be sent to another process.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tcp(stream) => Some(stream.as_fd()),
            Self::Unix(stream) => Some(stream.as_fd()),
            #[cfg(test)]
            Self::Memory(stream) => Some(stream.descriptor()),
        }
    }
}

/// Makes a socket and begins to connect it.
fn begin_connect(family: AddressFamily, address: &impl SocketAddrArg) -> io::Result<OwnedFd> {
    let socket = socket_with(family, SocketType::STREAM, FLAGS, None)?;
    match connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns a connected socket with these options.
    fn connected(lines: &str) -> TcpStream {
        let text = format!("[pgbouncer]\nauth_type = any\n{lines}\n");
        let mut read = |_: &Path| Ok(text.clone());
        let loaded = weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty());
        let options = TcpOptions::new(&loaded.unwrap().settings.global);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp(listener.local_addr().unwrap(), None);
        match Socket::connect(&target, &options).unwrap() {
            Socket::Tcp(stream) => stream,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tcp_options_reach_the_socket() {
        let plain = connected("");
        let plain = SockRef::from(&plain);
        assert!(plain.keepalive().unwrap());
        assert_eq!(plain.tcp_user_timeout().unwrap(), None);
        let off = connected("tcp_keepalive = 0");
        assert!(!SockRef::from(&off).keepalive().unwrap());
        let stream = connected(
            "tcp_keepcnt = 7\ntcp_keepidle = 111\ntcp_keepintvl = 13\ntcp_user_timeout = 12500\n\
             tcp_socket_buffer = 4096",
        );
        let socket = SockRef::from(&stream);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 7);
        assert_eq!(socket.tcp_keepalive_time().unwrap().as_secs(), 111);
        assert_eq!(socket.tcp_keepalive_interval().unwrap().as_secs(), 13);
        let timeout = socket.tcp_user_timeout().unwrap();
        assert_eq!(timeout, Some(Duration::from_millis(12_500)));
        // Linux doubles what it is asked for (socket(7)).
        assert_eq!(socket.recv_buffer_size().unwrap(), 8192);
        assert_eq!(socket.send_buffer_size().unwrap(), 8192);
        assert!(plain.send_buffer_size().unwrap() > 8192);
    }
}
