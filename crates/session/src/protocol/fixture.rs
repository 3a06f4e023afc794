//! A client and its server in a test: what each sends reaches the other through the relay.

use std::sync::Arc;
use std::time::Duration;

use weir_rules::{Bulkhead, Fits, Now, Rule, RuleId, Rules};
use weir_sql::{Functions, Judge, Shaper};
use weir_stats::{DigestFigures, Digests};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;

use crate::client::Client;
use crate::counted::{DigestGroup, Digesting};
use crate::relay::{self, Link, SequencePolicy, StatePolicy, replies, requests};
use crate::ruled::Ruling;
use crate::server::Server;
use crate::splice::Splice;
use crate::statement::{Proven, Registry};

/// A client and its server, whose statements are counted and ruled.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) server: Server,
    registry: Registry,
    proven: Arc<Proven>,
    judge: Judge,
    pub(crate) table: Digests,
    now_us: u64,
    pub(crate) policy: relay::Rules,
    pub(crate) rules: Rules,
    /// Bytes from the server that could not be passed on yet.
    left: Vec<u8>,
}

impl World {
    /// A world with these rules, which all fit the client.
    pub(crate) fn with_rules(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: Rules::new(rules, &mut |rule| {
                let limit = rule.concurrency?;
                Some(Bulkhead::new(limit.max, limit.queue_max))
            }),
            ..Self::new()
        }
    }

    pub(crate) fn new() -> Self {
        Self {
            client: Client::default(),
            server: Server::new(Arc::default()),
            registry: Registry::new(0, 1),
            proven: Arc::default(),
            judge: Judge::new(Functions::default()),
            table: Digests::new(100),
            now_us: 0,
            policy: relay::Rules {
                max_prepared: 10,
                tracks_unnamed: true,
                prepare_unnamed: 0,
                refuse_simple_query: false,
                message_max: u32::MAX,
                state: StatePolicy::Track,
                sequences: SequencePolicy::Learn,
            },
            rules: Rules::default(),
            left: Vec::new(),
        }
    }

    /// Sends the client's messages. Returns what the server gets.
    pub(crate) fn send(&mut self, messages: &[u8]) -> Vec<u8> {
        self.server.tick(self.now_us, 1_000);
        let shaper = Shaper::new(1);
        let group = DigestGroup::new("shop", "app");
        let mut fits = Fits::default();
        (0..64).for_each(|number| fits.insert(RuleId(number)));
        let mut link = Link {
            client: &mut self.client,
            server: &mut self.server,
            registry: &mut self.registry,
            judge: &mut self.judge,
            proven: &self.proven,
            rules: self.policy,
            digests: Some(Digesting {
                table: &mut self.table,
                shaper: &shaper,
                group: &group,
            }),
            ruling: (!self.rules.is_empty() || self.rules.allow_list().is_some()).then_some(
                Ruling {
                    rules: &mut self.rules,
                    fits: &fits,
                    shaper: &shaper,
                    now: Now {
                        unix: 0,
                        dice: 0,
                        client: 0,
                    },
                    hints: Some(|text| {
                        text.strip_suffix("ms")?
                            .parse()
                            .ok()
                            .map(Duration::from_millis)
                    }),
                },
            ),
        };
        let mut buffer = Vec::new();
        let mut out = Splice::new(messages, &mut buffer);
        let taken = requests(&mut link, messages, &mut out, &mut Vec::new()).unwrap();
        assert_eq!(taken.consumed, messages.len());
        out.finish().to_vec()
    }

    /// Passes on the server's messages after `us` microseconds. Returns what the client gets.
    pub(crate) fn answer(&mut self, us: u64, messages: &[u8]) -> Vec<u8> {
        self.now_us += us;
        self.server.tick(self.now_us, 1_000);
        let mut buffer = Vec::new();
        let mut out = Splice::new(messages, &mut buffer);
        let replied = replies(&mut self.client, &mut self.server, messages, &mut out).unwrap();
        assert_eq!(replied.consumed, messages.len());
        out.finish().to_vec()
    }

    /// Passes on what of the server's messages can be passed on, behind what was left before.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.left.extend_from_slice(bytes);
        let mut buffer = Vec::new();
        let mut out = Splice::new(&self.left, &mut buffer);
        let replied = replies(&mut self.client, &mut self.server, &self.left, &mut out).unwrap();
        out.finish();
        self.left.drain(..replied.consumed);
    }

    /// Figures of the statement with this text.
    pub(crate) fn figures(&self, text: &str) -> DigestFigures {
        let rows = self.table.show().rows;
        let mut found = rows.values().filter(|row| row.text == text);
        let figures = found.next().map(|row| row.figures.clone());
        assert!(found.next().is_none());
        figures.unwrap_or_default()
    }

    pub(crate) fn counts(&self, text: &str) -> (u64, u64, u64) {
        let figures = self.figures(text);
        (figures.calls, figures.errors, figures.rows)
    }
}

pub(crate) fn messages(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut messages = Vec::new();
    write(&mut messages);
    messages
}

pub(crate) fn query(text: &str) -> Vec<u8> {
    messages(|out| encode::query(out, text.as_bytes()).unwrap())
}

pub(crate) fn bind(out: &mut Vec<u8>, portal: &str, name: &str) {
    encode::bind_head(out, portal.as_bytes(), name.as_bytes(), 6).unwrap();
    out.extend_from_slice(&[0; 6]);
}

pub(crate) fn complete(out: &mut Vec<u8>, tag: &str) {
    encode::command_complete(out, tag.as_bytes()).unwrap();
}

pub(crate) fn error(out: &mut Vec<u8>, code: &str) {
    let fields = [(b'S', &b"ERROR"[..]), (b'C', code.as_bytes())];
    encode::error_response(out, &fields).unwrap();
}

pub(crate) fn ready(out: &mut Vec<u8>, status: TransactionStatus) {
    encode::ready_for_query(out, status).unwrap();
}

/// Messages without a body: ParseComplete `1`, BindComplete `2`, PortalSuspended `s`, EmptyQueryResponse `I`.
pub(crate) fn plain(out: &mut Vec<u8>, tags: &str) {
    tags.bytes()
        .for_each(|tag| out.extend_from_slice(&[tag, 0, 0, 0, 4]));
}

pub(crate) const IDLE: TransactionStatus = TransactionStatus::Idle;
