//! Detects statements that a used server answers differently than a new one, whatever settings are sent. Their answers
//! show what the server loaded, created or counted before. A client that is about to run such a statement gets a new
//! server.

use weir_sql::Judge;

use super::{Batch, Rules, StatePolicy};
use crate::client::Client;

/// Maximum length of a text that is examined; longer texts are never such statements.
const TEXT_MAX: usize = 4096;

/// Beginnings of texts that call one of these functions.
const CALLS: [&[u8]; 4] = [
    b"pg_catalog.pg_stat_force",
    b"pg_catalog.set_config",
    b"pg_stat_force",
    b"set_config",
];

/// Checks if the batch of a client without a server begins with a statement that needs a new server. The client
/// remembers the result for [`Client::wants_new_server`] until it gets a server. Returns true if it does.
#[inline]
pub fn wants_new(client: &mut Client, judge: &mut Judge, rules: Rules, batch: &Batch<'_>) -> bool {
    let text = batch.text().filter(|_| rules.state != StatePolicy::Off);
    client.wants_new = text.is_some_and(|text| {
        may_want_new(text) && (judge.effects(text, false)).is_some_and(|effects| effects.wants_new)
    });
    client.wants_new
}

/// Rules out nearly every other text by its first word.
#[inline]
fn may_want_new(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let begins = |text: &[u8], with: &[u8]| {
        let start = text.get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    if text.len() > TEXT_MAX {
        return false;
    }
    if begins(text, b"set") {
        // The name of a library's setting, or `search_path` with `pg_temp`.
        let names_path = || text.windows(7).any(|part| begins(part, b"pg_temp"));
        return text.contains(&b'.') || names_path();
    }
    if let Some(rest) = text.get(6..).filter(|_| begins(text, b"select")) {
        let rest = rest.trim_ascii_start();
        return CALLS.iter().any(|call| begins(rest, call));
    }
    begins(text, b"reset") && text.contains(&b'.')
}

#[cfg(test)]
mod tests {
    use weir_sql::Functions;
    use weir_wire::encode;

    use super::*;
    use crate::custom::CustomNames;
    use crate::relay::{Link, SequencePolicy, requests};
    use crate::server::Server;
    use crate::settings::Reported;
    use crate::splice::Splice;
    use crate::statement::Registry;

    fn rules(state: StatePolicy) -> Rules {
        Rules {
            max_prepared: 10,
            tracks_unnamed: true,
            prepare_unnamed: 0,
            refuse_simple_query: false,
            message_max: u32::MAX,
            state,
            sequences: SequencePolicy::Learn,
        }
    }

    fn check(client: &mut Client, text: &str) -> bool {
        let mut judge = Judge::new(Functions::default());
        let rules = rules(StatePolicy::Track);
        let (mut query, mut parse) = (Vec::new(), Vec::new());
        encode::query(&mut query, text.as_bytes()).unwrap();
        encode::parse(&mut parse, b"s", text.as_bytes(), &[0, 0]).unwrap();
        let wants = wants_new(client, &mut judge, rules, &Batch::scan(&query));
        assert_eq!(
            wants_new(client, &mut judge, rules, &Batch::scan(&parse)),
            wants,
            "{text}"
        );
        wants
    }

    #[test]
    fn what_shows_the_past_of_a_server_wants_a_new_one() {
        let mut client = Client::default();
        for text in [
            "SET plpgsql.extra_foo_warnings = true",
            " reset plpgsql.foo",
            "SELECT pg_stat_force_next_flush()",
            "select pg_catalog.set_config('plpgsql.foo', '', false)",
            "SET search_path TO 'pg_temp'",
        ] {
            assert!(check(&mut client, text), "{text}");
        }
        for text in [
            "",
            "SELECT 1",
            "SET work_mem = '1MB'",
            "SET app.tenant = '1'",
            "SET plpgsql.extra_warnings = 'all'",
            "SELECT set_config('app.tenant', '1', false)",
            "SET search_path = app, pg_temp",
        ] {
            assert!(!check(&mut client, text), "{text}");
        }
    }

    #[test]
    fn the_wish_lasts_until_the_client_asks_for_something_else() {
        let mut client = Client::default();
        assert!(check(&mut client, "SET plpgsql.foo = 1"));
        assert!(client.wants_new_server());
        assert!(!check(&mut client, "SELECT 1"));
        assert!(!client.wants_new_server());
    }

    #[test]
    fn a_client_that_makes_temporary_objects_by_default_wants_a_new_server() {
        for (path, wants_new) in [
            ("pg_temp", true),
            ("\"pg_temp\", public", true),
            ("public, pg_temp", false),
        ] {
            let mut settings = crate::settings::Settings::default();
            settings.set("search_path", path);
            let client = Client::new(settings.into(), Default::default());
            assert_eq!(client.wants_new_server(), wants_new, "{path}");
        }
    }

    #[test]
    fn nobody_looks_where_state_is_off() {
        let mut query = Vec::new();
        encode::query(&mut query, b"SET plpgsql.foo = 1").unwrap();
        let mut judge = Judge::new(Functions::default());
        let rules = rules(StatePolicy::Off);
        assert!(!wants_new(
            &mut Client::default(),
            &mut judge,
            rules,
            &Batch::scan(&query)
        ));
    }

    /// Returns a server of this version after the client has sent these texts.
    fn after(version: &str, state: StatePolicy, texts: &[&str]) -> Server {
        let mut reported = Reported::default();
        reported.set("server_version", version).unwrap();
        let (mut client, mut server) = (Client::default(), Server::new(reported.into()));
        let mut registry = Registry::new(0, 1);
        for text in texts {
            let mut message = Vec::new();
            encode::query(&mut message, text.as_bytes()).unwrap();
            let mut link = Link {
                client: &mut client,
                server: &mut server,
                registry: &mut registry,
                judge: &mut Judge::new(Functions::default()),
                proven: &Default::default(),
                rules: rules(state),
                digests: None,
                ruling: None,
            };
            let (mut buffer, mut answers) = (Vec::new(), Vec::new());
            let mut out = Splice::new(&message, &mut buffer);
            requests(&mut link, &message, &mut out, &mut answers).unwrap();
        }
        server
    }

    #[test]
    fn what_a_reader_of_statistics_does_is_reported_before_its_server_goes_on() {
        let reads = [
            "SELECT * FROM pg_stat_user_tables",
            "INSERT INTO t VALUES (1)",
        ];
        let asks = |version, state, texts| {
            let mut out = Vec::new();
            after(version, state, texts).ask_state(&CustomNames::default(), &mut out);
            String::from_utf8(out).unwrap().contains("flush")
        };
        assert!(asks("15.18 (Debian)", StatePolicy::Track, &reads));
        assert!(asks("18beta1", StatePolicy::Track, &reads));
        assert!(!asks("14.9", StatePolicy::Track, &reads));
        assert!(!asks("15.18", StatePolicy::Session, &reads));
        assert!(!asks(
            "15.18",
            StatePolicy::Track,
            &["INSERT INTO t VALUES (1)"]
        ));
    }

    #[test]
    fn what_nothing_takes_away_spoils_a_server_in_session_mode_too() {
        let spoils = |text| after("15.18", StatePolicy::Session, &[text]).is_spoiled();
        // LOAD spoils a server only once it has succeeded.
        assert!(
            after("15.18", StatePolicy::Session, &["LOAD 'x'"])
                .rarities
                .has(crate::rarities::ServerRarity::Loads)
        );
        assert!(!spoils("LOAD 'x'"));
        assert!(spoils("SELECT setseed(0.5)"));
        assert!(!spoils("SET work_mem = '1MB'"));
        assert!(!spoils("SELECT 1"));
    }
}
