//! Parser of OpenSSL's cipher lists, as ciphers(1) describes them, for the six suites of TLS 1.2.

use crate::ciphers::table::{self, Suite};
use crate::ciphers::{CipherError, Suites, words};

pub(super) fn parse(list: &str) -> Result<Suites, CipherError> {
    let mut state = State::default();
    for rule in words(list) {
        state.apply(rule)?;
    }
    Suites::finish(list, state.active, state.left_out, false)
}

#[derive(Default)]
struct State {
    /// Selected suites in order of preference.
    active: Vec<&'static Suite>,
    /// Suites removed by `!`, which no later rule can add again.
    killed: Vec<&'static Suite>,
    left_out: Vec<String>,
}

impl State {
    fn apply(&mut self, rule: &str) -> Result<(), CipherError> {
        if let Some(command) = rule.strip_prefix('@') {
            return self.command(rule, command);
        }
        if let Some(selector) = rule.strip_prefix('!') {
            let selected = select(selector)?;
            self.remove(&selected);
            self.killed.extend(selected);
        } else if let Some(selector) = rule.strip_prefix('-') {
            let selected = select(selector)?;
            self.remove(&selected);
        } else if let Some(selector) = rule.strip_prefix('+') {
            let selected = select(selector)?;
            // A stable sort moves the selected suites to the end and keeps the order of the rest.
            self.active.sort_by_key(|suite| is_in(&selected, suite));
        } else {
            let selected = select(rule)?;
            if table::unsupported(rule).is_some() {
                self.left_out.push(rule.to_owned());
            }
            for suite in selected {
                if !is_in(&self.active, suite) && !is_in(&self.killed, suite) {
                    self.active.push(suite);
                }
            }
        }
        Ok(())
    }

    fn command(&mut self, rule: &str, command: &str) -> Result<(), CipherError> {
        if command == "STRENGTH" {
            self.active
                .sort_by_key(|suite| std::cmp::Reverse(suite.bits));
            return Ok(());
        }
        // All suites that Weir has are above level 2, the highest in use.
        if command.starts_with("SECLEVEL=") {
            return Ok(());
        }
        Err(CipherError::Unknown {
            name: rule.to_owned(),
            tls13: false,
        })
    }

    fn remove(&mut self, selected: &[&'static Suite]) {
        self.active.retain(|suite| !is_in(selected, suite));
    }
}

/// Returns the suites that a selector such as `ECDHE+AESGCM` selects: those that each of its words selects.
fn select(selector: &str) -> Result<Vec<&'static Suite>, CipherError> {
    let mut selected = table::all(false).collect::<Vec<_>>();
    for word in selector.split('+') {
        if table::suite(word, true).is_some() {
            let right = "TLS 1.3, whose option is the one with 13";
            return Err(CipherError::WrongVersion {
                name: word.to_owned(),
                right,
            });
        }
        let verdicts = table::all(false)
            .map(|suite| table::selects(word, suite))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| CipherError::Unknown {
                name: word.to_owned(),
                tls13: false,
            })?;
        let matching = table::all(false)
            .zip(verdicts)
            .filter_map(|(suite, selects)| selects.then_some(suite.name))
            .collect::<Vec<_>>();
        selected.retain(|suite| matching.contains(&suite.name));
    }
    Ok(selected)
}

fn is_in(suites: &[&'static Suite], suite: &Suite) -> bool {
    suites.iter().any(|other| other.name == suite.name)
}
