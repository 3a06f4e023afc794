//! Translates a point of an experiment into the work of a load generator.

use serde_json::{Map, Value, json};

use super::{Error, Experiment, Point, Tls};
use crate::template;

/// Rows of pgbench_accounts for each unit of scale.
const ACCOUNTS: u64 = 100_000;

/// Work of a cell's clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// `simple`, `extended` or `prepared`.
    pub protocol: String,
    /// Number of clients.
    pub clients: u32,
    /// Connections that are encrypted.
    pub tls: Tls,
    /// Rate at which transactions begin; `None` to begin each as soon as the previous one ends.
    pub rate: Option<Rate>,
    /// Statements per round trip.
    pub batch: u32,
    /// Statements that clients send.
    pub script: Script,
    /// True if the data are changed.
    pub writes: bool,
    /// True if every transaction begins with a login.
    pub reconnect: bool,
    /// True if clients send nothing once all are connected.
    pub idle: bool,
    /// Number of additional clients that log in and leave all the time.
    pub storm: u32,
}

/// Transactions per second, of all clients together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Absolute rate.
    Absolute(f64),
    /// Share of the rate that the base reaches in a closed loop.
    Share(f64),
}

/// Source of the statements that clients send.
#[derive(Clone, Debug, PartialEq)]
pub enum Script {
    /// Name of one of pgbench's built-in scripts.
    Builtin(String),
    /// Text of a script for pgbench.
    Pgbench(String),
    /// A part of a plan of the lab's generator.
    Plan(Value),
}

impl Experiment {
    /// Returns the work at a point, with pgbench's tables of the given scale.
    ///
    /// # Errors
    /// A value of a factor, or a template, is invalid.
    pub fn work(&self, point: &Point, scale: u32) -> Result<Work, Error> {
        let text = |factor: &str| point.get(factor).map(String::as_str);
        let name = text("workload").unwrap_or_default();
        let workload = self
            .workload
            .get(name)
            .ok_or_else(|| self.wrong(format!("there is no [workload.{name}]")))?;
        let protocol = text("protocol").unwrap_or("simple");
        if !["simple", "extended", "prepared"].contains(&protocol) {
            return Err(self.wrong(format!("there is no protocol `{protocol}`")));
        }
        Ok(Work {
            protocol: protocol.to_owned(),
            clients: self.count(point, "clients")?,
            tls: self.tls(point)?,
            rate: text("rate").map(|rate| self.rate(rate)).transpose()?,
            batch: self.count(point, "batch")?,
            script: self.script(name, point, scale)?,
            writes: workload.writes,
            reconnect: workload.reconnect,
            idle: workload.idle,
            storm: self.storm(point)?,
        })
    }

    fn script(&self, name: &str, point: &Point, scale: u32) -> Result<Script, Error> {
        let wrong = || {
            let what =
                "wants exactly one of `builtin`, `script` (for pgbench) and `plan` (for weir)";
            self.wrong(format!("[workload.{name}] {what}"))
        };
        let workload = self.workload.get(name).ok_or_else(wrong)?;
        let values = values(point, scale);
        let template = |source| Error::Template {
            name: self.name.clone(),
            source,
        };
        use super::GeneratorKind::{Pgbench, Weir};
        match (&workload.builtin, &workload.script, &workload.plan) {
            (Some(builtin), None, None) if self.generator == Pgbench => {
                Ok(Script::Builtin(builtin.clone()))
            }
            (None, Some(script), None) if self.generator == Pgbench => {
                template::render("script", script.trim_start(), &values)
                    .map(Script::Pgbench)
                    .map_err(template)
            }
            (None, None, Some(plan)) if self.generator == Weir => {
                let plan = serde_json::to_value(plan).map_err(|_| wrong())?;
                fill(plan, &values).map(Script::Plan).map_err(template)
            }
            _ => Err(wrong()),
        }
    }

    /// Returns the value of a counting factor; 1 if the point has no such factor.
    fn count(&self, point: &Point, factor: &str) -> Result<u32, Error> {
        let Some(text) = point.get(factor) else {
            return Ok(1);
        };
        let number = text.parse().ok().filter(|count| *count > 0);
        number.ok_or_else(|| self.wrong(format!("{factor}: `{text}` is not a number above zero")))
    }

    /// Returns the value of the factor `storm`, the only one that may be 0.
    fn storm(&self, point: &Point) -> Result<u32, Error> {
        let Some(text) = point.get("storm") else {
            return Ok(0);
        };
        let number = text.parse().ok();
        number.ok_or_else(|| self.wrong(format!("storm: `{text}` is not a number of clients")))
    }

    fn tls(&self, point: &Point) -> Result<Tls, Error> {
        match point.get("tls").map(String::as_str) {
            None => Ok(self.pooler.tls),
            Some("none") => Ok(Tls::None),
            Some("client") => Ok(Tls::Client),
            Some("both") => Ok(Tls::Both),
            Some(other) => {
                Err(self.wrong(format!("tls: `{other}` is none of none, client and both")))
            }
        }
    }

    pub(super) fn rate(&self, text: &str) -> Result<Rate, Error> {
        let (digits, share) = match text.strip_suffix('%') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let number: Option<f64> = digits.parse().ok().filter(|rate| *rate > 0.0);
        let wrong = || self.wrong(format!("rate: `{text}` is neither a rate nor a share in %"));
        let number = number.ok_or_else(wrong)?;
        Ok(if share {
            Rate::Share(number / 100.0)
        } else {
            Rate::Absolute(number)
        })
    }
}

/// Returns the variables of workload templates: every factor, as a number if possible, and the size of the tables.
fn values(point: &Point, scale: u32) -> Value {
    let mut values = Map::new();
    for (name, text) in point {
        values.insert(name.clone(), number_or_text(text));
    }
    values.insert("scale".to_owned(), json!(scale));
    values.insert("accounts".to_owned(), json!(u64::from(scale) * ACCOUNTS));
    Value::Object(values)
}

fn number_or_text(text: &str) -> Value {
    text.parse::<i64>()
        .map_or_else(|_| json!(text), |number| json!(number))
}

/// Fills in every text of a plan. A text that is only a placeholder becomes a number if it can. Tables with a false
/// `when` are left out.
fn fill(plan: Value, values: &Value) -> Result<Value, template::Error> {
    Ok(match plan {
        Value::String(text) => {
            let filled = template::render("plan", &text, values)?;
            if text.starts_with("{{") && text.ends_with("}}") {
                number_or_text(&filled)
            } else {
                Value::String(filled)
            }
        }
        Value::Array(items) => {
            let mut filled = Vec::new();
            for mut item in items {
                if let Some(when) = item.as_object_mut().and_then(|item| item.remove("when")) {
                    let when = when.as_str().unwrap_or_default();
                    if !template::holds("when", when, values)? {
                        continue;
                    }
                }
                filled.push(fill(item, values)?);
            }
            Value::Array(filled)
        }
        Value::Object(map) => {
            let filled = map
                .into_iter()
                .map(|(key, value)| Ok((key, fill(value, values)?)))
                .collect::<Result<Map<_, _>, template::Error>>()?;
            Value::Object(filled)
        }
        other => other,
    })
}
