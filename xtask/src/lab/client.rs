//! A client that does nothing most of the time: it logs in without a password, plain or over TLS,
//! and runs a query when told to. Blocking, so that thousands need no more than their sockets.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_lab::postgres::{DATABASE, USER};

/// For a single answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// PostgreSQL manual, "Message Formats": StartupMessage 3.0 and SSLRequest.
const PROTOCOL: u32 = 196_608;
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// Longer messages are none of those that we ask for.
const MESSAGE_MAX: usize = 1 << 20;

/// What TLS clients share.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// TLS 1.3; trusts `authority` alone. No session is resumed: every client pays its own
    /// handshake.
    pub(crate) fn trusting(authority: &Path) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(authority)
            .map_err(|error| anyhow!("{}: {error}", authority.display()))?;
        roots.add(certificate)?;
        let mut config = ClientConfig::builder_with_protocol_versions(&[&TLS13])
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
        })
    }
}

/// One logged-in connection; dropping it closes the socket.
pub(crate) struct Client {
    stream: Box<dyn Stream>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Connects and logs in as [`USER`], over TLS if `tls` is given.
    pub(crate) fn connect(address: SocketAddr, tls: Option<&Tls>) -> Result<Self> {
        let socket = TcpStream::connect(address).context("cannot connect")?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_LIMIT))?;
        socket.set_write_timeout(Some(ANSWER_LIMIT))?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(socket),
            Some(tls) => Box::new(encrypt(socket, tls)?),
        };
        let mut client = Self { stream };
        client.stream.write_all(&startup(USER, DATABASE))?;
        client.stream.flush()?;
        client.await_ready().context("cannot log in")?;
        Ok(client)
    }

    /// Runs one statement by the simple protocol and reads all of its answer.
    pub(crate) fn query(&mut self, sql: &str) -> Result<()> {
        self.stream.write_all(&query(sql))?;
        self.stream.flush()?;
        self.await_ready().context("cannot query")
    }

    fn await_ready(&mut self) -> Result<()> {
        loop {
            let (tag, body) = read_message(&mut self.stream)?;
            match tag {
                b'Z' => return Ok(()),
                b'E' => bail!("{}", error_text(&body)),
                // Authentication: all but "ok" is a question.
                b'R' if body != [0; 4] => bail!("a password is asked for"),
                _ => {}
            }
        }
    }
}

fn encrypt(mut socket: TcpStream, tls: &Tls) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    socket.write_all(&SSL_REQUEST)?;
    let mut answer = [0];
    socket.read_exact(&mut answer)?;
    if answer != *b"S" {
        bail!("TLS is refused");
    }
    let name = ServerName::try_from("localhost")?;
    let mut connection = ClientConnection::new(Arc::clone(&tls.config), name)?;
    while connection.is_handshaking() {
        connection
            .complete_io(&mut socket)
            .context("TLS handshake")?;
    }
    Ok(StreamOwned::new(connection, socket))
}

fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for word in ["user", user, "database", database, ""] {
        body.extend_from_slice(word.as_bytes());
        body.push(0);
    }
    with_length(&body)
}

fn query(sql: &str) -> Vec<u8> {
    let mut body = sql.as_bytes().to_vec();
    body.push(0);
    let mut message = vec![b'Q'];
    message.extend(with_length(&body));
    message
}

/// The length counts itself.
fn with_length(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), body].concat()
}

/// Tag and body of the next message.
fn read_message(stream: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let [tag, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if !(4..=MESSAGE_MAX).contains(&length) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a message of PostgreSQL",
        ));
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body)?;
    Ok((tag, body))
}

/// The field `M` of an ErrorResponse.
fn error_text(body: &[u8]) -> String {
    body.split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(b"M"))
        .map_or_else(
            || "an error without a message".to_owned(),
            |text| String::from_utf8_lossy(text).into_owned(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_framed_as_the_manual_says() {
        assert_eq!(query("a"), b"Q\x00\x00\x00\x06a\x00");
        let expected = b"\x00\x00\x00\x1b\x00\x03\x00\x00user\x00u\x00database\x00d\x00\x00";
        let mut expected = expected.to_vec();
        expected[3] = u8::try_from(expected.len()).unwrap();
        assert_eq!(startup("u", "d"), expected);
    }

    #[test]
    fn a_message_is_read_and_nonsense_is_refused() {
        let mut stream: &[u8] = b"Z\x00\x00\x00\x05Irest";
        assert_eq!(read_message(&mut stream).unwrap(), (b'Z', b"I".to_vec()));
        assert_eq!(stream, b"rest");
        let mut stream: &[u8] = b"HTTP/1.1";
        assert!(read_message(&mut stream).is_err());
        let mut stream: &[u8] = b"Z\x00\x00\x00\x03";
        assert!(read_message(&mut stream).is_err());
    }

    #[test]
    fn the_words_of_an_error_are_found() {
        let body = b"SFATAL\0C28P01\0Mno such user\0\0";
        assert_eq!(error_text(body), "no such user");
        assert_eq!(error_text(b""), "an error without a message");
    }
}
