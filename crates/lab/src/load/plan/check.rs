//! Checks that a plan can be carried out.

use crate::load::plan::{
    CLIENTS_MAX, Draw, LINE_MAX, Pace, Plan, Protocol, STATEMENTS_MAX, THREADS_MAX, Transaction,
    Variable,
};

impl Plan {
    /// Checks the plan.
    ///
    /// # Errors
    /// The first entry that cannot be carried out.
    pub fn check(&self) -> Result<(), PlanError> {
        within("clients", self.clients, CLIENTS_MAX)?;
        within("threads", self.threads, THREADS_MAX)?;
        within("pipeline", self.pipeline, u32::MAX)?;
        let seconds = [
            ("warm_up_s", self.warm_up_s, true),
            ("measure_s", self.measure_s, false),
            ("drain_s", self.drain_s, true),
            ("connect_s", self.connect_s, false),
        ];
        for (key, value, may_be_zero) in seconds {
            let is_fine = (value > 0.0 || may_be_zero && value == 0.0) && value <= 1e6;
            if !is_fine {
                return Err(PlanError::Seconds { key, value });
            }
        }
        if self.pipeline > 1 && self.protocol == Protocol::Simple {
            return Err(PlanError::SimplePipeline);
        }
        self.check_pace()?;
        self.transactions.iter().try_for_each(Transaction::check)
    }

    fn check_pace(&self) -> Result<(), PlanError> {
        if let Pace::Fixed { per_second } | Pace::Poisson { per_second } = self.pace
            && !(per_second > 0.0 && per_second <= 1e8)
        {
            return Err(PlanError::Rate(per_second));
        }
        match self.pace {
            Pace::Idle if self.reconnect => Err(PlanError::IdleReconnect),
            Pace::Idle if self.transactions_per_client.is_some() => Err(PlanError::IdleCount),
            Pace::Idle => Ok(()),
            _ if self.transactions.is_empty() && !self.reconnect => Err(PlanError::NothingToDo),
            _ => Ok(()),
        }
    }
}

fn within(key: &'static str, value: u32, max: u32) -> Result<(), PlanError> {
    match value {
        0 => Err(PlanError::OutOfRange { key, value, max }),
        value if value > max => Err(PlanError::OutOfRange { key, value, max }),
        _ => Ok(()),
    }
}

impl Transaction {
    fn check(&self) -> Result<(), PlanError> {
        within("weight", self.weight, u32::MAX)?;
        for (at, variable) in self.variables.iter().enumerate() {
            variable.check(self.variables.get(..at).unwrap_or_default())?;
        }
        let mut count = 0_usize;
        for statement in &self.statements {
            within("repeat", statement.repeat, u32::MAX)?;
            count = count.saturating_add(statement.repeat as usize);
            if statement.sql.contains('\0') {
                return Err(PlanError::Nul(self.name.clone()));
            }
            if statement
                .copy_in
                .is_some_and(|copy| !(2..=LINE_MAX).contains(&copy.line))
            {
                return Err(PlanError::CopyLine(self.name.clone()));
            }
        }
        if count == 0 || count > STATEMENTS_MAX {
            let name = self.name.clone();
            return Err(PlanError::StatementCount { name, count });
        }
        Ok(())
    }
}

impl Variable {
    /// Checks one variable; `before` are the variables in front of it.
    fn check(&self, before: &[Self]) -> Result<(), PlanError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if self.name.is_empty() || !self.name.bytes().all(is_name) {
            return Err(PlanError::VariableName(self.name.clone()));
        }
        if before.iter().any(|other| other.name == self.name) {
            return Err(PlanError::VariableTwice(self.name.clone()));
        }
        let is_fine = match &self.draw {
            Draw::Uniform { min, max } => min <= max,
            // The only value of a range of one could be the excepted value.
            Draw::UniformExcept { min, max, except } => {
                let is_number = |other: &Self| !matches!(other.draw, Draw::Filler { .. });
                if !before.iter().any(|o| o.name == *except && is_number(o)) {
                    return Err(PlanError::UnknownVariable(except.clone()));
                }
                min < max
            }
            Draw::Zipf { min, max, exponent } => {
                let fits = max
                    .checked_sub(*min)
                    .is_some_and(|n| (0..1 << 53).contains(&n));
                fits && *exponent > 0.0 && *exponent <= 100.0
            }
            Draw::Filler { bytes } => *bytes < 1 << 30,
        };
        match is_fine {
            true => Ok(()),
            false => Err(PlanError::VariableRange(self.name.clone())),
        }
    }
}

/// Reason why a plan cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A number is 0 or too large.
    #[error("{key} is {value}, but has to be from 1 to {max}")]
    OutOfRange {
        /// Name of the field.
        key: &'static str,
        /// Value of the field.
        value: u32,
        /// Largest value allowed.
        max: u32,
    },
    /// A number of seconds is negative, not a number, or too large; or is 0 where that makes no
    /// sense.
    #[error("{key} is {value}, but has to be a number of seconds")]
    Seconds {
        /// Name of the field.
        key: &'static str,
        /// Value of the field.
        value: f64,
    },
    /// A rate is not above 0, or is too high.
    #[error("a rate of {0} per second is impossible")]
    Rate(f64),
    /// Pipelining is combined with the simple protocol.
    #[error("pipeline needs protocol = \"extended\" or \"prepared\"")]
    SimplePipeline,
    /// Idle connections are combined with reconnecting.
    #[error("pace = \"idle\" keeps connections, so it cannot reconnect")]
    IdleReconnect,
    /// Idle connections are combined with a number of transactions.
    #[error("pace = \"idle\" lasts for a time, not for transactions_per_client")]
    IdleCount,
    /// The plan has no transaction, and no other work.
    #[error("there is no transaction to run")]
    NothingToDo,
    /// A transaction has no statement, or too many.
    #[error(
        "transaction \"{name}\" has {count} statements, but has to have from 1 to {STATEMENTS_MAX}"
    )]
    StatementCount {
        /// Name of the transaction.
        name: String,
        /// Number of statements, repetitions included.
        count: usize,
    },
    /// A statement has a NUL byte, which the protocol cannot carry.
    #[error("a statement of transaction \"{0}\" contains a NUL byte")]
    Nul(String),
    /// COPY lines are too short or too long.
    #[error("copy_in of transaction \"{0}\" needs lines of 2 to {LINE_MAX} bytes")]
    CopyLine(String),
    /// A variable's name is empty, or has other characters than ASCII alphanumerics and
    /// underscores.
    #[error("variable name \"{0}\" is not made of letters, digits and underscores")]
    VariableName(String),
    /// Two variables have the same name.
    #[error("variable \"{0}\" is there twice")]
    VariableTwice(String),
    /// A variable's range is empty or out of bounds.
    #[error("variable \"{0}\" has an empty range")]
    VariableRange(String),
    /// An excepted variable is missing, not numeric, or not in front.
    #[error("no numeric variable \"{0}\" stands in front of the one that excepts it")]
    UnknownVariable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            transactions: vec![Transaction::new(["SELECT 1"])],
            ..Plan::new("127.0.0.1:1")
        }
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Plan), text: &str) {
        let mut plan = plan();
        change(&mut plan);
        assert_eq!(plan.check().unwrap_err().to_string(), text);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        assert_eq!(plan().check(), Ok(()));
        let range = "clients is 0, but has to be from 1 to 50000";
        refused(|plan| plan.clients = 0, range);
        refused(
            |plan| plan.measure_s = 0.0,
            "measure_s is 0, but has to be a number of seconds",
        );
        refused(
            |plan| plan.drain_s = f64::NAN,
            "drain_s is NaN, but has to be a number of seconds",
        );
        refused(
            |plan| plan.pipeline = 2,
            "pipeline needs protocol = \"extended\" or \"prepared\"",
        );
        refused(
            |plan| plan.pace = Pace::Fixed { per_second: 0.0 },
            "a rate of 0 per second is impossible",
        );
        refused(
            |plan| {
                plan.pace = Pace::Idle;
                plan.transactions_per_client = Some(1);
            },
            "pace = \"idle\" lasts for a time, not for transactions_per_client",
        );
        refused(
            |plan| plan.transactions.clear(),
            "there is no transaction to run",
        );
        refused(
            |plan| plan.transactions.push(Transaction::new([])),
            "transaction \"\" has 0 statements, but has to have from 1 to 100000",
        );
    }

    #[test]
    fn variables_are_checked() {
        let with = |name: &str, draw: Draw| {
            let name = name.to_owned();
            move |plan: &mut Plan| {
                let one = plan.transactions.remove(0);
                let one = one.with("a", Draw::Uniform { min: 1, max: 2 });
                plan.transactions.push(one.with(&name, draw));
            }
        };
        let fine = Draw::Uniform { min: 1, max: 1 };
        refused(
            with("a b", fine.clone()),
            "variable name \"a b\" is not made of letters, digits and underscores",
        );
        refused(with("a", fine), "variable \"a\" is there twice");
        let zipf = |max, exponent| Draw::Zipf {
            min: 1,
            max,
            exponent,
        };
        for empty in [
            Draw::Uniform { min: 2, max: 1 },
            zipf(0, 1.0),
            zipf(5, 0.0),
            zipf(5, f64::NAN),
            zipf(i64::MAX, 1.0),
        ] {
            refused(with("b", empty), "variable \"b\" has an empty range");
        }
        let except = |min, except: &str| Draw::UniformExcept {
            min,
            max: 2,
            except: except.to_owned(),
        };
        refused(
            with("b", except(2, "a")),
            "variable \"b\" has an empty range",
        );
        refused(
            with("b", except(1, "c")),
            "no numeric variable \"c\" stands in front of the one that excepts it",
        );
        let mut fine = plan();
        with("b", except(1, "a"))(&mut fine);
        assert_eq!(fine.check(), Ok(()));
    }
}
