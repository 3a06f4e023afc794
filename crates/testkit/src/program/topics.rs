//! Statements for each topic.

use weir_wire::backend::TransactionStatus::{Idle, InTransaction};

use super::{Speaker, Topic};
use crate::backend::Backend;
use crate::cuts::Dice;

/// Settings, each with values that it accepts.
const SETTINGS: [(&str, [&str; 3]); 11] = [
    ("TimeZone", ["CET", "EET", "UTC"]),
    ("DateStyle", ["ISO, DMY", "German, DMY", "ISO, MDY"]),
    ("IntervalStyle", ["iso_8601", "sql_standard", "postgres"]),
    ("work_mem", ["8MB", "64kB", "1GB"]),
    ("statement_timeout", ["5min", "70s", "0"]),
    ("lock_timeout", ["1h", "90s", "0"]),
    ("extra_float_digits", ["3", "0", "-5"]),
    ("bytea_output", ["escape", "hex", "escape"]),
    ("enable_seqscan", ["off", "on", "off"]),
    (
        "default_transaction_isolation",
        ["serializable", "repeatable read", "read committed"],
    ),
    ("standard_conforming_strings", ["off", "on", "off"]),
];

fn one<'a>(of: &[&'a str], dice: &mut Dice) -> &'a str {
    let found: &&str = dice.pick(of);
    found
}

/// True if the statement must be alone in a Query and cannot use the extended protocol.
pub(super) fn is_alone(sql: &str) -> bool {
    ["DISCARD ALL", "ALTER", "CLOSE ALL"]
        .iter()
        .any(|word| sql.starts_with(word))
}

impl Speaker {
    /// Returns a statement about a topic.
    pub(super) fn about(&self, topic: Topic, twin: &Backend, dice: &mut Dice) -> String {
        let row = format!("{}-{}", self.tag, self.serial);
        let key = self.number * 10 + dice.below(2);
        let number = self.number;
        let k = dice.below(2);
        match topic {
            Topic::Settings => self.setting(dice),
            Topic::Roles => role(twin, dice),
            Topic::AdvisoryLocks => match dice.below(8) {
                0 => format!("SELECT pg_advisory_lock({key})"),
                1 | 2 => format!("SELECT pg_try_advisory_lock({key})"),
                3 => format!("SELECT pg_advisory_xact_lock({key})"),
                4 => "SELECT pg_advisory_unlock_all()".to_owned(),
                _ => format!("SELECT pg_advisory_unlock({key})"),
            },
            Topic::Copy => match dice.below(3) {
                0 => "COPY public.sink FROM STDIN".to_owned(),
                _ => format!("COPY (SELECT '{row}'||i FROM generate_series(1,3) i) TO STDOUT"),
            },
            Topic::Cursors => match dice.below(8) {
                0 | 1 => format!(
                    "DECLARE h{k} CURSOR WITH HOLD FOR SELECT '{row}'||i FROM generate_series(1,6) i"
                ),
                2 => {
                    format!("DECLARE h{k} CURSOR FOR SELECT '{row}'||i FROM generate_series(1,6) i")
                }
                3 => format!("CLOSE h{k}"),
                4 if dice.below(3) == 0 => "CLOSE ALL".to_owned(),
                _ => format!("FETCH 2 FROM h{k}"),
            },
            Topic::Discard => one(
                &[
                    "DISCARD ALL",
                    "DISCARD PLANS",
                    "DISCARD TEMP",
                    "DISCARD SEQUENCES",
                    "RESET ALL",
                    "DEALLOCATE ALL",
                    "UNLISTEN *",
                ],
                dice,
            )
            .to_owned(),
            Topic::Ledger => format!("INSERT INTO public.sink VALUES ('{row}')"),
            Topic::Notifications => match dice.below(6) {
                0 | 1 => format!("LISTEN ch_{number}_{k}"),
                2 => format!("UNLISTEN ch_{number}_{k}"),
                3 if dice.below(2) == 0 => "UNLISTEN *".to_owned(),
                _ => format!("NOTIFY ch_{number}_{k}, '{row}'"),
            },
            Topic::Sequences => match dice.below(4) {
                0 | 1 => format!("SELECT nextval('public.seq_{number}')"),
                2 => format!("SELECT currval('public.seq_{number}')"),
                _ => "SELECT lastval()".to_owned(),
            },
            Topic::Shapes => self.shape(twin, dice),
            Topic::SqlPrepared => match dice.below(7) {
                0 | 1 => format!("PREPARE q{k} AS SELECT '{row}'"),
                2 => format!("PREPARE q{k} AS SELECT name FROM place"),
                3 => format!("DEALLOCATE q{k}"),
                _ => format!("EXECUTE q{k}"),
            },
            Topic::SearchPath => self.search_path(dice),
            Topic::Temporary => self.temporary(dice),
        }
    }

    fn setting(&self, dice: &mut Dice) -> String {
        let (name, value) = match dice.below(4) {
            0 => return self.custom(dice),
            1 => (
                "application_name",
                format!("{}-{}", self.tag, dice.below(3)),
            ),
            _ => {
                let (name, values) = dice.pick(&SETTINGS);
                (*name, one(values, dice).to_owned())
            }
        };
        match dice.below(20) {
            0..4 => format!("SET {name} TO '{value}'"),
            4 => format!("SET SESSION {name} = '{value}'"),
            5..7 => format!("SET LOCAL {name} TO '{value}'"),
            7 => format!("SELECT set_config('{name}', '{value}', false)"),
            8 => format!("SELECT set_config('{name}', '{value}', true)"),
            9 => format!("DO $$BEGIN PERFORM set_config('{name}', '{value}', false); END$$"),
            10 => format!("SET {name} TO DEFAULT"),
            11 | 12 => format!("RESET {name}"),
            13 => format!("SET {name} TO 'bad value'"),
            14 => "SET no_such_thing TO 1".to_owned(),
            15 => format!("SELECT current_setting('{name}')"),
            _ => format!("SHOW {name}"),
        }
    }

    /// Returns a statement about a custom setting. Once set, PostgreSQL remembers its name for the session, so an
    /// empty value and a missing one read the same here.
    fn custom(&self, dice: &mut Dice) -> String {
        let name = one(&["my.a", "my.b"], dice);
        let value = format!("{}-{}", self.tag, self.serial);
        match dice.below(8) {
            0 | 1 => format!("SET {name} TO '{value}'"),
            2 => format!("SET LOCAL {name} TO '{value}'"),
            3 => format!("SELECT set_config('{name}', '{value}', false)"),
            4 => format!("RESET {name}"),
            _ => format!("SELECT coalesce(nullif(current_setting('{name}', true), ''), 'none')"),
        }
    }

    fn search_path(&self, dice: &mut Dice) -> String {
        let paths = ["one", "two", "two, one", "public, one"];
        let three = self.topics.contains(&Topic::Shapes) && dice.below(4) == 0;
        let path = if three { "three" } else { one(&paths, dice) };
        match dice.below(12) {
            0 | 1 => format!("SET search_path TO {path}"),
            2 => format!("SET LOCAL search_path TO {path}"),
            3 => format!("SELECT set_config('search_path', '{path}', false)"),
            4 => "RESET search_path".to_owned(),
            5 => "SHOW search_path".to_owned(),
            _ => "SELECT name FROM place".to_owned(),
        }
    }

    fn temporary(&self, dice: &mut Dice) -> String {
        let table = one(&["t0", "t1"], dice);
        let row = format!("{}-{}", self.tag, self.serial);
        match dice.below(12) {
            0 | 1 => format!("CREATE TEMP TABLE {table} (a text)"),
            2 => format!("CREATE TEMP TABLE {table} (a text) ON COMMIT DROP"),
            3 => format!("CREATE TEMP TABLE {table} (a text) ON COMMIT DELETE ROWS"),
            4 | 5 => format!("INSERT INTO {table} VALUES ('{row}')"),
            6 => format!("DROP TABLE {table}"),
            7 => format!("COPY {table} FROM STDIN"),
            _ => format!("SELECT a FROM {table}"),
        }
    }

    fn shape(&self, twin: &Backend, dice: &mut Dice) -> String {
        let table = format!("public.shape_{}", self.number);
        let may = twin.status() == Idle && twin.setting("is_superuser") == Some("on");
        match dice.below(6) {
            0 if may => format!("ALTER TABLE {table} ALTER COLUMN v TYPE int USING v::int"),
            1 if may => format!("ALTER TABLE {table} ALTER COLUMN v TYPE text"),
            _ if twin.setting("is_superuser") == Some("on") => format!("SELECT v FROM {table}"),
            _ => "SHOW is_superuser".to_owned(),
        }
    }
}

fn role(twin: &Backend, dice: &mut Dice) -> String {
    let who = one(&["alice", "bobby"], dice);
    match dice.below(12) {
        0 | 1 => format!("SET ROLE {who}"),
        2 => format!("SET LOCAL role TO '{who}'"),
        3 if dice.below(4) == 0 => "SET ROLE nobody".to_owned(),
        3 => "SET ROLE NONE".to_owned(),
        4 => "RESET ROLE".to_owned(),
        // Only outside a transaction: the rollback of both settings together is PostgreSQL's own affair.
        5 if twin.setting("role") == Some("none") && twin.status() != InTransaction => {
            format!("SET SESSION AUTHORIZATION {who}")
        }
        6 if twin.status() != InTransaction => "RESET SESSION AUTHORIZATION".to_owned(),
        7 => "SHOW is_superuser".to_owned(),
        8 => "SHOW role".to_owned(),
        9 => "SELECT session_user".to_owned(),
        _ => "SELECT current_user".to_owned(),
    }
}
