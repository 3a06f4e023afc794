//! Table of the outcomes of all faults. It decides nothing about a trial.

use anyhow::{Result, bail};
use weir_lab::table::Table;

use super::list::Mutant;
use super::trial::Outcome;

#[derive(Default)]
pub(super) struct Report {
    lines: Vec<Line>,
}

struct Line {
    mutant: Mutant,
    outcome: Outcome,
    seconds: f64,
}

impl Report {
    pub(super) fn add(&mut self, mutant: Mutant, outcome: Outcome, seconds: f64) {
        self.lines.push(Line {
            mutant,
            outcome,
            seconds,
        });
    }

    /// Progress after the last trial.
    pub(super) fn last_line(&self, total: usize) -> String {
        self.lines.last().map_or_else(String::new, |line| {
            format!(
                "{}/{total} {} {:.0} s: {}",
                self.lines.len(),
                line.mutant.id,
                line.seconds,
                line.verdict()
            )
        })
    }

    /// A table, with the effects of those that survived below it.
    pub(super) fn markdown(&self) -> String {
        let mut lines: Vec<_> = self.lines.iter().collect();
        lines.sort_by_key(|line| (&line.mutant.area, &line.mutant.id));
        let mut table = Table::new(&["fault", "area", "caught by", "seconds"]);
        for line in &lines {
            table.row(vec![
                line.mutant.id.clone(),
                line.mutant.area.clone(),
                line.verdict(),
                format!("{:.0}", line.seconds),
            ]);
        }
        let caught = lines.iter().filter(|line| line.is_caught()).count();
        let mut text = format!(
            "{}\n{caught} of {} caught.\n",
            table.markdown(),
            lines.len()
        );
        for line in lines.iter().filter(|line| !line.is_caught()) {
            text.push_str(&format!(
                "- {} ({}): {}\n",
                line.mutant.id, line.mutant.file, line.mutant.effect
            ));
        }
        text
    }

    /// Fails if a fault was not caught.
    ///
    /// # Errors
    /// Names the faults that no test noticed, and those that could not be tried.
    pub(super) fn verdict(&self) -> Result<()> {
        let left = self.lines.iter().filter(|line| !line.is_caught());
        let ids: Vec<_> = left.map(|line| &*line.mutant.id).collect();
        if !ids.is_empty() {
            bail!("not caught: {}", ids.join(", "));
        }
        Ok(())
    }
}

impl Line {
    const fn is_caught(&self) -> bool {
        matches!(self.outcome, Outcome::Caught(_))
    }

    fn verdict(&self) -> String {
        match &self.outcome {
            Outcome::Caught(by) => by.clone(),
            Outcome::Invalid(why) => format!("INVALID: {why}"),
            Outcome::Survived => "SURVIVED".to_owned(),
        }
    }
}

/// Table of the list itself.
pub(super) fn listing(mutants: &[Mutant]) -> String {
    let mut table = Table::new(&["fault", "area", "effect"]);
    for mutant in mutants {
        table.row(vec![
            mutant.id.clone(),
            mutant.area.clone(),
            mutant.effect.clone(),
        ]);
    }
    table.markdown()
}
