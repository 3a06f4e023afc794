//! Applies the answer to a question about the state of a client's session.

use std::sync::Arc;

use weir_sql::{Reason, Reasons};

use crate::client::Client;
use crate::rarities::ServerRarity;
use crate::server::{INTERRUPTED_MAX, Server};
use crate::settings::Settings;
use crate::state::surprises;

/// Applies a complete answer: the state that the client has on its server, and the settings that follow it.
pub(super) fn learn(client: &mut Client, server: &mut Server) {
    let Some(asked) = server.asked.pop_front() else {
        return;
    };
    let (question, answer) = *asked;
    if answer.is_interrupted() && server.questions_interrupted < INTERRUPTED_MAX {
        server.questions_interrupted += 1;
        return server.question.join(question);
    }
    server.questions_interrupted = 0;
    if answer.is_bad() {
        // Nothing is known, so the client keeps its server. Only the question has the names, so it is kept. It is asked
        // again after the client's next transaction, not before, since it may fail each time.
        client.held.insert(Reason::Unknown);
        server.rarities.insert(ServerRarity::Unanswered);
        match &mut server.unanswered {
            Some(before) => before.join(question),
            none => *none = Some(Box::new(question)),
        }
        return;
    }
    if question.is_partial() {
        client.certain.insert(Reason::Setting);
    } else if question.has_reset_all() {
        client.certain.remove(Reason::Setting);
    }
    if question.is_about_settings() {
        let user = server.default_of("session_authorization").unwrap_or("");
        let of_client = answer.of_client(&question, &client.settings, &client.startup, user);
        let of_server = answer.of_server(&question, &server.settings, user);
        if question.is_check() && surprises(&client.settings, &of_client, &client.startup) {
            server.rarities.insert(ServerRarity::Found);
        }
        replace(&mut client.settings, of_client);
        let made_temporary = client.makes_temporary();
        client.settings_changed();
        if client.makes_temporary() && !made_temporary {
            // The question did not cover objects made since the path was set.
            server.question.add_reason(Reason::TemporaryObject);
        }
        replace(&mut server.settings, of_server);
        if client.settings == server.settings {
            server.settings = Arc::clone(&client.settings);
        }
    }
    if question.is_about_statements() {
        client.owns_only(&answer.statements);
    }
    let mut held = Reasons::default();
    for reason in client.held.iter() {
        if !question.reasons().contains(reason) && reason != Reason::Unknown {
            held.insert(reason);
        }
    }
    let found = answer
        .reasons()
        .iter()
        .any(|reason| !client.held.contains(reason));
    if question.is_check() && found {
        server.rarities.insert(ServerRarity::Found);
    }
    client.held = held.union(answer.reasons());
}

/// Replaces the settings unless they are equal, so that equal settings stay shared.
fn replace(settings: &mut Arc<Settings>, new: Settings) {
    if **settings != new {
        *settings = Arc::new(new);
    }
}

#[cfg(test)]
mod tests {
    use weir_sql::{Functions, Judge};
    use weir_wire::backend::TransactionStatus;
    use weir_wire::encode;

    use super::*;
    use crate::custom::CustomNames;
    use crate::relay::{Link, Rules, SequencePolicy, StatePolicy, replies, requests};
    use crate::splice::Splice;
    use crate::state::{Answer, Question};
    use crate::statement::{Proven, Registry};

    /// A client with a server of its own.
    #[derive(Default)]
    struct Pair {
        /// Messages that the client received last.
        heard: String,
        client: Client,
        names: CustomNames,
        server: Option<Server>,
    }

    impl Pair {
        fn server(&mut self) -> &mut Server {
            (self.server).get_or_insert_with(|| Server::new(Arc::default()))
        }

        /// Sends a simple query, which the server completes.
        fn run(&mut self, text: &str) {
            self.send(text);
            self.reply(|message| encode::command_complete(message, b"SET").unwrap());
        }

        /// Sends a simple query in two parts, so that the first is passed on before the rest arrives. The server
        /// completes it.
        fn run_unread(&mut self, text: &str) {
            self.pass_in_parts(text);
            self.reply(|message| {
                encode::command_complete(message, b"SET").unwrap();
                encode::parameter_status(message, b"DateStyle", b"ISO, MDY").unwrap();
            });
        }

        fn pass_in_parts(&mut self, text: &str) {
            let mut message = Vec::new();
            encode::query(&mut message, text.as_bytes()).unwrap();
            let (first, rest) = message.split_at(40_000);
            assert!(!self.pass(first).is_empty() && !self.pass(rest).is_empty());
        }

        /// Sends a simple query. Returns the messages for the server.
        fn send(&mut self, text: &str) -> String {
            let mut message = Vec::new();
            encode::query(&mut message, text.as_bytes()).unwrap();
            self.pass(&message)
        }

        fn pass(&mut self, message: &[u8]) -> String {
            self.server();
            let (mut buffer, proven) = (Vec::new(), Arc::<Proven>::default());
            let mut link = Link {
                client: &mut self.client,
                server: self.server.as_mut().unwrap(),
                registry: &mut Registry::new(0, 1),
                judge: &mut Judge::new(Functions::default()),
                proven: &proven,
                rules: Rules {
                    max_prepared: 10,
                    tracks_unnamed: true,
                    prepare_unnamed: 0,
                    refuse_simple_query: false,
                    message_max: u32::MAX,
                    state: StatePolicy::Track,
                    sequences: SequencePolicy::Learn,
                },
                digests: None,
                ruling: None,
            };
            let mut out = Splice::new(message, &mut buffer);
            requests(&mut link, message, &mut out, &mut Vec::new()).unwrap();
            String::from_utf8_lossy(out.finish()).into_owned()
        }

        fn reply(&mut self, write: impl Fn(&mut Vec<u8>)) {
            let (mut message, mut buffer) = (Vec::new(), Vec::new());
            write(&mut message);
            encode::ready_for_query(&mut message, TransactionStatus::Idle).unwrap();
            let mut out = Splice::new(&message, &mut buffer);
            let server = self.server.as_mut().unwrap();
            replies(&mut self.client, server, &message, &mut out).unwrap();
            self.heard = weir_testkit::reading::outline(out.finish());
        }

        /// Returns the text of the question that the server is asked, if any.
        fn question(&mut self) -> Option<String> {
            let mut question = Vec::new();
            let server = self.server.as_mut().unwrap();
            let is_asked = server.ask_state(&self.names, &mut question);
            is_asked.then(|| String::from_utf8_lossy(&question).into_owned())
        }

        fn refuse(&mut self) {
            self.fail(b"53200");
        }

        fn fail(&mut self, code: &[u8]) {
            let fields = [(b'V', &b"ERROR"[..]), (b'C', code)];
            self.reply(|message| encode::error_response(message, &fields).unwrap());
        }

        fn answer(&mut self, name: &str, value: &str) {
            let row = [b"s", name.as_bytes(), value.as_bytes()].map(Some);
            self.reply(|message| encode::data_row(message, &row).unwrap());
        }
    }

    #[test]
    fn a_name_that_was_not_answered_is_asked_for_again_after_the_next_transaction() {
        let mut pair = Pair::default();
        pair.run("SET app.tenant = 'A'");
        assert!(pair.question().unwrap().contains("app.tenant"));
        pair.refuse();
        for _ in 0..3 {
            assert!(pair.client.pin().is_some(), "nothing is known");
            assert_eq!(pair.question(), None, "not before its next transaction");
            pair.run("SELECT 1");
            assert!(pair.question().unwrap().contains("app.tenant"));
            pair.refuse();
        }
        pair.run("SELECT 1");
        assert!(pair.question().unwrap().contains("app.tenant"));
        pair.answer("app.tenant", "A");
        assert_eq!(pair.client.settings().get("app.tenant"), Some("A"));
        assert_eq!(pair.client.pin(), None);
        pair.run("SELECT 1");
        assert_eq!(pair.question(), None);
    }

    #[test]
    fn a_set_behind_data_that_was_not_read_pins() {
        for (tag, is_pinned) in [
            ("SET", true),
            ("RESET", true),
            ("DO", true),
            ("SELECT 1", false),
        ] {
            let mut pair = Pair::default();
            let text = format!("SELECT 1 /*{}*/; SET a.b = 1", "y".repeat(70_000));
            pair.pass_in_parts(&text);
            pair.reply(|message| encode::command_complete(message, tag.as_bytes()).unwrap());
            assert_eq!(pair.client.pin().is_some(), is_pinned, "{tag}");
        }
    }

    #[test]
    fn code_that_sets_pins_wherever_it_stands_in_a_text_that_passes_by() {
        let long = "y".repeat(70_000);
        for (text, is_pinned) in [
            (
                format!("SELECT '{long}', set_config('a.b', 'c', false)"),
                true,
            ),
            (
                format!("SELECT set_config('a.b', 'c', false), '{long}'"),
                true,
            ),
            (format!("SELECT '{long}', upper('c')"), false),
        ] {
            let mut pair = Pair::default();
            pair.pass_in_parts(&text);
            pair.reply(|message| encode::command_complete(message, b"SELECT 1").unwrap());
            assert_eq!(pair.client.pin().is_some(), is_pinned);
            assert!(pair.server().pieces.is_none());
        }
    }

    #[test]
    fn a_set_in_a_text_of_its_own_behind_long_data_does_not_pin() {
        let mut pair = Pair::default();
        pair.pass_in_parts(&format!("INSERT INTO t VALUES ('{}')", "y".repeat(70_000)));
        pair.reply(|message| encode::command_complete(message, b"INSERT 0 1").unwrap());
        pair.run("SET LOCAL work_mem = '5MB'");
        assert!(!pair.client.certain.contains(Reason::Setting));
    }

    #[test]
    fn what_a_text_that_was_not_read_has_reset_is_set_before_the_next_statement() {
        let mut startup = Settings::default();
        startup.set("DateStyle", "SQL, DMY");
        let reported = |value| {
            let mut reported = crate::settings::Reported::default();
            reported.set("DateStyle", value).unwrap();
            Arc::new(reported)
        };
        let mut pair = Pair {
            client: Client::new(Arc::new(startup), reported("SQL, DMY")),
            server: Some(Server::new(reported("ISO, MDY"))),
            ..Pair::default()
        };
        pair.server().settings = Arc::clone(&pair.client.settings);
        pair.server().reported = reported("SQL, DMY");
        pair.run_unread(&format!(
            "RESET ALL; SET a.b = 1 /*{}*/",
            "y".repeat(70_000)
        ));
        assert_eq!(pair.heard, "C(SET) Z(I)", "its own will be set again");
        assert!(pair.question().is_some());
        assert_eq!(pair.send("SELECT now()"), "", "nothing is known yet");
        // All values are the server's defaults.
        pair.reply(|message| encode::command_complete(message, b"SELECT 0").unwrap());
        assert_eq!(pair.heard, "");
        let told = pair.send("SELECT now()");
        assert!(
            told.contains("SQL, DMY") && !told.contains("now"),
            "{told:?}"
        );
        pair.reply(|message| encode::command_complete(message, b"SET").unwrap());
        assert!(pair.send("SELECT now()").contains("now"));
    }

    #[test]
    fn a_late_answer_to_reset_all_says_nothing_of_what_was_run_behind_it() {
        let mut pair = Pair::default();
        pair.run("RESET ALL");
        assert!(pair.question().is_some());
        // The DO builds its SQL while it runs, so its settings are unknown.
        pair.send("DO $$ BEGIN EXECUTE current_setting('a.b'); END $$");
        pair.reply(|_| {});
        pair.reply(|message| encode::command_complete(message, b"DO").unwrap());
        assert!(pair.client.certain.contains(Reason::Setting));
    }

    #[test]
    fn an_interrupted_question_is_asked_again_at_once_but_not_for_ever() {
        let mut pair = Pair::default();
        pair.run("SET app.tenant = 'A'");
        for _ in 0..8 {
            assert!(pair.question().unwrap().contains("app.tenant"));
            pair.fail(b"57014");
            assert_eq!(pair.client.pin(), None);
        }
        pair.question().unwrap();
        pair.answer("app.tenant", "A");
        assert_eq!(pair.client.settings().get("app.tenant"), Some("A"));
        pair.run("SET app.tenant = 'B'");
        for _ in 0..9 {
            pair.question().unwrap();
            pair.fail(b"57014");
        }
        assert_eq!(pair.question(), None);
        assert!(pair.client.pin().is_some(), "nothing is known");
    }

    #[test]
    fn a_name_that_was_not_answered_stays_with_what_is_asked_next() {
        let mut pair = Pair::default();
        pair.run("SET app.tenant = 'A'");
        pair.question().unwrap();
        pair.refuse();
        pair.run("RESET ALL; LISTEN x");
        assert!(pair.question().unwrap().contains("app.tenant"));
    }

    #[test]
    fn names_beside_everything_are_asked_for() {
        for text in [
            "RESET ALL; SET app.tenant = 'A'",
            "SET app.tenant = 'A'; DEALLOCATE ALL",
            "SET app.tenant = 'A'; DO $$ BEGIN END $$",
            "CALL p(); SET app.tenant = 'A'",
            "SELECT set_config('app.tenant', 'A', false) FROM pg_settings",
            "BEGIN; SET app.tenant = 'A'; COMMIT; RESET ALL",
            "SELECT 'it\\'s'; SET app.tenant = 'A'",
        ] {
            let mut pair = Pair::default();
            pair.run(text);
            let question = pair.question().unwrap();
            assert!(question.contains("app.tenant"), "{text}: {question}");
        }
    }

    /// Unseen code may set names that other clients have set before.
    #[test]
    fn names_that_the_database_knows_are_asked_for_behind_unseen_code() {
        let mut pair = Pair::default();
        pair.names.add(["app.tenant"]);
        pair.run("DO $$ BEGIN PERFORM enter(); END $$");
        assert!(pair.question().unwrap().contains("app.tenant"));
        pair.answer("app.tenant", "A");
        assert_eq!(pair.client.settings().get("app.tenant"), Some("A"));
        pair.run("RESET ALL");
        assert!(!pair.client.certain.contains(Reason::Setting));
    }

    #[test]
    fn more_names_than_are_kept_pin() {
        let mut pair = Pair::default();
        for number in 0..1000 {
            pair.names.add([format!("app.n{number}").as_str()]);
        }
        pair.run("DO $$ BEGIN PERFORM enter(); END $$");
        pair.question().unwrap();
        pair.reply(|_| {});
        assert_eq!(
            pair.client.pin(),
            Some(crate::client::Pin::State(Reason::Setting))
        );
        pair.run("BEGIN; RESET ALL; ROLLBACK");
        pair.question().unwrap();
        pair.reply(|_| {});
        assert!(pair.client.pin().is_some(), "it may have been rolled back");
        pair.run("RESET ALL");
        pair.question().unwrap();
        pair.reply(|_| {});
        assert_eq!(pair.client.pin(), None);
    }

    #[test]
    fn a_question_that_failed_answers_nothing_and_the_client_keeps_its_server() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let own = Settings::from_pairs([("app.tenant", "a")]);
        client.settings = Arc::new(own.clone());
        let mut answer = Answer::default();
        answer.fail();
        let asked = (Question::everything(), answer);
        server.asked.push_back(Box::new(asked));
        learn(&mut client, &mut server);
        assert!(client.held.contains(Reason::Unknown));
        assert_eq!(*client.settings, own);
    }
}
