//! The e-wallet: users, wallets, transactions and a ledger with two entries for each; its load is transfers,
//! balances and histories. The schema is that of the published study, to the kilobyte; `lab/wallet` has the files.
//!
//! The module never touches a database that it did not create.

mod oracle;
mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::collector::psql::{self, Psql};
use crate::error::{Error, Result};
use crate::template;

pub use self::oracle::{Books, Violation};
pub use self::store::Store;

/// Number of users in the published study.
const USERS: u64 = 10_000;
/// Balance of each user at the beginning, in the smallest unit of money.
const BALANCE: u64 = 1_000_000;
/// Number of transactions per user at the beginning.
const TRANSACTIONS_EACH: u64 = 10;

/// Shape of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As published: no unique keys except the primary keys and the wallet's owner, and one time stamp for all
    /// rows.
    Compat,
    /// As in an application: a unique idempotency key, varied time stamps, free space in the pages of wallets.
    Realistic {
        /// Factor for all rows; with 10 the data exceed the published server's shared buffers.
        scale: u32,
    },
}

/// E-wallet workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wallet {
    /// Shape of the data.
    pub profile: Profile,
    /// True if foreign keys exist. The published sizes do not tell.
    pub foreign_keys: bool,
    /// Zipf's exponent, above 1, of the users' popularity. `None` if all users are equally likely.
    pub zipf: Option<f64>,
    /// Seed from -1 to 1 for PostgreSQL's `setseed`; the same seed gives the same data.
    pub seed: f64,
}

impl Default for Wallet {
    fn default() -> Self {
        Self {
            profile: Profile::Compat,
            foreign_keys: true,
            zipf: None,
            seed: 0.42,
        }
    }
}

/// Protocol style of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Six round trips per transfer.
    Chatty,
    /// A single round trip per transfer.
    Pipelined,
}

impl Mode {
    /// Returns the name for tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chatty => "chatty",
            Self::Pipelined => "pipelined",
        }
    }

    /// Returns the mean number of round trips per transaction, by [`WEIGHTS`]: 0.6 x 6 + 0.4 x 1, or 1.
    #[must_use]
    pub const fn round_trips(self) -> f64 {
        match self {
            Self::Chatty => 4.0,
            Self::Pipelined => 1.0,
        }
    }
}

/// Number of transfers, balances and histories in a hundred transactions.
pub const WEIGHTS: [u32; 3] = [60, 25, 15];

/// Script for pgbench with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Name of the file.
    pub name: String,
    /// Text of the script.
    pub text: String,
    /// Weight in the random choice, relative to the sum of all.
    pub weight: u32,
}

impl Script {
    /// Adds a pause after each round trip, as for a client further away. A pipeline counts as one round trip.
    #[must_use]
    pub fn at_distance(mut self, round_trip: Duration) -> Self {
        if round_trip.is_zero() {
            return self;
        }
        let pause = format!("\\sleep {} us\n", round_trip.as_micros());
        let mut text = String::new();
        let mut in_pipeline = false;
        for line in self.text.lines() {
            text.push_str(line);
            text.push('\n');
            match line.trim() {
                "\\startpipeline" => in_pipeline = true,
                "\\endpipeline" => {
                    in_pipeline = false;
                    text.push_str(&pause);
                }
                line if in_pipeline || line.is_empty() || line.starts_with(['\\', '-']) => {}
                _ => text.push_str(&pause),
            }
        }
        self.text = text;
        self
    }
}

/// Size of a table on disk, in kB of 1024 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// Name of the table.
    pub table: String,
    /// Size of the rows, `pg_relation_size`.
    pub rows_kb: u64,
    /// Size of all indexes.
    pub indexes_kb: u64,
    /// Total size, with free space map, visibility map and TOAST.
    pub total_kb: u64,
}

/// Table sizes of the published study: table, rows, indexes, total, in kB. Its "15 MB" and "24 MB" are given in
/// exact kB, derived from the number of pages.
pub const PUBLISHED_SIZES: [(&str, u64, u64, u64); 4] = [
    ("users", 512, 240, 792),
    ("wallets", 592, 480, 1104),
    ("transactions", 7480, 2208, 9728),
    ("ledger_entries", 14_960, 10_040, 25_040),
];

const SCHEMA: &str = include_str!("../../../lab/wallet/schema.sql");
const SEED: &str = include_str!("../../../lab/wallet/seed.sql");
const INDEXES: &str = include_str!("../../../lab/wallet/indexes.sql");
const SIZES: &str = include_str!("../../../lab/wallet/sizes.sql");
const ORACLE: &str = include_str!("../../../lab/wallet/oracle.sql");
const TRANSFER: &str = include_str!("../../../lab/wallet/transfer.sql");
const TRANSFER_PIPELINED: &str = include_str!("../../../lab/wallet/transfer_pipelined.sql");
const BALANCE_SCRIPT: &str = include_str!("../../../lab/wallet/balance.sql");
const HISTORY: &str = include_str!("../../../lab/wallet/history.sql");

impl Wallet {
    /// Returns the number of users, which is also that of wallets.
    #[must_use]
    pub fn users(&self) -> u64 {
        USERS * self.scale()
    }

    /// Returns the number of transactions at the beginning; there are twice as many ledger entries.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.users() * TRANSACTIONS_EACH
    }

    /// Creates and fills the tables in an empty database; vacuums, analyzes and checkpoints it.
    ///
    /// # Errors
    /// The server refuses.
    pub fn fill(&self, psql: &mut Psql) -> Result<()> {
        for (name, text) in [("schema", SCHEMA), ("seed", SEED), ("indexes", INDEXES)] {
            psql.execute(&self.rendered(name, text)?)?;
        }
        psql.execute("VACUUM ANALYZE")?;
        checkpoint(psql)
    }

    /// Returns the scripts of the mix.
    ///
    /// # Errors
    /// A file in `lab/wallet` is not a valid template.
    pub fn scripts(&self, mode: Mode) -> Result<Vec<Script>> {
        let transfer = match mode {
            Mode::Chatty => ("transfer.sql", TRANSFER),
            Mode::Pipelined => ("transfer_pipelined.sql", TRANSFER_PIPELINED),
        };
        let scripts = [
            transfer,
            ("balance.sql", BALANCE_SCRIPT),
            ("history.sql", HISTORY),
        ];
        scripts
            .iter()
            .zip(WEIGHTS)
            .map(|((name, text), weight)| {
                Ok(Script {
                    name: (*name).to_owned(),
                    text: self.rendered(name, text)?,
                    weight,
                })
            })
            .collect()
    }

    /// Returns the current sizes of the tables.
    ///
    /// # Errors
    /// The server refuses.
    pub fn sizes(&self, psql: &mut Psql) -> Result<Vec<Size>> {
        let rows = psql.rows(SIZES)?;
        rows.iter()
            .map(|row| {
                let at = |column: usize| row.get(column)?.parse().ok();
                let size = || {
                    Some(Size {
                        table: row.first()?.clone(),
                        rows_kb: at(1)?,
                        indexes_kb: at(2)?,
                        total_kb: at(3)?,
                    })
                };
                size().ok_or_else(|| psql::unexpected("the size of a table", row))
            })
            .collect()
    }

    /// Reads the books, which [`Books::violations`] judges.
    ///
    /// # Errors
    /// The server refuses.
    pub fn books(&self, psql: &mut Psql) -> Result<Books> {
        let rows = psql.rows(&self.rendered("oracle", ORACLE)?)?;
        let row = rows.first().map(Vec::as_slice).unwrap_or_default();
        Books::of(row, self.users() * BALANCE)
            .ok_or_else(|| psql::unexpected("the books of the e-wallet", row))
    }

    fn scale(&self) -> u64 {
        match self.profile {
            Profile::Compat => 1,
            Profile::Realistic { scale } => u64::from(scale.max(1)),
        }
    }

    fn rendered(&self, name: &str, text: &str) -> Result<String> {
        let users = self.users();
        let user = match self.zipf {
            // Popular users with consecutive ids would share pages, so they are spread over the table.
            Some(exponent) => {
                format!("permute(random_zipfian(1, {users}, {exponent}) - 1, {users}) + 1")
            }
            None => format!("random(1, {users})"),
        };
        let realistic = matches!(self.profile, Profile::Realistic { .. });
        let values: BTreeMap<&str, serde_json::Value> = BTreeMap::from([
            ("users", users.into()),
            ("transactions", self.transactions().into()),
            ("seed", self.seed.into()),
            ("user", user.into()),
            ("realistic", realistic.into()),
            ("foreign_keys", self.foreign_keys.into()),
        ]);
        template::render(name, text, &values).map_err(|error| Error::Unexpected {
            what: format!("lab/wallet/{name}"),
            text: error.to_string(),
        })
    }
}

/// Runs a CHECKPOINT if the server has the role pg_checkpoint (PostgreSQL 15 and later) and the user is a member.
fn checkpoint(psql: &mut Psql) -> Result<()> {
    let may = psql.value("SELECT pg_has_role('pg_checkpoint', 'member')::int FROM pg_roles WHERE rolname = 'pg_checkpoint'")?;
    if may.as_deref() == Some("1") {
        psql.execute("CHECKPOINT")?;
    }
    Ok(())
}

/// Writes scripts to files for pgbench; returns their paths and weights.
///
/// # Errors
/// A file cannot be written.
pub fn write_scripts(scripts: &[Script], directory: &Path) -> Result<Vec<(PathBuf, u32)>> {
    scripts
        .iter()
        .map(|script| {
            let path = directory.join(&script.name);
            std::fs::write(&path, &script.text).map_err(Error::file("write", &path))?;
            Ok((path, script.weight))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipelined_transfer_has_the_same_statements_in_one_pipeline() {
        let steps = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with(['\\', '-']));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(steps(TRANSFER), steps(TRANSFER_PIPELINED));
        assert_eq!(steps(TRANSFER).len(), 6);
        let begin = TRANSFER_PIPELINED.find("\\startpipeline\nBEGIN;");
        assert!(begin < TRANSFER_PIPELINED.find("COMMIT;\n\\endpipeline"));
        assert!(begin.is_some());
    }

    #[test]
    fn a_client_further_away_waits_once_for_each_round_trip() {
        let pauses = |mode: Mode| -> Vec<usize> {
            let scripts = Wallet::default().scripts(mode).unwrap().into_iter();
            let far = scripts.map(|script| script.at_distance(Duration::from_micros(1270)));
            far.map(|script| script.text.matches("\\sleep 1270 us\n").count())
                .collect()
        };
        assert_eq!(pauses(Mode::Chatty), [6, 1, 1]);
        assert_eq!(pauses(Mode::Pipelined), [1, 1, 1]);
        let script = Wallet::default().scripts(Mode::Chatty).unwrap().remove(0);
        assert_eq!(script.clone().at_distance(Duration::ZERO), script);
    }

    #[test]
    fn the_mix_has_the_published_weights_and_four_round_trips() {
        let scripts = Wallet::default().scripts(Mode::Chatty).unwrap();
        let weights: Vec<u32> = scripts.iter().map(|script| script.weight).collect();
        assert_eq!(weights, [60, 25, 15]);
        let [transfer, balance, history] = WEIGHTS.map(f64::from);
        let trips = (6.0 * transfer + balance + history) / 100.0;
        assert!((trips - Mode::Chatty.round_trips()).abs() < 1e-9);
    }

    #[test]
    fn some_users_are_wanted_more_if_asked_for() {
        let wallet = Wallet {
            zipf: Some(1.1),
            profile: Profile::Realistic { scale: 10 },
            ..Wallet::default()
        };
        let scripts = wallet.scripts(Mode::Pipelined).unwrap();
        assert!(scripts[0].text.contains("random_zipfian(1, 100000, 1.1)"));
        let plain = Wallet::default().scripts(Mode::Pipelined).unwrap();
        assert!(plain[1].text.contains("\\set owner random(1, 10000)\n"));
    }

    #[test]
    fn only_the_realistic_schema_has_a_unique_key_more() {
        let compat = Wallet::default();
        assert!(!compat.rendered("x", INDEXES).unwrap().contains("UNIQUE"));
        let wallet = Wallet {
            profile: Profile::Realistic { scale: 1 },
            foreign_keys: false,
            ..compat
        };
        let text = wallet.rendered("x", INDEXES).unwrap();
        assert!(text.contains("UNIQUE") && !text.contains("FOREIGN KEY"));
        assert!(wallet.rendered("x", SCHEMA).unwrap().contains("fillfactor"));
    }
}
