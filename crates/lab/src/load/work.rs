//! Transactions of a plan, prepared for sending: texts cut at their variables, values drawn, messages encoded.

use std::io::Write as _;

use rand::RngExt as _;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution as _, Zipf};
use weir_wire::encode;
use weir_wire::encode::EncodeError;
use weir_wire::frontend::Kind;

use crate::load::plan::{CopyIn, Draw, Plan, Protocol, Transaction};

/// Maximum size of a message of COPY data, as in psql.
const COPY_MESSAGE: usize = 8192;

/// All transactions of a plan.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) protocol: Protocol,
    /// Number of statements in one batch.
    pub(super) pipeline: usize,
    pub(super) scripts: Vec<Script>,
    /// Cumulated weights. A drawn number selects the first script whose entry is above it.
    weights: Vec<u64>,
    /// Number of statements in all scripts, which is the maximum that a connection has prepared.
    pub(super) statement_count: usize,
}

/// Transaction, prepared for sending.
#[derive(Debug)]
pub(super) struct Script {
    draws: Vec<Value>,
    /// Statements in the order of sending, one entry per repetition.
    pub(super) steps: Vec<Step>,
    statements: Vec<Statement>,
}

/// Source of a variable's value.
#[derive(Debug)]
enum Value {
    Uniform(i64, i64),
    /// Bounds, and the earlier variable whose value is excluded.
    Except(i64, i64, usize),
    /// Smallest value, and the law of the offset from it, which begins at 1.
    Zipf(i64, Zipf<f64>),
    Filler(usize),
}

/// Statement to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Index in [`Script::statements`].
    statement: usize,
    /// True if the variables are drawn again before it.
    draws: bool,
    pub(super) is_copy_in: bool,
}

#[derive(Debug)]
struct Statement {
    /// Text for the simple protocol.
    pieces: Vec<Piece>,
    /// Text for the extended protocol, with `$1` and so on.
    text: Vec<u8>,
    /// The variable that each parameter stands for.
    parameters: Vec<usize>,
    /// Name as a prepared statement.
    name: Vec<u8>,
    /// Number among all statements of the plan.
    number: usize,
    copy: Option<CopyData>,
}

/// Data that are sent for a COPY.
#[derive(Debug)]
pub(super) struct CopyData {
    bytes: u64,
    line: u64,
    /// Lines for one message and one line more, so that a message can begin anywhere in a line.
    pattern: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Variable(usize),
}

/// Values of the variables in the current transaction.
#[derive(Debug, Default)]
pub(super) struct Values {
    texts: Vec<Vec<u8>>,
    numbers: Vec<i64>,
}

impl Work {
    /// Prepares a plan that has been checked.
    pub(super) fn new(plan: &Plan) -> Self {
        let mut number = 0;
        let mut weight = 0;
        let mut weights = Vec::new();
        let mut scripts = Vec::new();
        for transaction in &plan.transactions {
            weight += u64::from(transaction.weight);
            weights.push(weight);
            scripts.push(Script::new(transaction, &mut number));
        }
        Self {
            protocol: plan.protocol,
            pipeline: plan.pipeline as usize,
            scripts,
            weights,
            statement_count: number,
        }
    }

    /// Chooses the next transaction. The plan must have one.
    pub(super) fn choose(&self, random: &mut Xoshiro256PlusPlus) -> usize {
        match self.weights.last() {
            Some(&total) if self.weights.len() > 1 => {
                let drawn = random.random_range(0..total);
                self.weights.partition_point(|weight| *weight <= drawn)
            }
            _ => 0,
        }
    }
}

impl Script {
    fn new(transaction: &Transaction, number: &mut usize) -> Self {
        let names: Vec<&str> = transaction
            .variables
            .iter()
            .map(|variable| variable.name.as_str())
            .collect();
        let position = |name: &str| names.iter().position(|other| *other == name);
        let draws = transaction.variables.iter().map(|variable| {
            match &variable.draw {
                Draw::Uniform { min, max } => Value::Uniform(*min, *max),
                // The check of the plan ensures that the other variable comes first.
                Draw::UniformExcept { min, max, except } => {
                    Value::Except(*min, *max, position(except).unwrap_or_default())
                }
                Draw::Zipf { min, max, exponent } => zipf(*min, *max, *exponent),
                Draw::Filler { bytes } => Value::Filler(*bytes),
            }
        });
        let mut steps = Vec::new();
        let mut statements = Vec::new();
        for statement in &transaction.statements {
            for repetition in 0..statement.repeat {
                steps.push(Step {
                    statement: statements.len(),
                    draws: steps.is_empty() || repetition > 0,
                    is_copy_in: statement.copy_in.is_some(),
                });
            }
            let copy = statement.copy_in.map(CopyData::new);
            statements.push(Statement::new(&statement.sql, &names, *number, copy));
            *number += 1;
        }
        Self {
            draws: draws.collect(),
            steps,
            statements,
        }
    }

    /// Draws new values for all variables.
    fn draw(&self, values: &mut Values, random: &mut Xoshiro256PlusPlus) {
        values.texts.resize_with(self.draws.len(), Vec::new);
        values.numbers.clear();
        for (value, text) in self.draws.iter().zip(&mut values.texts) {
            let number = match *value {
                Value::Uniform(min, max) => random.random_range(min..=max),
                Value::Except(min, max, other) => {
                    let taken = values.numbers.get(other).copied().unwrap_or_default();
                    if (min..=max).contains(&taken) {
                        let drawn = random.random_range(min..max);
                        drawn + i64::from(drawn >= taken)
                    } else {
                        random.random_range(min..=max)
                    }
                }
                // Whole numbers from 1 to the size of the range.
                #[expect(clippy::cast_possible_truncation, reason = "checked: below 2^53")]
                Value::Zipf(min, law) => min + law.sample(random) as i64 - 1,
                Value::Filler(bytes) => {
                    text.clear();
                    text.resize(bytes, b'x');
                    values.numbers.push(0);
                    continue;
                }
            };
            text.clear();
            // Writing to memory cannot fail.
            let _ = write!(text, "{number}");
            values.numbers.push(number);
        }
    }

    /// Returns the COPY data of the statement before this step, if it copies.
    pub(super) fn copy_before(&self, step: usize) -> Option<&CopyData> {
        let step = self.steps.get(step.checked_sub(1)?)?;
        self.statements.get(step.statement)?.copy.as_ref()
    }

    /// Appends one statement. `prepared` tells which statements the connection has; `parses` collects those that
    /// are prepared now.
    pub(super) fn send(&self, step: Step, to: &mut Sending<'_>) -> Result<(), EncodeError> {
        if step.draws {
            self.draw(to.values, to.random);
        }
        let Some(statement) = self.statements.get(step.statement) else {
            return Ok(());
        };
        let is_simple = to.protocol == Protocol::Simple || step.is_copy_in;
        match is_simple {
            true => statement.query(to.values, to.out),
            false => statement.extended(to),
        }
    }
}

impl CopyData {
    fn new(plan: CopyIn) -> Self {
        let line = plan.line as usize;
        let mut one = vec![b'x'; line];
        if let Some(last) = one.last_mut() {
            *last = b'\n';
        }
        Self {
            bytes: plan.bytes,
            line: u64::from(plan.line),
            pattern: one.repeat(COPY_MESSAGE / line + 2),
        }
    }

    /// Returns the message that begins after `sent` bytes; `None` when all are sent.
    pub(super) fn message(&self, sent: u64) -> Option<&[u8]> {
        let left = usize::try_from(self.bytes - sent).unwrap_or(usize::MAX);
        let begin = usize::try_from(sent % self.line).unwrap_or(0);
        let end = begin + left.min(COPY_MESSAGE);
        self.pattern
            .get(begin..end)
            .filter(|message| !message.is_empty())
    }
}

/// Destination and context of a statement to be sent.
pub(super) struct Sending<'a> {
    pub(super) protocol: Protocol,
    pub(super) values: &'a mut Values,
    pub(super) random: &'a mut Xoshiro256PlusPlus,
    pub(super) prepared: &'a [bool],
    pub(super) parses: &'a mut Vec<usize>,
    pub(super) out: &'a mut Vec<u8>,
}

impl Statement {
    fn new(sql: &str, names: &[&str], number: usize, copy: Option<CopyData>) -> Self {
        let pieces = cut(sql, names);
        let mut text = Vec::new();
        let mut parameters = Vec::new();
        for piece in &pieces {
            match piece {
                Piece::Text(bytes) => text.extend_from_slice(bytes),
                Piece::Variable(variable) => {
                    parameters.push(*variable);
                    let _ = write!(text, "${}", parameters.len());
                }
            }
        }
        Self {
            pieces,
            text,
            parameters,
            name: format!("s{number}").into_bytes(),
            number,
            copy,
        }
    }

    fn query(&self, values: &Values, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if let [Piece::Text(text)] = self.pieces.as_slice() {
            return encode::query(out, text);
        }
        let mut sql = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => sql.extend_from_slice(text),
                Piece::Variable(variable) => sql.extend_from_slice(values.text(*variable)),
            }
        }
        encode::query(out, &sql)
    }

    /// Appends what libpq sends for PQsendQueryParams and PQsendQueryPrepared, without the Sync.
    fn extended(&self, to: &mut Sending<'_>) -> Result<(), EncodeError> {
        let is_named = to.protocol == Protocol::Prepared;
        let name = if is_named { self.name.as_slice() } else { b"" };
        let is_known = is_named
            && (to.prepared.get(self.number).copied().unwrap_or_default()
                || to.parses.contains(&self.number));
        if !is_known {
            encode::parse(to.out, name, &self.text, &[0, 0])?;
            // An unnamed statement is lost at the next Parse. Only the order of the ParseComplete messages needs an
            // entry.
            to.parses
                .push(if is_named { self.number } else { usize::MAX });
        }
        encode::bind_renamed(to.out, b"", name, &self.bind(to.values)?)?;
        encode::describe(to.out, Kind::Portal, b"")?;
        encode::execute(to.out, b"", 0)
    }

    /// Returns formats (all text) and values.
    fn bind(&self, values: &Values) -> Result<Vec<u8>, EncodeError> {
        let count =
            u16::try_from(self.parameters.len()).map_err(|_| EncodeError::TooManyEntries)?;
        let mut rest = vec![0, 0];
        rest.extend_from_slice(&count.to_be_bytes());
        for parameter in &self.parameters {
            let value = values.text(*parameter);
            let len = i32::try_from(value.len()).map_err(|_| EncodeError::TooLong)?;
            rest.extend_from_slice(&len.to_be_bytes());
            rest.extend_from_slice(value);
        }
        rest.extend_from_slice(&[0, 0]);
        Ok(rest)
    }
}

impl Values {
    fn text(&self, variable: usize) -> &[u8] {
        self.texts.get(variable).map_or(&[], Vec::as_slice)
    }
}

#[expect(clippy::cast_precision_loss, reason = "checked: below 2^53")]
fn zipf(min: i64, max: i64, exponent: f64) -> Value {
    match Zipf::new((max - min + 1) as f64, exponent) {
        Ok(law) => Value::Zipf(min, law),
        // Not reached: the plan was checked.
        Err(_) => Value::Uniform(min, max),
    }
}

/// Cuts a text at its variables. As in pgbench, a variable is a single colon followed by a known name.
fn cut(sql: &str, names: &[&str]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once(':') {
        text.push_str(before);
        let more = after.len() - after.trim_start_matches(':').len();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        match names.iter().position(|known| *known == name) {
            Some(variable) if more == 0 => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text).into_bytes()));
                }
                pieces.push(Piece::Variable(variable));
                rest = behind;
            }
            _ => {
                let (colons, behind) = after.split_at(more);
                text.push(':');
                text.push_str(colons);
                rest = behind;
                // A name after several colons is no variable, and has no colon in it.
            }
        }
    }
    text.push_str(rest);
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(text.into_bytes()));
    }
    pieces
}

#[cfg(test)]
mod tests;
