//! Conditions of the process as a whole: orders that were forgotten, reloads, shutdowns, certificates.

use weir_stats::Severity;

use crate::conditions::{Condition, Finding};
use crate::facts::Facts;
use crate::text;

/// operator-ui.md 4, no. 34.
pub(super) const RELOAD_FAILED: Condition = Condition {
    name: "reload_failed",
    severities: &[Severity::Warning],
    meaning: "The last reload failed, so that files and running settings may differ.",
    evidence: "The last reload ended with an error.",
    advice: "File, line and text of the mistake.",
    sustain: 1,
    explains: &[],
    find: reload_failed,
};

fn reload_failed(facts: &Facts<'_>) -> Vec<Finding> {
    let failed = facts.now.failed_reload.iter();
    let findings = failed.map(|failed| {
        let ago = text::seconds(text::elapsed(failed.at, facts.now.unix));
        Finding::new(Severity::Warning, "")
            .evidence(format!("reload failed {ago} ago: {}", failed.error))
            .advice(format!(
                "The configuration in force is the one before: none of the changed files is used until a reload \
                 succeeds. Correct the mistake, check the files with `weir check`, then reload. {}",
                failed.error
            ))
            .command("RELOAD")
    });
    findings.collect()
}
