//! Actions: refused unless everything proves that an administrator means them, and written to the log in any case.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Form, Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::app::problem;
use crate::desk::Desk;
use crate::guard::{self, Origin, SCRIPT_HEADER};
use crate::serve::Connection;
use crate::source::{Action, Role, Who};
use crate::view;
use crate::visitor::{By, Visitor};

/// Fields of the form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    action: String,
    target: String,
    token: String,
    typed: String,
}

/// Reason for which an action is refused before the pooler hears of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Barred {
    #[error(
        "the request comes from another site, or lacks the header X-Weir or the token of its form"
    )]
    Foreign,
    #[error("actions are for users of admin_users")]
    NotAdmin,
    #[error("actions are off: dashboard_actions turns them on")]
    Off,
    #[error("the session was not used for 15 minutes: sign out and in again")]
    Stale,
    #[error("the name was not typed as it is")]
    Untyped,
}

/// Facts about a request for an action.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) origin: Origin,
    /// True if the header of scripts is there.
    pub(crate) has_header: bool,
    /// True if the token is that of the session.
    pub(crate) has_token: bool,
    pub(crate) is_on: bool,
    pub(crate) typed: &'a str,
    pub(crate) target: &'a str,
}

/// Decides if a request may act.
pub(crate) fn judge(
    visitor: &Visitor,
    action: &Action,
    request: &Request<'_>,
) -> Result<(), Barred> {
    let is_meant = match (&visitor.by, request.origin) {
        (_, Origin::Foreign) => false,
        (By::Password, _) => request.has_header,
        (By::Session { .. }, Origin::Ours) => request.has_token,
        (By::Session { .. }, Origin::Script) => request.has_token && request.has_header,
    };
    if !is_meant {
        return Err(Barred::Foreign);
    }
    if !request.is_on {
        return Err(Barred::Off);
    }
    if visitor.role < Role::Admin {
        return Err(Barred::NotAdmin);
    }
    match &visitor.by {
        By::Session {
            is_fresh: false, ..
        } => Err(Barred::Stale),
        By::Session { .. } if action.is_grave() && request.typed != request.target => {
            Err(Barred::Untyped)
        }
        _ => Ok(()),
    }
}

/// Shows the form that asks if an action is meant.
pub(crate) async fn confirm(
    State(desk): State<Arc<Desk>>,
    Extension(connection): Extension<Connection>,
    Parameters(asked): Parameters<Asked>,
    headers: HeaderMap,
) -> Response {
    let visitor = match Visitor::of(&desk, &connection, &headers).await {
        Ok(visitor) => visitor,
        Err(status) => return problem(status, "Sign in first."),
    };
    let Some(action) = Action::read(&asked.action, &asked.target) else {
        return problem(StatusCode::NOT_FOUND, "There is no such action.");
    };
    if !desk.source.options().has_actions {
        return problem(StatusCode::FORBIDDEN, &Barred::Off.to_string());
    }
    if visitor.role < Role::Admin {
        return problem(StatusCode::FORBIDDEN, &Barred::NotAdmin.to_string());
    }
    visitor.touch(&desk);
    Html(view::confirm(&action, &asked.action, &asked.target, &visitor).into_string())
        .into_response()
}

/// Carries out an action.
pub(crate) async fn act(
    State(desk): State<Arc<Desk>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    Form(asked): Form<Asked>,
) -> Response {
    let visitor = match Visitor::of(&desk, &connection, &headers).await {
        Ok(visitor) => visitor,
        Err(status) => return problem(status, "Sign in first."),
    };
    let has_header = headers.get(SCRIPT_HEADER).is_some_and(|value| value == "1");
    let Some(action) = Action::read(&asked.action, &asked.target) else {
        return problem(StatusCode::NOT_FOUND, "There is no such action.");
    };
    let token = visitor.form_token();
    let request = Request {
        origin: guard::origin(&headers, connection.is_secure),
        has_header,
        has_token: !token.is_empty() && same(token, &asked.token),
        is_on: desk.source.options().has_actions,
        typed: asked.typed.trim(),
        target: &asked.target,
    };
    let who = Who {
        user: visitor.user.clone(),
        address: connection.peer.ip().to_canonical(),
    };
    let outcome = match judge(&visitor, &action, &request) {
        Ok(()) => {
            visitor.touch(&desk);
            carry_out(&desk, &action, &who).await
        }
        Err(barred) => Err((StatusCode::FORBIDDEN, barred.to_string())),
    };
    audit(&who, &action, &outcome);
    answer(&action, outcome, has_header)
}

fn same(expected: &str, given: &str) -> bool {
    use subtle::ConstantTimeEq as _;
    expected.as_bytes().ct_eq(given.as_bytes()).into()
}

type Outcome = Result<String, (StatusCode, String)>;

async fn carry_out(desk: &Arc<Desk>, action: &Action, who: &Who) -> Outcome {
    let (desk, action, who) = (Arc::clone(desk), action.clone(), who.clone());
    let done = spawn_blocking(move || desk.source.act(&action, &who)).await;
    let done = done.unwrap_or_else(|_| Err("internal error; the log has more".to_owned()));
    done.map_err(|refusal| (StatusCode::CONFLICT, refusal))
}

/// Writes a line to the log. Names come from outside, so they are quoted.
fn audit(who: &Who, action: &Action, outcome: &Outcome) {
    let Who { user, address } = who;
    let command = action.to_string();
    match outcome {
        Ok(done) => tracing::info!("dashboard: user {user:?} from {address}: {command:?}: {done}"),
        Err((_, refusal)) => {
            tracing::warn!(
                "dashboard: user {user:?} from {address}: {command:?} refused: {refusal}"
            );
        }
    }
}

fn answer(action: &Action, outcome: Outcome, wants_json: bool) -> Response {
    let command = action.to_string();
    match (outcome, wants_json) {
        (Ok(done), true) => Json(json!({"command": command, "done": done})).into_response(),
        (Err((status, error)), true) => {
            (status, Json(json!({"command": command, "error": error}))).into_response()
        }
        (Ok(done), false) => {
            Html(view::message(&command, "good", &done, "/").into_string()).into_response()
        }
        (Err((status, error)), false) => {
            let page = view::message(&command, "critical", &error, "/");
            (status, Html(page.into_string())).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor(role: Role, is_fresh: Option<bool>) -> Visitor {
        Visitor {
            user: "ann".to_owned(),
            role,
            by: match is_fresh {
                None => By::Password,
                Some(is_fresh) => By::Session {
                    key: [0; 32],
                    form_token: "t".to_owned(),
                    is_fresh,
                },
            },
        }
    }

    #[test]
    fn an_action_needs_every_proof() {
        let pause = Action::Pause("shop".to_owned());
        let good = Request {
            origin: Origin::Ours,
            has_header: false,
            has_token: true,
            is_on: true,
            typed: "shop",
            target: "shop",
        };
        let admin = visitor(Role::Admin, Some(true));
        assert_eq!(judge(&admin, &pause, &good), Ok(()));
        let check = |request: Request<'_>, expect: Barred| {
            assert_eq!(judge(&admin, &pause, &request), Err(expect), "{request:?}");
        };
        let foreign = Origin::Foreign;
        check(
            Request {
                origin: foreign,
                ..good
            },
            Barred::Foreign,
        );
        check(
            Request {
                has_token: false,
                ..good
            },
            Barred::Foreign,
        );
        check(
            Request {
                origin: Origin::Script,
                ..good
            },
            Barred::Foreign,
        );
        check(
            Request {
                is_on: false,
                ..good
            },
            Barred::Off,
        );
        check(
            Request {
                typed: "Shop",
                ..good
            },
            Barred::Untyped,
        );
        let stats = visitor(Role::Stats, Some(true));
        assert_eq!(judge(&stats, &pause, &good), Err(Barred::NotAdmin));
        let stale = visitor(Role::Admin, Some(false));
        assert_eq!(judge(&stale, &pause, &good), Err(Barred::Stale));
        assert_eq!(
            judge(&admin, &Action::Reload, &Request { typed: "", ..good }),
            Ok(())
        );
    }

    #[test]
    fn a_script_needs_its_header_and_no_browser_may_pose_as_one() {
        let script = Request {
            origin: Origin::Script,
            has_header: true,
            has_token: false,
            is_on: true,
            typed: "",
            target: "shop",
        };
        let pause = Action::Pause("shop".to_owned());
        let admin = visitor(Role::Admin, None);
        assert_eq!(judge(&admin, &pause, &script), Ok(()));
        for request in [
            Request {
                has_header: false,
                ..script
            },
            Request {
                origin: Origin::Foreign,
                ..script
            },
        ] {
            assert_eq!(judge(&admin, &pause, &request), Err(Barred::Foreign));
        }
    }
}
