//! etcd: the key that holds the name of Patroni's leader, watched through etcd's JSON gateway.
//!
//! The value is read, then `/v3/watch` reports each later revision of the key at once. When a watch is quiet for long, the
//! value is read again: a member that has lost the others answers watches, but not this.
//! <https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/>

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::json;
use weir_config::Secret;

use super::http::{Failure, Http, shown};
use super::{Source, State};

/// Adapter; see the module's page.
pub(super) struct Etcd {
    http: Http,
    /// The key in base64, as the gateway wants it.
    key: String,
    login: Option<(String, Secret)>,
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
        let key = BASE64_STANDARD.encode(key);
        Self { http, key, login }
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
        &self,
        server: &str,
        token: Option<&str>,
        revision: u64,
        heard: &mut dyn FnMut(State),
    ) -> Result<(), Failure> {
        let request = json!({
            "create_request": { "key": self.key, "start_revision": revision.to_string() }
        });
        let request = request.to_string();
        let mut lines = self.http.stream(server, "/v3/watch", token, &request)?;
        while let Some(line) = lines.next()? {
            for event in events(&line)? {
                let is_gone = event.kind == "DELETE";
                heard(state((!is_gone).then_some(&event.kv)));
            }
        }
        Ok(())
    }
}

impl Source for Etcd {
    fn read(&mut self, server: &str, heard: &mut dyn FnMut(State)) -> Result<(), Failure> {
        // A new one each time: tokens expire after minutes.
        let token = self.log_in(server)?;
        loop {
            let request = json!({ "key": self.key }).to_string();
            let path = "/v3/kv/range";
            let range = self.http.post(server, path, token.as_deref(), &request)?;
            let range: Range = serde_json::from_slice(&range)?;
            heard(state(range.kvs.first()));
            let next = number(&range.header.revision)? + 1;
            self.watch(server, token.as_deref(), next, heard)?;
        }
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
fn state(pair: Option<&Pair>) -> State {
    let Some(pair) = pair else {
        return State("there is no leader".to_owned());
    };
    let name = BASE64_STANDARD.decode(&pair.value).unwrap_or_default();
    let name = shown(&String::from_utf8_lossy(&name));
    let since = shown(&pair.create_revision);
    State(format!("{name} is the leader since revision {since}"))
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
            state(Some(&events_of_put[0].kv)).0,
            "n1 is the leader since revision 9"
        );
        let delete = br#"{"result":{"header":{"revision":"8"},"events":[{"type":"DELETE","kv":{"key":"a2V5","mod_revision":"8"}}]}}"#;
        assert_eq!(events(delete).unwrap()[0].kind, "DELETE");
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
