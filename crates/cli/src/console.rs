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
/// Maximum length of an answer in bytes: room for the rows of 200,000 clients.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// Reason for which the console could not be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConsoleError {
    #[error("the address has no port, or its name is not known: {0}")]
    Address(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("{0}; PGPASSWORD is not set")]
    NoPassword(ClientError),
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Console to connect to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// HOST:PORT, or the path of a unix socket.
    pub(crate) address: String,
    /// User to log in as; by default PGUSER, else USER.
    pub(crate) user: Option<String>,
    /// Name of the console's database.
    pub(crate) database: &'static str,
    /// Value of application_name.
    pub(crate) program: &'static str,
    /// Maximum time to wait for a connection, and for each part of an answer.
    pub(crate) patience: Duration,
}

/// Logged-in client of a console.
pub(crate) struct Console(Client<Box<dyn Stream>>);

impl Console {
    /// Connects to HOST:PORT, or to the unix socket at this path, and logs in as this user, else as PGUSER or USER, with the
    /// password in PGPASSWORD.
    pub(crate) fn connect(
        address: &str,
        user: Option<&str>,
        program: &'static str,
    ) -> Result<Self, ConsoleError> {
        Self::open(&Target {
            address: address.to_owned(),
            user: user.map(str::to_owned),
            database: "weir",
            program,
            patience: PATIENCE,
        })
    }

    /// Connects and logs in, with the password in PGPASSWORD.
    pub(crate) fn open(target: &Target) -> Result<Self, ConsoleError> {
        let user = target.user.clone().or_else(|| env::var("PGUSER").ok());
        let user = user.or_else(|| env::var("USER").ok()).unwrap_or_default();
        let password = env::var("PGPASSWORD").ok();
        let stream: Box<dyn Stream> = if target.address.starts_with('/') {
            let stream = UnixStream::connect(&target.address)?;
            stream.set_read_timeout(Some(target.patience))?;
            stream.set_write_timeout(Some(target.patience))?;
            Box::new(stream)
        } else {
            let stream = tcp(&target.address, target.patience)?;
            stream.set_read_timeout(Some(target.patience))?;
            stream.set_write_timeout(Some(target.patience))?;
            Box::new(stream)
        };
        let login = Login {
            user: &user,
            password: password.as_deref().map(str::as_bytes),
            proof: Proof::Any,
            database: target.database,
            parameters: &[("application_name", target.program)],
        };
        let client = Client::log_in(stream, &login, ANSWER_MAX);
        client.map(Self).map_err(|error| match error {
            ClientError::Login(_) if password.is_none() => ConsoleError::NoPassword(error),
            error => error.into(),
        })
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

/// Connects to the first address of this name that answers: `localhost` is often two.
fn tcp(address: &str, patience: Duration) -> Result<TcpStream, ConsoleError> {
    let unusable = || ConsoleError::Address(address.to_owned());
    let mut error = unusable();
    for address in address.to_socket_addrs().map_err(|_| unusable())? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(failed) => error = failed.into(),
        }
    }
    Err(error)
}
