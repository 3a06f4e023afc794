//! Addresses of the dashboard and what each one answers.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Extension, Form, Path, Query as Parameters, Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;

use crate::acting;
use crate::assets;
use crate::desk::{Desk, lock};
use crate::guard::{self, Origin};
use crate::model::{self, Model};
use crate::pages::{self, Page};
use crate::serve::{Connection, HEAD_MAX};
use crate::session::LIFETIME;
use crate::shown::{Query, encoded};
use crate::source::{Denied, Missing};
use crate::stream::{self, Told};
use crate::view;
use crate::visitor::{self, Visitor};

/// Address that all assets are kept under for as long as a browser likes.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

type Shared = State<Arc<Desk>>;

/// Returns all addresses.
pub(crate) fn router(desk: &Arc<Desk>) -> Router {
    Router::new()
        .route("/", get(front))
        .route("/{page}", get(page))
        .route("/assets/{name}", get(asset))
        .route("/stream", get(stream))
        .route("/api/page", get(poll))
        .route("/api/tables/{name}", get(table))
        .route("/api/history", get(history))
        .route("/login", get(login_form).post(login))
        .route("/logout", post(logout))
        .route("/confirm", get(acting::confirm))
        .route("/act", post(acting::act))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "There is no such page.") })
        .layer(DefaultBodyLimit::max(HEAD_MAX))
        .layer(from_fn_with_state(Arc::clone(desk), gate))
        .with_state(Arc::clone(desk))
}

/// Refuses a foreign Host, before anything else is looked at, and adds the headers of every answer.
async fn gate(State(desk): Shared, request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Connection>();
    let host = guard::single(request.headers(), &header::HOST);
    // A request in absolute form has its host in the target (RFC 9112, 3.2.2).
    let target = request
        .uri()
        .authority()
        .map(|authority| authority.as_str());
    let is_ours = connection.is_some_and(|connection| {
        let hosts = desk.source.options().hosts;
        let is_ours = |host: &str| guard::host_is_ours(host, connection.reached, &hosts);
        host.is_some_and(is_ours) && target.is_none_or(is_ours)
    });
    let mut response = match is_ours {
        true => next.run(request).await,
        false => problem(
            StatusCode::MISDIRECTED_REQUEST,
            "The Host of this request is none of this dashboard; dashboard_hosts allows others.",
        ),
    };
    let headers = response.headers_mut();
    for (name, value) in guard::HEADERS {
        headers.insert(name, value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(NO_STORE);
    response
}

/// Returns a page with an error.
pub(crate) fn problem(status: StatusCode, text: &str) -> Response {
    let page = view::message(
        status.canonical_reason().unwrap_or("Error"),
        "critical",
        text,
        "/",
    );
    (status, Html(page.into_string())).into_response()
}

/// Leads to another address; a POST becomes a GET.
fn lead(address: &str) -> Response {
    let address = HeaderValue::from_str(address);
    let address = address.unwrap_or_else(|_| HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}

/// Refuses a request for data. A browser is not asked for a password by itself: it would send it with every request.
fn refuse(status: StatusCode, headers: &HeaderMap) -> Response {
    let is_browser = headers.contains_key("sec-fetch-site");
    let mut response = (status, Json(json!({"error": "sign in"}))).into_response();
    if status == StatusCode::UNAUTHORIZED && !is_browser {
        let challenge = HeaderValue::from_static("Basic realm=\"weir\", charset=\"UTF-8\"");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

async fn front(
    state: Shared,
    connection: Extension<Connection>,
    query: Parameters<Query>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    page(state, connection, Path(String::new()), query, headers, uri).await
}

async fn page(
    State(desk): Shared,
    Extension(connection): Extension<Connection>,
    Path(path): Path<String>,
    Parameters(query): Parameters<Query>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let visitor = match Visitor::of(&desk, &connection, &headers).await {
        Ok(visitor) => visitor,
        Err(StatusCode::UNAUTHORIZED) if guard::basic(&headers).is_none() => {
            let next = uri.path_and_query().map_or("/", |next| next.as_str());
            return lead(&format!("/login?next={}", encoded(next)));
        }
        Err(status) => return refuse(status, &headers),
    };
    let Some(page) = pages::find(&path) else {
        return problem(StatusCode::NOT_FOUND, "There is no such page.");
    };
    visitor.touch(&desk);
    let model = Model::of(&desk, page, &query, &visitor).await;
    let charts = match page.charts {
        [] => None,
        _ => Some(model::charts(&desk, page, &query).await),
    };
    Html(view::page(&model, &query, &visitor, charts.as_ref()).into_string()).into_response()
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = assets::find(&name) else {
        return problem(StatusCode::NOT_FOUND, "There is no such file.");
    };
    let known = guard::single(&headers, &header::IF_NONE_MATCH);
    let etag = (header::ETAG, asset.etag().to_owned());
    let kept = (header::CACHE_CONTROL, IMMUTABLE);
    if known == Some(asset.etag()) {
        return (StatusCode::NOT_MODIFIED, [etag], [kept]).into_response();
    }
    let takes = guard::single(&headers, &header::ACCEPT_ENCODING).unwrap_or_default();
    let takes_gzip = takes.split(',').any(|word| word.trim() == "gzip");
    let (content, is_compressed) = asset.content(takes_gzip);
    let kind = (header::CONTENT_TYPE, asset.content_type());
    let vary = (header::VARY, "accept-encoding");
    let mut response = ([etag], [kept], [kind, vary], content).into_response();
    if is_compressed {
        let value = HeaderValue::from_static("gzip");
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, value);
    }
    response
}

/// Finds the page and the user of a request for its data.
async fn asked(
    desk: &Arc<Desk>,
    connection: &Connection,
    query: &Query,
    headers: &HeaderMap,
) -> Result<(&'static Page, Visitor), Box<Response>> {
    let visitor = Visitor::of(desk, connection, headers).await;
    let visitor = visitor.map_err(|status| Box::new(refuse(status, headers)))?;
    match pages::find(&query.page) {
        Some(page) => Ok((page, visitor)),
        None => Err(Box::new(refuse(StatusCode::NOT_FOUND, headers))),
    }
}

async fn stream(
    State(desk): Shared,
    Extension(connection): Extension<Connection>,
    Parameters(query): Parameters<Query>,
    headers: HeaderMap,
) -> Response {
    let (page, visitor) = match asked(&desk, &connection, &query, &headers).await {
        Ok(asked) => asked,
        Err(refused) => return *refused,
    };
    let Ok(permit) = Arc::clone(&desk.streams).try_acquire_owned() else {
        // A browser does not ask again after this status; the page's script polls instead.
        return StatusCode::NO_CONTENT.into_response();
    };
    connection.becomes_stream();
    let mut response = stream::open(desk, page, query, visitor, permit).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

async fn poll(
    State(desk): Shared,
    Extension(connection): Extension<Connection>,
    Parameters(query): Parameters<Query>,
    headers: HeaderMap,
) -> Response {
    let (page, visitor) = match asked(&desk, &connection, &query, &headers).await {
        Ok(asked) => asked,
        Err(refused) => return *refused,
    };
    let mut told = Told::default();
    Json(stream::message(&desk, page, &query, &visitor, &mut told).await).into_response()
}

async fn table(
    State(desk): Shared,
    Extension(connection): Extension<Connection>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let visitor = match Visitor::of(&desk, &connection, &headers).await {
        Ok(visitor) => visitor,
        Err(status) => return refuse(status, &headers),
    };
    let name = name.to_uppercase().replace('-', " ");
    if !pages::is_known(&name) {
        return (
            StatusCode::NOT_FOUND,
            Json(json!({"error": "no such table"})),
        )
            .into_response();
    }
    match desk.table(&name).await {
        Ok(table) => Json(crate::json::table(&name, &table, visitor.role)).into_response(),
        Err(missing) => absent(&missing),
    }
}

/// Question for a history.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    database: Option<String>,
    user: Option<String>,
    window: String,
}

async fn history(
    State(desk): Shared,
    Extension(connection): Extension<Connection>,
    Parameters(wanted): Parameters<Wanted>,
    headers: HeaderMap,
) -> Response {
    if let Err(status) = Visitor::of(&desk, &connection, &headers).await {
        return refuse(status, &headers);
    }
    let scope = match (wanted.database, wanted.user) {
        (Some(database), Some(user)) => crate::source::Scope::Pool { database, user },
        _ => crate::source::Scope::Process,
    };
    let query = Query {
        window: wanted.window,
        ..Query::default()
    };
    match desk.history(&scope, model::window(&query).1).await {
        Ok(series) => Json(crate::json::series(&series)).into_response(),
        Err(missing) => absent(&missing),
    }
}

fn absent(missing: &Missing) -> Response {
    let status = match missing {
        Missing::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
        Missing::Unknown(_) => StatusCode::NOT_FOUND,
    };
    (status, Json(json!({"error": missing.to_string()}))).into_response()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Login {
    user: String,
    password: String,
    next: String,
}

async fn login_form(Parameters(login): Parameters<Login>) -> Response {
    Html(view::login("", inside(&login.next), None).into_string()).into_response()
}

async fn login(
    State(desk): Shared,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    Form(login): Form<Login>,
) -> Response {
    if guard::origin(&headers, connection.is_secure) == Origin::Foreign {
        return problem(StatusCode::FORBIDDEN, "The form comes from another site.");
    }
    let password = login.password.into_bytes();
    let checked = visitor::sign_in(&desk, &connection, &login.user, password).await;
    if let Err(denied) = checked {
        let status = match denied {
            Denied::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Denied::Wrong(_) => StatusCode::UNAUTHORIZED,
        };
        let form = view::login(&login.user, inside(&login.next), Some(&denied.to_string()));
        return (status, Html(form.into_string())).into_response();
    }
    let opened = lock(&desk.sessions).open(&login.user, desk.now());
    let Ok(token) = opened else {
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "No random bytes.");
    };
    let address = connection.peer.ip();
    tracing::info!("dashboard: login of user {:?} from {address}", login.user);
    let mut response = lead(inside(&login.next));
    set_cookie(&mut response, &token, &connection, LIFETIME.as_secs());
    response
}

/// Returns an address of this dashboard; the first page in place of any other.
fn inside(next: &str) -> &str {
    let is_inside = next.starts_with('/')
        && !next.starts_with("//")
        && next
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_inside { next } else { "/" }
}

fn set_cookie(response: &mut Response, token: &str, connection: &Connection, seconds: u64) {
    let cookie = guard::set_cookie(token, connection.is_secure, seconds);
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Logout {
    token: String,
}

async fn logout(
    State(desk): Shared,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    Form(logout): Form<Logout>,
) -> Response {
    let is_foreign = guard::origin(&headers, connection.is_secure) == Origin::Foreign;
    let token = guard::cookie(&headers, connection.is_secure);
    if let Some(key) = token.map(crate::session::key) {
        let mut sessions = lock(&desk.sessions);
        let session = sessions.find(&key, desk.now());
        let has_token = session.is_some_and(|session| session.has_form_token(&logout.token));
        if session.is_some() && (is_foreign || !has_token) {
            return problem(StatusCode::FORBIDDEN, "The form comes from another site.");
        }
        sessions.close(&key);
    }
    let mut response = lead("/login");
    set_cookie(&mut response, "", &connection, 0);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_only_to_pages_of_the_dashboard() {
        for (next, expect) in [
            ("/pools?q=a%20b", "/pools?q=a%20b"),
            ("", "/"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example", "/"),
            ("/a\r\nSet-Cookie: x=y", "/"),
            ("javascript:alert(1)", "/"),
        ] {
            assert_eq!(inside(next), expect, "{next:?}");
        }
    }
}
