//! Questions to databases in which tools keep their state. Each wait has a limit, and no answer is read beyond a size.
//!
//! There is no TLS. Therefore a server on another machine gets the password by SCRAM only, which shows it to nobody; one
//! that asks in another way gets no answer. A connection is kept from one question to the next.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread::Builder;
use std::time::Duration;

use crossbeam_channel::bounded;
use weir_config::Secret;

use super::http::{Failure, shown};
use crate::blocking::{Client, ClientError, Login, Proof};
use crate::clock::machine_us;

/// Limit of each step: the look-up of the name, each connection, the login, and the answer to a question.
const STEP_MAX: Duration = Duration::from_secs(2);
/// Largest answer in bytes. A node takes some 50.
const ANSWER_MAX: usize = 64 << 10;
/// Number of addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// Start-up parameters. A question that waits for a lock must not outlive its connection for long.
const PARAMETERS: [(&str, &str); 3] = [
    ("application_name", "weir"),
    ("client_encoding", "UTF8"),
    ("statement_timeout", "2000"),
];

/// Rows of an answer.
pub(super) type Rows = Vec<Vec<String>>;

/// Reason for which a database could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum SqlFailure {
    /// The server cannot be reached, is silent, refuses the login, or does not speak PostgreSQL's protocol.
    #[error("{}", shown_error(.0))]
    Client(#[from] ClientError),
    /// The name of the host has no address.
    #[error("the name cannot be resolved: {0}")]
    Name(io::Error),
}

/// Client for one source.
pub(super) struct Sql {
    user: String,
    password: Secret,
    database: String,
    kept: Option<Kept>,
}

/// Connection that is kept.
struct Kept {
    server: String,
    client: Client<Timed>,
}

impl Sql {
    pub(super) fn new(login: Option<(String, Secret)>, database: &str) -> Self {
        let (user, password) = login.unwrap_or_default();
        Self {
            user,
            password,
            database: database.to_owned(),
            kept: None,
        }
    }

    /// Returns the rows of a query. The server is `postgresql://HOST:PORT`.
    ///
    /// # Errors
    /// The server cannot be asked in time, or answers with an error. The next question makes a new connection then.
    pub(super) fn ask(&mut self, server: &str, query: &str) -> Result<Rows, Failure> {
        if let Some(mut kept) = self.kept.take()
            && kept.server == server
        {
            match kept.ask(query) {
                // The server may have closed the connection since the last question.
                Err(ClientError::Io(error)) if error.kind() != io::ErrorKind::TimedOut => {}
                outcome => return self.keep(kept, outcome),
            }
        }
        let mut fresh = self.connect(server)?;
        let outcome = fresh.ask(query);
        self.keep(fresh, outcome)
    }

    /// Keeps a connection that is well.
    fn keep(
        &mut self,
        connection: Kept,
        outcome: Result<Result<Rows, String>, ClientError>,
    ) -> Result<Rows, Failure> {
        let answer = outcome.map_err(SqlFailure::from)?;
        let rows = answer.map_err(|message| Failure::Tool(shown(&message)))?;
        self.kept = Some(connection);
        Ok(rows)
    }

    fn connect(&self, server: &str) -> Result<Kept, SqlFailure> {
        let (_, place) = server.split_once("://").unwrap_or(("", server));
        let stream = open(&resolve(place)?).map_err(ClientError::from)?;
        let peer = stream.peer_addr().map_err(ClientError::from)?;
        let password = self.password.expose().as_bytes();
        let login = Login {
            user: &self.user,
            password: (!password.is_empty()).then_some(password),
            proof: proof(peer),
            database: &self.database,
            parameters: &PARAMETERS,
        };
        Ok(Kept {
            server: server.to_owned(),
            client: Client::log_in(Timed::new(stream), &login, ANSWER_MAX)?,
        })
    }
}

impl Kept {
    fn ask(&mut self, query: &str) -> Result<Result<Rows, String>, ClientError> {
        self.client.stream_mut().restart();
        self.client.ask(query)
    }
}

/// Returns the ways in which a server at this address may ask for the password.
pub(super) fn proof(peer: SocketAddr) -> Proof {
    match peer.ip().to_canonical().is_loopback() {
        true => Proof::Any,
        false => Proof::Scram,
    }
}

/// Returns the addresses of `HOST:PORT`, at least one.
fn resolve(place: &str) -> Result<Vec<SocketAddr>, SqlFailure> {
    if let Ok(address) = place.parse() {
        return Ok(vec![address]);
    }
    let place = place.to_owned();
    let (sender, found) = bounded(1);
    // Ends with the look-up, for which the system has its own limits.
    let look_up = move || {
        let found = place.to_socket_addrs();
        let found = found.map(|all| all.take(ADDRESSES_MAX).collect::<Vec<_>>());
        let _ = sender.send(found);
    };
    let thread = Builder::new().name("weir-hints-name".to_owned());
    thread.spawn(look_up).map_err(SqlFailure::Name)?;
    let found = found.recv_timeout(STEP_MAX);
    let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let found = found.map_err(SqlFailure::Name)?;
    match found.is_empty() {
        true => Err(SqlFailure::Name(io::ErrorKind::NotFound.into())),
        false => Ok(found),
    }
}

/// Connects to the first address that answers.
fn open(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(address, STEP_MAX) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Stream with a time limit for all reads and writes of a step together.
struct Timed {
    stream: TcpStream,
    /// End of the step, in microseconds of the machine's clock.
    end_us: u64,
}

impl Timed {
    fn new(stream: TcpStream) -> Self {
        let mut timed = Self { stream, end_us: 0 };
        timed.restart();
        timed
    }

    /// Begins a step.
    fn restart(&mut self) {
        let limit_us = u64::try_from(STEP_MAX.as_micros()).unwrap_or(u64::MAX);
        self.end_us = machine_us().saturating_add(limit_us);
    }

    /// Returns the rest of the step, which is not zero.
    fn rest(&self) -> io::Result<Duration> {
        match self.end_us.saturating_sub(machine_us()) {
            0 => Err(io::ErrorKind::TimedOut.into()),
            rest => Ok(Duration::from_micros(rest)),
        }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.rest()?))?;
        self.stream.read(buffer).map_err(timed_out)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.rest()?))?;
        self.stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Names the end of a time limit, which sockets report as if they did not block.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// Describes an error for the log: the server's words are shortened, and without control characters.
fn shown_error(error: &ClientError) -> String {
    match error {
        ClientError::Refused(message) => ClientError::Refused(shown(message)).to_string(),
        error => error.to_string(),
    }
}
