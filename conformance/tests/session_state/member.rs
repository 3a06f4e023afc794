//! Member of the crowd: keeps a model of its own session, and compares it with the server's
//! answers.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::frontend;
use weir_conformance::random::Random;

use crate::session::Protocol;
use crate::session::Session;

/// Time limit, longer than a client may be queued.
const PATIENCE: Duration = Duration::from_secs(70);
/// Share of members that listen to their channel all the time: one in this number.
const LISTENS: u64 = 8;

/// Settings of a member, and its role.
const NAMES: [&str; 8] = [
    "application_name",
    "timezone",
    "datestyle",
    "work_mem",
    "statement_timeout",
    "search_path",
    "my.owner",
    "role",
];
const ROLE: usize = 7;

/// Creates a role and a schema for each member.
pub(crate) fn fixture(clients: u64) -> String {
    format!(
        "do $$ begin for n in 0..{} loop
           begin execute 'create role crowd_' || n; exception when duplicate_object or unique_violation then null; end;
           execute 'create schema crowd_' || n;
           execute 'create table crowd_' || n || '.mine as select ' || n || ' as owner';
           execute 'grant usage on schema crowd_' || n || ' to crowd_' || n;
           execute 'grant select on crowd_' || n || '.mine to crowd_' || n;
         end loop; end $$",
        clients - 1
    )
}

/// Expected settings of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own([String; 8]);

/// A client that connects repeatedly.
#[derive(Debug)]
pub(crate) struct Member {
    port: u16,
    database: String,
    number: u64,
    clients: u64,
    random: Random,
    requests: u64,
    /// Makes each value unique.
    sequence: u64,
    start: Own,
    own: Own,
    /// Settings to restore after the open transaction and its savepoint.
    before: Vec<Own>,
}

/// Ways to end a connection.
enum End {
    Politely,
    Vanishing,
}

impl Member {
    pub(crate) fn new(port: u16, database: &str, number: u64, clients: u64, seed: u64) -> Self {
        let random = Random::new(seed ^ number.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let start = [
            &format!("start of {number}"),
            "UTC",
            "ISO, MDY",
            "4MB",
            &format!("{}ms", 60_001 + number),
            "\"$user\", public",
            "",
            "none",
        ];
        let start = Own(start.map(str::to_owned));
        Self {
            port,
            database: database.to_owned(),
            number,
            clients,
            random,
            requests: 0,
            sequence: 0,
            own: start.clone(),
            start,
            before: Vec::new(),
        }
    }

    /// Requests since the last call.
    pub(crate) fn take_requests(&mut self) -> u64 {
        std::mem::take(&mut self.requests)
    }

    /// Runs one connection from login to its end.
    pub(crate) fn live_once(&mut self, is_over: &dyn Fn() -> bool) -> Result<()> {
        self.own = self.start.clone();
        self.before.clear();
        let parameters = [
            ("application_name", self.start.0[0].as_str()),
            (
                "options",
                &format!("-c statement_timeout={}", self.start.0[4]),
            ),
        ];
        let parameters = parameters.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let number = self.number;
        let about = || format!("client {number}");
        let mut session = Session::connect_for(self.port, &self.database, &parameters, PATIENCE)
            .with_context(about)?;
        self.settle(&mut session).with_context(about)?;
        let turns = 5 + self.random.below(60);
        for _ in 0..turns {
            if is_over() {
                break;
            }
            let turn = self.turn(&mut session);
            turn.with_context(|| format!("client {number}, {:?}", self.own.0))?;
        }
        self.end(session)
    }

    /// Sets role, schema, settings and names.
    fn settle(&mut self, session: &mut Session) -> Result<()> {
        let number = self.number;
        if self.random.chance(70) {
            self.set(session, 5, &format!("crowd_{number}, public"), false)?;
            self.set(session, ROLE, &format!("crowd_{number}"), false)?;
        }
        if self.listens() {
            self.run(session, &format!("listen crowd_{number}"))?;
        }
        let parse = frontend::parse("own", &format!("select {number}, $1::int"), &[]);
        let same = frontend::parse("same", "select current_setting('application_name')", &[]);
        self.requests += 1;
        let lines = session.batch(&[parse, same].concat())?;
        ensure!(lines == ["1", "1", "Z I"], "prepared {lines:?}");
        Ok(())
    }

    fn turn(&mut self, session: &mut Session) -> Result<()> {
        match self.random.below(100) {
            0..20 => self.assign(session).context("assign"),
            20..28 => self.give_back(session).context("give back"),
            28..50 => self.transaction(session).context("transaction"),
            50..62 => self.prepared(session).context("prepared"),
            62..70 => self.unnamed(session).context("unnamed"),
            70..76 => self.temporary(session).context("temporary"),
            76..80 => self.lock(session).context("lock"),
            80..83 => self.cursor(session).context("cursor"),
            83..90 => self.notify(session).context("notify"),
            90..93 => self.fail(session).context("fail"),
            _ => Ok(()),
        }?;
        self.check(session)
    }

    /// Compares all settings with the model.
    fn check(&mut self, session: &mut Session) -> Result<()> {
        let columns = NAMES.map(|name| format!("coalesce(current_setting('{name}', true), '')"));
        let sql = format!("select {}", columns.join(", "));
        let found = self.one(session, &sql)?;
        let expected = format!("[{}]", self.own.0.join(", ")).replace('"', "\\\"");
        ensure!(found == expected, "has {found}, should have {expected}");
        for (place, reported) in [(0, "application_name"), (1, "TimeZone"), (2, "DateStyle")] {
            let told = session.parameters.get(reported).cloned();
            let expected = Some(&self.own.0[place]);
            ensure!(
                told.as_ref() == expected,
                "told that {reported} is {told:?}"
            );
        }
        let own = format!("A crowd_{}\\x00", self.number);
        let alien = session
            .heard()
            .into_iter()
            .find(|text| !text.starts_with(&own));
        ensure!(alien.is_none(), "heard {alien:?}");
        Ok(())
    }

    fn assign(&mut self, session: &mut Session) -> Result<()> {
        let place = self.random.below(NAMES.len());
        let value = self.value(place);
        let local = self.random.chance(15);
        self.set(session, place, &value, local)
    }

    fn give_back(&mut self, session: &mut Session) -> Result<()> {
        let place = self.random.below(NAMES.len());
        match self.random.below(10) {
            0..7 => {
                self.run(session, &format!("reset {}", NAMES[place]))?;
                self.own.0[place] = self.start.0[place].clone();
            }
            7 | 8 => {
                self.run(session, "reset all")?;
                let role = self.own.0[ROLE].clone();
                self.own = self.start.clone();
                self.own.0[ROLE] = role;
            }
            _ if self.before.is_empty() => {
                self.run(session, "discard all")?;
                self.own = self.start.clone();
                self.settle(session)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Sets and resets settings, fails, and ends by commit or rollback.
    fn transaction(&mut self, session: &mut Session) -> Result<()> {
        self.run(session, "begin")?;
        self.before.push(self.own.clone());
        for _ in 0..self.random.below(4) {
            let place = self.random.below(NAMES.len());
            let value = self.value(place);
            self.set(session, place, &value, false)?;
            self.check(session)?;
        }
        if self.random.chance(40) {
            self.run(session, "savepoint s")?;
            let before = self.own.clone();
            let place = self.random.below(NAMES.len());
            let value = self.value(place);
            self.set(session, place, &value, false)?;
            if self.random.chance(60) {
                self.run(session, "rollback to s")?;
                self.own = before;
            }
            self.check(session)?;
        }
        let before = self.before.pop().context("no transaction")?;
        if self.random.chance(15) {
            self.requests += 1;
            session.run("select 1/0", Protocol::Simple)?;
            self.run(session, "commit")?;
            self.own = before;
        } else if self.random.chance(40) {
            self.run(session, "rollback")?;
            self.own = before;
        } else {
            self.run(session, "commit")?;
        }
        Ok(())
    }

    /// Uses prepared statements. All clients use the same names for different statements.
    fn prepared(&mut self, session: &mut Session) -> Result<()> {
        let argument = self.random.below(1000).to_string();
        let bind = frontend::bind("", "own", &[Some(argument.as_bytes())]);
        let own = [bind, frontend::execute("", 0)].concat();
        let same = [frontend::bind("", "same", &[]), frontend::execute("", 0)].concat();
        self.requests += 1;
        let found = session.batch(&[own, same].concat())?;
        let first = format!("D [{}, {argument}]", self.number);
        let second = format!("D [{}]", self.own.0[0]);
        let expected = ["2", &first, "C SELECT 1", "2", &second, "C SELECT 1", "Z I"];
        ensure!(found == expected, "{found:?} instead of {expected:?}");
        let has_path = self.own.0[5].starts_with("crowd_");
        let may_read = ["none", &format!("crowd_{}", self.number)].contains(&&*self.own.0[ROLE]);
        if has_path && may_read {
            let found = self.one(session, "select owner from mine")?;
            ensure!(
                found == format!("[{}]", self.number),
                "the table of {found}"
            );
        }
        Ok(())
    }

    fn unnamed(&mut self, session: &mut Session) -> Result<()> {
        self.requests += 2;
        let sql = format!("select {}, {}", self.number, self.sequence);
        session.batch(&frontend::parse("", &sql, &[]))?;
        let bind = frontend::bind("", "", &[]);
        let found = session.batch(&[bind, frontend::execute("", 0)].concat())?;
        let row = format!("D [{}, {}]", self.number, self.sequence);
        ensure!(found == ["2", &row, "C SELECT 1", "Z I"], "{found:?}");
        Ok(())
    }

    /// Pins for a few requests.
    fn temporary(&mut self, session: &mut Session) -> Result<()> {
        let number = self.number;
        let kept = self.own.0[ROLE].clone();
        if kept != "none" {
            // Other roles may not create temporary tables here.
            return Ok(());
        }
        self.run(
            session,
            &format!("create temp table own_temp as select {number} as owner"),
        )?;
        for _ in 0..self.random.below(3) {
            let found = self.one(session, "select owner from own_temp")?;
            ensure!(found == format!("[{number}]"), "temporary table of {found}");
        }
        match self.random.below(3) {
            0 => self.run(session, "drop table own_temp"),
            1 => self.run(session, "discard temp"),
            _ => self.run(session, "drop table pg_temp.own_temp"),
        }?;
        let found = self.one(session, "select to_regclass('own_temp') is null")?;
        ensure!(found == "[t]", "own_temp is still there");
        Ok(())
    }

    fn lock(&mut self, session: &mut Session) -> Result<()> {
        let number = self.number;
        self.run(session, &format!("select pg_advisory_lock({number})"))?;
        let mine =
            "select objid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()";
        let found = self.one(session, mine)?;
        ensure!(found == format!("[{number}]"), "lock of {found}");
        let found = self.one(session, &format!("select pg_advisory_unlock({number})"))?;
        ensure!(found == "[t]", "the lock was gone");
        Ok(())
    }

    fn cursor(&mut self, session: &mut Session) -> Result<()> {
        let number = self.number;
        self.run(
            session,
            &format!("declare c cursor with hold for values ({number}), ({number})"),
        )?;
        let found = self.one(session, "fetch 1 from c")?;
        ensure!(found == format!("[{number}]"), "cursor of {found}");
        self.run(session, "close c")
    }

    /// Notifies itself, which must be delivered at once, or another member.
    fn notify(&mut self, session: &mut Session) -> Result<()> {
        self.sequence += 1;
        let (number, sequence) = (self.number, self.sequence);
        if !self.listens() {
            let clients = usize::try_from(self.clients)?;
            let other = self.random.below(clients);
            return self.run(session, &format!("notify crowd_{other}, 'from another'"));
        }
        self.run(session, &format!("notify crowd_{number}, 'own {sequence}'"))?;
        let wanted = format!("A crowd_{number}\\x00own {sequence}\\x00");
        loop {
            let heard = session.hear()?;
            if heard == wanted {
                return Ok(());
            }
            let fine = format!("A crowd_{number}\\x00from another\\x00");
            ensure!(heard == fine, "heard {heard}");
        }
    }

    fn fail(&mut self, session: &mut Session) -> Result<()> {
        let place = self.random.below(ROLE);
        let value = self.value(place);
        let sql = format!("set {}; select 1/0", assignment(place, &value));
        self.requests += 1;
        let found = session.simple(&sql)?;
        let failed = found.iter().any(|line| line.starts_with("E ERROR 22012"));
        ensure!(failed, "{sql}: {found:?}");
        Ok(())
    }

    /// Changes a setting and, if the change lasts, records it in the model.
    fn set(&mut self, session: &mut Session, place: usize, value: &str, local: bool) -> Result<()> {
        let verb = if local { "set local" } else { "set" };
        self.run(session, &format!("{verb} {}", assignment(place, value)))?;
        // Outside of a transaction SET LOCAL has no effect; this program does not use it inside
        // one.
        if !local {
            value.clone_into(&mut self.own.0[place]);
        }
        Ok(())
    }

    /// Returns a value that identifies the member, in the server's format.
    fn value(&mut self, place: usize) -> String {
        self.sequence += 1;
        let (number, sequence) = (self.number, self.sequence);
        let some = |of: [&str; 3]| of[usize::try_from(sequence % 3).unwrap_or(0)].to_owned();
        match place {
            1 => some(["Asia/Tokyo", "America/New_York", "Europe/Paris"]),
            2 => some(["German, DMY", "SQL, MDY", "ISO, YMD"]),
            3 => format!("{}kB", 2_049 + 2 * number),
            4 => format!("{}ms", 90_001 + 2 * number),
            5 => format!("crowd_{number}, public"),
            ROLE => format!("crowd_{number}"),
            _ => format!("{sequence} of {number}"),
        }
    }

    fn run(&mut self, session: &mut Session, sql: &str) -> Result<()> {
        self.lines(session, sql).map(drop)
    }

    /// Returns the only row of a statement.
    fn one(&mut self, session: &mut Session, sql: &str) -> Result<String> {
        let lines = self.lines(session, sql)?;
        let mut rows = lines.iter().filter_map(|line| line.strip_prefix("D "));
        let row = rows.next().with_context(|| format!("{sql}: {lines:?}"))?;
        ensure!(rows.next().is_none(), "{sql}: {lines:?}");
        Ok(row.to_owned())
    }

    fn lines(&mut self, session: &mut Session, sql: &str) -> Result<Vec<String>> {
        self.requests += 1;
        let protocol = match self.random.below(3) {
            0 => Protocol::Unnamed,
            _ => Protocol::Simple,
        };
        let lines = session.run(sql, protocol).with_context(|| sql.to_owned())?;
        let failed = lines.iter().any(|line| line.starts_with("E "));
        ensure!(!failed, "{sql}: {lines:?}");
        Ok(lines)
    }

    fn listens(&self) -> bool {
        self.number.is_multiple_of(LISTENS)
    }

    fn end(&mut self, mut session: Session) -> Result<()> {
        let how = if self.random.chance(50) {
            End::Politely
        } else {
            End::Vanishing
        };
        match self.random.below(4) {
            // Leaves with an open transaction, or with state that pins.
            0 => self.run(&mut session, "begin")?,
            1 => self.run(
                &mut session,
                &format!("select pg_advisory_lock({})", self.number),
            )?,
            // Leaves in the middle of a request.
            2 => session.send("select pg_sleep(0.01); set work_mem to '3333kB'")?,
            _ => {}
        }
        match how {
            End::Politely => session.leave(),
            End::Vanishing => session.vanish()?,
        }
        Ok(())
    }
}

fn assignment(place: usize, value: &str) -> String {
    let name = NAMES[place];
    match place {
        // Lists of names.
        2 | 5 => format!("{name} to {value}"),
        _ => format!("{name} to '{value}'"),
    }
}
