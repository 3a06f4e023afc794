//! Protection and login of a connection to a host. The session is logged in like those of pools, but belongs to none, and
//! counts against no limit.

use std::sync::Arc;

use weir_auth::kdf::{KdfRequest, ScramKeys, derive};
use weir_auth::scram::Nonce;
use weir_config::ChannelBinding;
use weir_session::login::{BindingPolicy, Credentials, LoginPlan, ServerLogin, Transport};
use weir_tls::end_point::end_point;
use weir_watch::{Failure, PROBE_SETTINGS};
use weir_wire::startup::Version;

use super::link::{Link, Stage};
use super::message::Message;
use super::spec::WatchLogin;
use super::{Watcher, failure};
use crate::driver::Driver;
use crate::global::random;
use crate::securing::{self, Securing};
use crate::socket::Target;
use crate::tls::{Advanced, Progress};
use crate::transport::{NoSuchSettings, Outgoing};
use crate::worker::ServerId;

/// Name of the connections in `pg_stat_activity`.
const APPLICATION_NAME: &str = "weir watch";

impl<D: Driver> Watcher<D> {
    /// Starts TLS or the login on a connection that has been made. Sockets of this machine need no TLS.
    pub(super) fn connected(&mut self, id: ServerId) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let login = self.watched.get(link.watched).map(|it| &it.spec.login);
        let outgoing = match (&link.target, login) {
            (Some(Target::Tcp(..)), Some(login)) => login.outgoing.clone(),
            (Some(Target::Unix(..) | Target::Abstract(..)), Some(_)) => Ok(None),
            (None, _) | (_, None) => return,
        };
        match outgoing {
            Err(NoSuchSettings) => {
                let text = "the TLS settings of this database are not in force";
                self.fail(id, &failure::of_protection(text));
            }
            Ok(None) => self.log_in(id),
            Ok(Some(outgoing)) if outgoing.is_direct() => self.secure(id, &outgoing),
            Ok(Some(outgoing)) => {
                link.stage = Stage::Negotiating(outgoing);
                self.driver.send(link.key, &securing::request());
            }
        }
    }

    /// Starts a handshake.
    pub(super) fn secure(&mut self, id: ServerId, outgoing: &Outgoing) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Some(target) = &link.target else {
            return;
        };
        let begun = outgoing.handshake(target).and_then(|handshake| {
            let mut securing = Box::new(Securing::new(handshake));
            let step = securing.next_step(&[])?;
            Ok((securing, step))
        });
        match begun {
            Ok((securing, step)) => {
                link.stage = Stage::Securing(securing);
                if let Some(step) = step {
                    self.advance(id, step);
                }
            }
            Err(fault) => self.fail(id, &failure::of_handshake(&fault)),
        }
    }

    /// Lets a helper compute a step of a handshake.
    pub(super) fn advance(&mut self, id: ServerId, step: securing::Step) {
        let mailbox = self.mailbox.clone();
        let job = move || {
            let advanced = Box::new(step.compute());
            mailbox.send_waiting(Message::Handshake { link: id, advanced });
        };
        if self.global.helpers.handshakers.run(job).is_err() {
            self.fail(id, &failure::of_shortage("too many logins in progress"));
        }
    }

    /// Handles a step that a helper has computed. The connection may have been given up meanwhile.
    pub(super) fn advanced(&mut self, id: ServerId, advanced: Advanced) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Stage::Securing(securing) = &mut link.stage else {
            return;
        };
        let mut output = advanced.output;
        match advanced.progress {
            Ok(Progress::More(handshake)) => {
                let has_more = securing.put_back(handshake);
                let step = has_more.then(|| securing.next_step(&[])).transpose();
                self.driver.send(link.key, &output);
                match step.map(Option::flatten) {
                    Ok(None) => {}
                    Ok(Some(step)) => self.advance(id, step),
                    Err(fault) => self.fail(id, &failure::of_handshake(&fault)),
                }
            }
            Ok(Progress::Done(mut session, mut plain)) => {
                let outcome = securing.open_behind(&mut session, &mut plain, &mut output);
                self.driver.send(link.key, &output);
                if let Err(fault) = outcome {
                    return self.fail(id, &failure::of_handshake(&fault));
                }
                let certificate = session.peer_certificate();
                link.end_point = Some(certificate.and_then(|it| end_point(it)).map(Into::into));
                self.driver.secure(link.key, session);
                self.log_in(id);
                if !plain.is_empty() {
                    self.received(id, &plain);
                }
            }
            Err(fault) => {
                self.driver.send(link.key, &output);
                self.fail(id, &failure::of_handshake(&fault));
            }
        }
    }

    /// Starts the login on a connection that is made, and protected if required.
    pub(super) fn log_in(&mut self, id: ServerId) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Some(watched) = self.watched.get(link.watched) else {
            return;
        };
        let mut message = Vec::new();
        let begun = plan(&watched.spec.login, link).and_then(|plan| {
            ServerLogin::start(plan, &mut message).map_err(|fault| failure::of_login(&fault))
        });
        match begun {
            Ok(login) => {
                link.stage = Stage::LoggingIn(Box::new(login));
                self.driver.send(link.key, &message);
            }
            Err(failure) => self.fail(id, &failure),
        }
    }

    /// Derives keys on a helper, or takes them from the cache.
    pub(super) fn derive(&mut self, id: ServerId, request: KdfRequest) {
        if let Some(keys) = self.global.cached_keys(&request) {
            return self.derived(id, &keys);
        }
        let (global, mailbox) = (Arc::clone(&self.global), self.mailbox.clone());
        let job = move || {
            let keys = ScramKeys::from_salted(&derive(&request));
            global.cache_keys(&request, &keys);
            mailbox.send_waiting(Message::Keys { link: id, keys });
        };
        if self.global.helpers.derivers.run(job).is_err() {
            self.fail(id, &failure::of_shortage("too many logins in progress"));
        }
    }

    /// Goes on with a login whose keys are derived. The connection may have been given up meanwhile.
    pub(super) fn derived(&mut self, id: ServerId, keys: &ScramKeys) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Stage::LoggingIn(login) = &mut link.stage else {
            return;
        };
        let mut message = Vec::new();
        match login.provide_keys(keys, &mut message) {
            Ok(()) => {
                self.driver.send(link.key, &message);
            }
            Err(fault) => self.fail(id, &failure::of_login(&fault)),
        }
    }
}

/// Returns the plan of a login.
fn plan(login: &WatchLogin, link: &Link) -> Result<LoginPlan, Failure> {
    let no_random = |_| failure::of_shortage("the operating system provides no random bytes");
    let parameters = [("application_name", APPLICATION_NAME)]
        .into_iter()
        .chain(PROBE_SETTINGS)
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(LoginPlan {
        user: login.user.clone(),
        database: login.dbname.clone(),
        parameters: parameters.collect(),
        version: Version::V3_0,
        credentials: Credentials {
            secret: login.secret.clone(),
            pass_through: None,
        },
        nonce: Nonce::from_random(random().map_err(no_random)?),
        channel_binding: match login.tls.channel_binding {
            ChannelBinding::Disable => BindingPolicy::Disable,
            ChannelBinding::Prefer => BindingPolicy::Prefer,
            ChannelBinding::Require => BindingPolicy::Require,
        },
        transport: match &link.end_point {
            None => Transport::Plain,
            Some(end_point) => Transport::Tls {
                end_point: end_point.clone(),
            },
        },
        iterations_max: login.iterations_max,
    })
}
