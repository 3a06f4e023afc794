//! The action of a rule, from the keys that belong to it.

use std::sync::Arc;
use std::time::Duration;

use weir_rules::{Action, Concurrency, Mirroring, Rejection, Rewriting, RouteTo};

use super::Draft;
use crate::error::ErrorKind;
use crate::raw::{Origin, quoted};

/// SQLSTATE of a rejected statement, unless the rule names another: insufficient_privilege.
const CODE: [u8; 5] = *b"42501";

/// Number of clients that may wait in front of a bulkhead, unless the rule has `max_waiting`.
const WAITING_MAX: u32 = 100;

/// Actions, for messages.
pub(crate) const ACTIONS: &str = "delay, log, mirror, pass, reject, rewrite and route";

/// Number of connections of a mirror, unless the rule has `connections`.
pub(crate) const CONNECTIONS: u32 = 4;

/// Maximum number of connections of a mirror: each has a thread.
pub(crate) const CONNECTIONS_MAX: u32 = 64;

/// Keys that belong to some actions only, with their places.
#[derive(Default)]
pub(super) struct Given {
    pub(super) action: Option<(String, Origin)>,
    pub(super) message: Option<(String, Origin)>,
    pub(super) code: Option<([u8; 5], Origin)>,
    pub(super) hint: Option<(String, Origin)>,
    pub(super) to: Option<(String, Origin)>,
    pub(super) delay: Option<(Duration, Origin)>,
    pub(super) compare: Option<(String, Origin)>,
    pub(super) writes: Option<(bool, Origin)>,
    pub(super) connections: Option<(u32, Origin)>,
    pub(super) max: Option<(u32, Origin)>,
    pub(super) waiting_max: Option<(u32, Origin)>,
}

/// Place, kind and text of a mistake.
type Mistake = (Origin, ErrorKind, String);

/// Reads the action of a rule, and its limit on statements that run at once. `shown` is the name of the rule, in quotes.
pub(super) fn read(draft: &Draft, shown: &str) -> Result<(Action, Option<Concurrency>), Mistake> {
    let given = &draft.given;
    let conflict = |at: &Origin, message: String| (at.clone(), ErrorKind::Conflict, message);
    let Some((name, at)) = &given.action else {
        return Err(conflict(
            &draft.at,
            format!("rule {shown} needs an action; there are {ACTIONS}"),
        ));
    };
    let needs = |key: &str, example: &str| {
        conflict(
            at,
            format!(
                "rule {shown}: action = {} needs {key}: {example}",
                quoted(name)
            ),
        )
    };
    let action = match name.as_str() {
        "pass" => Action::Pass,
        "log" => Action::Log,
        "reject" => reject(draft),
        "delay" => match &given.delay {
            Some((time, _)) => Action::Delay(*time),
            None => return Err(needs("delay", "delay = \"500ms\"")),
        },
        "route" => match &given.to {
            Some((to, at)) => route(to).ok_or_else(|| {
                let message = format!(
                    "rule {shown}: to = {} must be \"primary\", \"replica\", \"host:\" and the address of a host, or \"database:\" and an \
                     entry of [databases]",
                    quoted(to)
                );
                (at.clone(), ErrorKind::BadValue, message)
            })?,
            None => return Err(needs("to", "to = \"replica\"")),
        },
        "mirror" => mirror(draft, shown)?,
        "rewrite" => match &given.to {
            Some((to, at)) => rewrite(draft, shown, to, at)?,
            None => return Err(needs("to", "to = \"SELECT a FROM t WHERE b = $1\"")),
        },
        other => {
            let message = format!("rule {shown}: unknown action {}; there are {ACTIONS}", quoted(other));
            return Err((at.clone(), ErrorKind::BadValue, message));
        }
    };
    belong(draft, shown, &action)?;
    if draft.conditions.is_everything() && matches!(action, Action::Reject(_)) && !draft.is_dry {
        let message = format!(
            "rule {shown} would reject every statement of its clients; add a condition about statements, such as \
             match.fingerprint, or use the HBA file to keep clients out"
        );
        return Err(conflict(&draft.at, message));
    }
    Ok((action, concurrency(draft, shown)?))
}

/// Returns what a rule logs that does not say it.
pub(super) fn default_log(action: &Action) -> Option<Duration> {
    matches!(action, Action::Log).then_some(Duration::ZERO)
}

/// Returns the place of a key that was given.
fn place<T>(given: &Option<(T, Origin)>) -> Option<Origin> {
    given.as_ref().map(|(_, at)| at.clone())
}

/// Checks that each key belongs to the action.
fn belong(draft: &Draft, shown: &str, action: &Action) -> Result<(), Mistake> {
    let given = &draft.given;
    let rejects = matches!(action, Action::Reject(_));
    let rewrites = matches!(action, Action::Rewrite(_));
    let mirrors = matches!(action, Action::Mirror(_));
    let keys = [
        ("message", place(&given.message), rejects, "\"reject\""),
        ("hint", place(&given.hint), rejects, "\"reject\""),
        ("sqlstate", place(&given.code), rejects, "\"reject\""),
        (
            "to",
            place(&given.to),
            rewrites || mirrors || matches!(action, Action::Route(_)),
            "\"mirror\", \"rewrite\" or \"route\"",
        ),
        ("compare", place(&given.compare), mirrors, "\"mirror\""),
        ("writes", place(&given.writes), mirrors, "\"mirror\""),
        (
            "connections",
            place(&given.connections),
            mirrors,
            "\"mirror\"",
        ),
        (
            "delay",
            place(&given.delay),
            matches!(action, Action::Delay(_)),
            "\"delay\"",
        ),
    ];
    for (key, place, belongs, actions) in keys {
        if let Some(at) = place
            && !belongs
        {
            let message = format!("rule {shown}: {key} is only for action = {actions}");
            return Err((at, ErrorKind::Conflict, message));
        }
    }
    let watches = draft.timeout.is_some() || draft.log.is_some() || given.max.is_some();
    if watches && (rejects || rewrites) {
        let message = format!(
            "rule {shown}: timeout, log and max_concurrency cannot stand beside action = {}; write a rule of their own",
            if rejects { "\"reject\"" } else { "\"rewrite\"" },
        );
        return Err((draft.at.clone(), ErrorKind::Conflict, message));
    }
    Ok(())
}

fn reject(draft: &Draft) -> Action {
    let given = &draft.given;
    let message = given.message.as_ref();
    Action::Reject(Arc::new(Rejection {
        rule: draft.name.as_str().into(),
        message: message.map_or_else(
            || format!("statement rejected by rule {}", draft.name),
            |(message, _)| message.clone(),
        ),
        code: given.code.as_ref().map_or(CODE, |(code, _)| *code),
        hint: given
            .hint
            .as_ref()
            .map_or_else(String::new, |(hint, _)| hint.clone()),
    }))
}

fn route(to: &str) -> Option<Action> {
    let to = match to {
        "primary" => RouteTo::Primary,
        "replica" => RouteTo::Replica,
        to => {
            let (kind, name) = to.split_once(':')?;
            let name = Some(name.trim()).filter(|name| !name.is_empty())?;
            match kind {
                "database" => RouteTo::Database(name.into()),
                "host" => RouteTo::Host(name.into()),
                _ => return None,
            }
        }
    };
    Some(Action::Route(to))
}

fn mirror(draft: &Draft, shown: &str) -> Result<Action, Mistake> {
    let given = &draft.given;
    let wrong = |at: &Origin, message: String| (at.clone(), ErrorKind::BadValue, message);
    let Some((to, at)) = &given.to else {
        let message =
            format!("rule {shown}: action = \"mirror\" needs to: to = \"database:shop_next\"");
        return Err((draft.at.clone(), ErrorKind::Conflict, message));
    };
    let database = to.strip_prefix("database:").map(str::trim);
    let Some(database) = database.filter(|database| !database.is_empty()) else {
        let message = format!(
            "rule {shown}: to = {} must be \"database:\" and an entry of [databases]",
            quoted(to)
        );
        return Err(wrong(at, message));
    };
    let compares_rows = match given.compare.as_ref() {
        None => false,
        Some((compare, at)) => match compare.as_str() {
            "count" => false,
            "rows" => true,
            _ => {
                let message = format!(
                    "rule {shown}: compare = {} must be \"count\" or \"rows\"",
                    quoted(compare)
                );
                return Err(wrong(at, message));
            }
        },
    };
    let connections = match &given.connections {
        None => CONNECTIONS,
        Some((number, at)) if !(1..=CONNECTIONS_MAX).contains(number) => {
            let message = format!("rule {shown}: connections must be 1 to {CONNECTIONS_MAX}");
            return Err(wrong(at, message));
        }
        Some((number, _)) => *number,
    };
    Ok(Action::Mirror(Arc::new(Mirroring {
        database: database.into(),
        compares_rows,
        writes: given.writes.as_ref().is_some_and(|(writes, _)| *writes),
        connections,
    })))
}

fn rewrite(draft: &Draft, shown: &str, to: &str, at: &Origin) -> Result<Action, Mistake> {
    let conflict = |message: String| (at.clone(), ErrorKind::Conflict, message);
    if draft.statements.is_empty() || draft.digits > 0 {
        return Err(conflict(format!(
            "rule {shown}: action = \"rewrite\" needs match.fingerprint as a statement, with $1 for each value that is kept"
        )));
    }
    if weir_sql::Facts::of(to).is_none() {
        return Err(conflict(format!(
            "rule {shown}: to is not a statement of PostgreSQL's grammar, or longer than 2 KiB"
        )));
    }
    let rewriting = |from: &String| Rewriting::new(from, to);
    let rewritings: Result<Vec<_>, _> = draft.statements.iter().map(rewriting).collect();
    let rewritings = rewritings.map_err(|why| conflict(format!("rule {shown}: {why}")))?;
    Ok(Action::Rewrite(rewritings.into()))
}

fn concurrency(draft: &Draft, shown: &str) -> Result<Option<Concurrency>, Mistake> {
    let given = &draft.given;
    let Some((max, at)) = &given.max else {
        return match &given.waiting_max {
            Some((_, at)) => {
                let message = format!("rule {shown}: max_waiting needs max_concurrency");
                Err((at.clone(), ErrorKind::Conflict, message))
            }
            None => Ok(None),
        };
    };
    if *max == 0 {
        let message =
            format!("rule {shown}: max_concurrency = 0 lets nothing run; use action = \"reject\"");
        return Err((at.clone(), ErrorKind::BadValue, message));
    }
    Ok(Some(Concurrency {
        max: *max,
        queue_max: given
            .waiting_max
            .as_ref()
            .map_or(WAITING_MAX, |(max, _)| *max),
    }))
}
