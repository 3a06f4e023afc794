//! Our own login to a server: start-up packet, authentication, and the parameters that it reports.

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
    /// `server_channel_binding`.
    pub channel_binding: BindingPolicy,
    /// What the connection to the server runs over, and what its certificate gives to bind to.
    pub transport: Transport,
    /// How many PBKDF2 rounds the server may demand (hazard SEC-61); [`weir_auth::kdf::ITERATIONS_MAX`] by default.
    pub iterations_max: u32,
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
    #[error("wrong password type: the server asks for {0}, for which no usable password is known")]
    NoSecret(&'static str),
    /// The server wants a method that we do not speak.
    #[error("the server asks for authentication method {0}, which is not supported")]
    UnsupportedMethod(u32),
    /// The server offers SASL without a mechanism of ours.
    #[error("none of the server's SASL authentication mechanisms are supported")]
    UnsupportedMechanisms,
    /// `server_channel_binding` is not fulfilled (hazard SEC-62); why.
    #[error("channel binding: {0}")]
    ChannelBinding(&'static str),
    /// The SCRAM exchange failed.
    #[error("{}", scram_words(.0))]
    Scram(#[from] ScramError),
    /// The server reports no cancel key, or another surprise at the end.
    #[error("incomplete login: the server sent no cancel key")]
    Incomplete,
    /// The server reports more parameters than are kept.
    #[error(transparent)]
    TooManyReported(#[from] TooManyReported),
    /// A name or value cannot be sent.
    #[error("start-up packet: {0}")]
    Encode(#[from] EncodeError),
}

/// One login.
///
/// ```text
/// start ─┬───────────────────(trust)───────────────┬─Ok──► Welcomed ──ReadyForQuery──► done
///        ├──► Answered (password, md5) ────────────┤
///        └──► Scram ──its signature is right──► Proved
/// ```
///
/// Any error ends it: what comes after is out of place.
pub struct ServerLogin {
    plan: LoginPlan,
    proof: ProofState,
    reported: Reported,
    key: Option<(u32, Box<[u8]>)>,
}

/// How far both sides have proved who they are (hazard SEC-22: the server asks once, for one kind of proof).
enum ProofState {
    /// The server has asked for nothing yet.
    Start,
    /// A password or an MD5 of it was sent; the server proves nothing.
    Answered,
    /// The server has to prove itself yet.
    Scram {
        client: Box<ScramClient>,
        is_bound: bool,
    },
    /// The server knows the verifier.
    Proved { is_bound: bool },
    /// AuthenticationOk was accepted.
    Welcomed,
    /// An error was reported.
    Failed,
}

impl ServerLogin {
    /// Begins: the start-up packet goes to `out`.
    ///
    /// # Errors
    /// A NUL in a name or value, or more than a start-up packet holds; or channel binding is required and the
    /// connection gives nothing to bind to.
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

    /// Takes what the server sent; answers go to `out`. Returns also how many bytes are dealt with.
    ///
    /// # Errors
    /// Why the login is over.
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
    /// If the exchange is not at that point.
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
            // A server before PostgreSQL 18 says that it speaks 3.0; nothing that we use depends on it.
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
                    // A server that skips the proof of its own identity in SCRAM is not believed.
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
        (Some(StoredSecret::Plain(password)), _) => {
            let password = Secret::new(password.expose().to_vec());
            let client = ScramClient::with_password(password, nonce);
            Ok(client.iterations_max(plan.iterations_max))
        }
        // Hazard SEC-64: the secret may have been changed since the client logged in.
        (Some(StoredSecret::Scram(verifier)), Some(keys)) if !keys.matches(verifier) => {
            Err(LoginFault::NoSecret(
                "a SCRAM proof (the client logged in with another SCRAM secret than the one known now)",
            ))
        }
        (_, Some(keys)) => Ok(ScramClient::with_pass_through(keys.clone(), nonce)),
        _ => Err(LoginFault::NoSecret(
            "a SCRAM proof (a SCRAM secret in auth_file works only for a client that logged in by SCRAM with the \
             identical secret)",
        )),
    }
}

/// What is PgBouncer's to say about SCRAM is said in its words.
fn scram_words(error: &ScramError) -> String {
    match error {
        ScramError::SignatureMismatch => error.to_string(),
        _ => format!("SCRAM authentication with the server failed: {error}"),
    }
}

#[cfg(test)]
mod tests;
