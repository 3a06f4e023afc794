//! Alert rules for Prometheus, `contrib/monitoring/alerts.yml`, from a table. Conditions that Weir finds itself have two
//! rules, by their severity; so a new condition needs no new rule.

use std::fmt::Write;

use weir_stats::Severity;

/// An alert.
struct Alert {
    name: &'static str,
    /// Expression in PromQL; its second line and all others are indented.
    expression: &'static str,
    /// Time for which the expression must hold; empty: the alert comes at once.
    lasting: &'static str,
    severity: Severity,
    summary: &'static str,
    /// Place to look; empty if the guide alone has it.
    description: &'static str,
}

const HEAD: &str = "\
# Alert rules for Prometheus. docs/guide/monitoring.md says what to do about each.
# Generated from the table of alerts in crates/admin by `cargo xtask docs`; edit that.
groups:
  - name: weir
    rules:
";

/// Place to look for a condition.
const LOOK: &str = "SHOW DIAGNOSIS on the console of {{ $labels.instance }}, or weir doctor, has the evidence and the advice.";

static ALERTS: &[Alert] = &[
    // Weir waits before it says that a condition holds or has ended, so the rules need no time of their own.
    Alert {
        name: "WeirConditionCritical",
        expression: r#"max by (instance, condition, scope, severity) (weir_condition{severity="critical"}) == 1"#,
        lasting: "",
        severity: Severity::Critical,
        summary: "{{ $labels.instance }}: {{ $labels.condition }} {{ $labels.scope }}",
        description: LOOK,
    },
    Alert {
        name: "WeirConditionWarning",
        expression: r#"max by (instance, condition, scope, severity) (weir_condition{severity="warning"}) == 1"#,
        lasting: "",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: {{ $labels.condition }} {{ $labels.scope }}",
        description: LOOK,
    },
    Alert {
        name: "WeirDown",
        expression: r#"up{job="weir"} == 0"#,
        lasting: "1m",
        severity: Severity::Critical,
        summary: "{{ $labels.instance }} does not answer",
        description: "",
    },
    Alert {
        name: "WeirServerUnavailable",
        expression: r#"sum by (instance, sqlstate) (increase(weir_errors_total{origin="pooler", sqlstate=~"08001|08006|08007"}[5m])) > 0"#,
        lasting: "1m",
        severity: Severity::Critical,
        summary: "{{ $labels.instance }}: clients are told that the server cannot be reached ({{ $labels.sqlstate }})",
        description: "",
    },
    Alert {
        name: "WeirClientsWait",
        expression: "max by (instance, database, user) (weir_pool_oldest_wait_seconds) > 5",
        lasting: "1m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: a client of {{ $labels.database }}/{{ $labels.user }} has waited {{ $value | humanizeDuration }} for a server",
        description: "",
    },
    Alert {
        name: "WeirWaitsSlow",
        expression: "histogram_quantile(0.99, sum by (instance, database, user, le) (rate(weir_pool_wait_seconds_bucket[5m]))) > 1",
        lasting: "5m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: one of a hundred leases of {{ $labels.database }}/{{ $labels.user }} is waited for longer than a second",
        description: "",
    },
    Alert {
        name: "WeirPoolFull",
        expression: r#"weir_pool_size > 0 and weir_pool_places_taken >= weir_pool_size
  and on (instance, database, user) weir_pool_clients{state="waiting"} > 0"#,
        lasting: "5m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: all servers of {{ $labels.database }}/{{ $labels.user }} are taken and clients wait",
        description: "",
    },
    Alert {
        name: "WeirLimitNear",
        expression: "weir_limit_used / weir_limit_max > 0.9",
        lasting: "5m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: {{ $labels.limit }} {{ $labels.scope }} is {{ $value | humanizePercentage }} used",
        description: "",
    },
    Alert {
        name: "WeirFilesNear",
        expression: r#"process_open_fds{job="weir"} / process_max_fds{job="weir"} > 0.8"#,
        lasting: "5m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }} is short of file descriptors",
        description: "",
    },
    Alert {
        name: "WeirPinned",
        expression: "weir_pool_size > 0 and weir_pool_pinned_clients > 0.5 * weir_pool_size",
        lasting: "10m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: more than half of the servers of {{ $labels.database }}/{{ $labels.user }} are pinned",
        description: "",
    },
    Alert {
        name: "WeirErrors",
        expression: r#"sum by (instance, sqlstate) (rate(weir_errors_total{origin="pooler"}[5m])) > 1"#,
        lasting: "5m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }} tells clients of {{ $labels.sqlstate }} more than once a second",
        description: "",
    },
    Alert {
        name: "WeirListenersEnded",
        expression: "sum by (instance, database) (increase(weir_pool_listen_overflows_total[15m])) > 0",
        lasting: "",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: clients of {{ $labels.database }} that listen do not read fast enough",
        description: "",
    },
    Alert {
        name: "WeirWorkerBusy",
        expression: "rate(weir_worker_cpu_seconds_total[5m]) > 0.9",
        lasting: "10m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: worker {{ $labels.worker }} has no processor time left",
        description: "",
    },
    Alert {
        name: "WeirCertificateExpires",
        expression: "min by (instance, side, subject) (weir_tls_certificate_days_left) < 14",
        lasting: "1h",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: the certificate of {{ $labels.subject }} expires in {{ $value }} days",
        description: "",
    },
    Alert {
        name: "WeirNoPrimary",
        expression: "max by (instance, database) (weir_host_takes_writes) == 0",
        lasting: "30s",
        severity: Severity::Critical,
        summary: "{{ $labels.instance }}: no host of {{ $labels.database }} takes writes, see SHOW HOSTS",
        description: "",
    },
    Alert {
        name: "WeirReplicaOut",
        expression: r#"weir_host_takes_reads == 0 and on (instance, database, host) weir_host_role{role="replica"} == 1"#,
        lasting: "5m",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: replica {{ $labels.host }} of {{ $labels.database }} gets no reads, see SHOW HOSTS",
        description: "",
    },
    Alert {
        name: "WeirStatementRefused",
        expression: "sum by (instance, user) (increase(weir_statement_list_refused_total[15m])) > 0",
        lasting: "",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: user {{ $labels.user }} sent statements that are not in its list, see SHOW LISTED_STATEMENTS",
        description: "",
    },
    Alert {
        name: "WeirInconsistent",
        expression: "max by (instance, database, user) (weir_pool_inconsistent) > 0",
        lasting: "",
        severity: Severity::Critical,
        summary: "{{ $labels.instance }}: a bug of Weir, see the column violation of SHOW POOLS",
        description: "",
    },
    Alert {
        name: "WeirBrokenLookup",
        expression: "increase(weir_broken_lookups_total[15m]) > 0",
        lasting: "",
        severity: Severity::Warning,
        summary: "{{ $labels.instance }}: a bug of Weir that it survived, see the error in its log",
        description: "",
    },
];

/// Returns the text of the file with all rules.
#[must_use]
pub fn alert_rules_yaml() -> String {
    let mut out = HEAD.to_owned();
    for (number, alert) in ALERTS.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = alert.write(&mut out);
    }
    out
}

impl Alert {
    /// Writes the rule. Names and times need no quotes; the expression is a literal block, in which nothing is special.
    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "      - alert: {}", self.name)?;
        writeln!(out, "        expr: |-")?;
        for line in self.expression.lines() {
            writeln!(out, "          {line}")?;
        }
        if !self.lasting.is_empty() {
            writeln!(out, "        for: {}", self.lasting)?;
        }
        writeln!(out, "        labels:")?;
        writeln!(out, "          severity: {}", self.severity.name())?;
        writeln!(out, "        annotations:")?;
        writeln!(out, "          summary: {}", quoted(self.summary))?;
        if !self.description.is_empty() {
            writeln!(out, "          description: {}", quoted(self.description))?;
        }
        Ok(())
    }
}

/// Text in double quotes: in YAML they mean what they mean in JSON.
fn quoted(text: &str) -> serde_json::Value {
    text.into()
}

/// Returns the names of all metrics in the rules, as the expressions have them.
#[cfg(test)]
pub(super) fn series() -> std::collections::BTreeSet<String> {
    let names = ALERTS
        .iter()
        .flat_map(|alert| super::promql::names(alert.expression));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect_file;

    use super::*;

    /// Page that says what to do about each alert.
    const GUIDE: &str = include_str!("../../../../docs/guide/monitoring.md");

    /// After a change of the table run this test with UPDATE_EXPECT=1.
    #[test]
    fn the_rules_are_fresh() {
        expect_file!["../../../../contrib/monitoring/alerts.yml"].assert_eq(&alert_rules_yaml());
    }

    #[test]
    fn each_alert_has_its_own_name_and_is_in_the_guide() {
        let names: BTreeSet<_> = ALERTS.iter().map(|alert| alert.name).collect();
        assert_eq!(names.len(), ALERTS.len());
        for name in names {
            let mut words = GUIDE.split(|c: char| !c.is_ascii_alphanumeric());
            assert!(words.any(|word| word == name), "{name}");
        }
    }

    #[test]
    fn texts_are_quoted_and_expressions_are_not() {
        let mut out = String::new();
        let alert = Alert {
            name: "WeirTest",
            expression: "a{b=\"c: #\"}\n  > 1",
            lasting: "5m",
            severity: Severity::Info,
            summary: "a \"b\": \\ {{ $value }}",
            description: "",
        };
        alert.write(&mut out).unwrap();
        let wanted = r#"      - alert: WeirTest
        expr: |-
          a{b="c: #"}
            > 1
        for: 5m
        labels:
          severity: info
        annotations:
          summary: "a \"b\": \\ {{ $value }}"
"#;
        assert_eq!(out, wanted);
    }
}
