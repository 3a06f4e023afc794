//! etcd: the key that holds the name of Patroni's leader, watched through etcd's JSON gateway.
//!
//! The value is read, then `/v3/watch` reports each later revision of the key at once. When a watch is quiet for long, the
//! value is read again: a member that has lost the others answers watches, but not this.
//! <https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/>
//!
//! For a fence, the key of the member that is the leader is read as well: it has the address of its PostgreSQL.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::json;
use weir_config::{HostPoint, Secret};

use super::http::{Failure, Http, shown};
use super::{Source, State};
use crate::clock::machine_us;
use crate::global::LeaderReport;

/// Time after which the value is read again if the watch says nothing.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// This time for a fence. A report about the leader counts for 5 s: it is confirmed before its end, even if one read is slow.
const QUIET_MAX_OF_LEADER: Duration = Duration::from_secs(2);
/// Port of PostgreSQL where a member's address has none.
const PORT: u16 = 5432;

/// Adapter; see the module's page.
pub(super) struct Etcd {
    http: Http,
    /// The key in base64, as the gateway wants it.
    key: String,
    /// Start of the keys of members, which end with their names.
    members: String,
    login: Option<(String, Secret)>,
    /// True if the states name the leader's host.
    names_leader: bool,
    /// True if the last leader's host could not be found, which was logged.
    is_blind: bool,
}

/// Value of a member's key.
#[derive(Deserialize)]
struct Member {
    /// Address of PostgreSQL, as `postgres://HOST:PORT/postgres`.
    conn_url: String,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

#[derive(Deserialize)]
struct Range {
    header: Header,
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Header {
    /// Number of the store's last change. Numbers of 64 bits are texts.
    revision: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pair {
    value: String,
    create_revision: String,
}

#[derive(Deserialize)]
struct Line {
    result: Option<Watched>,
    error: Option<ToolError>,
}

#[derive(Deserialize)]
struct ToolError {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Watched {
    #[serde(default)]
    canceled: bool,
    #[serde(default)]
    cancel_reason: String,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    /// `DELETE`, or missing for a value that was put.
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    kv: Pair,
}

impl Etcd {
    pub(super) fn new(http: Http, key: &str, login: Option<(String, Secret)>) -> Self {
        let scope = key.strip_suffix("leader").unwrap_or(key);
        Self {
            http,
            key: BASE64_STANDARD.encode(key),
            members: format!("{scope}members/"),
            login,
            names_leader: false,
            is_blind: false,
        }
    }

    /// Returns the token of a login; `None` without a user.
    fn log_in(&self, server: &str) -> Result<Option<String>, Failure> {
        let Some((user, password)) = &self.login else {
            return Ok(None);
        };
        let request = json!({ "name": user, "password": password.expose() }).to_string();
        let path = "/v3/auth/authenticate";
        let answer = self.http.post(server, path, None, &request)?;
        let answer: Token = serde_json::from_slice(&answer)?;
        Ok(Some(answer.token))
    }

    /// Passes on the changes from this revision on, until there was none for a while.
    fn watch(
        &mut self,
        server: &str,
        token: Option<&str>,
        revision: u64,
        heard: &mut dyn FnMut(State),
    ) -> Result<(), Failure> {
        let request = json!({
            "create_request": { "key": self.key, "start_revision": revision.to_string() }
        });
        let request = request.to_string();
        let quiet = match self.names_leader {
            true => QUIET_MAX_OF_LEADER,
            false => QUIET_MAX,
        };
        let mut lines = self
            .http
            .stream(server, "/v3/watch", token, &request, quiet)?;
        while let Some(line) = lines.next()? {
            let events = events(&line)?;
            if self.names_leader && !events.is_empty() {
                // The line may have waited here for long. A read tells who is the leader now.
                heard(self.read_state(server, token)?.0);
                continue;
            }
            for event in events {
                let is_gone = event.kind == "DELETE";
                heard(State::new(words((!is_gone).then_some(&event.kv))));
            }
        }
        Ok(())
    }

    /// Reads the leader's key. Returns the state with the store's revision.
    fn read_state(&mut self, server: &str, token: Option<&str>) -> Result<(State, u64), Failure> {
        let asked_us = machine_us();
        let range = self.range(server, token, &self.key)?;
        let revision = number(&range.header.revision)?;
        let pair = range.kvs.first();
        let mut state = State::new(words(pair));
        if self.names_leader {
            let found = pair.map(|pair| self.host(server, token, pair)).transpose();
            state.leader = self.report(server, &state.text, found, asked_us);
        }
        Ok((state, revision))
    }

    /// Reads a key.
    fn range(&self, server: &str, token: Option<&str>, key: &str) -> Result<Range, Failure> {
        let request = json!({ "key": key }).to_string();
        let range = self.http.post(server, "/v3/kv/range", token, &request)?;
        Ok(serde_json::from_slice(&range)?)
    }

    /// Returns the report about a leader with this host. A host that cannot be found is logged once.
    fn report(
        &mut self,
        server: &str,
        text: &str,
        found: Result<Option<HostPoint>, Failure>,
        asked_us: u64,
    ) -> Option<LeaderReport> {
        match found {
            Ok(host) => {
                self.is_blind = false;
                Some(LeaderReport { host, asked_us })
            }
            Err(failure) => {
                if !std::mem::replace(&mut self.is_blind, true) {
                    tracing::warn!(
                        "hints of failovers: {text} (etcd at {server}), and its host cannot be found: {failure}; \
                         it is no witness"
                    );
                }
                None
            }
        }
    }

    /// Returns the address of the PostgreSQL of the member that a value names.
    fn host(&self, server: &str, token: Option<&str>, pair: &Pair) -> Result<HostPoint, Failure> {
        let key = format!("{}{}", self.members, name(pair));
        let range = self.range(server, token, &BASE64_STANDARD.encode(&key))?;
        let pair = range.kvs.first();
        let pair = pair.ok_or_else(|| Failure::Tool(format!("no key {}", shown(&key))))?;
        let value = BASE64_STANDARD.decode(&pair.value).unwrap_or_default();
        let member: Member = serde_json::from_slice(&value)?;
        let url = &member.conn_url;
        point(url).ok_or_else(|| Failure::Tool(format!("no address: {}", shown(url))))
    }
}

impl Source for Etcd {
    fn read(&mut self, server: &str, heard: &mut dyn FnMut(State)) -> Result<(), Failure> {
        // A new one each time: tokens expire after minutes.
        let token = self.log_in(server)?;
        loop {
            let (state, revision) = self.read_state(server, token.as_deref())?;
            heard(state);
            let next = revision + 1;
            self.watch(server, token.as_deref(), next, heard)?;
        }
    }

    fn name_leader(&mut self) {
        self.names_leader = true;
    }
}

/// Returns the changes in a line of a watch.
fn events(line: &[u8]) -> Result<Vec<Event>, Failure> {
    let line: Line = serde_json::from_slice(line)?;
    if let Some(error) = line.error {
        return Err(Failure::Tool(shown(&error.message)));
    }
    let Some(watched) = line.result else {
        return Ok(Vec::new());
    };
    if watched.canceled {
        // The wanted revision may have been compacted: the value must be read anew.
        return Err(Failure::Tool(shown(&watched.cancel_reason)));
    }
    Ok(watched.events)
}

/// Describes a value of the key. The revision at which the key was made tells one term of a leader from the next.
fn words(pair: Option<&Pair>) -> String {
    let Some(pair) = pair else {
        return "there is no leader".to_owned();
    };
    let since = shown(&pair.create_revision);
    let name = shown(&name(pair));
    format!("{name} is the leader since revision {since}")
}

/// Returns the name of the leader.
fn name(pair: &Pair) -> String {
    let name = BASE64_STANDARD.decode(&pair.value).unwrap_or_default();
    String::from_utf8_lossy(&name).into_owned()
}

/// Returns the host of a member's address, always with a port.
fn point(url: &str) -> Option<HostPoint> {
    let rest = url.strip_prefix("postgres://");
    let rest = rest.or_else(|| url.strip_prefix("postgresql://"))?;
    let host = rest.split(['/', '?']).next()?;
    let host = host.rsplit('@').next()?;
    let mut point = HostPoint::parse(host).ok()?;
    point.port.get_or_insert(PORT);
    Some(point)
}

/// Returns a revision, which is positive.
fn number(text: &str) -> Result<u64, Failure> {
    let number = text.parse::<u64>().ok();
    let number = number.filter(|number| *number < u64::MAX);
    number.ok_or_else(|| Failure::Tool(format!("no revision: {}", shown(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_watch_are_read() {
        let created = br#"{"result":{"header":{"cluster_id":"1","revision":"6"},"created":true}}"#;
        assert!(events(created).unwrap().is_empty());
        let put = br#"{"result":{"header":{"revision":"9"},"events":[{"kv":{"key":"a2V5","create_revision":"9","mod_revision":"9","version":"1","value":"bjE=","lease":"7"}}]}}"#;
        let events_of_put = events(put).unwrap();
        assert_eq!(events_of_put.len(), 1);
        assert_eq!(
            words(Some(&events_of_put[0].kv)),
            "n1 is the leader since revision 9"
        );
        let delete = br#"{"result":{"header":{"revision":"8"},"events":[{"type":"DELETE","kv":{"key":"a2V5","mod_revision":"8"}}]}}"#;
        assert_eq!(events(delete).unwrap()[0].kind, "DELETE");
    }

    #[test]
    fn addresses_of_members_are_read() {
        for (url, expected) in [
            ("postgres://127.0.0.1:20001/postgres", "127.0.0.1:20001"),
            ("postgresql://Db1/postgres?x=y", "Db1:5432"),
            ("postgres://u:p@[::1]:5433", "[::1]:5433"),
            ("postgres://10.0.0.1", "10.0.0.1:5432"),
        ] {
            let point = point(url).map(|point| point.to_string());
            assert_eq!(point.as_deref(), Some(expected), "{url}");
        }
        for url in [
            "",
            "postgres://",
            "http://a:1",
            "postgres://a:0/",
            "postgres://a b/",
        ] {
            assert_eq!(point(url), None, "{url}");
        }
    }

    #[test]
    fn errors_end_a_watch() {
        for (line, expected) in [
            (
                r#"{"error":{"grpc_code":16,"http_code":401,"message":"etcdserver: invalid auth token"}}"#,
                "invalid auth token",
            ),
            (
                r#"{"result":{"canceled":true,"compact_revision":"100","cancel_reason":"required revision has been compacted"}}"#,
                "compacted",
            ),
            ("<html>", "unexpected answer"),
            ("{\"result\":", "unexpected answer"),
        ] {
            let failure = events(line.as_bytes()).err().unwrap().to_string();
            assert!(failure.contains(expected), "{line}: {failure}");
        }
        for text in ["", "-1", "x", "18446744073709551615"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
