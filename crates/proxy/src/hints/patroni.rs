//! Patroni's REST interface: `GET /cluster` on any node names all members, the leader and its timeline.
//!
//! <https://patroni.readthedocs.io/en/latest/rest_api.html#cluster-status-endpoints>

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;
use weir_config::{HostAddr, HostPoint, Secret};

use super::http::{Failure, Http, shown};
use super::{Source, State};
use crate::clock::machine_us;
use crate::global::LeaderReport;

/// Roles of the member that holds the leader lock. Patroni 2 and earlier said `master` in places.
const LEADERS: [&str; 4] = ["leader", STANDBY_LEADER, "master", "primary"];

/// Role of the leader of a standby cluster, which takes no writes.
const STANDBY_LEADER: &str = "standby_leader";

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
    /// Address of the member's PostgreSQL, if it has told one. A surprise here makes the answer no worse as a hint.
    #[serde(default)]
    host: Value,
    #[serde(default)]
    port: Value,
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
        let asked_us = machine_us();
        let answer = self.http.get(server, "/cluster", authorization)?;
        heard(state(&answer, asked_us)?);
        Ok(())
    }
}

/// Describes the cluster as an answer shows it to a question of this time.
fn state(answer: &[u8], asked_us: u64) -> Result<State, Failure> {
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
    let leader = match leader {
        None => Some(LeaderReport {
            host: None,
            asked_us,
        }),
        Some(member) => member.point().map(|host| LeaderReport {
            host: Some(host),
            asked_us,
        }),
    };
    Ok(State { text, leader })
}

impl Member {
    /// Returns the address of the member's PostgreSQL, if it takes writes.
    fn point(&self) -> Option<HostPoint> {
        let port = u16::try_from(self.port.as_u64()?).ok();
        let port = port.filter(|port| *port > 0)?;
        let address = HostAddr::parse(self.host.as_str()?).ok()?;
        (self.role != STANDBY_LEADER).then_some(HostPoint {
            address,
            port: Some(port),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer of Patroni 3.0.2 with three nodes.
    const REAL: &str = r#"{"members": [{"name": "n0", "role": "leader", "state": "running", "api_url": "http://127.0.0.1:20002/patroni", "host": "127.0.0.1", "port": 20001, "timeline": 2}, {"name": "n1", "role": "replica", "state": "streaming", "api_url": "http://127.0.0.1:20004/patroni", "host": "127.0.0.1", "port": 20003, "timeline": 2, "lag": 0}]}"#;

    #[test]
    fn the_leader_and_its_timeline_are_read() {
        let check = |answer: &str, expected: &str| {
            assert_eq!(
                state(answer.as_bytes(), 7).unwrap().text,
                expected,
                "{answer}"
            );
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
    fn the_address_of_the_leader_is_read() {
        let leader = |answer: &str| {
            let report = state(answer.as_bytes(), 7).unwrap().leader?;
            assert_eq!(report.asked_us, 7);
            Some(report.host.map(|host| host.to_string()))
        };
        assert_eq!(leader(REAL), Some(Some("127.0.0.1:20001".to_owned())));
        let nobody = REAL.replace("leader", "replica");
        assert_eq!(leader(&nobody), Some(None), "there is none");
        // No host can be told.
        for (from, to) in [
            ("leader", STANDBY_LEADER),
            ("\"host\": \"127.0.0.1\", ", ""),
            ("\"127.0.0.1\"", "7"),
            ("\"127.0.0.1\"", "\"a b\\n\""),
            ("20001", "0"),
            ("20001", "65536"),
            ("20001", "\"20001\""),
        ] {
            assert!(REAL.contains(from), "{from}");
            assert_eq!(leader(&REAL.replace(from, to)), None, "{from} {to}");
        }
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
            assert!(state(answer.as_bytes(), 7).is_err(), "{answer}");
        }
    }
}
