//! Patroni's REST interface: `GET /cluster` on any node names all members, the leader and its timeline.
//!
//! <https://patroni.readthedocs.io/en/latest/rest_api.html#cluster-status-endpoints>

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use weir_config::Secret;

use super::http::{Failure, Http, shown};
use super::{Source, State};

/// Roles of the member that holds the leader lock. Patroni 2 and earlier said `master` in places.
const LEADERS: [&str; 4] = ["leader", "standby_leader", "master", "primary"];

/// Adapter; see the module's page.
pub(super) struct Patroni {
    http: Http,
    /// Value of the header that names a user.
    authorization: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    name: String,
    role: String,
    /// Missing while the member's server does not run.
    timeline: Option<u64>,
}

impl Patroni {
    pub(super) fn new(http: Http, login: Option<(String, Secret)>) -> Self {
        let basic = |(user, password): (String, Secret)| {
            let pair = format!("{user}:{}", password.expose());
            format!("Basic {}", BASE64_STANDARD.encode(pair))
        };
        Self {
            http,
            authorization: login.map(basic),
        }
    }
}

impl Source for Patroni {
    fn read(&mut self, server: &str, heard: &mut dyn FnMut(State)) -> Result<(), Failure> {
        let authorization = self.authorization.as_deref();
        let answer = self.http.get(server, "/cluster", authorization)?;
        heard(state(&answer)?);
        Ok(())
    }
}

fn state(answer: &[u8]) -> Result<State, Failure> {
    let answer: Answer = serde_json::from_slice(answer)?;
    let mut members = answer.members.iter();
    let leader = members.find(|member| LEADERS.contains(&&*member.role));
    let text = match leader {
        None => "there is no leader".to_owned(),
        Some(Member { name, timeline, .. }) => {
            let timeline = timeline.map(|timeline| format!(" on timeline {timeline}"));
            let timeline = timeline.unwrap_or_default();
            format!("{} is the leader{timeline}", shown(name))
        }
    };
    Ok(State(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer of Patroni 3.0.2 with three nodes.
    const REAL: &str = r#"{"members": [{"name": "n0", "role": "leader", "state": "running", "api_url": "http://127.0.0.1:20002/patroni", "host": "127.0.0.1", "port": 20001, "timeline": 2}, {"name": "n1", "role": "replica", "state": "streaming", "api_url": "http://127.0.0.1:20004/patroni", "host": "127.0.0.1", "port": 20003, "timeline": 2, "lag": 0}]}"#;

    #[test]
    fn the_leader_and_its_timeline_are_read() {
        let check = |answer: &str, expected: &str| {
            assert_eq!(state(answer.as_bytes()).unwrap().0, expected, "{answer}");
        };
        check(REAL, "n0 is the leader on timeline 2");
        check(
            &REAL.replace("leader", "standby_leader"),
            "n0 is the leader on timeline 2",
        );
        check(&REAL.replace("leader", "replica"), "there is no leader");
        check(r#"{"members": []}"#, "there is no leader");
        check(
            r#"{"members": [{"name": "a\nb", "role": "leader", "state": "stopped"}]}"#,
            "a\\nb is the leader",
        );
    }

    #[test]
    fn other_answers_are_refused() {
        let deep = "[".repeat(60_000);
        for answer in [
            "",
            "null",
            "{}",
            "<html>",
            r#"{"members": 7}"#,
            r#"{"members": [{"role": "leader"}]}"#,
            r#"{"members": [{"name": "a", "role": "leader", "timeline": -1}]}"#,
            &deep,
        ] {
            assert!(state(answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
