//! Programs of clients: random statements about every kind of session state, in all shapes of the protocol.
//!
//! A [`Speaker`] generates one step after the other, each suited to the state of its session. It takes that state
//! from a twin, a [`Backend`] that receives the same messages. Everything that sessions of one database could contend
//! for (keys of locks, channels, sequences) carries the speaker's number, so that each session behaves as if it were
//! alone. Every selected row names its speaker.

use weir_wire::backend::TransactionStatus::{Failed, Idle};

use crate::backend::Backend;
use crate::cuts::Dice;
use crate::say::{Say, say};

mod topics;

/// Topics of a speaker, in addition to transactions, errors and plain rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Session advisory locks.
    AdvisoryLocks,
    /// COPY in both directions.
    Copy,
    /// DECLARE, FETCH and CLOSE, WITH HOLD and without.
    Cursors,
    /// DISCARD, RESET ALL, DEALLOCATE ALL.
    Discard,
    /// Permanent rows: which were committed, and how many times.
    Ledger,
    /// LISTEN, UNLISTEN and NOTIFY to the own session.
    Notifications,
    /// `SET ROLE` and `SET SESSION AUTHORIZATION`.
    Roles,
    /// `currval` and `lastval`.
    Sequences,
    /// SET, RESET and their equivalents.
    Settings,
    /// Tables whose columns change their type under a prepared statement.
    Shapes,
    /// PREPARE, EXECUTE and DEALLOCATE.
    SqlPrepared,
    /// Tables that depend on `search_path`.
    SearchPath,
    /// Temporary tables.
    Temporary,
}

/// All topics.
pub const TOPICS: [Topic; 13] = [
    Topic::AdvisoryLocks,
    Topic::Copy,
    Topic::Cursors,
    Topic::Discard,
    Topic::Ledger,
    Topic::Notifications,
    Topic::Roles,
    Topic::Sequences,
    Topic::Settings,
    Topic::Shapes,
    Topic::SqlPrepared,
    Topic::SearchPath,
    Topic::Temporary,
];

/// Step of a client's program.
#[derive(Debug, Clone)]
pub struct Step {
    /// Bytes to send.
    pub bytes: Say,
    /// Readable form.
    pub text: String,
    /// True if the client must wait for the answer before the next step, which depends on the outcome.
    pub waits: bool,
}

/// Generator of a client's program; see the module.
#[derive(Debug, Clone)]
pub struct Speaker {
    /// Part of every name and row.
    tag: String,
    number: usize,
    serial: usize,
    topics: Vec<Topic>,
    /// Size of a long row in bytes; 0 disables long rows.
    large: usize,
}

impl Speaker {
    /// Creates a speaker on these topics. `number` is unique in the database.
    pub fn new(number: usize, topics: &[Topic]) -> Self {
        Self {
            tag: format!("c{number}"),
            number,
            serial: 0,
            topics: topics.to_vec(),
            large: 0,
        }
    }

    /// Makes some of its rows this many bytes long.
    #[must_use]
    pub fn with_large(self, large: usize) -> Self {
        Self { large, ..self }
    }

    /// Prefix of all its rows.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Statements that create the objects this speaker needs in a real database.
    pub fn schema(number: usize) -> String {
        format!(
            "CREATE SEQUENCE public.seq_{number}; GRANT ALL ON public.seq_{number} TO PUBLIC; \
             CREATE TABLE public.shape_{number} (v text); INSERT INTO public.shape_{number} VALUES ('1')"
        )
    }

    /// Statements that create the objects all speakers need in a real database: roles `alice` and `bobby`, and some
    /// tables.
    pub const SCHEMA: &str = "\
        CREATE ROLE alice; CREATE ROLE bobby; CREATE TABLE public.sink (a text); \
        CREATE SCHEMA one; CREATE TABLE one.place (name text); INSERT INTO one.place VALUES ('one'); \
        CREATE SCHEMA two; CREATE TABLE two.place (name text); INSERT INTO two.place VALUES ('two'); \
        CREATE SCHEMA three; CREATE TABLE three.place (name int); INSERT INTO three.place VALUES (3); \
        GRANT ALL ON SCHEMA one, two, three TO PUBLIC; \
        GRANT ALL ON public.sink, one.place, two.place, three.place TO PUBLIC; \
        ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC; \
        ALTER DEFAULT PRIVILEGES FOR ROLE alice GRANT ALL ON TABLES TO PUBLIC; \
        ALTER DEFAULT PRIVILEGES FOR ROLE bobby GRANT ALL ON TABLES TO PUBLIC";

    /// Returns the next step. `twin` has processed all earlier steps; `ahead` is true while some are unanswered.
    pub fn next(&mut self, twin: &Backend, ahead: bool, dice: &mut Dice) -> Step {
        self.serial += 1;
        if twin.is_copying() {
            return self.copying(dice);
        }
        let first = self.statement(twin, dice);
        let pick = if ahead { dice.below(3) } else { dice.below(12) };
        let alone = topics::is_alone(&first);
        let bytes = match pick {
            0..3 => self.query(&first),
            _ if alone => self.query(&first),
            3 | 4 => {
                let second = self.companion(twin, dice);
                self.query(&format!("{first};{second}"))
            }
            5 | 6 => say()
                .parse("", &first)
                .bind("", "")
                .describe_portal("")
                .execute("", 0)
                .sync(),
            7 => self.named(twin, &first, dice),
            8 => Self::known(twin, dice),
            9 => say().parse("", &first).sync(),
            10 => self.pipeline(twin, &first, dice),
            _ => self.limited(twin),
        };
        let text = spoken(&bytes);
        let lower = text.to_ascii_lowercase();
        let waits = ["deallocate", "discard", "copy ", "alter "]
            .iter()
            .any(|word| lower.contains(word));
        Step { bytes, text, waits }
    }

    /// Returns one statement in one request that is answered completely, so that nothing remains open for a later
    /// request.
    pub fn next_alone(&mut self, twin: &Backend, dice: &mut Dice) -> Step {
        self.serial += 1;
        let sql = self.statement(twin, dice);
        let copies = sql.starts_with("COPY") && sql.ends_with("FROM STDIN");
        let bytes = match dice.below(8) {
            0..4 if copies => self.lines(self.query(&sql), dice).copy_done(),
            0..4 => self.query(&sql),
            _ if topics::is_alone(&sql) => self.query(&sql),
            4 if !copies => self.named(twin, &sql, dice),
            _ => {
                let said = say().parse("", &sql).bind("", "").describe_portal("");
                let said = said.execute("", 0);
                if copies {
                    self.lines(said, dice).copy_done().sync()
                } else {
                    said.sync()
                }
            }
        };
        Step {
            text: spoken(&bytes),
            bytes,
            waits: true,
        }
    }

    /// Reads the session without changing it: a row, at which a checker compares the state, and each named statement.
    pub fn look(&mut self, twin: &Backend) -> Step {
        self.serial += 1;
        let row = format!("SELECT '{}-{}'", self.tag, self.serial);
        let mut bytes = self.query(&row);
        for name in twin.prepared().filter(|name| !twin.runs_another(name)) {
            let name = String::from_utf8_lossy(name);
            bytes = bytes.describe_statement(&name).sync();
        }
        Step {
            text: spoken(&bytes),
            bytes,
            waits: true,
        }
    }

    /// Appends data of a COPY, in one to three pieces.
    fn lines(&self, mut said: Say, dice: &mut Dice) -> Say {
        for _ in 0..1 + dice.below(3) {
            said = said.copy_data(&format!("{}\n", self.row(dice)));
        }
        said
    }

    /// Value that no other row has, sometimes a long one.
    fn row(&self, dice: &mut Dice) -> String {
        let row = format!("{}-{}", self.tag, self.serial);
        if self.large > 0 && dice.below(4) == 0 {
            return format!("{row}-{}", "x".repeat(self.large));
        }
        row
    }

    /// Builds a Query with a comment that names the speaker and the step.
    fn query(&self, sql: &str) -> Say {
        say().query(&format!("{sql} /*{}#{}*/", self.tag, self.serial))
    }

    /// Number of steps so far.
    pub fn serial(&self) -> usize {
        self.serial
    }

    fn copying(&self, dice: &mut Dice) -> Step {
        let line = format!("{}\n", self.row(dice));
        let bytes = match dice.below(6) {
            0 | 1 => say().copy_data(&line),
            2 => say().copy_data("bad\tline\n").sync(),
            3 => say().copy_fail(&self.tag).sync(),
            _ => say().copy_data(&line).copy_done().sync(),
        };
        Step {
            text: spoken(&bytes),
            bytes,
            waits: true,
        }
    }

    fn statement(&self, twin: &Backend, dice: &mut Dice) -> String {
        if twin.status() == Failed && dice.below(2) == 0 {
            let end = *dice.pick(&["ROLLBACK", "ROLLBACK TO a", "COMMIT"]);
            return end.to_owned();
        }
        if twin.status() != Idle && dice.below(5) == 0 {
            let end = *dice.pick(&["COMMIT", "ROLLBACK"]);
            return end.to_owned();
        }
        let plain = dice.below(10);
        if plain < 4 || self.topics.is_empty() {
            return self.plain(twin, dice);
        }
        let topic = *dice.pick(&self.topics);
        self.about(topic, twin, dice)
    }

    fn plain(&self, twin: &Backend, dice: &mut Dice) -> String {
        let row = format!("SELECT '{}'", self.row(dice));
        match dice.below(16) {
            0..2 => "BEGIN".to_owned(),
            2 if twin.status() != Idle => format!("SAVEPOINT {}", dice.pick(&["a", "b"])),
            3 if twin.status() != Idle => format!("ROLLBACK TO {}", dice.pick(&["a", "b"])),
            4 if twin.status() != Idle => format!("RELEASE {}", dice.pick(&["a", "b"])),
            5 => format!("{row}||i FROM generate_series(1,4) i"),
            6 => "SELECT 1/0".to_owned(),
            7 => "SELECT 1/(0*random())".to_owned(),
            8 => "oops".to_owned(),
            9 => format!(
                "DO $$BEGIN RAISE NOTICE '{}-{}'; END$$",
                self.tag, self.serial
            ),
            10 => "DO $$BEGIN NULL; END$$".to_owned(),
            11 => String::new(),
            _ => row,
        }
    }

    /// Returns a statement that may follow another one in the same Query.
    fn companion(&self, twin: &Backend, dice: &mut Dice) -> String {
        let second = match self.topics.first() {
            Some(_) if dice.below(2) == 0 => {
                let topic = *dice.pick(&self.topics);
                self.about(topic, twin, dice)
            }
            _ => self.plain(twin, dice),
        };
        if topics::is_alone(&second) {
            return format!("SELECT '{}-{}'", self.tag, self.serial);
        }
        second
    }

    /// Prepares a statement under a name and runs it.
    fn named(&self, twin: &Backend, sql: &str, dice: &mut Dice) -> Say {
        let name = format!("s{}", dice.below(3));
        let is_known = twin.prepared().any(|known| known == name.as_bytes());
        match dice.below(4) {
            // PostgreSQL refuses a name that is already known.
            0 => say().parse(&name, sql).sync(),
            1 if is_known => say()
                .close_statement(&name)
                .parse(&name, sql)
                .run(&name)
                .sync(),
            _ if is_known => say().run(&name).sync(),
            _ => say()
                .parse(&name, sql)
                .describe_statement(&name)
                .run(&name)
                .sync(),
        }
    }

    /// Uses a statement that may or may not exist.
    fn known(twin: &Backend, dice: &mut Dice) -> Say {
        let name = dice.pick(&["", "s0", "s1", "s2"]);
        match dice.below(5) {
            0 if !twin.runs_another(name.as_bytes()) => say().describe_statement(name).sync(),
            1 => say().close_statement(name).sync(),
            2 => say().run(name).flush().run(name).sync(),
            _ => say().run(name).sync(),
        }
    }

    fn pipeline(&self, twin: &Backend, first: &str, dice: &mut Dice) -> Say {
        let mut said = say().parse("", first).run("");
        for _ in 0..1 + dice.below(2) {
            let next = self.companion(twin, dice);
            said = match dice.below(4) {
                0 => said.parse("", &next).run("").flush(),
                1 => {
                    let name = format!("s{}", dice.below(3));
                    said.run(&name)
                }
                _ => said.parse("", &next).run(""),
            };
        }
        said.sync()
    }

    /// Uses a portal with a row limit, which outlives a Sync inside a transaction.
    fn limited(&self, twin: &Backend) -> Say {
        let rows = format!(
            "SELECT '{}-{}-'||i FROM generate_series(1,5) i",
            self.tag, self.serial
        );
        let begun = say()
            .parse("", &rows)
            .bind("p", "")
            .describe_portal("p")
            .execute("p", 2);
        if twin.status() == Idle {
            begun.flush().execute("p", 0).sync()
        } else {
            begun.sync().execute("p", 1).close_portal("p").sync()
        }
    }
}

/// Maximum of characters shown per message.
const SHOWN: usize = 300;

/// A client's messages in one line.
fn spoken(bytes: &[u8]) -> String {
    let mut line = String::new();
    let mut rest = bytes;
    while let Ok(Some(frame)) = weir_wire::frame::frame(rest, weir_wire::frame::Side::Frontend) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push(char::from(frame.header.tag));
        if !frame.body.is_empty() {
            let body = String::from_utf8_lossy(frame.body);
            let body = body.trim_end_matches('\0').replace('\0', "|");
            let shown = body.char_indices().nth(SHOWN).map(|(end, _)| &body[..end]);
            match shown {
                Some(shown) => line.push_str(&format!("({shown}.. of {})", body.len())),
                None => line.push_str(&format!("({body})")),
            }
        }
        rest = rest.get(frame.raw.len()..).unwrap_or_default();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_depends_on_nothing_but_its_seed() {
        let program = |seed| {
            let mut dice = Dice::new(seed);
            let mut twin = Backend::open(&Default::default(), "ann", &[]);
            let mut speaker = Speaker::new(1, &TOPICS);
            let steps = (0..50).map(|_| {
                let step = speaker.next(&twin, false, &mut dice);
                twin.converse(&step.bytes);
                step.text
            });
            steps.collect::<Vec<_>>()
        };
        assert_eq!(program(1), program(1));
        assert_ne!(program(1), program(2));
    }
}
