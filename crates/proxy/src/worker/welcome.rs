//! The greeting: what a client is told about its session before its first query.
//!
//! A client must be told what PostgreSQL would tell it. So the reported values for a set of start-up parameters come
//! from a server that has these parameters set. The first client with a new set waits for a server's values; later
//! clients do not.

use std::sync::Arc;

use weir_auth::secret::Secret;
use weir_config::PoolMode;
use weir_session::client::{Client as Session, Pin};
use weir_session::relay;
use weir_session::settings::{Reported, Settings};
use weir_session::splice::Splice;
use weir_wire::backend::{ErrorFields, TransactionStatus};
use weir_wire::encode;
use weir_wire::encode::{ErrorReport, Severity};
use weir_wire::sqlstate::SqlState;

use super::Worker;
use super::ids::{ClientId, GroupId, LaneId, ServerId};
use super::slots::Phase;
use crate::driver::Driver;
use crate::global::{lock, random};
use crate::peering;

/// Maximum number of sets of start-up parameters for which a pool remembers the greeting.
const WELCOMES_MAX: usize = 1024;
/// Bytes of a cancel key in protocol 3.2. Keys of protocol 3.0 have four.
const LONG_KEY: usize = 32;
/// Maximum bytes of application_name, where PostgreSQL cuts it (`NAMEDATALEN - 1`).
const APPLICATION_NAME_MAX: usize = 63;

impl<D: Driver> Worker<D> {
    /// Adds an authenticated client to its pool and sends its greeting, or waits for a server that knows the values.
    pub(super) fn greet(
        &mut self,
        id: ClientId,
        (group_id, lane_id): (GroupId, LaneId),
        asked: Arc<Settings>,
    ) {
        let (Some(client), Some(group)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.groups.must_get_mut(group_id),
        ) else {
            return;
        };
        (client.group, client.lane) = (group_id, lane_id);
        client.phase = Phase::Welcome;
        client.is_newcomer = true;
        let names = asked.iter().map(|(name, _)| name);
        group.global.database_state.names.add(names);
        client.session = Session::new(asked, Arc::default());
        let (key, name) = welcome_key(client.session.settings());
        let known = lock(&group.global.welcomes).get(&key).cloned();
        group.clients += 1;
        self.tables.count_clients(self.now, group_id);
        self.arm_sizing(lane_id);
        match known {
            Some(reported) => {
                let reported = with_application_name(&reported, name.as_deref());
                self.enter(id, reported);
                self.take_input(id);
            }
            None => {
                if self.check_out_for(id, None) {
                    let server = self
                        .tables
                        .clients
                        .must_get(id)
                        .and_then(|client| client.lease);
                    if let Some(server) = server {
                        self.ask_for_welcome(id, server);
                    }
                }
            }
        }
        self.pump(lane_id);
    }

    /// Sets a client's start-up parameters on the server that it got for its greeting.
    pub(super) fn ask_for_welcome(&mut self, id: ClientId, server_id: ServerId) {
        let (Some(client), Some(server)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.servers.must_get_mut(server_id),
        ) else {
            return;
        };
        let mut message = Vec::new();
        let mut out = Splice::new(&[], &mut message);
        let mut told = Vec::new();
        let begun = relay::begin(
            &mut client.session,
            &mut server.session,
            &mut out,
            &mut told,
        );
        let bytes = out.finish();
        if begun.is_err() {
            let fault = weir_session::fault::Fault::StartupEncoding;
            return self.fail_client(id, &fault);
        }
        if bytes.is_empty() {
            return self.welcome_known(id, server_id);
        }
        self.driver.send(server.key, bytes);
    }

    /// Handles a server's replies while it takes a client's parameters. Returns the number of bytes handled.
    pub(super) fn welcome_replied(
        &mut self,
        server_id: ServerId,
        id: ClientId,
        input: &[u8],
    ) -> usize {
        let (Some(client), Some(server)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.servers.must_get_mut(server_id),
        ) else {
            return input.len();
        };
        let mut buffer = Vec::new();
        let mut unseen = Splice::new(input, &mut buffer);
        match relay::replies(&mut client.session, &mut server.session, input, &mut unseen) {
            Ok(replied) => {
                if server.session.is_dying() {
                    let hidden = server.session.take_hidden_words();
                    let hidden = hidden.map(|body| as_fatal(&body));
                    let last_words = hidden.as_deref().unwrap_or_else(|| unseen.finish());
                    self.end_client(id, last_words, "server closed during login");
                } else if server.session.has_to_repeat() {
                    let mut message = Vec::new();
                    server.session.resume(&mut message);
                    self.driver.send(server.key, &message);
                } else if server.session.is_free() {
                    self.welcome_known(id, server_id);
                }
                replied.consumed
            }
            Err(fault) => {
                self.server_fault(server_id, &fault);
                input.len()
            }
        }
    }

    /// Remembers what a server reports for the client's parameters, and sends the greeting.
    fn welcome_known(&mut self, id: ClientId, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        let group_id = server.group;
        server.lease = None;
        let mut session = std::mem::replace(
            &mut server.session,
            weir_session::server::Server::new(Arc::default()),
        );
        self.tables.share_reported(group_id, &mut session);
        let reported = Arc::clone(session.reported());
        let default_name = session.default_of("application_name").map(str::to_owned);
        if let Some(server) = self.tables.servers.must_get_mut(server_id) {
            server.session = session;
        }
        if let (Some(client), Some(group)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.groups.must_get(group_id),
        ) {
            client.lease = None;
            let (key, _) = welcome_key(client.session.settings());
            let default_name = default_name.unwrap_or_default();
            let mut welcomes = lock(&group.global.welcomes);
            if welcomes.len() >= WELCOMES_MAX {
                welcomes.clear();
            }
            // The name in the values is this client's own, unless the key has it.
            let general = match key.get("application_name") {
                Some(_) => Arc::clone(&reported),
                None => with_application_name(&reported, Some(&default_name)),
            };
            welcomes.insert(key, general);
        }
        self.release_later(server_id);
        self.enter(id, reported);
        // Requests that the client has sent already find the server free.
        self.take_input_later(id);
    }

    /// Ends a client whose start-up parameter the server refused, with the error that PostgreSQL would send at login.
    pub(super) fn refuse_client(&mut self, id: ClientId, body: &[u8], reason: &str) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.lease = None;
        let message = as_fatal(body);
        self.end_client(id, &message, reason);
    }

    /// Sends AuthenticationOk, parameters, cancel key and ReadyForQuery.
    fn enter(&mut self, id: ClientId, reported: Arc<Reported>) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.phase = Phase::Ready;
        client.request_at = self.now;
        let settings = Arc::clone(client.session.settings());
        client.session = Session::new(Arc::clone(&settings), Arc::clone(&reported));
        client.session.set_number(client.id);
        self.tables.applications.name(client);
        let Ok(message) = self.greeting(id, settings.get("application_name")) else {
            return self.fail_client(id, &weir_session::fault::Fault::NoRandom);
        };
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        self.driver.send(client.key, &message);
        let mut timer = None;
        if let Some(group) = self.tables.groups.must_get_mut(client.group) {
            group.counters.client_logins += 1;
            if group.settings.pool_mode == PoolMode::Session {
                client.session.set_pin(Pin::Session);
            }
            timer = group.has_timeouts.then_some(self.now);
        }
        self.arm_client(id, timer);
        if self.ending.has_begun() {
            self.close_if_idle(id);
        }
    }

    /// Returns the greeting of a client that has been told nothing yet. `name` is its `application_name`, if Weir cuts it.
    pub(super) fn greeting(
        &mut self,
        id: ClientId,
        name: Option<&str>,
    ) -> std::io::Result<Vec<u8>> {
        let mut message = Vec::with_capacity(512);
        let Some(client) = self.tables.clients.must_get(id) else {
            return Ok(message);
        };
        // Everything in the message was read from messages of the same size.
        let _ = encode::authentication_ok(&mut message);
        for (name, value) in client.session.reported().iter() {
            let _ = encode::parameter_status(&mut message, name.as_bytes(), value.as_bytes());
        }
        if let Some(name) = name {
            tell_of_truncation(name, &mut message);
        }
        self.register_for_cancel(id, &mut message)?;
        let notice = &self.global.settled().settings.global.login_notify_message;
        if !notice.is_empty() {
            let code = SqlState::SUCCESSFUL_COMPLETION;
            let report = ErrorReport::new(Severity::Notice, code, notice);
            // An option has no NUL and fits into a message.
            let _ = report.encode_notice(&mut message);
        }
        let _ = encode::ready_for_query(&mut message, TransactionStatus::Idle);
        Ok(message)
    }

    /// Draws a cancel number and key that no other client has, and appends BackendKeyData.
    pub(super) fn register_for_cancel(
        &mut self,
        id: ClientId,
        message: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        let place = self.place_of(id);
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return Ok(());
        };
        let key_len = if client.identity.long_key {
            LONG_KEY
        } else {
            4
        };
        let peer_id = self.global.settled().settings.global.peer_id;
        loop {
            let mut bytes: [u8; 4 + LONG_KEY] = random()?;
            let (pid, key) = bytes.split_at_mut(4);
            // The number is positive: drivers keep it in a signed integer, and 0 means "none" here. It is higher than
            // the id of any process: a client must not take another's notification, which names a server's process, for
            // its own.
            let pid = u32::from_be_bytes(<[u8; 4]>::try_from(&*pid).unwrap_or_default());
            let pid = peering::mark(peer_id, pid & 0x7fff_ffff | 0x4000_0000, key);
            let key = key.get(..key_len).unwrap_or_default();
            if pid != 0 && self.global.register(pid, Secret::new(key.to_vec()), place) {
                client.identity.cancel_pid = pid;
                client.session.set_process(pid);
                // A number and at most 32 bytes fit.
                let _ = encode::backend_key_data(message, pid, key);
                return Ok(());
            }
        }
    }
}

/// Appends PostgreSQL's notice that an application_name is too long, in its words (`truncate_identifier` in scansup.c).
fn tell_of_truncation(name: &str, message: &mut Vec<u8>) {
    if name.len() <= APPLICATION_NAME_MAX {
        return;
    }
    let end = (0..=APPLICATION_NAME_MAX)
        .rev()
        .find(|end| name.is_char_boundary(*end));
    let cut = name.get(..end.unwrap_or_default()).unwrap_or_default();
    let text = format!("identifier \"{name}\" will be truncated to \"{cut}\"");
    let report = ErrorReport::new(Severity::Notice, SqlState::NAME_TOO_LONG, &text);
    // The name came in a start-up packet of at most 10,000 bytes, without a NUL.
    let _ = report.encode_notice(message);
}

/// Returns the parameters that decide the greeting, and the application_name if it only has to be put in. Every
/// connection may have another name, and a server reports plain ASCII as it was sent.
fn welcome_key(settings: &Arc<Settings>) -> (Arc<Settings>, Option<String>) {
    let name = settings.get("application_name").filter(|name| {
        name.len() <= APPLICATION_NAME_MAX && name.bytes().all(|byte| (32..127).contains(&byte))
    });
    match name {
        None => (Arc::clone(settings), None),
        Some(name) => {
            let name = name.to_owned();
            let mut rest = Settings::clone(settings);
            rest.unset("application_name");
            (Arc::new(rest), Some(name))
        }
    }
}

fn with_application_name(reported: &Arc<Reported>, name: Option<&str>) -> Arc<Reported> {
    let Some(name) = name else {
        return Arc::clone(reported);
    };
    if reported.get("application_name") == Some(name) {
        return Arc::clone(reported);
    }
    let mut changed = Reported::clone(reported);
    // This fails only if the server reports no application_name, and too many other parameters.
    let _ = changed.set("application_name", name);
    Arc::new(changed)
}

/// Returns a server's ErrorResponse body as a whole FATAL message.
pub(super) fn as_fatal(body: &[u8]) -> Vec<u8> {
    let mut fields: Vec<(u8, &[u8])> = Vec::new();
    if let Ok(parsed) = ErrorFields::parse(body) {
        for (field, value) in parsed {
            let value = if matches!(field, b'S' | b'V') {
                b"FATAL"
            } else {
                value
            };
            fields.push((field, value));
        }
    }
    let mut message = Vec::new();
    // The fields come from a message that was no longer.
    let _ = encode::error_response(&mut message, &fields);
    message
}
