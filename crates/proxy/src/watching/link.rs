//! Connection of the watching thread to one host. Pure: bytes come in; bytes and steps for the thread go out.
//!
//! ```text
//! Resolving ─► Connecting ─┬─► Negotiating ─► Securing ─┐
//!                          ├──────────────────► ────────┼─► LoggingIn ─► Idle ◄─► Asked
//!                          └────────(no TLS)────────────┘
//! ```
//!
//! Any failure ends the connection; the next probe makes another one.

use std::net::IpAddr;
use std::sync::Arc;

use slotmap::Key as _;
use weir_auth::kdf::KdfRequest;
use weir_pool::Moment;
use weir_session::login::{LoginStep, ServerLogin};
use weir_watch::{Answer, Failure};

use super::reply::{Reply, between_probes};
use super::{WatchedId, failure};
use crate::driver::Key;
use crate::securing::{self, Securing};
use crate::socket::Target;
use crate::transport::Outgoing;

/// State of a connection.
pub(super) enum Stage {
    /// A probe is under way.
    Asked(Reply),
    Connecting,
    /// The connection is logged in, and no probe is under way.
    Idle,
    LoggingIn(Box<ServerLogin>),
    /// The answer to the request for TLS is awaited.
    Negotiating(Arc<Outgoing>),
    /// A helper looks the host's name up.
    Resolving(Arc<str>),
    Securing(Box<Securing>),
}

/// Next step of a connection, for the thread.
pub(super) enum Step {
    /// Let a helper compute a step of the handshake.
    Advance(Box<securing::Step>),
    /// The host has answered the probe.
    Answered(Answer),
    /// The login is done: send the probe.
    Ask,
    /// Let a helper derive keys.
    Derive(KdfRequest),
    /// Start the login.
    LogIn,
    /// Wait for more bytes.
    More,
    /// Start a handshake.
    Secure(Arc<Outgoing>),
}

/// See the module's page.
pub(super) struct Link {
    /// Cluster of the host, and the host's place in it.
    pub(super) watched: WatchedId,
    pub(super) host: usize,
    /// Connection in the driver; null while there is none.
    pub(super) key: Key,
    /// Address in use.
    pub(super) target: Option<Target>,
    /// Addresses that are left to try.
    pub(super) rest: Vec<Target>,
    pub(super) stage: Stage,
    /// Bytes that were received and not handled.
    input: Vec<u8>,
    /// Time by which the current attempt or probe must be over; none between two probes.
    pub(super) deadline: Option<Moment>,
    /// Time read before the probe was sent.
    pub(super) sent: Moment,
    /// True if the host has answered a probe on this connection.
    pub(super) has_answered: bool,
    /// True if the host's name was found to have lost the address of this connection.
    pub(super) is_superseded: bool,
    /// Channel binding data of the host's certificate; none before a handshake.
    pub(super) end_point: Option<Option<Box<[u8]>>>,
}

impl Link {
    /// Makes a connection that does not exist for the driver yet.
    pub(super) fn new(watched: WatchedId, host: usize, deadline: Moment) -> Self {
        Self {
            watched,
            host,
            key: Key::null(),
            target: None,
            rest: Vec::new(),
            stage: Stage::Connecting,
            input: Vec::new(),
            deadline: Some(deadline),
            sent: Moment(0),
            has_answered: false,
            is_superseded: false,
            end_point: None,
        }
    }

    /// Returns the name of the host and the address that it was resolved to; none if the host has no name.
    pub(super) fn named_address(&self) -> Option<(Arc<str>, IpAddr)> {
        match &self.target {
            Some(Target::Tcp(address, Some(name))) => Some((Arc::clone(name), address.ip())),
            _ => None,
        }
    }

    /// Adds received bytes; then call [`Link::step`] until it returns [`Step::More`].
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Handles received bytes, and writes answers to `out`.
    ///
    /// # Errors
    /// The connection has failed.
    pub(super) fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, Failure> {
        match &mut self.stage {
            Stage::Connecting | Stage::Resolving(_) => Ok(Step::More),
            Stage::Negotiating(_) | Stage::Securing(_) if self.input.is_empty() => Ok(Step::More),
            Stage::Negotiating(outgoing) => negotiated(outgoing, &std::mem::take(&mut self.input)),
            Stage::Securing(securing) => {
                let step = securing.next_step(&std::mem::take(&mut self.input));
                let step = step.map_err(|fault| failure::of_handshake(&fault))?;
                Ok(step.map_or(Step::More, |step| Step::Advance(Box::new(step))))
            }
            Stage::LoggingIn(login) => {
                let (len, step) = login
                    .handle(&self.input, out)
                    .map_err(|fault| failure::of_login(&fault))?;
                self.input.drain(..len);
                Ok(match step {
                    LoginStep::More => Step::More,
                    LoginStep::NeedKeys(request) => Step::Derive(request),
                    LoginStep::Done(_) => {
                        self.stage = Stage::Idle;
                        Step::Ask
                    }
                })
            }
            Stage::Idle => {
                let len = between_probes(&self.input)?;
                self.input.drain(..len);
                Ok(Step::More)
            }
            Stage::Asked(reply) => {
                let (len, answer) = reply.handle(&self.input)?;
                self.input.drain(..len);
                Ok(match answer {
                    None => Step::More,
                    Some(answer) => {
                        self.stage = Stage::Idle;
                        self.deadline = None;
                        self.has_answered = true;
                        Step::Answered(answer)
                    }
                })
            }
        }
    }

    /// Returns the name of the current step, for the log.
    pub(super) fn doing(&self) -> &'static str {
        match self.stage {
            Stage::Asked(_) => "probe",
            Stage::Connecting => "connect",
            Stage::Idle => "pause",
            Stage::LoggingIn(_) => "login",
            Stage::Negotiating(_) | Stage::Securing(_) => "TLS handshake",
            Stage::Resolving(_) => "name look-up",
        }
    }

    /// True if PostgreSQL knows the connection as a session that a Terminate ends.
    pub(super) fn is_logged_in(&self) -> bool {
        matches!(self.stage, Stage::Asked(_) | Stage::Idle)
    }
}

fn negotiated(outgoing: &Arc<Outgoing>, input: &[u8]) -> Result<Step, Failure> {
    match securing::answer(input) {
        securing::Answer::Yes => Ok(Step::Secure(Arc::clone(outgoing))),
        securing::Answer::No if outgoing.is_required() => Err(failure::of_protection(
            "server does not support SSL, but SSL was required",
        )),
        securing::Answer::No => Ok(Step::LogIn),
        securing::Answer::Strange(text) => Err(failure::of_nonsense(text)),
    }
}
