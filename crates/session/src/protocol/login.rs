//! Weir's own login to a server: start-up packet, authentication, and the parameters that the server reports.

mod binding;

use weir_auth::kdf::{KdfRequest, ScramKeys};
use weir_auth::md5;
use weir_auth::scram::{ChannelBinding, Nonce, PassThrough, ScramClient, ScramError, Step};
use weir_auth::secret::Secret;
use weir_auth::stored::StoredSecret;
use weir_wire::MessageError;
use weir_wire::backend::{self, Authentication, TransactionStatus, tag};
use weir_wire::encode::{self, EncodeError};
use weir_wire::frame::{FrameError, Side, frame, header};
use weir_wire::startup::Version;

use crate::settings::{Reported, TooManyReported};

pub use binding::{BindingPolicy, Transport};

/// Maximum length of a message during login, including errors and notices (libpq's limit for errors before the login is
/// over).
const MESSAGE_MAX: usize = 30_000;

/// Credentials for a server login.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Secret from the configuration or the auth_file.
    pub secret: Option<StoredSecret>,
    /// Keys from the client's own SCRAM login (hazard SEC-64: only with an identical verifier, and no forced user).
    pub pass_through: Option<PassThrough>,
}

/// Parameters of a login.
#[derive(Clone)]
pub struct LoginPlan {
    /// Role to log in as.
    pub user: String,
    /// Database on the server.
    pub database: String,
    /// Further start-up parameters.
    pub parameters: Vec<(String, String)>,
    /// Protocol version to ask for.
    pub version: Version,
    /// Credentials to prove the role.
    pub credentials: Credentials,
    /// Nonce for our part of a SCRAM exchange; must never be used twice.
    pub nonce: Nonce,
    /// `server_channel_binding`.
    pub channel_binding: BindingPolicy,
    /// Transport of the connection to the server, with the certificate hash for channel binding.
    pub transport: Transport,
    /// Maximum number of PBKDF2 rounds that the server may demand (hazard SEC-61); [`weir_auth::kdf::ITERATIONS_MAX`]
    /// by default.
    pub iterations_max: u32,
}

/// A finished login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// ParameterStatus values of the server.
    pub reported: Reported,
    /// The server's process id, for cancels.
    pub pid: u32,
    /// The server's cancel key.
    pub key: Box<[u8]>,
}

/// Next step of a login.
pub enum LoginStep {
    /// Incomplete: wait for more bytes.
    More,
    /// Derive keys off the event loop, then call [`ServerLogin::provide_keys`].
    NeedKeys(KdfRequest),
    /// The login succeeded; the server is ready.
    Done(Box<LoggedIn>),
}

/// Reason for which a login failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginFault {
    /// The server refused the login; body of its ErrorResponse.
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
    /// The server asks for a password, and no known secret fits its method.
    #[error(
        "wrong password type: the server asks for {0}, and Weir has no such secret of this user: add the password to auth_file, or to the \
         URL of --upstream"
    )]
    NoSecret(&'static str),
    /// The server asks for a method that Weir does not support.
    #[error("the server asks for authentication method {0}, which is not supported")]
    UnsupportedMethod(u32),
    /// The server offers no SASL mechanism that Weir supports.
    #[error("none of the server's SASL authentication mechanisms are supported")]
    UnsupportedMechanisms,
    /// `server_channel_binding` is not satisfied (hazard SEC-62); reason.
    #[error("channel binding: {0}")]
    ChannelBinding(&'static str),
    /// The SCRAM exchange failed.
    #[error("{}", scram_words(.0))]
    Scram(#[from] ScramError),
    /// The server sent no cancel key, or the login ended in an unexpected state.
    #[error("incomplete login: the server sent no cancel key")]
    Incomplete,
    /// The server reports more parameters than Weir keeps.
    #[error(transparent)]
    TooManyReported(#[from] TooManyReported),
    /// A name or value cannot be encoded.
    #[error("start-up packet: {0}")]
    Encode(#[from] EncodeError),
}

/// Login to a server, in progress.
///
/// ```text
/// start ─┬───────────────────(trust)───────────────┬─Ok──► Welcomed ──ReadyForQuery──► done
///        ├──► Answered (password, md5) ────────────┤
///        └──► Scram ──its signature is right──► Proved
/// ```
///
/// Any error ends the login: every later message is out of place.
pub struct ServerLogin {
    plan: LoginPlan,
    proof: ProofState,
    reported: Reported,
    key: Option<(u32, Box<[u8]>)>,
}

/// Progress of authentication on both sides (hazard SEC-22: the server asks once, for one kind of proof).
enum ProofState {
    /// The server has asked for nothing yet.
    Start,
    /// A password or its MD5 hash was sent; the server proves nothing.
    Answered,
    /// The server still has to prove that it knows the verifier.
    Scram {
        client: Box<ScramClient>,
        is_bound: bool,
    },
    /// The server has proved that it knows the verifier.
    Proved { is_bound: bool },
    /// AuthenticationOk was accepted.
    Welcomed,
    /// The login has failed.
    Failed,
}

impl ServerLogin {
    /// Starts a login and writes the start-up packet to `out`.
    ///
    /// # Errors
    /// Fails on a NUL in a name or value, or if the start-up packet is too long. Also fails if channel binding is
    /// required and the connection has no hash to bind to.
    pub fn start(plan: LoginPlan, out: &mut Vec<u8>) -> Result<Self, LoginFault> {
        binding::check_transport(plan.channel_binding, &plan.transport)?;
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
            proof: ProofState::Start,
            reported: Reported::default(),
            key: None,
        })
    }

    /// Processes bytes from the server and writes answers to `out`. Returns the number of bytes consumed and the next
    /// step.
    ///
    /// # Errors
    /// Returns the reason for which the login is over.
    pub fn handle(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, LoginStep), LoginFault> {
        let result = self.messages(input, out);
        if result.is_err() {
            self.proof = ProofState::Failed;
        }
        result
    }

    fn messages(
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
    /// Fails if the exchange is not at that point.
    pub fn provide_keys(&mut self, keys: &ScramKeys, out: &mut Vec<u8>) -> Result<(), LoginFault> {
        let ProofState::Scram { client, .. } = &mut self.proof else {
            return Err(LoginFault::Incomplete);
        };
        encode::sasl_response(out, &client.provide_keys(keys)?)?;
        Ok(())
    }

    fn message(
        &mut self,
        tag: u8,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, LoginFault> {
        let welcomed = matches!(self.proof, ProofState::Welcomed);
        match tag {
            _ if matches!(self.proof, ProofState::Failed) => {
                return Err(LoginFault::OutOfPlace(tag));
            }
            tag::AUTHENTICATION if !welcomed => return self.authentication(body, out),
            tag::ERROR_RESPONSE => return Err(LoginFault::Refused(body.into())),
            tag::NOTICE_RESPONSE => {}
            // A server before PostgreSQL 18 answers that it speaks 3.0. Weir uses nothing that depends on this.
            tag::NEGOTIATE_PROTOCOL_VERSION if !welcomed => {
                backend::NegotiateProtocolVersion::parse(body)?;
            }
            tag::PARAMETER_STATUS if welcomed => {
                let status = backend::ParameterStatus::parse(body)?;
                let (name, value) = (
                    String::from_utf8_lossy(status.name),
                    String::from_utf8_lossy(status.value),
                );
                self.reported.set(&name, &value)?;
            }
            tag::BACKEND_KEY_DATA if welcomed => {
                let data = backend::BackendKeyData::parse(body)?;
                self.key = Some((data.pid, data.key.into()));
            }
            tag::READY_FOR_QUERY if welcomed => return self.ready(body),
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
        let out_of_place = LoginFault::OutOfPlace(tag::AUTHENTICATION);
        match (Authentication::parse(body)?, &mut self.proof) {
            (Authentication::Ok, proof) => {
                let is_bound = match proof {
                    ProofState::Start | ProofState::Answered => false,
                    ProofState::Proved { is_bound } => *is_bound,
                    // In SCRAM, a server that skips the proof of its own identity is not trusted.
                    _ => return Err(out_of_place),
                };
                binding::check_welcome(self.plan.channel_binding, is_bound)?;
                self.proof = ProofState::Welcomed;
            }
            (Authentication::CleartextPassword, ProofState::Start) => {
                binding::check_unbound_method(self.plan.channel_binding)?;
                let Some(StoredSecret::Plain(password)) = &self.plan.credentials.secret else {
                    return Err(LoginFault::NoSecret("a clear-text password"));
                };
                encode::password(out, password.expose())?;
                self.proof = ProofState::Answered;
            }
            (Authentication::Md5 { salt }, ProofState::Start) => {
                binding::check_unbound_method(self.plan.channel_binding)?;
                encode::password(out, &self.md5(salt)?)?;
                self.proof = ProofState::Answered;
            }
            (Authentication::Sasl { mechanisms }, ProofState::Start) => {
                self.begin_scram(mechanisms, out)?;
            }
            (Authentication::SaslContinue(text), ProofState::Scram { client, .. }) => {
                match client.handle_server_first(text)? {
                    Step::NeedKeys(request) => return Ok(LoginStep::NeedKeys(request)),
                    Step::Send(answer) => encode::sasl_response(out, &answer)?,
                }
            }
            (Authentication::SaslFinal(text), ProofState::Scram { client, is_bound }) => {
                client.handle_server_final(text)?;
                let is_bound = *is_bound;
                self.proof = ProofState::Proved { is_bound };
            }
            (Authentication::Unsupported(code), _) => {
                return Err(LoginFault::UnsupportedMethod(code));
            }
            _ => return Err(out_of_place),
        }
        Ok(LoginStep::More)
    }

    fn begin_scram<'a>(
        &mut self,
        mechanisms: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), LoginFault> {
        let (policy, transport) = (self.plan.channel_binding, &self.plan.transport);
        let (mechanism, binding) = binding::choose(policy, transport, mechanisms)?;
        let is_bound = matches!(binding, ChannelBinding::EndPoint(_));
        let mut client = Box::new(scram(&self.plan)?.channel_binding(binding));
        encode::sasl_initial(out, mechanism.as_bytes(), Some(&client.first_message()?))?;
        self.proof = ProofState::Scram { client, is_bound };
        Ok(())
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

/// Refuses an overlong login message at its header, before it is collected (hazard SEC-21).
fn check_head(input: &[u8]) -> Result<(), LoginFault> {
    match header(input, Side::Backend)? {
        Some(head) if head.total_len() > MESSAGE_MAX => Err(LoginFault::OutOfPlace(head.tag)),
        _ => Ok(()),
    }
}

fn scram(plan: &LoginPlan) -> Result<ScramClient, LoginFault> {
    let nonce = plan.nonce.clone();
    match (&plan.credentials.secret, &plan.credentials.pass_through) {
        (Some(StoredSecret::Plain(password)), _) => {
            let password = Secret::new(password.expose().to_vec());
            let client = ScramClient::with_password(password, nonce);
            Ok(client.iterations_max(plan.iterations_max))
        }
        // Hazard SEC-64: the secret may have changed since the client logged in.
        (Some(StoredSecret::Scram(verifier)), Some(keys)) if !keys.matches(verifier) => {
            Err(LoginFault::NoSecret(
                "a SCRAM proof (the client logged in with another SCRAM secret than the one known now)",
            ))
        }
        (_, Some(keys)) => Ok(ScramClient::with_pass_through(keys.clone(), nonce)),
        _ => Err(LoginFault::NoSecret(
            "a SCRAM proof (only the password, or the SCRAM secret that the client logged in with, will do)",
        )),
    }
}

/// Returns the text of a SCRAM error, in PgBouncer's words where it has any.
fn scram_words(error: &ScramError) -> String {
    match error {
        ScramError::SignatureMismatch => error.to_string(),
        _ => format!("SCRAM authentication with the server failed: {error}"),
    }
}

#[cfg(test)]
mod tests;
