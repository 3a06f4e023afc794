//! Handles requests that read or advance sequences ([`crate::sequences`]).

use weir_sql::{Reason, Sequences};
use weir_wire::backend::TransactionStatus;

use super::{Link, Work};
use crate::expected::Duty;
use crate::rarities::ClientRarity;
use crate::relay::{Batch, StatePolicy, first_text};
use crate::server::{Progress, Sent, SequenceValues};

impl Link<'_> {
    /// Updates the client's use of sequences before requests are passed on: applies what the pool has learnt, and ends
    /// a trial.
    #[inline]
    pub(super) fn look_at_sequences(&mut self) {
        let Link { client, server, .. } = self;
        if self.rules.state != StatePolicy::Track {
            return client.sequences.try_never();
        }
        let reported = &client.reported;
        let application = || reported.get("application_name").unwrap_or("").to_owned();
        client
            .sequences
            .refresh(self.rules.sequences, &self.proven.readers, application);
        if !client.rarities.is_empty()
            && server.progress.begins_transaction()
            && server.queue.is_empty()
        {
            client.sequences.end_trial();
        }
    }
}

impl Work<'_, '_, '_, '_> {
    /// Discards sequence values of other clients, or outdated ones of the client itself, for a client whose application
    /// reads them. A statement may read them without a trace in its text. Does the same for a client that keeps its
    /// server for any reason: it may read in a later transaction, when it has values of its own.
    ///
    /// PostgreSQL takes a snapshot for it, and refuses SET TRANSACTION afterwards. So such a request goes first, if it is
    /// behind a BEGIN that was sent before the client counted as one that reads.
    #[inline]
    pub(super) fn discard_sequences_for_readers(&mut self, at: usize) {
        let Link {
            client,
            server,
            rules,
            ..
        } = &*self.link;
        let keeps = || rules.state == StatePolicy::Track && client.pin().is_some();
        if server.sequences.are_foreign() && (client.sequences.keeps_moved() || keeps()) {
            let next = Batch::scan(self.input.get(at..).unwrap_or_default());
            if !(self.is_in_block() && first_text(&next, client).is_some_and(may_set_modes)) {
                self.discard_sequences();
            }
        }
    }

    /// Discards sequence values of other clients if the statement's text reads or advances a sequence, or if the
    /// statement may begin the client's trial. `currval` then returns the client's own value, or PostgreSQL's error
    /// that there is none. The message must wait if [`crate::expected::Queue::awaits_required`] afterwards.
    ///
    /// Behind a request of ours PostgreSQL refuses to set the modes of a transaction. So none precedes a text that may do
    /// so and only advances a sequence. One that reads is refused then, instead of another client's value.
    #[inline]
    pub(super) fn clean_sequences(&mut self, sequences: Sequences, begins_trial: bool) {
        if self.sets_modes && sequences == Sequences::Moves {
            return;
        }
        if (sequences != Sequences::Untouched || begins_trial)
            && self.link.server.sequences.are_foreign()
        {
            self.discard_sequences();
        }
    }

    pub(super) fn is_in_block(&self) -> bool {
        self.link.server.status() == TransactionStatus::InTransaction
    }

    /// Discards the session's sequence values if none of them can be the client's own. That is the case if the client
    /// has done nothing on this lease but BEGIN. It is also the case at the beginning of a transaction, if the client
    /// has advanced no sequence on this lease. A failed transaction is left alone: it reads nothing and would refuse
    /// the request.
    fn discard_sequences(&mut self) {
        let server = &mut *self.link.server;
        let can_run = server.status() != TransactionStatus::Failed && server.queue.is_plain();
        let has_none = match server.progress {
            Progress::Fresh => true,
            Progress::Between => server.sequences != SequenceValues::Mixed,
            Progress::Alone | Progress::Working => false,
        };
        if has_none && server.sent != Sent::OpenBatch && can_run {
            // Cannot fail: a constant text fits.
            let sql = "DISCARD SEQUENCES".to_owned();
            let _ = server.require(sql, Duty::Swallow, self.to_server.insert());
            server.sequences = SequenceValues::Emptied;
        }
    }

    /// Records that a statement that reads or advances a sequence is about to run. A client that reads, or may read, a
    /// value from an earlier transaction keeps the server from then on.
    pub(super) fn note_sequences(&mut self, sequences: Sequences) {
        if sequences == Sequences::Untouched {
            return;
        }
        self.clean_sequences(sequences, false);
        if self.link.client.sequences.is_refused() {
            return;
        }
        let Link {
            client,
            server,
            proven,
            ..
        } = &mut *self.link;
        let is_first = server.progress.begins_transaction() && server.queue.is_plain();
        if sequences == Sequences::Reads && is_first {
            if client.sequences.has_moved {
                let application = client.reported.get("application_name");
                proven.readers.learn(application.unwrap_or(""));
            }
            if client.sequences.has_moved || server.sequences != SequenceValues::Emptied {
                client.certain.insert(Reason::Sequence);
            }
        }
        client.rarities.insert(ClientRarity::UsesSequences);
        if sequences == Sequences::Moves {
            client.inserted(server.sequences.are_foreign());
            server.sequences.advance();
        }
    }
}

/// True if a text may set the modes of its transaction: it begins with BEGIN, START or SET.
pub(super) fn may_set_modes(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [&b"BEGIN"[..], b"START", b"SET"].iter().any(|word| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_sql::{Functions, Judge};
    use weir_wire::encode;

    use super::*;
    use crate::client::{Client, Pin};
    use crate::relay::request::begin;
    use crate::relay::{Rules, SequencePolicy, replies, requests};
    use crate::server::Server;
    use crate::splice::Splice;
    use crate::statement::{Proven, Registry};

    const PIN: Option<Pin> = Some(Pin::State(Reason::Sequence));

    fn client(number: u64) -> Client {
        let mut client = Client::default();
        client.set_number(number);
        client
    }

    fn server() -> Server {
        Server::new(Arc::default())
    }

    /// Sends one simple query and returns what the server gets. `fresh` starts a new lease.
    fn sent(
        pool: &Arc<Proven>,
        client: &mut Client,
        server: &mut Server,
        text: &str,
        fresh: bool,
    ) -> String {
        sent_in(SequencePolicy::Learn, pool, client, server, (text, fresh))
    }

    fn sent_in(
        policy: SequencePolicy,
        pool: &Arc<Proven>,
        client: &mut Client,
        server: &mut Server,
        (text, fresh): (&str, bool),
    ) -> String {
        let mut message = Vec::new();
        encode::query(&mut message, text.as_bytes()).unwrap();
        let (mut buffer, mut answers) = (Vec::new(), Vec::new());
        let mut out = Splice::new(&message, &mut buffer);
        if fresh {
            begin(client, server, &mut out, &mut answers).unwrap();
        }
        let first = requested(policy, pool, client, server, &message, out);
        if !server.awaits_required() {
            return first;
        }
        answer_ours(client, server);
        let mut buffer = Vec::new();
        let out = Splice::new(&message, &mut buffer);
        first + &requested(policy, pool, client, server, &message, out)
    }

    fn requested(
        policy: SequencePolicy,
        pool: &Arc<Proven>,
        client: &mut Client,
        server: &mut Server,
        message: &[u8],
        mut out: Splice<'_>,
    ) -> String {
        let mut link = Link {
            client,
            server,
            registry: &mut Registry::new(0, 1),
            judge: &mut Judge::new(Functions::default()),
            proven: pool,
            rules: Rules {
                max_prepared: 10,
                tracks_unnamed: true,
                prepare_unnamed: 0,
                refuse_simple_query: false,
                message_max: u32::MAX,
                state: StatePolicy::Track,
                sequences: policy,
            },
            digests: None,
            ruling: None,
        };
        requests(&mut link, message, &mut out, &mut Vec::new()).unwrap();
        String::from_utf8_lossy(out.finish()).into_owned()
    }

    /// Answers all outstanding requests.
    fn answer(client: &mut Client, server: &mut Server, tag: &str, status: TransactionStatus) {
        answer_ours(client, server);
        let mut message = Vec::new();
        encode::command_complete(&mut message, tag.as_bytes()).unwrap();
        encode::ready_for_query(&mut message, status).unwrap();
        let mut buffer = Vec::new();
        let mut out = Splice::new(&message, &mut buffer);
        replies(client, server, &message, &mut out).unwrap();
    }

    fn answer_ours(client: &mut Client, server: &mut Server) {
        while server
            .queue
            .front()
            .is_some_and(|front| front.duty != Duty::Forward)
        {
            let mut ours = Vec::new();
            encode::command_complete(&mut ours, b"DISCARD SEQUENCES").unwrap();
            encode::ready_for_query(&mut ours, server.status()).unwrap();
            let mut buffer = Vec::new();
            let mut out = Splice::new(&ours, &mut buffer);
            replies(client, server, &ours, &mut out).unwrap();
        }
    }

    const INSERT: &str = "INSERT INTO t VALUES (1)";
    const READ: &str = "SELECT lastval()";

    #[test]
    fn a_pool_learns_from_a_read_that_begins_a_transaction() {
        let (pool, mut a, mut s) = (Arc::default(), client(1), server());
        sent(&pool, &mut a, &mut s, INSERT, true);
        answer(&mut a, &mut s, "INSERT 0 1", TransactionStatus::Idle);
        assert!(a.is_on_trial() && a.keeps_if_unwanted() && !a.is_plain());
        assert_eq!(a.pin(), None);
        sent(&pool, &mut a, &mut s, READ, false);
        assert_eq!(a.pin(), PIN);
        assert!(!a.is_on_trial() && pool.readers.has(""));
        // Another client of the application, on another server, is kept from its first INSERT on.
        let (mut b, mut t) = (client(2), server());
        sent(&pool, &mut b, &mut t, INSERT, true);
        assert_eq!(b.pin(), None);
        answer(&mut b, &mut t, "INSERT 0 1", TransactionStatus::Idle);
        assert_eq!(b.pin(), PIN);
    }

    #[test]
    fn nothing_of_ours_stands_between_a_begin_and_the_modes_of_its_transaction() {
        for modes in [
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "begin isolation level repeatable read",
        ] {
            let (pool, mut a, mut s) = (Arc::default(), client(1), server());
            s.sequences = SequenceValues::Foreign;
            sent(&pool, &mut a, &mut s, "BEGIN", true);
            // The question behind the transaction before is answered after the BEGIN was sent.
            a.set_pin(Pin::State(Reason::TemporaryObject));
            answer(&mut a, &mut s, "BEGIN", TransactionStatus::InTransaction);
            let told = sent(&pool, &mut a, &mut s, modes, false);
            assert!(!told.contains("DISCARD"), "{told}");
            let tag = if modes.starts_with("SET") {
                "SET"
            } else {
                "BEGIN"
            };
            answer(&mut a, &mut s, tag, TransactionStatus::InTransaction);
            let told = sent(&pool, &mut a, &mut s, "SELECT f()", false);
            assert!(told.contains("DISCARD SEQUENCES"), "{told}");
        }
    }

    #[test]
    fn modes_and_an_advance_in_one_text_have_nothing_of_ours_in_front() {
        let modes = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT ";
        for (use_of, discards) in [("nextval('s')", false), ("currval('s')", true)] {
            let (pool, mut a, mut s) = (Arc::default(), client(1), server());
            s.sequences = SequenceValues::Foreign;
            sent(&pool, &mut a, &mut s, "BEGIN", true);
            answer(&mut a, &mut s, "BEGIN", TransactionStatus::InTransaction);
            let told = sent(&pool, &mut a, &mut s, &format!("{modes}{use_of}"), false);
            assert_eq!(told.contains("DISCARD SEQUENCES"), discards, "{told}");
        }
    }

    #[test]
    fn a_pool_that_pins_keeps_a_client_from_its_first_insert_on() {
        let policy = SequencePolicy::Pin;
        for (text, tag, pin) in [
            ("SELECT 1", "SELECT 1", None),
            ("UPDATE t SET a = 1", "UPDATE 1", None),
            (INSERT, "INSERT 0 1", PIN),
            ("COPY t FROM STDIN", "COPY 1", PIN),
            ("SELECT nextval('s')", "SELECT 1", PIN),
        ] {
            let (pool, mut a, mut s) = (Arc::default(), client(1), server());
            sent_in(policy, &pool, &mut a, &mut s, (text, true));
            answer(&mut a, &mut s, tag, TransactionStatus::Idle);
            assert_eq!((a.pin(), a.is_on_trial()), (pin, false), "{text}");
            // The application is not learnt: the pool's rule may change tomorrow.
            assert!(!pool.readers.has(""));
        }
    }

    #[test]
    fn a_pool_that_refuses_keeps_nobody_and_says_so_to_who_reads() {
        let policy = SequencePolicy::Refuse;
        let (pool, mut a, mut s) = (Arc::default(), client(1), server());
        for (text, tag) in [(INSERT, "INSERT 0 1"), ("SELECT nextval('s')", "SELECT 1")] {
            let told = sent_in(policy, &pool, &mut a, &mut s, (text, true));
            assert!(told.contains(text));
            answer(&mut a, &mut s, tag, TransactionStatus::Idle);
            assert!(a.is_plain(), "{text}");
        }
        for text in [
            READ,
            "SELECT currval('s')",
            "INSERT INTO t VALUES (lastval())",
        ] {
            let told = sent_in(policy, &pool, &mut a, &mut s, (text, false));
            assert!(!told.contains(text), "{told}");
            let (mut error, mut buffer) = (Vec::new(), Vec::new());
            let code = weir_wire::sqlstate::SqlState::INVALID_TEXT_REPRESENTATION;
            let report = encode::ErrorReport::new(encode::Severity::Error, code, "x");
            report.encode(&mut error).unwrap();
            encode::ready_for_query(&mut error, TransactionStatus::Idle).unwrap();
            let mut out = Splice::new(&error, &mut buffer);
            replies(&mut a, &mut s, &error, &mut out).unwrap();
            let heard = String::from_utf8_lossy(out.finish()).into_owned();
            assert!(
                heard.contains("0A000") && heard.contains("sequence_values"),
                "{heard}"
            );
            assert!(a.is_plain(), "{text}");
        }
    }

    #[test]
    fn a_read_in_the_transaction_that_inserts_needs_no_memory() {
        let (pool, mut a, mut s) = (Arc::default(), client(1), server());
        for (text, tag, status) in [
            ("BEGIN", "BEGIN", TransactionStatus::InTransaction),
            (INSERT, "INSERT 0 1", TransactionStatus::InTransaction),
            (READ, "SELECT 1", TransactionStatus::InTransaction),
            ("COMMIT", "COMMIT", TransactionStatus::Idle),
        ] {
            sent(&pool, &mut a, &mut s, text, text == "BEGIN");
            answer(&mut a, &mut s, tag, status);
        }
        assert!(!pool.readers.has(""));
        assert_eq!(a.pin(), None);
    }

    #[test]
    fn who_has_moved_nothing_is_no_reader() {
        let (pool, mut a, mut s) = (Arc::default(), client(1), server());
        sent(&pool, &mut a, &mut s, READ, true);
        assert!(!pool.readers.has(""));
    }

    #[test]
    fn a_trial_is_over_with_the_next_request() {
        let (pool, mut a, mut s) = (Arc::default(), client(1), server());
        for text in [INSERT, "SELECT 1", INSERT] {
            sent(&pool, &mut a, &mut s, text, text == "SELECT 1");
            let tag = if text == INSERT {
                "INSERT 0 1"
            } else {
                "SELECT 1"
            };
            answer(&mut a, &mut s, tag, TransactionStatus::Idle);
        }
        assert!(!a.is_on_trial() && a.is_plain() && !pool.readers.has(""));
    }

    #[test]
    fn a_trial_begins_without_values_of_others() {
        for steps in [
            &[(INSERT, "INSERT 0 1", TransactionStatus::Idle)][..],
            &[
                ("BEGIN", "BEGIN", TransactionStatus::InTransaction),
                (INSERT, "INSERT 0 1", TransactionStatus::InTransaction),
                ("COMMIT", "COMMIT", TransactionStatus::Idle),
            ],
        ] {
            let (pool, mut a, mut b, mut s) = (Arc::default(), client(1), client(2), server());
            sent(&pool, &mut a, &mut s, "SELECT nextval('s')", true);
            answer(&mut a, &mut s, "SELECT 1", TransactionStatus::Idle);
            for (number, (text, tag, status)) in steps.iter().enumerate() {
                let told = sent(&pool, &mut b, &mut s, text, number == 0);
                assert_eq!(told.contains("DISCARD SEQUENCES"), *text == INSERT);
                answer(&mut b, &mut s, tag, *status);
            }
            assert!(b.is_on_trial() && !s.sequences.are_foreign());
        }
    }

    #[test]
    fn a_pinned_client_finds_no_values_of_others() {
        let (pool, mut a, mut b, mut s) = (Arc::default(), client(1), client(2), server());
        sent(&pool, &mut a, &mut s, "SELECT nextval('s')", true);
        answer(&mut a, &mut s, "SELECT 1", TransactionStatus::Idle);
        sent(&pool, &mut b, &mut s, "SELECT 1", true);
        answer(&mut b, &mut s, "SELECT 1", TransactionStatus::Idle);
        b.set_pin(Pin::State(Reason::TemporaryObject));
        let told = sent(&pool, &mut b, &mut s, "SELECT 2", false);
        assert!(told.contains("DISCARD SEQUENCES"), "{told:?}");
        answer(&mut b, &mut s, "SELECT 1", TransactionStatus::Idle);
        let told = sent(&pool, &mut b, &mut s, "SELECT 3", false);
        assert!(!told.contains("DISCARD"), "once: {told:?}");
    }

    #[test]
    fn a_pinned_client_keeps_what_it_moved() {
        let (pool, mut a, mut b, mut s) = (Arc::default(), client(1), client(2), server());
        sent(&pool, &mut a, &mut s, "SELECT nextval('s')", true);
        answer(&mut a, &mut s, "SELECT 1", TransactionStatus::Idle);
        sent(&pool, &mut b, &mut s, "/**/ INSERT INTO t VALUES (1)", true);
        answer(&mut b, &mut s, "INSERT 0 1", TransactionStatus::Idle);
        b.set_pin(Pin::State(Reason::TemporaryObject));
        let told = sent(&pool, &mut b, &mut s, READ, false);
        assert!(!told.contains("DISCARD"), "{told:?}");
    }

    /// Messages of the last client must not keep the next one's server from being cleaned.
    #[test]
    fn messages_that_need_no_sync_leave_no_batch_to_the_next_client() {
        let (mut flush, mut parse, mut query) = (Vec::new(), Vec::new(), Vec::new());
        encode::flush(&mut flush).unwrap();
        encode::parse(&mut parse, b"", b"SELECT 1", &[0, 0]).unwrap();
        encode::query(&mut query, b"SELECT nextval('s')").unwrap();
        for (messages, parses) in [([&*query, &flush], false), ([&parse, &query], true)] {
            let (pool, mut a, mut b, mut s) = (Arc::default(), client(1), client(2), server());
            begin(
                &mut a,
                &mut s,
                &mut Splice::new(&[], &mut Vec::new()),
                &mut Vec::new(),
            )
            .unwrap();
            let (messages, mut buffer) = (messages.concat(), Vec::new());
            let out = Splice::new(&messages, &mut buffer);
            requested(SequencePolicy::Learn, &pool, &mut a, &mut s, &messages, out);
            if parses {
                let mut parsed = Vec::new();
                super::super::super::reply::answer(&mut parsed, crate::expected::Kind::Parse);
                let mut buffer = Vec::new();
                replies(
                    &mut a,
                    &mut s,
                    &parsed,
                    &mut Splice::new(&parsed, &mut buffer),
                )
                .unwrap();
            }
            answer(&mut a, &mut s, "SELECT 1", TransactionStatus::Idle);
            assert!(s.is_free());
            let told = sent(&pool, &mut b, &mut s, READ, true);
            assert!(told.contains("DISCARD SEQUENCES"), "{told:?}");
        }
    }

    #[test]
    fn nobody_is_tried_among_values_of_others() {
        let (pool, mut a, mut b, mut s) = (Arc::default(), client(1), client(2), server());
        sent(&pool, &mut a, &mut s, "SELECT nextval('s')", true);
        answer(&mut a, &mut s, "SELECT 1", TransactionStatus::Idle);
        // Its text does not begin with the verb, so nothing is discarded before it.
        let told = sent(&pool, &mut b, &mut s, "/**/ INSERT INTO t VALUES (1)", true);
        assert!(!told.contains("DISCARD"), "{told:?}");
        answer(&mut b, &mut s, "INSERT 0 1", TransactionStatus::Idle);
        assert!(b.is_plain() && !b.is_on_trial());
        let told = sent(&pool, &mut b, &mut s, READ, true);
        assert!(told.contains("DISCARD SEQUENCES"), "{told:?}");
        assert!(pool.readers.has(""));
    }

    #[test]
    fn a_reader_finds_no_values_of_others_whatever_it_sends() {
        let (pool, mut a, mut b, mut s) = (Arc::default(), client(1), client(2), server());
        sent(&pool, &mut a, &mut s, INSERT, true);
        answer(&mut a, &mut s, "INSERT 0 1", TransactionStatus::Idle);
        let told = sent(&pool, &mut b, &mut s, INSERT, true);
        assert!(told.contains("DISCARD SEQUENCES"), "its trial: {told:?}");
        answer(&mut b, &mut s, "INSERT 0 1", TransactionStatus::Idle);
        pool.readers.learn("");
        let told = sent(&pool, &mut a, &mut s, INSERT, true);
        let at = told.find("DISCARD SEQUENCES").unwrap();
        assert!(at < told.find(INSERT).unwrap(), "{told:?}");
    }

    #[test]
    fn what_a_client_got_before_it_was_elsewhere_is_old() {
        let (pool, mut a, mut s, mut t) = (Arc::default(), client(1), server(), server());
        for server in [&mut s, &mut t] {
            sent(&pool, &mut a, server, INSERT, true);
            answer(&mut a, server, "INSERT 0 1", TransactionStatus::Idle);
        }
        let told = sent(&pool, &mut a, &mut s, READ, true);
        assert!(told.contains("DISCARD SEQUENCES"), "{told:?}");
        answer(&mut a, &mut s, "SELECT 1", TransactionStatus::Idle);
        let told = sent(&pool, &mut a, &mut s, READ, true);
        assert!(!told.contains("DISCARD SEQUENCES"), "{told:?}");
    }

    #[test]
    fn our_own_requests_do_not_make_a_lease_a_used_one() {
        let (pool, mut a, mut s) = (Arc::default(), client(1), server());
        s.ask("SET work_mem = '1MB'", &mut Vec::new()).unwrap();
        sent(&pool, &mut a, &mut s, "BEGIN", true);
        answer(&mut a, &mut s, "BEGIN", TransactionStatus::InTransaction);
        assert!(s.is_untouched());
    }

    #[test]
    fn a_failed_transaction_is_not_asked_to_discard() {
        for (status, discards) in [
            (TransactionStatus::InTransaction, true),
            (TransactionStatus::Failed, false),
        ] {
            let (pool, mut a, mut s) = (Arc::default(), client(1), server());
            s.ask("SET work_mem = '1MB'", &mut Vec::new()).unwrap();
            sent(&pool, &mut a, &mut s, "BEGIN", true);
            answer(&mut a, &mut s, "BEGIN", status);
            s.sequences = SequenceValues::Foreign;
            let told = sent(&pool, &mut a, &mut s, READ, false);
            assert_eq!(told.contains("DISCARD SEQUENCES"), discards, "{told:?}");
        }
    }
}
