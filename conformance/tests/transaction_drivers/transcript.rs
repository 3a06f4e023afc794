//! Results of a program's clients, scenario by scenario.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::tools;

/// Maximum of differing lines shown per scenario and side.
const LINES_SHOWN: usize = 6;

/// The output of one run.
#[derive(Debug)]
pub(crate) struct Transcript {
    /// Lines by the name of their scenario, in order.
    scenarios: BTreeMap<String, Vec<String>>,
    /// Maximum of servers that one client saw.
    servers: Option<u32>,
    succeeded: bool,
    errors: String,
}

impl Transcript {
    /// Runs a program to its end; masks the name of its database.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub(crate) fn of(command: &mut Command, database: &str) -> Result<Self> {
        let output = command
            .output()
            .with_context(|| format!("start {command:?}"))?;
        let mut transcript = Self {
            scenarios: BTreeMap::new(),
            servers: None,
            succeeded: output.status.success(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            transcript.take(line.replace(database, "DATABASE"));
        }
        Ok(transcript)
    }

    fn take(&mut self, line: String) {
        if let Some(remark) = line.strip_prefix("# ") {
            let servers = remark
                .strip_prefix("servers ")
                .and_then(|text| text.parse().ok());
            self.servers = self.servers.max(servers);
        } else if let Some(name) = line.strip_prefix("done ") {
            self.scenarios.entry(name.to_owned()).or_default();
        } else {
            let said = line.strip_prefix("FAIL ").unwrap_or(&line);
            let name = said.split('[').next().unwrap_or_default().to_owned();
            self.scenarios.entry(name).or_default().push(line);
        }
    }

    /// Maximum of servers that one client saw, if the program counted them.
    #[must_use]
    pub(crate) fn servers(&self) -> Option<u32> {
        self.servers
    }

    /// Checks that the program found no errors itself and had enough output.
    ///
    /// # Errors
    /// When it found an error or printed almost nothing.
    pub(crate) fn check_good(&self) -> Result<()> {
        let failed: Vec<&String> = self
            .scenarios
            .values()
            .flatten()
            .filter(|line| line.starts_with("FAIL "))
            .collect();
        let errors = tools::tail(&self.errors, 20);
        ensure!(self.succeeded && failed.is_empty(), "{failed:#?}\n{errors}");
        let lines = self.scenarios.values().flatten().count();
        ensure!(lines > 100, "only {lines} lines\n{errors}");
        Ok(())
    }

    /// Fails with the differences, this transcript being the reference.
    ///
    /// # Errors
    /// When anything differs.
    pub(crate) fn compare(&self, got: &Self) -> Result<()> {
        let mut report = String::new();
        for (name, right) in &self.scenarios {
            match got.scenarios.get(name) {
                None => writeln!(report, "{name} did not run")?,
                Some(lines) if lines != right => {
                    writeln!(report, "{name}:")?;
                    only_in(&mut report, right, lines, "directly")?;
                    only_in(&mut report, lines, right, "instead")?;
                }
                Some(_) => {}
            }
        }
        if !report.is_empty() {
            bail!("{report}\n{}", tools::tail(&got.errors, 20));
        }
        Ok(())
    }
}

/// Lists lines of one side that the other side does not have.
fn only_in(report: &mut String, these: &[String], others: &[String], side: &str) -> Result<()> {
    let differing = these.iter().filter(|line| !others.contains(line));
    let mut count = 0;
    for line in differing.take(LINES_SHOWN) {
        writeln!(report, "  {side:>8}: {line}")?;
        count += 1;
    }
    if count == 0 {
        writeln!(
            report,
            "  {side:>8}: the same lines, in another order or number"
        )?;
    }
    Ok(())
}
