//! Our own login to a server: start-up packet, authentication, and the parameters that it reports.

use weir_auth::kdf::{KdfRequest, ScramKeys};
use weir_auth::md5;
use weir_auth::scram::{MECHANISM, Nonce, PassThrough, ScramClient, ScramError, Step};
use weir_auth::secret::Secret;
use weir_auth::stored::StoredSecret;
use weir_wire::MessageError;
use weir_wire::backend::{self, Authentication, TransactionStatus, tag};
use weir_wire::encode::{self, EncodeError};
use weir_wire::frame::{FrameError, Side, frame, header};
use weir_wire::startup::Version;

use crate::settings::Reported;

/// The longest message of a login, errors and notices included (libpq's limit for errors before the login is over).
const MESSAGE_MAX: usize = 30_000;

/// What we can prove who we are with.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The secret of the configuration or the auth_file.
    pub secret: Option<StoredSecret>,
    /// What the client's own SCRAM login left (hazard SEC-64: only with an identical verifier, and no forced user).
    pub pass_through: Option<PassThrough>,
}

/// What a login needs.
#[derive(Clone)]
pub struct LoginPlan {
    /// Role to log in as.
    pub user: String,
    /// Database on the server.
    pub database: String,
    /// Further start-up parameters.
    pub parameters: Vec<(String, String)>,
    /// Version to ask for.
    pub version: Version,
    /// Proofs.
    pub credentials: Credentials,
    /// Our part of a SCRAM exchange; never used twice.
    pub nonce: Nonce,
}

/// A finished login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// ParameterStatus values.
    pub reported: Reported,
    /// The server's process id, for cancels.
    pub pid: u32,
    /// The server's cancel key.
    pub key: Box<[u8]>,
}

/// Where a login stands.
pub enum LoginStep {
    /// More bytes have to come.
    More,
    /// Derive keys off the event loop, then call [`ServerLogin::provide_keys`].
    NeedKeys(KdfRequest),
    /// The server is ready.
    Done(Box<LoggedIn>),
}

/// Why a login failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginFault {
    /// The server said so; the body of its ErrorResponse.
    #[error("refused by the server")]
    Refused(Box<[u8]>),
    /// Not a message that PostgreSQL sends.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message whose body does not parse.
    #[error("malformed login message from the server: {0}")]
    Malformed(#[from] MessageError),
    /// A message that has no place in a login.
    #[error("unexpected message of type '{}' during login", char::from(*.0))]
    OutOfPlace(u8),
    /// The server wants a password and we have none that fits its method.
    #[error("the server asks for {0}, for which no usable password is known")]
    NoSecret(&'static str),
    /// The server wants a method that we do not speak.
    #[error("the server asks for authentication method {0}, which is not supported")]
    UnsupportedMethod(u32),
    /// The server offers SASL without a mechanism of ours.
    #[error("none of the server's SASL authentication mechanisms are supported")]
    UnsupportedMechanisms,
    /// The SCRAM exchange failed.
    #[error("SCRAM authentication with the server failed: {0}")]
    Scram(#[from] ScramError),
    /// The server reports no cancel key, or another surprise at the end.
    #[error("incomplete login: the server sent no cancel key")]
    Incomplete,
    /// A name or value cannot be sent.
    #[error("start-up packet: {0}")]
    Encode(#[from] EncodeError),
}

/// One login.
///
/// ```text
/// start ──► Asked ──Ok──► Welcomed ──ReadyForQuery──► done
///            │  ▲
///            └──┘ password, md5, SCRAM
/// ```
pub struct ServerLogin {
    plan: LoginPlan,
    scram: Option<Box<ScramClient>>,
    /// The server has asked for a proof: it gets one, of one kind (hazard SEC-22).
    is_asked: bool,
    authenticated: bool,
    reported: Reported,
    key: Option<(u32, Box<[u8]>)>,
}

impl ServerLogin {
    /// Begins: the start-up packet goes to `out`.
    ///
    /// # Errors
    /// A NUL in a name or value, or more than a start-up packet holds.
    pub fn start(plan: LoginPlan, out: &mut Vec<u8>) -> Result<Self, LoginFault> {
        let mut parameters: Vec<(&[u8], &[u8])> = vec![
            (b"user", plan.user.as_bytes()),
            (b"database", plan.database.as_bytes()),
        ];
        parameters.extend(
            plan.parameters
                .iter()
                .map(|(n, v)| (n.as_bytes(), v.as_bytes())),
        );
        encode::startup(out, plan.version, &parameters)?;
        Ok(Self {
            plan,
            scram: None,
            is_asked: false,
            authenticated: false,
            reported: Reported::default(),
            key: None,
        })
    }

    /// Takes what the server sent; answers go to `out`. Returns also how many bytes are dealt with.
    ///
    /// # Errors
    /// Why the login is over.
    pub fn handle(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, LoginStep), LoginFault> {
        let mut at = 0;
        check_head(input)?;
        while let Some(message) = frame(input.get(at..).unwrap_or_default(), Side::Backend)? {
            at += message.raw.len();
            check_head(input.get(at..).unwrap_or_default())?;
            match self.message(message.header.tag, message.body, out)? {
                LoginStep::More => {}
                step => return Ok((at, step)),
            }
        }
        Ok((at, LoginStep::More))
    }

    /// Answers [`LoginStep::NeedKeys`].
    ///
    /// # Errors
    /// If the exchange is not at that point.
    pub fn provide_keys(&mut self, keys: &ScramKeys, out: &mut Vec<u8>) -> Result<(), LoginFault> {
        let scram = self.scram.as_mut().ok_or(LoginFault::Incomplete)?;
        encode::sasl_response(out, &scram.provide_keys(keys)?)?;
        Ok(())
    }

    fn message(
        &mut self,
        tag: u8,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, LoginFault> {
        match tag {
            tag::AUTHENTICATION if !self.authenticated => return self.authentication(body, out),
            tag::ERROR_RESPONSE => return Err(LoginFault::Refused(body.into())),
            tag::NOTICE_RESPONSE => {}
            // A server before PostgreSQL 18 says that it speaks 3.0; nothing that we use depends on it.
            tag::NEGOTIATE_PROTOCOL_VERSION if !self.authenticated => {
                backend::NegotiateProtocolVersion::parse(body)?;
            }
            tag::PARAMETER_STATUS if self.authenticated => {
                let status = backend::ParameterStatus::parse(body)?;
                let (name, value) = (
                    String::from_utf8_lossy(status.name),
                    String::from_utf8_lossy(status.value),
                );
                self.reported.set(&name, &value);
            }
            tag::BACKEND_KEY_DATA if self.authenticated => {
                let data = backend::BackendKeyData::parse(body)?;
                self.key = Some((data.pid, data.key.into()));
            }
            tag::READY_FOR_QUERY if self.authenticated => return self.ready(body),
            other => return Err(LoginFault::OutOfPlace(other)),
        }
        Ok(LoginStep::More)
    }

    fn ready(&mut self, body: &[u8]) -> Result<LoginStep, LoginFault> {
        let ready = backend::ReadyForQuery::parse(body)?;
        let (pid, key) = self.key.take().ok_or(LoginFault::Incomplete)?;
        if ready.0 != TransactionStatus::Idle {
            return Err(LoginFault::Incomplete);
        }
        let reported = std::mem::take(&mut self.reported);
        Ok(LoginStep::Done(Box::new(LoggedIn { reported, pid, key })))
    }

    fn authentication(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<LoginStep, LoginFault> {
        let request = Authentication::parse(body)?;
        let asks = matches!(
            request,
            Authentication::CleartextPassword
                | Authentication::Md5 { .. }
                | Authentication::Sasl { .. }
        );
        if asks && std::mem::replace(&mut self.is_asked, true) {
            return Err(LoginFault::OutOfPlace(tag::AUTHENTICATION));
        }
        match request {
            Authentication::Ok => {
                // A server that skips the proof of its own identity in SCRAM is not believed.
                if self.scram.is_some() {
                    return Err(LoginFault::OutOfPlace(tag::AUTHENTICATION));
                }
                self.authenticated = true;
            }
            Authentication::CleartextPassword => {
                let Some(StoredSecret::Plain(password)) = &self.plan.credentials.secret else {
                    return Err(LoginFault::NoSecret("a clear-text password"));
                };
                encode::password(out, password.expose())?;
            }
            Authentication::Md5 { salt } => encode::password(out, &self.md5(salt)?)?,
            Authentication::Sasl { mechanisms } => {
                let mut mechanisms = mechanisms;
                if self.scram.is_some() || !mechanisms.any(|name| name == MECHANISM.as_bytes()) {
                    return Err(LoginFault::UnsupportedMechanisms);
                }
                let scram = self.scram.insert(Box::new(scram(&self.plan)?));
                encode::sasl_initial(out, MECHANISM.as_bytes(), Some(&scram.first_message()?))?;
            }
            Authentication::SaslContinue(text) => {
                let scram = self
                    .scram
                    .as_mut()
                    .ok_or(LoginFault::OutOfPlace(tag::AUTHENTICATION))?;
                match scram.handle_server_first(text)? {
                    Step::NeedKeys(request) => return Ok(LoginStep::NeedKeys(request)),
                    Step::Send(answer) => encode::sasl_response(out, &answer)?,
                }
            }
            Authentication::SaslFinal(text) => {
                let mut scram = self
                    .scram
                    .take()
                    .ok_or(LoginFault::OutOfPlace(tag::AUTHENTICATION))?;
                scram.handle_server_final(text)?;
            }
            Authentication::Unsupported(code) => return Err(LoginFault::UnsupportedMethod(code)),
        }
        Ok(LoginStep::More)
    }

    fn md5(&self, salt: [u8; 4]) -> Result<Vec<u8>, LoginFault> {
        let hash = match &self.plan.credentials.secret {
            Some(StoredSecret::Plain(password)) => {
                md5::hash(password.expose(), self.plan.user.as_bytes())
            }
            Some(StoredSecret::Md5(hash)) => hash.clone(),
            _ => return Err(LoginFault::NoSecret("an MD5 password")),
        };
        Ok(md5::response(&hash, salt).to_vec())
    }
}

/// A message of a login is short: what is not is refused at its head, before it is collected (hazard SEC-21).
fn check_head(input: &[u8]) -> Result<(), LoginFault> {
    match header(input, Side::Backend)? {
        Some(head) if head.total_len() > MESSAGE_MAX => Err(LoginFault::OutOfPlace(head.tag)),
        _ => Ok(()),
    }
}

fn scram(plan: &LoginPlan) -> Result<ScramClient, LoginFault> {
    let nonce = plan.nonce.clone();
    match (&plan.credentials.secret, &plan.credentials.pass_through) {
        (Some(StoredSecret::Plain(password)), _) => Ok(ScramClient::with_password(
            Secret::new(password.expose().to_vec()),
            nonce,
        )),
        (_, Some(keys)) => Ok(ScramClient::with_pass_through(keys.clone(), nonce)),
        _ => Err(LoginFault::NoSecret(
            "a SCRAM proof (a SCRAM secret in auth_file works only for a client that logged in by SCRAM with the \
             identical secret)",
        )),
    }
}
