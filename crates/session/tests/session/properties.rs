//! Random pipelines of several clients on several servers, cut anywhere and delivered in any order. Every client must
//! get, byte for byte, what a server of its own would have sent.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use weir_session::client::Client;
use weir_session::relay::{Rules, replies};
use weir_session::server::Server;
use weir_session::settings::Settings;
use weir_session::splice::Splice;
use weir_testkit::backend::{Backend, Database, Output};
use weir_testkit::cuts::{Cuts, Dice};
use weir_testkit::reading::{messages, outline};
use weir_testkit::say::{Say, say};
use weir_wire::backend::{TransactionStatus, tag};
use weir_wire::encode;

use crate::pooler::{Pooler, rules};

// === Scripts of clients ===

const NAMES: [&str; 4] = ["", "a", "b", "c"];

/// Texts of statements; few, so that clients share statements.
const TEXTS: [&str; 14] = [
    "row x",
    "row y",
    "rows 3 z",
    "do w",
    "begin",
    "commit",
    "rollback",
    "error now",
    "error parse",
    "copy in",
    "copy out 2",
    "notice n",
    "",
    "set application_name s",
];

#[derive(Debug, Clone, Copy)]
enum Op {
    Bind {
        portal: bool,
        name: usize,
    },
    ClosePortal {
        portal: bool,
    },
    CloseStatement {
        name: usize,
    },
    Copy {
        what: usize,
    },
    DescribePortal {
        portal: bool,
    },
    DescribeStatement {
        name: usize,
    },
    Execute {
        portal: bool,
        max_rows: i32,
    },
    Flush,
    Forget {
        discard: bool,
    },
    Function {
        oid: u32,
    },
    Own,
    Parse {
        name: usize,
        text: usize,
    },
    Query {
        text: usize,
        more: Option<usize>,
    },
    Run {
        name: usize,
    },
    Sync,
    /// Sends the messages so far and waits for all replies.
    Wait,
}

fn op() -> impl Strategy<Value = Op> {
    let name = || 0..NAMES.len();
    let text = || 0..TEXTS.len();
    prop_oneof![
        4 => (any::<bool>(), name()).prop_map(|(portal, name)| Op::Bind { portal, name }),
        1 => any::<bool>().prop_map(|portal| Op::ClosePortal { portal }),
        2 => name().prop_map(|name| Op::CloseStatement { name }),
        2 => (0..4usize).prop_map(|what| Op::Copy { what }),
        1 => any::<bool>().prop_map(|portal| Op::DescribePortal { portal }),
        3 => name().prop_map(|name| Op::DescribeStatement { name }),
        4 => (any::<bool>(), 0..3i32).prop_map(|(portal, max_rows)| Op::Execute { portal, max_rows }),
        2 => Just(Op::Flush),
        1 => any::<bool>().prop_map(|discard| Op::Forget { discard }),
        1 => (0..2u32).prop_map(|oid| Op::Function { oid }),
        2 => Just(Op::Own),
        6 => (name(), text()).prop_map(|(name, text)| Op::Parse { name, text }),
        5 => (text(), prop::option::of(text())).prop_map(|(text, more)| Op::Query { text, more }),
        8 => name().prop_map(|name| Op::Run { name }),
        8 => Just(Op::Sync),
        4 => Just(Op::Wait),
    ]
}

/// Script of a client: bursts, each with the number of reply bytes that must have arrived before it is sent.
#[derive(Debug, Default)]
struct Script {
    bursts: VecDeque<(Vec<u8>, usize)>,
    expected: Vec<u8>,
    said: Say,
}

/// Writes a script while a server of the client's own answers it.
#[derive(Debug, Default)]
struct Writer {
    script: Script,
    direct: Backend,
    burst: Say,
    got: Vec<u8>,
    witness: usize,
    client: usize,
    /// True if every other text is [`PLACE`].
    place: bool,
}

impl Writer {
    fn text(&self, text: usize) -> &'static str {
        if self.place && text.is_multiple_of(2) {
            PLACE
        } else {
            TEXTS[text]
        }
    }

    fn put(&mut self, what: Say) {
        let got = self.direct.converse(&what);
        self.got.extend(got);
        self.burst = std::mem::take(&mut self.burst).raw(&what);
    }

    fn wait(&mut self) {
        let burst = std::mem::take(&mut self.burst);
        if !burst.is_empty() {
            self.script.said = std::mem::take(&mut self.script.said).raw(&burst);
            let before = answered_len(&self.script.expected);
            self.script.bursts.push_back((burst.into_bytes(), before));
            self.script.expected.append(&mut self.got);
        }
    }

    fn perform(&mut self, op: Op) {
        if self.direct.is_copying() {
            return self.in_copy(op);
        }
        let portal = |portal| if portal { "p" } else { "" };
        let next = match op {
            Op::Bind { portal: p, name } => say().bind(portal(p), NAMES[name]),
            Op::ClosePortal { portal: p } => say().close_portal(portal(p)),
            Op::CloseStatement { name } => say().close_statement(NAMES[name]),
            Op::Copy { what: 0 } => say().copy_fail("late"),
            Op::Copy { .. } => say().copy_data("late"),
            Op::DescribePortal { portal: p } => say().describe_portal(portal(p)),
            // In a failed transaction a server cannot prepare a statement that it lacks, so a request fails (25P02)
            // that would succeed on a server that has it.
            Op::Parse { name, .. } if self.has_in_failed_transaction(name) => return,
            Op::DescribeStatement { .. } if self.direct.status() == TransactionStatus::Failed => {
                return;
            }
            Op::DescribeStatement { name } => say().describe_statement(NAMES[name]),
            Op::Execute {
                portal: p,
                max_rows,
            } => say().execute(portal(p), max_rows),
            Op::Flush => say().flush(),
            Op::Forget { discard } => say().query(if discard && !self.place {
                "discard all"
            } else {
                "deallocate all"
            }),
            Op::Function { oid } => say().function_call(oid),
            Op::Own => {
                self.witness += 1;
                say().query(&format!("row c{}_{}", self.client, self.witness))
            }
            Op::Parse { name, text } => say().parse(NAMES[name], self.text(text)),
            Op::Query { text, more: None } => say().query(TEXTS[text]),
            Op::Query {
                text,
                more: Some(more),
            } => say().query(&format!("{};{}", TEXTS[text], TEXTS[more])),
            Op::Run { name } => say().run(NAMES[name]),
            Op::Sync => say().sync(),
            Op::Wait => return self.wait(),
        };
        self.put(next);
    }

    fn has_in_failed_transaction(&self, name: usize) -> bool {
        self.direct.status() == TransactionStatus::Failed
            && self
                .direct
                .prepared()
                .any(|have| have == NAMES[name].as_bytes())
    }

    /// Performs only operations that are allowed in a COPY; any other ends the session.
    fn in_copy(&mut self, op: Op) {
        let next = match op {
            Op::Copy { what: 0 } => say().copy_fail("enough"),
            Op::Copy { what: 1 } => {
                // The client waits for the result, since no server could tell requests from COPY data.
                self.put(say().copy_data("bad").sync());
                return self.wait();
            }
            Op::Wait => return self.wait(),
            Op::Sync => say().sync(),
            Op::Flush => say().flush(),
            Op::Copy { .. } | Op::Execute { .. } => say().copy_data("line"),
            _ => say().copy_done(),
        };
        self.put(next);
    }

    fn finish(mut self) -> Script {
        self.put(say().copy_fail("end").sync());
        self.put(say().query("rollback"));
        self.wait();
        self.script
    }
}

fn script(client: usize, ops: &[Op]) -> Script {
    play(
        ops,
        Writer {
            client,
            ..Writer::default()
        },
    )
}

/// Text that replaces every other one in the Parses of a client with a path: it means another table under each.
const PLACE: &str = "select name from place";

fn path_of(client: usize) -> &'static str {
    ["one", "three", "two"][client % 3]
}

/// Does the same as [`script`] for a client that began with a `search_path`.
fn script_with_path(client: usize, ops: &[Op]) -> Script {
    let path = [("search_path", path_of(client))];
    let writer = Writer {
        client,
        direct: Backend::open(&Database::default(), "ann", &path),
        place: true,
        ..Writer::default()
    };
    play(ops, writer)
}

fn play(ops: &[Op], mut writer: Writer) -> Script {
    for op in ops {
        writer.perform(*op);
    }
    writer.finish()
}

// === Runs of scripts ===

#[derive(Debug)]
struct Run {
    pooler: Pooler,
    scripts: Vec<Script>,
    /// Bytes of the present burst that were not sent.
    unsent: Vec<Vec<u8>>,
    cuts: Cuts,
    dice: Dice,
}

impl Run {
    fn new(scripts: Vec<Script>, servers: usize, max_prepared: usize, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let output = if dice.below(2) == 0 {
            Output::Buffered
        } else {
            Output::Immediate
        };
        let cuts = match dice.below(4) {
            0 => Cuts::Bytes,
            1 => Cuts::Whole,
            _ => Cuts::random(seed),
        };
        let rules = Rules {
            // Values: never, from the second time on, from the third time on.
            prepare_unnamed: u32::try_from(seed % 3).unwrap(),
            ..rules(max_prepared)
        };
        Self {
            pooler: Pooler::new(scripts.len(), servers, rules, output),
            unsent: vec![Vec::new(); scripts.len()],
            scripts,
            cuts,
            dice,
        }
    }

    /// Plays one step after the other, in an order that the seed decides, until no step is possible.
    fn play_to_the_end(&mut self) {
        loop {
            let clients = (0..self.scripts.len()).filter(|c| self.can_send(*c));
            let servers = (0..self.pooler.servers.len())
                .filter(|s| !self.pooler.servers[*s].on_the_way.is_empty());
            let clients: Vec<usize> = clients.collect();
            let servers: Vec<usize> = servers.collect();
            let actors = clients.len() + servers.len();
            if actors == 0 {
                return;
            }
            let turn = self.dice.below(actors);
            match clients.get(turn) {
                Some(client) => self.send(*client),
                None => {
                    let server = servers[turn - clients.len()];
                    let len = self.pooler.servers[server].on_the_way.len();
                    self.pooler.server_sends(server, self.cuts.next_len(len));
                }
            }
        }
    }

    fn can_send(&self, client: usize) -> bool {
        let next = self.scripts[client].bursts.front();
        let got = answered_len(&self.pooler.clients[client].got);
        !self.unsent[client].is_empty() || next.is_some_and(|(_, before)| got >= *before)
    }

    fn send(&mut self, client: usize) {
        if self.unsent[client].is_empty() {
            let next = self.scripts[client].bursts.pop_front();
            self.unsent[client] = next.map(|(bytes, _)| bytes).unwrap_or_default();
        }
        let len = self.cuts.next_len(self.unsent[client].len());
        let piece: Vec<u8> = self.unsent[client].drain(..len).collect();
        self.pooler.client_sends(client, &piece);
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (client, script) in self.scripts.iter().enumerate() {
            let got = &self.pooler.clients[client].got;
            let said = String::from_utf8_lossy(&script.said).into_owned();
            prop_assert_eq!(
                outline(got),
                outline(&script.expected),
                "client {} said {:?}",
                client,
                said
            );
            prop_assert_eq!(got, &script.expected);
            prop_assert!(script.bursts.is_empty(), "client {} is stuck", client);
            prop_assert_eq!(self.pooler.clients[client].lease, None);
        }
        for server in &self.pooler.servers {
            prop_assert!(server.session.is_free());
            prop_assert_eq!(server.session.owed_replies(), 0);
            prop_assert_eq!(server.believed_prepared(), server.really_prepared());
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_client_gets_what_it_would_get_directly(
        ops in prop::collection::vec(prop::collection::vec(op(), 1..40), 1..4),
        servers in 1..4usize,
        max_prepared in 1..4usize,
        seed in any::<u64>(),
    ) {
        let scripts = ops.iter().enumerate().map(|(client, ops)| script(client, ops)).collect();
        let mut run = Run::new(scripts, servers, max_prepared, seed);
        run.play_to_the_end();
        run.check()?;
    }

    #[test]
    fn cor_15_every_client_gets_it_under_a_search_path_of_its_own(
        ops in prop::collection::vec(prop::collection::vec(op(), 1..40), 1..5),
        servers in 1..3usize,
        max_prepared in 1..4usize,
        seed in any::<u64>(),
    ) {
        let scripts = ops.iter().enumerate();
        let scripts = scripts.map(|(client, ops)| script_with_path(client, ops)).collect();
        let mut run = Run::new(scripts, servers, max_prepared, seed);
        for client in 0..ops.len() {
            let settings = Settings::from_pairs([("search_path", path_of(client))]);
            run.pooler.begins_with(client, settings);
        }
        run.play_to_the_end();
        run.check()?;
    }

    #[test]
    fn cor_19_what_comes_unasked_belongs_to_no_reply(
        ops in prop::collection::vec(op(), 1..40),
        seed in any::<u64>(),
    ) {
        let mut run = Run::new(vec![script(0, &ops)], 1, 2, seed);
        run.pooler.unasked = Some(unasked());
        run.play_to_the_end();
        let got = &run.pooler.clients[0].got;
        prop_assert_eq!(without_unasked(got), without_unasked(&run.scripts[0].expected));
        prop_assert!(run.pooler.servers[0].session.is_free());
    }
}

/// Returns a notice, a notification and a parameter.
fn unasked() -> Vec<u8> {
    let mut bytes = Vec::new();
    let fields = [
        (b'S', &b"NOTICE"[..]),
        (b'V', b"NOTICE"),
        (b'C', b"00000"),
        (b'M', b"psst"),
    ];
    encode::notice_response(&mut bytes, &fields).unwrap();
    encode::notification_response(&mut bytes, 7, b"channel", b"").unwrap();
    encode::parameter_status(&mut bytes, b"in_hot_standby", b"off").unwrap();
    bytes
}

fn is_answer(tag: u8) -> bool {
    !matches!(
        tag,
        tag::NOTICE_RESPONSE | tag::NOTIFICATION_RESPONSE | tag::PARAMETER_STATUS
    )
}

fn answered_len(bytes: &[u8]) -> usize {
    let answers = messages(bytes).0;
    let answers = answers.iter().filter(|message| is_answer(message.tag));
    answers.map(|message| message.raw.len()).sum()
}

fn without_unasked(bytes: &[u8]) -> String {
    let (all, rest) = messages(bytes);
    let kept = all.iter().filter(|message| is_answer(message.tag));
    let kept: Vec<&[u8]> = kept.map(|message| message.raw).collect();
    outline(&[kept.concat().as_slice(), rest].concat())
}

#[test]
fn a_reported_value_of_any_length_arrives_in_one_piece() {
    let mut server = Server::new(Arc::default());
    let mut client = Client::default();
    let value = "one_schema,".repeat(5_000);
    let mut message = Vec::new();
    encode::parameter_status(&mut message, b"search_path", value.as_bytes()).unwrap();
    for cut in [6, 100, 40_000, message.len() - 1] {
        let mut buffer = Vec::new();
        let mut out = Splice::new(&message[..cut], &mut buffer);
        let replied = replies(&mut client, &mut server, &message[..cut], &mut out).unwrap();
        assert_eq!((replied.consumed, out.finish().len()), (0, 0), "{cut}");
    }
    let mut buffer = Vec::new();
    let mut out = Splice::new(&message, &mut buffer);
    replies(&mut client, &mut server, &message, &mut out).unwrap();
    assert_eq!(out.finish(), message);
    assert_eq!(server.reported().get("search_path"), Some(&*value));
}

/// Repeats cases in which a Parse of ours once preceded a Bind although the client's own Parse was skipped.
#[test]
fn a_parse_that_is_skipped_behind_a_reset_leaves_no_statement() {
    let statement = |text| Op::Parse { name: 2, text };
    let bind = Op::Bind {
        portal: false,
        name: 2,
    };
    let fails = Op::DescribePortal { portal: false };
    for (discard, last) in [(true, bind), (false, Op::Run { name: 2 })] {
        for text in 0..TEXTS.len() {
            let ops = [
                Op::Forget { discard },
                fails,
                statement(text),
                Op::Sync,
                last,
                Op::Sync,
            ];
            for seed in 0..60 {
                let mut run = Run::new(vec![script(0, &ops)], 1, 2, seed);
                run.play_to_the_end();
                run.check().unwrap();
            }
        }
    }
}
