//! Tests of one conversation each: the client gets what it would get directly.

use std::sync::Arc;

use weir_session::client::Client;
use weir_session::relay::{self, ClientFault, Lobby, Next};
use weir_session::statement::Registry;
use weir_testkit::backend::{Backend, Output};
use weir_testkit::cuts::Cuts;
use weir_testkit::reading::{messages, outline};
use weir_testkit::say::{Say, say};
use weir_wire::frame::{FrameError, Side};

use crate::pooler::{Pooler, rules};

/// Clients behind Weir, each with a twin that uses a server of its own.
struct Pair {
    pooler: Pooler,
    direct: Vec<Backend>,
    expected: Vec<Vec<u8>>,
    cuts: Cuts,
}

impl Pair {
    fn new() -> Self {
        Self::with(1, 1, 100, Cuts::Whole)
    }

    fn with(clients: usize, servers: usize, max_prepared: usize, cuts: Cuts) -> Self {
        Self {
            pooler: Pooler::new(clients, servers, rules(max_prepared), Output::Buffered),
            direct: (0..clients).map(|_| Backend::default()).collect(),
            expected: vec![Vec::new(); clients],
            cuts,
        }
    }

    /// Sends bytes of the only client, and delivers everything.
    fn say(&mut self, what: Say) -> &mut Self {
        self.client_says(0, what)
    }

    /// Sends bytes of a client. Checks that the client gets the same as directly, and that the server is free exactly
    /// if a server of its own would be at rest.
    #[track_caller]
    fn client_says(&mut self, client: usize, what: Say) -> &mut Self {
        self.expected[client].extend(self.direct[client].converse(&what));
        for piece in self.cuts.pieces(&what) {
            self.pooler.client_sends(client, piece);
        }
        while let Some(server) = self
            .pooler
            .servers
            .iter()
            .position(|s| !s.on_the_way.is_empty())
        {
            let len = self
                .cuts
                .next_len(self.pooler.servers[server].on_the_way.len());
            self.pooler.server_sends(server, len);
        }
        let got = &self.pooler.clients[client].got;
        assert_eq!(outline(got), outline(&self.expected[client]));
        assert_eq!(got, &self.expected[client]);
        if !self.direct[client].is_closed() {
            let free = self.pooler.clients[client].lease.is_none();
            assert_eq!(free, self.direct[client].is_at_rest(), "after {what:?}");
        }
        self
    }

    /// Returns what the first client received, in one line.
    fn seen(&self) -> String {
        outline(&self.pooler.clients[0].got)
    }
}

#[test]
fn a_query_and_an_empty_one() {
    let mut pair = Pair::new();
    pair.say(say().query("row x")).say(say().query(""));
    assert_eq!(pair.seen(), "T D(x) C(SELECT 1) Z(I) I Z(I)");
}

#[test]
fn a_transaction_keeps_its_server_until_it_ends() {
    let mut pair = Pair::with(2, 1, 100, Cuts::Whole);
    pair.say(say().query("begin")).say(say().query("row x"));
    assert_eq!(pair.pooler.clients[0].lease, Some(0));
    pair.say(say().query("commit"));
    pair.client_says(1, say().query("row other"));
}

#[test]
fn cor_01_a_client_that_leaves_in_mid_query_leaves_nothing_to_the_next() {
    let mut pair = Pair::with(2, 1, 100, Cuts::Whole);
    pair.pooler
        .client_sends(0, &say().query("begin;rows 3 secret"));
    pair.pooler.client_leaves(0);
    pair.client_says(1, say().query("row mine"));
}

#[test]
fn cor_02_half_a_message_never_reaches_a_server() {
    let whole = say().query("row secret");
    for cut in 1..whole.len() {
        let mut pair = Pair::with(2, 1, 100, Cuts::Whole);
        pair.pooler.client_sends(0, &whole[..cut]);
        assert!(!pair.pooler.client_leaves(0));
        pair.client_says(1, say().query("row mine"));
    }
}

#[test]
fn cor_02_a_long_message_that_breaks_off_costs_its_server() {
    let long = say().query(&format!("row {}", "x".repeat(100_000)));
    let mut pair = Pair::with(2, 1, 100, Cuts::Whole);
    pair.pooler.client_sends(0, &long[..50_000]);
    assert!(
        pair.pooler.client_leaves(0),
        "closed, since nobody can finish it"
    );
    pair.client_says(1, say().query("row mine"));
}

#[test]
fn cor_03_a_copy_that_its_client_leaves_fails() {
    for step in [
        say().query("copy in").copy_data("a"),
        say().query("begin;copy in;row x").copy_data("a"),
        say().parse("", "copy in").run("").flush(),
        say().parse("", "copy in").run("").sync(),
    ] {
        let mut pair = Pair::with(2, 1, 100, Cuts::Whole);
        pair.say(step);
        assert!(!pair.pooler.client_leaves(0));
        pair.client_says(1, say().query("row mine"));
    }
}

#[test]
fn cor_04_data_behind_a_failed_copy_goes_nowhere() {
    let mut pair = Pair::new();
    pair.say(say().query("copy in").copy_data("bad"));
    pair.say(say().copy_data("late").copy_data("later").copy_done());
    assert_eq!(pair.pooler.clients[0].lease, None);
    pair.say(say().query("row x"));
}

#[test]
fn a_message_in_the_middle_of_a_copy_is_named_as_the_client_sent_it() {
    for (step, named) in [
        (say().bind("", "one"), "0x42"),
        (say().describe_statement("one"), "0x44"),
        (say().parse("three", "row x"), "0x50"),
    ] {
        // The server has room for one statement: the first one is prepared again in front of the client's message.
        let mut pair = Pair::with(1, 1, 1, Cuts::Whole);
        pair.say(say().parse("one", "row 1").sync())
            .say(say().parse("two", "row 2").sync())
            .say(say().query("copy in"))
            .say(step);
        assert!(pair.seen().contains(named), "{}", pair.seen());
    }
}

#[test]
fn cor_05_a_sync_ahead_of_the_data_is_not_answered() {
    let mut pair = Pair::new();
    pair.say(say().parse("", "copy in").run("").sync())
        .say(say().copy_data("a").copy_done().sync());
    assert_eq!(pair.seen(), "1 2 G C(COPY 1) Z(I)");
}

#[test]
fn cor_05_all_of_a_copy_in_one_piece() {
    let mut pair = Pair::new();
    let copy = say()
        .parse("s", "copy in")
        .run("s")
        .sync()
        .copy_data("a")
        .copy_done();
    pair.say(
        copy.run("s")
            .copy_data("b")
            .copy_fail("enough")
            .sync()
            .query("row x"),
    );
}

#[test]
fn cor_06_the_end_of_a_copy_may_come_twice() {
    let mut pair = Pair::new();
    pair.say(
        say()
            .query("copy in")
            .copy_data("a")
            .copy_done()
            .copy_fail("late"),
    )
    .say(
        say()
            .copy_done()
            .query("copy in;copy in")
            .copy_done()
            .copy_done()
            .copy_fail(""),
    )
    .say(say().query("row x"));
}

#[test]
fn cor_08_an_error_skips_to_the_sync_and_takes_back_what_was_skipped() {
    let mut pair = Pair::with(1, 1, 2, Cuts::Whole);
    pair.say(say().parse("a", "row a").sync())
        .say(
            say()
                .parse("x", "error parse")
                .parse("b", "row b")
                .close_statement("a")
                .run("b")
                .sync(),
        )
        .say(say().run("a").sync())
        .say(say().run("b").sync())
        .say(say().parse("b", "row b").run("b").sync());
}

#[test]
fn cor_08_names_in_a_pipeline_behind_an_error() {
    let mut pair = Pair::new();
    pair.say(
        say()
            .parse("a", "error now")
            .run("a")
            .parse("b", "row b")
            .sync()
            .run("b")
            .sync()
            .query("row x"),
    );
}

#[test]
fn cor_09_a_statement_whose_parse_failed_is_not_prepared_later() {
    let mut pair = Pair::with(2, 1, 1, Cuts::Whole);
    for client in [0, 1, 0] {
        pair.client_says(client, say().parse("a", "error parse").run("a").sync());
        pair.client_says(client, say().run("a").sync());
    }
}

#[test]
fn cor_09_a_failed_parse_is_not_taken_for_prepared_in_the_next_batch() {
    let mut pair = Pair::new();
    pair.say(
        say()
            .parse("a", "error parse")
            .sync()
            .parse("b", "error parse")
            .sync()
            .run("b")
            .sync(),
    );
}

#[test]
fn cor_09_a_statement_skipped_on_a_new_server_is_there_in_the_next_batch() {
    let mut pair = Pair::with(2, 2, 10, Cuts::Whole);
    pair.say(say().parse("a", "row a").parse("e", "error now").sync());
    // The other client keeps the first server, so that the first client gets the second one.
    pair.client_says(1, say().query("begin"));
    let pipeline = say()
        .run("e")
        .run("a")
        .sync()
        .run("a")
        .sync()
        .run("a")
        .sync();
    pair.say(pipeline).say(say().run("a").sync());
}

#[test]
fn cor_09_an_eviction_that_was_skipped_does_not_spoil_the_server() {
    let mut pair = Pair::with(1, 1, 1, Cuts::Whole);
    pair.say(say().parse("a", "row a").sync());
    let pipeline = say()
        .parse("", "error now")
        .run("")
        .parse("b", "row b")
        .sync()
        .run("a")
        .sync();
    pair.say(pipeline)
        .say(say().run("a").sync())
        .say(say().run("a").sync());
}

#[test]
fn cor_09_two_batches_that_evict_and_the_second_fails() {
    let mut pair = Pair::with(1, 1, 1, Cuts::Whole);
    pair.say(say().parse("a", "row a").sync());
    let first = say().parse("b", "row b").sync();
    pair.say(
        first
            .parse("", "error now")
            .run("")
            .run("a")
            .parse("c", "do c")
            .sync(),
    );
    pair.say(say().run("a").run("b").sync());
}

#[test]
fn a_parse_in_a_failed_transaction_fails_even_if_the_server_has_the_statement() {
    let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
    pair.client_says(
        1,
        say().parse("mine", "row a").parse("end", "rollback").sync(),
    );
    pair.say(say().query("begin").query("error now"))
        .say(say().parse("a", "row a").run("a").sync())
        .say(say().parse("z", "rollback").run("z").sync())
        .say(say().parse("a", "row a").run("a").sync());
    pair.say(
        say()
            .query("begin")
            .query("error now")
            .parse("b", "row a")
            .sync()
            .query("rollback"),
    );
}

#[test]
fn cor_10_a_flush_is_no_end_of_a_batch() {
    let mut pair = Pair::new();
    pair.say(say().parse("a", "row a").describe_statement("a").flush())
        .say(say().run("a").flush())
        .say(say().flush())
        .say(say().sync());
}

#[test]
fn cor_10_a_statement_that_another_client_prepared_is_answered_at_the_flush() {
    let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
    pair.say(say().parse("a", "row a").sync());
    pair.client_says(1, say().parse("b", "row a").flush());
    pair.client_says(1, say().describe_statement("b").run("b").flush());
    pair.client_says(1, say().sync());
}

#[test]
fn cor_11_a_suspended_portal_keeps_its_server() {
    let mut pair = Pair::new();
    pair.say(
        say()
            .parse("a", "rows 5 x")
            .bind("p", "a")
            .execute("p", 2)
            .flush(),
    )
    .say(say().execute("p", 2).flush())
    .say(say().sync())
    .say(say().execute("p", 2).sync())
    .say(say().query("begin").bind("p", "a").execute("p", 2).sync())
    .say(say().execute("p", 9).close_portal("p").sync())
    .say(say().query("commit"));
}

#[test]
fn cor_12_a_query_in_a_failed_batch_is_not_answered() {
    let mut pair = Pair::new();
    pair.say(
        say()
            .parse("", "error parse")
            .query("row x")
            .function_call(1)
            .flush(),
    )
    .say(say().query("row y"))
    .say(say().sync())
    .say(
        say()
            .parse("", "row a")
            .run("")
            .query("row b")
            .run("")
            .sync(),
    );
}

#[test]
fn cor_13_the_unnamed_statement_survives_a_sync_and_a_change_of_servers() {
    let mut pair = Pair::with(2, 2, 10, Cuts::Whole);
    pair.say(say().parse("", "row mine").sync());
    pair.client_says(1, say().parse("", "row theirs").sync());
    for _ in 0..3 {
        pair.say(say().run("").sync());
        pair.client_says(1, say().describe_statement("").run("").sync());
    }
    pair.say(say().query("row x")).say(say().run("").sync());
    pair.client_says(1, say().close_statement("").sync());
    pair.client_says(1, say().run("").sync());
}

#[test]
fn cor_14_names_are_the_clients_own_also_in_errors() {
    let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
    pair.say(say().parse("same", "row a").sync());
    pair.client_says(1, say().parse("same", "row b").run("same").sync());
    pair.say(say().run("same").sync())
        .say(say().parse("same", "row c").sync())
        .say(say().parse("same", "error parse").sync())
        .say(say().run("unknown").sync())
        .say(say().describe_statement("unknown").sync())
        .say(
            say()
                .close_statement("unknown")
                .close_statement("same")
                .sync(),
        )
        .say(say().run("same").sync())
        .say(
            say()
                .parse("same", "row d")
                .describe_statement("same")
                .run("same")
                .sync(),
        );
}

#[test]
fn cor_14_names_are_compared_as_far_as_postgresql_does() {
    let mut pair = Pair::new();
    let (long, longer) = ("n".repeat(63), "n".repeat(70));
    pair.say(say().parse(&longer, "row a").run(&long).sync())
        .say(say().parse(&long, "row b").sync())
        .say(say().close_statement(&long).run(&longer).sync());
}

#[test]
fn cor_14_a_client_cannot_guess_the_statements_of_others() {
    let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
    pair.say(say().parse("a", "row secret").sync());
    let ours = pair.pooler.servers[0].believed_prepared();
    let ours = String::from_utf8(ours[0].clone()).unwrap();
    pair.client_says(1, say().run(&ours).sync());
    pair.client_says(1, say().describe_statement(&ours).sync());
    pair.client_says(1, say().close_statement(&ours).sync());
    pair.client_says(1, say().parse(&ours, "row mine").run(&ours).sync());
    pair.say(say().run("a").sync());
}

#[test]
fn cor_14_discard_all_and_deallocate_all_forget_the_names() {
    for all in ["discard all", "deallocate all"] {
        let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
        pair.client_says(1, say().parse("b", "row a").sync());
        pair.say(say().parse("a", "row a").sync())
            .say(say().query(all))
            .say(say().run("a").sync())
            .say(say().parse("a", "row other").run("a").sync());
        pair.client_says(1, say().run("b").sync());
    }
}

#[test]
fn cor_14_a_parse_right_behind_deallocate_all() {
    for all in ["discard all", "deallocate all"] {
        let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
        pair.client_says(1, say().parse("b", "row a").parse("c", "row c").sync());
        pair.say(say().query(all).parse("a", "row a").run("a").sync())
            .say(say().run("a").sync());
        pair.say(say().query(all).run("a").sync());
        pair.client_says(1, say().run("b").run("c").sync());
    }
}

#[test]
fn cor_19_notices_and_parameters_belong_to_the_reply_they_come_with() {
    let mut pair = Pair::new();
    pair.say(say().query("notice a;row x;notice b"))
        .say(say().parse("", "notice c").run("").sync())
        .say(say().query("begin;begin;set TimeZone CET"))
        .say(say().query("rollback"))
        .say(say().query("rollback"));
}

#[test]
fn cor_28_no_cut_changes_anything() {
    let conversation = say()
        .parse("a", "rows 3 x")
        .describe_statement("a")
        .run("a")
        .sync()
        .query("copy in")
        .copy_data("a")
        .copy_done()
        .parse("b", "error parse")
        .run("a")
        .sync()
        .query("begin;copy out 2;commit");
    for cuts in [
        Cuts::Whole,
        Cuts::Bytes,
        Cuts::random(1),
        Cuts::random(2),
        Cuts::random(3),
    ] {
        Pair::with(1, 1, 1, cuts).say(conversation.clone());
    }
}

#[test]
fn cor_30_what_is_no_message_takes_no_server() {
    fn idle(bytes: &[u8]) -> Result<relay::Idle<'_>, ClientFault> {
        let mut lobby = Lobby {
            client: &mut Client::default(),
            registry: &mut Registry::new(0, 1),
            proven: &Arc::default(),
            rules: rules(2),
            ruling: None,
            has_server: false,
        };
        relay::idle(&mut lobby, bytes, &mut Vec::new())
    }
    let unknown = FrameError::UnknownTag {
        tag: b'?',
        side: Side::Frontend,
    };
    assert_eq!(idle(b"?\0\0\0\x04"), Err(ClientFault::Frame(unknown)));
    let short = idle(b"Q\0\0\0\x03").unwrap_err();
    assert!(matches!(
        short,
        ClientFault::Frame(FrameError::BadLength { len: 3, .. })
    ));
    assert_eq!(idle(b"Q\0\0\0").unwrap().next, Next::More);
}

#[test]
fn cor_31_a_function_call_is_a_request_of_its_own() {
    let mut pair = Pair::new();
    pair.say(say().function_call(7).function_call(0)).say(
        say()
            .query("begin")
            .function_call(0)
            .function_call(7)
            .query("rollback"),
    );
}

#[test]
fn cor_35_only_ready_for_query_says_where_a_query_ends() {
    let mut pair = Pair::new();
    pair.say(say().query("row a;begin;row b"))
        .say(say().query("commit;row c;begin"))
        .say(say().query("error now;commit"))
        .say(say().query("commit;row d"));
}

#[test]
fn cor_36_the_implicit_transaction_of_a_pipeline_lasts_until_sync() {
    let mut pair = Pair::new();
    pair.say(say().parse("", "set TimeZone CET").run("").flush())
        .say(say().parse("", "row x").run("").flush())
        .say(say().parse("", "error parse").sync())
        .say(say().query("row x"));
}

#[test]
fn cor_20_one_fatal_and_nothing_behind_it() {
    let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
    pair.say(say().parse("a", "die").run("a").run("a").sync());
    let (seen, _) = messages(&pair.pooler.clients[0].got);
    assert_eq!(seen.iter().filter(|message| message.tag == b'E').count(), 1);
    assert!(pair.pooler.clients[0].closed);
    pair.client_says(1, say().query("row x"));
}

#[test]
fn a_request_in_mid_copy_ends_the_session_as_it_does_directly() {
    let mut pair = Pair::new();
    pair.say(say().query("copy in"))
        .say(say().parse("a", "row b").sync());
    assert!(pair.pooler.clients[0].closed);
}

#[test]
fn a_parse_in_mid_copy_ends_the_session_even_if_the_server_has_the_statement() {
    let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
    pair.client_says(1, say().parse("b", "row b").sync());
    pair.say(say().query("copy in"));
    pair.pooler
        .client_sends(0, &say().parse("a", "row b").sync());
    pair.pooler.deliver_all();
    assert!(pair.pooler.clients[0].closed);
}

#[test]
fn a_close_in_mid_copy_ends_the_session_as_it_does_directly() {
    let mut pair = Pair::new();
    pair.say(say().parse("a", "copy in").sync())
        .say(say().run("a").flush())
        .say(say().close_statement("a").sync());
    assert!(pair.pooler.clients[0].closed);
}

#[test]
fn settings_follow_their_client_and_stay_away_from_others() {
    let mut pair = Pair::with(3, 2, 10, Cuts::Whole);
    pair.say(say().query("set application_name one"));
    pair.client_says(1, say().query("set application_name two;set TimeZone CET"));
    for _ in 0..3 {
        pair.say(say().query("row x"))
            .say(say().query("begin;set TimeZone EET;rollback"));
        pair.client_says(1, say().parse("", "do x").run("").sync());
        pair.client_says(2, say().query("row y"));
        let settings: Vec<_> = pair
            .pooler
            .servers
            .iter()
            .map(|s| s.backend.setting("TimeZone"))
            .collect();
        assert!(!settings.contains(&Some("EET")));
    }
}

#[test]
fn a_rollback_after_the_client_left_takes_its_settings_along() {
    let mut pair = Pair::with(3, 1, 10, Cuts::Whole);
    pair.client_says(1, say().query("set application_name me"));
    pair.client_says(2, say().query("row x"));
    pair.say(say().query("begin;set application_name me"));
    pair.pooler.client_leaves(0);
    pair.client_says(1, say().query("row x"));
    assert_eq!(
        pair.pooler.servers[0].backend.setting("application_name"),
        Some("me")
    );
}

#[test]
fn cor_02_a_batch_that_its_client_never_ended_is_rolled_back() {
    let mut pair = Pair::new();
    let before = pair.pooler.servers[0]
        .backend
        .setting("application_name")
        .map(str::to_owned);
    let batch = say().parse("", "set application_name me").run("").flush();
    pair.pooler.client_sends(0, &batch);
    pair.pooler.deliver_all();
    let backend = &pair.pooler.servers[0].backend;
    assert_eq!(backend.setting("application_name"), Some("me"));
    pair.pooler.client_leaves(0);
    pair.pooler.deliver_all();
    let server = &pair.pooler.servers[0];
    let after = server.backend.setting("application_name");
    assert_eq!(after, before.as_deref());
    assert!(server.session.is_free());
}

#[test]
fn cor_13_the_unnamed_statement_outlives_a_failed_function_call() {
    let mut pair = Pair::with(2, 1, 10, Cuts::Whole);
    pair.say(say().parse("", "rollback").function_call(0));
    pair.client_says(1, say().run("").sync());
    pair.say(say().run("").sync());
}

#[test]
fn a_copy_to_the_client_does_not_end_the_copy_from_it() {
    let mut pair = Pair::new();
    pair.say(
        say()
            .query("copy out 2;copy in")
            .copy_data("a")
            .copy_done()
            .parse("", "row x")
            .sync(),
    );
}

#[test]
fn cor_13_a_query_behind_a_skipped_one_drops_the_unnamed_statement() {
    let mut pair = Pair::with(2, 2, 10, Cuts::Whole);
    let skipped = say()
        .parse("", "row mine")
        .run("unknown")
        .query("row x")
        .sync();
    pair.say(skipped.query("row y"));
    pair.client_says(1, say().query("begin"));
    pair.say(say().describe_statement("").sync());
}

#[test]
fn cor_09_skipped_evictions_leave_no_more_statements_than_allowed() {
    let mut pair = Pair::with(1, 1, 2, Cuts::Whole);
    pair.say(
        say()
            .parse("a", "row a")
            .parse("b", "row b")
            .parse("c", "row c")
            .sync(),
    );
    // The server has the last two statements; an error skips the Close that makes room for the first.
    let first = say().run("unknown").run("a").sync();
    pair.say(first.run("a").sync())
        .say(say().run("b").run("c").sync());
}

/// Checks a server that has answered everything but a Sync, which it may have read as part of the COPY. Such a server
/// must not go to the next client, which would take the reply for its own.
#[test]
fn a_request_behind_copy_data_that_failed_is_answered_to_its_own_client() {
    for conversation in [
        say().query("copy in").copy_data("bad").sync(),
        say().query("copy in").copy_data("bad").query("row y"),
        say()
            .query("copy in")
            .copy_data("bad")
            .sync()
            .parse("a", "row y")
            .run("a")
            .sync(),
        say()
            .query("copy in")
            .copy_data("bad")
            .query("deallocate all")
            .query("row y"),
        say()
            .query("copy in")
            .sync()
            .copy_data("bad")
            .sync()
            .copy_done()
            .sync(),
        say().parse("", "copy in").run("").copy_data("bad").sync(),
        say()
            .parse("", "copy in")
            .run("")
            .sync()
            .copy_data("bad")
            .copy_done()
            .sync(),
    ] {
        let mut direct = Backend::default();
        let expected = direct.converse(&conversation);
        let mut pooler = Pooler::new(2, 1, rules(10), Output::Immediate);
        let (head, tail) = conversation.split_at(conversation.len() / 2);
        pooler.client_sends(0, head);
        pooler.deliver_all();
        pooler.client_sends(0, tail);
        pooler.client_sends(1, &say().query("row mine"));
        while let Some(server) = pooler.servers.iter().position(|s| !s.on_the_way.is_empty()) {
            pooler.server_sends(server, 1);
        }
        assert_eq!(outline(&pooler.clients[0].got), outline(&expected));
        pooler.client_sends(0, &say().query("row x"));
        pooler.deliver_all();
        assert_eq!(pooler.clients[0].lease, None, "settled by the next answer");
        assert_eq!(
            outline(&pooler.clients[1].got),
            "T D(mine) C(SELECT 1) Z(I)"
        );
    }
}

#[test]
fn cor_13_an_unnamed_statement_skipped_on_a_new_server_is_there_in_the_next_batch() {
    let mut pair = Pair::with(2, 2, 10, Cuts::Whole);
    pair.say(say().parse("", "row mine").sync());
    pair.client_says(1, say().query("begin"));
    pair.say(
        say()
            .run("unknown")
            .run("")
            .sync()
            .run("")
            .sync()
            .run("")
            .sync(),
    );
}

#[test]
fn cor_09_two_names_of_one_text_do_not_stand_for_each_other() {
    let mut pair = Pair::with(2, 2, 10, Cuts::Whole);
    pair.say(say().parse("a", "row a").sync());
    pair.client_says(1, say().query("begin"));
    let skipped = say().run("unknown").parse("b", "row a").sync();
    pair.say(skipped.run("a").sync());
}

#[test]
fn a_server_of_which_nobody_knows_what_it_skips_never_goes_back() {
    let mut pooler = Pooler::new(2, 1, rules(10), Output::Immediate);
    pooler.client_sends(0, &say().parse("", "copy in").run(""));
    pooler.deliver_all();
    pooler.client_sends(0, &say().copy_data("bad").sync().query("row y"));
    pooler.client_sends(1, &say().query("row mine"));
    let on_the_way = pooler.servers[0].on_the_way.clone();
    let (seen, _) = messages(&on_the_way);
    // The error and the reply to the Sync arrive, the reply to the Query does not.
    pooler.server_sends(0, seen[0].raw.len() + seen[1].raw.len());
    assert_eq!(pooler.clients[0].lease, Some(0));
    assert!(pooler.client_leaves(0), "closed");
}
