//! Identity of a request: the session of its cookie, or the user and password of a script.
//!
//! The configuration decides about rights at every request, so that a reload which removes a user ends the user's sessions.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::StatusCode;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::desk::{Desk, lock};
use crate::guard;
use crate::serve::Connection;
use crate::session::{self, Key};
use crate::source::{Denied, Role};

/// User of a request.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) user: String,
    pub(crate) role: Role,
    pub(crate) by: By,
}

/// Proof of a user's identity.
#[derive(Debug, Clone)]
pub(crate) enum By {
    /// `Authorization: Basic`.
    Password,
    Session {
        key: Key,
        form_token: String,
        /// True if the session may act without a new login.
        is_fresh: bool,
    },
}

impl Visitor {
    /// Token that forms of the session carry; empty for scripts, which have no forms.
    pub(crate) fn form_token(&self) -> &str {
        match &self.by {
            By::Password => "",
            By::Session { form_token, .. } => form_token,
        }
    }

    /// Finds out who has sent a request.
    ///
    /// # Errors
    /// The status of the refusal: 401 without valid credentials, 429 for an address that has failed too often.
    pub(crate) async fn of(
        desk: &Arc<Desk>,
        connection: &Connection,
        headers: &HeaderMap,
    ) -> Result<Self, StatusCode> {
        if let Some(token) = guard::cookie(headers, connection.is_secure) {
            return Self::by_session(desk, token).ok_or(StatusCode::UNAUTHORIZED);
        }
        let Some((user, password)) = guard::basic(headers) else {
            return Err(StatusCode::UNAUTHORIZED);
        };
        let role = sign_in(desk, connection, &user, password).await;
        let role = role.map_err(|denied| match denied {
            Denied::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Denied::Wrong(_) => StatusCode::UNAUTHORIZED,
        })?;
        Ok(Self {
            user,
            role,
            by: By::Password,
        })
    }

    fn by_session(desk: &Desk, token: &str) -> Option<Self> {
        let key = session::key(token);
        let now = desk.now();
        let session = lock(&desk.sessions).find(&key, now)?.clone();
        Some(Self {
            role: desk.source.role(&session.user)?,
            by: By::Session {
                key,
                is_fresh: session.is_fresh(now),
                form_token: session.form_token,
            },
            user: session.user,
        })
    }

    /// Notes that the user of a session has asked for a page. A stream is no such request: nobody may be there to see it.
    pub(crate) fn touch(&self, desk: &Desk) {
        if let By::Session { key, .. } = &self.by {
            lock(&desk.sessions).touch(key, desk.now());
        }
    }

    /// True while the user of a stream has the right to it.
    pub(crate) fn may_go_on(&self, desk: &Desk) -> bool {
        let has_session = match &self.by {
            By::Password => true,
            By::Session { key, .. } => lock(&desk.sessions).find(key, desk.now()).is_some(),
        };
        has_session && desk.source.role(&self.user) == Some(self.role)
    }
}

/// Checks a password on a thread that may block, and holds a refusal back.
pub(crate) async fn sign_in(
    desk: &Arc<Desk>,
    connection: &Connection,
    user: &str,
    password: Vec<u8>,
) -> Result<Role, Denied> {
    let wrong = Denied::Wrong(std::time::Duration::ZERO);
    if lock(&desk.remembered).is_right(user, &password, desk.now()) {
        return desk.source.role(user).ok_or(wrong);
    }
    let address = connection.peer.ip().to_canonical();
    let (shared, name) = (Arc::clone(desk), user.to_owned());
    let checked = spawn_blocking(move || {
        let checked = shared.source.sign_in(&name, &password, address);
        if checked.is_ok() {
            let now = shared.now();
            lock(&shared.remembered).note(&name, &password, now);
        }
        checked
    });
    let checked = checked.await.unwrap_or(Err(wrong));
    if let Err(denied) = checked {
        tracing::warn!("dashboard: login of user {user:?} from {address} refused: {denied}");
        if let Denied::Wrong(hold_back) = denied {
            sleep(hold_back).await;
        }
    }
    checked
}
