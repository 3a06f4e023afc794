//! A non-blocking connection, encrypted or not: of the generator to its target, of others to the null backend.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// A connection. It is registered once for everything: what cannot be read or written now is tried again at its event.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: TcpStream,
    tls: Option<Box<Connection>>,
}

/// What reading brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Got {
    /// So many bytes. `true`: there may be more.
    Bytes(usize, bool),
    /// The other side is done.
    End,
    /// Nothing for now.
    Nothing,
}

/// Bytes on their way out.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    /// `0 <= sent <= bytes.len()`.
    sent: usize,
}

impl Outgoing {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// An idle client keeps no large buffer.
    pub(crate) fn clear(&mut self) {
        self.sent = 0;
        self.bytes.clear();
        if self.bytes.capacity() > 64 * 1024 {
            self.bytes = Vec::new();
        }
    }

    fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.is_empty() {
            self.clear();
        }
    }
}

impl Transport {
    /// Begins to connect; a writable event says that it is done or has failed.
    pub(crate) fn connect(
        address: SocketAddr,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { stream, tls: None })
    }

    /// Whether it is connected by now.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.stream.set_nodelay(true)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// From here on everything is encrypted.
    pub(crate) fn secure(
        &mut self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(ClientConnection::new(config, name)?.into()));
        Ok(())
    }

    /// A connection that somebody else has made.
    pub(crate) fn accept(
        mut stream: TcpStream,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { stream, tls: None })
    }

    /// From here on everything is encrypted, with us as the server.
    pub(crate) fn secure_as_server(
        &mut self,
        config: Arc<ServerConfig>,
    ) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(ServerConnection::new(config)?.into()));
        Ok(())
    }

    /// Reads what is there, as far as it fits.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Got> {
        let Some(tls) = &mut self.tls else {
            return Ok(match again(|| self.stream.read(buffer))? {
                None => Got::Nothing,
                Some(0) => Got::End,
                // A read that was not filled has emptied the socket: epoll(7).
                Some(count) => Got::Bytes(count, count == buffer.len()),
            });
        };
        loop {
            match again(|| tls.reader().read(buffer)) {
                Ok(Some(0)) => return Ok(Got::End),
                Ok(Some(count)) => return Ok(Got::Bytes(count, true)),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Got::End),
                Err(error) => return Err(error),
            }
            match again(|| tls.read_tls(&mut self.stream))? {
                None => return Ok(Got::Nothing),
                Some(_) => tls
                    .process_new_packets()
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
            };
        }
    }

    /// Writes what it can.
    pub(crate) fn write(&mut self, out: &mut Outgoing) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            while !out.is_empty() {
                match again(|| self.stream.write(out.rest()))? {
                    None => break,
                    Some(count) => out.advance(count),
                }
            }
            return Ok(());
        };
        loop {
            while tls.wants_write() {
                if again(|| tls.write_tls(&mut self.stream))?.is_none() {
                    return Ok(());
                }
            }
            if out.is_empty() {
                return Ok(());
            }
            match tls.writer().write(out.rest())? {
                // Full, and the handshake is not over.
                0 => return Ok(()),
                count => out.advance(count),
            }
        }
    }

    /// Says goodbye as far as that can be said at once.
    pub(crate) fn close(mut self, out: &mut Outgoing) {
        let _ = self.write(out);
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.stream);
        }
    }
}

/// `None` for what has to wait.
fn again(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match attempt() {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
