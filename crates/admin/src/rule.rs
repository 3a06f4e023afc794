//! `RULE ADD $$ .. $$ [FOR time]`, `RULE DROP name`, `RULE DRY name`, `RULE LIVE name`: their grammar.

use weir_proxy::console::{Order, RuleOrder};
use weir_wire::sqlstate::SqlState;

use crate::explain::{name, word};
use crate::statement::Refused;

/// Name of the file in which rules of the console stand.
const PLACE: &str = "console";

/// Opens and closes the text of a rule.
const QUOTE: &str = "$$";

const USAGE: &str = "use RULE ADD $$ keys of a rule $$ [FOR 30min], RULE DROP NAME, RULE DRY NAME or RULE LIVE NAME";

/// Returns the part of a query behind RULE, or none if it is another command.
pub(crate) fn behind_word(sql: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(sql).ok()?;
    word(text, "RULE")
}

/// Reads an order. Returns it with its words.
pub(crate) fn read(arguments: &str) -> Result<(Order, &'static str), Refused> {
    let usage = || Refused::new(format!("wrong arguments; {USAGE}"));
    for (words, order) in [
        ("DROP", RuleOrder::Drop as fn(String) -> RuleOrder),
        ("DRY", |name| RuleOrder::Dry(name, true)),
        ("LIVE", |name| RuleOrder::Dry(name, false)),
    ] {
        if let Some(rest) = word(arguments, words) {
            let (name, rest) = name(rest).ok_or_else(usage)?;
            ends(rest).ok_or_else(usage)?;
            let tag = match words {
                "DROP" => "RULE DROP",
                "DRY" => "RULE DRY",
                _ => "RULE LIVE",
            };
            return Ok((Order::Rule(order(name)), tag));
        }
    }
    let rest = word(arguments, "ADD").ok_or_else(usage)?;
    let rest = rest.trim_start().strip_prefix(QUOTE).ok_or_else(usage)?;
    let (text, rest) = rest.split_once(QUOTE).ok_or_else(usage)?;
    let (seconds, rest) = match word(rest, "FOR") {
        Some(rest) => {
            let (time, rest) = name(rest).ok_or_else(usage)?;
            let time = time.trim_matches('\'');
            let span = weir_config::parse_seconds(time).filter(|span| !span.is_zero());
            let wrong = || Refused::new(format!("FOR {time} must be a time such as 30min or 2h"));
            let seconds = i64::try_from(span.ok_or_else(wrong)?.as_secs());
            (Some(seconds.unwrap_or(i64::MAX)), rest)
        }
        None => (None, rest),
    };
    ends(rest).ok_or_else(usage)?;
    let rules = weir_config::query_rules(PLACE, &format!("[[rules]]\n{text}"));
    let mut rules = rules.map_err(|mistakes| {
        let mistakes: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        Refused::with(SqlState::INVALID_PARAMETER_VALUE, mistakes.join("; "))
    })?;
    match (rules.pop(), rules.is_empty()) {
        (Some(rule), true) => {
            let rule = Box::new(rule);
            Ok((Order::Rule(RuleOrder::Add { rule, seconds }), "RULE ADD"))
        }
        _ => Err(usage()),
    }
}

fn ends(rest: &str) -> Option<()> {
    rest.trim().trim_start_matches(';').is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(sql: &str) -> Result<Order, String> {
        let read = read(behind_word(sql.as_bytes()).unwrap());
        read.map(|(order, _)| order)
            .map_err(|refused| refused.message)
    }

    #[test]
    fn a_rule_is_added_with_the_keys_of_the_file() {
        let sql =
            "RULE ADD $$ name = \"stop\"\nmatch.kind = \"ddl\"\naction = \"reject\" $$ FOR 30min;";
        let Ok(Order::Rule(RuleOrder::Add { rule, seconds })) = order(sql) else {
            panic!("{:?}", order(sql));
        };
        assert_eq!((&*rule.rule.name, seconds), ("stop", Some(1800)));
        for (sql, expected) in [
            ("rule drop stop", RuleOrder::Drop("stop".into())),
            (
                "RULE DRY \"my.rule\";",
                RuleOrder::Dry("my.rule".into(), true),
            ),
            ("Rule Live stop", RuleOrder::Dry("stop".into(), false)),
        ] {
            assert_eq!(order(sql), Ok(Order::Rule(expected)), "{sql}");
        }
    }

    #[test]
    fn wrong_orders_are_told_what_is_right() {
        for sql in [
            "RULE",
            "RULE ADD",
            "RULE ADD name",
            "RULE ADD $$ name = 1",
            "RULE DROP",
            "RULE DROP a b",
            "RULE ADD $$ $$ x",
        ] {
            assert!(order(sql).unwrap_err().contains("RULE ADD $$"), "{sql}");
        }
        let mistake = order("RULE ADD $$ name = \"a\"\nmatch.text = \"(\"\naction = \"pass\" $$")
            .unwrap_err();
        assert_eq!(
            mistake,
            "console:3: match.text: not a regular expression: unclosed group"
        );
        let mistake =
            order("RULE ADD $$ name = \"a\"\nmatch.kind = \"ddl\"\naction = \"pass\" $$ FOR ever")
                .unwrap_err();
        assert_eq!(mistake, "FOR ever must be a time such as 30min or 2h");
    }
}
