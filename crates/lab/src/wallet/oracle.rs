//! Invariants that hold after any number of transfers. A violation means that sessions were mixed up or a commit
//! was lost.

use std::fmt;

/// Sums over the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    /// Balance of all wallets together, now and at the beginning.
    pub balance: (i64, i64),
    /// Number of transactions without exactly two entries that cancel each other.
    pub unpaired: i64,
    /// Sum of credits less that of debits.
    pub surplus: i64,
    /// Number of wallets whose balance differs from their entries.
    pub wrong_wallets: i64,
    /// Number of transactions since the beginning.
    pub transfers: i64,
    /// Number of ledger entries since the beginning.
    pub entries: i64,
}

/// Violation that is impossible if every transfer was done once and completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Money appeared or vanished.
    Balance {
        /// Expected sum of balances.
        expected: i64,
        /// Sum of balances in the tables.
        found: i64,
    },
    /// Number of transactions without exactly two entries that cancel each other.
    Unpaired(i64),
    /// Credits and debits differ.
    Surplus(i64),
    /// Number of wallets whose balance differs from their entries.
    Wallets(i64),
    /// The number of entries is not twice that of transfers.
    Entries {
        /// Transfers in the tables.
        transfers: i64,
        /// Entries in the tables.
        entries: i64,
    },
    /// The load reports another number of successful transfers than the tables have.
    Transfers {
        /// Number of transfers that the load reports.
        expected: i64,
        /// Number of transfers in the tables.
        found: i64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balance { expected, found } => {
                write!(
                    formatter,
                    "all balances together are {found} and must be {expected}"
                )
            }
            Self::Unpaired(count) => {
                write!(
                    formatter,
                    "{count} transactions have not two entries that cancel each other"
                )
            }
            Self::Surplus(surplus) => {
                write!(formatter, "credits and debits differ by {surplus}")
            }
            Self::Wallets(count) => {
                write!(formatter, "{count} wallets differ from their ledger")
            }
            Self::Entries { transfers, entries } => {
                write!(
                    formatter,
                    "{transfers} transfers left {entries} ledger entries"
                )
            }
            Self::Transfers { expected, found } => {
                write!(
                    formatter,
                    "{expected} transfers succeeded and {found} are there"
                )
            }
        }
    }
}

impl Books {
    /// Parses the row of `lab/wallet/oracle.sql`; `None` if it has another form.
    pub(super) fn of(row: &[String], balance: u64) -> Option<Self> {
        let at = |column: usize| row.get(column)?.parse::<i64>().ok();
        Some(Self {
            balance: (at(0)?, i64::try_from(balance).ok()?),
            unpaired: at(1)?,
            surplus: at(2)?,
            wrong_wallets: at(3)?,
            transfers: at(4)?,
            entries: at(5)?,
        })
    }

    /// Returns all violations. `transfers` is the number of successful transfers that the load reports, if known.
    #[must_use]
    pub fn violations(&self, transfers: Option<u64>) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut check = |holds: bool, violation: Violation| {
            if !holds {
                found.push(violation);
            }
        };
        let (balance, expected) = self.balance;
        check(
            balance == expected,
            Violation::Balance {
                expected,
                found: balance,
            },
        );
        check(self.unpaired == 0, Violation::Unpaired(self.unpaired));
        check(self.surplus == 0, Violation::Surplus(self.surplus));
        check(
            self.wrong_wallets == 0,
            Violation::Wallets(self.wrong_wallets),
        );
        check(
            self.entries == self.transfers.saturating_mul(2),
            Violation::Entries {
                transfers: self.transfers,
                entries: self.entries,
            },
        );
        if let Some(expected) = transfers.and_then(|count| i64::try_from(count).ok()) {
            let found = self.transfers;
            check(found == expected, Violation::Transfers { expected, found });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Vec<String> {
        text.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn sound_books_have_no_violation() {
        let books = Books::of(&row("500|0|0|0|7|14"), 500).unwrap();
        assert_eq!(books.violations(Some(7)), []);
        assert_eq!(books.violations(None), []);
    }

    #[test]
    fn each_mistake_is_told_by_itself() {
        let books = Books::of(&row("499|1|-3|2|7|13"), 500).unwrap();
        let told: Vec<String> = books
            .violations(Some(8))
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "all balances together are 499 and must be 500",
            "1 transactions have not two entries that cancel each other",
            "credits and debits differ by -3",
            "2 wallets differ from their ledger",
            "7 transfers left 13 ledger entries",
            "8 transfers succeeded and 7 are there",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_row_of_another_form_is_no_book() {
        assert_eq!(Books::of(&row("1|2"), 5), None);
        assert_eq!(Books::of(&row("a|0|0|0|0|0"), 5), None);
    }
}
