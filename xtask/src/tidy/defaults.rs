//! Defaults of options in hand-written pages: they are those of the table of options.
//!
//! A page says a default in one of two ways, and both are compared: `` `drain_timeout` (25 s) `` in a sentence, and a row
//! `` | `drain_timeout` | 25 s | `` of a table whose second column is `default`.

use std::collections::BTreeMap;

use crate::tidy::Finding;

/// Pages whose names are keys of rules or hosts, not options, where they are followed by a number.
const OTHER_NAMES: [(&str, &str); 2] = [
    ("docs/guide/rules.md", "max_waiting"),
    ("docs/internals/simulator.md", "drain_timeout"),
];

/// Quantity in base units: seconds, bytes, or a plain number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Quantity(f64);

/// Defaults of the global options that are quantities.
pub(super) struct Defaults(BTreeMap<String, Quantity>);

impl Defaults {
    /// Reads the table of global options in the generated reference.
    pub(super) fn new(reference: &str) -> Self {
        let global = reference
            .split("\n## ")
            .find(|section| section.starts_with("Global options"));
        let rows = global.unwrap_or_default().lines().filter_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (name, default, values) = (cells.next()?, cells.next()?, cells.next()?);
            let number: f64 = default.trim_matches('`').parse().ok()?;
            let scale = match values.split([' ', ',']).next()? {
                "microseconds" => 1e-6,
                "milliseconds" => 1e-3,
                _ => 1.0,
            };
            Some((name.trim_matches('`').to_owned(), Quantity(number * scale)))
        });
        Self(rows.collect())
    }

    /// Number of options.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }

    /// Compares what a page says.
    pub(super) fn check(&self, path: &str, text: &str) -> Vec<Finding> {
        let is_by_hand = path.ends_with(".md") && !path.starts_with("docs/reference/");
        if !is_by_hand {
            return Vec::new();
        }
        let mut findings = Vec::new();
        let mut is_of_defaults = false;
        for (number, line) in text.lines().enumerate() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match cells.get(2) {
                Some(&"default") => is_of_defaults = true,
                None => is_of_defaults = false,
                Some(_) => {}
            }
            let row = cells.get(1).zip(cells.get(2)).filter(|_| is_of_defaults);
            let row = row.and_then(|(name, said)| Some((quoted(name)?, *said)));
            for (name, said) in in_sentences(line).chain(row) {
                let is_other = OTHER_NAMES.contains(&(path, name));
                let (Some(default), Some(found)) = (self.0.get(name), quantity(said)) else {
                    continue;
                };
                if found != *default && !is_other {
                    let what = format!("the default of {name} is not {said}");
                    findings.push(Finding::new(
                        path,
                        number + 1,
                        what,
                        "see docs/reference/configuration.md",
                    ));
                }
            }
        }
        findings
    }
}

/// Returns the name in back quotes that is the whole text.
fn quoted(text: &str) -> Option<&str> {
    let name = text.strip_prefix('`')?.strip_suffix('`')?;
    name.chars()
        .all(|c| c.is_ascii_lowercase() || c == '_')
        .then_some(name)
}

/// Finds `` `name` (text) `` in a line.
fn in_sentences(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices("` (").filter_map(|(end, mark)| {
        let name = line.get(..end)?.rsplit('`').next()?;
        let said = line.get(end + mark.len()..)?.split(')').next()?;
        Some((name, said))
    })
}

/// Reads the number and the unit with which a text begins: `25 s`, `16 MiB of WAL`, `600`, `off`.
fn quantity(text: &str) -> Option<Quantity> {
    if text == "off" {
        return Some(Quantity(0.0));
    }
    let mut words = text.split([' ', ',', ';']);
    let number: f64 = words.next()?.replace('_', "").parse().ok()?;
    let scale = match words.next().unwrap_or_default() {
        "to" => return None,
        "µs" => 1e-6,
        "ms" => 1e-3,
        "min" | "minutes" => 60.0,
        "h" | "hours" => 3600.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        _ => 1.0,
    };
    Some(Quantity(number * scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let defaults = Defaults::new(&weir_config::reference_markdown());
        let findings = defaults.check("docs/guide/page.md", text);
        findings
            .iter()
            .map(|it| format!("{}: {}", it.line, it.what))
            .collect()
    }

    #[test]
    fn most_options_with_a_number_are_known() {
        assert!(Defaults::new(&weir_config::reference_markdown()).len() > 60);
    }

    #[test]
    fn a_default_that_is_not_that_of_the_option_is_found() {
        assert_eq!(
            found(
                "for `drain_timeout` (25 s) and `query_wait_notify` (4 s)\n`max_lag` (16 MiB of WAL), `spin` (1 µs)"
            ),
            [
                "1: the default of query_wait_notify is not 4 s",
                "2: the default of spin is not 1 µs"
            ]
        );
        let table = "| option | default | |\n|---|---|---|\n| `query_timeout` | off | |\n| `server_lifetime` | 60 min | |\n| `server_idle_timeout` | 9 s | |\n";
        assert_eq!(
            found(table),
            ["5: the default of server_idle_timeout is not 9 s"]
        );
    }

    #[test]
    fn other_numbers_and_other_names_are_nobody_s_default() {
        let text = "`pgbouncer_compat` (1.18 to 1.25), `wal_retrieve_retry_interval` (5 s), `spin` (see there)\n\n| option | values |\n|---|---|\n| `spin` | 7 |\n";
        assert_eq!(found(text), [""; 0]);
    }
}
