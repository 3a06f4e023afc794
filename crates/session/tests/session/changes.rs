//! Tables and paths change, and servers lose prepared statements. Clients get what PostgreSQL would tell each of them,
//! and no error that only the pool has caused.
//!
//! Every client waits for the end of each step, so that its replies do not depend on their order.

use proptest::prelude::*;
use weir_testkit::backend::{Backend, Database, Output};
use weir_testkit::cuts::{Cuts, Dice};
use weir_testkit::reading::outline;
use weir_testkit::say::{Say, say};

use crate::pooler::{Pooler, rules};

/// Number of tables; the column of each changes once.
const TABLES: usize = 4;

/// Texts to prepare. `place` is another table under each path, with other columns under `three`.
const TEXTS: [&str; TABLES + 1] = [
    "SELECT v FROM public.shape_0",
    "SELECT v FROM public.shape_1",
    "SELECT v FROM public.shape_2",
    "SELECT v FROM public.shape_3",
    "SELECT name FROM place",
];

const PATHS: [&str; 4] = ["one", "two", "three", "one,three"];

#[derive(Debug, Clone, Copy)]
enum Op {
    /// Changes a table's column to another type.
    Alter {
        table: usize,
    },
    Deallocate,
    Describe {
        text: usize,
    },
    /// Makes an unused server lose its prepared statements.
    Lose {
        server: usize,
    },
    Path {
        path: usize,
    },
    /// Prepares the statement, if necessary, and uses it at once.
    Run {
        text: usize,
        how: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (0..TABLES).prop_map(|table| Op::Alter { table }),
        1 => Just(Op::Deallocate),
        2 => (0..TEXTS.len()).prop_map(|text| Op::Describe { text }),
        2 => (0..3usize).prop_map(|server| Op::Lose { server }),
        2 => (0..PATHS.len()).prop_map(|path| Op::Path { path }),
        12 => (0..TEXTS.len(), 0..5usize).prop_map(|(text, how)| Op::Run { text, how }),
    ]
}

/// A client with a server of its own, which mirrors a client of the pool.
#[derive(Debug)]
struct Twin {
    direct: Backend,
    has: [bool; TEXTS.len()],
}

impl Twin {
    fn says(&mut self, op: Op) -> Option<Say> {
        let name = |text: usize| format!("s{text}");
        Some(match op {
            Op::Alter { table } => {
                let alter = format!(
                    "ALTER TABLE public.shape_{table} ALTER COLUMN v TYPE int USING v::int"
                );
                say().query(&alter)
            }
            Op::Deallocate => {
                self.has = [false; TEXTS.len()];
                say().query("deallocate all")
            }
            Op::Describe { text } => self.prepares(text).describe_statement(&name(text)).sync(),
            Op::Lose { .. } => return None,
            Op::Path { path } => say().query(&format!("set search_path to {}", PATHS[path])),
            Op::Run { text, how } => {
                let first = self.prepares(text);
                let bound = |say: Say| say.bind("", &name(text));
                match how {
                    0 => bound(first).execute("", 0).sync(),
                    1 => bound(first).describe_portal("").execute("", 0).sync(),
                    2 => bound(first).execute("", 0).flush().sync(),
                    3 => bound(first.describe_statement(&name(text)))
                        .execute("", 0)
                        .sync(),
                    _ => bound(first).flush().execute("", 0).sync(),
                }
            }
        })
    }

    fn prepares(&mut self, text: usize) -> Say {
        if std::mem::replace(&mut self.has[text], true) {
            say()
        } else {
            say().parse(&format!("s{text}"), TEXTS[text])
        }
    }

    /// Closes a statement whose table has changed, as drivers do. A statement under another path is kept.
    fn closes(&mut self, op: Op, heard: &str) -> Option<Say> {
        let (Op::Run { text, .. } | Op::Describe { text }) = op else {
            return None;
        };
        let fails = heard.contains("E(");
        if !fails || (text == TABLES && heard.contains("0A000")) {
            return None;
        }
        self.has[text] = false;
        Some(say().close_statement(&format!("s{text}")).sync())
    }
}

#[derive(Debug)]
struct Play {
    pooler: Pooler,
    twins: Vec<Twin>,
    cuts: Cuts,
    dice: Dice,
}

impl Play {
    fn new(clients: usize, servers: usize, max_prepared: usize, seed: u64) -> Self {
        let (pools, direct) = (Database::default(), Database::default());
        let mut pooler = Pooler::new(clients, servers, rules(max_prepared), Output::Buffered);
        pooler.share(&pools);
        let twin = || Twin {
            direct: Backend::open(&direct, "ann", &[]),
            has: [false; TEXTS.len()],
        };
        Self {
            pooler,
            twins: (0..clients).map(|_| twin()).collect(),
            cuts: Cuts::random(seed),
            dice: Dice::new(seed),
        }
    }

    /// Sends bytes in pieces. Returns what the client receives.
    fn hears(&mut self, client: usize, what: &Say) -> String {
        self.pooler.clients[client].got.clear();
        for piece in self.cuts.pieces(what) {
            self.pooler.client_sends(client, piece);
            if self.dice.below(2) == 0 {
                self.pooler.deliver_all();
            }
        }
        self.pooler.deliver_all();
        outline(&self.pooler.clients[client].got)
    }

    fn does(&mut self, client: usize, op: Op) -> Result<(), TestCaseError> {
        if let Op::Lose { server } = op {
            let servers = self.pooler.servers.len();
            self.pooler.lose_prepared(server % servers);
        }
        let Some(said) = self.twins[client].says(op) else {
            return Ok(());
        };
        let wanted = self.compare(client, &said)?;
        if let Some(close) = self.twins[client].closes(op, &wanted) {
            self.compare(client, &close)?;
        }
        Ok(())
    }

    fn compare(&mut self, client: usize, said: &Say) -> Result<String, TestCaseError> {
        let wanted = outline(&self.twins[client].direct.converse(said));
        let heard = self.hears(client, said);
        let words = String::from_utf8_lossy(said).into_owned();
        prop_assert_eq!(&heard, &wanted, "client {} said {:?}", client, words);
        prop_assert_eq!(self.pooler.clients[client].lease, None);
        Ok(wanted)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cor_16_every_client_hears_of_the_changes_that_concern_it(
        ops in prop::collection::vec((0..3usize, op()), 1..60),
        servers in 1..4usize,
        max_prepared in 1..6usize,
        seed in any::<u64>(),
    ) {
        let mut play = Play::new(3, servers, max_prepared, seed);
        for (client, op) in ops {
            play.does(client, op)?;
        }
    }
}
