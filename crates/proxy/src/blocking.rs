//! PostgreSQL client that blocks: logs in and asks simple queries over any stream. For programs and for threads of their
//! own; a worker must never use it.
//!
//! The stream limits the time of each read and write, and the client the size of each answer.

use std::io::{self, Read, Write};

use weir_auth::kdf::{ITERATIONS_MAX, ScramKeys, derive};
use weir_auth::scram::Nonce;
use weir_auth::secret::Secret;
use weir_auth::stored::StoredSecret;
use weir_session::login::{
    BindingPolicy, Credentials, LoginFault, LoginPlan, LoginStep, ServerLogin, Transport,
};
use weir_wire::backend::{Authentication, DataRow, ErrorFields, tag};
use weir_wire::encode;
use weir_wire::frame::{Frame, Side, frame};
use weir_wire::startup::Version;

/// Ways in which a server may ask for the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Any way, clear text included: nobody listens on the stream.
    Any,
    /// SCRAM only, which shows the password to nobody.
    Scram,
}

/// Parameters of a login.
pub struct Login<'a> {
    /// Role to log in as.
    pub user: &'a str,
    /// Password of the role; `None` if the server must not ask for one.
    pub password: Option<&'a [u8]>,
    /// Ways in which the password may be proved.
    pub proof: Proof,
    /// Database on the server.
    pub database: &'a str,
    /// Further start-up parameters.
    pub parameters: &'a [(&'a str, &'a str)],
}

/// Reason for which a server could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed, was silent for too long, or was closed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The login failed, and not by a refusal of the server.
    #[error("the login failed: {0}")]
    Login(LoginFault),
    /// The server wants the password in a way that shows it to others.
    #[error(
        "the server asks for the password by another method than scram-sha-256: nothing is sent"
    )]
    Proof,
    /// The operating system provides no random bytes.
    #[error("no random bytes: {0}")]
    Random(String),
    /// The server refuses the login; message of the server.
    #[error("the server refuses the login: {0}")]
    Refused(String),
    /// The answer is not one of PostgreSQL, or too long.
    #[error("the answer is not one of PostgreSQL, or too long")]
    Strange,
}

impl From<LoginFault> for ClientError {
    fn from(fault: LoginFault) -> Self {
        match fault {
            LoginFault::Refused(body) => Self::Refused(message(&body)),
            fault => Self::Login(fault),
        }
    }
}

/// Rows of an answer as texts, empty for NULL; or the message of the server's error.
pub type Answer = Result<Vec<Vec<String>>, String>;

/// Rows of an answer with their columns; `None` is NULL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Ids of the columns' types in pg_type, in the order of the columns.
    pub types: Vec<u32>,
    /// Values in the order of the columns.
    pub rows: Vec<Vec<Option<String>>>,
}

/// Logged-in client. After an error the connection is of no use.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    /// Bytes that were received and not yet read.
    input: Vec<u8>,
    /// Maximum length of an answer in bytes.
    answer_max: usize,
    /// Bytes that may still come in this answer.
    room: usize,
}

impl<S: Read + Write> Client<S> {
    /// Logs in over a new connection. Answers longer than `answer_max` bytes are refused, those to the login included.
    ///
    /// # Errors
    /// The login is refused or not possible, or the stream fails.
    pub fn log_in(stream: S, login: &Login<'_>, answer_max: usize) -> Result<Self, ClientError> {
        let mut client = Self {
            stream,
            input: Vec::new(),
            answer_max,
            room: answer_max,
        };
        let mut out = Vec::new();
        let mut machine = ServerLogin::start(plan(login)?, &mut out)?;
        loop {
            client.stream.write_all(&out)?;
            out.clear();
            if client.handle_login(&mut machine, login.proof, &mut out)? {
                return Ok(client);
            }
        }
    }

    /// Handles the next message of a login. True when the login is over.
    fn handle_login(
        &mut self,
        machine: &mut ServerLogin,
        proof: Proof,
        out: &mut Vec<u8>,
    ) -> Result<bool, ClientError> {
        // One message at a time: each request for a password is seen before it is answered.
        let message = frame(&self.input, Side::Backend).map_err(LoginFault::from)?;
        let Some(message) = message else {
            self.receive()?;
            return Ok(false);
        };
        if proof == Proof::Scram && is_open_request(&message) {
            return Err(ClientError::Proof);
        }
        let (count, step) = machine.handle(message.raw, out)?;
        self.input.drain(..count);
        match step {
            LoginStep::More => {}
            LoginStep::NeedKeys(request) => {
                let keys = ScramKeys::from_salted(&derive(&request));
                machine.provide_keys(&keys, out)?;
            }
            LoginStep::Done(_) => return Ok(true),
        }
        Ok(false)
    }

    /// Sends a query and returns the answer.
    ///
    /// # Errors
    /// The stream fails, or the answer is none of PostgreSQL's or too long. An error of the server is an [`Answer`].
    pub fn ask(&mut self, sql: &str) -> Result<Answer, ClientError> {
        let texts =
            |row: Vec<Option<String>>| row.into_iter().map(Option::unwrap_or_default).collect();
        let table = self.ask_table(sql)?;
        Ok(table.map(|table| table.rows.into_iter().map(texts).collect()))
    }

    /// Sends a query and returns the answer with its columns, or the message of the server's error.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn ask_table(&mut self, sql: &str) -> Result<Result<Table, String>, ClientError> {
        let mut out = Vec::new();
        encode::query(&mut out, sql.as_bytes()).map_err(|_| ClientError::Strange)?;
        self.stream.write_all(&out)?;
        self.room = self.answer_max;
        let mut answer = Ok(Table::default());
        loop {
            let found = frame(&self.input, Side::Backend).map_err(|_| ClientError::Strange)?;
            let Some(found) = found else {
                self.receive()?;
                continue;
            };
            match found.header.tag {
                tag::DATA_ROW => {
                    let row = row(found.body).ok_or(ClientError::Strange)?;
                    if let Ok(table) = &mut answer {
                        table.rows.push(row);
                    }
                }
                tag::ROW_DESCRIPTION => {
                    let columns = columns(found.body).ok_or(ClientError::Strange)?;
                    if let Ok(table) = &mut answer {
                        (table.columns, table.types) = columns.into_iter().unzip();
                    }
                }
                tag::ERROR_RESPONSE => answer = Err(message(found.body)),
                _ => {}
            }
            let is_over = found.header.tag == tag::READY_FOR_QUERY;
            let len = found.raw.len();
            self.input.drain(..len);
            if is_over {
                return Ok(answer);
            }
        }
    }

    fn receive(&mut self) -> Result<(), ClientError> {
        let mut buffer = [0; 16 * 1024];
        let count = self.stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.room = self.room.checked_sub(count).ok_or(ClientError::Strange)?;
        let received = buffer.get(..count).unwrap_or_default();
        self.input.extend_from_slice(received);
        Ok(())
    }
}

impl<S> Client<S> {
    /// Stream below, to set its limits.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

/// True if a server asks for the password in a way that shows it to others.
fn is_open_request(message: &Frame<'_>) -> bool {
    message.header.tag == tag::AUTHENTICATION
        && matches!(
            Authentication::parse(message.body),
            Ok(Authentication::CleartextPassword | Authentication::Md5 { .. })
        )
}

fn plan(login: &Login<'_>) -> Result<LoginPlan, ClientError> {
    let mut nonce = [0; 18];
    getrandom::fill(&mut nonce).map_err(|error| ClientError::Random(error.to_string()))?;
    let password = login.password.map(|password| Secret::new(password.into()));
    let parameters = login.parameters.iter();
    let parameters = parameters.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Ok(LoginPlan {
        user: login.user.to_owned(),
        database: login.database.to_owned(),
        parameters: parameters.collect(),
        version: Version::V3_0,
        credentials: Credentials {
            secret: password.map(StoredSecret::Plain),
            pass_through: None,
        },
        nonce: Nonce::from_random(nonce),
        channel_binding: BindingPolicy::Disable,
        transport: Transport::Plain,
        iterations_max: ITERATIONS_MAX,
    })
}

fn row(body: &[u8]) -> Option<Vec<Option<String>>> {
    let columns = DataRow::parse(body).ok()?;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    Some(columns.map(|value| value.map(text)).collect())
}

/// Names and types in the body of a RowDescription.
fn columns(body: &[u8]) -> Option<Vec<(String, u32)>> {
    /// Bytes behind a name: table and number there.
    const BEFORE: usize = 4 + 2;
    /// Bytes behind a type: length, modifier, format.
    const REST: usize = 2 + 4 + 2;
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let end = rest.iter().position(|byte| *byte == 0)?;
        let name = String::from_utf8_lossy(rest.get(..end)?).into_owned();
        let behind = rest.get(end + 1 + BEFORE..)?;
        let (oid, behind) = behind.split_first_chunk::<4>()?;
        columns.push((name, u32::from_be_bytes(*oid)));
        rest = behind.get(REST..)?;
    }
    Some(columns)
}

/// Message of an ErrorResponse.
fn message(body: &[u8]) -> String {
    let fields = ErrorFields::parse(body).ok();
    let message = fields.as_ref().and_then(ErrorFields::message);
    String::from_utf8_lossy(message.unwrap_or(b"error")).into_owned()
}
