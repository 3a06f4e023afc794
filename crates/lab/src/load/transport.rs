//! Non-blocking connection, with or without TLS: the generator's to its target, or a client's to the null backend.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// Connection, registered once for all events. A read or write that would block is repeated at the next event.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: TcpStream,
    tls: Option<Box<Connection>>,
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Got {
    /// Number of bytes read. `true`: there may be more.
    Bytes(usize, bool),
    /// The peer has closed the connection.
    End,
    /// No bytes are available now.
    Nothing,
}

/// Bytes to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    /// Number of bytes already sent: `0 <= sent <= bytes.len()`.
    sent: usize,
}

impl Outgoing {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Drops what is left, and a large buffer: idle clients must not keep one.
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
    /// Starts to connect. A writable event reports success or failure.
    pub(crate) fn connect(
        address: SocketAddr,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { stream, tls: None })
    }

    /// Returns true once the connection is established.
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

    /// Starts TLS as the client: everything from here on is encrypted.
    pub(crate) fn secure(
        &mut self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(ClientConnection::new(config, name)?.into()));
        Ok(())
    }

    /// Registers a connection that was accepted elsewhere.
    pub(crate) fn accept(
        mut stream: TcpStream,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { stream, tls: None })
    }

    /// Starts TLS as the server: everything from here on is encrypted.
    pub(crate) fn secure_as_server(
        &mut self,
        config: Arc<ServerConfig>,
    ) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(ServerConnection::new(config)?.into()));
        Ok(())
    }

    /// Reads the bytes that are available, as far as they fit.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Got> {
        let Some(tls) = &mut self.tls else {
            return Ok(match again(|| self.stream.read(buffer))? {
                None => Got::Nothing,
                Some(0) => Got::End,
                // A read that did not fill the buffer has emptied the socket: epoll(7).
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

    /// Writes as much as the socket takes.
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
                // The buffer of rustls is full, and the handshake is not over.
                0 => return Ok(()),
                count => out.advance(count),
            }
        }
    }

    /// Sends the rest and TLS's close_notify, as far as the socket takes them at once.
    pub(crate) fn close(mut self, out: &mut Outgoing) {
        let _ = self.write(out);
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.stream);
        }
    }
}

/// Repeats an interrupted call; `None` if it would block.
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
