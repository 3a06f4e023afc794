//! Client of a running Weir's console: one question at a time, without TLS.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weir_auth::kdf::{ITERATIONS_MAX, ScramKeys, derive};
use weir_auth::scram::Nonce;
use weir_auth::secret::Secret;
use weir_auth::stored::StoredSecret;
use weir_session::login::{
    BindingPolicy, Credentials, LoginFault, LoginPlan, LoginStep, ServerLogin, Transport,
};
use weir_wire::backend::{DataRow, ErrorFields, tag};
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::startup::Version;

/// Maximum time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum length of an answer in bytes.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// Reason for which the console could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConsoleError {
    #[error("the address has no port: {0}")]
    Address(String),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the login failed: {0}")]
    Login(#[from] LoginFault),
    #[error("no random bytes: {0}")]
    Random(String),
    #[error("the answer is not one of a console")]
    Strange,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Logged-in client of a console.
pub(super) struct Console {
    stream: Box<dyn Stream>,
    /// Bytes that were received and not yet read.
    input: Vec<u8>,
}

/// Rows of an answer, or the error of the console.
pub(super) type Answer = Result<Vec<Vec<String>>, String>;

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
        let mut console = Self {
            stream,
            input: Vec::new(),
        };
        console.log_in(user, password)?;
        Ok(console)
    }

    fn log_in(&mut self, user: &str, password: Option<String>) -> Result<(), ConsoleError> {
        let mut out = Vec::new();
        let mut login = ServerLogin::start(plan(user, password)?, &mut out)?;
        loop {
            self.stream.write_all(&out)?;
            out.clear();
            loop {
                let (count, step) = login.handle(&self.input, &mut out)?;
                self.input.drain(..count);
                match step {
                    LoginStep::More => break,
                    LoginStep::NeedKeys(request) => {
                        let keys = ScramKeys::from_salted(&derive(&request));
                        login.provide_keys(&keys, &mut out)?;
                    }
                    LoginStep::Done(_) => return Ok(()),
                }
            }
            if out.is_empty() {
                self.receive()?;
            }
        }
    }

    /// Sends a query and returns the answer.
    pub(super) fn ask(&mut self, sql: &str) -> Result<Answer, ConsoleError> {
        let mut out = Vec::new();
        encode::query(&mut out, sql.as_bytes()).map_err(|_| ConsoleError::Strange)?;
        self.stream.write_all(&out)?;
        let mut answer: Answer = Ok(Vec::new());
        loop {
            let message = match frame(&self.input, Side::Backend) {
                Ok(Some(message)) => message,
                Ok(None) if self.input.len() <= ANSWER_MAX => {
                    self.receive()?;
                    continue;
                }
                Ok(None) | Err(_) => return Err(ConsoleError::Strange),
            };
            let is_over = message.header.tag == tag::READY_FOR_QUERY;
            match message.header.tag {
                tag::DATA_ROW => {
                    let row = row(message.body).ok_or(ConsoleError::Strange)?;
                    if let Ok(rows) = &mut answer {
                        rows.push(row);
                    }
                }
                tag::ERROR_RESPONSE => answer = Err(error(message.body)),
                _ => {}
            }
            let len = message.raw.len();
            self.input.drain(..len);
            if is_over {
                return Ok(answer);
            }
        }
    }

    fn receive(&mut self) -> Result<(), ConsoleError> {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            count => {
                self.input
                    .extend_from_slice(buffer.get(..count).unwrap_or_default());
                Ok(())
            }
        }
    }
}

fn plan(user: &str, password: Option<String>) -> Result<LoginPlan, ConsoleError> {
    let mut nonce = [0; 18];
    getrandom::fill(&mut nonce).map_err(|error| ConsoleError::Random(error.to_string()))?;
    let password = password.map(|password| Secret::new(password.into_bytes()));
    Ok(LoginPlan {
        user: user.to_owned(),
        database: "weir".to_owned(),
        parameters: vec![("application_name".to_owned(), "weir route".to_owned())],
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

fn row(body: &[u8]) -> Option<Vec<String>> {
    let columns = DataRow::parse(body).ok()?;
    let text =
        |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
    Some(columns.map(text).collect())
}

fn error(body: &[u8]) -> String {
    let message = ErrorFields::parse(body).ok();
    let message = message.as_ref().and_then(ErrorFields::message);
    String::from_utf8_lossy(message.unwrap_or(b"error")).into_owned()
}
