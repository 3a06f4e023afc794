//! Last step of an import: the configuration is loaded as `weir check` would, and what is refused is taken out again. The
//! loader has the only word on what is valid; nothing here may judge a value.

use std::io;
use std::path::Path;

use crate::draft::{Draft, Table, Term};
use crate::finding::{Finding, Outcome};
use crate::{FileNames, Product};

/// Name of the configuration while it is loaded.
const NAME: &str = "weir.toml";

/// Takes out every option that the loader refuses, and marks the findings that put it there.
pub(crate) fn verify(
    product: Product,
    names: &FileNames<'_>,
    draft: &mut Draft,
    findings: &mut Vec<Finding>,
) {
    // Each round removes an option, so their number is the limit.
    loop {
        let written = draft.text(product, names, &[]);
        let mut read = |path: &Path| match path == Path::new(NAME) {
            true => Ok(written.text.clone()),
            false => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let loaded = weir_config::load(Path::new(NAME), &mut read, std::iter::empty());
        let Err(errors) = loaded else {
            return;
        };
        let mut is_changed = false;
        for error in &errors {
            let line = error.line.unwrap_or_default() as usize;
            let option = line.checked_sub(1).and_then(|at| written.lines.get(at));
            let Some(Some((table, name))) = option else {
                continue;
            };
            let message = error.message.replace('\n', " ");
            if draft.remove(table, name) {
                is_changed = true;
                mark(findings, table, name, &message);
            }
        }
        if !is_changed {
            // No single option is to blame.
            for error in errors {
                let key = error.key.unwrap_or_else(|| "configuration".to_owned());
                let why = format!(
                    "Weir refuses the result: {}",
                    error.message.replace('\n', " ")
                );
                findings.push(Finding::of_result(&key, why));
            }
            return;
        }
    }
}

/// Turns the findings of a removed option into ones that block.
fn mark(findings: &mut Vec<Finding>, table: &Table, name: &'static str, message: &str) {
    let path = table.path(name);
    let begin = format!("{path} = ");
    let why = format!("Weir refuses {path}: {message}");
    let mut is_known = false;
    for finding in findings.iter_mut() {
        let is_meant = match &finding.outcome {
            Outcome::Mapped(to) | Outcome::Differs(to, _) => to.starts_with(&begin) || *to == path,
            _ => false,
        };
        if is_meant {
            finding.outcome = Outcome::NotMapped(why.clone());
            is_known = true;
        }
    }
    if !is_known {
        findings.push(Finding::of_result(&path, why));
    }
}

/// Loads a rule alone; returns the loader's message if it refuses it.
pub(crate) fn rule_error(name: &str, keys: &[(&'static str, Term)]) -> Option<String> {
    let mut draft = Draft::default();
    draft.rule(name.to_owned(), keys.to_vec());
    let written = draft.text(Product::ProxySql, &FileNames::default(), &[]);
    let mut read = |_: &Path| Ok(written.text.clone());
    let loaded = weir_config::load(Path::new(NAME), &mut read, std::iter::empty());
    let errors = loaded.err()?;
    errors.first().map(|error| error.message.replace('\n', " "))
}
