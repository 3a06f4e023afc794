//! `weir doctor`: conditions of a running Weir that need attention, for people and for scripts.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use serde_json::{Map, Value};
use weir_command::exit::{self, Exit, complain};
use weir_proxy::blocking::Table;

use crate::args::Doctor;
use crate::console::Console;

/// Prints the conditions; the exit code tells the worst.
pub(crate) fn examine(args: &Doctor) -> Exit {
    let told = |error: &dyn std::fmt::Display| {
        complain(format_args!("console of Weir at {}: {error}", args.address));
    };
    let mut console = match Console::connect(&args.address, args.user.as_deref(), "weir doctor") {
        Ok(console) => console,
        Err(error) => {
            told(&error);
            return Exit::Start;
        }
    };
    let table = match console.ask_table("SHOW DIAGNOSIS") {
        Ok(Ok(table)) => table,
        Ok(Err(error)) => {
            told(&error);
            return Exit::Failed;
        }
        Err(error) => {
            told(&error);
            return Exit::Failed;
        }
    };
    let conditions = conditions(&table);
    let text = match args.json {
        true => json(&table),
        false => report(&conditions, Colours::of_output()),
    };
    exit::print(&text);
    worst(&conditions)
}

/// Condition as the console tells it.
#[derive(Debug, Default, Clone)]
struct Condition {
    name: String,
    severity: String,
    scope: String,
    seconds: u64,
    evidence: String,
    advice: String,
    command: String,
}

/// Reads the rows by the names of their columns. Names and texts of clients are in them, which a terminal must not obey.
fn conditions(table: &Table) -> Vec<Condition> {
    let place = |name: &str| table.columns.iter().position(|column| column == name);
    let row = |row: &Vec<Option<String>>| {
        let value = |name: &str| {
            let value = place(name).and_then(|place| row.get(place)?.as_deref());
            let harmless = |sign: char| if sign.is_control() { '?' } else { sign };
            value
                .unwrap_or_default()
                .chars()
                .map(harmless)
                .collect::<String>()
        };
        Condition {
            name: value("condition"),
            severity: value("severity"),
            scope: value("scope"),
            seconds: value("seconds").parse().unwrap_or_default(),
            evidence: value("evidence"),
            advice: value("advice"),
            command: value("command"),
        }
    };
    table.rows.iter().map(row).collect()
}

fn worst(conditions: &[Condition]) -> Exit {
    let is = |severity: &str| conditions.iter().any(|it| it.severity == severity);
    match (is("critical"), is("warning")) {
        (true, _) => Exit::Critical,
        (false, true) => Exit::Warning,
        (false, false) => Exit::Ok,
    }
}

/// Use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colours {
    On,
    Off,
}

impl Colours {
    /// Colours on a terminal, unless NO_COLOR is set.
    fn of_output() -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        match is_wanted && io::stdout().is_terminal() {
            true => Self::On,
            false => Self::Off,
        }
    }

    /// Returns a severity in its colour, which repeats what the word says.
    fn severity(self, severity: &str) -> String {
        let code = match severity {
            "critical" => "1;31",
            "warning" => "33",
            _ => "36",
        };
        self.paint(code, severity)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::On => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Off => text.to_owned(),
        }
    }
}

fn report(conditions: &[Condition], colours: Colours) -> String {
    if conditions.is_empty() {
        return "nothing needs attention\n".to_owned();
    }
    let mut text = String::new();
    for condition in conditions {
        let severity = colours.severity(&condition.severity);
        let name = colours.paint("1", &condition.name);
        let scope = match condition.scope.as_str() {
            "" => String::new(),
            scope => format!(" {scope}"),
        };
        let lasts = lasts(condition.seconds);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{severity}: {name}{scope}, for {lasts}");
        let _ = writeln!(text, "  {}", condition.evidence);
        let _ = writeln!(text, "  {}", condition.advice);
        if !condition.command.is_empty() {
            let _ = writeln!(text, "  > {}", condition.command);
        }
    }
    text
}

/// Writes a duration with its two largest units.
fn lasts(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {} min", minutes % 60),
    }
}

fn json(table: &Table) -> String {
    let object = |row: &Vec<Option<String>>| {
        let pairs = table.columns.iter().zip(row).map(|(column, value)| {
            let number = value.as_deref().and_then(|value| value.parse::<u64>().ok());
            let value = match (column.as_str(), number) {
                ("seconds", Some(number)) => number.into(),
                _ => value.as_deref().map_or(Value::Null, Value::from),
            };
            (column.clone(), value)
        });
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    let rows = table.rows.iter().map(object).collect();
    format!("{:#}\n", Value::Array(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 7]]) -> Table {
        let columns = [
            "condition",
            "severity",
            "scope",
            "seconds",
            "evidence",
            "advice",
            "command",
        ];
        Table {
            columns: columns.map(str::to_owned).into(),
            types: vec![25; columns.len()],
            rows: rows
                .iter()
                .map(|row| row.iter().map(|value| Some((*value).to_owned())).collect())
                .collect(),
        }
    }

    const FULL: [&str; 7] = [
        "idle_transactions_fill_pool",
        "critical",
        "shop/ann",
        "75",
        "2 of 2 servers are idle in transactions of evil\u{1b}[2J.",
        "End them.",
        "KILL_CLIENT 17",
    ];
    const NEAR: [&str; 7] = [
        "certificate_ends",
        "warning",
        "",
        "7200",
        "9 days left.",
        "Renew it.",
        "",
    ];

    #[test]
    fn each_condition_tells_its_figures_the_advice_and_the_command() {
        let conditions = conditions(&table(&[FULL, NEAR]));
        let text = report(&conditions, Colours::Off);
        assert_eq!(
            text,
            "critical: idle_transactions_fill_pool shop/ann, for 1 min 15 s\n  \
             2 of 2 servers are idle in transactions of evil?[2J.\n  End them.\n  > KILL_CLIENT 17\n\
             warning: certificate_ends, for 2 h 0 min\n  9 days left.\n  Renew it.\n"
        );
        assert!(report(&conditions, Colours::On).starts_with("\u{1b}[1;31mcritical\u{1b}[0m: "));
    }

    #[test]
    fn the_exit_code_tells_the_worst() {
        let worst = |rows: &[[&str; 7]]| worst(&conditions(&table(rows)));
        assert_eq!(worst(&[NEAR, FULL]), Exit::Critical);
        assert_eq!(worst(&[NEAR]), Exit::Warning);
        assert_eq!(worst(&[]), Exit::Ok);
        assert_eq!(report(&[], Colours::On), "nothing needs attention\n");
    }

    #[test]
    fn json_has_all_columns() {
        let value: Value = serde_json::from_str(&json(&table(&[FULL]))).unwrap();
        assert_eq!(value[0]["seconds"], 75);
        assert_eq!(value[0]["command"], "KILL_CLIENT 17");
    }
}
