//! Tests of the order of messages.

use rand::SeedableRng as _;
use weir_wire::frame::{Side, frame};

use super::*;
use crate::load::plan::{CopyIn, Plan, Transaction};

/// Client and its server.
struct Talk {
    work: Work,
    random: Xoshiro256PlusPlus,
    conversation: Conversation,
    out: Vec<u8>,
}

impl Talk {
    fn new(protocol: Protocol, pipeline: u32, transaction: Transaction) -> Self {
        Self {
            work: Work::new(&Plan {
                protocol,
                pipeline,
                transactions: vec![transaction],
                ..Plan::new("")
            }),
            random: Xoshiro256PlusPlus::seed_from_u64(0),
            conversation: Conversation::default(),
            out: Vec::new(),
        }
    }

    /// Returns the tags of the messages sent since the last call.
    fn sent(&mut self) -> String {
        let mut tags = String::new();
        let mut rest = self.out.as_slice();
        while let Some(message) = frame(rest, Side::Frontend).unwrap() {
            tags.push(char::from(message.header.tag));
            rest = &rest[message.raw.len()..];
        }
        self.out.clear();
        tags
    }

    fn begin(&mut self) -> String {
        let mut turn = Turn {
            work: &self.work,
            random: &mut self.random,
            out: &mut self.out,
        };
        self.conversation.begin(&mut turn).unwrap();
        self.sent()
    }

    /// Feeds messages, given by their tags (a ReadyForQuery by its status). Returns the tags that are sent in
    /// response; the end of a transaction appears as `.`, after the error's code if it failed.
    fn hear(&mut self, messages: &str) -> String {
        let mut told = String::new();
        for message in messages.bytes() {
            let mut turn = Turn {
                work: &self.work,
                random: &mut self.random,
                out: &mut self.out,
            };
            let (tag, body): (u8, &[u8]) = match message {
                b'I' | b'T' => (b'Z', &[message]),
                b'F' => (b'Z', b"E"),
                b'E' => (b'E', b"SERROR\0C40001\0Mno\0\0"),
                other => (other, b""),
            };
            let over = self.conversation.hear(tag, body, &mut turn).unwrap();
            self.conversation.fill(&self.work, &mut self.out).unwrap();
            told.push_str(&self.sent());
            if let Some(over) = over {
                let code = over.failure.map(|failure| failure.code);
                told.push_str(&code.unwrap_or_default());
                told.push('.');
            }
        }
        told
    }
}

#[test]
fn statements_wait_for_one_another() {
    let transaction = Transaction::new(["BEGIN", "SELECT 1", "COMMIT"]);
    let mut talk = Talk::new(Protocol::Simple, 1, transaction);
    assert_eq!(talk.begin(), "Q");
    assert_eq!(talk.hear("CT"), "Q");
    assert_eq!(talk.hear("DCT"), "Q");
    assert_eq!(talk.hear("CI"), ".");
}

#[test]
fn a_pipeline_has_one_sync_for_each_batch() {
    let transaction = Transaction::new(["BEGIN", "SELECT 1", "COMMIT"]);
    let mut talk = Talk::new(Protocol::Extended, 2, transaction);
    assert_eq!(talk.begin(), "PBDEPBDES");
    assert_eq!(talk.hear("12nC12DCT"), "PBDES");
    assert_eq!(talk.hear("12nCI"), ".");
}

#[test]
fn what_is_confirmed_is_not_prepared_again() {
    let mut talk = Talk::new(Protocol::Prepared, 2, Transaction::new(["one", "two"]));
    assert_eq!(talk.begin(), "PBDEPBDES");
    // The second Parse fails.
    assert_eq!(talk.hear("12nCEI"), "40001.");
    assert_eq!(talk.begin(), "BDEPBDES");
    assert_eq!(talk.hear("2nC12nCI"), ".");
    assert_eq!(talk.begin(), "BDEBDES");
    assert_eq!(talk.hear("2nC2nCI"), ".");
    talk.conversation.reset();
    assert_eq!(talk.begin(), "PBDEPBDES");
}

#[test]
fn an_error_ends_the_transaction_and_is_rolled_back_if_need_be() {
    let transaction = Transaction::new(["BEGIN", "SELECT 1", "COMMIT"]);
    let mut talk = Talk::new(Protocol::Simple, 1, transaction);
    assert_eq!(talk.begin(), "Q");
    assert_eq!(talk.hear("CT"), "Q");
    assert_eq!(talk.hear("EF"), "Q");
    assert_eq!(talk.hear("CI"), "40001.");
    assert_eq!(talk.begin(), "Q");
    assert_eq!(talk.hear("EI"), "40001.");
}

#[test]
fn copy_data_waits_for_the_word_and_is_exact() {
    let mut transaction = Transaction::new(["SELECT 1", "COPY t FROM STDIN"]);
    transaction.statements[1].copy_in = Some(CopyIn {
        bytes: 10_000,
        line: 100,
    });
    let mut talk = Talk::new(Protocol::Extended, 8, transaction);
    assert_eq!(talk.begin(), "PBDES");
    assert_eq!(talk.hear("12DCI"), "Q");
    assert_eq!(talk.hear("G"), "ddc");
    assert_eq!(talk.hear("CI"), ".");
}

#[test]
fn copy_data_comes_in_lines_and_only_as_fast_as_it_leaves() {
    let bytes = 1 << 20;
    let mut transaction = Transaction::new(["COPY t FROM STDIN"]);
    transaction.statements[0].copy_in = Some(CopyIn { bytes, line: 3 });
    let mut talk = Talk::new(Protocol::Simple, 1, transaction);
    talk.begin();
    talk.conversation.copying = Some(0);
    let mut data = Vec::new();
    while talk.conversation.copying.is_some() {
        let before = data.len();
        talk.conversation.fill(&talk.work, &mut talk.out).unwrap();
        // No more data until these are sent.
        assert_eq!(talk.conversation.fill(&talk.work, &mut talk.out), Ok(0));
        let mut rest = talk.out.as_slice();
        while let Some(message) = frame(rest, Side::Frontend).unwrap() {
            data.extend_from_slice(message.body);
            rest = &rest[message.raw.len()..];
        }
        assert!(data.len() - before <= COPY_AHEAD + 8192);
        talk.out.clear();
    }
    let expected: Vec<u8> = b"xx\n".iter().copied().cycle().take(1 << 20).collect();
    assert!(data == expected);
}

#[test]
fn an_unexpected_copy_is_refused_and_both_sides_go_on() {
    let mut talk = Talk::new(Protocol::Simple, 1, Transaction::new(["COPY t FROM STDIN"]));
    assert_eq!(talk.begin(), "Q");
    assert_eq!(talk.hear("G"), "f");
    assert_eq!(talk.hear("EI"), "40001.");
    let mut talk = Talk::new(
        Protocol::Extended,
        1,
        Transaction::new(["COPY t FROM STDIN"]),
    );
    assert_eq!(talk.begin(), "PBDES");
    assert_eq!(talk.hear("12nG"), "fS");
    assert_eq!(talk.hear("EI"), "40001.");
}
