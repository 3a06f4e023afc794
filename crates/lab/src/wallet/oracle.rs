//! What must hold after any number of transfers. If it does not, somebody mixed sessions or lost a commit.

use std::fmt;

/// What the tables say, summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    /// Of all wallets together, and what it was at the beginning.
    pub balance: (i64, i64),
    /// Transactions that have not exactly two entries which cancel each other.
    pub unpaired: i64,
    /// Credits less debits.
    pub surplus: i64,
    /// Wallets whose balance is not what their entries say.
    pub wrong_wallets: i64,
    /// Transactions since the beginning.
    pub transfers: i64,
    /// Ledger entries since the beginning.
    pub entries: i64,
}

/// Something that cannot be if every transfer was done once and whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Money appeared or vanished.
    Balance {
        /// What there should be.
        expected: i64,
        /// What there is.
        found: i64,
    },
    /// Transactions without exactly two entries that cancel each other.
    Unpaired(i64),
    /// Credits and debits differ.
    Surplus(i64),
    /// Wallets whose balance is not what their entries say.
    Wallets(i64),
    /// Entries are not twice the transfers.
    Entries {
        /// Transfers in the tables.
        transfers: i64,
        /// Entries in the tables.
        entries: i64,
    },
    /// The load saw another number of transfers succeed than there are.
    Transfers {
        /// What the load saw.
        expected: i64,
        /// What there is.
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
    /// Out of the row of `lab/wallet/oracle.sql`; nothing if it has another form.
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

    /// What is wrong; `transfers` is how many the load saw succeed, if it knows.
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
