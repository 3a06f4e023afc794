//! A small blocking client that shows every message, and shares no code with Weir.

use std::collections::HashMap;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::SocketAddrV4;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use rustls::ClientConnection;
use socket2::Domain;
use socket2::Socket;
use socket2::Type;

use crate::frontend;
use crate::tls::client::TlsStream;

/// A text row; `None` is SQL NULL.
pub type Row = Vec<Option<String>>;

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The tag byte, as `b'Z'`.
    pub tag: u8,
    /// Bytes after the length.
    pub body: Vec<u8>,
}

impl Message {
    /// The message as it was on the wire.
    #[must_use]
    pub fn wire(&self) -> Vec<u8> {
        frontend::message(self.tag, &self.body)
    }

    /// A field of `ErrorResponse` or `NoticeResponse`, such as `b'C'` for the SQLSTATE.
    #[must_use]
    pub fn field(&self, code: u8) -> Option<String> {
        let fields = self.body.split(|byte| *byte == 0);
        let found = fields
            .into_iter()
            .find(|field| field.first() == Some(&code))?;
        Some(String::from_utf8_lossy(found.get(1..)?).into_owned())
    }

    /// Severity, SQLSTATE and text of an error.
    #[must_use]
    pub fn error(&self) -> String {
        let part = |code| self.field(code).unwrap_or_default();
        format!("{} {} {}", part(b'S'), part(b'C'), part(b'M'))
    }

    /// The names in a `RowDescription`.
    ///
    /// # Errors
    /// When the body is cut short.
    pub fn column_names(&self) -> Result<Vec<String>> {
        let mut rest = self.body.get(2..).context("description without a count")?;
        let mut names = Vec::new();
        while !rest.is_empty() {
            let end = rest
                .iter()
                .position(|byte| *byte == 0)
                .context("name without an end")?;
            let (name, tail) = rest.split_at(end);
            names.push(String::from_utf8_lossy(name).into_owned());
            // Zero byte, then oids, type, length, modifier and format: 18 bytes.
            rest = tail.get(19..).context("description cut short")?;
        }
        Ok(names)
    }

    /// The columns of a `DataRow`.
    ///
    /// # Errors
    /// When the lengths inside do not match the body.
    pub fn row(&self) -> Result<Row> {
        let mut rest = self.body.get(2..).context("row without a count")?;
        let mut row = Vec::new();
        while !rest.is_empty() {
            let (length, tail) = rest
                .split_first_chunk::<4>()
                .context("column without length")?;
            let length = i32::from_be_bytes(*length);
            let Ok(length) = usize::try_from(length) else {
                row.push(None);
                rest = tail;
                continue;
            };
            let (value, tail) = tail.split_at_checked(length).context("column cut short")?;
            row.push(Some(String::from_utf8_lossy(value).into_owned()));
            rest = tail;
        }
        Ok(row)
    }
}

/// Transport of the bytes.
#[derive(Debug)]
enum Wire {
    Clear(TcpStream),
    Tls(Box<TlsStream>),
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// A connection in any state that the suite has brought it to.
#[derive(Debug)]
pub struct Raw {
    reader: BufReader<Wire>,
    /// `BackendKeyData`: process id and secret.
    pub key: (i32, Vec<u8>),
}

impl Raw {
    /// Connects TCP without a login; every later read gives up after `patience`.
    ///
    /// # Errors
    /// When the port is not open.
    pub fn tcp(port: u16, patience: Duration) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("connect to port {port}"))?;
        Self::from_stream(stream, patience)
    }

    /// Connects to an address, and gives up after `patience`, as every later read does.
    ///
    /// # Errors
    /// When nothing accepts the connection in time.
    pub fn at(address: SocketAddr, patience: Duration) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)
            .with_context(|| format!("connect to {address}"))?;
        Self::from_stream(stream, patience)
    }

    /// Connects like [`Raw::tcp`], from another address of the loopback network.
    ///
    /// # Errors
    /// When the port is not open.
    pub fn tcp_from(source: Ipv4Addr, port: u16, patience: Duration) -> Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddrV4::new(source, 0).into())?;
        socket.connect(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into())?;
        Self::from_stream(socket.into(), patience)
    }

    /// Takes over a connected socket.
    ///
    /// # Errors
    /// When its options cannot be set.
    pub fn from_stream(stream: TcpStream, patience: Duration) -> Result<Self> {
        stream.set_nodelay(true)?;
        Self::from_wire(Wire::Clear(stream), patience)
    }

    /// Connects to the unix socket of this port in a directory.
    ///
    /// # Errors
    /// When the socket does not accept connections.
    pub fn unix(directory: &Path, port: u16, patience: Duration) -> Result<Self> {
        let path = directory.join(format!(".s.PGSQL.{port}"));
        let stream = UnixStream::connect(&path).with_context(|| path.display().to_string())?;
        // From here on both families are used in the same way.
        let stream = TcpStream::from(OwnedFd::from(stream));
        Self::from_wire(Wire::Clear(stream), patience)
    }

    /// Takes over a connected socket whose TLS handshake is done.
    ///
    /// # Errors
    /// When its options cannot be set.
    pub fn from_tls(
        connection: ClientConnection,
        socket: TcpStream,
        patience: Duration,
    ) -> Result<Self> {
        let stream = TlsStream { connection, socket };
        Self::from_wire(Wire::Tls(Box::new(stream)), patience)
    }

    fn from_wire(wire: Wire, patience: Duration) -> Result<Self> {
        let raw = Self {
            reader: BufReader::with_capacity(16 * 1024, wire),
            key: (0, Vec::new()),
        };
        raw.stream().set_read_timeout(Some(patience))?;
        raw.stream().set_write_timeout(Some(patience))?;
        Ok(raw)
    }

    /// Returns the socket, for a TLS handshake on it.
    ///
    /// # Errors
    /// When bytes have been read ahead, or TLS has begun.
    pub fn into_stream(self) -> Result<TcpStream> {
        ensure!(self.reader.buffer().is_empty(), "bytes were read ahead");
        match self.reader.into_inner() {
            Wire::Clear(stream) => Ok(stream),
            Wire::Tls(_) => bail!("TLS inside TLS"),
        }
    }

    /// The TLS connection, if there is one.
    #[must_use]
    pub fn tls(&self) -> Option<&ClientConnection> {
        match self.reader.get_ref() {
            Wire::Clear(_) => None,
            Wire::Tls(stream) => Some(&stream.connection),
        }
    }

    /// The TLS connection, for tests that change its state.
    pub fn tls_mut(&mut self) -> Option<&mut ClientConnection> {
        match self.reader.get_mut() {
            Wire::Clear(_) => None,
            Wire::Tls(stream) => Some(&mut stream.connection),
        }
    }

    /// Connects and logs in as `postgres` with method trust.
    ///
    /// # Errors
    /// When the login is refused.
    pub fn connect(port: u16, database: &str) -> Result<Self> {
        Self::connect_with(port, &[("user", "postgres"), ("database", database)])
    }

    /// Connects and logs in with these startup parameters.
    ///
    /// # Errors
    /// When the login is refused.
    pub fn connect_with(port: u16, parameters: &[(&str, &str)]) -> Result<Self> {
        let mut raw = Self::tcp(port, Duration::from_secs(60))?;
        raw.login(parameters)?;
        Ok(raw)
    }

    /// Logs in with these startup parameters; expects that no password is needed.
    ///
    /// # Errors
    /// When the login is refused.
    pub fn login(&mut self, parameters: &[(&str, &str)]) -> Result<()> {
        self.send(&frontend::startup(frontend::VERSION_3_0, parameters))?;
        self.welcomed()
    }

    /// Reads the messages after authentication up to `ReadyForQuery`, and keeps the cancel key.
    ///
    /// # Errors
    /// When the login is refused.
    pub fn welcomed(&mut self) -> Result<()> {
        for message in self.read_until_ready()? {
            match message.tag {
                b'E' => bail!("login refused: {}", message.error()),
                b'K' => {
                    let (pid, secret) = message.body.split_at_checked(4).context("short key")?;
                    let pid = <[u8; 4]>::try_from(pid)?;
                    self.key = (i32::from_be_bytes(pid), secret.to_vec());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes bytes unchanged.
    ///
    /// # Errors
    /// When the peer has closed or does not read.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)?;
        self.reader.get_mut().flush()
    }

    /// Reads one message.
    ///
    /// # Errors
    /// At the end of the stream, or after the time limit.
    pub fn read_message(&mut self) -> io::Result<Message> {
        let mut head = [0; 5];
        self.reader.read_exact(&mut head)?;
        let [tag, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let length = length.checked_sub(4).ok_or(io::ErrorKind::InvalidData)?;
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok(Message { tag, body })
    }

    /// Reads up to and including `ReadyForQuery`, or up to the close after a FATAL error or a PANIC.
    ///
    /// # Errors
    /// When the peer closes without such an error or does not answer in time.
    pub fn read_until_ready(&mut self) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            let message = self.read_message().with_context(|| {
                let tags: Vec<u8> = messages
                    .iter()
                    .map(|message: &Message| message.tag)
                    .collect();
                format!(
                    "no ReadyForQuery; so far {:?}",
                    String::from_utf8_lossy(&tags)
                )
            })?;
            let is_end = |severity: String| matches!(&*severity, "FATAL" | "PANIC");
            let last = message.tag == b'Z'
                || (message.tag == b'E' && message.field(b'S').is_some_and(is_end));
            messages.push(message);
            if last {
                return Ok(messages);
            }
        }
    }

    /// Sends bytes and reads to the next `ReadyForQuery`.
    ///
    /// # Errors
    /// As [`Raw::send`] and [`Raw::read_until_ready`].
    pub fn ask(&mut self, bytes: &[u8]) -> Result<Vec<Message>> {
        self.send(bytes)?;
        self.read_until_ready()
    }

    /// Runs a simple query and returns its rows.
    ///
    /// # Errors
    /// When the server reports an error.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Row>> {
        let messages = self.ask(&frontend::query(sql))?;
        if let Some(error) = messages.iter().find(|message| message.tag == b'E') {
            bail!("{sql}: {}", error.error());
        }
        let rows = messages.iter().filter(|message| message.tag == b'D');
        rows.map(Message::row).collect()
    }

    /// Returns the first column of the first row.
    ///
    /// # Errors
    /// When the query fails or gives no row or a NULL.
    pub fn query_one(&mut self, sql: &str) -> Result<String> {
        let first = self
            .query(sql)?
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        first.flatten().ok_or_else(|| anyhow!("{sql}: no value"))
    }

    /// Runs a simple query and returns each row as pairs of column name and text.
    ///
    /// # Errors
    /// As [`Raw::query`].
    pub fn query_named(&mut self, sql: &str) -> Result<Vec<HashMap<String, String>>> {
        let messages = self.ask(&frontend::query(sql))?;
        let mut names = Vec::new();
        let mut table = Vec::new();
        for message in messages {
            match message.tag {
                b'T' => names = message.column_names()?,
                b'D' => {
                    let values = message.row()?.into_iter().map(Option::unwrap_or_default);
                    table.push(names.iter().cloned().zip(values).collect());
                }
                b'E' => bail!("{sql}: {}", message.error()),
                _ => {}
            }
        }
        Ok(table)
    }

    /// Reads to the next `ReadyForQuery` without keeping the content; returns the number of bytes of all
    /// messages.
    ///
    /// # Errors
    /// When an error is reported, the peer closes or does not answer in time.
    pub fn skim_until_ready(&mut self) -> Result<u64> {
        let mut total = 0;
        loop {
            let mut head = [0; 5];
            self.reader.read_exact(&mut head)?;
            let [tag, length @ ..] = head;
            let body = u64::from(u32::from_be_bytes(length)).saturating_sub(4);
            total += 5 + body;
            let mut rest = (&mut self.reader).take(body);
            if tag == b'E' {
                let mut body = Vec::new();
                rest.read_to_end(&mut body)?;
                bail!("{}", Message { tag, body }.error());
            }
            if io::copy(&mut rest, &mut io::sink())? < body {
                bail!("the connection ended inside a message");
            }
            if tag == b'Z' {
                return Ok(total);
            }
        }
    }

    /// Sends a cancel request for the running query of this connection.
    ///
    /// # Errors
    /// When the second connection cannot be made.
    pub fn cancel(&self, port: u16) -> Result<()> {
        let mut second = Self::tcp(port, Duration::from_secs(10))?;
        second.send(&frontend::cancel_request(self.key.0, &self.key.1))?;
        // The server closes when it has passed the signal on.
        let mut rest = Vec::new();
        drop(second.reader.read_to_end(&mut rest));
        Ok(())
    }

    /// Reads until the peer closes.
    ///
    /// # Errors
    /// When the peer neither sends nor closes in time.
    pub fn read_to_close(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => Ok(rest),
            Err(error) => match error.kind() {
                // A connection that ends without TLS's close_notify has ended as well.
                io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => Ok(rest),
                _ => Err(error),
            },
        }
    }

    /// The buffered reading side, for suites that count bytes themselves.
    pub fn reader(&mut self) -> &mut impl Read {
        &mut self.reader
    }

    /// The socket.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        match self.reader.get_ref() {
            Wire::Clear(stream) => stream,
            Wire::Tls(stream) => &stream.socket,
        }
    }

    /// Ends the session with Terminate.
    pub fn terminate(mut self) {
        drop(self.send(&frontend::terminate()));
        drop(self.stream().shutdown(Shutdown::Write));
    }

    /// Closes the connection with a RST at once: no FIN, nothing flushed, even if other handles of the
    /// socket exist.
    ///
    /// # Errors
    /// When there is no connection any more.
    pub fn reset(self) -> io::Result<()> {
        Ok(rustix::net::connect_unspec(self.stream())?)
    }
}
