//! `POST /v1/failover`: a program on this machine says that a database may have another primary.

use std::borrow::Cow;
use std::net::IpAddr;

use super::Desk;
use super::check::entry;
use super::http::{Page, Request, Status};
use super::query::pairs;
use crate::orders::Refusal;

/// Parameters of a hint.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hint<'a> {
    database: Option<Cow<'a, str>>,
    /// Host that is said to be the primary.
    host: Option<Cow<'a, str>>,
}

impl Desk {
    /// Has the hosts of a database probed at once.
    pub(super) fn failover(&self, request: &Request<'_>, peer: IpAddr) -> Page {
        // Whoever may read the figures need not be allowed to cause probes.
        if !peer.to_canonical().is_loopback() {
            let why = "only programs on this machine may ask for probes";
            return Page::text(Status::Forbidden, why);
        }
        let Ok(body) = std::str::from_utf8(request.body) else {
            return Page::text(Status::BadRequest, "the body is not UTF-8");
        };
        let hint = match Hint::parse(request.query, body.trim_end()) {
            Ok(hint) => hint,
            Err(why) => return Page::text(Status::BadRequest, &why),
        };
        let settled = self.global.settled();
        let pool = match entry(&settled.settings, hint.database.as_deref()) {
            Ok(pool) => pool,
            Err((status, why)) => return Page::text(status, &why),
        };
        let host = hint.host.as_deref();
        match self.global.hint_failover(&pool, host) {
            Ok(()) => {
                let database = &pool.database;
                let said = host.map(|host| format!(" ({host} is said to be the primary)"));
                let said = said.unwrap_or_default();
                tracing::info!("POST /v1/failover from {peer}: database '{database}'{said}");
                let done = format!("the hosts of database {database} are probed now");
                Page::text(Status::Accepted, &done)
            }
            Err(refusal @ Refusal::NoHost { .. }) => {
                Page::text(Status::NotFound, &refusal.to_string())
            }
            Err(refusal) => Page::text(Status::BadRequest, &refusal.to_string()),
        }
    }
}

impl<'a> Hint<'a> {
    /// Reads the query of the path and the body of a form.
    fn parse(query: &'a str, body: &'a str) -> Result<Self, String> {
        let mut hint = Self::default();
        for (key, value) in pairs(query).chain(pairs(body)) {
            match &*key {
                "database" => hint.database = Some(value),
                "host" => hint.host = Some(value),
                _ => return Err(format!("unknown parameter: {key}")),
            }
        }
        Ok(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_from_the_path_or_from_a_form() {
        let expected = Hint {
            database: Some("shop".into()),
            host: Some("10.0.0.2:5432".into()),
        };
        for (query, body) in [
            ("database=shop&host=10.0.0.2:5432", ""),
            ("", "database=shop&host=10.0.0.2%3A5432"),
            ("database=shop", "host=10.0.0.2:5432"),
        ] {
            assert_eq!(
                Hint::parse(query, body).as_ref(),
                Ok(&expected),
                "{query} {body}"
            );
        }
        assert_eq!(Hint::parse("", ""), Ok(Hint::default()));
        let why = Hint::parse("", "{\"database\":\"shop\"}").unwrap_err();
        assert!(why.starts_with("unknown parameter"), "{why}");
    }
}
