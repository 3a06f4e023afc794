//! `[[rules]]`: what is read, printed and refused.

use std::path::Path;

use weir_rules::Action;
use weir_sql::Fingerprint;

use crate::rules::QueryRule;
use crate::{Settings, load};

fn settings(rules: &str) -> Result<Settings, Vec<String>> {
    settings_of(&format!(
        "auth_type = \"any\"\n[databases.shop]\nhost = \"10.0.0.5\"\n{rules}"
    ))
}

fn settings_of(text: &str) -> Result<Settings, Vec<String>> {
    let mut read = |_: &Path| Ok(text.to_owned());
    match load(Path::new("weir.toml"), &mut read, std::iter::empty()) {
        Ok(loaded) => Ok(loaded.settings),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

fn rules(text: &str) -> Vec<QueryRule> {
    settings(text).unwrap().rules
}

/// First mistake in a file with this rule.
fn mistake(rule: &str) -> String {
    let mistakes = settings(&format!("[[rules]]\n{rule}")).unwrap_err();
    mistakes[0].clone()
}

/// Each of these rules is refused with a message that begins so.
fn refused_as(rules: &[(&str, &str)]) {
    for (rule, expected) in rules {
        let mistake = mistake(rule);
        assert!(
            mistake.starts_with(expected),
            "{mistake}\ninstead of\n{expected}"
        );
    }
}

#[test]
fn rules_are_read_in_the_order_of_the_file() {
    let found = rules(
        r#"
        [[rules]]
        name = "stop-report-42"
        match.database = "shop"
        match.user = ["billing*", "ann"]
        match.client_addr = ["10.0.0.0/8"]
        match.port = 6433
        match.fingerprint = ["fb21bbb7f498cf13", "SELECT * FROM report WHERE id = 42"]
        action = "reject"
        message = "report 42 is disabled until Monday"
        sqlstate = "57014"
        hint = "ask the DBA"
        expires = 2026-12-01T00:00:00Z
        sample = "5%"

        [[rules]]
        name = "first"
        match.kind = "select"
        match.text = "(?i)pg_sleep"
        match.comment.route = "/reports*"
        action = "pass"
        then = "next"
        dry_run = true
        "#,
    );
    let [stop, first] = found.as_slice() else {
        panic!("{found:?}");
    };
    let (stop, clients) = (&stop.rule, &stop.clients);
    let first = &first.rule;
    assert_eq!((&*stop.name, &*first.name), ("stop-report-42", "first"));
    let Action::Reject(rejection) = &stop.action else {
        panic!("{stop:?}");
    };
    assert_eq!(&*rejection.message, "report 42 is disabled until Monday");
    assert_eq!(
        (rejection.code, &*rejection.hint),
        (*b"57014", "ask the DBA")
    );
    assert_eq!(
        (stop.expires, stop.sample, stop.goes_on),
        (Some(1_796_083_200), 50_000, false)
    );
    let given = Fingerprint::exact("SELECT * FROM report WHERE id = 7");
    assert_eq!(stop.conditions.fingerprints.last().copied(), given);
    assert!(clients.has_group("shop", "billing7") && !clients.has_group("shop", "bob"));
    let address = |text: &str| Some(text.parse().unwrap());
    assert!(clients.has_client("", address("10.1.2.3"), 6433));
    assert!(!clients.has_client("", address("192.0.2.1"), 6433));
    assert!(
        !clients.has_client("", None, 6433) && !clients.has_client("", address("10.1.2.3"), 6432)
    );
    assert_eq!(
        (&first.action, first.is_dry, first.goes_on),
        (&Action::Pass, true, true)
    );
}

/// Checks that these rules are the same once they were printed and read again.
fn are_printed(text: &str) {
    let before = rules(text);
    let printed: String = before.iter().map(QueryRule::to_toml).collect();
    let after = rules(&printed);
    assert_eq!(before.len(), after.len());
    for (one, other) in before.iter().zip(&after) {
        assert!(one.is_like(other), "{printed}");
    }
}

#[test]
fn printed_rules_about_other_databases_are_the_same_rules() {
    are_printed(
        r#"
        [[rules]]
        name = "copy"
        match.kind = "select"
        action = "mirror"
        to = "database:shop"
        compare = "rows"
        writes = true
        connections = 8
        sample = "5%"

        [[rules]]
        name = "elsewhere"
        action = "route"
        to = "database:shop"
        "#,
    );
}

#[test]
fn the_printed_rules_are_the_same_rules() {
    let text = r#"
        [[rules]]
        name = "all"
        match.database = ["shop", "test*"]
        match.user = "ann"
        match.application_name = "billing*"
        match.client_addr = ["10.0.0.0/8", "fd00::/8"]
        match.port = [6432, 6433]
        match.kind = ["select", "ddl"]
        match.tables = ["orders", "audit.*"]
        match.functions = "app.f*"
        match.fingerprint = "fb21bbb7f498cf13"
        match.text = "a\\s\"+"
        match.comment."a b" = "/cart*"
        match.comment.c = "d"
        action = "reject"
        message = "no \"report\""
        sqlstate = "57014"
        hint = "later"
        dry_run = true
        expires = "2026-12-01T01:00:00+01:00"
        sample = 0.005
        then = "next"

        [[rules]]
        name = "none"
        action = "pass"

        [[rules]]
        name = "new-text"
        match.fingerprint = ["SELECT a FROM t WHERE b = $1", "SELECT a, c FROM t WHERE b = $1"]
        action = "rewrite"
        to = "SELECT a FROM t WHERE b = $1 LIMIT 100"

        [[rules]]
        name = "few"
        match.tables = "reports"
        action = "route"
        to = "replica"
        timeout = "2s"
        log = "slow:200ms"
        max_concurrency = 5
        max_waiting = 20

        [[rules]]
        name = "one-host"
        match.tables = "reports"
        action = "route"
        to = "host:10.0.0.7"
        log = "all"

        [[rules]]
        name = "later"
        match.tables = "reports"
        action = "delay"
        delay = "1500ms"

        [[rules]]
        name = "seen"
        match.tables = "reports"
        action = "log"
        "#;
    are_printed(text);
}

#[test]
fn a_rule_with_a_mistake_is_refused_with_its_line_and_what_to_do() {
    refused_as(&[
        (
            "action = \"pass\"",
            "weir.toml:4: a rule needs a name: name = \"stop-report-42\"",
        ),
        (
            "name = \"a b\"\naction = \"pass\"",
            "weir.toml:5: the name \"a b\" of a rule must be 1 to 63 letters, digits, and - _ .",
        ),
        (
            "name = \"a\"",
            "weir.toml:4: rule \"a\" needs an action; there are delay, log, mirror, pass, reject, rewrite and route",
        ),
        (
            "name = \"a\"\naction = \"drop\"",
            "weir.toml:6: rule \"a\": unknown action \"drop\"; there are delay, log, mirror, pass, reject, rewrite and route",
        ),
        (
            "name = \"a\"\naction = \"reject\"\nmatch.database = \"shop\"",
            "weir.toml:4: rule \"a\" would reject every statement of its clients; add a condition about statements, such as \
             match.fingerprint, or use the HBA file to keep clients out",
        ),
        (
            "name = \"a\"\naction = \"pass\"\nhint = \"x\"",
            "weir.toml:7: rule \"a\": hint is only for action = \"reject\"",
        ),
        (
            "name = \"a\"\nmatch.text = \"(\"\naction = \"pass\"",
            "weir.toml:6: match.text: not a regular expression: unclosed group",
        ),
        (
            "name = \"a\"\nmatch.text = \"a*\"\naction = \"pass\"",
            "weir.toml:6: match.text: the regular expression matches every text",
        ),
        (
            "name = \"a\"\nmatch.fingerprint = \"DO 'x'\"\naction = \"reject\"",
            "weir.toml:6: match.fingerprint: all statements of kind do that differ in a literal have one fingerprint; use \
             match.text",
        ),
        (
            "name = \"a\"\nmatch.fingerprint = \"12345\"\naction = \"reject\"",
            "weir.toml:6: match.fingerprint must be 16 hexadecimal digits, as `weir digests --rules` shows them, or one statement",
        ),
    ]);
}

#[test]
fn a_condition_or_key_with_a_mistake_is_refused_with_its_line_and_what_to_do() {
    refused_as(&[
        (
            "name = \"a\"\nmatch.kind = \"read\"\naction = \"pass\"",
            "weir.toml:6: unknown kind \"read\"; there are call, copy, ddl",
        ),
        (
            "name = \"a\"\nmatch.user = []\naction = \"pass\"",
            "weir.toml:6: match.user is an empty list, which nothing meets",
        ),
        (
            "name = \"a\"\nmatch.client_addr = \"10.0.0.7/8\"\naction = \"pass\"",
            "weir.toml:6: match.client_addr \"10.0.0.7/8\": has bits",
        ),
        (
            "name = \"a\"\nmatch.table = \"t\"\naction = \"pass\"",
            "weir.toml:6: unknown key \"table\" in match; there are application_name",
        ),
        (
            "name = \"a\"\nrewrite = \"t\"\naction = \"pass\"",
            "weir.toml:6: unknown key \"rewrite\" in a rule; there are action",
        ),
        (
            "name = \"a\"\nsqlstate = \"00000\"\naction = \"reject\"",
            "weir.toml:6: sqlstate \"00000\" is of a class that is no error",
        ),
        (
            "name = \"a\"\nexpires = \"Monday\"\naction = \"pass\"",
            "weir.toml:6: expires \"Monday\" must be a time with an offset from UTC",
        ),
        (
            "name = \"a\"\nsample = 0\naction = \"pass\"",
            "weir.toml:6: sample must be a share above 0 and up to 1",
        ),
        (
            "name = \"a\"\naction = \"pass\"\n[[rules]]\nname = \"a\"\naction = \"pass\"",
            "weir.toml:7: there is a rule \"a\" already, at weir.toml:4",
        ),
    ]);
    assert!(
        settings_of("auth_type = \"any\"\nrules = 5").unwrap_err()[0]
            .contains("rules must be a list of tables")
    );
}

#[test]
fn an_action_without_what_it_needs_is_refused() {
    for (rule, expected) in [
        (
            "action = \"rewrite\"",
            "weir.toml:6: rule \"a\": action = \"rewrite\" needs to: to = ",
        ),
        (
            "action = \"rewrite\"\nto = \"SELECT 1\"\nmatch.fingerprint = \"fb21bbb7f498cf13\"",
            "weir.toml:7: rule \"a\": action = \"rewrite\" needs match.fingerprint as a statement",
        ),
        (
            "action = \"rewrite\"\nto = \"SELECT $1\"\nmatch.fingerprint = \"SELECT 1\"",
            "weir.toml:7: rule \"a\": $1 is only in to: both need the same parameters",
        ),
        (
            "action = \"rewrite\"\nto = \"SELEC 1\"\nmatch.fingerprint = \"SELECT 1\"",
            "weir.toml:7: rule \"a\": to is not a statement of PostgreSQL's grammar",
        ),
        (
            "action = \"rewrite\"\nto = \"SELECT 2\"\nmatch.fingerprint = \"SELECT 1\"\nlog = \"all\"",
            "weir.toml:4: rule \"a\": timeout, log and max_concurrency cannot stand beside action = \"rewrite\"",
        ),
        (
            "action = \"route\"\nto = \"standby\"",
            "weir.toml:7: rule \"a\": to = \"standby\" must be \"primary\", \"replica\", \"host:\" and the address of a host, or",
        ),
        (
            "action = \"pass\"\nto = \"replica\"",
            "weir.toml:7: rule \"a\": to is only for action = \"mirror\", \"rewrite\" or \"route\"",
        ),
        (
            "action = \"delay\"",
            "weir.toml:6: rule \"a\": action = \"delay\" needs delay: delay = \"500ms\"",
        ),
        (
            "action = \"delay\"\ndelay = 0",
            "weir.toml:7: delay \"0\" must be a time above zero",
        ),
        (
            "action = \"pass\"\nmax_waiting = 5",
            "weir.toml:7: rule \"a\": max_waiting needs max_concurrency",
        ),
        (
            "action = \"pass\"\nmax_concurrency = 0",
            "weir.toml:7: rule \"a\": max_concurrency = 0 lets nothing run",
        ),
        (
            "action = \"log\"\nlog = \"slow\"",
            "weir.toml:7: log \"slow\" must be \"all\", or \"slow:\" and a time",
        ),
    ] {
        let mistake = mistake(&format!("name = \"a\"\n{rule}"));
        assert!(
            mistake.starts_with(expected),
            "{mistake}\ninstead of\n{expected}"
        );
    }
}

#[test]
fn a_mirror_without_what_it_needs_is_refused() {
    for (rule, expected) in [
        (
            "action = \"mirror\"",
            "weir.toml:4: rule \"a\": action = \"mirror\" needs to: to = \"database:",
        ),
        (
            "action = \"mirror\"\nto = \"shop\"",
            "weir.toml:7: rule \"a\": to = \"shop\" must be \"database:\" and an entry of [databases]",
        ),
        (
            "action = \"mirror\"\nto = \"database:shp\"",
            "weir.toml:4: rule \"a\": to names the database \"shp\", which is not in [databases]",
        ),
        (
            "action = \"route\"\nto = \"database:pgbouncer\"",
            "weir.toml:4: rule \"a\": to names the database \"pgbouncer\", which is not in [databases]",
        ),
        (
            "action = \"mirror\"\nto = \"database:shop\"\ncompare = \"all\"",
            "weir.toml:8: rule \"a\": compare = \"all\" must be \"count\" or \"rows\"",
        ),
        (
            "action = \"mirror\"\nto = \"database:shop\"\nconnections = 65",
            "weir.toml:8: rule \"a\": connections must be 1 to 64",
        ),
        (
            "action = \"pass\"\nwrites = true",
            "weir.toml:7: rule \"a\": writes is only for action = \"mirror\"",
        ),
    ] {
        let mistake = mistake(&format!("name = \"a\"\n{rule}"));
        assert!(
            mistake.starts_with(expected),
            "{mistake}\ninstead of\n{expected}"
        );
    }
}

#[test]
fn there_is_a_limit_on_mirrors() {
    let mirror = |number: usize| {
        format!("[[rules]]\nname = \"m{number}\"\naction = \"mirror\"\nto = \"database:shop\"\n")
    };
    let text: String = (0..16).map(mirror).collect();
    assert_eq!(rules(&text).len(), 16);
    let mistakes = settings(&format!("{text}{}", mirror(16))).unwrap_err();
    let expected = "weir.toml:68: more than 16 rules with action = \"mirror\"";
    assert!(mistakes[0].starts_with(expected), "{mistakes:?}");
}
