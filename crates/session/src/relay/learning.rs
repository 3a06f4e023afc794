//! What the answer to a question of ours says about the session of a client.

use std::sync::Arc;

use weir_sql::{Reason, Reasons};

use crate::client::Client;
use crate::server::Server;
use crate::settings::Settings;
use crate::state::surprises;

/// The whole answer to a question of ours is here: what the client holds on its server, and what follows it.
pub(super) fn learn(client: &mut Client, server: &mut Server) {
    let Some(asked) = server.asked.pop_front() else {
        return;
    };
    let (question, answer) = *asked;
    if answer.is_bad() {
        // Nothing is known, so the client keeps its server; the next request asks again.
        return client.held.insert(Reason::Unknown);
    }
    if question.is_about_settings() {
        let user = server.default_of("session_authorization").unwrap_or("");
        let of_client = answer.of_client(&question, &client.settings, &client.startup, user);
        let of_server = answer.of_server(&question, &server.settings, user);
        server.found |=
            question.is_check() && surprises(&client.settings, &of_client, &client.startup);
        replace(&mut client.settings, of_client);
        let made_temporary = client.makes_temporary;
        client.settings_changed();
        if client.makes_temporary && !made_temporary {
            // What was made since the path was set has not been asked about.
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
    server.found |= question.is_check() && found;
    client.held = held.union(answer.reasons());
}

/// Equal settings stay the one set that others share.
fn replace(settings: &mut Arc<Settings>, new: Settings) {
    if **settings != new {
        *settings = Arc::new(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Answer, Question};

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
