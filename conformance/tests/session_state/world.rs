//! A cluster with two equal databases, and a pooler in front of one of them.
//!
//! The other database is the oracle: each script runs there first, with direct connections to PostgreSQL, and every
//! answer at the target must be equal.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Hosts;
use weir_conformance::Kind;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::answer::Answer;
use weir_conformance::hosts;
use weir_conformance::postgres;
use weir_conformance::wait_until;

use crate::script::Action;
use crate::script::Script;
use crate::script::Step;
use crate::session::Protocol;
use crate::session::Session;

/// Queries that describe a connection without history.
const TRUTH: [&str; 8] = [
    // A library adds settings that a new connection does not have yet.
    "select name, setting from pg_settings where name !~ '[.]' or setting <> boot_val order by 1",
    "select current_user, session_user, current_schemas(false)::text",
    "select locktype, mode from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
    "select pg_listening_channels()",
    "select relname from pg_class where relnamespace = pg_my_temp_schema() order by 1",
    "select proname from pg_proc where pronamespace = pg_my_temp_schema() order by 1",
    "select name from pg_prepared_statements where from_sql",
    "select name from pg_cursors where name <> ''",
];

/// Time limit for background actions of the pooler.
pub(crate) const WAIT: Duration = Duration::from_secs(15);

/// Number of servers of a pool whose clients belong to several workers.
const CROWDED: u32 = 4;

/// Settings with which the pooler queries a server's state after every transaction.
pub(crate) const ALWAYS_ASKED: &[(&str, &str)] = &[("session_state_check", "always")];

/// Cluster that the tests of this suite share while any of them runs.
pub(crate) fn cluster() -> Result<Arc<Hosts>> {
    static SHARED: Mutex<Weak<Hosts>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return Ok(running);
    }
    let options = postgres::Options {
        max_connections: 700,
        settings: vec!["max_prepared_transactions = 20".to_owned()],
        ..postgres::Options::default()
    };
    let started = Arc::new(Hosts::start(&options)?);
    *shared = Arc::downgrade(&started);
    Ok(started)
}

/// True if the target is PostgreSQL itself.
pub(crate) fn is_direct() -> Result<bool> {
    Ok(Kind::from_env()? == Kind::Direct)
}

/// Runs every script in the three protocols at the target, with PostgreSQL as the oracle.
///
/// `fixture` runs in both databases first. The error lists every script with a difference.
pub(crate) fn check(kind: &str, fixture: &str, scripts: &[Script]) -> Result<()> {
    let mut world = World::start(kind, fixture, scripts, &[])?;
    world.check_all(kind, scripts)
}

/// Checks like [`check`], with additional settings of the pooler.
pub(crate) fn check_with(
    kind: &str,
    fixture: &str,
    settings: &[(&str, &str)],
    scripts: &[Script],
) -> Result<()> {
    let mut world = World::start(kind, fixture, scripts, settings)?;
    world.check_all(kind, scripts)
}

/// A pair of databases, and a pooler unless the target is direct.
pub(crate) struct World {
    postgres: Arc<Hosts>,
    weir: Option<Weir>,
    oracle: String,
    subject: String,
    fixture: String,
    /// Connections to the pooler's console and directly to each host.
    watch: Option<RefCell<(Raw, Vec<Raw>)>>,
}

impl World {
    /// Creates the databases and starts the pooler with a pool for each script and protocol.
    pub(crate) fn start(
        kind: &str,
        fixture: &str,
        scripts: &[Script],
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let postgres = cluster()?;
        let (oracle, subject) = (format!("{kind}_oracle"), format!("{kind}_subject"));
        let mut config = Config::new()
            .set("query_wait_timeout", "10")
            .set("query_wait_notify", "0")
            .set("catalogue_refresh", "15")
            .set("max_prepared_statements", "100")
            .userlist("\"postgres\" \"\"\n\"owner\" \"\"\n");
        for (key, value) in settings {
            config = config.set(key, value);
        }
        let mut entries = 0;
        for (number, script) in scripts.iter().enumerate() {
            for protocol in pools(number, script, hosts::replicas()?) {
                entries += 1;
                config = config.database(&format!(
                    "{} = {} dbname={subject} pool_size={}",
                    alias(number, protocol),
                    postgres.entry(read_consistency(protocol)),
                    script.servers
                ));
            }
        }
        // A worker knows the load of its own clients only, and the check for clean replicas counts on an even load.
        let is_even = scripts.iter().all(|script| script.servers < CROWDED);
        if hosts::replicas()? > 0 && is_even {
            config = config.workers(1);
        }
        let weir = match Kind::from_env()? {
            Kind::Direct => None,
            Kind::Weir => Some(Weir::start(&config)?),
            Kind::PgBouncer => bail!("this suite runs against weir or direct"),
        };
        let watch = match &weir {
            Some(weir) => {
                let ports = [postgres.port()].into_iter();
                let ports = ports.chain(postgres.replica_ports());
                let watchers = ports.map(|port| Raw::connect(port, "postgres"));
                let watchers = watchers.collect::<Result<_>>()?;
                Some(RefCell::new((weir.connect("pgbouncer")?, watchers)))
            }
            None => None,
        };
        let world = Self {
            postgres,
            watch,
            weir,
            oracle,
            subject,
            fixture: fixture.to_owned(),
        };
        world.make_databases()?;
        if let Some(weir) = &world.weir {
            world.postgres.wait_watched(weir, entries)?;
        }
        Ok(world)
    }

    fn make_databases(&self) -> Result<()> {
        for database in [&self.oracle, &self.subject] {
            self.postgres.create_database(database)?;
            let mut direct = Raw::connect(self.postgres.port(), database)?;
            let fixture = self.fixture.replace("{database}", database);
            direct.query(&fixture).context("fixture")?;
            direct.terminate();
        }
        self.postgres.settle()
    }

    /// Runs all scripts; the error contains every difference.
    pub(crate) fn check_all(&mut self, kind: &str, scripts: &[Script]) -> Result<()> {
        let only = env::var("SESSION_STATE_ONLY").unwrap_or_default();
        let mut faults = Vec::new();
        let mut count = 0;
        for (number, script) in scripts.iter().enumerate() {
            for &protocol in protocols(script) {
                for moves in [false, true] {
                    let name = format!("{kind}/{} {protocol:?} moves={moves}", script.name);
                    let is_chosen = is_chosen(number, protocol, protocols(script).len());
                    let skipped = if self.postgres.replica_ports().is_empty() {
                        moves && !(self.can_move(script) && is_chosen)
                    } else {
                        // Once per script, so that the run over replicas stays short.
                        moves || !is_chosen
                    };
                    if !name.contains(&only) || skipped {
                        continue;
                    }
                    count += 1;
                    let play = Play {
                        alias: alias(number, protocol),
                        protocol,
                        moves,
                    };
                    if let Err(error) = self.check_one(script, &play) {
                        // The script was interrupted before its cleanup at the end.
                        self.make_databases()?;
                        faults.push(format!("== {name}: {error:#}"));
                    }
                }
            }
        }
        if let Some(weir) = &mut self.weir {
            weir.check_healthy()?;
            self.postgres.check_shared(weir)?;
        }
        ensure!(
            faults.is_empty(),
            "{} of {count} went another way:\n{}",
            faults.len(),
            faults.join("\n")
        );
        Ok(())
    }

    /// Port and database of PostgreSQL itself.
    pub(crate) fn oracle(&self) -> (u16, &str) {
        (self.postgres.port(), &self.oracle)
    }

    /// Port and database of the target's pool `alias`.
    pub(crate) fn target<'a>(&'a self, alias: &'a str) -> (u16, &'a str) {
        match &self.weir {
            Some(weir) => (weir.port(), alias),
            None => (self.postgres.port(), &self.subject),
        }
    }

    /// True if every step can run on a new server, which requires that no state pins.
    fn can_move(&self, script: &Script) -> bool {
        self.weir.is_some() && script.moves
    }

    fn check_one(&self, script: &Script, play: &Play) -> Result<()> {
        let expected = self.record(script, play.protocol);
        let (port, database) = self.target(&play.alias);
        let mut stage = Stage::new(port, database);
        stage.console = self
            .weir
            .as_ref()
            .map(|weir| Raw::connect(weir.port(), "pgbouncer"))
            .transpose()?;
        let mut outcome = Ok(());
        for (number, (step, expected)) in script.steps.iter().zip(expected).enumerate() {
            if play.moves && stage.is_idle() {
                self.close_servers()?;
            }
            let answer = stage.step(step, play.protocol);
            self.postgres.settle()?;
            let is_refused = refusal(step).is_some_and(|state| answer.failed_with(state));
            let difference = expected.difference(&answer);
            if !difference.is_empty() && !is_refused {
                outcome = Err(anyhow::anyhow!(
                    "step {} `{}`\n{}",
                    number + 1,
                    step.text,
                    difference.trim_end()
                ));
                break;
            }
        }
        if outcome.is_ok() {
            outcome = stage.check_reported();
        }
        stage.empty();
        outcome = outcome.and_then(|()| self.check_clean(play, script.servers));
        self.close_servers()?;
        outcome
    }

    /// PostgreSQL's answers to all steps.
    fn record(&self, script: &Script, protocol: Protocol) -> Vec<Answer> {
        let mut stage = Stage::new(self.postgres.port(), &self.oracle);
        let steps = script.steps.iter();
        let answers = steps.map(|step| stage.step(step, protocol)).collect();
        stage.empty();
        answers
    }

    /// Checks that after all clients have left every server of the pool looks like a new connection.
    pub(crate) fn check_clean(&self, play: &Play, servers: u32) -> Result<()> {
        let mut fresh = Session::connect(self.postgres.port(), &self.subject, &[])?;
        let expected = truth(&mut fresh)?;
        fresh.leave();
        let (port, database) = self.target(&play.alias);
        let mut holders = Vec::new();
        for number in 0..servers {
            let mut holder = Session::connect(port, database, &[])?;
            let last = holder.simple("select lastval()")?;
            let has_none = last.iter().any(|line| line.starts_with("E ERROR 55000 "));
            ensure!(has_none, "left behind: lastval is {last:?}");
            let begun = holder.simple("begin")?;
            ensure!(holder.status() == b'T', "holder {number}: {begun:?}");
            let found = truth(&mut holder)?;
            for (expected, found) in expected.iter().zip(&found) {
                ensure!(
                    expected == found,
                    "left behind: a new connection has {expected}, this one {found}"
                );
            }
            holders.push(holder);
        }
        for mut holder in holders {
            holder.simple("rollback")?;
            holder.leave();
        }
        self.check_clean_replicas(play, servers)
    }

    /// Checks the servers on the replicas as [`World::check_clean`].
    fn check_clean_replicas(&self, play: &Play, servers: u32) -> Result<()> {
        let replicas = self.postgres.replica_ports();
        if self.weir.is_none() || replicas.is_empty() {
            return Ok(());
        }
        let mut fresh = BTreeMap::new();
        for replica in replicas {
            let mut session = Session::connect(replica, &self.subject, &[])?;
            fresh.insert(replica.to_string(), truth(&mut session)?);
            session.leave();
        }
        let (port, database) = self.target(&play.alias);
        let mut holders = Vec::new();
        let mut seen = BTreeMap::new();
        // A new transaction goes to the replica with fewer of them.
        let is_even = servers < CROWDED;
        let count = if is_even { fresh.len() } else { 1 };
        for _ in 0..count * usize::try_from(servers)? {
            let mut holder = Session::connect(port, database, &[])?;
            let mut replica = String::new();
            // On a busy machine the replicas may be behind, and the transaction begins on the primary.
            wait_until("a transaction on a replica", WAIT, || {
                let begun = holder.simple("begin read only")?;
                ensure!(holder.status() == b'T', "{begun:?}");
                let shown = holder.rows("show port")?.concat();
                shown.trim_matches(['[', ']']).clone_into(&mut replica);
                let is_there = fresh.contains_key(&replica);
                if !is_there {
                    holder.simple("rollback")?;
                }
                Ok(is_there)
            })?;
            let expected = fresh.get(&replica);
            let expected = expected.with_context(|| format!("no replica at {replica}"))?;
            *seen.entry(replica).or_insert(0) += 1;
            for (expected, found) in expected.iter().zip(&truth(&mut holder)?) {
                ensure!(
                    expected == found,
                    "left behind on a replica: a new connection has {expected}, this one {found}"
                );
            }
            holders.push(holder);
        }
        for mut holder in holders {
            holder.simple("rollback")?;
            holder.leave();
        }
        let is_whole = fresh
            .keys()
            .all(|replica| seen.get(replica) == Some(&servers));
        ensure!(is_whole || !is_even, "{seen:?}");
        Ok(())
    }

    /// Closes the pooler's idle servers, and waits until it has noticed.
    pub(crate) fn close_servers(&self) -> Result<()> {
        let Some(watch) = &self.watch else {
            return Ok(());
        };
        let (console, watchers) = &mut *watch.borrow_mut();
        let mut servers = Vec::new();
        // A server whose state is being queried has not been released yet.
        let idle = wait_until("idle servers", WAIT, || {
            servers = states(console)?;
            Ok(servers.iter().all(|state| state == "idle"))
        });
        idle.with_context(|| format!("{servers:?}"))?;
        let of_subject = format!("from pg_stat_activity where datname = '{}'", self.subject);
        for watcher in watchers.iter_mut() {
            watcher.query(&format!("select pg_terminate_backend(pid) {of_subject}"))?;
        }
        let count = format!("select count(*) {of_subject}");
        let closed = wait_until("the end of the servers", WAIT, || {
            servers = states(console)?;
            let mut is_none = servers.is_empty();
            for watcher in watchers.iter_mut() {
                is_none = is_none && watcher.query_one(&count)? == "0";
            }
            Ok(is_none)
        });
        closed.with_context(|| format!("{servers:?}"))
    }
}

/// States of the pooler's servers.
fn states(console: &mut Raw) -> Result<Vec<String>> {
    let servers = console.query_named("show servers")?.into_iter();
    Ok(servers
        .filter_map(|mut server| server.remove("state"))
        .collect())
}

/// A run of a script.
pub(crate) struct Play {
    pub(crate) alias: String,
    protocol: Protocol,
    /// True if every step outside of transactions runs on new servers.
    moves: bool,
}

impl Play {
    /// Run of the script with this number, in the simple protocol.
    pub(crate) fn simple(number: usize) -> Self {
        Self {
            alias: alias(number, Protocol::Simple),
            protocol: Protocol::Simple,
            moves: false,
        }
    }
}

/// Clients of a script.
struct Stage<'a> {
    port: u16,
    database: &'a str,
    sessions: BTreeMap<char, Session>,
    /// Connection to the pooler's console, for reading pins.
    console: Option<Raw>,
}

impl<'a> Stage<'a> {
    fn new(port: u16, database: &'a str) -> Self {
        Self {
            port,
            database,
            sessions: BTreeMap::new(),
            console: None,
        }
    }

    fn is_idle(&self) -> bool {
        self.sessions.values().all(Session::is_idle)
    }

    fn step(&mut self, step: &Step, protocol: Protocol) -> Answer {
        self.try_step(step, protocol)
            .unwrap_or_else(|error| Answer {
                lines: vec![format!("lost: {error:#}")],
                ..Answer::default()
            })
    }

    fn try_step(&mut self, step: &Step, protocol: Protocol) -> Result<Answer> {
        let nothing: &[(String, String)] = &[];
        let more = match &step.action {
            Action::Connect(parameters) => parameters,
            _ => nothing,
        };
        match &step.action {
            Action::Pinned(reason) => self.check_pin(step, reason)?,
            Action::Leave => self.take(step)?.leave(),
            Action::Vanish => self.take(step)?.vanish()?,
            _ => {
                if !self.sessions.contains_key(&step.client) {
                    let session = Session::connect(self.port, self.database, more)?;
                    self.sessions.insert(step.client, session);
                }
                let session = self.sessions.get_mut(&step.client);
                let session = session.context("no such client")?;
                return Ok(session.act(&step.action, protocol));
            }
        }
        Ok(Answer::default())
    }

    /// Waits until the pooler shows the client as pinned for this reason, or as free.
    fn check_pin(&mut self, step: &Step, reason: &str) -> Result<()> {
        let session = self.sessions.get(&step.client);
        let port = session.context("no such client")?.port()?.to_string();
        let Some(console) = &mut self.console else {
            return Ok(());
        };
        let mut last = None;
        let shown = wait_until("the pin", Duration::from_secs(5), || {
            let clients = console.query_named("show clients")?;
            let mut clients = clients.into_iter();
            let own = clients.find(|client| client.get("port") == Some(&port));
            last = own.and_then(|own| own.get("pin").cloned());
            Ok(last.as_deref() == Some(reason))
        });
        shown.with_context(|| format!("pinned for {last:?}"))
    }

    fn take(&mut self, step: &Step) -> Result<Session> {
        self.sessions.remove(&step.client).context("no such client")
    }

    /// Checks that the settings last reported to each client are in force.
    fn check_reported(&mut self) -> Result<()> {
        for (client, session) in &mut self.sessions {
            if !session.is_idle() {
                continue;
            }
            for (name, told) in session.parameters.clone() {
                let shown = session.rows(&format!("show \"{name}\""))?;
                let told = format!("[{}]", told.as_bytes().escape_ascii());
                ensure!(
                    shown == [told.clone()],
                    "{client} was told that {name} is {told}, but it is {shown:?}"
                );
            }
        }
        Ok(())
    }

    fn empty(&mut self) {
        for (_, session) in std::mem::take(&mut self.sessions) {
            session.leave();
        }
    }
}

fn truth(session: &mut Session) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for sql in TRUTH {
        let rows = session.rows(sql)?;
        lines.extend(
            rows.into_iter()
                .map(|row| format!("{row} ({})", first_words(sql))),
        );
        lines.push(format!("no more ({})", first_words(sql)));
    }
    Ok(lines)
}

fn first_words(sql: &str) -> &str {
    sql.get(..40).unwrap_or(sql)
}

fn refusal(step: &Step) -> Option<&str> {
    match &step.action {
        Action::Run { refused, .. } => refused.as_deref(),
        _ => None,
    }
}

/// True if the script runs in this protocol with new servers all the time, or over replicas: every script does once, in
/// one of its protocols; on request in all.
fn is_chosen(number: usize, protocol: Protocol, count: usize) -> bool {
    let all = env::var_os("SESSION_STATE_ALL").is_some();
    let chosen = Protocol::ALL.get(number % count.max(1));
    all || chosen == Some(&protocol)
}

/// Option of the pools for this protocol, if there are replicas. With `session`, catalogues are read from replicas; with
/// `eventual`, a session reads from them directly after its writes, too.
fn read_consistency(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Named => "session",
        Protocol::Simple | Protocol::Unnamed => "eventual",
    }
}

/// Protocols with a pool of their own for this script. Over replicas a script runs in one of them, and other tests use the
/// first.
fn pools(number: usize, script: &Script, replicas: usize) -> Vec<Protocol> {
    let count = protocols(script).len();
    let is_used = |protocol: &Protocol| {
        replicas == 0 || *protocol == Protocol::Simple || is_chosen(number, *protocol, count)
    };
    Protocol::ALL.into_iter().filter(is_used).collect()
}

fn alias(number: usize, protocol: Protocol) -> String {
    format!("s{number}_{protocol:?}").to_lowercase()
}

/// Protocols to run a script in; a script without plain statements is the same in all of them.
fn protocols(script: &Script) -> &'static [Protocol] {
    let plain = |step: &Step| matches!(step.action, Action::Run { .. });
    if script.steps.iter().any(plain) {
        &[Protocol::Simple, Protocol::Unnamed, Protocol::Named]
    } else {
        &[Protocol::Simple]
    }
}
