//! The e-wallet: users, wallets, transactions and a ledger with two entries for each; transfers, balances and histories.
//! The schema is that of the published study, to the kilobyte; `lab/wallet` has it as files.
//!
//! What it must never do: touch a database that it did not make.

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

/// Rows of the published study.
const USERS: u64 = 10_000;
/// Of each user at the beginning, in the smallest unit of money.
const BALANCE: u64 = 1_000_000;
/// Transactions per user at the beginning.
const TRANSACTIONS_EACH: u64 = 10;

/// What the data look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As published: no unique key but the primary ones and the wallet's owner, one time stamp for all.
    Compat,
    /// As an application has it: a unique idempotency key, times spread out, room in the pages of wallets.
    Realistic {
        /// Multiplies all rows; 10 is larger than the published server's shared buffers.
        scale: u32,
    },
}

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wallet {
    /// What the data look like.
    pub profile: Profile,
    /// Whether rows refer to each other by constraints. The published sizes do not tell.
    pub foreign_keys: bool,
    /// Some users are wanted more than others: Zipf's exponent, above 1. Without it all are wanted equally.
    pub zipf: Option<f64>,
    /// The same data for the same seed, from -1 to 1; PostgreSQL's `setseed`.
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

/// How a transfer speaks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Six round trips.
    Chatty,
    /// One.
    Pipelined,
}

impl Mode {
    /// In tables and file names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chatty => "chatty",
            Self::Pipelined => "pipelined",
        }
    }

    /// Round trips of a transaction on average, by [`WEIGHTS`]: 0.6 x 6 + 0.4 x 1, or 1.
    #[must_use]
    pub const fn round_trips(self) -> f64 {
        match self {
            Self::Chatty => 4.0,
            Self::Pipelined => 1.0,
        }
    }
}

/// Transfers, balances and histories of a hundred transactions.
pub const WEIGHTS: [u32; 3] = [60, 25, 15];

/// One script of pgbench with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Of its file.
    pub name: String,
    /// Its text.
    pub text: String,
    /// How often it is chosen, against the sum of all.
    pub weight: u32,
}

impl Script {
    /// The same for a client further away: it waits after each round trip. What is in a pipeline is one.
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

/// A table's size on disk, in kB of 1024 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// Its name.
    pub table: String,
    /// Rows alone, `pg_relation_size`.
    pub rows_kb: u64,
    /// All indexes.
    pub indexes_kb: u64,
    /// With free space map, visibility map and TOAST.
    pub total_kb: u64,
}

/// The twelve sizes of the published study: table, rows, indexes, all, in kB; its "15 MB" and "24 MB" are these
/// by the arithmetic of pages.
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
    /// Users, and wallets.
    #[must_use]
    pub fn users(&self) -> u64 {
        USERS * self.scale()
    }

    /// Transactions at the beginning; twice as many ledger entries.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.users() * TRANSACTIONS_EACH
    }

    /// Makes and fills the tables in an empty database, and leaves it vacuumed, analyzed and written out.
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

    /// The scripts of the mix.
    ///
    /// # Errors
    /// A file in `lab/wallet` is no template.
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

    /// How large the tables are now.
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
            // Consecutive ids would share pages: the wanted ones are spread over the table.
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

/// Writes everything out, if we may: only some may, from PostgreSQL 15 on.
fn checkpoint(psql: &mut Psql) -> Result<()> {
    let may = psql.value("SELECT pg_has_role('pg_checkpoint', 'member')::int FROM pg_roles WHERE rolname = 'pg_checkpoint'")?;
    if may.as_deref() == Some("1") {
        psql.execute("CHECKPOINT")?;
    }
    Ok(())
}

/// Writes scripts where pgbench reads them: their paths and weights.
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
