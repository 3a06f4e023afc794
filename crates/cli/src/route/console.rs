//! Client of a running Weir's console: one question at a time, without TLS.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weir_proxy::blocking::{Answer, Client, ClientError, Login, Proof};

/// Maximum time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum length of an answer in bytes.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// Reason for which the console could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConsoleError {
    #[error("the address has no port: {0}")]
    Address(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Logged-in client of a console.
pub(super) struct Console(Client<Box<dyn Stream>>);

impl Console {
    /// Connects to HOST:PORT, or to the unix socket at this path, and logs in.
    pub(super) fn connect(
        address: &str,
        user: &str,
        password: Option<String>,
    ) -> Result<Self, ConsoleError> {
        let stream: Box<dyn Stream> = if address.starts_with('/') {
            let stream = UnixStream::connect(address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(stream)
        } else {
            let mut addresses = address
                .to_socket_addrs()
                .map_err(|_| ConsoleError::Address(address.to_owned()))?;
            let first = addresses.next();
            let first = first.ok_or_else(|| ConsoleError::Address(address.to_owned()))?;
            let stream = TcpStream::connect_timeout(&first, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(stream)
        };
        let login = Login {
            user,
            password: password.as_deref().map(str::as_bytes),
            proof: Proof::Any,
            database: "weir",
            parameters: &[("application_name", "weir route")],
        };
        Ok(Self(Client::log_in(stream, &login, ANSWER_MAX)?))
    }

    /// Sends a query and returns the answer.
    pub(super) fn ask(&mut self, sql: &str) -> Result<Answer, ConsoleError> {
        Ok(self.0.ask(sql)?)
    }
}
