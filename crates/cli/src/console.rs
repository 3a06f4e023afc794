//! Client of a running Weir's console: one question at a time, without TLS.

use std::env;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weir_proxy::blocking::{Answer, Client, ClientError, Login, Proof, Table};

/// Address of a Weir on this machine.
pub(crate) const ADDRESS: &str = "127.0.0.1:6432";

/// Maximum time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum length of an answer in bytes.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// Reason for which the console could not be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConsoleError {
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
pub(crate) struct Console(Client<Box<dyn Stream>>);

impl Console {
    /// Connects to HOST:PORT, or to the unix socket at this path, and logs in as this user, else as PGUSER or USER, with the
    /// password in PGPASSWORD.
    pub(crate) fn connect(
        address: &str,
        user: Option<&str>,
        program: &str,
    ) -> Result<Self, ConsoleError> {
        let user = user.map(str::to_owned).or_else(|| env::var("PGUSER").ok());
        let user = user.or_else(|| env::var("USER").ok()).unwrap_or_default();
        let password = env::var("PGPASSWORD").ok();
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
            user: &user,
            password: password.as_deref().map(str::as_bytes),
            proof: Proof::Any,
            database: "weir",
            parameters: &[("application_name", program)],
        };
        Ok(Self(Client::log_in(stream, &login, ANSWER_MAX)?))
    }

    /// Sends a query and returns the answer.
    pub(crate) fn ask(&mut self, sql: &str) -> Result<Answer, ConsoleError> {
        Ok(self.0.ask(sql)?)
    }

    /// Sends a query and returns the answer with its columns.
    pub(crate) fn ask_table(&mut self, sql: &str) -> Result<Result<Table, String>, ConsoleError> {
        Ok(self.0.ask_table(sql)?)
    }
}
